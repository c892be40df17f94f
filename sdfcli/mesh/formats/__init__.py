"""Mesh files: a reader for each format."""
