"""Choice of the sign method."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from sdfcli.backend import Backend
from sdfcli.backend.rebuildable import Rebuildable
from sdfcli.mesh.arrays import Ints
from sdfcli.mesh.connectivity import OpenEdges
from sdfcli.mesh.mesh import OF_EDGES, Mesh
from sdfcli.mesh.repair import Orient, repair
from sdfcli.runtime.memory import release_freed
from sdfcli.sign.caps import Caps
from sdfcli.sign.diagnose import crossing_faces, enclosing_share, nested_shells
from sdfcli.sign.pseudonormal import PseudonormalSigner
from sdfcli.sign.signer import NoSigner, Signer
from sdfcli.sign.winding import WindingSigner
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.radix_tree import Bvh


@dataclass(frozen=True)
class SignChoice:
    """The sign method, and the reason for it in words for the user.

    inverted    number of shells that were oriented inwards and have been flipped.
    crossing    number of faces that cross or overlap others; 0 until counted, see `settle_sign`.
    encloses    whether some part has an inside; see mesh/repair.py.
    left_out    (k,) faces excluded from winding numbers; None: all are included.
    open_edges  the included faces' open edges, if some are excluded.
    """

    method: str
    reason: str
    requested: bool = False
    inverted: int = 0
    crossing: int = 0
    encloses: bool = True
    left_out: Ints | None = None
    open_edges: OpenEdges | None = None


def choose_sign(mesh: Mesh, asked: str, orient: Orient | None = None) -> tuple[Mesh, SignChoice]:
    """Returns the mesh with consistently oriented faces (see mesh/repair.py), and a preliminary choice from the mesh
    alone.

    `auto` selects pseudonormals for a mesh without faults, otherwise winding numbers; `settle_sign` may change this.

    orient: see `repair`.
    """
    if asked == "none":
        return mesh, SignChoice(asked, "asked for", requested=True)
    repaired = repair(mesh, orient)
    mesh.__dict__["degenerate"] = repaired.mesh.degenerate  # unchanged by flipping faces
    health = mesh.health
    notes = repaired.notes
    if asked != "auto":
        method, reason = asked, "asked for"
    elif repaired.left_out is None and repaired.encloses and not repaired.mesh.health.faults:
        method, reason = "pseudonormal", "closed, oriented, no degenerate or non-manifold spots"
    else:
        method, reason = "winding", ", ".join(health.faults) or "closed, but flat"
        if not health.watertight and not repaired.edges.open:
            notes = [*notes, "closed then"]
    if repaired.left_out is None:
        _ = repaired.mesh.health, repaired.mesh.shell, repaired.mesh.open_edges  # cached for later use
    if repaired.mesh is not mesh:
        mesh.release()
    repaired.mesh.release(OF_EDGES)
    return repaired.mesh, SignChoice(
        method,
        "; ".join([reason, *notes]),
        requested=asked != "auto",
        inverted=repaired.inverted,
        encloses=repaired.encloses,
        left_out=repaired.left_out,
        open_edges=None if repaired.left_out is None else repaired.edges.open_edges,
    )


def make_signer(backend: Backend, mesh: Mesh, bvh: Bvh, method: str) -> Signer:
    """Creates the signer for a SignChoice method."""
    if method == "none":
        return NoSigner(backend)
    if method == "pseudonormal":
        return PseudonormalSigner(backend, mesh, bvh)
    return WindingSigner(backend, Caps.of(backend, mesh), _moments(backend, bvh))


def _moments(backend: Backend, bvh: Bvh, left_out: Ints | None = None, lazy: bool = False) -> Rebuildable[WindingIndex]:
    """Moments over all faces except `left_out` (k,). lazy: computed on first use with their own tree, without boxes."""
    made = None if lazy or left_out is not None else WindingIndex.of(backend, bvh, boxes=True)
    return Rebuildable(functools.partial(WindingIndex.among, backend, bvh.order, left_out, not lazy), made)


def settle_sign(
    backend: Backend, mesh: Mesh, bvh: Bvh, choice: SignChoice, lazy: bool = False
) -> tuple[SignChoice, Signer, bool]:
    """Returns the final choice, the signer, and whether crossing faces were counted, from tests that need a tree.
    Crossing faces are counted only if the choice depends on them.

    Pseudonormals need an inside and an outside on the surface's two sides everywhere: for a surface that folds back on
    itself, crosses itself, or lies in another solid, `auto` selects winding numbers. A surface that encloses nothing,
    open or flat, has no sign.

    lazy: compute winding-number moments on first use with their own tree, so that only the order of `bvh` is retained.
    """
    counts = choice.method == "pseudonormal" and not choice.requested
    crossing = crossing_faces(backend, bvh) if counts else None
    if not backend.memory.scarce:
        release_freed()  # before moments are allocated
    if crossing:
        choice = replace(choice, crossing=crossing())
        nested = 0 if choice.crossing else nested_shells(backend, bvh, mesh)
        found = f"{nested:,} shell{'s' if nested > 1 else ''} in other solids"
        if choice.crossing:
            found = f"{choice.crossing:,} faces cross others"
        if choice.crossing or nested:
            choice = replace(choice, method="winding", reason=_instead(choice, found))
    left_out, open_edges = choice.left_out, choice.open_edges
    choice = replace(choice, left_out=None, open_edges=None)  # large arrays
    if choice.method != "winding":
        return choice, make_signer(backend, mesh, bvh, choice.method), counts
    signer = WindingSigner(backend, Caps.of(backend, mesh, open_edges), _moments(backend, bvh, left_out, lazy))
    if choice.requested or (signer.closed and choice.encloses):
        return choice, signer, counts
    share = enclosing_share(signer.index, mesh, left_out)
    if share >= 0.5:
        return choice, signer, counts
    reason = f"{choice.reason}; encloses nothing: its two sides differ on {share:.0%} of the surface"
    return replace(choice, method="none", reason=reason), NoSigner(backend), counts


def _instead(choice: SignChoice, found: str) -> str:
    """Replaces the claim of a faultless mesh in the reason by the fault found."""
    _, *notes = choice.reason.split("; ")
    return "; ".join([f"closed, but {found}", *notes])
