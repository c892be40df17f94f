"""The example of a package with a command and a kernel of its own, examples/push-out: found by its entry point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvrtc import compile_kernels

import oracle
import packages
import sdfcli
from conftest import ROOT
from packages import run
from sdfcli.field.field import Field

EXAMPLE = ROOT / "examples" / "push-out"
CLEARANCE = 0.02


@pytest.fixture(scope="module")
def field() -> Field:
    return sdfcli.build(ROOT / "sample_meshes" / "bunny.ply", device="cpu")


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """The PYTHONPATH that finds the package."""
    return packages.install(EXAMPLE, tmp_path / "site-packages")


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the kernel."""
    monkeypatch.syspath_prepend(EXAMPLE)
    from sdfcli_push_out import kernel

    return kernel


def points_of(field: Field) -> oracle.Floats:
    """Near the surface, on both sides."""
    rng = np.random.default_rng(5)
    return np.asarray(field.domain.origin + rng.random((2000, 3)) * field.domain.length)


def pushed_out(field: Field, points: oracle.Floats, clearance: float) -> oracle.Floats:
    """By NumPy and the field's own methods."""
    position = points.copy()
    distance, gradient = field.sample_with_gradient(position)
    for _ in range(8):
        x, y, z = gradient.T
        slope = np.sqrt(x * x + y * y + z * z)
        go = (distance < clearance) & (slope != 0)
        position[go] += ((clearance - distance[go]) / slope[go])[:, None] * gradient[go]
        distance[go], gradient[go] = field.sample_with_gradient(position[go])
    return position


def test_the_command(field: Field, installed: str, tmp_path: Path) -> None:
    field.save(tmp_path / "bunny.h5")
    points = points_of(field)[:50]
    np.savetxt(tmp_path / "points.txt", points, fmt="%.17g")
    done = run(f"push-out bunny.h5 points.txt --clearance {CLEARANCE} --device cpu", installed, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    printed = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
    assert np.allclose(printed, pushed_out(field, points, CLEARANCE), rtol=1e-5, atol=1e-8)


def test_it_is_a_command_as_others(installed: str, tmp_path: Path) -> None:
    shown = run("--help", installed, tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "push-out" in shown.stdout.split("Plugins")[1]
    assert "Move points out of a solid, to a distance from its surface." in shown.stdout.split("Plugins")[1]
    shown = run("push-out --help", installed, tmp_path)
    assert "Example: sdfcli push-out " in shown.stdout.strip().splitlines()[-1]
    for words, code, fault in (
        ("push-out nothing.h5 points.txt", 3, "sdfcli: nothing.h5: no such file"),
        ("push-out nothing.h5 points.txt --clearance -1", 2, "sdfcli: --clearance -1: use 0 or more"),
        ("push-out nothing.h5", 2, "sdfcli: missing argument 'POINTS' (see sdfcli push-out --help)"),
    ):
        done = run(words, installed, tmp_path)
        assert (done.returncode, done.stdout, done.stderr.splitlines()) == (code, "", [fault])


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_kernel(field: Field, package: Any, device: str) -> None:
    points = points_of(field)
    given = points.copy()
    moved = package.push_out(field, points, CLEARANCE, device)
    assert points.tobytes() == given.tobytes()
    assert moved.tobytes() == pushed_out(field, points, CLEARANCE).tobytes()
    assert 0 < np.any(moved != points, axis=1).sum() < len(points)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no NVRTC for this system")
def test_the_kernel_compiles_for_a_gpu(package: Any) -> None:
    cubin = compile_kernels(package.source(), "-std=c++17", "--fmad=false", "--gpu-architecture=sm_90")
    assert b".text.push_out\0" in cubin
