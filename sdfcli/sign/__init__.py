"""Inside or outside."""
