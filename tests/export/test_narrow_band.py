"""Narrow bands, compared with the field at every point of the grid."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdfcli
import shapes
from sdfcli.backend import any_backend
from sdfcli.errors import InputError, OutOfMemoryError, UsageError
from sdfcli.export import lattice as lattices
from sdfcli.export.lattice import Distances, ExactDistances, Lattice, make_lattice, volume
from sdfcli.export.narrow_band import narrow_band
from sdfcli.field.field import lattice_position
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import corner_keys
from sdfcli.vdb.level_set import LEAF, LOWER, UPPER, LevelSet, make_tree, slots

Floats = npt.NDArray[np.float64]


def dense(band: LevelSet, shape: tuple[int, ...]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Values and activity at all lattice points, of tiles and blocks."""
    rooms = [-(-n // 8) * 8 for n in shape]
    value, active = np.full(rooms, band.background, np.float32), np.zeros(rooms, np.bool_)
    for (i, j, k), log2 in zip(band.tile.tolist(), band.tile_log2.tolist(), strict=True):
        edge = 1 << log2
        value[i : i + edge, j : j + edge, k : k + edge] = -band.background
    for (i, j, k), values, bits in zip(band.block.tolist(), band.value, band.active, strict=True):
        value[i : i + 8, j : j + 8, k : k + 8] = values.reshape(8, 8, 8)
        active[i : i + 8, j : j + 8, k : k + 8] = bits.reshape(8, 8, 8)
    nx, ny, nz = shape
    assert active.sum() == active[:nx, :ny, :nz].sum()
    return value[:nx, :ny, :nz], active[:nx, :ny, :nz]


def check(source: Distances, lattice: Lattice, width: float, signs: bool = True) -> LevelSet:
    """The law: points nearer than the half width have their distance, all others the half width with its sign."""
    band = narrow_band(source, lattice, width)
    value, active = dense(band, lattice.shape)
    truth, edge = volume(source, lattice), np.float32(width * lattice.spacing)
    assert band.background == edge
    assert (active == (np.abs(truth) < edge)).all()
    assert (value[active] == truth[active]).all()
    assert (np.abs(value[~active]) == edge).all()
    if signs:
        assert ((value < 0) == (truth < 0))[~active].all()
    assert len(np.unique(band.block, axis=0)) == len(band.block)
    assert (band.block % 8 == 0).all()
    for log2 in (LEAF, LOWER, UPPER):  # no tile covers a block
        tile = band.tile[band.tile_log2 == log2]
        assert not {tuple(x) for x in tile.tolist()} & {tuple(x) for x in (band.block >> log2 << log2).tolist()}
    return band


SHAPES = [
    shapes.icosphere(1),
    shapes.cube(),
    shapes.tetrahedron(),
    shapes.bored(shapes.ring(6, 1.0), shapes.ring(6, 0.8), 0.3),
]
FIELDS: dict[tuple[int, float, float], sdfcli.Field] = {}


def field_of(number: int, tolerance: float, scale: float) -> sdfcli.Field:
    if (number, tolerance, scale) not in FIELDS:
        vertices, faces = SHAPES[number]
        turned = vertices @ np.linalg.qr(np.random.default_rng(number).normal(size=(3, 3)))[0]
        placed = (turned * scale + scale * np.array([5.0, -3.0, 0.2]), faces)
        FIELDS[number, tolerance, scale] = sdfcli.build(placed, tolerance=tolerance, device="cpu")
    return FIELDS[number, tolerance, scale]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, len(SHAPES) - 1),
    st.sampled_from([0.1, 0.02]),
    st.sampled_from([1.0, 1e-20, 1e20]),
    st.integers(9, 50),
    st.sampled_from([2.0, 3.0, 7.3]),
)
def test_a_band(number: int, tolerance: float, scale: float, resolution: int, width: float) -> None:
    field = field_of(number, tolerance, scale)
    check(field, make_lattice(field, resolution), width)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, len(SHAPES) - 1),
    st.lists(st.floats(-1.5, 1.5), min_size=3, max_size=3),
    st.lists(st.floats(0.1, 3.0), min_size=3, max_size=3),
    st.integers(5, 60),
)
def test_a_window(number: int, low: list[float], side: list[float], resolution: int) -> None:
    """Partly or wholly outside the domain, or inside the shape."""
    field = field_of(number, 0.1, 1.0)
    first = np.array([5.0, -3.0, 0.2]) + low
    lattice = make_lattice(field, resolution, [*first, *(first + side)])
    if (np.abs(volume(field, lattice)) < np.float32(3 * lattice.spacing)).any():
        check(field, lattice, 3.0)
        return
    with pytest.raises(InputError, match="no surface within 3 voxels"):
        narrow_band(field, lattice)


