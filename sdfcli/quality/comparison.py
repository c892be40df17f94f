"""`compare`: the distance between two meshes: the largest, proven, and the mean, sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from os import PathLike

import numpy as np

from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.grown import Progress
from sdfcli.params import UNITS, check_scale, real, whole
from sdfcli.quality.accuracy import Places, surface_samples
from sdfcli.quality.hausdorff import Directed, Frame, Located, directed
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors

LEAST_WITHIN = 1e-6
"""Minimum relative interval width."""


@dataclass(frozen=True)
class Deviation(Directed):
    """Distances from one mesh's points to another mesh, in mesh units. The largest is proven to lie between two bounds;
    mean, rms, `outside` and `inside` come from random points, uniform by area.

    Attributes:
        lower: distance at `point`, rounded down.
        upper: no point is farther.
        point: (3,), on the first mesh.
        face: the first mesh's face with that point.
        nearest: (3,), the second mesh's point nearest to it.
        nearest_face: the second mesh's face with that point.
        parts: faces and their parts examined.
        mean: mean distance.
        mean_error: its standard error.
        rms: root mean square distance.
        rms_error: its standard error.
        outside: largest distance found outside the second mesh; None if that has no inside.
        inside: largest distance found inside it; None if it has none.
        samples: random point count.
    """

    mean: float
    mean_error: float
    rms: float
    rms_error: float
    outside: float | None
    inside: float | None
    samples: int


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two meshes' Hausdorff distance, in mesh units, and the distances in either direction.

    Attributes:
        passed: whether the distance is proven to be at most `max_distance`; True without one.
        decided: whether the bounds decide that; False only where they differ by less than float32 resolves.
        lower: lower bound on the Hausdorff distance, attained at a point.
        upper: upper bound on it.
        max_distance: largest distance allowed; None: any.
        a_to_b: distances from the first mesh's points to the second mesh.
        b_to_a: distances from the second mesh's points to the first mesh.
        diagonal: bounding box diagonal around both meshes.
        notes: parts of the meshes' files that were skipped or reinterpreted.
    """

    passed: bool
    decided: bool
    lower: float
    upper: float
    max_distance: float | None
    a_to_b: Deviation
    b_to_a: Deviation
    diagonal: float
    notes: list[str]

    def __repr__(self) -> str:
        verdict = "" if self.max_distance is None else f", {'passed' if self.passed else 'failed'}"
        return f"<Comparison: {self.lower:.4g} to {self.upper:.4g}{verdict}>"


