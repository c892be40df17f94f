"""The finished field: leaves, corners, distances; and its value anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.errors import DeviceError, InputError
from sdfcli.field.leaf_tree import leaf_nodes
from sdfcli.mesh.arrays import unmasked
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import leaf_corners
from sdfcli.spatial.morton import LATTICE_BITS

CHUNK = 1 << 24
"""Points sampled at a time: on a device they and their answers take half a gigabyte."""

PIECE = 1 << 16
"""Leaves whose values are gathered at a time, for which there is a copy of them for a while."""


@dataclass(frozen=True)
class Field:
    """An adaptively sampled distance field: an octree with distances at its leaves' corners (Frisken et al. 2000).

    domain      the cube that the octree divides.
    leaf_key    (n,) uint64, sorted: Morton code (x lowest) of a leaf's lower corner on the lattice.
    leaf_level  (n,) uint8: a leaf's edge is 2^-level of the domain's.
    corner_key  (m,) uint64, sorted: Morton codes of the corners.
    distance    (m,) float32: signed distances at the corners in the mesh's units, negative inside.
    run         how this object was built: device, seconds a stage, exact queries, bytes; not part of the file.
    info        metadata of the file: parameters, mesh, sign, measured error (docs/reference/file.md has the keys).
    nearest     (m,) uint32: the faces nearest to the corners, by their place in the mesh; None where not kept.
    step        distances can be stored as whole numbers of such steps, in the mesh's units (see octree/corners.py).
    parts       most of these numbers are multiples of this, a power of two; around sheets they need not be.

    Between the corners of a leaf the field is trilinear. The arrays are read-only, since what is computed of them is
    kept; `dataclasses.replace(field, distance=...)` is another field.
    """

    domain: Domain
    leaf_key: npt.NDArray[np.uint64]
    leaf_level: npt.NDArray[np.uint8]
    corner_key: npt.NDArray[np.uint64]
    distance: npt.NDArray[np.float32]
    info: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    nearest: npt.NDArray[np.uint32] | None = None
    step: float | None = None
    parts: int = 1

    def __post_init__(self) -> None:
        for name in ("leaf_key", "leaf_level", "corner_key", "distance", "nearest"):
            if (array := getattr(self, name)) is not None:
                own = array.view()
                own.flags.writeable = False
                object.__setattr__(self, name, own)

    @cached_property
    def content_sha256(self) -> str:
        """Of the field's data: domain, leaves, corners, distances; not of the file around them."""
        digest = hashlib.sha256(np.array([*self.domain.origin, self.domain.length], "<f8").tobytes())
        for array, dtype in (
            (self.leaf_key, "<u8"),
            (self.leaf_level, "u1"),
            (self.corner_key, "<u8"),
            (self.distance, "<f4"),
        ):
            digest.update(np.ascontiguousarray(array, dtype).data)
        return digest.hexdigest()

    @cached_property
    def _cache(self) -> dict[str, dict[str, Array]]:
        return {}

    @cached_property
    def _samplers(self) -> dict[str, dict[str, Array]]:
        return {}

    def on(self, backend: Backend) -> dict[str, Array]:
        """leaf_key, leaf_level, leaf_corner (n, 8), value (m,) on a device. InputError where a corner is missing."""
        if backend.name not in self._cache:
            key, level = backend.from_host(self.leaf_key), backend.from_host(self.leaf_level)
            leaf_corner = leaf_corners(backend, key, level, backend.from_host(self.corner_key))
            if int(leaf_corner.max()) >= len(self.corner_key):
                raise InputError("a leaf's corner is missing from the list of corners")
            value = backend.from_host(self.distance)
            self.keep_on(backend, leaf_key=key, leaf_level=level, leaf_corner=leaf_corner, value=value)
        return self._cache[backend.name]

    def keep_on(
        self, backend: Backend, *, leaf_key: Array, leaf_level: Array, leaf_corner: Array, value: Array, **_: Array
    ) -> None:
        """Tells the field that its arrays are on a device already."""
        self._cache[backend.name] = {
            "leaf_key": leaf_key,
            "leaf_level": leaf_level,
            "leaf_corner": leaf_corner,
            "value": value,
        }

    @contextmanager
    def at(self, backend: Backend) -> Iterator[None]:
        """Within it, points that are NumPy's are looked up on that device, not on the CPU."""
        self._kept["home"] = backend
        try:
            yield
        finally:
            del self._kept["home"]

    @property
    def home(self) -> Backend:
        """The device on which points that are NumPy's are looked up: the CPU, see also `at`."""
        return self._kept.get("home") or any_backend()

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    def __reduce__(self) -> Any:  # copies have no caches, which hold arrays of devices
        return Field, tuple(getattr(self, each.name) for each in fields(self))

    def keep_steps(self, steps: npt.NDArray[np.int32]) -> None:
        """Tells the field what `quantise` stores of its distances."""
        self._kept["steps"] = steps

    @property
    def steps(self) -> npt.NDArray[np.int32] | None:
        """What `quantise` stores of the distances, (m,) by level, where the build said so."""
        return self._kept.get("steps")

    def check_corners(self) -> None:
        """Raises InputError unless every leaf's eight corners are there."""
        self.on(self.home)

    def _sampler(self, backend: Backend) -> dict[str, Array]:
        """What sampling reads on a device, made when it is first asked for: a tree over the leaves, their levels, and
        the values of their corners side by side (32 bytes a leaf)."""
        if backend.name not in self._samplers:
            arrays = self.on(backend)
            top, child = leaf_nodes(backend, arrays["leaf_key"], arrays["leaf_level"])
            leaf_value = backend.lines(arrays["leaf_corner"].shape, np.float32)
            for first in range(0, len(leaf_value), PIECE):
                part = slice(first, first + PIECE)
                leaf_value[part] = arrays["value"][arrays["leaf_corner"][part]]
            self._samplers[backend.name] = {
                "leaf_level": arrays["leaf_level"],
                "leaf_value": leaf_value,
                "top": top,
                "child": child,
            }
        return self._samplers[backend.name]

    def keep_sampler(self, backend: Backend) -> None:
        """Makes what sampling reads on a device, and frees there what it is made of, which takes as much."""
        self._sampler(backend)
        self._cache.pop(backend.name, None)

    def _evaluate(self, points: Any, *wanted: str) -> list[Any]:
        """Those of `result`, `gradient` and `leaf_of` that are wanted, at points (n, 3): one walk down the tree a
        point. The answers are where the points are."""
        on_device = is_cupy(points)
        backend = select_backend(f"cuda:{points.device.id}") if on_device else self.home
        home = backend.xp if on_device else np
        given = home.ascontiguousarray(as_points(home, points))
        kinds = {"result": ((), np.float64), "gradient": ((3,), np.float64), "leaf_of": ((), np.uint32)}
        answers = {name: home.empty((len(given), *kinds[name][0]), kinds[name][1]) for name in wanted}
        marks = backend.xp.zeros(1, np.uint32)
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
                origin_x=self.domain.origin[0],
                origin_y=self.domain.origin[1],
                origin_z=self.domain.origin[2],
                length=self.domain.length,
                marks=marks,
                **self._sampler(backend),
                **{name: found.get(name) for name in kinds},
            )
            if backend.xp is not home:
                for name, answer in answers.items():
                    answer[here] = backend.to_host(found[name])
        if int(marks[0]):
            raise InputError("the points to sample must be finite")
        return list(answers.values())

    def sample(self, points: Any) -> Any:
        """Signed distances (n,) float64 at points (n, 3), in the mesh's units. NumPy in, NumPy out; CuPy, CuPy.

        Outside of the domain: the value at the nearest point of the domain plus the distance to it, an upper bound.
        Raises InputError for points that are not (n, 3) or not finite.
        """
        return self._evaluate(points, "result")[0]

    def gradient(self, points: Any) -> Any:
        """Gradients (n, 3) float64 of the trilinear field at points (n, 3); see `sample`."""
        return self._evaluate(points, "gradient")[0]

    def sample_with_gradient(self, points: Any) -> tuple[Any, Any]:
        """Signed distances (n,) and gradients (n, 3), float64, at points (n, 3); see `sample`. Faster than both calls:
        the leaf of a point is looked up once."""
        distance, gradient = self._evaluate(points, "result", "gradient")
        return distance, gradient

    def leaf_at(self, points: Any) -> Any:
        """The numbers (n,) uint32 of the leaves in which points (n, 3) lie."""
        return self._evaluate(points, "leaf_of")[0]

    def cell_at(self, points: Any) -> tuple[Any, Any]:
        """Lower corners (n, 3) and edges (n,) of the leaves in which points (n, 3) lie, in the mesh's units. NumPy."""
        leaf = self.leaf_at(points)
        edge = self.domain.length * 0.5 ** self.leaf_level[leaf].astype(np.float64)
        return self.domain.origin + lattice_position(self.leaf_key[leaf]) * self.domain.length, edge

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Writes the field to an HDF5 file, whole or not at all. Raises UsageError if it exists, unless `force`."""
        from sdfcli.field.store import save

        return save(self, Path(path), force)


def lattice_position(keys: Any) -> npt.NDArray[np.float64]:
    """Positions (n, 3) in the unit cube of Morton keys (n,) on the lattice."""
    keys = np.asarray(keys, np.uint64)
    position = np.zeros((len(keys), 3))
    for bit in range(LATTICE_BITS + 1):
        for axis in range(3):
            position[:, axis] += ((keys >> np.uint64(3 * bit + axis)) & np.uint64(1)).astype(np.float64) * 2.0**bit
    return position / 2.0**LATTICE_BITS


def as_points(xp: Any, points: Any) -> Any:
    """Points as (n, 3), float32 if that is what they are, otherwise float64. Raises InputError for another shape."""
    unmasked(points, "points")
    try:
        single = getattr(points, "dtype", None) == np.float32
        array = xp.asarray(points, dtype=np.float32 if single else np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"points must be numbers, (n, 3): {error}") from error
    if array.ndim != 2 or array.shape[1] != 3:
        raise InputError(f"points must be (n, 3), not {tuple(array.shape)}")
    return array


def is_cupy(points: Any) -> bool:
    """Whether points are a CuPy array."""
    return type(points).__module__.partition(".")[0] == "cupy"


def any_backend() -> Backend:
    """The CPU, or a GPU where the CPU kernels are not compiled."""
    try:
        return select_backend("cpu")
    except DeviceError:
        return select_backend("cuda")
