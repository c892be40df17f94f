"""Each number that judges cells has a mesh that needs it: without it, or with another, errors pass the tolerance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import oracle
import sdfcli
import shapes
from sdfcli.field.field import Field

BAND = 0.02
SAFE = 0.8
"""Of the tolerance, what cells may use up; the rest is for rounding, and errors between samples."""


class Place(NamedTuple):
    """A spot (3,) of a star of triangles, where the field strays first; tolerance: a fraction of the diagonal."""

    seed: int
    rounds: int
    tolerance: float
    spot: tuple[float, float, float]


PLACES = {
    # error there, in tolerances: as it is, and with the number in brackets
    "safety": Place(954151, 2, 0.02, (-0.0811, -0.2216, 0.8483)),  # 0.54, 1.06 (0.95)
    "straight": Place(954151, 2, 0.02, (-0.2771, 0.7456, 0.4606)),  # 0.66, 1.15 (doubled)
    "doubtful": Place(954151, 2, 0.02, (0.7337, -0.7445, 0.1556)),  # 0.57, 1.19 (doubled)
    "between": Place(123304, 1, 0.02, (0.5251, 0.8499, 0.0001)),  # 0.96, 1.10 (halved)
    "moved": Place(130764, 2, 0.02, (0.1498, -0.8772, -0.2424)),  # 0.85, 1.09 (doubled)
}


def diagonal_of(shape: shapes.Shape) -> float:
    return float(np.linalg.norm(np.ptp(shape[0], axis=0)))


def truth_at(points: oracle.Floats, shape: shapes.Shape, tolerance: float) -> tuple[oracle.Floats, oracle.Floats]:
    """Signed distances at points (n, 3), and the errors that are allowed there."""
    triangles, diagonal = shapes.triangles(shape), diagonal_of(shape)
    away = oracle.distance(points, triangles)
    truth = np.where(oracle.winding(points, triangles) > 0.5, -away, away)
    return truth, tolerance * diagonal * np.maximum(1, away / (BAND * diagonal))


def errors(field: Field, shape: shapes.Shape, points: oracle.Floats, tolerance: float) -> oracle.Floats:
    """At points (n, 3), as parts of what is allowed there."""
    truth, allowed = truth_at(points, shape, tolerance)
    return np.abs(field.sample(points) - truth) / allowed


@pytest.mark.parametrize("name", PLACES)
def test_errors_stay_within_the_tolerance_where_they_are_largest(name: str) -> None:
    place = PLACES[name]
    shape = shapes.star(np.random.default_rng(place.seed), place.rounds)
    field = sdfcli.build(shape, tolerance=place.tolerance, band=BAND, thin=0.0, device="cpu")
    around = np.random.default_rng(1).uniform(-0.2, 0.2, (300, 3)) * place.tolerance * diagonal_of(shape)
    assert errors(field, shape, place.spot + around, place.tolerance).max() <= 1


def peaked(height: float) -> tuple[shapes.Shape, oracle.Floats]:
    """A flat box with one vertex drawn out, so high in diagonals; and its tip (3,)."""
    shape = shapes.box([0, 0, 0], [1, 1, 0.3])
    for _ in range(5):
        shape = shapes.refined(shape)
    vertices, faces = shape
    tip = np.flatnonzero(np.isclose(vertices, [0.625, 0.53125, 0.3]).all(axis=1))
    vertices[tip, 2] += height * diagonal_of(shape)
    return (vertices, faces), vertices[tip]


def test_peaks_between_the_samples_of_a_cell_are_found() -> None:
    """Of a face's point that all samples around it miss, and the middles of the triangles at its slopes, too."""
    tolerance = 8e-3
    shape, tip = peaked(2 * tolerance)
    field = sdfcli.build(shape, tolerance=tolerance, thin=0.0, device="cpu")
    assert np.abs(field.sample(tip)) <= tolerance * diagonal_of(shape)


def test_crumbs_beside_a_face_are_found() -> None:
    tolerance, rng = 8e-3, np.random.default_rng(776683)
    width = 1.5 * tolerance
    spots = [(*rng.uniform(0.1, 0.9, 2), 0.3 + width * rng.uniform(0.6, 5)) for _ in range(8)]
    crumbs = [shapes.moved(shapes.octahedron(), 0.3 * width, spot) for spot in spots]
    shape = shapes.joined(shapes.box([0, 0, 0], [1, 1, 0.3]), *crumbs)
    field = sdfcli.build(shape, tolerance=tolerance, band=BAND, thin=0.0, device="cpu")
    assert errors(field, shape, np.concatenate([shape[0], *spots], axis=None).reshape(-1, 3), tolerance).max() <= 1


def test_leaves_with_errors_at_a_jump_have_the_stated_edge() -> None:
    """Where an open surface's hole is closed, cells wider than four allowed errors are split, and no others."""
    vertices, faces = shapes.icosphere(2)
    bowl = vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0.3]
    tolerance = 8e-3
    field = sdfcli.build(bowl, tolerance=tolerance, band=BAND, thin=0.0, sign="winding", device="cpu")
    points = field.domain.origin + np.random.default_rng(2).random((3000, 3)) * field.domain.length
    wrong = points[errors(field, bowl, points, tolerance) > 1]
    edge = field.cell_at(wrong)[1] / (tolerance * diagonal_of(bowl))
    assert len(wrong) > 10
    assert edge.max() <= 4
    assert edge.min() > SAFE * 4 / 2


def test_most_splits_are_needed() -> None:
    """Most cells that were split into eight leaves would, as one leaf, use up 0.7 of the tolerance, or more."""
    tolerance, steps = 0.02, np.linspace(0, 1, 5)
    shape = shapes.star(np.random.default_rng(123304), 1)
    field = sdfcli.build(shape, tolerance=tolerance, band=BAND, thin=0.0, device="cpu")
    level, low = field.leaf_level.astype(np.int64), oracle.lattice(field.leaf_key)
    edge = 2 ** (oracle.LATTICE_BITS + 1 - level)
    parents, leaves = np.unique(
        np.column_stack([low // edge[:, None] * edge[:, None], edge]), axis=0, return_counts=True
    )
    parents = parents[leaves == 8] / 2**oracle.LATTICE_BITS
    along = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    unit = parents[:, None, :3] + along * parents[:, None, 3:]
    points = field.domain.origin + unit.reshape(-1, 3) * field.domain.length
    truth, allowed = (of.reshape(len(parents), -1) for of in truth_at(points, shape, tolerance))
    ends = np.flatnonzero(np.isin(along, [0, 1]).all(axis=1))
    weight = np.where(along[ends] == 1, along[:, None], 1 - along[:, None]).prod(axis=2)
    error = np.abs(truth[:, ends] @ weight.T - truth) / allowed
    assert np.median(error.max(axis=1)) > 0.7
