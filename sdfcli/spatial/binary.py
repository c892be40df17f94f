"""BinaryIndex: the thesis's radix tree queries, one thread per point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.backend.base import WARP
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.radix_tree import Bvh

WALKS = ("baseline", "soa", "cct", "vectors", "deferred", "components")
"""BinaryIndex's queries, in the order of TrafficWalk in kernels/distance/traffic.h."""


class BinaryIndex(DistanceIndex):
    """Depth-first search of the radix tree with a stack (the thesis, sections 2.3, 3.3, 3.4).

    `baseline` reads 32-byte nodes whole, an array of structures; `soa` a structure of two arrays; both test the boxes
    of leaves, too, and visit the left child first. `cct` visits the closer child first, in the two arrays.

    For comparison: `vectors` is `baseline` by loads of 16 bytes instead of 4; `components` is `soa` with an array per
    component; `deferred` reads a structure's children after its box has passed, and tests leaves without their boxes.
    """

    def __init__(self, backend: Backend, bvh: Bvh, query: str) -> None:
        super().__init__(backend, bvh.order)
        self.bvh, self._query = bvh, query
        xp = backend.xp
        box, child = bvh.box, bvh.child
        if query not in ("cct", "deferred"):
            box = xp.concatenate([box, _leaf_boxes(xp, bvh)])
            leaf = xp.asarray([[0, C.NONE]], np.uint32).repeat(len(bvh.order), axis=0)
            child = xp.concatenate([child, leaf]) if query != "soa" else child
        self._tree: dict[str, Array | None] = {"node": None, "child": child, "box": box}
        if query not in ("cct", "soa"):
            node = xp.concatenate([box, child.view(np.float32)], axis=1)
            node = xp.ascontiguousarray(node.T) if query == "components" else node
            self._tree = {"node": node, "child": None, "box": None}

    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        self.backend.run(
            f"sdf_distance_{self._query}{'_counted' if counts else ''}",
            len(points),
            **self._tree,
            **self._shared(points, distance, slot, seed, counts),
        )

    def traffic(self, points: Array) -> Traffic:
        """Loads of `nearest` at the points, in warps of 32 consecutive ones; see kernels/distance/traffic.h."""
        backend, n = self.backend, len(points)
        xp, warps = backend.xp, -(-n // WARP)
        tests = {name: xp.empty(n, np.uint32) for name in ("boxes", "tests")}
        query = self._shared(points, *self._answers(points), None, tests)
        counts = {name: xp.empty(warps, np.uint64) for name in ("requests", "sectors", "active")}
        counts["steps"] = xp.empty(warps, np.uint32)
        backend.run(
            "sdf_distance_traffic",
            warps,
            walk=WALKS.index(self._query),
            query=backend.group("StackQuery", n=n, **self._tree, **query),
            **counts,
        )
        return Traffic(**{name: backend.to_host(count) for name, count in counts.items()})


@dataclass(frozen=True)
class Traffic:
    """A query's loads from memory, by warp: arrays (warps,).

    requests  load instructions.
    sectors   distinct 32-byte sectors of each, summed.
    steps     nodes popped by the warp: the most of its threads.
    active    threads active in the steps, summed.
    """

    requests: Any
    sectors: Any
    steps: Any
    active: Any


def _leaf_boxes(xp: Any, bvh: Bvh) -> Array:
    """The triangles' boxes (n, 6) float32, with the margin of inner nodes' boxes."""
    corner = bvh.order.triangle.reshape(-1, 3, 3)
    margin = np.float32(C.BOX_MARGIN)
    return xp.concatenate([corner.min(axis=1) - margin, corner.max(axis=1) + margin], axis=1)
