"""`verify`: a field's error against exact distances to its mesh, by code that the builder does not use."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from sdfcli.backend import select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.store import as_field
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.octree.grown import Progress
from sdfcli.params import check_tolerance, whole
from sdfcli.quality.accuracy import RegionErrors, errors, sample_points
from sdfcli.quality.as_given import GivenMesh, TurnedShell
from sdfcli.quality.prove import Proof
from sdfcli.quality.prove import prove as bound_errors
from sdfcli.query.units import check_units
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors


@dataclass(frozen=True, repr=False)
class Verification:
    """A field's errors at random points. Errors are fractions of `unit`; outside the band they are divided by distance
    / band.

    Attributes:
        passed: whether `error`, and `proof.error` if there is a proof, are within `tolerance`.
        error: the largest error in any region.
        tolerance: the largest allowed error.
        unit: reference length of errors and tolerance, in mesh units: the mesh's diagonal unless the build had another.
        same_mesh: whether the field was built from this mesh.
        regions: errors by region: `near` the surface, in the `band` around it, and `everywhere` in the domain.
        turned: shells that the build turned.
        notes: parts of the mesh's file that were skipped or reinterpreted.
        proof: bounds on the error everywhere in the domain; None unless requested.
    """

    passed: bool
    error: float
    tolerance: float
    unit: float
    same_mesh: bool
    regions: dict[str, RegionErrors]
    turned: list[TurnedShell]
    notes: list[str]
    proof: Proof | None = None

    @property
    def max_error(self) -> float:
        """The largest error, in mesh units."""
        return self.error * self.unit

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return f"<Verification: {verdict}, error {self.error:.3g}, tolerance {self.tolerance:.3g}>"


@memory_errors()
def verify(
    field: Field | str | PathLike[str],
    mesh: MeshSource,
    *,
    samples: int = 100_000,
    tolerance: float | None = None,
    seed: int = 0,
    prove: bool = False,
    device: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Compares a field with exact distances at random points, and bounds its error everywhere if requested.

    The points lie near the surface, in the band around it, and anywhere in the domain. Exact distances, and the winding
    numbers that decide inside and outside, are computed in float64 by independent code, from the mesh as given. For a
    field built with `sign="flood"`, they refer to the mesh's solid, with `holes="cap"` to the mesh with its holes
    closed, which is made again.

    Args:
        field: a Field, or its path.
        mesh: the mesh that the field was built from: a path, a `trimesh.Trimesh`, or vertices (v, 3) and faces (f, 3).
        samples: number of random points, 3 or more.
        tolerance: maximum error, as a fraction of the field's unit; default: the field's own tolerance.
        seed: random seed of the points.
        prove: bound the error everywhere in the domain, too.
        device: `auto`, `cpu`, `cuda` or `cuda:N`, for the exact distances.
        threads: CPU thread count; default: all CPUs available to the process.
        progress: called with a short description when a region begins; default: it is logged, at DEBUG.

    Raises:
        InputError: the field or the mesh cannot be read or used; they are in different units; the field's info lacks
            its parameters.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh does not fit into memory.
    """
    check_tolerance(tolerance)
    if not whole(samples) >= 3:
        raise UsageError(f"--samples {samples}: use a whole number, 3 or more")
    if not whole(seed) >= 0:
        raise UsageError(f"--seed {seed}: use a whole number, 0 or more")
    samples, seed = int(samples), int(seed)
    field = as_field(field)
    try:
        made_from, sign = field.info["mesh"]["sha256"], str(field.info["sign"])
        promised, band = (float(field.info["parameters"][name]) for name in ("tolerance", "band"))
        unit, scale, units = (field.info["parameters"].get(name) for name in ("unit", "scale", "units"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError("the field does not say how it was built; build it again to verify it") from error
    loaded = load_mesh(mesh, scale=scale, units=units)
    check_units(field, loaded.units, np.ones(1))
    source = loaded if unit is None else loaded.placed(None, unit)
    allowed = promised if tolerance is None else tolerance
    backend, report = select_backend(device, threads), progress or LOG.debug
    if {"solid", "holes"} & field.info.keys():
        from sdfcli.solid.again import is_turned, mesh_again

        report("making the field's mesh")
        source = mesh_again(source, field.info, backend)
        if is_turned(field.info):
            field = field._turned()
    reference = GivenMesh(source, sign != "none", backend)
    found = {}
    for region, points in sample_points(source, band, samples, seed).items():
        report(f"{len(points):,} points, {region}")
        found[region] = errors(field, source.unit, allowed, band, reference, points)
    worst = max(region.largest for region in found.values())
    proof = bound_errors(field, reference, backend, source.unit, allowed, band, report) if prove else None
    return Verification(
        passed=max(worst, proof.error if proof else 0.0) <= allowed,
        error=worst,
        tolerance=allowed,
        unit=source.unit,
        same_mesh=loaded.sha256 == made_from,
        regions=found,
        turned=reference.turned,
        notes=loaded.notes,
        proof=proof,
    )
