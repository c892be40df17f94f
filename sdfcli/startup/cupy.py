"""CuPy, without imports that builds never need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import LazyLoader, module_from_spec
from typing import Any

from sdfcli.errors import DeviceError
from sdfcli.startup import PLAIN


def import_cupy() -> Any:
    """Imports CuPy. Raises DeviceError where it is not installed."""
    try:
        with _without_cutensor():
            import cupy
    except ImportError as error:
        raise DeviceError(
            "CuPy is not installed: pip install 'sdfcli[cuda13]' (or [cuda12]), or use --device cpu"
        ) from error
    if not PLAIN:
        _load_when_touched("cupyx", "linalg")
    return cupy


@contextmanager
def _without_cutensor() -> Iterator[None]:
    """Within it, CuPy's import treats cuTENSOR as loaded where CUPY_ACCELERATORS excludes it: otherwise cuBLAS is
    loaded first (0.05 s), even without cuTENSOR."""
    try:
        pathfinder: Any = import_module("cuda.pathfinder")
    except ImportError:  # older CuPy
        pathfinder = None
    if PLAIN or pathfinder is None or "cupy" in sys.modules or os.environ.get("CUPY_ACCELERATORS") != "":
        yield
        return
    load = pathfinder.load_nvidia_dynamic_lib

    pathfinder.load_nvidia_dynamic_lib = lambda name: None if name == "cutensor" else load(name)
    try:
        yield
    finally:
        pathfinder.load_nvidia_dynamic_lib = load


def _load_when_touched(package: str, name: str) -> None:
    """Makes the import of `package.name` lazy: loaded on first attribute access.

    CuPy imports cupyx for an operator with a number on the right; with SciPy installed, cupyx.linalg then takes 0.25 s.
    """
    full = f"{package}.{name}"
    if full in sys.modules or package not in sys.modules:
        return
    found = PathFinder.find_spec(package)
    spec = found and PathFinder.find_spec(full, found.submodule_search_locations)
    if spec is None or spec.loader is None:
        return
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[full] = module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(sys.modules[package], name, module)


def device_count() -> int:
    """Number of NVIDIA GPUs that CuPy can use; 0 without CuPy or a driver."""
    try:
        return int(import_cupy().cuda.runtime.getDeviceCount())
    except Exception:
        return 0
