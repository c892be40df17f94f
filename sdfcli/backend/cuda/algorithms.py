"""Sorting and prefix sums: kernels for small arrays, Thrust and CUB for large ones."""

from __future__ import annotations

import numpy as np

from sdfcli.backend.arguments import Array
from sdfcli.backend.cuda.device import CudaDevice
from sdfcli.backend.warps import LEAST_MANY, WarpBackend
from sdfcli.startup import PLAIN


class CudaAlgorithms(CudaDevice, WarpBackend):
    """Algorithms by warps, and by libraries, whose kernels take 40 ms to load."""

    def sort(self, keys: Array) -> Array:
        if self._by_grid(keys):
            return self.grid_sort(keys)
        # Thrust directly, in place: cupy.argsort sorts a copy.
        order = self.xp.empty(len(keys), np.int64)
        if len(keys):
            self.xp.cuda.thrust.argsort(keys.dtype, order.data.ptr, keys.data.ptr, 0, keys.shape)
        return order

    def sort_alone(self, keys: Array) -> None:
        if self._by_grid(keys):
            self.grid_sort(keys, ordered=False)
        else:
            keys.sort()

    def inclusive_scan(self, values: Array) -> None:
        if self._by_grid(values):
            self.grid_scan(values)
            return
        # CUB directly, in place: cupy.cumsum takes three to five times as long.
        cub = self.xp.cuda.cub
        cub.device_scan(values, cub.CUPY_CUB_CUMSUM)

    def _by_grid(self, array: Array) -> bool:
        """Whether a grid sorts or scans the array. Not where processes share the GPU by MPS: two grids of this process
        may not fit next to the others'."""
        return not PLAIN and self.clients == 1 and array.size < LEAST_MANY and self.address(array) is not None
