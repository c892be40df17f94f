"""Kernels in lanes: the answers of one index after the other, to the last bit, with every instruction set."""

from __future__ import annotations

import ctypes
import itertools
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import shapes
from sdfcli.backend.arguments import Group, argument_group, argument_structs
from sdfcli.backend.cpu import CpuBackend, library_path
from sdfcli.mesh.load import make_mesh
from sdfcli.octree import adaptive
from sdfcli.octree.grown import Limits
from sdfcli.query.nearest_triangles import NearestTriangles
from sdfcli.scene import Scene
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.morton import morton_order
from sdfcli.spatial.wide import WideIndex
from surfaces import points_about
from trees import make_bvh

ROOT = Path(__file__).parents[2]
Numbers = oracle.Numbers
NONE = 0xFFFFFFFF

SETS = {"plain": None, "avx2": " avx2 ", "avx512": " avx512f "}
"""The builds of cpu/simd.cpp, and what a CPU must have for them."""


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("alone") / "alone.so"
    source = ROOT / "tests/alone.cpp"
    kernels = ROOT / "sdfcli/kernels"  # the installed package has no cpu/
    options = ["-std=c++20", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-w", f"-I{kernels}", "-Wl,-Bsymbolic"]
    subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
    ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)  # its lanes
    return ctypes.CDLL(str(library))


def has(instructions: str) -> bool:
    return instructions in Path("/proc/cpuinfo").read_text().replace("\n", " ")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="no choice")
@pytest.mark.parametrize("name", ["avx2", "avx512"])
def test_the_instructions_of_this_cpu(alone: ctypes.CDLL, name: str) -> None:
    assert getattr(alone, f"has_{name}")() == has(SETS[name] or "")


@pytest.fixture(scope="session", params=SETS)
def build(request: pytest.FixtureRequest) -> str:
    """One of the builds that this CPU can run."""
    needs = SETS[request.param]
    if needs and platform.machine() != "x86_64":
        pytest.skip("no such build")
    if needs and not has(needs):
        pytest.skip(f"this CPU has no{needs}")
    return str(request.param)


def run_lanes(build: str, kernel: str, n: int, **values: object) -> None:
    """One of the builds, past the choice among them, for two chunks."""
    struct = argument_structs()[kernel].pack({"n": n, **values}, CpuBackend.address)
    run = getattr(ctypes.CDLL(str(library_path())), f"{kernel}_{build}")
    for first, last in itertools.pairwise((0, n // 3, n)):
        run(struct, ctypes.c_uint(first), ctypes.c_uint(last))


def run_alone(alone: ctypes.CDLL, kernel: str, n: int, **values: object) -> None:
    struct = argument_structs()[kernel].pack({"n": n, **values}, CpuBackend.address)
    getattr(alone, kernel)(struct)


def check(
    alone: ctypes.CDLL,
    cpu: CpuBackend,
    build: str,
    triangles: Numbers,
    points: Numbers,
    beta: float,
    left_out: Numbers | None = None,
) -> None:
    """Winding numbers of points in lanes and alone; left_out: triangles (k,) that do not count."""
    index = WindingIndex.among(cpu, morton_order(cpu, triangles), left_out)
    expected, found = (np.full(len(points), np.nan, np.float32) for _ in range(2))
    values = {"points": points, "tree": index.group, "beta": beta}
    run_alone(alone, "sdf_winding", len(points), winding=expected, **values)
    run_lanes(build, "sdf_winding", len(points), winding=found, **values)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    assert np.array_equal(index.winding(points, beta).view(np.uint32), expected.view(np.uint32))


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.WORSE)),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 70),
    beta=st.sampled_from([0.0, 0.5, 1.5, 8.0]),
    ordered=st.booleans(),
    all_count=st.booleans(),
)
def test_lanes_walk_as_if_alone(
    alone: ctypes.CDLL,
    cpu: CpuBackend,
    build: str,
    kind: str,
    seed: int,
    count: int,
    beta: float,
    ordered: bool,
    all_count: bool,
) -> None:
    rng = np.random.default_rng(seed)
    triangles = make_mesh(*shapes.WORSE[kind](rng)).unit_triangles
    points = points_about(rng, triangles.astype(np.float32).reshape(-1, 3, 3), count)
    if ordered:
        points = points[np.argsort(points[:, 0])]
    left_out = rng.permutation(len(triangles))[: rng.integers(len(triangles))]
    check(alone, cpu, build, triangles, points, beta, None if all_count else left_out)


