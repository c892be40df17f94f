"""Scenes with cooked fields, and with simulators' own: `python tools/cook_bench` compares them."""
