"""The kernels of the guide "Kernels of your own", beside `Field.sample`: to the same bits, on fields of every shape."""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvrtc import compile_kernels

import oracle
import sdfcli
from conftest import ROOT
from examples import DOCS, MARKED, run_python
from sdfcli.field.field import Field

PAGE = (DOCS / "guides" / "kernels.md").read_text()
BLOCKS = {mark: block for mark, _, block in MARKED.findall(PAGE)}
ON_A_GPU, WITH_WARP = BLOCKS["run on a GPU"], BLOCKS["run"]

HOST = """
#define __global__
static thread_local struct { unsigned x; } blockIdx, blockDim = {1}, threadIdx;
"""
LAUNCH = """
extern "C" void launch(const Sampler* field, double clearance, long long n, double* position, double* distance) {
    for (blockIdx.x = 0; blockIdx.x < n; blockIdx.x++) push_out(*field, clearance, n, position, distance);
}
"""

PushOut = Callable[[Field, float, oracle.Floats], tuple[oracle.Floats, oracle.Floats]]


def constant(name: str) -> Any:
    """What the program for a GPU assigns to a name: a value that is written out."""
    found = [node.value for node in ast.parse(ON_A_GPU).body if isinstance(node, ast.Assign) and named(node) == name]
    return ast.literal_eval(found[0])


def named(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


@pytest.fixture(scope="module")
def bunny() -> Field:
    return sdfcli.build(ROOT / "sample_meshes" / "bunny.ply", device="cpu")


@pytest.fixture(scope="module")
def fields(bunny: Field) -> dict[str, Field]:
    rng = np.random.default_rng(7)
    return {
        "bunny": bunny,
        "torus": sdfcli.build(ROOT / "sample_meshes" / "torus.obj", tolerance=2e-3, device="cpu"),
        "one leaf": oracle.random_field(rng, 0, [5.0, -3.0, 0.25], 2.0),
        "coarse": oracle.random_field(rng, 40, -0.5),
        "depth 16": oracle.random_field(rng, 400, [1e3, 0.0, -7.0], 0.37, deep=True),
    }


def points_of(field: Field) -> oracle.Floats:
    """In the domain, at corners of leaves and in their sides, on the domain's, and outside, some of them far."""
    rng = np.random.default_rng(8)
    corner = oracle.lattice(field.corner_key)[rng.integers(0, len(field.corner_key), 3000)] / 2.0**oracle.LATTICE_BITS
    corner[1000:, rng.integers(0, 3)] = rng.random(2000)
    border = rng.random((1000, 3))
    border[np.arange(1000), rng.integers(0, 3, 1000)] = rng.integers(0, 2, 1000)
    far = rng.normal(size=(1000, 3)) * 10.0 ** rng.integers(0, 100, (1000, 1))
    near = np.concatenate([rng.random((5000, 3)), corner, border, rng.uniform(-2, 3, (2000, 3)), far])
    return np.asarray(field.domain.origin + near * field.domain.length)


def pushed_out(field: Field, clearance: float, points: oracle.Floats) -> tuple[oracle.Floats, oracle.Floats]:
    """The guide's kernel, by NumPy and the field's own methods."""
    position = points.copy()
    distance, gradient = field.sample_with_gradient(position)
    for _ in range(8):
        x, y, z = gradient.T
        slope = np.sqrt(x * x + y * y + z * z)
        go = (distance < clearance) & (slope != 0)
        position[go] += ((clearance - distance[go]) / slope[go])[:, None] * gradient[go]
        distance[go], gradient[go] = field.sample_with_gradient(position[go])
    return position, distance


@pytest.fixture(scope="module")
def push_out(tmp_path_factory: pytest.TempPathFactory) -> PushOut:
    """The guide's kernel, compiled for the CPU."""
    folder = tmp_path_factory.mktemp("push_out")
    (folder / "own.cpp").write_text(sdfcli.sampler_source() + HOST + constant("PUSH_OUT") + LAUNCH)
    (options,) = re.findall(r"g\+\+ takes the same text \(`(.*?)`\)", PAGE)
    command = ["g++", *options.split(), "-O2", "-fPIC", "-shared", "own.cpp", "-o", "own.so"]
    subprocess.run(command, check=True, cwd=folder)
    library = ctypes.CDLL(str(folder / "own.so"))

    def run(field: Field, clearance: float, points: oracle.Floats) -> tuple[oracle.Floats, oracle.Floats]:
        arrays, position, distance = field.device_arrays("cpu"), points.copy(), np.empty(len(points))
        where = [ctypes.c_void_p(each.ctypes.data) for each in (position, distance)]
        count = ctypes.c_longlong(len(points))
        library.launch(arrays.sampler.tobytes(), ctypes.c_double(clearance), count, *where)
        return position, distance

    return run


@pytest.mark.parametrize("name", ["bunny", "torus", "one leaf", "coarse", "depth 16"])
def test_the_kernel_for_cupy_on_the_cpu(push_out: PushOut, fields: dict[str, Field], name: str) -> None:
    field, points = fields[name], points_of(fields[name])
    clearance = 0.05 * field.domain.length
    position, distance = push_out(field, clearance, points)
    expected = pushed_out(field, clearance, points)
    assert (position.tobytes(), distance.tobytes()) == (expected[0].tobytes(), expected[1].tobytes())
    assert distance.tobytes() == field.sample(position).tobytes()
    away = field.sample(points) >= clearance
    assert 0 < away.sum() < len(points)
    assert np.array_equal(position[away], points[away])
    if name in ("bunny", "torus"):
        assert np.mean(distance[~away] > 0.99 * clearance) > 0.95


@pytest.mark.skipif(sys.platform != "linux", reason="there is no NVRTC for this system")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_the_kernel_for_cupy_compiles(architecture: str) -> None:
    source = sdfcli.sampler_source() + constant("PUSH_OUT")
    cubin = compile_kernels(source, *constant("options"), f"--gpu-architecture={architecture}")
    assert b".text.push_out\0" in cubin


@pytest.mark.gpu
def test_the_program_for_cupy(bunny: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bunny.save(tmp_path / "bunny.h5")
    monkeypatch.chdir(tmp_path)
    names = dict[str, Any]()
    run_python(ON_A_GPU, names)
    points = np.random.default_rng(0).uniform(names["low"], names["high"], (names["n"], 3))
    position, distance = pushed_out(bunny, names["clearance"], points)
    assert names["position"].get().tobytes() == position.tobytes()
    assert names["distance"].get().tobytes() == distance.tobytes()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_program_for_warp(
    bunny: Field, fields: dict[str, Field], device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("warp")
    bunny.save(tmp_path / "bunny.h5")
    monkeypatch.chdir(tmp_path)
    names = dict[str, Any]()
    run_python(WITH_WARP, names)
    for name, field in fields.items():
        points = points_of(field)
        assert names["sample"](field.device_arrays(device), points).tobytes() == field.sample(points).tobytes(), name


def test_the_names_that_the_source_defines() -> None:
    source = sdfcli.sampler_source()
    macros = {name for name in re.findall(r"^ *#define (\w+)", source, re.MULTILINE) if not name.startswith("SDF")}
    assert {"FN", "is_leaf"} <= macros
    assert [name for name in macros if f"`{name}`" not in PAGE] == []
    for name in ("D3", "vec", "dot"):
        assert re.search(rf"\b{name}\b", source)
