"""Builds of one or many meshes: inputs, processes, outcomes."""
