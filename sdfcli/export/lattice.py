"""Regular grids of field values, evaluated in chunks, so that a grid may exceed memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError, OutOfMemoryError, UsageError
from sdfcli.mesh.mesh import Domain
from sdfcli.params import whole
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.memory import free_memory

PIECE = 1 << 20
"""Values per chunk."""
MOST_VALUES = (1 << 13) + 1
"""Maximum values along an axis."""
LEAST_HALF_SPACING = 2.0**-14
"""Minimum spacing for float16, its smallest normal number: below, differences between neighbours lose digits."""


class Distances(Protocol):
    """Source of a grid's values: a Field, or a mesh's ExactDistances."""

    @property
    def domain(self) -> Domain:
        """The cube of a grid without a window."""

    @property
    def info(self) -> dict[str, Any]:
        """A field's metadata; `sign` is the sign method."""

    def sample(self, points: Any) -> Any:
        """Signed distances (n,) at points (n, 3), in the mesh's units."""


@dataclass(frozen=True)
class ExactDistances:
    """A mesh's exact distances, as a source of grids."""

    index: MeshDistance

    @property
    def domain(self) -> Domain:
        """The padded cube around the mesh."""
        return self.index.mesh.domain

    @property
    def info(self) -> dict[str, Any]:
        """The sign method and its reason."""
        return {"sign": self.index.sign.method, "sign_reason": self.index.sign.reason}

    def sample(self, points: Any) -> Any:
        """Signed distances (n,) float64 at points (n, 3)."""
        return self.index.signed_distance(points)


@dataclass(frozen=True)
class Lattice:
    """A regular point grid: point (i, j, k) lies at origin + spacing * (i, j, k), in the mesh's units.

    origin   (3,) float64.
    spacing  the same along every axis.
    shape    point count along x, y, z.
    """

    origin: npt.NDArray[np.float64]
    spacing: float
    shape: tuple[int, int, int]

    @property
    def size(self) -> int:
        """Point count."""
        return math.prod(self.shape)


@dataclass(frozen=True, repr=False)
class Grid:
    """A field on a regular grid: distance[i, j, k] lies at origin + spacing * (i, j, k), as in an exported `.npz` file.

    Attributes:
        distance: (nx, ny, nz) float32: signed distances in mesh units.
        origin: (3,) float64: position of distance[0, 0, 0], in mesh units.
        spacing: distance between neighbouring points, in mesh units.
    """

    distance: npt.NDArray[np.float32]
    origin: npt.NDArray[np.float64]
    spacing: float

    def __repr__(self) -> str:
        return f"<Grid: {' x '.join(map(str, self.distance.shape))} points, spacing {self.spacing:.4g}>"


def make_lattice(field: Distances, resolution: int, window: npt.ArrayLike | None = None) -> Lattice:
    """A lattice with `resolution` points along the longest side of a window (x0, y0, z0, x1, y1, z1) or the domain.

    The first point is the window's lower corner. Sides are extended to multiples of the spacing.
    Raises UsageError for an impossible resolution or window.
    """
    if not 2 <= whole(resolution) <= MOST_VALUES:
        raise UsageError(f"--resolution {resolution}: use a whole number from 2 to {MOST_VALUES}")
    resolution = int(resolution)
    if window is None:
        return Lattice(field.domain.origin, field.domain.length / (resolution - 1), (resolution,) * 3)
    try:
        low, high = np.reshape(np.asarray(window, np.float64), (2, 3))
    except (TypeError, ValueError):
        low = high = np.zeros(3)
    side = high - low
    if not (np.isfinite(side).all() and (side > 0).all()):
        raise UsageError("--window: use x0,y0,z0,x1,y1,z1 with x0 < x1, y0 < y1 and z0 < z1")
    spacing = float(side.max()) / (resolution - 1)
    nx, ny, nz = (int(n) for n in np.ceil(side / spacing - 1e-6) + 1)  # -1e-6: integers stay, despite rounding
    return Lattice(low, spacing, (nx, ny, nz))


def values(
    field: Distances, lattice: Lattice, dtype: npt.DTypeLike = np.float32, *, x_fastest: bool, piece: int = PIECE
) -> Iterator[npt.NDArray[Any]]:
    """Yields the field at all lattice points, in arrays of at most `piece` values, in memory order.

    x_fastest: x is contiguous in memory; otherwise z, as in an array [i, j, k].
    Raises InputError for distances beyond float16's range.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    shape = lattice.shape[::-1] if x_fastest else lattice.shape
    for first in range(0, lattice.size, piece):
        index = np.unravel_index(np.arange(first, min(first + piece, lattice.size)), shape)
        step = np.stack(index[::-1] if x_fastest else index, axis=1)
        made = field.sample(lattice.origin + lattice.spacing * step)
        if kind.itemsize == 2:
            check_half_range(np.abs(made).max())
        yield made.astype(kind)


def check_half(lattice: Lattice) -> None:
    """Raises UsageError if float16 is too coarse for the lattice."""
    if lattice.spacing < LEAST_HALF_SPACING:
        raise UsageError(f"float16 is too coarse for values {lattice.spacing:.2g} apart; use --dtype float32")


def check_half_range(largest: float) -> None:
    """Raises InputError for a distance beyond float16's range."""
    if largest > np.finfo(np.float16).max:
        raise InputError("float16 ends at 65504, and there are larger distances; use --dtype float32")


def check_memory(lattice: Lattice, bytes_each: int) -> None:
    """Raises OutOfMemoryError if a library with `bytes_each` working bytes per value exceeds the free memory."""
    check_fits(bytes_each * lattice.size)


def check_fits(needed: int) -> None:
    """Raises OutOfMemoryError if the free memory has fewer bytes."""
    free = free_memory()
    if needed > free:
        raise OutOfMemoryError(
            f"the grid takes {needed / 1e9:.3g} GB in memory, of which {free / 1e9:.3g} are free; "
            "use a smaller --resolution or --window"
        )


def make_grid(field: Distances, resolution: int, window: npt.ArrayLike | None) -> Grid:
    """`Field.grid`."""
    lattice = make_lattice(field, resolution, window)
    check_memory(lattice, np.dtype(np.float32).itemsize)
    return Grid(volume(field, lattice), np.array(lattice.origin), lattice.spacing)


def volume(field: Distances, lattice: Lattice) -> npt.NDArray[np.float32]:
    """All values in one array [i, j, k], for libraries that need it."""
    result = np.empty(lattice.size, np.float32)
    first = 0
    for part in values(field, lattice, x_fastest=False):
        result[first : first + len(part)] = part
        first += len(part)
    return result.reshape(lattice.shape)
