"""The compiled kernels, a shared library."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from pathlib import Path

from sdfcli.errors import DeviceError, OutOfMemoryError
from sdfcli.runtime.memory import is_shortage

LIBRARY_NAME = "libsdfcli_kernels.dll" if os.name == "nt" else "libsdfcli_kernels.so"


def library_path() -> Path:
    """The compiled kernels: SDFCLI_KERNEL_LIBRARY, for kernel development, or the library in the backend folder.

    Found by the import system: an editable install compiles edited kernels on import, into another folder. Raises
    DeviceError for a relative path.
    """
    override = os.environ.get("SDFCLI_KERNEL_LIBRARY")
    if override:
        if not os.path.isabs(override):
            raise DeviceError(f"SDFCLI_KERNEL_LIBRARY={override}: use an absolute path; it names code that is run")
        return Path(override)
    found = importlib.util.find_spec(f"sdfcli.backend.{LIBRARY_NAME.partition('.')[0]}")
    return Path(found.origin) if found is not None and found.origin else Path(__file__).parents[1] / LIBRARY_NAME


@functools.cache
def library() -> ctypes.CDLL:
    """The library, loaded once. Raises DeviceError where it cannot be loaded, OutOfMemoryError for lack of memory."""
    path = library_path()
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        if is_shortage(error):
            raise OutOfMemoryError(f"the compiled CPU kernels do not fit into memory: {error}") from error
        package = Path(__file__).parents[2]
        source = package / "kernels" / "CMakeLists.txt"  # installed packages leave that file out
        if source.exists() and not path.exists():
            advice = (
                f"{package} is the source code, not the installed package: install it with `pip install .` and start "
                "Python in another folder, without PYTHONPATH"
            )
        else:
            advice = "install the package with `pip install .`, or use --device cuda"
        raise DeviceError(f"the compiled CPU kernels cannot be loaded ({error}); {advice}") from error
