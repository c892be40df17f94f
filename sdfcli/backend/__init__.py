"""Where kernels run: one interface, the CPU and the CUDA side behind it."""

from sdfcli.backend.base import WARP, Array, Backend
from sdfcli.backend.select import all_backends, select_backend, select_backends

__all__ = ["WARP", "Array", "Backend", "all_backends", "select_backend", "select_backends"]
