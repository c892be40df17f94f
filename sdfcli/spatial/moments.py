"""WindingIndex: generalised winding numbers from a tree of moments (Barill et al. 2018)."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from sdfcli.backend import WARP, Array, Backend, C, Group
from sdfcli.mesh.arrays import Ints
from sdfcli.spatial.morton import Order
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit

BETA, LOST = 1.5, 0.1
"""Minimum distance from a node for its expansion, in node radii; error above which the exact sum is used."""

CAP_STEPS = ((0.15, 8.0), (0.003, 16.0), (0.0003, 0.0))
"""Margins around the level 0.5, each with the beta for summing hole caps within it. Each margin exceeds the error
before it: measured 0.13 before the first on open surfaces (0.21 on nested closed ones, which have no caps), then
0.00012 and 0.00001; more where the same open surface occurs at least four times."""

WARP_POINTS = 150_000
"""Maximum point count on a GPU for which a warp per point beats a thread per point, which takes as long as the longest
sum."""
FEW_POINTS = 1 << 16
"""Maximum point count on a GPU for which winding numbers beat sign propagation."""
POINTS_OF_A_WARP = C.WARP // C.POINT_WIDTH
"""Points per warp computed concurrently, as in winding/warp.h."""
MAX_WARPS = 1 << 15
"""Warps per launch, more than any GPU runs concurrently; each loops over points."""
LINK_RUN = C.LINK_ROUNDS * C.WARP
"""Links per warp, as in sign/corners.h."""


@dataclass(frozen=True)
class WindingIndex:
    """Moments on a radix tree over triangles, for hierarchical winding numbers.

    triangle  (t, 9) float32, in Morton order.
    moments   (n - 1, 16) float32, per node of the tree over the n included triangles.
    slots     (n,) uint32: the included triangles' indices in `triangle`; None: all are included.
    box       (n - 1, 6) float32: node boxes; None if only moments are needed.
    """

    backend: Backend
    triangle: Array
    moments: Array
    slots: Array | None = None
    box: Array | None = None

    @staticmethod
    def of(backend: Backend, bvh: Bvh, boxes: bool = False) -> WindingIndex:
        """Builds the index on a tree, moments by bottom-up reduction as in the refit. boxes: whether to store the node
        boxes."""
        n = len(bvh.order)
        moments = backend.empty_aligned((n - 1, C.MOMENTS), np.float32)
        if n > 1:
            backend.run(
                "sdf_winding_moments",
                n,
                tree=bvh.group(backend),
                box=bvh.box,
                arrivals=backend.xp.zeros(n - 1, np.uint32),
                moments=moments,
            )
        return WindingIndex(backend, bvh.order.triangle, moments, box=bvh.box if boxes else None)

    @staticmethod
    def among(backend: Backend, order: Order, left_out: Ints | None = None, boxes: bool = False) -> WindingIndex:
        """Builds the index over triangles in Morton order with its own tree: about 1 ms per million triangles on a GPU.

        left_out: (k,) excluded faces, each once; None: all are included. boxes: see `of`.
        """
        own, slots = order, None
        if left_out is not None:
            kept = backend.xp.empty(len(order), np.uint8)
            listed = {"left_out": backend.from_host(np.sort(left_out), np.uint32), "faces": len(left_out)}
            backend.run("sdf_triangles_kept", len(order), triangle_id=order.triangle_id, kept=kept, **listed)
            slots = backend.compact(kept, known=len(order) - len(left_out))
            own = Order(*(backend.taken(array, slots) for array in (order.keys, order.triangle_id, order.triangle)))
        backend.release_cached()
        index = WindingIndex.of(backend, refit(backend, build_bvh(backend, own)), boxes)
        return replace(index, triangle=order.triangle, slots=slots)

    @property
    def triangles(self) -> int:
        """Included triangle count."""
        return len(self.moments) + 1

    @functools.cached_property
    def group(self) -> Group:
        """The tree as kernels read it."""
        arrays = {"triangle": self.triangle, "slots": self.slots, "moments": self.moments, "box": self.box}
        return self.backend.group("WindingTree", triangles=self.triangles, **arrays)

    @property
    def few_points(self) -> int:
        """Maximum point count for which winding numbers beat sign propagation."""
        return FEW_POINTS if self.backend.warps else 0

    def winding(self, points: Array, beta: float) -> Array:
        """Winding numbers (m,) float32 at points (m, 3) float32; beta 0: exact sums over all triangles in float64."""
        result = self.backend.xp.empty(len(points), np.float32)
        if self.backend.warps and (beta == 0 or len(points) <= WARP_POINTS):
            winding_by_warps(self, points, result, beta)
            return result
        self.backend.run(
            "sdf_winding",
            len(points),
            points=points,
            tree=self.group,
            beta=beta,
            winding=result,
        )
        return result

    def decided(self, points: Array, caps: WindingIndex | None) -> Array:
        """Winding numbers (m,) float32 at points (m, 3) float32: approximations on the right side of 0.5.

        caps: index over the triangles closing the surface; None: it is closed. The closed whole has an integer winding
        number, so rounding makes the approximation exact: round(approximation + cap) - cap, with the caps' winding
        number summed exactly near the level 0.5. On an edge between caps their solid angles are undefined: the result
        may then be off by up to LOST.
        """
        xp = self.backend.xp
        if self.backend.warps and len(points) <= WARP_POINTS:
            winding = xp.empty(len(points), np.float32)
            winding_by_warps(self, points, winding, BETA, caps=caps)
            return winding
        winding = self.winding(points, BETA)
        if caps is not None:
            doubtful = xp.flatnonzero(xp.abs(winding - 0.5) < CAP_STEPS[0][0])
            if len(doubtful):
                winding[doubtful] = self._closed(caps, points[doubtful], winding[doubtful])
        return winding

    def decided_where(self, points: Array, link: Array, caps: WindingIndex | None) -> Array:
        """`decided` at the points whose link (m,) uint64 is 0: (m,) float32, undefined elsewhere."""
        xp = self.backend.xp
        winding = xp.empty(len(points), np.float32)
        if self.backend.warps:
            queried, many = xp.empty(len(link), np.uint32), xp.zeros(1, np.uint32)
            runs = -(-len(link) // LINK_RUN)
            self.backend.run("sdf_sign_unlinked", WARP * runs, count=len(link), link=link, queried=queried, many=many)
            winding_by_warps(self, points, winding, BETA, (queried, many), caps)
        else:
            root = xp.flatnonzero(link == 0)
            winding[root] = self.decided(points[root], caps)
        return winding

    def _closed(self, caps: WindingIndex, points: Array, approximation: Array) -> Array:
        """Winding numbers (m,) at points near the level 0.5, from their approximations; see `decided`."""
        xp = self.backend.xp
        (_, beta), *finer = CAP_STEPS
        of_caps = caps.winding(points, beta)
        winding = xp.rint(approximation + of_caps) - of_caps
        for margin, beta in finer:
            doubtful = xp.flatnonzero(xp.abs(winding - 0.5) < margin)
            if len(doubtful) == 0:
                break
            of_caps = caps.winding(points[doubtful], beta)
            winding[doubtful] = xp.rint(winding[doubtful] + of_caps) - of_caps
        # A cap's solid angle is undefined on its edges.
        lost = xp.flatnonzero(xp.abs(winding - approximation) > LOST)
        if len(lost):
            winding[lost] = self.winding(points[lost], 0.0)
        return winding


@functools.cache
def cap_steps(backend: Backend) -> Array:
    """CAP_STEPS (k, 2) float32 on the device."""
    return backend.from_host(CAP_STEPS, np.float32)


def winding_by_warps(
    index: WindingIndex,
    points: Array,
    winding: Array,
    beta: float,
    queried: tuple[Array, Array] | None = None,
    caps: WindingIndex | None = None,
    closed: bool = False,
) -> None:
    """Writes winding numbers (m,) float32 at points (m, 3), half a warp per point; beta 0: exact.

    queried: indices of the points to compute, and their count (1,), uint32 on the device; None: all points. caps: as
    for WindingIndex.decided. closed: `winding` already holds the numbers of surface and caps together, or SDF_UNKNOWN.
    """
    backend = index.backend
    listed, many = queried or (None, None)
    backend.run(
        "sdf_winding_single",
        WARP * min(MAX_WARPS, -(-len(points) // POINTS_OF_A_WARP)),
        count=len(points),
        points=points,
        queried=listed,
        many=many,
        tree=index.group,
        caps=None if caps is None else caps.group,
        steps=0 if caps is None else len(CAP_STEPS),
        step=None if caps is None else cap_steps(backend),
        beta=beta,
        lost=LOST,
        closed=int(closed),
        winding=winding,
        left=None,
        many_left=None,
    )
