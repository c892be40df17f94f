"""Many meshes: which ones, who builds them, and what came of each."""
