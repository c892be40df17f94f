"""NVIDIA GPUs through CuPy, in the order of the interfaces."""

from __future__ import annotations

import functools
from typing import Any

from sdfcli.backend.cuda.algorithms import CudaAlgorithms
from sdfcli.backend.cuda.arrays import CudaArrays
from sdfcli.backend.cuda.kernels import CudaKernels
from sdfcli.backend.cuda.streams import CudaStreams
from sdfcli.backend.cuda.transfers import CudaTransfers


class CudaBackend(CudaArrays, CudaTransfers, CudaKernels, CudaAlgorithms, CudaStreams):
    """One GPU."""

    def __reduce__(self) -> tuple[Any, ...]:
        return cuda_backend, (self.device.id,)  # its modules and streams belong to this process


@functools.cache
def cuda_backend(device: int) -> CudaBackend:
    """A GPU's backend, cached: kernels are loaded once."""
    return CudaBackend(device)