def test_signs_that_jump() -> None:
    """Beside an open surface, signs change where nothing is near; such blocks are kept."""
    vertices, faces = shapes.icosphere(2)
    low = vertices[faces].mean(axis=1)[:, 2] < 0.1
    field = sdfcli.build((vertices, faces[low]), tolerance=0.005, device="cpu")
    assert field.info["jump_leaves"]
    band = check(field, make_lattice(field, 57), 2.0)
    assert not band.active.any(axis=1).all()


def test_signs_that_jump_between_leaves() -> None:
    """A leaf that is inside beside one eight times as large, which has none of its corners, and is outside."""
    backend = any_backend()
    eighth = np.arange(8, dtype=np.uint64) << np.uint64(57)  # keys on the lattice of 2^20
    fine = eighth[1] + (np.arange(512, dtype=np.uint64) << np.uint64(48))
    key = np.sort(np.concatenate((np.delete(eighth, 1), fine)))
    level = np.where(np.isin(key, fine), 4, 1).astype(np.uint8)
    corner = corner_keys(backend, key, level)
    at = 16 * lattice_position(corner)
    inside = ((at >= [8, 3, 3]) & (at <= [9, 4, 4])).all(axis=1)
    assert inside.sum() == 8
    distance = np.where(inside, -1, 1).astype(np.float32)
    field = sdfcli.Field(Domain(np.zeros(3), 1.0), key, level, corner, distance)
    band = check(field, Lattice(np.array([0.4, 0.15, 0.15]), 1 / 256, (53, 40, 40)), 2.0)
    assert not band.active.any(axis=1).all()


def test_the_surface_beyond_the_domain() -> None:
    """There, values grow by the distance from the domain."""
    field = field_of(1, 0.1, 1.0)
    field = dataclasses.replace(field, distance=field.distance - np.float32(1.5))
    lattice = make_lattice(field, 40, [1, -7, -4, 9, 1, 4])
    band = check(field, lattice, 3.0)
    assert field.domain.excludes(lattice.origin + lattice.spacing * band.block).mean() > 0.5


def test_tiles_of_all_sizes() -> None:
    """A rod of points through a cube, which is inside in a whole upper node."""
    field = sdfcli.build(shapes.cube(), tolerance=0.1, device="cpu")
    band = check(field, Lattice(np.array([-1.002, -0.01, 0.03]), 1 / 4300, (8700, 9, 9)), 3.0)
    assert set(band.tile_log2) == {LEAF, LOWER, UPPER}


def test_exact_distances_of_a_mesh() -> None:
    for vertices, faces in SHAPES:
        exact = ExactDistances(sdfcli.MeshDistance((vertices, faces), device="cpu"))
        check(exact, make_lattice(exact, 37), 3.0)
        check(exact, make_lattice(exact, 150, [-1.2, -1.1, -0.2, 1.2, 0.0, 0.2]), 2.0)


def test_no_surface_is_told() -> None:
    field = field_of(0, 0.1, 1.0)
    with pytest.raises(InputError, match="no surface within 3 voxels"):
        narrow_band(field, make_lattice(field, 9, [20, 20, 20, 21, 21, 21]))


@pytest.mark.parametrize("width", [1.9, -3, math.nan, math.inf, "3"])
def test_impossible_half_widths(width: Any) -> None:
    field = field_of(0, 0.1, 1.0)
    with pytest.raises(UsageError, match="--half-width"):
        narrow_band(field, make_lattice(field, 9), width)


def test_distances_beyond_float32() -> None:
    field = field_of(0, 0.1, 1e20)
    with pytest.raises(InputError, match="float32"):
        narrow_band(field, make_lattice(field, 9), 1e30)


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    field = field_of(0, 0.1, 1.0)
    monkeypatch.setattr(lattices, "free_memory", lambda: 100_000)
    with pytest.raises(OutOfMemoryError, match="--resolution"):
        narrow_band(field, make_lattice(field, 200))


def test_the_tree() -> None:
    """Each block is a child of one lower node, which is a child of one upper node, in order."""
    field = field_of(3, 0.1, 1.0)
    band = narrow_band(field, make_lattice(field, 300), 2.0)
    tree = make_tree(band)
    owner = np.repeat(tree.lower.corner, np.diff(tree.lower.first), axis=0)
    assert (band.block >> LOWER << LOWER == owner).all()
    assert (np.diff(slots(band.block, LEAF, LOWER))[(np.diff(owner, axis=0) == 0).all(axis=1)] > 0).all()
    over = np.repeat(tree.upper.corner, np.diff(tree.upper.first), axis=0)
    assert (tree.lower.corner >> UPPER << UPPER == over).all()
    assert len(tree.lower) >= 8
    assert sum(each.inside.sum() for each in (tree.upper, tree.lower)) + len(tree.roof) == len(band.tile)
