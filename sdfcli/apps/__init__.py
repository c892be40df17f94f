"""Applications of the core, each with commands of its own: the core imports none of them."""
