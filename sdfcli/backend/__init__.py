"""Kernel execution: one interface over the CPU and CUDA backends."""

from sdfcli.backend.arguments import Array, C, Group
from sdfcli.backend.base import ALL_THREADS, WARP, Backend
from sdfcli.backend.select import all_backends, any_backend, select_backend, select_backends

__all__ = [
    "ALL_THREADS",
    "WARP",
    "Array",
    "Backend",
    "C",
    "Group",
    "all_backends",
    "any_backend",
    "select_backend",
    "select_backends",
]