def test_far_points_and_equal_points(alone: ctypes.CDLL, cpu: CpuBackend, build: str) -> None:
    rng = np.random.default_rng(1)
    triangles = make_mesh(*shapes.star(rng, 3)).unit_triangles
    points = np.concatenate(
        [rng.normal(size=(20, 3)) * scale for scale in (1e9, 1e3, 1e-30, 0)] + [np.full((40, 3), 0.3)]
    )
    check(alone, cpu, build, triangles, points.astype(np.float32), 1.5)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(sorted(shapes.WORSE)),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 100),
    k=st.integers(1, 32),
)
def test_lists_in_lanes(cpu: CpuBackend, build: str, kind: str, seed: int, count: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    scene = Scene.of(make_mesh(*shapes.WORSE[kind](rng)), "none", cpu)
    points = points_about(rng, scene.mesh.unit_triangles.astype(np.float32), count)
    points = points[np.argsort(points[:, 0])]
    expected = NearestTriangles(scene).exact(points, k)
    index, found = WideIndex(cpu, scene.order), [np.empty_like(each) for each in expected]
    run_lanes(
        build,
        "sdf_nearest_triangles_wide",
        count,
        triangles=len(scene.order),
        k=k,
        points=points,
        triangle=scene.order.triangle,
        triangle_id=scene.order.triangle_id,
        slot_of=index._slot_of,
        distance=found[0],
        face=found[1],
        **index._tree,
    )
    assert np.array_equal(found[0].view(np.uint32), expected[0].view(np.uint32))
    assert np.array_equal(found[1], expected[1])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 3000), scale=st.floats(-3, 1))
def test_links_in_lanes(alone: ctypes.CDLL, build: str, seed: int, count: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    points = (rng.normal(scale=0.02, size=(count, 3)).cumsum(axis=0) * rng.choice([0, 1], (count, 1))).astype(
        np.float32
    )
    distance = (10.0**scale * rng.integers(0, 20, count) / 20).astype(np.float32)  # many are equal
    expected, found = (np.full(count, NONE, np.uint32) for _ in range(2))
    run_alone(alone, "sdf_sign_link", count, points=points, distance=distance, link=expected)
    run_lanes(build, "sdf_sign_link", count, points=points, distance=distance, link=found)
    assert np.array_equal(found, expected)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 400), size=st.floats(-4, -0.3))
def test_crossing_in_lanes(alone: ctypes.CDLL, cpu: CpuBackend, build: str, seed: int, count: int, size: float) -> None:
    """Soups, with triangles in a plane, degenerate and equal ones, and a corner of many."""
    rng = np.random.default_rng(seed)
    corners = rng.random((count, 1, 3)) + 10.0**size * rng.normal(size=(count, 3, 3))
    corners[rng.random(count) < 0.2, :, 2] = 0.5
    corners[rng.random(count) < 0.1, 2] = corners[0, 0]
    degenerate = rng.random(count) < 0.1
    corners[degenerate, 2] = corners[degenerate, 0]
    again = rng.random(count) < 0.1
    corners[again] = corners[rng.integers(0, count, again.sum())]
    mesh = make_mesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))
    bvh = make_bvh(cpu, mesh.unit_triangles)
    shared = {"triangle": bvh.order.triangle, "child": bvh.child, "box": bvh.box}
    for every in (False, True):
        expected, found = ({**shared, **crossing_output(count, every)} for _ in range(2))
        run_alone(alone, "sdf_crossing", count, all=int(every), **expected)
        run_lanes(build, "sdf_crossing", count, all=int(every), **found)
        for name in crossing_output(count, every):
            assert np.array_equal(found[name], expected[name]), name  # None, too


