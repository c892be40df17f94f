"""Field errors, build estimates, mesh checks."""
