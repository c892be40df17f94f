"""Inside or outside: pseudonormals or winding numbers, and which of the two."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend
from sdfcli.mesh import OF_EDGES, Bools, Floats, Ints, Mesh, pieces
from sdfcli.repair import cones, repair
from sdfcli.stages.bvh import Bvh, build_bvh, refit, without_nodes
from sdfcli.stages.caps import CapGroups, reach_sq
from sdfcli.stages.chosen import chosen
from sdfcli.stages.distance import make_bvh, nearest
from sdfcli.stages.order import Order
from sdfcli.stages.packets import WARP

BETA, LOST = 1.5, 0.1
"""How coarse the expansions of the winding number are, and how far off they may be before the exact sum is taken."""

LONE_WINDINGS = 150_000
"""Up to so many points on a GPU, a warp for each is faster than a thread, which takes as long as the longest sum."""
FEW_POINTS = 1 << 16
"""Up to so many points along a curve, warps ask for each winding number sooner than signs are handed on."""
POINTS_OF_A_WARP = 2
"""For which it sums up winding numbers at a time; as in warp_winding.h."""
MOST_WARPS = 1 << 15
"""More than run at a time on any GPU: each takes points one after the other."""
LINK_RUN = 256
"""As in warp_winding.h: so many links are looked at by a warp."""

CAP_STEPS = ((0.15, 8.0), (0.003, 16.0), (0.0003, 0.0))
"""Closer to the level 0.5 than this, the winding number of the caps of holes is summed up this finely. The expansions
are off by less than the next step's margin: about 0.09 was measured before the first, then 0.00012 and 0.00001; more
where the same open surface is there four times or more."""

SIDES_SAMPLES = 2000
FARTHEST_OFFSET, NEAREST_OFFSET = 1e-3, 1e-5
"""How far beside a face, in the unit cube, winding numbers are asked for: less for small faces, more than rounding."""

LEVEL = 0.25
"""A winding number closer than this to 0.5 leaves inside and outside in doubt. On closed surfaces it is an integer."""


@dataclass(frozen=True)
class SignChoice:
    """How signs are decided, and why, in words for the user.

    inverted  how many shells were oriented inwards, and turned.
    crossing  how many faces cross or overlap others; known once the choice is settled.
    boundary  the faces from which winding numbers are summed up, where these are not all of the mesh's.
    counted   (f,) which ones these are.
    """

    method: str
    reason: str
    asked_for: bool = False
    inverted: int = 0
    crossing: int = 0
    boundary: Mesh | None = None
    counted: Bools | None = None


def choose_sign(mesh: Mesh, asked: str) -> tuple[Mesh, SignChoice]:
    """The method for `auto`, as far as the mesh alone tells: pseudonormals where nothing in it misleads them, else
    winding numbers. `settle_sign` has the last word.

    Faces that are the wrong way round are turned (see repair.py), and the mesh comes back so.
    """
    if asked == "none":
        return mesh, SignChoice(asked, "asked for", asked_for=True)
    repaired = repair(mesh)
    notes = repaired.notes
    if asked != "auto":
        method, reason = asked, "asked for"
    elif repaired.counted is None and not repaired.mesh.health.faults:
        method, reason = "pseudonormal", "closed, oriented, no degenerate or non-manifold spots"
    else:
        method, reason = "winding", ", ".join(mesh.health.faults)
        if not mesh.health.watertight and len(repaired.boundary.open_edges) == 0:
            notes = [*notes, "closed then"]
    if repaired.mesh is not mesh:
        mesh.release()
    for each in (repaired.mesh, repaired.boundary):
        each.release(OF_EDGES)
    return repaired.mesh, SignChoice(
        method,
        "; ".join([reason, *notes]),
        asked_for=asked != "auto",
        inverted=repaired.inverted,
        boundary=None if repaired.counted is None else repaired.boundary,
        counted=repaired.counted,
    )


@dataclass(frozen=True)
class WindingIndex:
    """The BVH's moments for hierarchical winding numbers (Barill et al. 2018). Of the BVH what they are read with.

    slots  (n,) uint32: where the n triangles that count are among those of bvh; None: these are all of them.
    """

    bvh: Bvh
    moments: Array
    slots: Array | None = None

    @property
    def triangles(self) -> int:
        """How many count."""
        return len(self.moments) + 1

    @staticmethod
    def of(backend: Backend, bvh: Bvh) -> WindingIndex:
        """Sums up every node's moments, bottom-up, as the refit does."""
        n = len(bvh.order)
        moments = backend.lines((n - 1, 16), np.float32)
        if n > 1:
            backend.run(
                "sdf_winding_moments",
                n,
                triangle=bvh.order.triangle,
                child=bvh.child,
                node_parent=bvh.node_parent,
                leaf_parent=bvh.leaf_parent,
                box=bvh.box,
                arrivals=backend.xp.zeros(n - 1, np.uint32),
                moments=moments,
            )
        return WindingIndex(without_nodes(replace(bvh, order=replace(bvh.order, keys=None))), moments)

    @staticmethod
    def among(backend: Backend, order: Order, counted: Bools | None) -> WindingIndex:
        """Of triangles in Morton order, by a tree of its own. counted: (f,), the faces that count; None: all."""
        own, slots = order, None
        if counted is not None:
            slots = chosen(backend, backend.from_host(counted, np.uint8)[order.triangle_id])[0]
            own = Order(order.keys[slots], order.triangle_id[slots], order.triangle[slots])
        backend.trim()
        index = WindingIndex.of(backend, refit(backend, build_bvh(backend, own)))
        return replace(index, bvh=replace(index.bvh, order=order), slots=slots)

    def winding(self, backend: Backend, points: Array, beta: float) -> Array:
        """Winding numbers (m,) float32 of points (m, 3) float32; beta 0 sums over all triangles in float64."""
        result = backend.xp.empty(len(points), np.float32)
        if backend.warps and (beta == 0 or len(points) <= LONE_WINDINGS):
            wind_alone(backend, self, points, result, beta)
            return result
        backend.run(
            "sdf_winding",
            len(points),
            triangles=self.triangles,
            points=points,
            triangle=self.bvh.order.triangle,
            slots=self.slots,
            moments=self.moments,
            beta=beta,
            winding=result,
        )
        return result


