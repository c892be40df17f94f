"""Signs of distances: inside or outside."""
