"""Benchmarks and profiles, compared with figures from papers."""
