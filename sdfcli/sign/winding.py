"""WindingSigner: signs from generalised winding numbers (Barill et al. 2018), with holes closed by caps."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend, Group
from sdfcli.backend.rebuildable import Rebuildable
from sdfcli.mesh.arrays import Floats
from sdfcli.sign.caps import Caps
from sdfcli.sign.propagate import CellPoints, KnownSigns, inherited, link_along, link_corners, spread
from sdfcli.sign.signer import Signer, Signs, clear_share, new_signs
from sdfcli.spatial.lattice import WindingLattice, pays
from sdfcli.spatial.moments import BETA, CAP_STEPS, WindingIndex
from sdfcli.spatial.radix_tree import Bvh


class WindingSigner(Signer):
    """Inside where the winding number is above 0.5; see WindingIndex.decided.

    Winding numbers are expensive, so most signs are propagated from neighbours (see propagate.py).
    """

    method = "winding"

    def __init__(self, backend: Backend, caps: Caps | None, index: Rebuildable[WindingIndex]) -> None:
        """Takes the caps and the moments (index) for the included faces."""
        super().__init__(backend)
        self._index = index
        self.caps = caps
        self.closed = self.caps is None
        self._lattice: WindingLattice | None = None

    @property
    def index(self) -> WindingIndex:
        """Moments over the included faces."""
        return self._index.get()

    def release(self) -> None:
        self._index.release()
        self._lattice = None

    def rebuild(self, bvh: Bvh) -> None:
        self._lattice = None
        index = WindingIndex.of(self.backend, bvh, boxes=True)
        self._index = Rebuildable(lambda: index)

    def inside(self, points: Array, slot: Array) -> Array:
        return self.backend.above(self._winding(points), 0.5)

    def inside_along(self, points: Array, distance: Array, slot: Array) -> Array:
        """See Signer.

        The closed whole's winding number is propagated, as it changes only at the surface and the caps. A point's sign
        follows from it and the caps' own winding number, as in `inside`. On a GPU it is counted instead, see
        spatial/lattice.py.
        """
        xp, index = self.backend.xp, self.index
        if len(points) <= index.few_points:
            return self.inside(points, slot)
        if pays(index):
            self._lattice = self._lattice or self._make_lattice()
            return self.backend.above(self._lattice.winding(points, distance), 0.5)
        if self.caps is None:
            link = link_along(self.backend, points, distance)
        else:
            clear = self.caps.distance(points)
            link = link_along(self.backend, points, xp.minimum(distance, clear))
        alone = xp.flatnonzero(link == xp.arange(len(points), dtype=np.uint32))
        winding = xp.empty(len(points), np.float32)
        winding[alone] = decided = self._winding(points[alone])
        if self.caps is None:
            return winding[link] > 0.5
        caps = self.caps.index
        winding[alone] = xp.rint(decided + caps.winding(points[alone], BETA))
        whole = winding[link]
        winding = whole.copy()
        doubtful = xp.flatnonzero(clear <= self.caps.guard)
        for margin, beta in ((np.inf, BETA), *CAP_STEPS):
            doubtful = doubtful[xp.abs(winding[doubtful] - 0.5) < margin]
            winding[doubtful] = whole[doubtful] - caps.winding(points[doubtful], beta)
        winding[alone] = decided
        return winding > 0.5

    def sign(self, points: Array, distance: Array, slot: Array, known: KnownSigns | None) -> Signs:
        inside, link = inherited(self.backend, points, distance, known, self.caps)
        return Signs(inside=inside, winding=self.index.decided_where(points, link, self._caps_index))

    def for_kernels(self) -> Group:
        return new_signs(self.backend, index=self.index, caps=self.caps)

    def sign_corners(self, corners: CellPoints, distance: Array, slot: Array) -> Array:
        index = self.index  # created before links take memory
        room = None if self.caps is None else self.caps.room(corners.position)
        link = link_corners(self.backend, corners, distance, room)
        del room
        winding = index.decided_where(corners.position, link, self._caps_index)
        spread(self.backend, link, winding, distance)
        return distance

    def confidence(self, points: Floats) -> float | None:
        if self.closed or len(points) == 0:
            return 1.0 if len(points) else None
        return clear_share(self.index, points)

    def _make_lattice(self) -> WindingLattice:
        return WindingLattice.of(self.index, self._caps_index, None if self.caps is None else self.caps.groups)

    def _winding(self, points: Array) -> Array:
        return self.index.decided(points, self._caps_index)

    @property
    def _caps_index(self) -> WindingIndex | None:
        return None if self.caps is None else self.caps.index