def crossing_output(count: int, every: bool) -> dict[str, Any]:
    meets = None if every else np.zeros(count, np.uint32)
    return {"meets": meets, "crowded": np.zeros(1, np.uint8), "crosses": np.zeros(count, np.uint8)}


@pytest.mark.parametrize("mirrored", [False, True])
def test_crowds_in_lanes(alone: ctypes.CDLL, cpu: CpuBackend, build: str, mirrored: bool) -> None:
    """The large triangle comes before or after the others."""
    bvh = make_bvh(cpu, make_mesh(*shapes.very_many(mirrored)).unit_triangles)
    count = len(bvh.order)
    shared = {"all": 0, "triangle": bvh.order.triangle, "child": bvh.child, "box": bvh.box}
    expected, found = (crossing_output(count, False) for _ in range(2))
    run_alone(alone, "sdf_crossing", count, **shared, **expected)
    run_lanes(build, "sdf_crossing", count, **shared, **found)
    assert found["crowded"] == 1
    assert contents(found) == contents(expected)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 100), by_normals=st.booleans(), kept=st.booleans())
def test_measured_points_in_lanes(
    alone: ctypes.CDLL, build: str, seed: int, count: int, by_normals: bool, kept: bool
) -> None:
    """Of any triangles, degenerate ones too; points at their corners, on edges, in faces and anywhere. And their
    pseudonormals' sides."""
    rng = np.random.default_rng(seed)
    triangle = rng.random((20, 3, 3)).astype(np.float32)
    triangle[rng.random(20) < 0.3, 2] = triangle[0, 0]
    triangle[:3, 1] = triangle[:3, 0]
    triangle[0, 2] = triangle[0, 0]
    slot = rng.integers(0, 20, count).astype(np.uint32)
    weights = rng.choice([0.0, 1.0, 0.5, 0.3], (count, 3, 1)) + 1e-9
    on_it = (triangle[slot] * weights / weights.sum(axis=1, keepdims=True)).sum(axis=1)
    away = 10.0 ** rng.uniform(-12, 0, (count, 1)) * rng.normal(size=(count, 3))
    position = (on_it + away * rng.choice([0, 1], (count, 1))).astype(np.float32)
    normals = rng.normal(size=(20, 7, 3)).astype(np.float32)
    values: dict[str, Any] = {
        "position": position,
        "slot": slot,
        "distance": rng.random(count).astype(np.float32),
        "inside": rng.integers(0, 3, count).astype(np.uint8),
        "winding": rng.random(count).astype(np.float32),
        "normals": normals if by_normals else None,
        "triangle": triangle,
    }
    made = [
        {
            "nearest": np.zeros(count, np.uint32),
            "signed_distance": np.zeros(count, np.float32),
            "gradient": np.zeros((count, 3), np.float32) if kept else None,
        }
        for _ in range(2)
    ]
    run_alone(alone, "sdf_octree_measured", count, **values, **made[0])
    run_lanes(build, "sdf_octree_measured", count, **values, **made[1])
    assert contents(made[1]) == contents(made[0])
    values = {"points": position, "slot": slot, "triangle": triangle, "normals": normals}
    expected, found = (np.full(count, 2, np.uint8) for _ in range(2))
    run_alone(alone, "sdf_pseudonormal", count, **values, inside=expected)
    run_lanes(build, "sdf_pseudonormal", count, **values, inside=found)
    assert np.array_equal(found, expected)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 12),
    second=st.booleans(),
    capped=st.booleans(),
    linked=st.booleans(),
)
def test_inherited_signs_in_lanes(
    alone: ctypes.CDLL, build: str, seed: int, rows: int, second: bool, capped: bool, linked: bool
) -> None:
    """Cells of any old and new points; in a second pass, new ones whose sign is known, too."""
    rng = np.random.default_rng(seed)
    older, count = 40, int(rng.integers(1, 27 * rows + 1))
    row = np.sort(rng.integers(0, rows, count).astype(np.uint32))
    row = row[np.concatenate([np.flatnonzero(row == each)[:27] for each in range(rows)])]
    count = len(row)
    points = rng.integers(0, older + count, (rows, 27)).astype(np.uint32)
    for each in range(rows):  # a row has its own points, each once
        own = np.flatnonzero(row == each)
        points[each] = np.where(np.isin(points[each], older + own), 0, points[each])
        points[each, rng.permutation(27)[: len(own)]] = older + own
    step = np.float32(0.01)
    signed = (rng.choice([-1, 1], older + count) * step * rng.integers(0, 12, older + count) / 4).astype(np.float32)
    before = rng.integers(0, 3, count).astype(np.uint8) if second else None
    box = np.sort(rng.random((3, 2, 3)), axis=1).astype(np.float32).reshape(3, 6)
    area = rng.random(3).astype(np.float32) / 50
    caps = argument_group("Caps").group({"groups": 3, "box": box, "area": area}, CpuBackend.address)
    values = {
        "first": older,
        "point_row": row,
        "points": points,
        "step": float(step),
        "signed_distance": signed,
        "distance": np.abs(signed[older:]),
        "before": before,
        "position": rng.random((count, 3)).astype(np.float32),
        "caps": caps,
    }
    room = (step * rng.integers(0, 12, older + count) / 4).astype(np.float32)
    made = [
        {
            "clear": room.copy() if capped else None,
            "inside": np.zeros(count, np.uint8),
            "link": np.zeros(count, np.uint64) if linked else None,
        }
        for _ in range(2)
    ]
    run_alone(alone, "sdf_sign_inherit", count, **copies(values), **made[0])
    run_lanes(build, "sdf_sign_inherit", count, **copies(values), **made[1])
    assert contents(made[1]) == contents(made[0])


