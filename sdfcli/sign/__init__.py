"""Distance signs: inside or outside."""
