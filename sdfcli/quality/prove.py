"""Bounds on a field's error that hold everywhere in the domain; docs/internals/proof.md derives them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.octree.grown import Progress
from sdfcli.quality.accuracy import MOST_SUSPECTS, at_jumps
from sdfcli.quality.as_given import GivenMesh
from sdfcli.quality.proven_surface import ProvenSurface, proven_surface

HALVINGS, HOLE_HALVINGS = 8, 4
"""Maximum halvings of a leaf; and of one with parts in which the sign may change without a face."""

MARGIN = 1.25
"""Cells are split until no bound exceeds the largest error found by this factor, or EARLY if larger."""

EARLY = 0.5
"""Share of the tolerance up to which bounds are not improved."""

SLACK = 2e-10
"""Allowance for the rounding of a distance or a position, relative to the size of mesh and domain: a distance to a
sliver is off by up to 5e-11 (see ExactReference), all others by a few times 1e-16."""

JUMP: int = C.PROOF_FREE | C.PROOF_OUTSIDE | C.PROOF_INSIDE
"""Marks of a leaf with a proven jump: both signs, and no face."""

CHUNK = 1 << 17
"""Cells per launch, a multiple of 8."""

REASONS = {
    "jump": "jump",
    "open_hole": "open hole",
    "above_tolerance": "above the tolerance",
    "not_certified": "not certified",
}
"""Why leaves are not certified, by name in `info`."""

MOST_ERROR = 1e30
"""Errors from which on `info` states none."""

Bounds = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False, eq=False)
class Proof:
    """Bounds on a field's error, valid at every point of the domain. Errors are fractions of the unit; outside the band
    they are divided by distance / band.

    Attributes:
        error: the largest possible error in leaves without a jump.
        found: the largest error found there, at leaves' and their parts' centres and corners.
        leaf: index of the leaf with the largest possible error.
        where: (3,) its centre, in mesh units.
        edge: its edge, in mesh units.
        bound: (n,) the largest possible error by leaf; infinite at a jump.
        unproven: leaves (k,) whose bound exceeds the tolerance, by reason: `open hole`, `jump`, `above the tolerance`
            and `not certified after N halvings`. `jump`: the sign changes without a face in the leaf, or within a
            leaf's width of it; `open hole`: it may change there.
        closed: whether no sign can change without a face.
        surface: what follows for the field's surface; None unless requested, and for unsigned distances.
    """

    error: float
    found: float
    leaf: int
    where: tuple[float, float, float]
    edge: float
    bound: Bounds
    unproven: dict[str, Ints]
    closed: bool
    surface: ProvenSurface | None = None

    @property
    def certified(self) -> float:
        """Share of leaves whose error is proven to be within the tolerance."""
        return 1.0 - sum(map(len, self.unproven.values())) / len(self.bound)

    def as_info(self) -> dict[str, Any]:
        """Entries of a field's info."""
        count = {reason.split(" after")[0]: len(leaves) for reason, leaves in self.unproven.items()}
        counts = {name: count.get(reason, 0) for name, reason in REASONS.items()}
        error = self.error if self.error < MOST_ERROR else None
        return {"proven_error": error, "certificate": {"closed": self.closed, **counts}}

    def __repr__(self) -> str:
        return f"<Proof: error at most {self.error:.3g}, {self.certified:.2%} of {len(self.bound):,} leaves certified>"


class LeafBounds(NamedTuple):
    """A proof's results by leaf.

    mark   (n,) uint32, see kernels/verify/prove.h.
    found  (n,) largest errors found.
    bound  (n,) largest possible errors.
    """

    mark: Ints
    found: Floats
    bound: Floats


