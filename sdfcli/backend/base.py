"""Backend: a device that runs the kernels."""

from __future__ import annotations

from sdfcli.backend.arguments import C
from sdfcli.backend.interfaces.algorithms import Algorithms
from sdfcli.backend.interfaces.arrays import Arrays
from sdfcli.backend.interfaces.device import MemoryPolicy
from sdfcli.backend.interfaces.kernels import ALL_THREADS, Kernels
from sdfcli.backend.interfaces.streams import Stream, Streams
from sdfcli.backend.interfaces.transfers import Transfers

__all__ = ["ALL_THREADS", "WARP", "Backend", "MemoryPolicy", "Stream"]

WARP = C.WARP
"""Threads per warp."""


class Backend(Arrays, Transfers, Kernels, Algorithms, Streams):
    """A device, by its interfaces. All backends give the same bits."""