@functools.cache
def _cap_steps(backend: Backend) -> Array:
    return backend.from_host(CAP_STEPS, np.float32)


def wind_alone(
    backend: Backend,
    index: WindingIndex,
    points: Array,
    winding: Array,
    beta: float,
    link: Array | None = None,
    caps: WindingIndex | None = None,
) -> None:
    """Fills in winding numbers (m,) float32 of points (m, 3), half a warp for each; beta 0: exact.

    link: (m,) uint64, 0 for those that are asked for. caps: near the level 0.5 these decide, as WindingSigner has it.
    """
    asked = many = None
    if link is not None:
        asked, many = backend.xp.empty(len(link), np.uint32), backend.xp.zeros(1, np.uint32)
        runs = -(-len(link) // LINK_RUN)
        backend.run("sdf_sign_asked", WARP * runs, count=len(link), link=link, asked=asked, many=many)
    backend.run(
        "sdf_winding_lone",
        WARP * min(MOST_WARPS, -(-len(points) // POINTS_OF_A_WARP)),
        count=len(points),
        points=points,
        asked=asked,
        many=many,
        triangles=index.triangles,
        triangle=index.bvh.order.triangle,
        slots=index.slots,
        moments=index.moments,
        caps=0 if caps is None else caps.triangles,
        caps_triangle=None if caps is None else caps.bvh.order.triangle,
        caps_moments=None if caps is None else caps.moments,
        steps=0 if caps is None else len(CAP_STEPS),
        step=None if caps is None else _cap_steps(backend),
        beta=beta,
        lost=LOST,
        winding=winding,
    )


def pseudonormals(mesh: Mesh, order: Ints) -> npt.NDArray[np.float32]:
    """(n, 7, 3): the outward normals at the vertices a, b, c (angle-weighted) of faces (n,), at their edges ab, bc, ca,
    and their own.

    Baerentzen and Aanaes 2005. Not normalised: only the sign of a product with them counts.
    """
    angle = np.empty((len(mesh.faces), 3))
    for part in pieces(len(mesh.faces)):
        corner = mesh.unit_triangles[part].reshape(-1, 3, 3)
        side = corner[:, [1, 2, 0]] - corner
        # Twice the area of a triangle is the same at all its corners.
        length = np.linalg.norm(mesh.normals[part], axis=1, keepdims=True)
        angle[part] = np.arctan2(length, np.einsum("fij,fij->fi", side, -side[:, [2, 0, 1]]))
    vertex, edge = mesh.welded, _edge_numbers(mesh.welded)
    length = np.linalg.norm(mesh.normals, axis=1)
    length[length == 0] = 1.0
    result = np.empty((len(order), 7, 3), np.float32)
    for axis in range(3):  # one after the other: all at once take three times the memory
        normal = mesh.normals[:, axis] / length
        result[:, :3, axis] = np.bincount(vertex.ravel(), weights=(angle * normal[:, None]).ravel())[vertex[order]]
        result[:, 3:6, axis] = np.bincount(edge.ravel(), weights=np.repeat(normal, 3))[edge[order]]
        result[:, 6, axis] = normal[order]
    return result


def _edge_numbers(faces: Ints) -> Ints:
    """(f, 3): the number of the edge from each corner of faces (f, 3) to the next."""
    start, end = faces, faces[:, [1, 2, 0]]
    count = int(faces.max()) + 1
    _, edge = np.unique(np.minimum(start, end) * count + np.maximum(start, end), return_inverse=True)
    return edge.reshape(-1, 3)


class Signer(Protocol):
    """Decides the sign of points.

    closed  whether the surface has no holes: its winding number is a whole number then.
    """

    closed: bool

    def inside(self, points: Array, slot: Array) -> Array:
        """(m,) bool for points (m, 3) float32 whose nearest slots (m,) are known."""


class NoSigner:
    """Unsigned distances: nothing is inside."""

    closed = False

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def inside(self, points: Array, slot: Array) -> Array:
        """All False."""
        return self.backend.xp.zeros(len(points), bool)


class PseudonormalSigner:
    """The side of the nearest feature's pseudonormal."""

    def __init__(self, backend: Backend, mesh: Mesh, bvh: Bvh) -> None:
        self.backend, self.triangle, self.closed = backend, bvh.order.triangle, mesh.health.watertight
        order = backend.to_host(bvh.order.triangle_id)
        self._of_slots = [pseudonormals(mesh, order).reshape(-1, 21)]

    @functools.cached_property
    def normals(self) -> Array:
        """(n, 21) float32, by slot; on the device from when they are first asked for."""
        return self.backend.from_host(self._of_slots.pop())

    def inside(self, points: Array, slot: Array) -> Array:
        """See Signer."""
        result = self.backend.xp.empty(len(points), np.uint8)
        self.backend.run(
            "sdf_pseudonormal",
            len(points),
            points=points,
            slot=slot,
            triangle=self.triangle,
            normals=self.normals,
            inside=result,
        )
        return result.view(bool)


class WindingSigner:
    """Winding numbers above 0.5, decided exactly; and what lets a point hand its sign on to its neighbours.

    The holes of an open surface are closed by caps. The winding number of the closed whole is an integer, so rounding
    turns the approximation into the exact number: winding = round(approximation + cap) - cap, where near the
    level 0.5 the caps' own winding number is summed up exactly. On an edge between caps their solid angles are
    anything: there it may be off by up to LOST.

    guard  distance from the caps (in the unit cube) beyond which their winding number stays below 0.45, so that the
           sign changes at the surface only; 0 for a closed surface.
    """

    def __init__(self, backend: Backend, mesh: Mesh, index: WindingIndex | Callable[[], WindingIndex]) -> None:
        """index: of the mesh; or what makes it, whenever it is asked for and not there."""
        self.backend = backend
        self._make = index if callable(index) else None
        if not callable(index):
            self.index = index
        self.guard = 0.0
        self.caps: WindingIndex | None = None
        caps = cap_triangles(mesh)
        self.closed = len(caps) == 0
        if len(caps):
            self.caps = WindingIndex.of(backend, make_bvh(backend, caps))
            order = self.caps.bvh.order
            self.cap_groups = CapGroups.of(backend, backend.to_host(order.triangle).astype(np.float64))
            self.guard = float(np.sqrt(reach_sq(caps.reshape(-1, 3, 3)).sum()))

    @functools.cached_property
    def index(self) -> WindingIndex:
        """The mesh's moments."""
        assert self._make is not None
        return self._make()

    def rest(self) -> None:
        """Frees the index until it is asked for again, if it can be made again."""
        if self._make is not None:
            self.__dict__.pop("index", None)

    def inside(self, points: Array, slot: Array) -> Array:
        """See Signer."""
        return self._winding(points) > 0.5

    def _winding(self, points: Array) -> Array:
        """Winding numbers of points (m, 3) that are on the right side of 0.5, and else as near as expansions come."""
        xp = self.backend.xp
        if self.backend.warps and len(points) <= LONE_WINDINGS:
            winding = xp.empty(len(points), np.float32)
            wind_alone(self.backend, self.index, points, winding, BETA, caps=self.caps)
            return winding
        winding = self.index.winding(self.backend, points, BETA)
        if self.caps is not None:
            doubtful = xp.flatnonzero(xp.abs(winding - 0.5) < CAP_STEPS[0][0])
            if len(doubtful):
                winding[doubtful] = self._closed(self.caps, points[doubtful], winding[doubtful])
        return winding

    def _closed(self, caps: WindingIndex, points: Array, approximation: Array) -> Array:
        """Winding numbers (m,) of points near the level 0.5, from those that the expansions give."""
        xp = self.backend.xp
        (_, beta), *finer = CAP_STEPS
        of_caps = caps.winding(self.backend, points, beta)
        winding = xp.rint(approximation + of_caps) - of_caps
        for margin, beta in finer:
            doubtful = xp.flatnonzero(xp.abs(winding - 0.5) < margin)
            if len(doubtful) == 0:
                break
            of_caps = caps.winding(self.backend, points[doubtful], beta)
            winding[doubtful] = xp.rint(winding[doubtful] + of_caps) - of_caps
        # On an edge of a cap its solid angle is anything.
        lost = xp.flatnonzero(xp.abs(winding - approximation) > LOST)
        if len(lost):
            winding[lost] = self.index.winding(self.backend, points[lost], 0.0)
        return winding

    def inside_along(self, points: Array, distance: Array, slot: Array) -> Array:
        """See `inside_along` below.

        Handed on is the winding number of the closed whole, which changes at the surface and at the caps alone. From it
        and the caps' own winding number follows a point's sign, as in `inside`.
        """
        backend, xp = self.backend, self.backend.xp
        if backend.warps and len(points) <= FEW_POINTS:
            return self.inside(points, slot)
        clear = self.clear(points)
        link = xp.empty(len(points), np.uint32)
        backend.run("sdf_sign_link", len(points), points=points, distance=xp.minimum(distance, clear), link=link)
        alone = xp.flatnonzero(link == xp.arange(len(points), dtype=np.uint32))
        while True:  # to the far end of each chain
            further = link[link]
            if len(xp.flatnonzero(further != link)) == 0:
                break
            link = further
        winding = xp.empty(len(points), np.float32)
        winding[alone] = asked = self._winding(points[alone])
        if self.caps is None:
            return winding[link] > 0.5
        winding[alone] = xp.rint(asked + self.caps.winding(backend, points[alone], BETA))
        whole = winding[link]
        winding = whole.copy()
        doubtful = xp.flatnonzero(clear <= self.guard)
        for margin, beta in ((np.inf, BETA), *CAP_STEPS):
            doubtful = doubtful[xp.abs(winding[doubtful] - 0.5) < margin]
            winding[doubtful] = whole[doubtful] - self.caps.winding(backend, points[doubtful], beta)
        winding[alone] = asked
        return winding > 0.5

    def clear(self, points: Array) -> Array:
        """(m,) float32: the distance from points to the caps, or to nothing."""
        if self.caps is None:
            return self.backend.xp.full(len(points), 1e30, np.float32)
        return nearest(self.backend, self.caps.bvh, points)[0]


def inside_along(signer: Signer, points: Array, distance: Array, slot: Array) -> Array:
    """(m,) bool for points (m, 3) float32 along a curve, with their distances and nearest slots.

    The same as asking the signer for each. Winding numbers are dear: a point takes over the sign of another one nearby
    on the curve that is farther from the surface, where there is no room for surface between the two.
    """
    if isinstance(signer, WindingSigner):
        return signer.inside_along(points, distance, slot)
    return signer.inside(points, slot)


def cap_triangles(mesh: Mesh) -> Floats:
    """(c, 9) in the unit cube: cones over the loops of open edges, which close the surface as an oriented whole.

    An edge that the faces use k times more in one direction than in the other gets k triangles of the other direction.
    """
    edges = mesh.edges
    excess = edges.forward - edges.backward
    open_edges = np.flatnonzero(excess)
    ends, excess = edges.ends(open_edges), excess[open_edges]
    ends = np.repeat(np.where((excess > 0)[:, None], ends[:, ::-1], ends), np.abs(excess), axis=0)
    vertex, of_end = np.unique(ends, return_inverse=True)
    position = mesh.domain.to_unit(mesh.vertices[vertex])[of_end.reshape(-1, 2)]
    return cones(ends, position[:, 0], position[:, 1])


def crossing_faces(backend: Backend, bvh: Bvh) -> int:
    """How many triangles cross or overlap another one, by more than rounding."""
    xp, order = backend.xp, bvh.order
    crosses, crowded = xp.zeros(len(order), np.uint8), xp.zeros(1, np.uint8)
    shared = {"triangle": order.triangle, "child": bvh.child, "box": bvh.box, "crowded": crowded, "crosses": crosses}
    backend.run("sdf_crossing", len(order), all=0, meets=xp.zeros(len(order), np.uint32), **shared)
    if int(crowded[0]):
        crosses[...] = 0
        backend.run("sdf_crossing", len(order), all=1, meets=None, **shared)
    return len(xp.flatnonzero(crosses))


def sides(index: WindingIndex, backend: Backend, mesh: Mesh, faces: Ints) -> tuple[Floats, Floats]:
    """Winding numbers (k,) close behind and close before the middles of faces (k,)."""
    triangles, normals = mesh.unit_triangles[faces], mesh.normals[faces]
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    centre = (triangles[:, 0:3] + triangles[:, 3:6] + triangles[:, 6:9]) / 3.0
    offset = np.clip(0.05 * np.sqrt(length), NEAREST_OFFSET, FARTHEST_OFFSET)
    step = offset * normals / np.where(length > 0, length, 1.0)
    behind, before = (
        backend.to_host(index.winding(backend, backend.from_host(centre + side * step, np.float32), BETA))
        for side in (-1.0, 1.0)
    )
    return behind, before


def enclosing_share(index: WindingIndex, backend: Backend, mesh: Mesh) -> float:
    """The part of the surface whose two sides an open mesh's winding number tells apart: above 0.7 just behind a face
    and below 0.3 just before it. About 1 for a solid with holes, about 0 for a sheet."""
    faces = np.arange(0, len(mesh.faces), max(1, len(mesh.faces) // SIDES_SAMPLES))
    behind, before = sides(index, backend, mesh, faces)
    area = np.linalg.norm(mesh.normals[faces], axis=1)
    total = area.sum()
    return float(area[(behind > 0.7) & (before < 0.3)].sum() / total) if total > 0 else 0.0


def nested_shells(backend: Backend, bvh: Bvh, mesh: Mesh) -> int:
    """How many shells of a closed surface that crosses itself nowhere do not part inside from outside: those within
    another solid, whose winding number goes from 2 to 1 there."""
    if int(mesh.shell.max()) == 0:
        return 0
    _, first = np.unique(mesh.shell, return_index=True)
    largest = np.lexsort((-np.linalg.norm(mesh.normals, axis=1), mesh.shell))
    faces = largest[np.searchsorted(mesh.shell[largest], np.arange(len(first)))]
    behind, before = sides(WindingIndex.of(backend, bvh), backend, mesh, faces)
    return int(np.sum((np.rint(behind) != 1) | (np.rint(before) != 0)))


def make_signer(backend: Backend, mesh: Mesh, bvh: Bvh, method: str) -> Signer:
    """The signer for a method of SignChoice."""
    if method == "none":
        return NoSigner(backend)
    if method == "pseudonormal":
        return PseudonormalSigner(backend, mesh, bvh)
    return WindingSigner(backend, mesh, WindingIndex.of(backend, bvh))


def settle_sign(
    backend: Backend, mesh: Mesh, bvh: Bvh, choice: SignChoice, again: bool = False
) -> tuple[SignChoice, Signer]:
    """The signer, and the choice as it stands after a look at what only the tree can tell of `auto`.

    Pseudonormals need a surface that parts inside from outside everywhere: where it folds back on itself, crosses
    itself, or lies in another solid, winding numbers are taken. And an open surface that encloses nothing has no sign.

    again: a signer by winding numbers makes its tree when it is asked for signs, and again after `rest`, which takes a
    GPU a millisecond with a million triangles. Of bvh it keeps the order.
    """
    if choice.boundary is not None:
        mesh.release(("unit_triangles",))
    choice = replace(choice, crossing=crossing_faces(backend, bvh))
    if choice.method == "pseudonormal" and not choice.asked_for:
        nested = 0 if choice.crossing else nested_shells(backend, bvh, mesh)
        found = f"{nested:,} shell{'s' if nested > 1 else ''} in other solids"
        if choice.crossing:
            found = f"{choice.crossing:,} faces cross others"
        if choice.crossing or nested:
            choice = replace(choice, method="winding", reason=_instead(choice, found))
    boundary, counted = choice.boundary or mesh, choice.counted
    choice = replace(choice, boundary=None, counted=None)  # they hold much memory
    if choice.method == "winding" and (again or counted is not None):
        make = functools.partial(WindingIndex.among, backend, bvh.order, counted)
        signer: Signer = WindingSigner(backend, boundary, make if again else make())
    else:
        signer = make_signer(backend, mesh, bvh, choice.method)
    if choice.asked_for or not isinstance(signer, WindingSigner) or signer.caps is None:
        return choice, signer
    share = enclosing_share(signer.index, backend, boundary)
    if share >= 0.5:
        return choice, signer
    reason = f"{choice.reason}; encloses nothing: its two sides differ on {share:.0%} of the surface"
    return replace(choice, method="none", reason=reason), NoSigner(backend)


def _instead(choice: SignChoice, found: str) -> str:
    """The reason with what was found in place of the claim that all is well."""
    _, *notes = choice.reason.split("; ")
    return "; ".join([f"closed, but {found}", *notes])


def sign_confidence(backend: Backend, bvh: Bvh, signer: Signer, points: Floats) -> float | None:
    """The share of points (n, 3) in the unit cube whose winding number is clear of the level 0.5; None without signs.

    1 on a closed surface; less where points lie in the mouths of holes, between inside and outside.
    """
    if isinstance(signer, NoSigner) or len(points) == 0:
        return None
    if signer.closed:
        return 1.0
    index = signer.index if isinstance(signer, WindingSigner) else WindingIndex.of(backend, bvh)
    winding = index.winding(backend, backend.from_host(points, np.float32), BETA)
    return len(backend.xp.flatnonzero(backend.xp.abs(winding - 0.5) > LEVEL)) / len(points)
