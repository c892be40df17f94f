"""Shared fixtures: the installed package, its devices, and real meshes."""

from __future__ import annotations

import functools
import importlib.util
import math
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

# CI must not fail by chance: its examples are fixed. Elsewhere each run has new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).resolve().parents[1]

os.environ["SDFCLI_CHECK"] = "1"  # kernels refuse arrays that are too short
os.environ["SDFCLI_CONFIG"] = os.devnull  # not the user's settings

# `python -m pytest` puts the current folder, the source tree without compiled kernels, on sys.path before the installed
# package. SDFCLI_KERNEL_LIBRARY, for kernels built by hand, selects the source tree.
if "SDFCLI_KERNEL_LIBRARY" not in os.environ:
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != ROOT]
    os.environ["PYTHONSAFEPATH"] = "1"  # the same for `python -m sdfcli` in tests


@functools.cache
def _gpus() -> int:
    from sdfcli.startup.cupy import device_count

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
        from sdfcli.startup.cupy import import_cupy

        import_cupy().cuda.Device(0).use()  # an earlier test of several GPUs may have left another one current


def tool(name: str) -> Any:
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def large_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes trees count as a large share of GPU memory, which are then freed, and limits an octree's spare capacity to
    its minimum."""
    from sdfcli import scene
    from sdfcli.octree import growth

    monkeypatch.setattr(scene, "KEPT_SHARE", 1 << 40)
    monkeypatch.setattr(growth, "MOST_SPARE", growth.SPARE)


@pytest.fixture(scope="session")
def fuzz() -> Any:
    """tools/fuzz.py as a module."""
    return tool("fuzz")


@pytest.fixture(scope="session")
def cpu() -> CpuBackend:
    """The CPU with all threads."""
    from sdfcli.backend.cpu import CpuBackend

    return CpuBackend()


@pytest.fixture(scope="session")
def gpu() -> CudaBackend:
    """The first GPU. Without one the test is skipped, or fails if one is required."""
    _need_gpu()
    from sdfcli.backend.cuda import CudaBackend

    return CudaBackend()


@pytest.fixture
def fenced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails if something was written beside an array that `np.empty` made, as a kernel's are."""
    import numpy as np

    empty, fence, rooms = np.empty, 256, list[Any]()

    def between_fences(shape: Any, dtype: Any = float, **more: Any) -> Any:
        if more or np.dtype(dtype).kind not in "biuf":
            return empty(shape, dtype, **more)
        size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
        rooms.append(np.full(size + 2 * fence, 0xA5, np.uint8))
        return rooms[-1][fence : fence + size].view(dtype).reshape(shape)

    monkeypatch.setattr(np, "empty", between_fences)
    yield
    monkeypatch.undo()
    assert rooms
    assert all((part == 0xA5).all() for room in rooms for part in (room[:fence], room[-fence:]))


@pytest.fixture
def heeded() -> Iterator[None]:
    """Handles interrupts: background jobs of a shell, and their children, ignore SIGINT by default."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def real_mesh() -> Callable[[str], Path]:
    """real_mesh("bunny") is bunny.ply in the folder SDFCLI_MESHES; real_mesh("real_world/duck.glb") is a path below it.

    Skips the test where SDFCLI_MESHES is unset; fails where the file is missing.
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
