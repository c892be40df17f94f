"""A field's octree cut at a level, and the overview in its file; see docs/reference/file.md."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.field.blocks import LEVELS, cell_size
from sdfcli.field.field import Field
from sdfcli.octree.corners import corner_keys, leaf_corners

LARGE = 1 << 21
"""Leaves above which a file has an overview: about 1 MB, and several blocks."""
MOST_COARSE, SHARE = 1 << 17, 64
"""Maximum leaves of an overview, and minimum leaves of the field for each of them: an overview's leaf takes about twice
the bytes of the field's."""
OF_ALL_LEAVES = (
    *("sheets", "jump_leaves", "max_error", "rms_error", "error_samples", "error_limit"),
    *("proven_error", "certificate"),
)
"""Entries of `info` about all leaves, not for an overview."""


def is_large(field: Field) -> bool:
    """Whether a field's file has an overview."""
    return field.leaves > LARGE


def overview_of(field: Field) -> Field:
    """A large field's overview, without a stated error; a small field itself."""
    if not is_large(field):
        return field
    coarse = cut(field, min(MOST_COARSE, field.leaves // SHARE))
    info = {name: entry for name, entry in field.info.items() if name not in OF_ALL_LEAVES}
    return replace(coarse, info={**info, "depth": int(coarse.leaf_level.max()), "overview": {"leaves": field.leaves}})


def cut(field: Field, most: int) -> Field:
    """The field's octree, cut at the finest level at which it has at most `most` leaves, and its distances at their
    corners; without `info`. Raises InputError for a damaged field."""
    backend = any_backend()
    key, level = _cut_cells(field.leaf_key, most)
    corner_key = backend.to_host(corner_keys(backend, backend.from_host(key), backend.from_host(level)))
    if field._stored:
        # Its corners are not numbered. A cell's corner is that of its descendant in the same octant at every level.
        value = backend.to_host(field._leaf_values(backend)[1])
        ones = cell_size(level) // np.uint64(7)
        on_device = [backend.from_host(each) for each in (key, level, corner_key)]
        corner, distance = leaf_corners(backend, *on_device), np.empty(len(corner_key), np.float32)
        for c, own in enumerate(backend.to_host(corner).T):
            distance[own] = value[np.searchsorted(field.leaf_key, key + np.uint64(c) * ones, "right") - 1, c]
    else:
        distance = field.distance[np.searchsorted(field.corner_key, corner_key)]
    return Field(field.domain, key, level, corner_key, distance, step=field.step, parts=field.parts)


def _cut_cells(leaf_key: npt.NDArray[np.uint64], most: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Keys (k,) and levels (k,) of an octree's leaves, cut at the finest level at which it has at most `most`. Looks
    up the cells down to there alone among all leaves."""
    key, begin, end = np.zeros(1, np.uint64), np.zeros(1, np.int64), np.full(1, len(leaf_key))
    coarser: list[tuple[npt.NDArray[np.uint64], int]] = []  # leaves
    level, count = 0, 1
    while True:
        split = end - begin > 1
        count += 7 * int(np.count_nonzero(split))
        if level == LEVELS or not split.any() or count > most:
            break
        coarser.append((key[~split], level))
        level += 1
        size = cell_size(np.full(1, level, np.uint8))
        key = key[split, None] + np.arange(8, dtype=np.uint64) * size
        first = np.searchsorted(leaf_key, key)
        begin, end = first.ravel(), np.column_stack((first[:, 1:], end[split])).ravel()
        key = key.ravel()
    coarser.append((key, level))
    keys = np.concatenate([own for own, _ in coarser])
    levels = np.repeat(np.array([level for _, level in coarser], np.uint8), [len(own) for own, _ in coarser])
    order = np.argsort(keys)
    return keys[order], levels[order]
