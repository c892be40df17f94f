"""Field: an octree's leaves, corners and distances, and their evaluation at points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, any_backend, select_backend
from sdfcli.errors import InputError, SdfError
from sdfcli.field.device_arrays import DeviceArrays
from sdfcli.field.device_field import DeviceField, Devices, HostArrays, LeafArrays
from sdfcli.field.encoding import Encoded, content_sha256, encode_field
from sdfcli.field.stored import StoredLeaves
from sdfcli.mesh.arrays import unmasked
from sdfcli.mesh.mesh import Domain
from sdfcli.params import GRID_RESOLUTION, PAGE_LEAVES
from sdfcli.runtime.numbered import Numbered
from sdfcli.runtime.schedule import Deferred
from sdfcli.spatial.morton import LATTICE_BITS

if TYPE_CHECKING:
    from sdfcli.export.lattice import Grid
    from sdfcli.pictures.view.page import View

PREVIEW = 400
"""Pixels along the domain edge in a notebook's picture."""

ARRAYS = ("leaf_key", "leaf_level", "corner_key", "distance", "nearest", "leaf_cause", "leaf_bound")
"""A Field's read-only arrays."""


@dataclass(frozen=True)
class Field(Numbered):
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
        leaf_bound: (n,) uint8: codes of the proven error bounds (see field/proven.py); None if not proven. `bound`
            evaluates them.

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
    leaf_bound: npt.NDArray[np.uint8] | None = field(default_factory=NoneType)
    _encoding: Deferred[Encoded] | None = field(default=None, init=False, compare=False)  # if it is from an octree
    _stored: StoredLeaves | None = field(default=None, init=False, compare=False)
    _version: int | None = field(default=None, init=False, compare=False)  # of the file's format, if it is from a file

    def __post_init__(self) -> None:
        self._defer(**{name: value for name, value in self.__dict__.items() if isinstance(value, Deferred)})
        for name in ARRAYS:
            if name in self.__dict__:
                object.__setattr__(self, name, _read_only(self.__dict__[name]))

    def _defer(self, **values: Deferred[Any]) -> None:
        """Sets attributes to values that may not exist yet."""
        for name, value in values.items():
            late = Deferred(partial(_read_only_later, value)) if name in ARRAYS else value
            self.__dict__.setdefault("_deferred", {})[name] = late
            del self.__dict__[name]

    def _later(self, name: str) -> Deferred[Any]:
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
        """Hexadecimal SHA-256 of domain, leaves and distances; equal fields have equal hashes. For a field from a file
        of an earlier version, it is the file's, which was computed in another way."""
        return self._content_sha256

    @property
    def _content_sha256(self) -> str:
        """The same as in a file of today's version."""
        found = self._encoded
        return content_sha256(self.domain, found.attributes, found.blocks.table, found.sums)

    @cached_property
    def _encoded(self) -> Encoded:
        return self._encoding.get() if self._encoding else encode_field(self)

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self._stored.level.entries) if self._stored else len(self.leaf_level)

    @property
    def corners(self) -> int:
        """Number of leaf corners."""
        return self._stored.corners if self._stored else len(self.corner_key)

    def _turned(self) -> Field:
        """The field with opposite signs."""
        return replace(self, distance=-self.distance)

    @property
    def bounds(self) -> npt.NDArray[np.float64]:
        """The domain's lower and upper corner (2, 3) float64, in mesh units."""
        return np.array([self.domain.origin, self.domain.origin + self.domain.length])

    @property
    def max_error(self) -> float:
        """The largest error at the build's 30,000 random points, in mesh units: measured, not a bound. Outside the
        band, errors are divided by distance / band. Raises InputError if `info` lacks it."""
        with stated(self.info):
            return float(self.info["max_error"]) * self.unit

    @property
    def unit(self) -> float:
        """Unit length of the tolerances and errors in `info`, in mesh units. Raises InputError if `info` lacks it."""
        with stated(self.info):
            return float(self.info["parameters"].get("unit") or self.info["mesh"]["diagonal"])

    @property
    def units(self) -> str | None:
        """Unit of the field's coordinates and distances: `um`, `mm`, `cm`, `m`, `in`, `ft`, or a length in metres, as
        `0.5 m`: that of `units` in the build, or of the mesh's file. None if unknown: STL, PLY, OBJ and OFF files and
        arrays name none, and `scale` makes it unknown."""
        mesh, parameters = (self.info.get(name, {}) for name in ("mesh", "parameters"))
        found: str | None = mesh.get("units") or parameters.get("units")
        return found

    @cached_property
    def _devices(self) -> Devices:
        return Devices()

    def _on_device(self, backend: Backend) -> DeviceField:
        """The field on a device."""
        if backend.name not in self._devices.fields:
            self._keep_on(backend, None)
        return self._devices.fields[backend.name]

    def _arrays_on(self, backend: Backend) -> LeafArrays:
        """leaf_key, leaf_level, leaf_corner (n, 8) and value (m,) on a device. Raises InputError if a corner is
        missing."""
        return self._on_device(backend).arrays.get()

    def _corner_keys_on(self, backend: Backend) -> Array:
        """corner_key (m,) on a device."""
        return self._on_device(backend).corner_keys(backend)

    def _check(self) -> None:
        """Reads and checks all that the field's file has: for a large one, loading checks only what is used. Raises
        InputError if it is damaged."""
        if self._stored:
            self._stored.sampler(any_backend())
            for name in ("nearest", "leaf_cause", "leaf_bound"):
                getattr(self, name)

    def _opened_as(self, name: str) -> None:
        """Names the file in errors of later reads."""
        if self._stored:
            self._stored.name = name

    def _keep_on(self, backend: Backend, arrays: LeafArrays | None) -> None:
        """Registers a device, with the field's arrays if it has them already; None: no arrays."""
        key, level, corner, distance = map(self._later, ("leaf_key", "leaf_level", "corner_key", "distance"))

        def on_host() -> HostArrays:
            return key.get(), level.get(), corner.get(), distance.get()

        self._devices.fields[backend.name] = DeviceField(backend, on_host, arrays, self._stored)

    def _leaf_values(self, backend: Backend) -> tuple[Array | None, Array]:
        """The leaves' corners (n, 8) uint32 among values (m,) float32; or None, and their values (n, 8); on the host's
        device."""
        if self._stored:
            return None, self._stored.sampler(backend)["leaf_value"]
        arrays = self._arrays_on(backend)
        return arrays["leaf_corner"], arrays["value"]

    @contextmanager
    def _at(self, backend: Backend) -> Iterator[None]:
        """Evaluates NumPy points on a device instead of the CPU."""
        self._devices.home = backend
        if backend.memory.scarce:
            backend.release_cached()
            self._on_device(backend).keep_sampler()
        try:
            yield
        finally:
            self._devices.home = None

    @property
    def _home(self) -> Backend:
        """Device that evaluates NumPy points: the CPU, or the one given to `_at`."""
        return self._devices.home or any_backend()

    def __reduce__(self) -> Any:  # copies have no arrays on devices
        return Field, tuple(getattr(self, each.name) for each in fields(self) if each.init)

    def _evaluate(self, points: npt.ArrayLike, *wanted: str) -> list[Any]:
        """The wanted ANSWERS (see device_field.py) at points (..., 3), on the points' device."""
        device = gpu_of(points)
        backend = select_backend(device) if device else self._home
        home = backend.xp if device else np
        given = as_points(home, points)
        field = self._on_device(backend)
        answers = field.evaluate(backend, self.domain, home, given.reshape(-1, 3), wanted)
        return [each.reshape(given.shape[:-1] + each.shape[1:]) for each in answers]

    def sample(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Signed distances (...) float64 at points (..., 3), in mesh units, negative inside.

        Outside the domain: the value at the domain's nearest point plus the distance to it, an upper bound. Returns a
        CuPy array for CuPy points, else a NumPy array. Raises InputError unless the points are (..., 3) finite numbers.
        """
        distance: npt.NDArray[np.float64]
        (distance,) = self._evaluate(points, "result")
        return distance

    def gradient(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The trilinear field's gradients (..., 3) float64 at points (..., 3); see `sample`."""
        gradient: npt.NDArray[np.float64]
        (gradient,) = self._evaluate(points, "gradient")
        return gradient

    def sample_with_gradient(self, points: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Signed distances (...) and gradients (..., 3), float64, at points (..., 3); see `sample`. Searches each
        point's leaf once."""
        distance, gradient = self._evaluate(points, "result", "gradient")
        return distance, gradient

    def bound(self, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Proven bounds (...) float64 on the error of `sample` at points (..., 3), in mesh units: the exact signed
        distance lies within `sample(points)` plus or minus them. For fields built with `prove`.

        A bound grows with the distance outside the band, and outside the domain; it is infinite in leaves whose sign
        may jump at an open surface's hole. Raises InputError if the field stores no bounds; see also `sample`.
        """
        from sdfcli.field.proven import bound_at

        return bound_at(self, points)

    def leaf_at(self, points: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """Indices (...) uint32 of the leaves containing points (..., 3); see `sample`."""
        leaf: npt.NDArray[np.uint32]
        (leaf,) = self._evaluate(points, "leaf_of")
        return leaf

    def cell_at(self, points: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Lower corners (..., 3) and edges (...), float64 in mesh units, of the leaves containing points (..., 3).
        NumPy only."""
        cells = 2.0 ** self._evaluate(points, "level_of")[0].astype(np.float64)
        unit = np.clip(self.domain.to_unit(np.asarray(points, np.float64)), 0.0, 1.0)
        low = np.minimum(np.floor(unit * cells[..., None]), cells[..., None] - 1) / cells[..., None]
        return self.domain.origin + low * self.domain.length, self.domain.length / cells

    def grid(self, resolution: int = GRID_RESOLUTION, window: npt.ArrayLike | None = None) -> Grid:
        """The field at the points of a regular grid.

        Args:
            resolution: point count along the longest side, 2 to 8193.
            window: lower and upper corner of the grid's box, (2, 3) or six numbers, in mesh units; sides are extended
                to multiples of the spacing. None: the domain.

        Raises:
            UsageError: an impossible resolution or window.
            OutOfMemoryError: the grid does not fit into memory.
        """
        from sdfcli.export.lattice import make_grid

        return make_grid(self, resolution, window)

    def export(
        self,
        path: str | PathLike[str],
        *,
        resolution: int | None = None,
        window: npt.ArrayLike | None = None,
        dtype: str | None = None,
        half_width: float | None = None,
        force: bool = False,
    ) -> Path:
        """Writes the field for another program, whole or not at all, and returns the path; see `sdfcli export`.

        Args:
            path: output file; its ending selects the format: `.vtkhdf` for the octree; `.h5` or `.hdf5` as by `save`;
                `.vti`, `.npz`, `.raw` (with a JSON header beside it), `.nrrd`, `.mha`, `.zarr.zip`, `.sdf` or `.cdf`
                for a regular grid, `.vdb` or `.nvdb` for a narrow band of one.
            resolution: point count of a grid along its longest side; default: 128, or 41 for `.cdf`.
            window: a grid's box, as for `grid`.
            dtype: number format of `.npz`, `.raw`, `.zarr.zip` and `.vdb` grids, `float32` (default) or `float16`.
            half_width: half width of a narrow band, in grid spacings, from 2 on; default: 3.
            force: replace an existing file.

        Raises:
            UsageError: an option not applicable to the format; a file that exists or cannot be written.
            InputError: no surface in a narrow band's grid, or distances beyond the number format's range.
            OutOfMemoryError: the grid does not fit into memory.
        """
        from sdfcli.export.files import export

        return export(self, Path(path), resolution, window, dtype, half_width, force)

    def view(
        self,
        *,
        name: str = "field",
        view: str | tuple[float, float] = "-30,20",
        up: str = "y",
        leaves: int = PAGE_LEAVES,
    ) -> View:
        """The field as one HTML page, drawn by the browser, which loads nothing; a notebook shows it; see `sdfcli
        view`.

        Args:
            name: the page's heading.
            view: as for `sdfcli.render`.
            up: as for `sdfcli.render`.
            leaves: maximum leaf count, 4096 to 2,097,152; the finest levels of larger fields are left out.

        Raises UsageError for a parameter out of range, InputError for a damaged field.
        """
        from sdfcli.pictures.view.page import view_page

        return view_page(self, name=name, view=view, up=up, leaves=leaves)

    def device_arrays(self, device: str = "auto") -> DeviceArrays:
        """The field's arrays on a device, for your own kernels; `sdfcli.sampler_source` returns the code that reads
        them. Created once per device and cached in the field.

        device: `auto` (the first GPU if any, else the CPU), `cpu`, `cuda` or `cuda:N`.

        Raises UsageError for another word, DeviceError if the device or its software is missing, InputError for a
        missing corner.
        """
        backend = select_backend(device)
        return DeviceArrays.of(self._on_device(backend), backend, self.domain)

    def save(self, path: str | PathLike[str], force: bool = False) -> Path:
        """Writes the field to an HDF5 file, whole or not at all, and returns its path. Raises UsageError if the file
        cannot be written, exists without `force`, or does not end in .h5 or .hdf5: other formats are `export`'s."""
        from sdfcli.field.store import save

        return save(self, Path(path), force)

    def __repr__(self) -> str:
        return f"<Field: {self.leaves:,} leaves, domain edge {self.domain.length:.4g}>"

    def _repr_png_(self) -> bytes | None:
        """A slice through the surface's middle, shown by notebooks; None if it cannot be drawn."""
        from sdfcli.pictures.png import png
        from sdfcli.pictures.slice import slice_image

        with suppress(SdfError):
            return png(slice_image(self, size=PREVIEW, device=self._home.name))
        return None


@contextmanager
def stated(info: dict[str, Any]) -> Iterator[None]:
    """Raises InputError where `info` lacks an entry about the error."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if "overview" in info:
            raise InputError("an overview states no error; load the whole field, without `coarse`") from error
        raise InputError("the field does not state its error; build it again with `sdfcli build`") from error


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
"""Shifts and masks for gathering every third bit of a 63-bit code; in reverse, for spreading them."""


def lattice_position(keys: Any) -> npt.NDArray[np.float64]:
    """Unit cube positions (n, 3) of lattice Morton keys (n,)."""
    bits = np.asarray(keys, np.uint64)[:, None] >> np.arange(3, dtype=np.uint64)
    for shift, mask in THIRDS:
        bits = (bits | bits >> np.uint64(shift)) & np.uint64(mask)
    return bits.astype(np.float64) / 2.0**LATTICE_BITS


def lattice_key(place: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Morton keys (n,) of lattice points (n, 3), the inverse of `lattice_position` in lattice spacings."""
    bits = place.astype(np.uint64)
    for (shift, _), (_, mask) in zip(THIRDS[:0:-1], THIRDS[-2::-1], strict=True):
        bits = (bits | bits << np.uint64(shift)) & np.uint64(mask)
    return np.asarray(bits[:, 0] | bits[:, 1] << np.uint64(1) | bits[:, 2] << np.uint64(2))


def as_points(xp: Any, points: npt.ArrayLike) -> Any:
    """Converts points to an array (..., 3), float32 for float32 points, else float64. Raises InputError for another
    shape."""
    unmasked(points, "points")
    try:
        single = getattr(points, "dtype", None) == np.float32
        array = xp.asarray(points, dtype=np.float32 if single else np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"points must be numbers, (..., 3): {error}") from error
    if not array.ndim or array.shape[-1] != 3:
        raise InputError(f"points must be (..., 3), not {tuple(array.shape)}")
    return array


def is_cupy(points: object) -> bool:
    """Whether points are a CuPy array, without importing CuPy."""
    return type(points).__module__.partition(".")[0] == "cupy"


def gpu_of(*arrays: Any) -> str | None:
    """The first CuPy array's device, `cuda:N`; None if there is none."""
    return next((f"cuda:{array.device.id}" for array in arrays if is_cupy(array)), None)
