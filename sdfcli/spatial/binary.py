"""BinaryIndex: the thesis's radix tree queries, one thread per point."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.radix_tree import Bvh


class BinaryIndex(DistanceIndex):
    """`baseline`, `soa`, `cct`: depth-first search of the radix tree with a stack (the thesis, section 2.3).

    `baseline` reads 32-byte nodes, an array of structures; `soa` a structure of arrays; `cct` visits the closer child
    first.
    """

    def __init__(self, backend: Backend, bvh: Bvh, query: str) -> None:
        super().__init__(backend, bvh.order)
        self.bvh, self._query = bvh, query
        self._node: Array | None = None
        if query == "baseline":
            self._node = backend.xp.concatenate([bvh.box, bvh.child.view(np.float32)], axis=1)

    def _run(self, points: Array, distance: Array, slot: Array, seed: Array | None, counts: dict[str, Array]) -> None:
        self.backend.run(
            f"sdf_distance_{self._query}{'_counted' if counts else ''}",
            len(points),
            node=self._node,
            child=self.bvh.child,
            box=self.bvh.box,
            **self._shared(points, distance, slot, seed, counts),
        )