@memory_errors("compare meshes with fewer triangles")
def compare(
    a: MeshSource,
    b: MeshSource,
    *,
    max_distance: float | None = None,
    within: float = 0.01,
    samples: int = 100_000,
    seed: int = 0,
    sign: str = "auto",
    units: str | None = None,
    scale: float | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Measures two meshes' Hausdorff distance: the largest distance from a point on either to the other.

    The distance is proven to lie between two bounds. The lower one is attained at a known point. The upper one comes
    from branch and bound over parts of faces, in float64, and holds for all points. Faces count as they are given, also
    degenerate ones.

    Args:
        a: a mesh: a path, a `trimesh.Trimesh`, or vertices (v, 3) and faces (f, 3).
        b: another mesh.
        max_distance: largest distance allowed, in mesh units. The bounds are refined until they decide.
        within: relative difference of the bounds, 1e-6 to 1; never below 1e-6 diagonals around both meshes.
        samples: random points per mesh for mean, rms, `outside` and `inside`, 2 or more.
        seed: random seed for the points.
        sign: `auto`, `pseudonormal`, `winding` or `none`, as for `sdfcli.build`, for `outside` and `inside`.
        units: unit to which both files' coordinates are converted, as for `sdfcli.build`.
        scale: factor for the second mesh's coordinates.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. Results do not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.
        progress: called with a short description now and then; default: it is logged, at DEBUG.

    Raises:
        InputError: a mesh cannot be read or used; the files name different units.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the meshes do not fit into memory.
    """
    if max_distance is not None and not (math.isfinite(real(max_distance)) and max_distance >= 0):
        raise UsageError(f"--max-distance {max_distance}: use a finite distance, 0 or more")
    if not LEAST_WITHIN <= real(within) <= 1:
        raise UsageError(f"--within {within}: use a fraction from {LEAST_WITHIN:g} to 1")
    if not whole(samples) >= 2:
        raise UsageError(f"--samples {samples}: use a whole number, 2 or more")
    if not whole(seed) >= 0:
        raise UsageError(f"--seed {seed}: use a whole number, 0 or more")
    check_scale(scale, units)
    report = progress or LOG.debug
    report("loading")
    first, second = load_mesh(a, units=units), load_mesh(b, units=units, scale=scale)
    check_same_units(first, second, _name(a, "the first mesh"), _name(b, "the second mesh"))
    distances = [MeshDistance(mesh, sign=sign, device=device, threads=threads) for mesh in (first, second)]
    frame = Frame.around(first, second)
    here, there = (Located(each, frame) for each in distances)
    ways = []
    for source, target, name in ((here, there, "first to second"), (there, here, "second to first")):
        bounds = directed(source, target, within, max_distance, partial(_report, report, name))
        report(f"{name}: {samples:,} random points")
        ways.append(_deviation(bounds, source.mesh, target, int(samples), int(seed)))
    lower, upper = max(each.lower for each in ways), max(each.upper for each in ways)
    return Comparison(
        passed=max_distance is None or upper <= max_distance,
        decided=max_distance is None or upper <= max_distance or lower > max_distance,
        lower=lower,
        upper=upper,
        max_distance=max_distance,
        a_to_b=ways[0],
        b_to_a=ways[1],
        diagonal=frame.diagonal * frame.scale,
        notes=[*first.notes, *second.notes],
    )


def _report(progress: Progress, name: str, what: str) -> None:
    progress(f"{name}: {what}")


def check_same_units(first: Mesh, second: Mesh, name: str, other: str) -> None:
    """Raises InputError if two meshes have known, different units. name, other: theirs, for the error."""
    if first.units is None or second.units is None or first.units == second.units:
        return
    remedy = f"--units {first.units}" if {first.units, second.units} <= UNITS.keys() else "--scale"
    raise InputError(f"{name} is in {first.units}, {other} in {second.units}: convert by {remedy}")


def _name(source: MeshSource, default: str) -> str:
    return str(source) if isinstance(source, str | PathLike) else default


def stratified(count: int, seed: int) -> Places:
    """Random locations on a surface, one in each of `count` equal shares of the area."""
    rng = np.random.default_rng(seed)
    return Places.of((np.arange(count) + rng.random(count)) / count, rng.dirichlet([1.0, 1.0, 1.0], count))


def _deviation(bounds: Directed, source: Mesh, target: Located, samples: int, seed: int) -> Deviation:
    """A direction's bounds, with sampled distances."""
    points = surface_samples(source, stratified(samples, seed))[0]
    distance = np.minimum(target.measured(points), bounds.upper)  # random points may leave a face by rounding
    outside, inside = None, None
    signs = target.distance
    signs._told = True  # results tell missing signs
    if signs._signer.method != "none":  # `signed` would count crossing faces
        found, every = np.append(distance, bounds.lower), np.concatenate((points, [bounds.point]))
        within = signs.signed_distance(every) < 0
        outside, inside = (float(found[chosen].max(initial=0.0)) for chosen in (~within, within))
    mean, mean_error = _mean(distance)
    square, square_error = _mean(distance**2)
    rms = math.sqrt(square)
    return Deviation(
        **vars(bounds),
        mean=mean,
        mean_error=mean_error,
        rms=rms,
        rms_error=square_error / (2 * rms) if rms else 0.0,
        outside=outside,
        inside=inside,
        samples=samples,
    )


def _mean(values: Floats) -> tuple[float, float]:
    """Mean over values (n,), and its standard error, as if they were independent: not too small for strata."""
    mean = _sum(values) / len(values)
    return mean, math.sqrt(_sum((values - mean) ** 2) / (len(values) - 1) / len(values))


def _sum(values: Floats) -> float:
    """Sum over values (n,), in order: NumPy's summation order depends on the machine."""
    return float(np.cumsum(values)[-1])
