"""A mesh on a device: its sorted triangles, the trees over them and the signer, each built on first use."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

from sdfcli.backend import Array, Backend
from sdfcli.backend.timing import Stages
from sdfcli.mesh.mesh import GIVEN, Mesh
from sdfcli.runtime.schedule import Deferred, Schedule
from sdfcli.sign.choice import SignChoice, choose_sign, settle_sign
from sdfcli.sign.diagnose import crossing_faces
from sdfcli.sign.signer import Signer
from sdfcli.spatial.binary import BinaryIndex
from sdfcli.spatial.index import DistanceIndex
from sdfcli.spatial.morton import Order, morton, sort
from sdfcli.spatial.query_pool import QueryPool
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit
from sdfcli.spatial.select import index_class, make_index, walks_radix_tree

INDEX_BYTES, KEPT_SHARE = 120, 64
"""Bytes per triangle for a tree; an idle tree is retained up to 1 / KEPT_SHARE of memory."""


class Seeds(Protocol):
    """Nearest-triangle candidates (see query/warm_start.py)."""

    def seeds(self, points: Array) -> Array:
        """Slots (m, k) uint32 for points (m, 3) float32 in the unit cube."""


class MemoryPlan(NamedTuple):
    """Structures that a scene frees on its device, decided once.

    frees_idle_trees    memory is scarce (see MemoryPolicy), and a tree takes more than 1 / KEPT_SHARE of it.
    one_tree_at_a_time  also, the trees are larger than the data built with them.
    ample               memory is scarce, but a tree takes a smaller share of it: device time matters more, so work
                        overlaps.

    structure     freed after                              if                          rebuilt by
    mesh arrays   sorting; the sign choice                 always                      reading them again
    radix tree    sign choice and crossing-face count      the index is another tree   `bvh`
    moments       sign choice (`release_sign_data`)        one_tree_at_a_time          the signer's next query
    index         queries (`before_signs`)                 one_tree_at_a_time          `index`, `restore_index`
    index         the last query (`release_index`)         frees_idle_trees            `index`, `restore_index`

    The triangles' Morton order is never freed.
    """

    frees_idle_trees: bool
    one_tree_at_a_time: bool
    ample: bool

    @classmethod
    def of(cls, backend: Backend, triangles: int, memory: int | None, trees_dominate: bool) -> MemoryPlan:
        """memory: available bytes; None: unknown. trees_dominate: whether the trees are larger than the data built with
        them."""
        frees = backend.memory.scarce and (memory or 0) < KEPT_SHARE * INDEX_BYTES * triangles
        return cls(frees, frees and trees_dominate, backend.memory.scarce and not frees)


class Scene:
    """See above. Reading `signer`, `index` or `order` builds it.

    mesh, choice: from `choose_sign`. query: one of params.QUERIES. memory, trees_dominate: see MemoryPlan.of. signer:
    an existing one, if any. stages: build seconds by stage. query_pool: helpers for an octree's queries; None: no
    helpers.
    """

    def __init__(
        self,
        backend: Backend,
        mesh: Mesh,
        choice: SignChoice,
        query: str = "fast",
        *,
        memory: int | None = None,
        trees_dominate: bool = False,
        signer: Signer | None = None,
        stages: Stages | None = None,
    ) -> None:
        self.backend, self.mesh, self.stages = backend, mesh.on(backend), stages or Stages()
        self.plan = MemoryPlan.of(backend, len(mesh.faces), memory, trees_dominate)
        self._choice, self._query, self._settled = choice, query, signer
        self.counted = True  # whether crossing faces are counted, or are being counted, or no signer exists yet
        self._crossing: Deferred[int] | None = None  # their count, until `choice` has it
        self.warm_start: Seeds | None = None
        self.query_pool: QueryPool | None = None
        self._order: Order | None = None
        self._bvh: Bvh | None = None
        self._index: DistanceIndex | None = None

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
            self._bvh = radix_tree(self.backend, self.order, self.stages)
        return self._bvh

    @cached_property
    def signer(self) -> Signer:
        """The signer for the chosen method; see sign/choice.py."""
        bvh, signer = self.bvh, self._settled
        with self.stages("sign", self.backend):
            if signer is not None:
                if not self.plan.one_tree_at_a_time:
                    signer.rebuild(bvh)
                return signer
            lazy = self.plan.one_tree_at_a_time
            self._choice, signer, self.counted = settle_sign(self.backend, self.mesh, bvh, self._choice, lazy)
        return signer

    def settle(self) -> None:
        """Builds the signer, and counts crossing faces unless this is better done while the device is less busy, by
        `count_crossing`."""
        _ = self.signer
        if not self.plan.ample:
            self.count_crossing()

    def count_crossing(self) -> None:
        """Starts counting the faces that cross others, unless counted; the device may take milliseconds. Where memory
        is ample, runs at low priority, concurrent with later work."""
        if self.counted:
            return
        bvh, ample, backend = self.bvh, self.plan.ample, self.backend
        kept = bvh if ample or walks_radix_tree(self._query) else None
        rebuilt = partial(radix_tree, backend, self.order, self.stages)
        launch = partial(crossing_faces, backend, bvh, lambda: kept or rebuilt())
        # Low-priority work ends long after its stage, which then reports host time only.
        with self.stages("sign", None if ample else backend):
            self._crossing = Schedule.low_priority(backend, launch) if ample else Deferred(launch())
        self.counted = True
        if self.settled:
            self._forget_bvh()

    @property
    def choice(self) -> SignChoice:
        """The sign choice, settled with the signer. Waits for the crossing-face count."""
        self.count_crossing()
        if self._crossing:
            self._choice = replace(self._choice, crossing=self._crossing.get())
            self._crossing = None
            self._forget_bvh()
        return self._choice

    @property
    def uncounted_choice(self) -> SignChoice:
        """The sign choice without waiting for the crossing-face count, its `crossing`."""
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
        return self._index

    @property
    def reference(self) -> DistanceIndex:
        """An index for few points: the radix tree itself if only one tree may exist and the index does not exist."""
        alone = self.plan.one_tree_at_a_time and self._index is None
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
        return self.warm_start.seeds(points) if self.warm_start and self.gains_from_warm_start else None

    @property
    def gains_from_warm_start(self) -> bool:
        """Whether an earlier frame's triangles speed up queries, including their lookup."""
        return index_class(self.backend, self._query).coherent

    def release_sign_data(self) -> None:
        """Frees data needed only for the sign choice, before a large allocation."""
        signer = self.signer
        if self.plan.one_tree_at_a_time:
            signer.release()
        self._forget_bvh()
        self.mesh.release()
        with self.stages("sign", self.backend):
            signer.prepare()
        self.mesh.release()
        self.backend.release_cached()

    def _forget_bvh(self) -> None:
        to_count = not self.counted or self._crossing is not None
        if not walks_radix_tree(self._query) and not (to_count and self.plan.ample):
            self._bvh = None

    def release_index(self) -> None:
        """Called after a build's last query; see MemoryPlan."""
        if self.plan.frees_idle_trees:
            self._index = None

    def restore_index(self, leaves: int, arrived: Deferred[None]) -> None:
        """Called before a few points are queried while a field exists. Rebuilds the index if it was freed because only
        one tree may exist, and the field has at least as many leaves as the mesh has triangles. Field and index then
        take less memory than index and octree corners did. arrived: the field's arrays on the host, whose copies on the
        device are freed first."""
        if self.plan.one_tree_at_a_time:
            arrived.get()
            if not walks_radix_tree(self._query) and leaves >= len(self.order):
                _ = self.index

    def before_signs(self) -> None:
        """Called between queries and their points' signs; see MemoryPlan."""
        if self.plan.one_tree_at_a_time:
            self._index = None

    def _build_index(self) -> DistanceIndex:
        bvh = self.bvh if walks_radix_tree(self._query) else None
        with self.stages("refit", self.backend):
            return make_index(self.backend, self.order, self._query, bvh)


def radix_tree(backend: Backend, order: Order, stages: Stages) -> Bvh:
    """The radix tree over triangles in Morton order, with boxes."""
    with stages("tree", backend):
        bvh = build_bvh(backend, order)
    with stages("refit", backend):
        return refit(backend, bvh)
