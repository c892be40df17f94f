"""HDF5 files that grow on disk. HDF5 may abort the process if a write fails, as on a full disk, so none is reported to
HDF5 as failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdfcli.runtime import interrupts
from sdfcli.runtime.libraries import import_h5py

METADATA = 1 << 17
"""Size of HDF5's metadata cache, in bytes; it takes ten times as much memory."""


class _Disk:
    """A binary file for HDF5 whose writes never fail: the first error is stored, later writes are dropped."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115 (closed by `streamed_hdf5`)
        self.error: OSError | None = None
        self.seek, self.tell, self.read, self.readinto, self.close = (
            getattr(self._file, name) for name in ("seek", "tell", "read", "readinto", "close")
        )

    def write(self, data: Any) -> None:
        left = memoryview(data)
        while left and self.error is None:
            try:
                left = left[self._file.write(left) :]
            except OSError as error:
                self.error = error

    def truncate(self, size: int) -> None:
        try:
            self._file.truncate(size)
        except OSError as error:
            self.error = self.error or error

    def flush(self) -> None:
        """Nothing is buffered."""

    def check(self) -> None:
        """Raises the first write error, and KeyboardInterrupt after an interrupt."""
        interrupts.check()
        if self.error is not None:
            raise self.error


@contextmanager
def streamed_hdf5(path: Path) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Creates an HDF5 file; yields it and a check, to be called regularly, that raises OSError if a write has failed
    and KeyboardInterrupt after an interrupt during a write. The check also runs at the end. Memory holds a few chunks
    of the file."""
    h5py = import_h5py()
    disk = _Disk(path)
    try:
        try:
            with h5py.File(disk, "w") as file:
                _bound_cache(file)
                yield file, disk.check
        finally:
            disk.check()  # instead of an HDF5 error that follows from it
    finally:
        disk.close()


def _bound_cache(file: Any) -> None:
    """Fixes the metadata cache's size: by default it grows with the file, to 32 MB."""
    config = file.id.get_mdc_config()
    config.set_initial_size = True
    config.initial_size = config.min_size = config.max_size = METADATA
    config.incr_mode = config.flash_incr_mode = config.decr_mode = 0
    file.id.set_mdc_config(config)
