"""Pictures of fields: of a level set, and of the values in a plane."""
