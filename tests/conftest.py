"""What all tests share: the installed package, its devices, and real meshes."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from sdfcli.backend.cpu import CpuBackend
    from sdfcli.backend.cuda import CudaBackend

# A pipeline must not fail by chance: there the examples are always the same. Elsewhere they are new every time.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).resolve().parents[1]

os.environ["SDFCLI_CHECK"] = "1"  # kernels refuse arrays that are too short

# `python -m pytest` puts the current folder on sys.path, and so the source tree, which has no compiled kernels, before
# the installed package. Whoever builds the kernels by hand, and says where they are, tests the source tree.
if "SDFCLI_KERNEL_LIBRARY" not in os.environ:
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]
    os.environ["PYTHONSAFEPATH"] = "1"  # the same for `python -m sdfcli` in tests


@functools.cache
def _gpus() -> int:
    from sdfcli.backend.cuda import device_count

    return device_count()


def _need_gpu() -> None:
    if _gpus() == 0:
        if os.environ.get("SDFCLI_REQUIRE_GPU") == "1":
            pytest.fail("SDFCLI_REQUIRE_GPU=1, but there is no GPU that CuPy can use", pytrace=False)
        pytest.skip("no GPU that CuPy can use")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `gpu` are skipped without a GPU, or fail if one is required."""
    if item.get_closest_marker("gpu"):
        _need_gpu()


def tool(name: str) -> Any:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def large_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees, and room for visits, are taken for no small part of a GPU's memory, though they are."""
    from sdfcli import scene
    from sdfcli.octree import visits

    monkeypatch.setattr(scene, "KEPT_SHARE", 1 << 40)
    monkeypatch.setattr(visits, "MOST_SPARE", visits.SPARE)


@pytest.fixture(scope="session")
def fuzz() -> Any:
    """tools/fuzz.py as a module."""
    return tool("fuzz")


@pytest.fixture(scope="session")
def cpu() -> CpuBackend:
    """The CPU, with all its threads."""
    from sdfcli.backend.cpu import CpuBackend

    return CpuBackend()


@pytest.fixture(scope="session")
def gpu() -> CudaBackend:
    """The first GPU. A test that asks for it is skipped without one, or fails if one is required."""
    _need_gpu()
    from sdfcli.backend.cuda import CudaBackend

    return CudaBackend()


@pytest.fixture
def heeded() -> Iterator[None]:
    """What a shell starts in the background ignores interrupts, and so does all that is started from there, unless
    someone has asked for them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def real_mesh() -> Callable[[str], Path]:
    """real_mesh("bunny") is the file bunny.ply in the folder SDFCLI_MESHES, real_mesh("real_world/duck.glb") that one.

    The test is skipped where SDFCLI_MESHES is not set, and fails where the file is not there.
    """

    def find(name: str) -> Path:
        folder = os.environ.get("SDFCLI_MESHES")
        if not folder:
            pytest.skip("SDFCLI_MESHES is not set: it names the folder with the real meshes")
        path = Path(folder, name if Path(name).suffix else f"{name}.ply")
        if not path.is_file():
            pytest.fail(f"{path}: no such file, but SDFCLI_MESHES is set", pytrace=False)
        return path

    return find
