"""Exact distances from a mesh."""
