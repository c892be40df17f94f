"""Octrees over a mesh: growth, corners, quantisation."""
