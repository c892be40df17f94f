"""Interface: new arrays, and operations of array modules that need no compiler."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sdfcli.backend.arguments import Array
from sdfcli.backend.interfaces.kernels import Kernels


class Arrays(Kernels):
    """Arrays on the device. All methods are optional.

    The last six run kernels: CuPy would compile one per operation and type on a machine's first run, and load the
    compiler in each process.
    """

    def empty_aligned(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array aligned to a cache line: entries of 32 or 64 bytes lie in one line each."""
        return self.xp.empty(shape, dtype)

    def filled(self, shape: int | tuple[int, ...], value: Any, dtype: Any) -> Array:
        """A new array with all entries set to one value."""
        array = self.xp.empty(shape, dtype)
        self.fill(array, value)
        return array

    def fill(self, array: Array, value: Any) -> None:
        """Sets all entries of a contiguous array of any shape to one value of its dtype."""
        array[...] = value

    def copied(self, array: Array) -> Array:
        """A copy of a contiguous array (n, ...)."""
        return self.grown(array, len(array), len(array))

    def grown(self, array: Array, entries: int, kept: int) -> Array:
        """A new array of `entries` rows; the first `kept` are copied from a contiguous array."""
        new = self.xp.empty((entries, *array.shape[1:]), array.dtype)
        new[:kept] = array[:kept]
        return new

    def taken(self, array: Array, number: Array) -> Array:
        """Rows (n, ...) of a contiguous array at indices (n,) uint32. Raises TypeError unless the row size is a
        multiple of four bytes."""
        found = self.xp.empty((len(number), *array.shape[1:]), array.dtype)
        words, rest = divmod(math.prod(array.shape[1:]) * array.itemsize, 4)
        if rest:
            raise TypeError(f"rows of {4 * words + rest} bytes cannot be taken")
        source, taken = (each.reshape(-1).view(np.uint32) for each in (array, found))
        self.run("sdf_taken", len(number), words=words, source=source, number=number, taken=taken)
        return found

    def placed(self, number: Array, count: int) -> Array:
        """Inverse of a list (n,) uint32 of distinct numbers below `count`: each number's index, (count,) uint32,
        undefined for missing numbers."""
        place = self.xp.empty(count, np.uint32)
        self.run("sdf_placed", len(number), number=number, place=place)
        return place

    def spaced(self, count: int, every: int, number: Array | None = None) -> Array:
        """Every `every`-th of numbers (count,) uint32, from the first on; None: 0 .. count - 1."""
        spaced = self.xp.empty(-(-count // every), np.uint32)
        self.run("sdf_spaced", len(spaced), every=every, number=number, spaced=spaced)
        return spaced

    def scale(self, values: Array, factor: float) -> None:
        """Multiplies values (n,) float32 in place."""
        self.run("sdf_scaled", len(values), factor=factor, values=values)

    def negate(self, values: Array, chosen: Array) -> None:
        """Negates values (n,) float32 where `chosen` (n,) bool is set, in place."""
        self.run("sdf_negated", len(values), chosen=chosen.view(np.uint8), values=values)

    def above(self, values: Array, level: float) -> Array:
        """Mask (n,) bool of values (n,) float32 above a level."""
        above = self.xp.empty(len(values), np.uint8)
        self.run("sdf_above", len(values), level=level, values=values, above=above)
        return above.view(bool)
