"""A field's leaves and distances for a page: lists as in its file, in one deflated block."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.errors import UsageError
from sdfcli.field.blocks import MOST_LEAVES
from sdfcli.field.encoding import encode_leaves
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import by_threads
from sdfcli.params import PAGE_LEAVES, whole
from sdfcli.spatial.morton import LATTICE_BITS

LEAST_LEAVES = 4096
"""Minimum of the maximum leaf count."""


@dataclass(frozen=True)
class PageData:
    """A field's lists, see docs/reference/commands/view.md.

    content     the lists' bytes, one after the other, each byte plane by byte plane, deflated (zlib).
    lists       (name, bytes per entry, entries) in their order.
    step        distance step of a part of the residuals, in mesh units; None for distances.
    parts       parts per step.
    leaves      leaf count.
    depth       finest level.
    difference  maximum difference from the field, anywhere in its domain, in mesh units; 0 unless levels are cut.
    """

    content: bytes
    lists: list[tuple[str, int, int]]
    step: float | None
    parts: int
    leaves: int
    depth: int
    difference: float


def check_leaves(most: int) -> None:
    """Raises UsageError for a maximum leaf count out of range. A field with more is stored in several blocks."""
    if not LEAST_LEAVES <= whole(most) <= MOST_LEAVES:
        raise UsageError(f"--leaves {most}: use {LEAST_LEAVES} to {MOST_LEAVES}")


def page_data(field: Field, most: int = PAGE_LEAVES) -> PageData:
    """Encodes a field, without its finest levels if it has more leaves than `most`.

    Raises UsageError for an impossible number, InputError for a damaged field.
    """
    check_leaves(most)
    backend = any_backend()
    key, level, difference = field.leaf_key, np.ascontiguousarray(field.leaf_level, np.uint8), 0.0
    corner, value = field._leaf_values(backend)
    if len(key) > most:
        fine = backend.to_host(value if corner is None else value[corner])
        finest = _finest_level(key, level, most)
        corner, (key, level, value) = None, _without(key, level, fine, finest)
        difference = _difference(field.leaf_key, field.leaf_level, fine, key, level, value)
    arrays = {"leaf_key": backend.from_host(key), "leaf_level": backend.from_host(level)}
    arrays |= {"leaf_corner": corner, "value": value if corner is not None else backend.from_host(value)}
    encoded = encode_leaves(backend, arrays, field.step, field.parts)
    planes = [np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1).T for each in encoded.lists.values()]
    return PageData(
        content=zlib.compress(b"".join(each.tobytes() for each in planes), 9),
        lists=[(name, *each.shape) for name, each in zip(encoded.lists, planes, strict=True)],
        step=encoded.step,
        parts=encoded.parts if "residual_part" in encoded.lists else 1,
        leaves=len(key),
        depth=int(level.max()),
        difference=difference,
    )


def _finest_level(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8], most: int) -> int:
    """The finest level at which the octree, cut there, has at most `most` leaves."""
    finest = int(level.max())
    while finest and np.count_nonzero(_first_of_cells(key, level, finest)) > most:
        finest -= 1
    return finest


def _first_of_cells(key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8], finest: int) -> npt.NDArray[np.bool_]:
    """Which leaves (n,) are the first ones of leaves in the octree cut at a level."""
    return np.asarray((level <= finest) | (key & np.uint64((1 << 3 * (LATTICE_BITS - finest)) - 1) == 0))


def _without(
    key: npt.NDArray[np.uint64], level: npt.NDArray[np.uint8], value: npt.NDArray[np.float32], finest: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Keys, levels and corner values (k, 8) of the leaves of an octree cut at a level.

    A cell's corner is that of its descendant in the same octant at every level.
    """
    first = _first_of_cells(key, level, finest)
    cut_key, cut_level = key[first], np.minimum(level[first], np.uint8(finest))
    ones = (np.uint64(1) << np.uint64(3) * (np.uint64(LATTICE_BITS) - cut_level)) // np.uint64(7)
    there = [np.searchsorted(key, cut_key + np.uint64(c) * ones, side="right") - 1 for c in range(8)]
    return cut_key, cut_level, np.stack([value[leaf, c] for c, leaf in enumerate(there)], axis=1)


def _difference(
    key: npt.NDArray[np.uint64],
    level: npt.NDArray[np.uint8],
    value: npt.NDArray[np.float32],
    cut_key: npt.NDArray[np.uint64],
    cut_level: npt.NDArray[np.uint8],
    cut_value: npt.NDArray[np.float32],
) -> float:
    """Maximum difference between the field and its cut octree's: both are trilinear in a leaf, so it is at a corner."""
    finest = cut_level.max()

    def within(part: slice) -> float:
        fine = np.flatnonzero(level[part] > finest) + part.start  # the other leaves are not cut
        cell = np.searchsorted(cut_key, key[fine], side="right") - 1
        low = lattice_position(key[fine] - cut_key[cell]) * np.ldexp(1.0, int(finest))  # in cells
        ends = low, low + np.ldexp(1.0, int(finest) - level[fine].astype(np.int64))[:, None]
        cut: Any = cut_value[cell].reshape(-1, 2, 2, 2).astype(np.float64)
        for axis, k in ((3, 0), (2, 1), (1, 2)):
            one, other = np.split(cut, 2, axis)
            cut = np.concatenate([one + (other - one) * end[:, k, None, None, None] for end in ends], axis)
        return float(np.abs(cut.reshape(-1, 8) - value[fine]).max(initial=0.0))

    return max(by_threads(within, len(key)))
