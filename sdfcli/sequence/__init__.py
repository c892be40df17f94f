"""Sequences: a moving mesh's fields, frame by frame."""
