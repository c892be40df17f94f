"""Extracted surfaces: the table, closedness, and equality of dense and sparse, and of one device and several."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import InputError, UsageError
from sdfcli.extract.marching_cubes import extract
from sdfcli.extract.sources import FieldSource, VolumeSource
from sdfcli.extract.tables import MOST_TRIANGLES, triangle_table
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from surfaces import check_closed, topology, volume

backend = backends.backend
SAMPLES = Path(__file__).resolve().parents[2] / "sample_meshes"

CLEARANCE = 1 / 1024


def corner(c: int) -> tuple[int, int, int]:
    return c & 1, c >> 1 & 1, c >> 2


# ---- The table ----


def test_every_case_uses_its_crossed_edges() -> None:
    table = triangle_table()
    for case in range(256):
        crossed = {
            8 * axis + c
            for c in range(8)
            for axis in range(3)
            if not c >> axis & 1 and (case >> c ^ case >> (c | 1 << axis)) & 1
        }
        count = int(table[case, 0])
        assert count <= MOST_TRIANGLES
        assert set(table[case, 1 : 1 + 3 * count].tolist()) == crossed
        assert not table[case, 1 + 3 * count :].any()


def test_no_inner_side_lies_in_a_face() -> None:
    # A side of two triangles of one cell; were it in a face, the neighbour could have it too.
    for row in triangle_table():
        triangles = row[1 : 1 + 3 * int(row[0])].reshape(-1, 3).tolist()
        sides = [frozenset((t[k], t[(k + 1) % 3])) for t in triangles for k in range(3)]
        for side in {side for side in sides if sides.count(side) == 2}:
            ends = [corner(code % 8 | flag << code // 8) for code in side for flag in (0, 1)]
            assert not any(len({end[axis] for end in ends}) == 1 for axis in range(3))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_all_pairs_of_neighbouring_cells(backend: Backend, axis: int) -> None:
    # Twelve nodes of two cells in every combination, each within a border of nodes outside.
    inner = np.array([3 if k == axis else 2 for k in range(3)])
    tile = inner + 1
    patterns = (np.arange(4096)[:, None] >> np.arange(12) & 1).reshape(16, 16, 16, *inner)
    values = np.ones((16, 16, 16, *tile), np.float32)
    values[:, :, :, : inner[0], : inner[1], : inner[2]] -= 2 * patterns
    whole = values.transpose(0, 3, 1, 4, 2, 5).reshape(16 * tile)
    check_closed(extract(VolumeSource(np.pad(whole, 1, constant_values=1), 0.0), [backend]))


# ---- Volumes ----


def crossings(values: Any, level: float) -> Any:
    """Where marching cubes has its vertices, edge by edge: (n, 3), sorted."""
    found = []
    for at in np.ndindex(values.shape):
        for axis in range(3):
            other = tuple(np.add(at, np.eye(3, dtype=int)[axis]).tolist())
            if other[axis] == values.shape[axis]:
                continue
            a, b = float(values[at]), float(values[other])
            if (a < level) != (b < level):
                point = np.array(at, np.float64)
                point[axis] += np.clip((float(np.float32(level)) - a) / (b - a), CLEARANCE, 1 - CLEARANCE)
                found.append(point)
    return np.array(sorted(map(tuple, found))).reshape(-1, 3)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    kind=st.sampled_from(["normal", "few values", "flat", "checkers", "huge", "tiny"]),
    level=st.sampled_from([0.0, 0.25, -1.0]),
)
def test_random_volumes(backend: Backend, seed: int, shape: tuple[int, int, int], kind: str, level: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if kind == "few values":  # many nodes exactly at the level
        values = np.round(values * 2) / 4
    elif kind == "flat":
        values = np.broadcast_to(rng.normal(size=shape[0])[:, None, None], shape)
    elif kind == "checkers":
        values = np.where(np.indices(shape).sum(axis=0) % 2, -1.5, 1.0)
    elif kind in ("huge", "tiny"):
        values, level = values * (1e30 if kind == "huge" else 1e-30), 0.0
    values = np.pad(values, 1, constant_values=np.abs(values).max() + 1).astype(np.float32)
    if not (values < level).any():
        with pytest.raises(InputError, match="no surface"):
            extract(VolumeSource(values, level), [backend])
        return
    surface = extract(VolumeSource(values, level), [backend])
    check_closed(surface)
    expected = crossings(values, level)
    assert np.allclose(np.array(sorted(map(tuple, surface.vertices))), expected, rtol=0, atol=1e-6)
    # The surface separates the nodes: that is what it is for, and it says which way it is oriented.
    nodes = np.argwhere(np.ones_like(values)).astype(np.float64)
    winding = oracle.winding(nodes, surface.vertices[surface.faces])
    assert np.allclose(winding, (values < np.float32(level)).ravel(), atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.tuples(*[st.integers(2, 20)] * 3))
def test_open_volumes(backend: Backend, seed: int, shape: tuple[int, int, int]) -> None:
    # The surface runs out of the grid. Its border lies in the grid's sides, and nothing else is wrong.
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    if not 0 < (values < 0).sum() < values.size:
        return
    surface = extract(VolumeSource(values, 0.0), [backend])
    found = topology(surface)
    assert found.repeated == 0
    assert (found.open > 0) <= surface.cut
    faces = surface.faces.astype(np.int64)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    known = set(map(tuple, edges.tolist()))
    border = np.array([edge for edge in known if edge[::-1] not in known], np.int64).reshape(-1, 2)
    ends = surface.vertices[border]
    on_side = (ends == 0) | (ends == np.array(shape) - 1)
    assert on_side.all(axis=1).any(axis=1).all()
    assert np.allclose(np.array(sorted(map(tuple, surface.vertices))), crossings(values, 0.0), rtol=0, atol=1e-6)


def wavy(n: int) -> Any:
    x, y, z = np.meshgrid(*[np.linspace(-1, 1, n + k) for k in range(3)], indexing="ij")
    waves = 0.05 * np.sin(9 * x) * np.sin(9 * y) * np.sin(9 * z)
    return (np.sqrt(x**2 + y**2 + z**2) - 0.7 + waves).astype(np.float32)


@pytest.mark.parametrize("part", [1, 3, 10, 47])
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [1.0, 3.0, 0.1]])
def test_parts_and_devices(backend: Backend, part: int, weights: list[float]) -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(9, 20, 33))
    devices = [backend, *(CpuBackend(k + 1) if backend.name == "cpu" else backend for k in range(len(weights) - 1))]
    whole = extract(VolumeSource(noise, 0.3), [backend])
    parts = extract(VolumeSource(noise, 0.3), devices, weights=weights, part=part)
    assert whole.vertices.tobytes() == parts.vertices.tobytes()
    assert whole.faces.tobytes() == parts.faces.tobytes()
    assert whole.cut == parts.cut
    field = oracle.random_field(rng, 40)
    whole = extract(FieldSource(backend, field, 33, 0.2), [backend])
    parts = extract(FieldSource(backend, field, 33, 0.2), devices, weights=weights, part=part)
    assert whole.vertices.tobytes() == parts.vertices.tobytes()
    assert whole.faces.tobytes() == parts.faces.tobytes()


def test_position_and_orientation(backend: Backend) -> None:
    n, spacing = (40, 50, 60), np.array([0.5, 0.4, 0.3])
    at = np.stack(np.meshgrid(*[np.arange(k) for k in n], indexing="ij"), axis=-1) * spacing
    values = np.linalg.norm(at - [10, 9, 8], axis=-1) - 6
    for given_values in (values, np.asfortranarray(values), values.astype(np.float32)):
        surface = extract(VolumeSource(given_values, 0.5, spacing), [backend])
        assert check_closed(surface).euler == 2
        radius = np.linalg.norm(surface.vertices - [10, 9, 8], axis=1)
        assert np.abs(radius - 6.5).max() < 0.01
        assert abs(volume(surface) / (4 / 3 * np.pi * 6.5**3) - 1) < 0.005


def test_levels_of_whole_numbers(backend: Backend) -> None:
    labels = np.zeros((9, 9, 9), np.uint8)
    labels[3:6, 3:6, 3:6] = 1
    surface = extract(VolumeSource(labels, 0.5), [backend])
    found = topology(surface)
    assert (found.open, found.euler) == (0, 2)
    # The inside is below the level: everything but the block. Its sides lie halfway to the neighbours.
    assert surface.vertices.min() == 2.5
    assert surface.vertices.max() == 5.5
    assert -27 < volume(surface) < -20


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.zeros((4, 4)), "three axes"),
        (np.zeros((4, 1, 4)), "three axes"),
        (np.zeros((4, 4, 4), complex), "real numbers"),
        (np.zeros((4, 4, 4)), "from 0 to 0"),
        (np.where(np.indices((4, 4, 4))[0] < 2, -1.0, np.nan), "not finite"),
        (np.where(np.indices((4, 4, 4))[0] < 2, -np.inf, 1.0), "not finite"),
    ],
)
def test_unusable_volumes(values: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        sdfcli.isosurface(values, device="cpu")


# ---- Fields ----


def node_values(backend: Backend, field: Field, resolution: int) -> Any:
    nodes = np.indices([resolution + 1] * 3).reshape(3, -1).T / resolution
    unit = dataclasses.replace(field, domain=Domain(np.zeros(3), 1.0))
    values = backend.to_host(unit.sample(backend.from_host(nodes, np.float64)))
    return values.reshape([resolution + 1] * 3).astype(np.float32)


def check_same_as_dense(backend: Backend, field: Field, resolution: int, level: float, values: Any) -> None:
    """Looking at all nodes, in the same order, gives the same mesh."""
    sparse = extract(FieldSource(backend, field, resolution, level), [backend])
    spacing, origin = field.domain.length / resolution, field.domain.origin
    mirrored = extract(VolumeSource(values.transpose(2, 1, 0), level, spacing, origin[::-1]), [backend])
    assert np.array_equal(sparse.vertices, mirrored.vertices[:, ::-1])
    assert np.array_equal(sparse.faces, mirrored.faces[:, ::-1])
    assert sparse.cut == mirrored.cut


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([0, 1, 3, 10, 60]),
    resolution=st.integers(1, 40),
    level=st.sampled_from([0.0, 0.5, -1.2, 2.0]),
)
def test_sparse_is_dense(backend: Backend, seed: int, splits: int, resolution: int, level: float) -> None:
    # Random values: the field is not continuous where leaves of different size meet, and no leaf can be skipped for
    # being far from the surface.
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits, rng.normal(size=3), 1.5)
    values = node_values(backend, field, resolution)
    if not 0 < (values < np.float32(level)).sum() < values.size:
        with pytest.raises(InputError, match="no surface"):
            extract(FieldSource(backend, field, resolution, level), [backend])
        return
    check_same_as_dense(backend, field, resolution, level, values)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), resolution=st.integers(5, 40))
def test_jumps_between_leaves_are_found(backend: Backend, seed: int, resolution: int) -> None:
    # Most leaves have corners on one side only, and touch leaves on the other side at corners that hang.
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, 25)
    low = oracle.lattice(field.corner_key)
    values = np.where((low < 2**19).all(axis=1) | (rng.random(len(low)) < 0.02), -1, 1).astype(np.float32)
    field = Field(field.domain, field.leaf_key, field.leaf_level, field.corner_key, values)
    nodes = node_values(backend, field, resolution)
    if 0 < (nodes < 0).sum() < nodes.size:
        check_same_as_dense(backend, field, resolution, 0.0, nodes)


@functools.cache
def sphere(octree: str) -> Field:
    return sdfcli.build(shapes.icosphere(5), device="cpu", octree=octree, tolerance=5e-4)


@pytest.mark.parametrize("resolution", [31, 64, 100])
def test_the_sphere(backend: Backend, resolution: int) -> None:
    field = sphere("adaptive")
    cell = field.domain.length / resolution
    for iso in (0.0, -0.3, 0.04):
        radius = 1 + iso
        surface = extract(FieldSource(backend, field, resolution, iso), [backend])
        assert check_closed(surface).euler == 2
        away = np.abs(np.linalg.norm(surface.vertices, axis=1) - radius).max()
        allowed = 5e-4 * 12**0.5 * max(1, abs(iso) / (0.02 * 12**0.5)) + cell**2 / radius / 8
        assert away < allowed
        # Chords of triangles as large as a cell lie inside the sphere.
        assert abs(volume(surface) / (4 / 3 * np.pi * radius**3) - 1) < 3 * (allowed + cell**2 / radius / 8) / radius


def test_the_octree_of_the_bvh(backend: Backend) -> None:
    # Its field is not continuous. The surface is closed all the same.
    for resolution in (50, 64, 129):
        for iso in (0.0, -0.1):
            check_closed(extract(FieldSource(backend, sphere("bvh"), resolution, iso), [backend]))


@pytest.mark.parametrize(
    ("name", "euler"), [("torus.obj", 0), ("bracket.stl", -4), ("bunny.ply", 2), ("shells.ply", 4)]
)
def test_round_trips(name: str, euler: int) -> None:
    mesh = sdfcli.MeshDistance(SAMPLES / name, device="cpu")
    field = sdfcli.build(SAMPLES / name, device="cpu")
    resolution = 150
    surface = sdfcli.isosurface(field, cells=resolution, device="cpu")
    assert check_closed(surface).euler == euler
    true = abs(volume(mesh.mesh))
    assert abs(volume(surface) / true - 1) < 0.005
    # On the trilinear field a vertex is off by the tolerance; between a node and the next, the distance bends by half
    # of their distance at most.
    allowed = 1e-3 * mesh.mesh.diagonal + field.domain.length / resolution / 2
    assert np.abs(mesh.signed_distance(surface.vertices)).max() < allowed


def test_offsets_beyond_the_domain_are_cut() -> None:
    field = sdfcli.build(shapes.icosphere(3), device="cpu", depth=5, tolerance=0.01)
    assert not sdfcli.isosurface(field, iso=0.03, device="cpu").cut
    outer = sdfcli.isosurface(field, iso=0.2, device="cpu")
    assert outer.cut
    assert topology(outer).open > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cells": 0}, "cells"),
        ({"cells": -3}, "cells"),
        ({"cells": 10**6}, "cells"),
        ({"iso": float("nan")}, "iso"),
        ({"iso": 1e300}, "iso"),
        ({"spacing": 1.0}, "spacing"),
        ({"device": "cuda:0,0"}, "duplicate GPU"),
    ],
)
def test_bad_parameters(options: dict[str, Any], says: str) -> None:
    field = oracle.random_field(np.random.default_rng(1), 3)
    with pytest.raises(UsageError, match=says):
        sdfcli.isosurface(field, **{"device": "cpu", **options})
    if "spacing" in options:
        with pytest.raises(UsageError, match="spacing"):
            sdfcli.isosurface(np.zeros((3, 3, 3)), spacing=-1.0, device="cpu")
        with pytest.raises(UsageError, match="cells"):
            sdfcli.isosurface(np.zeros((3, 3, 3)), cells=3, device="cpu")


def test_threads() -> None:
    values = wavy(50)
    surfaces = [sdfcli.isosurface(values, device="cpu", threads=threads) for threads in (1, 2, 7)]
    assert len({(s.vertices.tobytes(), s.faces.tobytes()) for s in surfaces}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_the_same_bits_on_the_gpu(cpu: Backend, gpu: Backend, octree: str) -> None:
    field = sdfcli.build(shapes.star(np.random.default_rng(1), 3), device="cpu", octree=octree)
    for source in (lambda b: FieldSource(b, field, 100, 0.01), lambda b: VolumeSource(wavy(60), 0.0)):
        here, there = extract(source(cpu), [cpu]), extract(source(gpu), [gpu])
        assert here.vertices.tobytes() == there.vertices.tobytes()
        assert here.faces.tobytes() == there.faces.tobytes()


@pytest.mark.gpu
def test_volumes_on_the_gpu_give_meshes_there(gpu: Backend) -> None:
    here, there = sdfcli.isosurface(wavy(40), device="cpu"), sdfcli.isosurface(gpu.from_host(wavy(40)))
    assert type(there.vertices) is type(gpu.from_host([0.0]))
    assert gpu.to_host(there.vertices).tobytes() == here.vertices.tobytes()
    assert gpu.to_host(there.faces).tobytes() == here.faces.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("part", [10, 10**6])
def test_the_same_bits_on_two_gpus(cpu: Backend, part: int) -> None:
    pair = backends.two_gpus()
    field = sphere("adaptive")
    for source in (lambda b: FieldSource(b, field, 100, 0.01), lambda b: VolumeSource(wavy(60), 0.0)):
        here, there = extract(source(cpu), [cpu]), extract(source(pair[0]), pair, weights=[1, 2], part=part)
        assert here.vertices.tobytes() == there.vertices.tobytes()
        assert here.faces.tobytes() == there.faces.tobytes()
