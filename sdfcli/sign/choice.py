"""The choice of the sign's method, and its confidence."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from sdfcli.backend import Backend
from sdfcli.mesh.arrays import Bools, Floats
from sdfcli.mesh.mesh import OF_EDGES, Mesh
from sdfcli.mesh.repair import repair
from sdfcli.sign.diagnose import crossing_faces, enclosing_share, nested_shells
from sdfcli.sign.pseudonormal import PseudonormalSigner
from sdfcli.sign.signer import NoSigner, Signer
from sdfcli.sign.winding import BETA, WindingIndex, WindingSigner
from sdfcli.spatial.radix_tree import Bvh

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
