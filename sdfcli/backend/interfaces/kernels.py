"""Interface: launches of kernels."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sdfcli.backend.arguments import Array, Group, argument_group
from sdfcli.backend.interfaces.device import Device

ALL_THREADS = 1 << 30
"""Thread count that makes a GRID kernel use the whole device: more than any device runs concurrently."""


class Kernels(Device):
    """Runs the kernels of sdfcli/kernels.

    Optional: ready, group, prepare, blocks_of, recorded.
    """

    @abstractmethod
    def run(self, kernel: str, n: int, **values: Any) -> None:
        """Runs a kernel for indices 0 .. n - 1. values: its other arguments by name: numbers, arrays by reference, and
        groups. Raises as `ArgumentStruct.pack`."""

    @abstractmethod
    def run_packed(self, kernel: str, arguments: bytes) -> None:
        """Runs a kernel whose arguments another kernel has packed; see base/steps.h. The arrays stay alive."""

    @staticmethod
    @abstractmethod
    def address(array: Array) -> int | None:
        """The array's address on the device; None if not contiguous."""

    def ready(self, kernel: str, n: int, **values: Any) -> Callable[[], None]:
        """A function that repeats this `run`; arrays must not move."""
        return functools.partial(self.run, kernel, n, **values)

    def group(self, name: str, **values: Any) -> Group:
        """Packs arguments shared by several kernels once. name: a struct of the kernel headers."""
        return argument_group(name).group(values, self.address)

    def prepare(self, kernels: Iterable[str]) -> None:
        """Announces kernels that will run soon: threads compile missing ones, in this order, or load them."""

    def blocks_of(self, threads: int) -> AbstractContextManager[Any]:
        """Within it, kernels run in blocks of this many threads, except WARP and GRID kernels; no effect on a CPU."""
        return nullcontext()

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work` for repetition, as one launch where the device has graphs. It has run before, does not wait, and reads
        and writes the same arrays each time, which outlive the result."""
        return work
