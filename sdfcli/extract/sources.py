"""Sources for marching cubes: fields, sampled only in bricks near the surface, and volumes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.errors import InputError, UsageError
from sdfcli.extract.scan import Counts
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import by_threads
from sdfcli.params import whole

BRICK = 8
"""Nodes along a brick's edge."""
WORDS = 8
"""Layers per brick; a layer's 64 nodes are one word's bits."""
MOST_CELLS = 1 << 13
"""Maximum cells along an axis, so that 32 bits can number the cells of a part and two brick layers beyond."""


@dataclass(frozen=True)
class Grid:
    """A regular node grid. Axis 0 is contiguous in memory.

    cells     cell count per axis; node indices run from 0 to this count.
    frame     (6,) float64, position of node 0, then node spacing, by axis.
    reversed  whether positions have the opposite axis order.
    """

    cells: tuple[int, int, int]
    frame: npt.NDArray[np.float64]
    reversed: bool

    @property
    def layer(self) -> int:
        """Bricks per layer across axis 2."""
        return (self.cells[0] // BRICK + 1) * (self.cells[1] // BRICK + 1)

    @property
    def reach(self) -> int:
        """Difference between a brick's number and its neighbour's, one further along every axis."""
        return self.layer + self.cells[0] // BRICK + 2


class Source(Protocol):
    """A source's interface. Bricks are sorted by number; parts are half-open ranges (first, last).

    granularity  parts begin and end at its multiples.
    """

    grid: Grid
    level: np.float32
    granularity: int

    def __len__(self) -> int: ...

    def after(self, place: int) -> int:
        """Index after the last brick sharing a cell with bricks before index `place`."""

    def part(self, backend: Backend, first: int, last: int) -> SourcePart:
        """Bricks `first` to `last` - 1 on a device."""

    def nothing_there(self) -> InputError:
        """Error for a source without a surface."""


@dataclass(frozen=True)
class SourcePart:
    """Consecutive bricks from a source, on a device.

    brick   (n,) uint64, brick numbers, sorted.
    name    `field` or `volume`, for the kernels evaluating nodes.
    values  argument groups for these kernels.
    side    see `leaf_sides`; None for volumes.
    """

    brick: Array
    name: str
    values: dict[str, Group]
    side: Array | None = None


def first_leaf(backend: Backend, leaf_key: Array) -> Array:
    """Leaf counts (2^18 + 1,) uint32 before each level 6 cell, in Morton order."""
    first = backend.xp.empty((1 << 3 * C.TOP_LEVEL) + 1, np.uint32)
    backend.run("sdf_leaf_first", len(first), leaves=len(leaf_key), leaf_key=leaf_key, first=first)
    return first


def leaf_group(backend: Backend, arrays: dict[str, Array]) -> Group:
    """A field's device arrays, from `Field.on`, as an argument group for kernels with leaf look-ups."""
    return backend.group("Leaves", first_leaf=first_leaf(backend, arrays["leaf_key"]), **arrays)


def no_surface(field: Field, level: float) -> InputError:
    """Error for a field without a surface at a level."""
    low, high = float(field.distance.min()), float(field.distance.max())
    unsigned = "; it has no signs, so ask for a distance with --iso" if field.info.get("sign") == "none" else ""
    return InputError(f"no surface at {level:g}: the field's values go from {low:g} to {high:g}{unsigned}")


def leaves_at(backend: Backend, field: Field, iso: float) -> npt.NDArray[np.float64]:
    """Lower corners and edges (n, 4) of leaves crossed by the level, in the unit cube.

    Raises InputError if the level crosses none.
    """
    if field._stored and backend.xp is np:  # whose corners need no numbers for that
        met = _crossed(field._leaf_values(backend)[1], np.float32(iso))
    else:
        met = np.flatnonzero(backend.to_host(leaf_sides(backend, field, np.float32(iso))) == 2)
    if len(met) == 0:
        raise no_surface(field, iso)
    size = 0.5 ** field.leaf_level[met].astype(np.float64)
    return np.column_stack((lattice_position(field.leaf_key[met]), size))


def _crossed(value: npt.NDArray[np.float32], iso: np.float32) -> npt.NDArray[np.intp]:
    """Indices of leaves with values (n, 8) on both sides."""

    def within(part: slice) -> npt.NDArray[np.intp]:
        # A leaf's eight sides are a word.
        inside = (value[part] < iso).view(np.uint64).ravel()
        crossed = (inside != 0) & (inside != np.uint64(0x0101010101010101))
        return np.flatnonzero(crossed) + np.intp(part.start)

    return np.concatenate(by_threads(within, len(value)))


def leaf_sides(backend: Backend, field: Field, iso: np.float32, around: Array | None = None) -> Array:
    """Side (leaves,) uint8 for each leaf's corners: inside (1), outside (0) or both (2)."""
    arrays = field._arrays_on(backend)
    side, values = backend.xp.empty(field.leaves, np.uint8), {k: arrays[k] for k in ("leaf_corner", "value")}
    backend.run("sdf_leaf_side", len(side), iso=iso, side=side, around=around, **values)
    return side


def leaves_met(backend: Backend, field: Field, iso: np.float32) -> Array:
    """Indices (n,) uint32 of all leaves that the level can meet.

    A trilinear field is bounded by its leaf's corner values. So the surface meets leaves with corners on both sides,
    and leaves on one side that touch a leaf on the other, at a corner of the smaller leaf.
    """
    xp, arrays = backend.xp, field._arrays_on(backend)
    around = xp.zeros(field.corners, np.uint32)
    side = leaf_sides(backend, field, iso, around)
    meets = (side == 2).astype(np.uint8)
    backend.run(
        "sdf_leaf_meets",
        field.corners,
        around=around,
        corner_key=field._corner_keys_on(backend),
        leaves=leaf_group(backend, arrays),
        side=side,
        iso=iso,
        meets=meets,
    )
    return xp.flatnonzero(meets).astype(np.uint32)


class FieldSource:
    """The trilinear field, in float32, at grid nodes, with `cells` cells along each domain axis."""

    granularity = 1

    def __init__(self, backend: Backend, field: Field, cells: int, level: float) -> None:
        if not 1 <= whole(cells) <= MOST_CELLS:
            raise UsageError(f"--cells {cells}: use a whole number from 1 to {MOST_CELLS}")
        cells = int(cells)
        self.field, self.level = field, np.float32(level)
        step = field.domain.length / cells
        frame = np.array([*field.domain.origin, step, step, step], np.float64)
        self.grid = Grid((cells, cells, cells), frame, reversed=False)
        with backend.active():
            self._brick: npt.NDArray[np.uint64] = backend.to_host(self._candidates(backend))

    def __len__(self) -> int:
        return len(self._brick)

    def after(self, place: int) -> int:
        reach = self._brick[place - 1] + np.uint64(self.grid.reach)
        return int(np.searchsorted(self._brick, reach, side="right"))

    def part(self, backend: Backend, first: int, last: int) -> SourcePart:
        arrays = self.field._arrays_on(backend)
        values = {"leaves": leaf_group(backend, arrays)}
        side = leaf_sides(backend, self.field, self.level)
        return SourcePart(backend.from_host(self._brick[first:last]), "field", values, side)

    def nothing_there(self) -> InputError:
        if self.field.distance.min() < self.level < self.field.distance.max():  # between nodes
            nodes = f"at the nodes of {max(self.grid.cells):,} cells along an axis"
            return InputError(f"no surface at {self.level:g} {nodes}: use more --cells")
        return no_surface(self.field, float(self.level))

    def _candidates(self, backend: Backend) -> Array:
        """Bricks, sorted, with the nodes of all cells that the surface can meet."""
        xp, arrays = backend.xp, self.field._arrays_on(backend)
        leaf = leaves_met(backend, self.field, self.level)
        ask = {
            "leaf": leaf,
            "leaf_key": arrays["leaf_key"],
            "leaf_level": arrays["leaf_level"],
            "cells": backend.from_host(self.grid.cells, np.uint32),
        }
        counts = Counts(backend, len(leaf))
        backend.run("sdf_leaf_bricks", len(leaf), first=None, count=counts.values, brick=None, **ask)
        brick = xp.empty(counts.scan(), np.uint64)
        backend.run("sdf_leaf_bricks", len(leaf), first=counts.sums, count=None, brick=brick, **ask)
        return xp.unique(brick)


class VolumeSource:
    """Values (nx, ny, nz) at grid nodes, `volume[i, j, k]` at origin + spacing x (i, j, k).

    The volume is a host array, memory-mapped or not, or a device array. Values are converted to float32.
    """

    def __init__(self, volume: Any, level: float, spacing: npt.ArrayLike = 1.0, origin: npt.ArrayLike = 0.0) -> None:
        if volume.ndim != 3 or min(volume.shape) < 2 or max(volume.shape) > MOST_CELLS:
            raise InputError(
                f"a volume must have three axes of 2 to {MOST_CELLS} values, not the shape {tuple(volume.shape)}"
            )
        if volume.dtype.kind not in "fiub":
            raise InputError(f"a volume must hold real numbers, not {volume.dtype}")
        self.volume, self.level = volume, np.float32(level)
        given: Any = spacing
        try:
            distance = np.broadcast_to(np.asarray(spacing, np.float64), 3)
        except (TypeError, ValueError):
            distance = np.zeros(3)
        if not (np.isfinite(distance).all() and (distance > 0).all()):
            raise UsageError(f"--spacing {given}: use a number above 0, or three")
        frame = np.concatenate((np.broadcast_to(np.asarray(origin, np.float64), 3)[::-1], distance[::-1]))
        nx, ny, nz = volume.shape
        self.grid = Grid((nz - 1, ny - 1, nx - 1), frame, reversed=True)
        self.granularity = self.grid.layer

    def __len__(self) -> int:
        return self.grid.layer * (self.grid.cells[2] // BRICK + 1)

    def after(self, place: int) -> int:
        return min(len(self), place + self.grid.layer)

    def part(self, backend: Backend, first: int, last: int) -> SourcePart:
        nodes = slice(BRICK * (first // self.grid.layer), BRICK * (last // self.grid.layer))
        value = backend.from_host(self.volume[nodes], np.float32)
        values = {"nodes": backend.group("Volume", first_layer=nodes.start, value=value)}
        return SourcePart(backend.xp.arange(first, last, dtype=np.uint64), "volume", values)

    @cached_property
    def _range(self) -> tuple[float, float]:
        return float(self.volume.min()), float(self.volume.max())

    def nothing_there(self) -> InputError:
        low, high = self._range
        return InputError(f"no surface at {self.level:g}: the volume's values go from {low:g} to {high:g}")
