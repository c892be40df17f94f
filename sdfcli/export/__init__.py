"""Export of fields to the formats of other programs, one module per format."""
