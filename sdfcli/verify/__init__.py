"""Errors, estimates and checks."""
