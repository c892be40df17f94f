"""Default cell count of an isosurface's grid, and a surface's deviation from the field or from a mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend
from sdfcli.errors import InputError
from sdfcli.extract.marching_cubes import Surface
from sdfcli.extract.sources import leaves_at
from sdfcli.field.field import Field
from sdfcli.field.stated_error import growth, is_unsigned
from sdfcli.query.mesh_distance import MeshDistance

Floats = npt.NDArray[np.float64]

SHARE_OF_TOLERANCE, SHARE_OF_SHEET, LEAST_SHARE = 1 / 2, 1 / 16, 1 / 8
"""Maximum deviation of a default grid's interpolation from the field: in tolerances, and if sheets count, in
thicknesses of the thinnest, but no fewer tolerances than the last number."""
FEW_COARSE = 1e-4
"""Maximum share of the surface where it may be larger."""
MOST_BY_DEFAULT = 1024
"""Default maximum cell count along an axis."""
MOST_FOR_SHEETS, FEW = 4096, 0.05
"""Default maximum cell count along an axis for fields with sheets; minimum share of leaves for sheets to count."""
MOST_CENTRES = 1 << 16
"""Maximum number of leaves at which a grid is compared with the field."""
MOST_POINTS = 1 << 17
"""Maximum number of points at which a surface is measured."""


def default_cells(backend: Backend, field: Field, iso: float) -> int:
    """Cells along an axis: the smallest power of two whose grid keeps the field's tolerance, or as many as in the
    octree's finest level, at most `most_cells`.

    A leaf no smaller than the grid's cells is reproduced. In smaller leaves at the surface, the grid's trilinear
    interpolation at the centre is compared with the field. It may deviate by `_allowed`, and by more on FEW_COARSE of
    the surface, by leaf area.
    """
    finest_level, most = int(field.leaf_level.max()), most_cells(field)
    allowed = _allowed(field, iso)
    if allowed is None:
        return min(1 << finest_level, most)
    try:
        with backend.active():
            leaves = leaves_at(backend, field, iso)
    except InputError:  # no leaf is crossed: if there is a surface, it lies between leaves
        return min(1 << finest_level, most)
    leaves = leaves[:: -(-len(leaves) // MOST_CENTRES)]
    centre, size = leaves[:, :3] + leaves[:, 3:] / 2, leaves[:, 3]
    value, area = _at(field, centre), size * size
    for level in range(round(-math.log2(size.max())), finest_level):
        if 1 << level >= most:
            return most
        finer = size < 0.5**level
        off = np.abs(_interpolated(field, centre[finer], 0.5**level) - value[finer]) > allowed
        if area[finer][off].sum() <= FEW_COARSE * area.sum():
            return 1 << level
    return min(1 << finest_level, most)


def most_cells(field: Field) -> int:
    """Default maximum cell count along an axis, which is larger for a field with many leaves for sheets."""
    return MOST_FOR_SHEETS if _sheets_count(field) else MOST_BY_DEFAULT


def _sheets_count(field: Field) -> bool:
    return bool(field.info.get("sheets", {}).get("leaves", 0) >= FEW * field.leaves)


def _allowed(field: Field, iso: float) -> float | None:
    """Maximum deviation at a distance, in the mesh's units; the tolerance grows with the distance. None for a field
    without a tolerance."""
    try:
        parameters = field.info["parameters"]
        if parameters["octree"] != "adaptive":
            return None
        unit = parameters.get("unit", field.info["mesh"]["diagonal"])
        tolerance = parameters["tolerance"] * unit * growth(iso, parameters["band"] * unit)
        thinnest = field.info["sheets"]["thinnest"] if _sheets_count(field) else None
        of_sheet = max(SHARE_OF_SHEET * unit * (thinnest or math.inf), LEAST_SHARE * tolerance)
        return float(min(SHARE_OF_TOLERANCE * tolerance, of_sheet))
    except (KeyError, TypeError):
        return None


def _at(field: Field, unit: Floats) -> Floats:
    """The field at points (n, 3) in the unit cube."""
    return np.asarray(field.sample(field.domain.origin + field.domain.length * unit))


def _interpolated(field: Field, unit: Floats, cell: float) -> Floats:
    """Trilinear interpolation, between the nodes of a grid over the unit cube, at points (n, 3) in it. cell: edge."""
    low = np.floor(unit / cell)
    weight, result = unit / cell - low, np.zeros(len(unit))
    for corner in product((0, 1), repeat=3):
        result += np.prod(np.where(corner, weight, 1 - weight), axis=1) * _at(field, cell * (low + corner))
    return result


@dataclass(frozen=True)
class Deviation:
    """Distances of a surface's vertices and face centres from a reference, in the mesh's units.

    reference  `field`: the field's own level set, by the field's values; `mesh`: the mesh, by exact distances.
    """

    reference: str
    largest: float
    rms: float


def deviation(surface: Surface, field: Field, iso: float, mesh: MeshDistance | None = None) -> Deviation:
    """A surface's deviation from the level `iso` of a mesh's exact distances or, without a mesh, of the field; at no
    more than MOST_POINTS points."""
    step = -(-(len(surface.vertices) + len(surface.faces)) // MOST_POINTS)
    faces = surface.faces[::step]
    points: Any = np.concatenate((surface.vertices[::step], surface.vertices[faces].mean(axis=1)))
    if mesh is None:
        value = field.sample(points)
    elif is_unsigned(field):
        value = mesh.distance(points)
    else:
        value = mesh.signed_distance(points)
    off = np.abs(value - iso)
    name = "field" if mesh is None else "mesh"
    return Deviation(name, float(off.max()), float(np.sqrt(np.mean(off * off))))
