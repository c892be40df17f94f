"""Interface: which device, its memory, profilers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SMALL = 1 << 22
"""Maximum bytes of an array that doubles where memory is scarce; larger ones grow by an eighth."""


@dataclass(frozen=True)
class MemoryPolicy:
    """Whether to save a device's memory or its time.

    scarce  one large structure at a time: idle trees are freed and rebuilt, derived values recomputed, and arrays
            grow in small steps. Otherwise arrays double, as untouched pages take no memory.
    """

    scarce: bool

    def spare(self, entries: int, nbytes: int) -> int:
        """Entries to add to a full array of `entries` and `nbytes`."""
        return entries // 8 if self.scarce and nbytes >= SMALL else entries


class Device(ABC):
    """A device: its array module `xp` (NumPy or CuPy), its name as in `--device`, and its memory.

    Optional: active, table_steps, annotate, profiled.
    """

    xp: Any
    name: str
    memory = MemoryPolicy(scarce=False)
    warps = False
    """Whether the device runs WARP kernels; spatial/ then uses other trees and queries, with the same bits."""
    grids = False
    """Whether it also runs GRID kernels, which traverse octree levels."""

    @abstractmethod
    def memory_used(self) -> int:
        """Bytes used by this process on the device."""

    @abstractmethod
    def memory_free(self) -> int:
        """Bytes this process can still allocate."""

    @abstractmethod
    def release_cached(self) -> None:
        """Returns unused cached memory to the driver, if large; waits for the device."""

    @abstractmethod
    def overflow(self, most: int, folder: Path) -> AbstractContextManager[None]:
        """Within it, arrays allocated on this thread lie elsewhere when they do not fit on the device within `most`
        bytes in use. folder: for scratch files. Raises OSError where that is impossible."""

    @abstractmethod
    def overflow_free(self, folder: Path) -> int:
        """Bytes free for `overflow`."""

    def active(self) -> AbstractContextManager[Any]:
        """Makes this the thread's current device."""
        return nullcontext()

    def table_steps(self, rows: int, columns: int) -> tuple[int, int]:
        """Row and column strides, in entries, of a table read by one thread per row."""
        return columns, 1

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """A named profiler range."""
        return nullcontext()

    def profiled(self) -> AbstractContextManager[Any]:
        """The region recorded by profilers under `--profile-from-start off`."""
        return nullcontext()