class Growing(CpuBackend):
    """The CPU, whose octrees grow by the kernels of another library."""

    def __init__(self, kernels: ctypes.CDLL, lanes: int) -> None:
        super().__init__(threads=1)
        self._kernels, self._lanes = kernels, ctypes.c_int.in_dll(kernels, "lanes")
        self._chosen, self.grew = lanes, 0

    def run(self, kernel: str, n: int, **values: Any) -> None:
        if kernel not in ("sdf_octree_grow", "sdf_octree_settle"):
            super().run(kernel, n, **values)
            return
        self._lanes.value = self._chosen
        getattr(self._kernels, kernel)(argument_structs()[kernel].pack({"n": n, **values}, self.address), 1)
        self._lanes.value = 0
        self.grew += kernel == "sdf_octree_settle"


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_octrees_with_every_instruction_set(alone: ctypes.CDLL, cpu: CpuBackend, build: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    mesh = shapes.star(rng, 1)
    if kind == "open":
        mesh = shapes.holed(rng, mesh, 0.1)
    by_lanes = Growing(alone, 1 + list(SETS).index(build))
    limits = Limits(depth=8, tolerance=2.5e-3, band=0.02, thin=1e-3, thin_depth=9, step=5e-4, why=True)
    expected, *found = (
        adaptive.build(Scene.of(make_mesh(*mesh), "winding", each), limits).arrays
        for each in (Growing(alone, 0), by_lanes, cpu)
    )
    assert by_lanes.grew > 1
    assert len(expected["leaf_key"]) > 10_000
    for arrays in found:
        assert arrays.keys() == expected.keys()
        assert all(np.array_equal(arrays[name], expected[name]) for name in arrays)


def copies(values: dict[str, Any]) -> dict[str, Any]:
    return {name: copied(value) for name, value in values.items()}


def copied(value: Any) -> Any:
    if isinstance(value, Group):
        return argument_group(value.struct).group(copies(value.values), CpuBackend.address)
    return value.copy() if isinstance(value, np.ndarray) else value


def arrays_in(values: dict[str, Any]) -> list[Numbers]:
    groups = [arrays_in(value.values) for value in values.values() if isinstance(value, Group)]
    return [value for value in values.values() if isinstance(value, np.ndarray)] + [
        each for one in groups for each in one
    ]


def contents(values: dict[str, Any]) -> list[bytes]:
    return [array.tobytes() for array in arrays_in(values)]
