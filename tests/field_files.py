"""Field files of the versions 1 to 3, and the order and code of version 4, in plain Python."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

import oracle
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain

FULL = 2**oracle.LATTICE_BITS
ARRAYS = ("leaf_key", "leaf_level", "corner_key", "distance")
CORNERS = [(c & 1, c >> 1 & 1, c >> 2) for c in range(8)]
CHUNK = 1 << 16
"""Entries per chunk."""
Cell = tuple[int, int, int, int]
"""Level, and x, y, z in cells of that level."""
Point = tuple[int, int, int]
"""On the lattice."""


# ---- Versions 1 to 3 ----


def content_sha256_3(field: Field) -> str:
    """A field's hash in files of versions 1 to 3."""
    digest = hashlib.sha256(np.array([*field.domain.origin, field.domain.length], "<f8").tobytes())
    for name, kind in zip(ARRAYS, ("<u8", "u1", "<u8", "<f4"), strict=True):
        digest.update(getattr(field, name).astype(kind).tobytes())
    return digest.hexdigest()


def attributes_sha256(attributes: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(attributes.items()):
        content = value if isinstance(value, bytes) else np.asarray(value).tobytes()
        digest.update(name.encode() + b"\0" + len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def zigzag(steps: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """0, -1, 1, -2, ... as 0, 1, 2, 3, ..., in the smallest type."""
    found = np.where(steps < 0, -2 * steps - 1, 2 * steps)
    return found.astype(np.min_scalar_type(found.max()))


def by_level(field: Field) -> npt.NDArray[np.intp]:
    """The corners by the coarsest level with a cell that has them, then in Morton order."""
    spacing = np.bitwise_or.reduce(oracle.lattice(field.corner_key), axis=1)
    return np.argsort(-np.where(spacing == 0, FULL, spacing & -spacing), kind="stable")


def interleaved(at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Morton codes (...) of lattice points (..., 3)."""
    found = np.zeros(at.shape[:-1], np.uint64)
    for bit in range(21):
        for axis in range(3):
            found |= (at[..., axis].astype(np.uint64) >> np.uint64(bit) & np.uint64(1)) << np.uint64(3 * bit + axis)
    return found


def predictions(field: Field) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """Level by level: corners (k,), and those (k, 8) from whose values they are predicted, x fastest; for the domain's
    corners (k, 0)."""
    at = oracle.lattice(field.corner_key)
    shared = np.bitwise_or.reduce(at, axis=1)
    spacing = np.where(shared == 0, FULL, shared & -shared)
    for size in sorted(set(spacing.tolist()), reverse=True):
        corner = np.flatnonzero(spacing == size)
        if size == FULL:
            yield corner, np.empty((len(corner), 0), np.intp)
            continue
        odd = at[corner] // size % 2
        around = at[corner, None] + size * odd[:, None] * (2 * np.array(CORNERS) - 1)
        place = np.searchsorted(field.corner_key, interleaved(around))
        assert np.array_equal(at[place], around)
        yield corner, place


def predicted(value: npt.NDArray[np.float32], around: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Means along x, then y, then z."""
    if around.shape[1] == 0:
        return np.zeros(len(around))
    found = value[around].astype(np.float64)
    while found.shape[1] > 1:
        found = 0.5 * (found[:, ::2] + found[:, 1::2])
    return found[:, 0]


def quantised(
    field: Field, step: float, hanging: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Distances (m,) in whole steps from their predictions, with the same signs, and the steps (m,) by level.

    hanging: (m,): takes the prediction.
    """
    value, steps = field.distance.copy(), np.zeros(len(field.distance), np.int64)
    for corner, around in predictions(field):
        base, negative = predicted(value, around), value[corner] < 0
        apart = np.clip((value[corner].astype(np.float64) - base) / step, -(2.0**30), 2.0**30)
        own = np.trunc(apart + np.where(apart < 0, -0.5, 0.5))
        own += np.where((base + own * step < 0) != negative, np.where(negative, -1, 1), 0)
        own[hanging[corner] if hanging is not None else slice(0)] = 0
        value[corner] = (base + own * step).astype(np.float32)
        steps[corner] = own
    return value, steps[by_level(field)]


def restored(field: Field, steps: npt.NDArray[np.int64], step: float) -> npt.NDArray[np.float32]:
    """Distances (m,) from steps (m,) by level."""
    value, own = np.zeros(len(field.corner_key), np.float32), np.empty(len(steps), np.int64)
    own[by_level(field)] = steps
    for corner, around in predictions(field):
        value[corner] = (predicted(value, around) + own[corner] * step).astype(np.float32)
    return value


def lists_of_3(field: Field, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The datasets of a file of version 1 to 3, and the attributes about its distances."""
    if version == 1:
        return {name: getattr(field, name) for name in ARRAYS}, {}
    lists: dict[str, Any] = {"leaf_level": field.leaf_level, "distance": field.distance}
    if field.step is None:
        return lists, {}
    value, steps = quantised(field, field.step)
    if value.tobytes() != field.distance.tobytes():
        return lists, {}
    whole = (steps + field.parts // 2) // field.parts
    lists = {"leaf_level": field.leaf_level, "residual": zigzag(whole)}
    if field.parts == 1:
        return lists, {"distance_step": field.step}
    lists["residual_part"] = zigzag(steps - field.parts * whole).astype(np.uint8)
    return lists, {"distance_step": field.step * field.parts, "distance_parts": field.parts}


def facts(field: Field, version: int) -> dict[str, Any]:
    """Attributes of all versions."""
    return {
        "format": np.bytes_("sdfcli-adf"),
        "format_version": version,
        "domain_origin": field.domain.origin,
        "domain_length": field.domain.length,
        "lattice_bits": oracle.LATTICE_BITS,
        "info": np.bytes_(json.dumps(field.info)),
    }


def optional(field: Field) -> dict[str, npt.NDArray[Any]]:
    given = {"nearest": field.nearest, "leaf_cause": field.leaf_cause, "bound": field.leaf_bound}
    return {name: array for name, array in given.items() if array is not None}


def sums_of(lists: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """The attributes with checksums of optional lists."""
    return {f"{name}_sha256": np.bytes_(hashlib.sha256(lists[name].tobytes()).hexdigest()) for name in lists}


def write(group: Any, attributes: dict[str, Any], lists: dict[str, Any], packed: bool = True) -> None:
    """Fills an empty group, or a file."""
    for name, value in attributes.items():
        group.attrs[name] = value
    for name, data in lists.items():
        options = {"chunks": (min(len(data), CHUNK),), "compression": 1, "shuffle": True, "fletcher32": True}
        group.create_dataset(name, data=data, **options if packed and name not in ("block", "chunk_sha256") else {})


def save_3(field: Field, path: Path, version: int) -> Path:
    """Writes a file of version 1, 2 or 3."""
    with h5py.File(path, "w") as file:
        write_3(field, file, version)
    return path


def write_3(field: Field, group: Any, version: int) -> None:
    lists, attributes = lists_of_3(field, version)
    attributes |= facts(field, version) | {"content_sha256": np.bytes_(content_sha256_3(field))}
    if version > 1:
        lists |= optional(field)
    if version > 2:
        attributes |= sums_of(optional(field))
        attributes["attributes_sha256"] = np.bytes_(attributes_sha256(attributes))
    write(group, attributes, lists)


# ---- Version 4 ----


def children(cell: Cell) -> list[Cell]:
    level, x, y, z = cell
    return [(level + 1, 2 * x + i, 2 * y + j, 2 * z + k) for i, j, k in CORNERS]


def points_of(cell: Cell) -> list[Point]:
    """A cell's 27 points, x fastest."""
    level, *at = cell
    half = FULL >> level + 1
    steps = itertools.product(range(3), repeat=3)
    return [(half * (2 * at[0] + i), half * (2 * at[1] + j), half * (2 * at[2] + k)) for k, j, i in steps]


def is_corner(j: int) -> bool:
    return j % 3 != 1 and j // 3 % 3 != 1 and j // 9 != 1


@dataclass(frozen=True)
class Value:
    """A stored value: the cell that lists it, and its index there; for the domain's corners, no cell."""

    point: Point
    cell: Cell | None = None
    index: int = -1


class Layout:
    """The order of a file of version 4.

    whole    (cell, leaves): whether a cell is a block; the last leaf is one.
    hanging  whether hanging points are stored.
    """

    def __init__(self, leaf_key: Any, leaf_level: Any, whole: Callable[[Cell, int], bool], hanging: bool) -> None:
        self.hanging = hanging
        low, level = oracle.lattice(leaf_key).tolist(), leaf_level.tolist()
        size = [FULL >> own for own in level]
        self.leaves: list[Cell] = [
            (own, x // edge, y // edge, z // edge) for own, edge, (x, y, z) in zip(level, size, low, strict=True)
        ]
        self.held: dict[Cell, int] = {}
        """Number of leaves in each leaf and each split cell."""
        for own, *at in self.leaves:
            for up in range(own + 1):
                cell = (own - up, at[0] >> up, at[1] >> up, at[2] >> up)
                self.held[cell] = self.held.get(cell, 0) + 1
        self.split = set(self.held) - set(self.leaves)
        self.blocks: list[Cell] = []
        self.around: list[Cell] = []
        waiting: list[Cell] = [(0, 0, 0, 0)]
        while waiting:
            cell = waiting.pop()
            if self.held[cell] == 1 or whole(cell, self.held[cell]):
                self.blocks.append(cell)
            else:
                self.around.append(cell)
                waiting += reversed(children(cell))

    def within(self, block: Cell) -> list[Cell]:
        """A block's split cells, in Morton order."""
        found, waiting = [], [block]
        while waiting:
            cell = waiting.pop()
            if cell in self.split:
                found.append(cell)
                waiting += reversed(children(cell))
        return found

    def listed(self, cells: list[Cell], block: Cell | None) -> list[Value]:
        """The values that split cells list. block: theirs; None: they are around blocks."""
        found, seen = [], set[Point]()
        for cell in sorted(cells, key=lambda cell: cell[0]):  # stable
            for j, point in enumerate(points_of(cell)):
                if is_corner(j) or point in seen:
                    continue
                seen.add(point)
                if block is None or self.hanging or not self.hangs(point, cell[0], block):
                    found.append(Value(point, cell, j))
        return found

    def hangs(self, point: Point, level: int, block: Cell) -> bool:
        """Whether a cell of a level within a block touches a point and is not split."""
        edge, up = FULL >> level, level - block[0]
        for i, j, k in CORNERS:
            at = [(c - (edge if back else 0)) // edge for c, back in zip(point, (i, j, k), strict=True)]
            touches = all(edge * a <= c <= edge * (a + 1) for a, c in zip(at, point, strict=True))
            inside = (block[0], *(a >> up for a in at)) == block
            if touches and inside and (level, *at) not in self.split:
                return True
        return False

    @cached_property
    def outer(self) -> list[Value]:
        """Before all blocks."""
        corners = [Value((FULL * x, FULL * y, FULL * z)) for x, y, z in CORNERS]
        return corners + self.listed(self.around, None)

    @cached_property
    def inner(self) -> list[list[Value]]:
        """Each block's."""
        return [self.listed(self.within(block), block) for block in self.blocks]

    @property
    def values(self) -> list[Value]:
        return self.outer + [value for block in self.inner for value in block]

    @property
    def table(self) -> npt.NDArray[np.uint32]:
        rows = []
        for block, values in zip(self.blocks, self.inner, strict=True):
            levels = [value.cell[0] for value in values if value.cell]
            rows.append([block[0], self.held[block], *(levels.count(level) for level in range(16))])
        return np.array(rows, np.uint32)

    def decoded(self, stored: npt.NDArray[Any], step: float | None) -> dict[Point, np.float32]:
        """The values at all points, from the stored steps or distances. Fails where blocks disagree."""
        known: dict[Point, np.float32] = {}

        def enter(point: Point, value: np.float32) -> None:
            assert known.setdefault(point, value).tobytes() == value.tobytes(), "blocks disagree"

        rest = iter(stored)
        for value in self.outer[:8]:
            own = next(rest)
            enter(value.point, own if step is None else np.float32(own * step))
        groups = [(self.around, self.outer[8:])]
        groups += [(self.within(block), values) for block, values in zip(self.blocks, self.inner, strict=True)]
        for cells, values in groups:
            listed = {value.point: next(rest) for value in values}
            for cell in sorted(cells, key=lambda cell: cell[0]):
                base = interpolated(known, cell)
                for j, point in enumerate(points_of(cell)):
                    if is_corner(j):
                        continue
                    if step is None:
                        enter(point, listed[point])
                    else:
                        enter(point, np.float32(base[j] + listed.get(point, 0) * step))
        assert next(rest, None) is None
        return known

    def encoded(self, field: Field, step: float | None) -> npt.NDArray[Any]:
        """The stored steps or distances of a field whose values they restore."""
        points = map(tuple, oracle.lattice(field.corner_key).tolist())
        known: dict[Point, np.float32] = dict(zip(points, field.distance, strict=True))
        if step is None:
            return np.array([known[value.point] for value in self.values], np.float32)
        return np.array([steps_between(known, value, step) for value in self.values], np.int64)


def at_most(most: int) -> Callable[[Cell, int], bool]:
    """The cut of the package: the largest cells with so many leaves."""
    return lambda cell, leaves: leaves <= most


def save_4(field: Field, path: Path, whole: Callable[[Cell, int], bool], packed: bool = True) -> Path:
    """Writes a file of version 4, in blocks of any cut."""
    layout = Layout(field.leaf_key, field.leaf_level, whole, hanging=field.step is None)
    steps = layout.encoded(field, field.step)
    lists, attributes = {"leaf_level": field.leaf_level}, facts(field, 4) | {"corners": len(field.corner_key)}
    step, parts = (field.step or 0) * field.parts, field.parts
    if field.step is None:
        lists["distance"] = steps
    else:
        lists["residual"], attributes["distance_step"] = zigzag(steps // parts), step
    if parts > 1:
        lists["residual_part"], attributes["distance_parts"] = zigzag(steps % parts).astype(np.uint8), parts
    pieces = [each[k : k + CHUNK].tobytes() for each in lists.values() for k in range(0, len(each), CHUNK)]
    sums = b"".join(hashlib.sha256(piece).digest() for piece in pieces)
    numbers = [*field.domain.origin, field.domain.length, step, parts]
    content = np.array(numbers, "<f8").tobytes() + layout.table.astype("<u4").tobytes() + sums
    attributes["content_sha256"] = np.bytes_(hashlib.sha256(content).hexdigest())
    attributes |= sums_of(optional(field))
    attributes["attributes_sha256"] = np.bytes_(attributes_sha256(attributes))
    tables = {"block": layout.table.ravel(), "chunk_sha256": np.frombuffer(sums, np.uint8)}
    with h5py.File(path, "w") as file:
        write(file, attributes, lists | tables | optional(field), packed)
    return path


def steps_between(known: dict[Point, np.float32], value: Value, step: float) -> int:
    """Whole steps from the prediction: the nearest number, or another that restores the value."""
    own, base = known[value.point], interpolated(known, value.cell)[value.index] if value.cell else 0.0
    apart = (float(own) - base) / step
    nearest = int(apart - 0.5 if apart < 0 else apart + 0.5)
    for steps in (nearest, nearest + 1, nearest - 1):
        if np.float32(base + steps * step).tobytes() == own.tobytes():
            return steps
    raise AssertionError("not restored")


def interpolated(known: dict[Point, np.float32], cell: Cell) -> list[float]:
    """At a cell's 27 points: means along x, then y, then z, in float64."""
    points = points_of(cell)
    grid = np.full((3, 3, 3), np.nan)  # z, y, x
    for i, j, k in CORNERS:
        grid[2 * k, 2 * j, 2 * i] = known[points[2 * i + 6 * j + 18 * k]]
    grid[:, :, 1] = 0.5 * (grid[:, :, 0] + grid[:, :, 2])
    grid[:, 1] = 0.5 * (grid[:, 0] + grid[:, 2])
    grid[1] = 0.5 * (grid[0] + grid[2])
    return [float(value) for value in grid.ravel()]


def field_in_steps(rng: np.random.Generator, splits: int, step: float, deep: bool = False, parts: int = 1) -> Field:
    """A field over a random octree with random values in whole steps, and hanging points that are interpolated."""
    field = oracle.random_field(rng, splits, deep=deep)
    layout = Layout(field.leaf_key, field.leaf_level, lambda cell, leaves: True, False)
    steps = np.rint(rng.normal(size=len(layout.values)) * rng.choice([0.4, 3, 300], len(layout.values)))
    known = layout.decoded(steps.astype(np.int64), step)
    distance = [known[x, y, z] for x, y, z in oracle.lattice(field.corner_key).tolist()]
    arrays = field.leaf_key, field.leaf_level, field.corner_key, np.array(distance, np.float32)
    return Field(Domain(field.domain.origin, field.domain.length), *arrays, field.info, step=step, parts=parts)


def steps_in(path: Path) -> tuple[npt.NDArray[Any], float | None]:
    """A file's stored steps in parts, and a part; or its distances, and None."""
    with h5py.File(path) as file:
        if "distance" in file:
            return file["distance"][()], None
        coded = [file[name][()].astype(np.int64) for name in ("residual", "residual_part") if name in file]
        whole, *part = [np.where(each % 2, -(each + 1) // 2, each // 2) for each in coded]
        parts = int(file.attrs.get("distance_parts", 1))
        return parts * whole + (part[0] if part else 0), float(file.attrs["distance_step"]) / parts


def check_file(path: Path, field: Field, most: int) -> None:
    """A file of version 4 has the field's values, in the order of blocks with so many leaves."""
    stored, step = steps_in(path)
    layout = Layout(field.leaf_key, field.leaf_level, at_most(most), hanging=step is None)
    with h5py.File(path) as file:
        assert np.array_equal(file["block"][()].reshape(-1, 18), layout.table)
        assert np.array_equal(file["leaf_level"][()], field.leaf_level)
        assert file.attrs["corners"] == len(field.corner_key)
    assert len(stored) == len(layout.values)
    assert stored.tobytes() == layout.encoded(field, step).tobytes()
    known = layout.decoded(stored, step)
    at = [tuple(point) for point in oracle.lattice(field.corner_key).tolist()]
    assert set(known) == set(at)
    assert np.array([known[point] for point in at], np.float32).tobytes() == field.distance.tobytes()


def check_same(found: Field, field: Field) -> None:
    """The same arrays, to the bit, and `info`."""
    for name in ARRAYS:
        a, b = getattr(found, name), getattr(field, name)
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes(), name
    assert np.array_equal(found.domain.origin, field.domain.origin)
    assert found.domain.length == field.domain.length
    assert found.info == field.info
