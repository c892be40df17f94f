"""Interface: sorting, compaction and prefix sums."""

from __future__ import annotations

from abc import abstractmethod

from sdfcli.backend.arguments import Array
from sdfcli.backend.interfaces.device import Device


class Algorithms(Device):
    """Parallel algorithms on the device.

    Optional: sort_alone.
    """

    @abstractmethod
    def sort(self, keys: Array) -> Array:
        """Sorts unsigned keys (n,) in place. Returns the stable permutation (n,) int64: sorted[i] = keys[result[i]]."""

    @abstractmethod
    def counting_sort(self, values: Array, kinds: int, first: int = 0) -> tuple[Array, Array]:
        """The stable sorting permutation (n,) uint32 of values (n,) uint8 < kinds <= 32, counted from `first`, and each
        value's range end (kinds,) uint32 in it."""

    @abstractmethod
    def compact(self, flags: Array, known: int | None = None) -> Array:
        """Sorted indices (k,) uint32 of the flags (n,) uint8, 0 or 1, that are 1. known: their count; without it the
        host waits for the device."""

    @abstractmethod
    def inclusive_scan(self, values: Array) -> None:
        """Inclusive prefix sums of unsigned values (n,), in place; large arrays use a library's scan."""

    def sort_alone(self, keys: Array) -> None:
        """Sorts unsigned keys (n,) in place."""
        keys.sort()
