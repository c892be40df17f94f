"""Figures from the shifted sort paper's tables.

Park, Implementation of Parallel k-Approximate Nearest Neighbor Search using Six Dimensional Shifted Sort with CUDA,
Journal of Digital Contents Society 20(3), 2019, doi 10.9728/dcs.2019.20.3.605: k = 8, 512 threads per block, the horse,
with its boxes as 6-D and its vertices as 3-D vectors.
"""

from __future__ import annotations

GPU = "NVIDIA GeForce RTX 2080 Ti"
CPU = "Intel Core i7-8700"

K = 8
BLOCK = 512
DATA = {"6-D": 39_698, "3-D": 19_851}
"""Data vector counts."""

METHODS = ("6-D", "ANN 6-D", "3-D", "ANN 3-D")
"""Table 4 columns: the shifted sort on the GPU, and the library ANN on the CPU."""

UNIT = "ms (inferred)"
"""The paper gives no unit; milliseconds imply a plausible 10 us per ANN query on one core."""

MILLISECONDS: dict[int, tuple[float, float, float, float]] = {
    2**12: (5, 66, 10, 40),
    2**13: (10, 109, 12, 71),
    2**14: (7, 211, 11, 137),
    2**15: (15, 343, 20, 276),
    2**16: (22, 702, 24, 543),
    2**17: (38, 1266, 39, 1149),
    2**18: (70, 2676, 64, 2133),
    2**19: (130, 5257, 113, 4288),
    2**20: (248, 10265, 217, 8530),
    2**21: (475, 20102, 387, 16824),
    2**22: (902, 39527, 740, 33148),
    2**23: (1800, 77725, 1459, 65757),
}
"""Table 4, by query count. Table 5 repeats its first and third column."""


def milliseconds(queries: int, k: int) -> dict[str, float]:
    """Table 4 row, by METHODS; empty for another k or query count."""
    return dict(zip(METHODS, MILLISECONDS[queries], strict=True)) if k == K and queries in MILLISECONDS else {}
