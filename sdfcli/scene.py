"""A mesh on a device: its sorted triangles, the trees over them and the signer, each built on first use.

Where memory is scarce (see MemoryPolicy), a tree is freed after use and rebuilt for its next use.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol

from sdfcli.backend import Array, Backend
from sdfcli.backend.timing import Stages
from sdfcli.mesh.mesh import GIVEN, Mesh
from sdfcli.sign.choice import SignChoice, choose_sign, settle_sign
from sdfcli.sign.diagnose import Crossing, crossing_faces
from sdfcli.sign.signer import Signer
from sdfcli.spatial.binary import BinaryIndex
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order, morton, sort
from sdfcli.spatial.query_pool import QueryPool
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit
from sdfcli.spatial.select import make_index, walks_radix_tree

INDEX_BYTES, KEPT_SHARE = 120, 64
"""Bytes per triangle for a tree; a rarely used tree is retained up to 1 / KEPT_SHARE of memory."""


class Seeds(Protocol):
    """Nearest-triangle candidates (see query/warm_start.py)."""

    def seeds(self, points: Array) -> Array:
        """Slots (m, k) uint32 for points (m, 3) float32 in the unit cube."""


class Scene:
    """See above. Reading `signer`, `index` or `order` builds it.

    mesh, choice: from `choose_sign`. query: one of params.QUERIES. lean: whether the trees are larger than the data
    built with them, so that only one exists at once where memory is scarce. memory: available bytes; trees that take a
    small share are retained. one_tree: whether only one tree may exist at once. signer: an existing one, if any.
    stages: build seconds by stage. coherent: whether an earlier frame's triangles speed up queries; known once the
    index exists. query_pool: helpers for an octree's queries; None: no helpers.
    """

    def __init__(
        self,
        backend: Backend,
        mesh: Mesh,
        choice: SignChoice,
        query: str = "fast",
        *,
        lean: bool = False,
        memory: int | None = None,
        signer: Signer | None = None,
        stages: Stages | None = None,
    ) -> None:
        self.backend, self.mesh, self.stages = backend, mesh.on(backend), stages or Stages()
        self._choice = choice
        self._crossing: Crossing | None = None
        self._uncounted = False  # crossing faces
        self.warm_start: Seeds | None = None
        self.query_pool: QueryPool | None = None
        self._frees = backend.memory.scarce and (memory or 0) < KEPT_SHARE * INDEX_BYTES * len(mesh.faces)
        self._query, self.one_tree = query, lean and self._frees
        self._settled = signer
        self._order: Order | None = None
        self._bvh: Bvh | None = None
        self._index: DistanceIndex | None = None
        self.coherent = False

    @classmethod
    def of(cls, mesh: Mesh, sign: str, backend: Backend, query: str = "fast", **options: Any) -> Scene:
        """A mesh's scene, with the choice for `sign`, one of params.SIGNS."""
        return cls(backend, *choose_sign(mesh.on(backend), sign), query, **options)

    def __getstate__(self) -> dict[str, Any]:
        _ = self.choice  # copies do not wait for the crossing-face count
        return self.__dict__

    def sort(self) -> Order:
        """Computes and returns the Morton order."""
        with self.stages("morton", self.backend):
            mesh = self.mesh.on_device
            keys = morton(mesh)
        with self.stages("sort", self.backend):
            self._order = sort(mesh, keys)
        self.mesh.release(GIVEN)
        return self._order

    @property
    def order(self) -> Order:
        """(a) The triangles in Morton order."""
        return self.sort() if self._order is None else self._order

    @property
    def bvh(self) -> Bvh:
        """(b) The radix tree over them."""
        if self._bvh is None:
            self._bvh = self._build_bvh()
        return self._bvh

    @cached_property
    def signer(self) -> Signer:
        """The signer for the chosen method; see sign/choice.py."""
        bvh, signer = self.bvh, self._settled
        with self.stages("sign", self.backend):
            if signer is not None:
                if not self.one_tree:
                    signer.rebuild(bvh)
                return signer
            settled = settle_sign(self.backend, self.mesh, bvh, self._choice, lazy=self.one_tree)
            self._choice, signer, counted = settled
            self._uncounted = not counted
        return signer

    def count_crossing(self) -> None:
        """Starts counting the faces that cross others, if the signer did not need the count; the device may take
        milliseconds."""
        if self._uncounted:
            self._bvh = self._bvh or self._build_bvh()
            counts = partial(crossing_faces, self.backend, self._bvh)
            # Low-priority work ends long after its stage, which then reports host time only.
            with self.stages("sign", None if self.ample_memory else self.backend):
                self._crossing = self.backend.low_priority(counts) if self.ample_memory else counts()
            self._uncounted = False
            if self.settled:
                self._forget_bvh()

    @property
    def choice(self) -> SignChoice:
        """The sign choice, settled with the signer. Waits for the crossing-face count."""
        self.count_crossing()
        if self._crossing:
            crossing, self._crossing = self._crossing, None
            self._choice = replace(self._choice, crossing=crossing(lambda: self._bvh or self._build_bvh()))
            self._forget_bvh()
        return self._choice

    @property
    def requested(self) -> str | None:
        """The sign method if the user requested one, else None; does not wait for the crossing-face count."""
        return self._choice.method if self._choice.requested else None

    @property
    def settled(self) -> bool:
        """Whether the signer exists."""
        return "signer" in self.__dict__

    @property
    def signed(self) -> bool:
        """Whether distances are signed."""
        return self.signer.method != "none"

    @property
    def index(self) -> DistanceIndex:
        """(d) The nearest-triangle index. Where memory is scarce, it replaces the signer's trees."""
        if self._index is None:
            self.release_sign_data()
        return self.unsigned_index

    @property
    def unsigned_index(self) -> DistanceIndex:
        """The index, also before the sign method is settled; data needed only for that stays until
        `release_sign_data`."""
        if self._index is None:
            self._index = self._build_index()
            self.coherent = self._index.coherent
        return self._index

    @property
    def reference(self) -> DistanceIndex:
        """An index for few points: the radix tree itself if only one tree may exist and the index does not exist."""
        alone = self.one_tree and self._index is None
        return BinaryIndex(self.backend, self.bvh, "cct") if alone else self.index

    def nearest(self, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
        """`nearest` for octree points; see DistanceIndex. seed: (m, k), known to the octree; ignored by the thesis's
        queries. Warm-start slots come first."""
        index, earlier = self.index, self._earlier(points)
        seeds = [rows for rows in (earlier, seed if index.seeds else None) if rows is not None]
        if len(seeds) > 1:
            seeds = [self.backend.xp.concatenate(seeds, axis=1)]
        first = seeds[0] if seeds else None
        return self.query_pool.nearest(index, points, first) if self.query_pool else index.nearest(points, first)

    def nearest_by_level(self, position: Array, near: Array, ends: list[int]) -> tuple[Array, Array]:
        """`nearest` for octree corners; see DistanceIndex."""
        return self.index.nearest_by_level(position, near, ends, self._earlier(position))

    def _earlier(self, points: Array) -> Array | None:
        """Warm-start slots (m, 1) uint32 for points (m, 3); None without a warm start, or where the slots do not pay
        off."""
        return self.warm_start.seeds(points) if self.warm_start and self.index.coherent else None

    def release_sign_data(self) -> None:
        """Frees data needed only for the sign choice, before a large allocation."""
        signer = self.signer
        if self.one_tree:
            signer.release()
        self._forget_bvh()
        self.mesh.release()
        with self.stages("sign", self.backend):
            signer.prepare()
        self.mesh.release()
        self.backend.release_cached()

    @property
    def ample_memory(self) -> bool:
        """Whether device time matters more than memory, as the trees take only a small share."""
        return self.backend.memory.scarce and not self._frees

    @property
    def defers_count(self) -> bool:
        """Whether crossing faces are best counted while the device has little else to do."""
        return self._uncounted and self.ample_memory

    def _forget_bvh(self) -> None:
        counts = self._uncounted or self._crossing is not None
        if not walks_radix_tree(self._query) and not (counts and self.ample_memory):
            self._bvh = None

    def release_index(self) -> None:
        """Called after a build's last query: frees the index where memory is scarce."""
        if self._frees:
            self._index = None

    def restore_index(self, leaves: int) -> None:
        """Called before a few points are queried while a field exists. Rebuilds the index if it was freed because only
        one tree may exist, and the field has at least as many leaves as the mesh has triangles. Field and index then
        take less memory than index and octree corners did."""
        if self.one_tree and not walks_radix_tree(self._query) and leaves >= len(self.order):
            _ = self.index

    def before_signs(self) -> None:
        """Called between queries and their points' signs: frees the index if only one tree may exist."""
        if self.one_tree:
            self._index = None

    def _build_bvh(self) -> Bvh:
        order = self.order
        with self.stages("tree", self.backend):
            bvh = build_bvh(self.backend, order)
        with self.stages("refit", self.backend):
            return refit(self.backend, bvh)

    def _build_index(self) -> DistanceIndex:
        bvh = self.bvh if walks_radix_tree(self._query) else None
        with self.stages("refit", self.backend):
            return make_index(self.backend, self.order, self._query, bvh)
