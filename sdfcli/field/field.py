"""Field: an octree's leaves, corners and distances, and their evaluation at points."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, any_backend, select_backend
from sdfcli.errors import InputError
from sdfcli.field.device_arrays import DeviceArrays
from sdfcli.field.device_field import DeviceField, Devices, HostArrays, LeafArrays
from sdfcli.mesh.arrays import unmasked
from sdfcli.mesh.mesh import Domain
from sdfcli.runtime.schedule import Deferred
from sdfcli.spatial.morton import LATTICE_BITS

ARRAYS = ("leaf_key", "leaf_level", "corner_key", "distance", "nearest", "leaf_cause")
"""A Field's read-only arrays."""


@dataclass(frozen=True)
class Field:
    """An adaptively sampled distance field: an octree with distances at its leaves' corners (Frisken et al. 2000).

    Within a leaf the field is trilinear. The arrays are read-only, as derived data is cached;
    `dataclasses.replace(field, distance=...)` creates another field.

    Attributes:
        domain: the octree root's cube: `origin` (3,) and `length`, in mesh units.
        leaf_key: (n,) uint64, sorted: Morton codes (x in the lowest bit) of the leaves' lower corners on the lattice.
        leaf_level: (n,) uint8: a leaf's edge is 2^-level domain edges.
        corner_key: (m,) uint64, sorted: the corners' Morton codes.
        distance: (m,) float32: signed distances at the corners in mesh units, negative inside.
        info: file metadata: parameters, mesh, sign, error at random points; keys in docs/reference/file.md.
        run: build statistics: device, seconds by stage, exact queries, bytes; not part of the file.
        nearest: (m,) uint32: indices of the faces nearest to the corners; None if not stored.
        step: quantisation step of the distances, in mesh units (see octree/quantise.py); None: not quantised.
        parts: a power of two: residuals are multiples of `parts` steps, except around sheets.
        leaf_cause: (n,) uint8: causes of the parents' splits (see octree/causes.py); None if not stored.
        steps: (m,) int32: quantised residuals by level, if the build stored them; None for copies.

    A build may return before arrays are downloaded and the mesh is hashed: such attributes are Deferred (see
    runtime/schedule.py), and reading one waits for its value.
    """

    domain: Domain
    leaf_key: npt.NDArray[np.uint64]
    leaf_level: npt.NDArray[np.uint8]
    corner_key: npt.NDArray[np.uint64]
    distance: npt.NDArray[np.float32]
    info: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    nearest: npt.NDArray[np.uint32] | None = field(default_factory=NoneType)  # none of the class, see __getattr__
    step: float | None = None
    parts: int = 1
    leaf_cause: npt.NDArray[np.uint8] | None = field(default_factory=NoneType)
    steps: npt.NDArray[np.int32] | None = field(default_factory=NoneType, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.defer(**{name: value for name, value in self.__dict__.items() if isinstance(value, Deferred)})
        for name in ARRAYS:
            if name in self.__dict__:
                object.__setattr__(self, name, _read_only(self.__dict__[name]))

    def defer(self, **values: Deferred[Any]) -> None:
        """Sets attributes to values that may not exist yet."""
        for name, value in values.items():
            late = Deferred(partial(_read_only_later, value)) if name in ARRAYS else value
            self.__dict__.setdefault("_deferred", {})[name] = late
            del self.__dict__[name]

    def deferred(self, name: str) -> Deferred[Any]:
        """An attribute, which may not exist yet; does not refer to the field."""
        late: Deferred[Any] | None = self.__dict__.get("_deferred", {}).get(name)
        return late or Deferred.known(getattr(self, name))

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> Any:
            late = self.__dict__.get("_deferred", {}).get(name)
            if late is None:
                raise AttributeError(f"a Field has no attribute {name!r}")
            value = self.__dict__[name] = late.get()
            return value

    @cached_property
    def content_sha256(self) -> str:
        """Hexadecimal SHA-256 of domain, leaves, corners and distances; equal fields have equal hashes."""
        digest = hashlib.sha256(np.array([*self.domain.origin, self.domain.length], "<f8").tobytes())
        for array, dtype in (
            (self.leaf_key, "<u8"),
            (self.leaf_level, "u1"),
            (self.corner_key, "<u8"),
            (self.distance, "<f4"),
        ):
            digest.update(np.ascontiguousarray(array, dtype).data)
        return digest.hexdigest()

    @property
    def unit(self) -> float:
        """Unit length of the tolerances and errors in `info`, in mesh units. Raises KeyError, TypeError or ValueError
        if `info` lacks it."""
        return float(self.info["parameters"].get("unit") or self.info["mesh"]["diagonal"])

    @cached_property
    def _devices(self) -> Devices:
        return Devices()

    def on_device(self, backend: Backend) -> DeviceField:
        """The field on a device."""
        if backend.name not in self._devices.fields:
            self.keep_on(backend, None)
        return self._devices.fields[backend.name]

    def on(self, backend: Backend) -> LeafArrays:
        """leaf_key, leaf_level, leaf_corner (n, 8) and value (m,) on a device. Raises InputError if a corner is
        missing."""
        return self.on_device(backend).arrays.get()

    def keep_on(self, backend: Backend, arrays: LeafArrays | None) -> None:
        """Registers a device, with the field's arrays if it has them already; None: no arrays."""
        key, level, corner, distance = map(self.deferred, ("leaf_key", "leaf_level", "corner_key", "distance"))

        def on_host() -> HostArrays:
            return key.get(), level.get(), corner.get(), distance.get()

        self._devices.fields[backend.name] = DeviceField(backend, on_host, arrays)

    @contextmanager
    def at(self, backend: Backend) -> Iterator[None]:
        """Evaluates NumPy points on a device instead of the CPU."""
        self._devices.home = backend
        if backend.memory.scarce:
            backend.release_cached()
            self.keep_sampler(backend)
        try:
            yield
        finally:
            self._devices.home = None

    @property
    def home(self) -> Backend:
        """Device that evaluates NumPy points: the CPU, or the one given to `at`."""
        return self._devices.home or any_backend()

    def __reduce__(self) -> Any:  # copies have no arrays on devices
        return Field, tuple(getattr(self, each.name) for each in fields(self) if each.init)

    def keep_steps(self, steps: npt.NDArray[np.int32]) -> None:
        """Stores the quantised residuals; see `quantise`."""
        object.__setattr__(self, "steps", steps)

    def check_corners(self) -> None:
        """Raises InputError if a leaf's corner is missing."""
        self.on(self.home)

    def keep_sampler(self, backend: Backend) -> None:
        """Creates the sampler on a device and frees its source arrays, which are as large."""
        self.on_device(backend).keep_sampler()

    def _evaluate(self, points: Any, *wanted: str) -> list[Any]:
        """The wanted ANSWERS (see device_field.py) at points (n, 3), on the points' device."""
        on_device = is_cupy(points)
        backend = select_backend(f"cuda:{points.device.id}") if on_device else self.home
        home = backend.xp if on_device else np
        return self.on_device(backend).evaluate(backend, self.domain, home, as_points(home, points), wanted)

    def sample(self, points: Any) -> Any:
        """Signed distances (n,) float64 at points (n, 3), in mesh units, negative inside.

        Outside the domain: the value at the domain's nearest point plus the distance to it, an upper bound. Returns a
        CuPy array for CuPy points, else a NumPy array. Raises InputError unless the points are (n, 3) finite numbers.
        """
        return self._evaluate(points, "result")[0]

    def gradient(self, points: Any) -> Any:
        """The trilinear field's gradients (n, 3) float64 at points (n, 3); see `sample`."""
        return self._evaluate(points, "gradient")[0]

    def sample_with_gradient(self, points: Any) -> tuple[Any, Any]:
        """Signed distances (n,) and gradients (n, 3), float64, at points (n, 3); see `sample`. Searches each point's
        leaf once."""
        distance, gradient = self._evaluate(points, "result", "gradient")
        return distance, gradient

    def leaf_at(self, points: Any) -> Any:
        """Indices (n,) uint32 of the leaves containing points (n, 3); see `sample`."""
        return self._evaluate(points, "leaf_of")[0]

    def cell_at(self, points: Any) -> tuple[Any, Any]:
        """Lower corners (n, 3) and edges (n,), float64 in mesh units, of the leaves containing points (n, 3). NumPy
        only."""
        cells = 2.0 ** self._evaluate(points, "level_of")[0].astype(np.float64)
        unit = np.clip(self.domain.to_unit(np.asarray(points, np.float64)), 0.0, 1.0)
        low = np.minimum(np.floor(unit * cells[:, None]), cells[:, None] - 1) / cells[:, None]
        return self.domain.origin + low * self.domain.length, self.domain.length / cells

    def device_arrays(self, device: str = "auto") -> DeviceArrays:
        """The field's arrays on a device, for your own kernels; `sdfcli.sampler_source` returns the code that reads
        them. Created once per device and cached in the field.

        device: `auto` (the first GPU if any, else the CPU), `cpu`, `cuda` or `cuda:N`.

        Raises UsageError for another word, DeviceError if the device or its software is missing, InputError for a
        missing corner.
        """
        backend = select_backend(device)
        return DeviceArrays.of(self.on_device(backend), backend, self.domain)

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Writes the field to an HDF5 file, whole or not at all, and returns its path. Raises UsageError if the file
        cannot be written, or exists without `force`."""
        from sdfcli.field.store import save

        return save(self, Path(path), force)


def _read_only(array: Any) -> Any:
    """A read-only view of an array; None for None."""
    if array is not None:
        array = array.view()
        array.flags.writeable = False
    return array


def _read_only_later(array: Deferred[Any]) -> Any:
    return _read_only(array.get())


THIRDS = (
    (0, 0x1249249249249249),
    (2, 0x10C30C30C30C30C3),
    (4, 0x100F00F00F00F00F),
    (8, 0x001F0000FF0000FF),
    (16, 0x001F00000000FFFF),
    (32, 0x00000000001FFFFF),
)
"""Shifts and masks for gathering every third bit of a 63-bit code."""


def lattice_position(keys: Any) -> npt.NDArray[np.float64]:
    """Unit cube positions (n, 3) of lattice Morton keys (n,)."""
    bits = np.asarray(keys, np.uint64)[:, None] >> np.arange(3, dtype=np.uint64)
    for shift, mask in THIRDS:
        bits = (bits | bits >> np.uint64(shift)) & np.uint64(mask)
    return bits.astype(np.float64) / 2.0**LATTICE_BITS


def as_points(xp: Any, points: Any) -> Any:
    """Converts points to an array (n, 3), float32 for float32 points, else float64. Raises InputError for another
    shape."""
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
    """Whether points are a CuPy array, without importing CuPy."""
    return type(points).__module__.partition(".")[0] == "cupy"
