"""Figures from the particle layout paper's text.

Tomioka, Tominaga, Yoshida: Bucket-Ordered Data Layout for MPS Method on GPUs, measured on an NVIDIA RTX A5500: 2,000
steps of a dam break with 19,136 particles. Figure 3 has further settings without numbers; the paper does not say
whether output is included.
"""

from __future__ import annotations

GPU = "NVIDIA RTX A5500"
STEPS = 2000
PARTICLES = 19_136

SECONDS = {128: {"index": 2.596, "bucket": 1.828}, 256: {"index": 2.592, "bucket": 1.809}}
"""Section 4.2: seconds by block size in threads, and layout."""
