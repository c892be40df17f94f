"""A field's leaves and distances for a page: lists as in its file, in one deflated block."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import any_backend
from sdfcli.errors import UsageError
from sdfcli.field.blocks import MOST_LEAVES
from sdfcli.field.coarse import cut
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import PIECE, by_threads
from sdfcli.params import PAGE_LEAVES, whole

LEAST_LEAVES = 4096
"""Minimum of the maximum leaf count."""
STREAMED, SHARE = 1 << 17, 16
"""Leaves above which a page shows the octree cut at a level first, and minimum leaves of the field for each of its."""


@dataclass(frozen=True)
class PackedLists:
    """A field's lists, see docs/reference/commands/view.md.

    content  the lists' bytes, one after the other, each byte plane by byte plane, deflated (zlib).
    lists    (name, bytes per entry, entries) in their order.
    step     distance step of a part of the residuals, in mesh units; None for distances.
    parts    parts per step.
    """

    content: bytes
    lists: list[tuple[str, int, int]]
    step: float | None
    parts: int


@dataclass(frozen=True)
class PageData:
    """A field for a page.

    whole       its lists.
    coarse      lists of its octree cut at a level, shown before; None if it is small.
    leaves      leaf count.
    depth       finest level.
    difference  maximum difference from the field, anywhere in its domain, in mesh units; 0 unless levels are cut.
    """

    whole: PackedLists
    coarse: PackedLists | None
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
    shown = field if field.leaves <= most else cut(field, most)
    return PageData(
        whole=packed_lists(shown),
        coarse=packed_lists(cut(shown, shown.leaves // SHARE)) if shown.leaves > STREAMED else None,
        leaves=shown.leaves,
        depth=int(shown.leaf_level.max()),
        difference=0.0 if shown is field else _difference(field, shown),
    )


def packed_lists(field: Field) -> PackedLists:
    """A field's lists. Raises InputError for a damaged field."""
    encoded = field._encoded
    planes = [np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1).T for each in encoded.lists.values()]
    return PackedLists(
        content=zlib.compress(b"".join(each.tobytes() for each in planes), 9),
        lists=[(name, *each.shape) for name, each in zip(encoded.lists, planes, strict=True)],
        step=encoded.step,
        parts=encoded.parts if "residual_part" in encoded.lists else 1,
    )


def _difference(field: Field, shown: Field) -> float:
    """Maximum difference between a field and one with its octree cut: both are trilinear in a leaf, so it is at a
    corner."""
    backend = any_backend()
    corner, value = field._leaf_values(backend)
    key, level, cut_key, finest = field.leaf_key, field.leaf_level, shown.leaf_key, shown.leaf_level.max()
    arrays = shown._arrays_on(backend)
    cut_value = np.ascontiguousarray(backend.to_host(arrays["value"])[backend.to_host(arrays["leaf_corner"]).T])

    def piece(part: slice) -> float:
        # Corners before leaves, so that NumPy's inner loops are long.
        fine = np.flatnonzero(level[part] > finest) + part.start  # the other leaves are not cut
        cell = np.searchsorted(cut_key, key[fine], side="right") - 1
        low = lattice_position(key[fine] - cut_key[cell]).T * np.ldexp(1.0, int(finest))  # in cells
        ends = low, low + np.ldexp(1.0, int(finest) - level[fine].astype(np.int64))
        found: Any = cut_value[:, cell].reshape(2, 2, 2, -1).astype(np.float64)
        for axis, k in ((2, 0), (1, 1), (0, 2)):
            one, other = np.split(found, 2, axis)
            found = np.concatenate([one + (other - one) * end[k] for end in ends], axis)
        own = value[fine] if corner is None else value[corner[fine]]
        return float(np.abs(found.reshape(8, -1) - own.T).max(initial=0.0))

    def within(part: slice) -> float:
        firsts = range(part.start, part.stop, PIECE)
        return max(piece(slice(first, min(first + PIECE, part.stop))) for first in firsts)

    return max(by_threads(within, len(key)))
