"""Particle-based water by the explicit moving-particle semi-implicit (MPS) method, with fields as walls."""
