"""Arrays filled and copied by the driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdfcli.backend.arguments import Array
from sdfcli.backend.cuda.device import CudaDevice
from sdfcli.backend.interfaces.arrays import Arrays


class CudaArrays(CudaDevice, Arrays):
    """Arrays in CuPy's memory pool."""

    def grown(self, array: Array, entries: int, kept: int) -> Array:
        # The driver's copy: a fifth of the time of CuPy's assignment.
        new = self.xp.empty((entries, *array.shape[1:]), array.dtype)
        size = kept * (array.nbytes // max(1, len(array)))
        if size:
            self.copy_bytes(new.data.ptr, array.data.ptr, size, self.xp.cuda.runtime.memcpyDefault)
        return new

    def fill(self, array: Array, value: Any) -> None:
        pattern = set(np.array(value, array.dtype).tobytes())
        if len(pattern) == 1:
            array.data.memset_async(pattern.pop(), array.nbytes)
        else:
            array.fill(value)
