"""Figures from the tables in the thesis behind this program.

Taniguchi, master's thesis, Japan Advanced Institute of Science and Technology, December 2025, measured on an NVIDIA
GeForce RTX 3080. Baseline is the thesis's reproduction of BADF (Chen et al. 2022).
"""

from __future__ import annotations

import re
from pathlib import Path

GPU = "NVIDIA GeForce RTX 3080"

VARIANTS = ("baseline", "soa", "cct")
"""Columns in Tables 4.1 to 4.4: Baseline, SoA, SoA + CCT."""

QUERY: dict[str, dict[str, tuple[float, float, float]]] = {
    "bunny": {
        "ms": (5.43, 3.79, 1.22),
        "dram_sectors": (0.44e6, 0.21e6, 1.05e6),
        "load_requests": (50.5e6, 39.5e6, 4.0e6),
        "load_sectors": (547.6e6, 350.4e6, 26.7e6),
        "sectors_per_request": (10.84, 8.87, 6.65),
    },
    "armadillo": {
        "ms": (10.57, 7.47, 1.95),
        "dram_sectors": (6.67e6, 2.86e6, 4.63e6),
        "load_requests": (78.2e6, 60.9e6, 6.4e6),
        "load_sectors": (1_074e6, 707.7e6, 41.3e6),
        "sectors_per_request": (13.73, 11.61, 6.45),
    },
    "dragon": {
        "ms": (29.92, 20.40, 5.07),
        "dram_sectors": (83.0e6, 61.9e6, 19.7e6),
        "load_requests": (240.0e6, 190.2e6, 16.8e6),
        "load_sectors": (3_390e6, 2_290e6, 105.3e6),
        "sectors_per_request": (14.13, 12.04, 6.25),
    },
    "buddha": {
        "ms": (32.16, 23.55, 5.29),
        "dram_sectors": (126.3e6, 97.6e6, 21.5e6),
        "load_requests": (245.3e6, 202.6e6, 17.5e6),
        "load_sectors": (3_158e6, 2_242e6, 113.7e6),
        "sectors_per_request": (12.87, 11.07, 6.48),
    },
}
"""Tables 4.1 to 4.4, one distance query launch, by VARIANTS: milliseconds, 32-byte sectors read from DRAM, load
requests to L1, sectors loaded from L1, and sectors per request."""

QUERY_SPEEDUP = {
    "bunny": {"soa": 1.43, "cct": 4.46},
    "armadillo": {"soa": 1.41, "cct": 5.42},
    "dragon": {"soa": 1.47, "cct": 5.90},
    "buddha": {"soa": 1.37, "cct": 6.08},
}
"""Table 4.5: distance query speed-up over Baseline."""

BUILD_MS = {
    "bunny": {"baseline": (6.27, 4.26), "cct": (3.10, 1.12)},
    "armadillo": {"baseline": (8.81, 6.01), "cct": (3.62, 1.90)},
    "dragon": {"baseline": (30.82, 26.79), "cct": (8.30, 4.87)},
    "buddha": {"baseline": (34.69, 30.62), "cct": (8.85, 5.04)},
}
"""Tables 2.1 and 4.6: milliseconds for the whole build and its distance query."""

BUILD_SPEEDUP = {"bunny": 2.02, "armadillo": 2.43, "dragon": 3.71, "buddha": 3.92}
"""Table 4.6: whole build speed-up with SoA + CCT over Baseline."""


def query(model: str) -> dict[str, dict[str, float | None]]:
    """One model's figures in QUERY, by variant."""
    return {variant: {name: row[i] for name, row in QUERY[model].items()} for i, variant in enumerate(VARIANTS)}


_FILES = {
    "bunny": "bunny",
    "bun_zipper": "bunny",
    "armadillo": "armadillo",
    "dragon": "dragon",
    "dragon_vrip": "dragon",
    "buddha": "buddha",
    "happy": "buddha",
    "happy_buddha": "buddha",
    "happy_vrip": "buddha",
}


def model_of(path: str | Path) -> str | None:
    """The thesis's model by file name: `bunny`, `armadillo`, `dragon`, `buddha`, or None.

    Only whole names match, optionally prefixed by `stanford`: dragon_vrip_res2.ply is a smaller mesh.
    """
    name = re.sub(r"[^a-z0-9]+", "_", Path(path).stem.lower())
    return _FILES.get(name.removeprefix("stanford_"))
