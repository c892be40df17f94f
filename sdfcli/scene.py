"""A mesh on a device: its triangles in order, the trees over them and the signer, each made on first use.

Where memory is scarce (see MemoryPolicy), a tree is freed after use and built again for its next use.
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
from sdfcli.spatial.crew import Crew
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order, morton, sort
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit
from sdfcli.spatial.select import make_index, walks_radix_tree

INDEX_BYTES, KEPT_SHARE = 120, 64
"""Bytes of a tree for each triangle, and the part of memory up to which it stays though it is hardly needed."""


class Seeds(Protocol):
    """Candidates for nearest triangles (see query/warm_start.py)."""

    def seeds(self, points: Array) -> Array:
        """Slots (m, k) uint32 for points (m, 3) float32 in the unit cube."""


class Scene:
    """See above. Reading `signer`, `index` and `order` makes them.

    mesh, choice: as `choose_sign` gives them. query: one of params.QUERIES. lean: whether the trees are larger than
    what is built by them, so that one is there at a time where memory is scarce. memory: bytes that may be used; where
    trees are a small part of these, they stay. one_tree: whether one may exist at a time. signer: where it is there
    already.
    stages: seconds of making things, by stage. coherent: whether an earlier frame's triangles speed up queries; known
    when the index is. crew: those that answer an octree's queries, too; None: nobody.
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
        self.crew: Crew | None = None
        self._frees = backend.memory.scarce and (memory or 0) < KEPT_SHARE * INDEX_BYTES * len(mesh.faces)
        self._query, self.one_tree = query, lean and self._frees
        self._settled = signer
        self._order: Order | None = None
        self._bvh: Bvh | None = None
        self._index: DistanceIndex | None = None
        self.coherent = False

    @classmethod
    def of(cls, mesh: Mesh, sign: str, backend: Backend, query: str = "fast", **options: Any) -> Scene:
        """The scene of a mesh, with the choice for `sign`, one of params.SIGNS."""
        return cls(backend, *choose_sign(mesh.on(backend), sign), query, **options)

    def __getstate__(self) -> dict[str, Any]:
        _ = self.choice  # copies do not wait for the number of crossing faces
        return self.__dict__

    def sort(self) -> Order:
        """Computes the Morton order, and returns it."""
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
        """The sign method in use; see sign/choice.py."""
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
        """Begins to count the faces that cross others, where the signer did without; the device may be at it for
        milliseconds."""
        if self._uncounted:
            self._bvh = self._bvh or self._build_bvh()
            counts = partial(crossing_faces, self.backend, self._bvh)
            # Work behind ends long after its stage, of which the host's time is told.
            with self.stages("sign", None if self.spares_time else self.backend):
                self._crossing = self.backend.behind(counts) if self.spares_time else counts()
            self._uncounted = False
            if self.settled:
                self._forget_bvh()

    @property
    def choice(self) -> SignChoice:
        """The choice of the sign's method, settled with the signer. Waits for the number of crossing faces."""
        self.count_crossing()
        if self._crossing:
            crossing, self._crossing = self._crossing, None
            self._choice = replace(self._choice, crossing=crossing(lambda: self._bvh or self._build_bvh()))
            self._forget_bvh()
        return self._choice

    @property
    def asked_for(self) -> str | None:
        """The sign's method, if it was asked for and the signer has it; does not wait for crossing faces."""
        return self._choice.method if self._choice.asked_for else None

    @property
    def settled(self) -> bool:
        """Whether the signer is there."""
        return "signer" in self.__dict__

    @property
    def signed(self) -> bool:
        """Whether distances are signed."""
        return self.signer.method != "none"

    @property
    def index(self) -> DistanceIndex:
        """(d) The index of nearest triangles. Where memory is scarce, it replaces the trees of the signer."""
        if self._index is None:
            self.make_room()
        return self.unsigned_index

    @property
    def unsigned_index(self) -> DistanceIndex:
        """The index, also before the sign's method is settled; what only that needs stays until `make_room`."""
        if self._index is None:
            self._index = self._build_index()
            self.coherent = self._index.coherent
        return self._index

    @property
    def reference(self) -> DistanceIndex:
        """An index for few points: the radix tree itself where only one tree may exist, and the index is not there."""
        alone = self.one_tree and self._index is None
        return BinaryIndex(self.backend, self.bvh, "cct") if alone else self.index

    def nearest(self, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
        """`nearest` of an octree's points; see DistanceIndex. The warm start's slots come first, and the thesis's
        queries do without seed (m, k), which the octree knows."""
        index, earlier = self.index, self._earlier(points)
        seeds = [rows for rows in (earlier, seed if index.seeds else None) if rows is not None]
        if len(seeds) > 1:
            seeds = [self.backend.xp.concatenate(seeds, axis=1)]
        first = seeds[0] if seeds else None
        return self.crew.nearest(index, points, first) if self.crew else index.nearest(points, first)

    def nearest_by_level(self, position: Array, near: Array, ends: list[int]) -> tuple[Array, Array]:
        """`nearest` of an octree's corners; see DistanceIndex."""
        return self.index.nearest_by_level(position, near, ends, self._earlier(position))

    def _earlier(self, points: Array) -> Array | None:
        """The warm start's slots (m, 1) uint32 for points (m, 3); None without it, and where they do not pay."""
        return self.warm_start.seeds(points) if self.warm_start and self.index.coherent else None

    def make_room(self) -> None:
        """Frees what only the choice of the sign needed, before a large allocation."""
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
    def spares_time(self) -> bool:
        """Whether time of a device counts, not its memory, of which the trees are a small part."""
        return self.backend.memory.scarce and not self._frees

    @property
    def counts_later(self) -> bool:
        """Whether crossing faces are counted best while the device has little else to do."""
        return self._uncounted and self.spares_time

    def _forget_bvh(self) -> None:
        counts = self._uncounted or self._crossing is not None
        if not walks_radix_tree(self._query) and not (counts and self.spares_time):
            self._bvh = None

    def queries_done(self) -> None:
        """Called after the last query of a build: frees the index where memory is scarce."""
        if self._frees:
            self._index = None

    def ask_again(self, leaves: int) -> None:
        """Called before few points are queried beside a field: makes the index again, where it was freed as only one
        tree may exist, if the field has as many leaves as the mesh has triangles. Then both take less memory than the
        index and the octree's corners have taken."""
        if self.one_tree and not walks_radix_tree(self._query) and leaves >= len(self.order):
            _ = self.index

    def signs_next(self) -> None:
        """Called between queries and their points' signs: frees the index where only one tree may exist."""
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
