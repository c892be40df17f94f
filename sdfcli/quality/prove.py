"""Bounds on a field's error that hold everywhere in the domain; docs/internals/proof.md derives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.octree.grown import Progress
from sdfcli.quality.accuracy import MOST_SUSPECTS, at_jumps
from sdfcli.quality.as_given import GivenMesh

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
    """

    error: float
    found: float
    leaf: int
    where: tuple[float, float, float]
    edge: float
    bound: Bounds
    unproven: dict[str, Ints]

    @property
    def certified(self) -> float:
        """Share of leaves whose error is proven to be within the tolerance."""
        return 1.0 - sum(map(len, self.unproven.values())) / len(self.bound)

    def __repr__(self) -> str:
        return f"<Proof: error at most {self.error:.3g}, {self.certified:.2%} of {len(self.bound):,} leaves certified>"


class _Parents(NamedTuple):
    """Cells whose eight parts are bounded: `leaf` (k,) uint32, `path` (k,) uint32 of octants in it, three bits each
    (and its sign, see the kernel), and `bound` (k,) float64. All None: the leaves themselves are bounded."""

    leaf: Array | None = None
    path: Array | None = None
    bound: Array | None = None

    def part(self, first: int, last: int) -> _Parents:
        """The parents of cells `first` to `last`, multiples of 8."""
        return _Parents(*(None if each is None else each[first // 8 : last // 8] for each in self))


def prove(
    field: Field, reference: GivenMesh, backend: Backend, unit: float, tolerance: float, band: float, progress: Progress
) -> Proof:
    """Bounds a field's error in every leaf. unit: in the mesh's units; tolerance, band: in units."""
    xp, leaves, surface, solid = backend.xp, len(field.leaf_key), reference.surface, reference.boundary
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
        **field._arrays_on(backend),
    )

    def excluded() -> Bools:
        return _excluded(backend.to_host(mark))

    def errors(bits: Array) -> Floats:
        return np.asarray(backend.to_host(bits).view(np.float64))

    parents, cells, limit = _Parents(), leaves, EARLY * tolerance
    for halvings in range(HALVINGS + 1):
        bound, state = xp.empty(cells, np.float64), xp.empty(cells, np.uint8)
        chunks = [slice(first, min(first + CHUNK, cells)) for first in range(0, cells, CHUNK)]
        for chunk in chunks:
            progress(f"proof, {halvings} halvings, {chunk.stop / cells:.0%} of {cells:,} cells")
            above = parents.part(chunk.start, chunk.stop)
            backend.run(
                "sdf_proof_cells",
                chunk.stop - chunk.start,
                task=task,
                halvings=halvings,
                first=chunk.start,
                limit=min(limit, tolerance),
                leaf=above.leaf,
                path=above.path,
                above=above.bound,
                bound=bound[chunk],
                state=state[chunk],
            )
            backend.synchronize()
        limit = max(limit, MARGIN * float(errors(leaf_found)[~excluded()].max(initial=0.0)))
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
            new = _Parents(*(xp.empty(len(number), dtype) for dtype in (np.uint32, np.uint32, np.float64)))
            given = {"path": above.path, "bound": bound[chunk], "state": state[chunk], "chosen": number, **cells_of}
            made = {f"split_{name}": array for name, array in new._asdict().items()}
            backend.run("sdf_proof_split", len(number), **given, **made)
            split.append(new)
        parents = _Parents(*(xp.concatenate(each) for each in zip(*split, strict=True)))
        assert parents.leaf is not None
        cells = 8 * len(parents.leaf)
        if cells == 0:
            break
    return _proof(field, reference, backend.to_host(mark), errors(leaf_found), errors(leaf_bound), tolerance)


def _excluded(mark: Ints) -> Bools:
    """Leaves with the marks (n,) in which the sign changes, or may change, without a face."""
    return np.asarray((mark & JUMP == JUMP) | (mark & C.PROOF_HOLE > 0))


def _proof(field: Field, reference: GivenMesh, mark: Ints, found: Floats, bound: Floats, tolerance: float) -> Proof:
    excluded, jump = _excluded(mark), mark & JUMP == JUMP
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
    )


def leaf_boxes(field: Field, leaves: Ints) -> tuple[Floats, Floats]:
    """Centres (k, 3) and edges (k,) of leaves (k,), in mesh units."""
    edge = field.domain.length * 0.5 ** field.leaf_level[leaves].astype(np.float64)
    low = lattice_position(field.leaf_key[leaves])
    return np.asarray(field.domain.origin + field.domain.length * low + edge[:, None] / 2), edge
