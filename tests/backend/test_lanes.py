"""Kernels in lanes: the answers of one index after the other, to the last bit, with every instruction set."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import sdfcli
import shapes
from sdfcli.backend.arguments import Group, argument_group, argument_structs
from sdfcli.backend.cpu import CpuBackend, library_path
from sdfcli.mesh.load import make_mesh
from sdfcli.spatial.moments import WindingIndex
from sdfcli.spatial.morton import morton_order
from surfaces import points_about

ROOT = Path(__file__).parents[2]
Numbers = oracle.Numbers
NONE = 0xFFFFFFFF

SETS = {"plain": None, "avx2": " avx2 ", "avx512": " avx512f "}
"""The builds of cpu/simd.cpp, and what a CPU must have for them."""

OCTREE = "sdf_octree_screen", "sdf_octree_peek", "sdf_octree_test", "sdf_octree_tighten", "sdf_sign_inherit"

MESHES = {
    **shapes.ANY,
    "one": lambda rng: (rng.random((3, 3)), [[0, 1, 2]]),
    "duplicates": lambda rng: shapes.joined(*[shapes.star(rng, 1)] * 3),
    "degenerate": lambda rng: (rng.random((30, 3)), rng.integers(0, 30, (60, 3))),
    "large and tiny": lambda rng: shapes.joined(
        shapes.soup(rng, 20, 1.0), shapes.moved(shapes.star(rng, 2), 10.0 ** -rng.uniform(2, 6), rng.random(3))
    ),
    "far apart": lambda rng: shapes.joined(
        *[shapes.moved(shapes.star(rng, 1), 1e-3, offset) for offset in rng.random((6, 3))]
    ),
}


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("alone") / "alone.so"
    source = ROOT / "tests/alone.cpp"
    kernels = ROOT / "sdfcli/kernels"  # the installed package has no cpu/
    options = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-w", f"-I{kernels}"]
    subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
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
    """One of the builds, past the choice among them."""
    struct = argument_structs()[kernel].pack({"n": n, **values}, CpuBackend.address)
    run = getattr(ctypes.CDLL(str(library_path())), f"{kernel}_{build}")
    run(struct, ctypes.c_uint(0), ctypes.c_uint(n))


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
    counted: Numbers | None = None,
) -> None:
    """Winding numbers of points in lanes and alone; counted: the triangles (n,) that count."""
    index = WindingIndex.among(cpu, morton_order(cpu, triangles), counted)
    expected, found = (np.full(len(points), np.nan, np.float32) for _ in range(2))
    values = {"points": points, "tree": index.group, "beta": beta}
    run_alone(alone, "sdf_winding", len(points), winding=expected, **values)
    run_lanes(build, "sdf_winding", len(points), winding=found, **values)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    assert np.array_equal(index.winding(points, beta).view(np.uint32), expected.view(np.uint32))


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(MESHES)),
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
    triangles = make_mesh(*MESHES[kind](rng)).unit_triangles
    points = points_about(rng, triangles.astype(np.float32).reshape(-1, 3, 3), count)
    if ordered:
        points = points[np.argsort(points[:, 0])]
    counted = rng.permutation(len(triangles)) <= rng.integers(len(triangles))
    check(alone, cpu, build, triangles, points, beta, None if all_count else counted)


def test_far_points_and_equal_points(alone: ctypes.CDLL, cpu: CpuBackend, build: str) -> None:
    rng = np.random.default_rng(1)
    triangles = make_mesh(*shapes.star(rng, 3)).unit_triangles
    points = np.concatenate(
        [rng.normal(size=(20, 3)) * scale for scale in (1e9, 1e3, 1e-30, 0)] + [np.full((40, 3), 0.3)]
    )
    check(alone, cpu, build, triangles, points.astype(np.float32), 1.5)


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


@pytest.mark.parametrize("kind", ["closed", "open"])
def test_octrees_with_every_instruction_set(
    alone: ctypes.CDLL, build: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    mesh = shapes.star(rng, 1)
    if kind == "open":
        mesh = shapes.holed(rng, mesh, 0.1)
    run, wrote = CpuBackend.run, set()

    def both(self: CpuBackend, kernel: str, n: int, **values: object) -> None:
        if kernel in OCTREE and n:
            expected, found = copies(values), copies(values)
            run_alone(alone, kernel, n, **expected)
            run_lanes(build, kernel, n, **found)
            before, after = arrays_in(values), arrays_in(expected)
            assert [array.tobytes() for array in arrays_in(found)] == [array.tobytes() for array in after], kernel
            if any(old.tobytes() != new.tobytes() for old, new in zip(before, after, strict=True)):
                wrote.add(kernel)
        run(self, kernel, n, **values)

    monkeypatch.setattr(CpuBackend, "run", both)
    sdfcli.build(mesh, tolerance=5e-3, sign="winding", device="cpu", threads=1)
    assert wrote == set(OCTREE)


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
