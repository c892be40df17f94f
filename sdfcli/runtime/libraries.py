"""Libraries that are imported where memory suffices: short of it their imports hang, or end the process."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from sdfcli.runtime import memory

H5PY = 8 << 20
"""Bytes that the import may take; 3 MB were measured, with h5py 3.16 and NumPy imported before."""

TRIMESH = 64 << 20
"""The same of trimesh 5.2 with all that it imports where it is installed: 54 MB."""


def import_h5py(spare: int = 0) -> Any:
    """The module h5py. spare: bytes that must stay free, for what runs meanwhile.

    Raises OutOfMemoryError, before the first import, where less is free.
    """
    return _imported("h5py", H5PY + spare)


def import_trimesh() -> Any:
    """The module trimesh. Raises OutOfMemoryError as `import_h5py` does."""
    return _imported("trimesh", TRIMESH)


def _imported(name: str, size: int) -> Any:
    if name not in sys.modules:
        memory.require(size, f"importing {name}")
    return import_module(name)
