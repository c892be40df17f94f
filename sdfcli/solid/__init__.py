"""Solids from any triangles: the outside is flooded, all else is solid."""
