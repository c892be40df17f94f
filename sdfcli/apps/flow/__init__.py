"""Water as particles: the explicit moving-particle semi-implicit method, with fields as walls."""
