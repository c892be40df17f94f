"""NumPy arrays in scratch files, for data larger than host memory (kernels/cpu/scratch.h)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

LEAST = 1 << 20
"""Minimum bytes of an array in a file."""

SET_HANDLER, GET_HANDLER = 304, 305
"""Indices in NumPy's C API table (`__multiarray_api.h`), stable within a major version."""
CAPSULE = ctypes.c_char_p(b"mem_handler")


@contextmanager
def arrays_in_files(library: ctypes.CDLL, folder: Path, most: int) -> Iterator[None]:
    """Places large arrays that NumPy allocates within the block, on this thread, in unnamed files of a folder, freed
    with the arrays. Their pages are dropped while the process has more than `most` bytes resident.

    library: the compiled kernels. Raises OSError where the folder is in memory, or missing.
    """
    handler = library.sdf_scratch_handler
    handler.restype = ctypes.c_void_p
    handler.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64
    before = _numpy(GET_HANDLER)()
    made = handler(_pointer(before, CAPSULE), bytes(folder.absolute()), most, LEAST)
    if not made:
        raise OSError(f"{folder}: no folder of a disk")
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    _numpy(SET_HANDLER, 1)(capsule(("PyCapsule_New", ctypes.pythonapi))(made, CAPSULE, None))
    try:
        yield
    finally:
        _numpy(SET_HANDLER, 1)(before)


@functools.cache
def _numpy(place: int, arguments: int = 0) -> Callable[..., Any]:
    """A NumPy C API function by table index, which takes `arguments` objects and returns one."""
    table = import_module("numpy._core._multiarray_umath")._ARRAY_API
    functions = ctypes.cast(_pointer(table, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.py_object] * arguments)(functions[place])


def _pointer(capsule: Any, name: ctypes.c_char_p | None) -> Any:
    """A capsule's pointer."""
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, name)
