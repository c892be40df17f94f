"""Builds of one mesh or many: inputs, processes, outcomes."""