class _Parents(NamedTuple):
    """Cells whose eight parts are bounded: `leaf` (k,) uint32, `path` (k,) uint32 of octants in it, three bits each
    (and its sign, see the kernel), `bound` (k,) float64, and `face` (k,) uint32, nearest to the centre. All None: the
    leaves themselves are bounded."""

    leaf: Array | None = None
    path: Array | None = None
    bound: Array | None = None
    face: Array | None = None

    def part(self, first: int, last: int) -> _Parents:
        """The parents of cells `first` to `last`, multiples of 8."""
        return _Parents(*(None if each is None else each[first // 8 : last // 8] for each in self))


def prove(
    field: Field, reference: GivenMesh, backend: Backend, unit: float, tolerance: float, band: float, progress: Progress
) -> Proof:
    """Bounds a field's error in every leaf, and its surface. unit: in the mesh's units; tolerance, band: in units."""
    leaves = bound_leaves(field, reference, backend, unit, tolerance, band, progress)
    proof = conclude(field, reference, leaves, tolerance)
    if not reference.signed:
        return proof
    return replace(proof, surface=proven_surface(field, backend, leaves.mark, proof.bound, band))


def bound_leaves(
    field: Field,
    reference: GivenMesh,
    backend: Backend,
    unit: float,
    tolerance: float,
    band: float,
    progress: Progress,
    chosen: Array | None = None,
    known: float = 0.0,
) -> LeafBounds:
    """Bounds a field's error in leaves; other arguments as for `prove`.

    chosen: indices (k,) of the leaves, on the device; None: all. known: the largest error found in others.
    """
    arrays = field._arrays_on(backend)
    if chosen is not None:
        arrays = {name: array if name == "value" else array[chosen] for name, array in arrays.items()}
    xp, leaves, surface, solid = backend.xp, len(arrays["leaf_key"]), reference.surface, reference.boundary
    corners = len(arrays["value"])
    mark = backend.filled(leaves, 0, np.uint32)
    leaf_found, leaf_bound = (backend.filled(leaves, 0, np.uint64) for _ in range(2))
    low, length = (field.domain.origin - surface.centre) / surface.extent, field.domain.length / surface.extent
    shift = (surface.centre - solid.centre) / solid.extent
    task = backend.group(
        "ProofTask",
        surface=surface.tree,
        solid=solid.tree,
        boundary=solid.boundary,
        scale=surface.extent / solid.extent,
        **dict(zip(("shift_x", "shift_y", "shift_z"), shift.tolist(), strict=True)),
        is_signed=int(reference.signed),
        hole_halvings=HOLE_HALVINGS,
        **dict(zip("xyz", low.tolist(), strict=True)),
        length=length,
        slack=SLACK * max(1.0, float(np.abs(low).max()) + length),
        unit=unit / surface.extent,
        band=band * unit / surface.extent,
        value_scale=1.0 / surface.extent,
        mark=mark,
        leaf_found=leaf_found,
        corner_distance=xp.empty(corners, np.float64),
        corner_face=xp.empty(corners, np.uint32),
        corner_sign=xp.empty(corners, np.uint8),
        **arrays,
    )
    used = xp.zeros(corners, np.uint8)
    used[arrays["leaf_corner"].reshape(-1)] = 1
    used = backend.compact(used)
    progress(f"proof, {len(used):,} corners")
    runs = -(-len(used) // C.PROOF_RUN)
    key = field._corner_keys_on(backend)
    backend.run("sdf_proof_corners", runs, task=task, count=len(used), chosen=used, key=key)
    backend.synchronize()
    del key, used
    nearest = xp.empty(leaves, np.uint32)
    for first in range(0, leaves, CHUNK):
        chunk = nearest[first : first + CHUNK]
        backend.run("sdf_proof_centres", len(chunk), task=task, first=first, face=chunk)
        backend.synchronize()

    def excluded() -> Bools:
        return excluded_leaves(backend.to_host(mark))

    def errors(bits: Array) -> Floats:
        return np.asarray(backend.to_host(bits).view(np.float64))

    def allowed() -> float:
        """Bounds to stop at: cells are split above it."""
        return max(EARLY * tolerance, MARGIN * max(known, float(errors(leaf_found)[~excluded()].max(initial=0.0))))

    parents, cells, limit = _Parents(), leaves, allowed()
    for halvings in range(HALVINGS + 1):
        bound, state, face = (xp.empty(cells, dtype) for dtype in (np.float64, np.uint8, np.uint32))
        chunks = [slice(first, min(first + CHUNK, cells)) for first in range(0, cells, CHUNK)]
        for chunk in chunks:
            progress(f"proof, {halvings} halvings, {chunk.stop / cells:.0%} of {cells:,} cells")
            above = parents.part(chunk.start, chunk.stop)
            backend.run(
                "sdf_proof_cells",
                chunk.stop - chunk.start if above.leaf is None else len(above.leaf),
                task=task,
                halvings=halvings,
                first=chunk.start,
                limit=min(limit, tolerance),
                most=MARGIN * max(limit, tolerance) if halvings < HALVINGS else np.inf,
                leaf=above.leaf,
                path=above.path,
                above=above.bound,
                face=nearest[chunk] if above.leaf is None else above.face,
                bound=bound[chunk],
                state=state[chunk],
                nearest=face[chunk],
            )
            backend.synchronize()
        limit = allowed()
        split = []
        for chunk in chunks:
            above = parents.part(chunk.start, chunk.stop)
            cells_of = {"first": chunk.start, "leaf": above.leaf}
            chosen = xp.empty(chunk.stop - chunk.start, np.uint8)
            backend.run(
                "sdf_proof_settle",
                len(chosen),
                task=task,
                last=int(halvings == HALVINGS),
                limit=limit,
                tolerance=tolerance,
                bound=bound[chunk],
                state=state[chunk],
                leaf_bound=leaf_bound,
                split=chosen,
                **cells_of,
            )
            number = backend.compact(chosen)
            new = _Parents(*(xp.empty(len(number), dtype) for dtype in (np.uint32, np.uint32, np.float64, np.uint32)))
            given = {"path": above.path, "bound": bound[chunk], "state": state[chunk], "nearest": face[chunk]}
            given |= {"chosen": number, **cells_of}
            made = {f"split_{name}": array for name, array in new._asdict().items()}
            backend.run("sdf_proof_split", len(number), **given, **made)
            split.append(new)
        parents = _Parents(*(xp.concatenate(each) for each in zip(*split, strict=True)))
        assert parents.leaf is not None
        cells = 8 * len(parents.leaf)
        if cells == 0:
            break
    return LeafBounds(backend.to_host(mark), errors(leaf_found), errors(leaf_bound))


def excluded_leaves(mark: Ints) -> Bools:
    """Leaves with the marks (n,) in which the sign changes, or may change, without a face."""
    return np.asarray((mark & JUMP == JUMP) | (mark & C.PROOF_HOLE > 0))


def conclude(field: Field, reference: GivenMesh, leaves: LeafBounds, tolerance: float) -> Proof:
    """The proof, from a field's bounds by leaf."""
    mark, found, bound = leaves
    excluded, jump = excluded_leaves(mark), mark & JUMP == JUMP
    missed = np.flatnonzero(~excluded & (bound > tolerance))
    if reference.has_jumps and 0 < len(missed) <= MOST_SUSPECTS * len(bound):
        jump[missed] = at_jumps(field, reference, leaf_boxes(field, missed)[0])
    excluded |= jump
    above = ~excluded & (bound > tolerance)
    reasons = {
        "jump": jump,
        "open hole": excluded & ~jump,
        "above the tolerance": above & (found > tolerance),
        f"not certified after {HALVINGS} halvings": above & (found <= tolerance),
    }
    considered = np.where(excluded, -1.0, bound)
    leaf = int(np.argmax(considered))
    (where,), (edge,) = leaf_boxes(field, np.array([leaf]))
    return Proof(
        error=max(0.0, float(considered[leaf])),
        found=float(found[~excluded].max(initial=0.0)),
        leaf=leaf,
        where=(float(where[0]), float(where[1]), float(where[2])),
        edge=float(edge),
        bound=np.where(excluded, np.inf, bound),
        unproven={reason: np.flatnonzero(which) for reason, which in reasons.items() if which.any()},
        closed=not reference.has_jumps,
    )


def leaf_boxes(field: Field, leaves: Ints) -> tuple[Floats, Floats]:
    """Centres (k, 3) and edges (k,) of leaves (k,), in mesh units."""
    edge = field.domain.length * 0.5 ** field.leaf_level[leaves].astype(np.float64)
    low = lattice_position(field.leaf_key[leaves])
    return np.asarray(field.domain.origin + field.domain.length * low + edge[:, None] / 2), edge
