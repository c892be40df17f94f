"""Measurements, side by side with the thesis's own."""
