"""Space-filling curves, trees over triangles, nearest-triangle queries, winding numbers."""
