"""DeviceArrays: a field's arrays for kernels of one's own, and the code that reads them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C
from sdfcli.backend.headers import joined, with_includes
from sdfcli.field.device_field import DeviceField
from sdfcli.field.leaf_tree import TOP_LEVEL
from sdfcli.mesh.mesh import Domain

SAMPLER = "field/sampler.h"


@functools.cache
def sampler_source() -> str:
    """The code that evaluates a field at a point, as C++: the text to put before a kernel of your own.

    It declares `struct Sampler`, which `DeviceArrays.sampler` fills, and

        double sdf_sample(const Sampler& field, D3 point, double* gradient)

    which returns the signed distance at a finite point in the mesh's units, as `Field.sample` does, and stores three
    numbers of the gradient unless that is null. NVRTC compiles it with -std=c++17, and so does g++, for the CPU. It
    includes no file, but for a C++ compiler those of the C library. docs/guides/kernels.md has examples.
    """
    return joined(with_includes(SAMPLER))


@dataclass(frozen=True, eq=False)
class DeviceArrays:
    """The arrays on one device from which a field is evaluated: those of `Field.sample` themselves, no copies.

    On the CPU they are NumPy arrays, which are read-only, on a GPU CuPy arrays, which must not be written to. All are
    contiguous. docs/guides/kernels.md tells how a point's leaf is found in them.

    Attributes:
        device: `cpu` or `cuda:N`.
        origin: (3,) float64, NumPy on every device: the lowest corner of the domain, in the mesh's units.
        length: edge of the domain, in the mesh's units.
        leaf_level: (n,) uint8: a leaf's edge is 2^-level of the domain's.
        leaf_value: (n, 8) float32: signed distances at the leaves' corners, x fastest, in the mesh's units.
        top: (2^18,) uint32: entries of the tree for the cells of level 6, x fastest.
        child: (k, 8) uint32: entries of the tree for the children, x fastest, of the k cells of level 6 and finer that
            are divided.
        sampler: 64 bytes: the struct `Sampler` of `sampler_source`, for a kernel's argument by value. It holds
            addresses of the arrays: good for as long as this object lives, and in this process.
    """

    device: str
    origin: npt.NDArray[np.float64]
    length: float
    leaf_level: Array
    leaf_value: Array
    top: Array
    child: Array
    sampler: np.void

    @staticmethod
    def of(field: DeviceField, backend: Backend, domain: Domain) -> DeviceArrays:
        """The arrays of a field on a device, when they are there."""
        made = field.sampler.get()
        tree = made["tree"].values
        given = {"leaf_level": made["leaf_level"], "leaf_value": made["leaf_value"], "top": tree["top"]}
        given = {name: _guarded(array) for name, array in given.items()}
        below, divided = (
            int(np.sum(each)) for each in (given["leaf_level"] > TOP_LEVEL, given["top"] < np.uint32(C.LEAF))
        )
        nodes = (below - divided) // 7  # each adds seven leaves to the one cell of level 6
        child, origin = _guarded(tree["child"]).reshape(-1, 8)[:nodes], _guarded(domain.origin)
        sampler = np.void(field.sampler_group(backend, domain).data)
        backend.synchronize()  # whoever reads them may do so on any stream
        return DeviceArrays(backend.name, origin, domain.length, child=child, sampler=sampler, **given)

    def __reduce__(self) -> NoReturn:
        raise TypeError("device arrays belong to one process: copy or pickle the field, and ask that for its arrays")


def _guarded(array: Array) -> Any:
    """An array as it lies there, read-only where it can be: CuPy has no such arrays."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
