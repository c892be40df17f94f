"""Interface: copies between the host and the device, and between devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend.arguments import Array
from sdfcli.backend.interfaces.device import Device


class Transfers(Device):
    """Copies.

    Optional: from_host, to_host_now, to_host_async, copy_async, pinned, mapped, upload, download, fetch.
    """

    @abstractmethod
    def to_host(self, array: Array, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """The array as a NumPy array. out: a contiguous array of its shape and dtype, which receives it."""

    def from_host(self, array: npt.ArrayLike, dtype: Any = None) -> Array:
        """A contiguous array on the device."""
        return self.xp.ascontiguousarray(self.xp.asarray(array, dtype=dtype))

    def to_host_now(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """The arrays as NumPy arrays, and a function that does nothing: `to_host_async`, synchronous."""
        return [self.to_host(array) for array in arrays], lambda: None

    def to_host_async(self, arrays: list[Array]) -> tuple[list[npt.NDArray[Any]], Callable[[], None]]:
        """Starts an asynchronous copy of arrays to the host; they must stay unchanged until its end. Returns the
        copies, and a function that waits for them and raises the copy's errors."""
        return self.to_host_now(arrays)

    def copy_async(self, array: Array) -> Callable[[], npt.NDArray[Any]]:
        """Starts copying a small array, or a column of one, to the host. The returned function waits for this copy only
        and returns it."""
        host = self.to_host(array).copy()
        return lambda: host

    def pinned(self, n: int, dtype: Any) -> npt.NDArray[Any]:
        """Page-locked host memory (n,), for asynchronous copies at full speed."""
        return np.empty(n, dtype)

    def mapped(self, host: npt.NDArray[Any]) -> Array:
        """Page-locked host memory as a device array: the host reads kernels' results there after waiting for them."""
        return host

    def upload(self, host: npt.NDArray[Any], array: Array) -> None:
        """Copies to a device array of the same dtype and length, in the current stream."""
        array[...] = host

    def download(self, array: Array, host: npt.NDArray[Any]) -> None:
        """Copies from the device, in the current stream."""
        host[...] = array

    def fetch(self, array: Array, other: Transfers) -> Array:
        """A contiguous copy on this device of another device's array, in order with the current streams of both."""
        return self.from_host(other.to_host(array))
