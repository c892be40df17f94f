"""DeviceArrays: a field's arrays for user kernels, and the code that reads them."""

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
    """C++ source that evaluates a field at a point, to be placed before your own kernel.

    Declares `struct Sampler`, filled by `DeviceArrays.sampler`, and

        double sdf_sample(const Sampler& field, D3 point, double* gradient)

    which returns the signed distance at a finite point, in mesh units, as `Field.sample` does, and stores the
    gradient's three components unless `gradient` is null. Compiles with NVRTC and, for the CPU, g++, both with
    -std=c++17. Includes no files, except C library headers for a C++ compiler. docs/guides/kernels.md has examples.
    """
    return joined(with_includes(SAMPLER))


@dataclass(frozen=True, eq=False)
class DeviceArrays:
    """A field's evaluation arrays on one device: the arrays that `Field.sample` uses, without copies.

    Read-only NumPy arrays on the CPU, CuPy arrays that must not be written to on a GPU; all contiguous.
    docs/guides/kernels.md explains how to find a point's leaf.

    Attributes:
        device: `cpu` or `cuda:N`.
        origin: (3,) float64, NumPy on every device: the domain's lowest corner, in mesh units.
        length: domain edge, in mesh units.
        leaf_level: (n,) uint8: a leaf's edge is 2^-level domain edges.
        leaf_value: (n, 8) float32: signed distances at the leaves' corners, x fastest, in mesh units.
        top: (2^18,) uint32: tree entries for the cells on level 6, x fastest.
        child: (k, 8) uint32: tree entries for the children, x fastest, of the divided cells on level 6 and finer; for
            a field from a file, of all divided cells.
        sampler: 64 bytes: the struct `Sampler` from `sampler_source`, to be passed to a kernel by value. Holds array
            addresses: valid in this process, during this object's lifetime.
    """

    device: str
    origin: npt.NDArray[np.float64]
    length: float
    leaf_level: npt.NDArray[np.uint8]
    leaf_value: npt.NDArray[np.float32]
    top: npt.NDArray[np.uint32]
    child: npt.NDArray[np.uint32]
    sampler: np.void

    @staticmethod
    def of(field: DeviceField, backend: Backend, domain: Domain) -> DeviceArrays:
        """A field's arrays on a device, once complete."""
        made = field.sampler.get()
        tree = made["tree"].values
        given = {"leaf_level": made["leaf_level"], "leaf_value": made["leaf_value"], "top": tree["top"]}
        given = {name: _guarded(array) for name, array in given.items()}
        below, divided = (
            int(np.sum(each)) for each in (given["leaf_level"] > TOP_LEVEL, given["top"] < np.uint32(C.LEAF))
        )
        nodes = (below - divided) // 7  # each adds seven leaves to the single cell on level 6
        child, origin = _guarded(tree["child"]).reshape(-1, 8), _guarded(domain.origin)
        if not field.stored:
            child = child[:nodes]
        sampler = np.void(field.sampler_group(backend, domain).data)
        backend.synchronize()  # readers may use any stream
        return DeviceArrays(backend.name, origin, domain.length, child=child, sampler=sampler, **given)

    def __repr__(self) -> str:
        return f"<DeviceArrays: {len(self.leaf_level):,} leaves on {self.device}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("device arrays belong to one process: copy or pickle the field, and ask that for its arrays")


def _guarded(array: Array) -> Any:
    """A read-only view of an array; CuPy arrays as they are, as CuPy has no read-only arrays."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
