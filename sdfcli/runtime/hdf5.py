"""h5py, imported where memory suffices: short of it, HDF5's initialization hangs or ends the process."""

from __future__ import annotations

import sys
from typing import Any

from sdfcli.runtime import memory

SIZE = 8 << 20
"""Bytes that the import may take; 3 MB were measured, with h5py 3.16 and NumPy imported before."""


def import_h5py(spare: int = 0) -> Any:
    """The module h5py. spare: bytes that must stay free, for what runs meanwhile.

    Raises OutOfMemoryError, before the first import, where less is free.
    """
    if "h5py" not in sys.modules:
        memory.require(SIZE + spare, "importing h5py")
    import h5py

    return h5py
