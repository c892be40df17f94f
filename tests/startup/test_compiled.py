"""Compiled kernels that are kept from one process to the next."""

from __future__ import annotations

import pwd
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shapes
from sdfcli import pipeline
from sdfcli.backend.cuda import CudaBackend
from sdfcli.backend.cuda.kernels import kernel_sources
from sdfcli.octree import OCTREES
from sdfcli.startup.cubins import cache_folder


@pytest.mark.gpu
def test_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))

    def check() -> dict[Path, int]:
        device = CudaBackend(0)
        wish = device.from_host(np.arange(2000) % 2, np.uint8)
        assert device.to_host(device.compact(wish)[0]).tolist() == list(range(1, 2000, 2))
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("sdfcli-*")}

    made = check()
    assert made
    assert check() == made
    broken = min(made)
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-100])
    assert check().keys() == made.keys()
    assert len(broken.read_bytes()) == len(whole)


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in "HOME", "CUPY_CACHE_DIR":
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert cache_folder().name == "kernel_cache"
    monkeypatch.setenv("CUPY_CACHE_DIR", "kernels")
    assert cache_folder() == Path("kernels")


@pytest.mark.parametrize("octree", OCTREES)
def test_each_header_is_prepared_once(octree: str) -> None:
    sources = [kernel_sources()[kernel] for kernel in OCTREES[octree].kernels]
    assert len(set(sources)) == len(sources)


@pytest.mark.gpu
@pytest.mark.parametrize("octree", OCTREES)
def test_what_a_build_runs_was_prepared(octree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing was compiled before: by several threads at a time."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    device = CudaBackend(0)
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: device)
    shape = shapes.holed(np.random.default_rng(1), shapes.icosphere(3), 0.1)
    made = pipeline.build(shape, device="cuda", octree=octree, depth=5)
    prepared = {kernel_sources()[kernel] for kernel in OCTREES[octree].kernels}
    assert device._modules.keys() <= prepared
    assert made.content_sha256 == pipeline.build(shape, device="cuda", octree=octree, depth=5).content_sha256


BUILDS = """
import sys
import cupy
import cupy.cuda.compiler as compiler

own, made = compiler._compile_module_with_cache, []

def noted(source, *arguments, **options):
    made.append(source)
    return own(source, *arguments, **options)

for name, module in list(sys.modules.items()):  # cupyx is loaded when it is touched
    if name.startswith("cupy.") and getattr(module, "_compile_module_with_cache", None) is own:
        module._compile_module_with_cache = noted

import sdfcli

for name in sys.argv[1:]:
    for octree in ("adaptive", "bvh"):
        sdfcli.build(name, device="cuda", octree=octree, depth=6).info
        assert not made, (name, octree, made[0])
assert "cupyx.scipy" not in sys.modules
cupy.arange(3) + 1
assert made
"""


@pytest.mark.gpu
def test_builds_wait_for_none_of_cupys_kernels() -> None:
    """Closed and open meshes, and one with doubled faces: CuPy would load the compiler."""
    samples = Path(__file__).parents[2] / "sample_meshes"
    names = [str(samples / name) for name in ("bunny.ply", "scan.ply", "shells.ply", "bracket.stl", "torus.obj")]
    subprocess.run([sys.executable, "-c", BUILDS, *names], check=True)
