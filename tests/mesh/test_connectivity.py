"""Edges, shells and sums by kernels, against plain loops."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import shapes
from sdfcli.backend import Backend, C
from sdfcli.backend.cpu import CpuBackend
from sdfcli.mesh.connectivity import Connectivity
from sdfcli.mesh.health import FLAT_FACE
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh, face_normals

backend, warps = backends.backend, backends.warps


def connectivity_of(backend: Backend, faces: Any) -> Connectivity:
    """That of faces whose vertices are all apart."""
    vertices = np.arange(np.max(faces) + 1, dtype=np.uint32)
    return Connectivity.of(backend, backend.from_host(faces, np.uint32), backend.from_host(vertices))


Uses = dict[tuple[int, int], list[tuple[int, int, bool]]]


def uses_of(faces: Any, counted: Any, turned: Any) -> Uses:
    """For each edge, low and high, its uses: face, corner as it was given, and whether it runs from high to low.
    Degenerate faces have no edges."""
    uses: Uses = {}
    for face, vertices in enumerate(np.asarray(faces).tolist()):
        for corner in range(3):
            a, b = vertices[corner], vertices[(corner + 1) % 3]
            if len(set(vertices)) == 3 and counted[face]:
                uses.setdefault((min(a, b), max(a, b)), []).append((face, corner, (a > b) != turned[face]))
    return uses


def joined(count: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The smallest member of each one's component."""
    label = list(range(count))
    for a, b in pairs:
        old, new = max(label[a], label[b]), min(label[a], label[b])
        label = [new if each == old else each for each in label]
    return label


def check(found: Connectivity, faces: Any, counted: Any, turned: Any) -> None:
    uses = uses_of(faces, counted, turned)
    excess = {edge: sum(1 - 2 * back for *_, back in used) for edge, used in uses.items()}
    opened = sorted(edge for edge in uses if excess[edge])
    pairs = [(one[0], two[0], one[2] != two[2]) for one, two in (used for used in uses.values() if len(used) == 2)]
    assert found.open == len(opened)
    assert found.non_manifold == sum(len(used) > 2 for used in uses.values())
    assert found.inconsistent == sum(not alike for *_, alike in pairs)
    assert found.open_edges.ends.tolist() == [list(edge) for edge in opened]
    assert found.open_edges.excess.tolist() == [excess[edge] for edge in opened]

    loose = sorted(
        (face, corner) for edge, used in uses.items() if len(used) != 2 or excess[edge] for face, corner, _ in used
    )
    face, ends, of_shell = found.loose
    assert face.tolist() == [face for face, _ in loose]
    runs = [(faces[face][corner], faces[face][(corner + 1) % 3]) for face, corner in loose]
    assert ends.tolist() == [[b, a] if turned[f] else [a, b] for (a, b), (f, _) in zip(runs, loose, strict=True)]

    counted = counted & np.array([len(set(row)) == 3 for row in np.asarray(faces).tolist()])
    label = joined(len(faces), [(a, b) for a, b, _ in pairs])
    number = {first: k for k, first in enumerate(sorted({label[f] for f in np.flatnonzero(counted)}))}
    shell = [number[label[f]] if counted[f] else C.NONE for f in range(len(faces))]
    assert (found.shells, found.shell_of().tolist()) == (len(number), shell)
    assert of_shell.tolist() == [shell[f] for f, _ in loose]

    count = len(faces)
    nodes = [(a, b + (0 if alike else count)) for a, b, alike in pairs]
    nodes += [(a + count, b + (count if alike else 0)) for a, b, alike in pairs]
    assert found.orientations(np.empty((0, 2), np.int64)).tolist() == joined(2 * count, nodes)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), values=st.integers(1, 12), count=st.integers(1, 60))
def test_edges_and_shells_are_those_found_one_by_one(backend: Backend, seed: int, values: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    faces = rng.integers(0, values, (count, 3))
    turned = rng.random(count) < 0.5
    groups: dict[tuple[int, ...], list[int]] = {}
    for face, vertices in enumerate(faces.tolist()):
        groups.setdefault(tuple(sorted(vertices)), []).append(face)
    expected = [group for group in groups.values() if len(group) > 1]
    counted = np.ones(count, bool)
    for group in expected:
        counted[group] = rng.random(len(group)) < 0.5
    every, none = np.ones(count, bool), np.zeros(count, bool)
    found = connectivity_of(backend, faces)
    check(found, faces, every, none)
    check(found.without(np.flatnonzero(~counted)), faces, counted, none)
    check(found.turned(turned), faces, every, turned)
    check(found.without(np.flatnonzero(~counted)).turned(turned), faces, counted, turned)
    check(found.turned(turned).turned(turned), faces, every, none)

    for each in found, found.without(np.flatnonzero(~counted)):
        doubled, corner, again = each.doubled
        assert np.array_equal(corner, faces[doubled])
        parts = np.split(doubled, np.flatnonzero(~again)[1:])
        assert sorted(part.tolist() for part in parts if len(part)) == sorted(expected)


@pytest.mark.parametrize("spokes", [40, 3000])
def test_hubs(backend: Backend, spokes: int) -> None:
    """A fan, and a book of pages at one edge: vertices and edges with many faces."""
    rng = np.random.default_rng(spokes)
    rim = np.arange(spokes)
    fan = np.stack([np.full(spokes, spokes), rim, (rim + 1) % spokes], axis=1)
    found = connectivity_of(backend, rng.permutation(fan))
    assert (found.shells, found.open, found.non_manifold, len(found.doubled.face)) == (1, spokes, 0, 0)
    book = np.stack([np.full(spokes, spokes), rim, np.full(spokes, spokes + 1)], axis=1)
    found = connectivity_of(backend, np.concatenate([rng.permutation(book), book[:1, ::-1]]))
    assert (found.shells, found.non_manifold, len(found.doubled.face)) == (spokes, 1, 2)
    assert found.open == 2 * spokes - 2 + 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), values=st.sampled_from([1, 2, 5, 1000]), count=st.integers(1, 200))
