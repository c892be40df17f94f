"""DeviceField: a field's arrays on a device, created on first use, and its evaluation at points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, Group, any_backend
from sdfcli.backend.rebuildable import Rebuildable
from sdfcli.errors import InputError
from sdfcli.field.leaf_tree import leaf_nodes
from sdfcli.field.stored import StoredLeaves
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import corner_keys, leaf_corners

CHUNK = 1 << 24
"""Points per launch: with their results, 0.5 GB on a device."""

ANSWERS: dict[str, tuple[tuple[int, ...], type]] = {
    "result": ((), np.float64),
    "gradient": ((3,), np.float64),
    "leaf_of": ((), np.uint32),
    "level_of": ((), np.uint8),
}
"""Kernel results: shape and dtype per point."""

HostArrays = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.float32]]
"""A field's leaf_key, leaf_level, corner_key and distance."""
LeafArrays = dict[str, Array]
"""leaf_key (n,), leaf_level (n,), leaf_corner (n, 8) and value (m,) on a device; see Field."""


class DeviceField:
    """A field on one device.

    arrays     LeafArrays. Raises InputError if a leaf's corner is missing.
    sampler    evaluation arrays: a tree over the leaves, the leaves' levels and contiguous corner values (32 bytes per
               leaf).
    stored     the leaves, if they are in a file: the tree then has the cells above level 6, too.
    """

    def __init__(
        self,
        backend: Backend,
        host: Callable[[], HostArrays],
        arrays: LeafArrays | None = None,
        stored: StoredLeaves | None = None,
    ) -> None:
        """host: waits for a field's arrays on the host. arrays: the device's, if it has them already. stored: the
        leaves, in a file."""
        # No references to self in the functions: a cycle would free device memory late.
        self.stored, self._host = stored, host
        self.sampler: Rebuildable[dict[str, Any]]
        if stored:
            self.sampler = sampler = Rebuildable(partial(stored.sampler, backend))
            self.arrays = Rebuildable(lambda: _numbered(backend, stored, sampler, host), arrays)
        else:
            self.arrays = made = Rebuildable(lambda: _upload(backend, *host()), arrays)
            self.sampler = Rebuildable(lambda: _make_sampler(backend, made.get()))

    def corner_keys(self, backend: Backend) -> Array:
        """The corners' sorted Morton codes (m,) uint64 on the device."""
        if self.stored and _numbers(backend, self.stored):
            arrays = self.arrays.get()
            return corner_keys(backend, arrays["leaf_key"], arrays["leaf_level"])
        return backend.from_host(self._host()[2])

    def keep_sampler(self) -> None:
        """Creates the sampler and frees its source arrays, which are as large."""
        self.sampler.get()
        self.arrays.release()

    def sampler_group(self, backend: Backend, domain: Domain) -> Group:
        """Kernel arguments of the field; see kernels/field/sampler.h."""
        return backend.group("Sampler", domain=domain.group(backend), **self.sampler.get())

    def evaluate(self, backend: Backend, domain: Domain, home: Any, points: Array, wanted: Sequence[str]) -> list[Any]:
        """The `wanted` ANSWERS at points (n, 3), with one leaf search per point. Points and results are arrays of
        `home`, NumPy or the backend's module. Raises InputError for non-finite points."""
        given = home.ascontiguousarray(points)
        answers = {name: home.empty((len(given), *ANSWERS[name][0]), ANSWERS[name][1]) for name in wanted}
        if self.stored and not self.stored.complete and backend.xp is np:
            sampler = self.stored.sampler_around(backend, given, domain)
        else:
            sampler = self.sampler.get()
        marks, field = backend.xp.zeros(1, np.uint32), backend.group("Sampler", domain=domain.group(backend), **sampler)
        for first in range(0, len(given), CHUNK):
            here = slice(first, first + CHUNK)
            part, found = backend.from_host(given[here]), {name: answer[here] for name, answer in answers.items()}
            if backend.xp is not home:
                found = {name: backend.xp.empty(each.shape, each.dtype) for name, each in found.items()}
            single = part.dtype == np.float32
            backend.run(
                "sdf_field_sample",
                len(part),
                points=None if single else part,
                single=part if single else None,
                field=field,
                marks=marks,
                **{name: found.get(name) for name in ANSWERS},
            )
            if backend.xp is not home:
                for name, answer in answers.items():
                    answer[here] = backend.to_host(found[name])
        if int(marks[0]):
            raise InputError("the points to sample must be finite")
        return list(answers.values())


@dataclass
class Devices:
    """A field's copies on devices.

    fields  by device name.
    home    device that evaluates NumPy points; None: the CPU.
    """

    fields: dict[str, DeviceField] = field(default_factory=dict)
    home: Backend | None = None


def _numbers(backend: Backend, stored: StoredLeaves) -> bool:
    """Whether a device numbers the corners of leaves in a file itself: a GPU with the memory for it."""
    return backend.name != any_backend().name and stored.fits(backend)


def _numbered(
    backend: Backend, stored: StoredLeaves, sampler: Rebuildable[dict[str, Any]], host: Callable[[], HostArrays]
) -> LeafArrays:
    if backend.name == any_backend().name:
        return stored.arrays(backend)
    if stored.fits(backend):
        return stored.arrays_on(backend, sampler.get())
    return _upload(backend, *host())


def _upload(
    backend: Backend,
    leaf_key: npt.NDArray[np.uint64],
    leaf_level: npt.NDArray[np.uint8],
    corner_key: npt.NDArray[np.uint64],
    distance: npt.NDArray[np.float32],
) -> LeafArrays:
    key, level = backend.from_host(leaf_key), backend.from_host(leaf_level)
    leaf_corner = leaf_corners(backend, key, level, backend.from_host(corner_key))
    if int(leaf_corner.max()) >= len(corner_key):
        raise InputError("a leaf's corner is missing from the list of corners")
    return {
        "leaf_key": key,
        "leaf_level": level,
        "leaf_corner": leaf_corner,
        "value": backend.from_host(distance, np.float32),
    }


def _make_sampler(backend: Backend, arrays: LeafArrays) -> dict[str, Any]:
    top, child = leaf_nodes(backend, arrays["leaf_key"], arrays["leaf_level"])
    corner = arrays["leaf_corner"]
    leaf_value = backend.empty_aligned(corner.shape, np.float32)
    backend.run("sdf_leaf_values", len(corner), corner=corner, value=arrays["value"], leaf_value=leaf_value)
    tree = backend.group("LeafTree", top=top, child=child)
    return {"leaf_level": arrays["leaf_level"], "leaf_value": leaf_value, "tree": tree}
