"""Isosurfaces of fields and volumes."""
