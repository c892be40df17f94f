"""What a build is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sdfcli.errors import UsageError

OCTREES = ("adaptive", "bvh")
SIGNS = ("auto", "pseudonormal", "winding", "none")
QUERIES = ("fast", "baseline", "soa", "cct")
MAX_DEPTH = 16
DEFAULT_DEPTH = 10
FINEST_CELL = 1.5


@dataclass(frozen=True)
class BuildParams:
    """Parameters of a build. Raises UsageError for values out of range.

    octree     `adaptive`: cells are split while the trilinear field misses the true distance (Frisken 2000);
               `bvh`: while a node of the BVH lies in them (the density-driven octree of the thesis).
    depth      the finest level: a cell there is 2^-depth of the domain's edge. None: 10, or as many levels as it takes
               to bring the finest cells down to one and a half tolerances.
    tolerance  the largest error, as a fraction of the diagonal of the mesh's bounding box.
    band       distance from the surface, as such a fraction, up to which the tolerance is absolute; outside it grows
               with the distance, as distance / band.
    sign       how inside and outside are told apart.
    query      how distances are found: `fast`, or as a variant of the thesis does it. The field is the same.
    """

    octree: str = "adaptive"
    depth: int | None = None
    tolerance: float = 1e-3
    band: float = 0.02
    sign: str = "auto"
    query: str = "fast"

    def __post_init__(self) -> None:
        for name, allowed in (("octree", OCTREES), ("sign", SIGNS), ("query", QUERIES)):
            if getattr(self, name) not in allowed:
                raise UsageError(f"--{name} {getattr(self, name)}: use {', '.join(allowed)}")
        if self.depth is not None and (not 1 <= self.depth <= MAX_DEPTH or self.depth != int(self.depth)):
            raise UsageError(f"--depth {self.depth}: use 1 to {MAX_DEPTH}")
        for name in ("tolerance", "band"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 < value < 1):
                raise UsageError(f"--{name} {value}: use a fraction of the diagonal between 0 and 1")

    def depth_limit(self, diagonal: float) -> int:
        """The finest level for a mesh whose diagonal is this fraction of the domain's edge."""
        if self.depth is not None:
            return self.depth
        needed = math.ceil(math.log2(1 / (FINEST_CELL * self.tolerance * diagonal)))
        return min(max(DEFAULT_DEPTH, needed), MAX_DEPTH)

    def as_dict(self) -> dict[str, Any]:
        """The parameters by name, without the one that has no say in the result."""
        return {name: value for name, value in self.__dict__.items() if name != "query"}
