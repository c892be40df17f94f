"""Errors of fields, estimates of builds, checks of meshes."""