def test_the_first_vertex_at_each_position(backend: Backend, seed: int, values: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    vertices = rng.integers(-values, values + 1, (3 * count, 3)) * rng.choice([1.0, -1.0, 0.1, 5e-324, 1e300])
    mesh = Mesh(vertices, np.arange(3 * count).reshape(-1, 3)).on(backend)
    first: dict[tuple[float, ...], int] = {}
    expected = [first.setdefault(tuple(vertex), number) for number, vertex in enumerate((vertices + 0.0).tolist())]
    assert backend.to_host(mesh.position).tolist() == expected


# ---- Sums ----


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(shapes.ANY)))
def test_sums_are_exact_and_the_same_with_all_threads(backend: Backend, seed: int, kind: str) -> None:
    mesh = make_mesh(*shapes.ANY[kind](np.random.default_rng(seed)))
    shell = mesh.connectivity.shell_of()
    shells = mesh.connectivity.shells
    area, volume, _ = mesh.on_device.sums(mesh.shell, shells, FLAT_FACE)
    normal, corner = face_normals(mesh.unit_triangles), mesh.unit_triangles[:, :3] - 0.5
    for number in range(shells):
        own = shell == number
        quantum = 2.0**-59 * own.sum() + 1e-15
        expected = math.fsum(np.sqrt((normal[own] ** 2).sum(axis=1)))
        assert abs(area[number] - expected) <= quantum + 1e-15 * expected
        products = (normal[own] * corner[own]).ravel().tolist()
        assert abs(volume[number] - float(sum(map(Fraction, products)))) <= 1e-15 * own.sum() + quantum
    for device in CpuBackend(1), CpuBackend(7), backend:
        again = Mesh(mesh.vertices, mesh.faces).on(device)
        for one, other in zip(again.shell_sums(again.connectivity), (area, volume), strict=True):
            assert one.tobytes() == other.tobytes()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-9, 1.0, 1e9]))
def test_degenerate_faces(backend: Backend, seed: int, scale: float) -> None:
    """Slivers with heights about the limit."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(400, 2, 3))
    middle = base.mean(axis=1) + rng.normal(size=(400, 3)) * 10.0 ** -rng.uniform(5, 16, (400, 1))
    vertices = scale * np.concatenate([base, middle[:, None]], axis=1).reshape(-1, 3)
    mesh = make_mesh(vertices, np.arange(1200).reshape(-1, 3)).on(backend)
    a, b, c = mesh.unit_triangles.reshape(-1, 3, 3).transpose(1, 2, 0)
    normal = np.cross(b - a, c - a, axis=0)
    longest = np.maximum.reduce([(side**2).sum(axis=0) for side in (b - a, c - b, a - c)])
    assert mesh.degenerate == np.sum((normal**2).sum(axis=0) <= FLAT_FACE**2 * longest)


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_areas_have_the_bits_of_numpy(backend: Backend, scale: float) -> None:
    rng = np.random.default_rng(8)
    vertices = scale * (rng.normal(size=(900, 3)) + 7)
    faces = rng.integers(0, len(vertices), (2000, 3))
    faces[::9, 2] = faces[::9, 1]  # without area
    mesh = make_mesh(vertices, faces).on(backend)
    areas = np.linalg.norm(face_normals(mesh.unit_triangles), axis=1)
    assert np.array_equal(backend.to_host(mesh.on_device.areas()), areas)
    assert np.array_equal(mesh.areas(), areas)
    assert np.array_equal(mesh.area_sums, np.cumsum(mesh.areas()))


def test_areas_take_no_memory_of_a_gpu(warps: Backend) -> None:
    mesh = make_mesh(*shapes.icosphere(2))
    expected = mesh.areas()
    mesh.release()
    assert np.array_equal(mesh.on(warps).areas(), expected)
    assert not {"vertex", "on_device"} & mesh.__dict__.keys()
