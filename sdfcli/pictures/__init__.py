"""Pictures of fields: shaded level sets and slices."""
