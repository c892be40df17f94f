"""Memory of the CPU, and scratch files."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from sdfcli.backend.cpu.library import library
from sdfcli.backend.cpu.scratch import arrays_in_files
from sdfcli.backend.interfaces.device import Device
from sdfcli.runtime.memory import free_memory, release_freed, used_memory

RESERVE = 96 << 20
"""Bytes that kernels may touch before pages of scratch files are dropped."""


class CpuDevice(Device):
    """All CPUs of the machine."""

    xp = np
    name = "cpu"

    def memory_used(self) -> int:
        return used_memory()

    def memory_free(self) -> int:
        return free_memory()

    def release_cached(self) -> None:
        release_freed()

    def overflow(self, most: int, folder: Path) -> AbstractContextManager[None]:
        return arrays_in_files(library(), folder, max(0, most - RESERVE))

    def overflow_free(self, folder: Path) -> int:
        return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free
