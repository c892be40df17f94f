"""Exact distances to a mesh, nearest neighbours, contacts, and point files."""
