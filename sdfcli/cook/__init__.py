"""Fields cooked for simulators: the collision meshes of an asset become what a simulator loads."""
