"""Benchmarks, with the thesis's figures."""
