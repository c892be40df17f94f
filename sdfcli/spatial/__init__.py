"""Triangles along a curve, the trees over them, and the nearest triangle."""
