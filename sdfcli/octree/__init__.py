"""Octrees over a mesh, and their corners."""
