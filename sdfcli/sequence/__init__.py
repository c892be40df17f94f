"""Sequences: fields of a moving mesh, frame after frame."""
