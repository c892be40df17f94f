"""Figures of the paper on layouts of particles, as in its text.

Tomioka, Tominaga, Yoshida: Bucket-Ordered Data Layout for MPS Method on GPUs, measured on an NVIDIA RTX A5500: 2,000
steps of a dam break of 19,136 particles. Its figure 3 has other settings, too, but no numbers; whether output is
included is not said.
"""

from __future__ import annotations

GPU = "NVIDIA RTX A5500"
STEPS = 2000
PARTICLES = 19_136

SECONDS = {128: {"index": 2.596, "bucket": 1.828}, 256: {"index": 2.592, "bucket": 1.809}}
"""Section 4.2: seconds by threads of a block and layout."""
