"""Mesh check: faults, their remedies in a build, and a verdict."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypedDict, cast

import numpy as np

from sdfcli.backend import select_backend
from sdfcli.mesh.health import Health, count_text
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import MeshSource, load_placed
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import AUTO, CAP, FEW_LOST, BuildParams
from sdfcli.quality.accuracy import sample_points
from sdfcli.quality.thickness import find_sheets, spots
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.scene import Scene
from sdfcli.sign.choice import SignChoice

SURE = 0.95
"""Minimum share of points with a certain sign, and of surface not lost, for a better verdict than doubtful."""

SAMPLES, SEED = 30_000, 20_000
COARSE = 1e-6
"""Float32 coordinate spacing above which it is reported, as a fraction of the diagonal."""


class Finding(TypedDict):
    """A fault of a mesh (`what`), and its treatment in a build (`then`)."""

    what: str
    then: str


class Advised(TypedDict, total=False):
    """Advice, if `auto` finds no certain signs: see solid/advice.py."""

    advice: dict[str, Any]


class MeshCheck(Advised):
    """A mesh's faults, size and thin walls, as `sdfcli check --json` prints them (docs/reference/json.md)."""

    verdict: str
    measured: bool
    watertight: bool
    oriented: bool
    triangles: int
    vertices: int
    shells: int
    open_edges: int
    non_manifold_edges: int
    inconsistent_edges: int
    degenerate_faces: int
    duplicate_faces: int
    inverted_shells: int
    crossing_faces: int
    diagonal: float
    size: list[float]
    lowest: list[float]
    units: str | None
    deflection: float | None
    notes: list[str]
    sign: str
    sign_reason: str
    sign_confidence: float | None
    sheets: dict[str, float | None]
    findings: list[Finding]


def estimated_check(
    source: MeshSource, params: BuildParams, device: str = "auto", threads: int | None = None
) -> tuple[MeshCheck, bool]:
    """A check without a build: `sheets` is an estimate, of more lost walls than a build mostly has; and whether the
    verdict would be better if no walls were lost, so that only a build decides.

    Raises InputError for an unusable mesh, UsageError for one that leaves the domain.
    """
    backend = select_backend(device, threads)
    mesh = load_placed(source, params, backend).on(backend)
    scene = Scene.of(treated(mesh, params.holes), params.sign, backend)
    turned = scene.mesh
    places = spots(turned)
    confidence, choice = confidence_of(scene, params.band), scene.choice
    report = mesh_report(mesh.health, choice)
    found = find_sheets(MeshDistance._of(scene), *places, params.tolerance)
    lost = found.may_be_lost(turned, params) if choice.method != "none" else None
    sheets = found.report(lost, turned, params)
    estimated, clean = (verdict(mesh.health, choice, confidence, share) for share in (sheets["lost"], None))
    facts: dict[str, Any] = {
        "verdict": estimated,
        "measured": False,
        **report,
        "diagonal": mesh.diagonal,
        "size": [float(x) for x in mesh.bounds[1] - mesh.bounds[0]],
        "lowest": [float(x) for x in mesh.bounds[0]],
        "units": mesh.units,
        "deflection": mesh.deflection,
        "notes": mesh.notes,
        "sign": choice.method,
        "sign_reason": choice.reason,
        "sign_confidence": confidence,
        "sheets": sheets,
        "findings": [{"what": what, "then": then} for what, then in findings(mesh, report, choice, params.holes)],
    }
    if params.sign == AUTO and uncertain(choice, confidence):
        from sdfcli.solid.advice import advice_for

        facts["advice"] = advice_for(turned, backend)
    return cast(MeshCheck, facts), estimated != clean


def confidence_of(scene: Scene, band: float = BuildParams.band) -> float | None:
    """Share of random points in the band with a certain sign; None without signs."""
    near = sample_points(scene.mesh, band, SAMPLES, SEED)["band"]
    return scene.signer.confidence(scene.mesh.domain.to_unit(near))


def mesh_report(health: Health, choice: SignChoice) -> dict[str, Any]:
    """A mesh's faults, as stored in a field's info."""
    return {
        "watertight": health.watertight,
        "oriented": health.inconsistent_edges == 0,
        **asdict(health),
        "inverted_shells": choice.inverted,
        "crossing_faces": choice.crossing,
    }


def verdict(health: Health, choice: SignChoice, confidence: float | None, lost: float | None) -> str:
    """One of VERDICTS, except `unusable`, for which `load_mesh` raises an error.

    good      closed, oriented, without faults; at most FEW_LOST of the surface is lost.
    usable    has faults, but the sign is certain and little is lost, or no signs were requested.
    doubtful  no sign is possible, or it depends on how holes are closed, or many thin parts are lost.

    lost: share of the surface lost in thin parts, see thickness.py; None without signs.
    """
    if uncertain(choice, confidence) or (lost or 0.0) > 1 - SURE:
        return "doubtful"
    return "usable" if health.faults or choice.inverted or choice.crossing or (lost or 0.0) > FEW_LOST else "good"


def uncertain(choice: SignChoice, confidence: float | None) -> bool:
    """Whether no sign is possible although none were refused, or too few points have a certain one."""
    return (choice.method == "none" and not choice.requested) or (confidence is not None and confidence < SURE)


def findings(mesh: Mesh, report: dict[str, Any], choice: SignChoice, holes: str) -> list[tuple[str, str]]:
    """A mesh's faults, each with its remedy in a build; without signs they need none. holes: see BuildParams."""
    remedies = {
        "open_edges": "signs as if the holes were closed",
        "inconsistent_edges": "faces turned to agree, where that is possible",
        "non_manifold_edges": "signs by winding numbers",
        "degenerate_faces": "kept for distances; signs by winding numbers",
        "duplicate_faces": "counted once for signs",
        "inverted_shells": "turned",
        "crossing_faces": "overlapping parts united; signs by winding numbers",
    }
    if choice.method == "none":
        kept = dict.fromkeys(remedies, "kept, and irrelevant to distances without signs")
        remedies = {**kept, "open_edges": "distances without signs"}
    if holes == CAP:
        remedies["open_edges"] = "holes closed by faces"
    found = [(count_text(report[name], name), then) for name, then in remedies.items() if report[name]]
    largest = float(np.abs(mesh.bounds).max())
    step = float(np.spacing(np.float32(largest))) / mesh.diagonal
    if step > COARSE:
        found.append(
            (
                f"coordinates up to {largest:.3g} for a size of {mesh.diagonal:.3g}",
                f"kept in double precision; a file in single precision would have steps of {step:.1g} of the size",
            )
        )
    return found
