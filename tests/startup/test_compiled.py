"""Machine code of GPU kernels: in the package, or kept from one process to the next."""

from __future__ import annotations

import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cubins import compile_ahead, local_architectures

import shapes
from sdfcli import pipeline
from sdfcli.backend.cuda import CudaBackend
from sdfcli.backend.headers import OPTIONS, kernel_sources
from sdfcli.octree.kinds import OCTREES
from sdfcli.startup import cubins
from sdfcli.startup.cubins import cache_folder, load_cubin, shipped_file

needs_nvrtc = pytest.mark.skipif(sys.platform != "linux", reason="there is no NVRTC for this system")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a package without machine code."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cubins, "SHIPPED", tmp_path / "shipped")
    return tmp_path / "cache"


def run_a_kernel() -> list[str]:
    """Runs a kernel on a new backend; returns the modules that it needs."""
    device = CudaBackend(0)
    flags = device.from_host(np.arange(2000) % 2, np.uint8)
    assert device.to_host(device.compact(flags)).tolist() == list(range(1, 2000, 2))
    return list(device._modules)


@pytest.mark.gpu
def test_compiled_once(cache: Path) -> None:
    def check() -> dict[Path, int]:
        run_a_kernel()
        return {path: path.stat().st_mtime_ns for path in cache.glob("sdfcli-*")}

    made = check()
    assert made
    assert check() == made
    broken = min(made)
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-100])
    assert check().keys() == made.keys()
    assert len(broken.read_bytes()) == len(whole)


@needs_nvrtc
def test_code_in_the_package(cache: Path) -> None:
    """Also for later architectures of the same major version, and for no other source."""
    source = kernel_sources()["sdf_scan"]
    assert shipped_file(source, OPTIONS, "90") is None
    assert compile_ahead(cubins.SHIPPED, ["sm_80", "sm_90"], [source]) == 2
    files = {each: shipped_file(source, OPTIONS, each) for each in ("75", "80", "86", "90", "100")}
    assert [each for each, file in files.items() if file] == ["80", "86", "90"]
    assert files["80"] == files["86"] != files["90"]
    code = load_cubin(files["90"])
    assert b".text.sdf_scan\0" in code
    assert shipped_file(source + " ", OPTIONS, "90") is None
    assert shipped_file(source, (*OPTIONS, "-g"), "90") is None


@pytest.mark.gpu
@needs_nvrtc
def test_a_package_with_code_compiles_nothing(cache: Path) -> None:
    compile_ahead(cubins.SHIPPED, local_architectures(), run_a_kernel())
    shutil.rmtree(cache)
    run_a_kernel()
    assert not cache.exists()
    for file in cubins.SHIPPED.glob("*/*"):
        cubins.save_cubin(file, b"code that the driver refuses")
    run_a_kernel()
    assert cache.exists()


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
def test_what_a_build_runs_was_prepared(octree: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing was compiled before: by several threads at a time."""
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
