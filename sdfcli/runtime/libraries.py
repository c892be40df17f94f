"""Imports of large libraries, refused if memory is short: otherwise they hang, or end the process."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from sdfcli.runtime import memory

H5PY = 8 << 20
"""Memory required to import h5py, in bytes; measured with h5py 3.16 and NumPy already imported: 3 MB."""

TRIMESH = 64 << 20
"""Memory required to import trimesh, in bytes; measured with trimesh 5.2 and all its optional imports: 54 MB."""


def import_h5py() -> Any:
    """The module h5py. Raises OutOfMemoryError before the first import if memory is short."""
    return _imported("h5py", H5PY)


def import_trimesh() -> Any:
    """The module trimesh. Raises OutOfMemoryError as `import_h5py` does."""
    return _imported("trimesh", TRIMESH)


def _imported(name: str, size: int) -> Any:
    if name not in sys.modules:
        memory.require(size, f"importing {name}")
    return import_module(name)
