"""Fields cooked for simulators: the collision meshes of an asset become files that a simulator loads."""
