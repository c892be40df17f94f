"""A build's measured error, and its field's metadata."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sdfcli.backend import Array
from sdfcli.field.field import Field
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.health import Health
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.grown import Grown
from sdfcli.params import BuildParams
from sdfcli.quality.accuracy import (
    MOST_SUSPECTS,
    Evaluated,
    RegionErrors,
    at_jump,
    drawn_points,
    errors_by_region,
    region_counts,
)
from sdfcli.quality.check import mesh_report, verdict
from sdfcli.quality.thickness import Sheets, find_sides, spots
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.schedule import Deferred
from sdfcli.scene import Scene

MEASURED_POINTS = 30_000
"""Random points for a build's measured error; `verify` uses more."""

SEED = 20_000


@dataclass(frozen=True)
class Samples:
    """Random points for the measured error, in the mesh's units.

    counts   point count by region; see accuracy.sample_points.
    points   (n, 3) float64, region by region.
    spots    surface points and their unit normals, see thickness.spots; None: thickness is not measured.
    in_band  (n, 3) float64, points in the band, unit cube coordinates.
    """

    counts: dict[str, int]
    points: Floats
    spots: tuple[Floats, Floats] | None
    in_band: Floats


def draw_samples(mesh: Mesh, band: float, points: int = MEASURED_POINTS, thickness: bool = True) -> Samples:
    """A mesh's samples, deterministic."""
    drawn, counts = drawn_points(mesh, band, points, SEED), region_counts(points)
    return Samples(
        counts,
        drawn,
        spots(mesh) if thickness else None,
        mesh.domain.to_unit(drawn[counts["near"] : -counts["everywhere"]]),
    )


class Facts(NamedTuple):
    """Facts about the mesh as given: faults, notes from its file, its `of_file`, hash; the error sample points; and the
    diagonal, if the mesh is the solid of another one."""

    health: Health
    notes: list[str]
    of_file: dict[str, Any]
    sha256: Deferred[str]
    samples: Deferred[Samples]
    diagonal: float | None = None


@dataclass(frozen=True)
class Measured:
    """Errors as fractions of the diagonal. worst: region with the largest error. limit: cause of an error above the
    tolerance, else None. samples: count of measured points. sheets: as in a field's info."""

    worst: RegionErrors
    limit: str | None
    rms: float
    samples: int
    sheets: dict[str, Any]


class Answers(NamedTuple):
    """Exact results for samples, independent of the field.

    samples     the samples.
    confidence  share of in_band points with a certain sign; None without signs or points.
    sides       walls and gaps at the spots, from find_sides; None: thickness is not measured.
    at          (m, 3) float64 on the device: sample points, then midpoints of walls and gaps, in the mesh's units.
    truth       (m,) exact signed distances at these points.
    """

    samples: Samples
    confidence: float | None
    sides: tuple[int, Ints, Floats, Floats] | None
    at: Array
    truth: Floats


def ask(scene: Scene, drawn: Deferred[Samples], params: BuildParams) -> Answers:
    """Queries the surface at samples."""
    index, backend, signer, samples = MeshDistance._of(scene), scene.backend, scene.signer, drawn.get()
    points, sides = samples.points, None  # all points are queried together
    if samples.spots is not None:
        sides = find_sides(index, *samples.spots, params.tolerance)
        if len(sides[-1]):
            points = np.concatenate((points, sides[-1]))
    at = backend.from_host(points)
    truth = backend.to_host(index.signed_distance(at))
    return Answers(samples, 1.0 if signer.closed else signer.confidence(samples.in_band), sides, at, truth)


def measure(field: Field, scene: Scene, asked: Answers, params: BuildParams, grown: Grown) -> Measured:
    """The field's errors against exact distances, and its lost thin walls and gaps. Reads only the field's device
    arrays."""
    index, mesh, backend = MeshDistance._of(scene), scene.mesh, scene.backend
    samples, _, sides, at, truth = asked
    many, value = len(samples.points), backend.to_host(field.sample(at))
    evaluated = Evaluated(samples.counts, samples.points, truth[:many], value[:many])
    suspects = MOST_SUSPECTS if _may_jump(scene) else 0.0
    found = errors_by_region(field, mesh.unit, params.tolerance, params.band, index, evaluated, suspects).values()
    scale = mesh.unit / mesh.domain.length
    kept = {"kept_from": grown.thinnest_kept and grown.thinnest_kept / scale, "leaves": grown.sheet_leaves}
    if sides is None:
        thinnest = Sheets.unknown()
    else:
        sheets = Sheets(*sides, truth[many:] < 0)
        thinnest = sheets.report(sheets.lost(value[many:]) if scene.signed else None, mesh, params)
    worst = max(found, key=lambda region: region.largest)
    return Measured(
        worst=worst,
        limit=_error_limit(field, scene, worst, params) if worst.largest > params.tolerance else None,
        rms=math.sqrt(math.fsum(region.rms * region.rms for region in found) / len(found)),
        samples=sum(region.samples - region.jumps for region in found),
        sheets={**kept, **thinnest},
    )


def _may_jump(scene: Scene) -> bool:
    """Whether the sign may jump away from the surface: at closed holes, or with explicitly requested pseudonormals,
    which may be unsafe."""
    return not scene.signer.closed or scene.requested == "pseudonormal"


def describe(
    scene: Scene, params: BuildParams, facts: Facts, confidence: float | None, grown: Grown, measured: Measured
) -> dict[str, Any]:
    """A field's info (docs/reference/file.md), without mesh hash and octree depth."""
    mesh, choice, worst = scene.mesh, scene.choice, measured.worst
    scale = mesh.unit / mesh.domain.length
    return {
        "parameters": params.resolved(scale),
        "mesh": {"diagonal": facts.diagonal or mesh.diagonal, **mesh_report(facts.health, choice), **facts.of_file},
        "verdict": verdict(facts.health, choice, confidence, measured.sheets["lost"]),
        "sheets": measured.sheets,
        "sign": choice.method,
        "sign_reason": choice.reason,
        "sign_confidence": confidence,
        "jump_leaves": grown.jump_leaves,
        "max_error": worst.largest,
        "error_limit": measured.limit,
        "rms_error": measured.rms,
        "error_samples": measured.samples,
    }


def _error_limit(field: Field, scene: Scene, worst: RegionErrors, params: BuildParams) -> str:
    """Cause of an error above the tolerance."""
    if params.octree == "bvh":
        return "triangles"
    if _may_jump(scene) and at_jump(field, MeshDistance._of(scene), worst.where):
        return "jumps"
    finest = field.domain.length * 0.5 ** params.depth_limit(scene.mesh.unit / scene.mesh.domain.length)
    return "depth" if field.cell_at([worst.where])[1][0] < 1.5 * finest else "samples"
