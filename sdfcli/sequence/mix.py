"""A field between two others in one domain, on the union of their octrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.field.field import Field, lattice_position
from sdfcli.octree.corners import corner_keys

KEPT = ("parameters", "sign", "verdict")
"""Entries of `info` that a mix inherits if both fields agree."""


def mix(one: Field, two: Field, share: float, bound: float | None = None) -> Field:
    """The field (1 - share) one + share two, for fields in one domain.

    Each leaf is the smaller of the two at its location. Both fields are trilinear within, and so is the result: exact
    except for rounding its values to float32.

    bound: maximum difference from distances to the mesh in between, apart from both fields' errors; None: unknown, and
    the mix states no error.
    """
    key, level = union(one, two)
    backend = any_backend()
    corner = backend.to_host(corner_keys(backend, backend.from_host(key), backend.from_host(level)))
    value = (1 - share) * _at_corners(one, corner) + share * _at_corners(two, corner)
    return Field(one.domain, key, level, corner, value.astype(np.float32), info=_info(one, two, share, bound))


def union(one: Field, two: Field) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Leaf keys (n,) and levels (n,) in the union of two octrees."""
    key = np.union1d(one.leaf_key, two.leaf_key)
    levels = [each.leaf_level[np.searchsorted(each.leaf_key, key, "right") - 1] for each in (one, two)]
    return key, np.maximum(*levels)


def _at_corners(field: Field, key: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """A field's values (m,) at corners (m,): stored ones where present, else interpolated."""
    place = np.minimum(np.searchsorted(field.corner_key, key), len(field.corner_key) - 1)
    value = field.distance[place].astype(np.float64)
    other = np.flatnonzero(field.corner_key[place] != key)
    value[other] = field.sample(field.domain.origin + lattice_position(key[other]) * field.domain.length)
    return value


def _info(one: Field, two: Field, share: float, bound: float | None) -> dict[str, Any]:
    """Entries on which both fields agree, the mix's sources, either field's faults, and the error."""
    same = {name: one.info[name] for name in KEPT if name in one.info and one.info[name] == two.info.get(name)}
    units = {each.info.get("mesh", {}).get("units") for each in (one, two)} - {None}
    if len(units) == 1:
        same["mesh"] = {"units": units.pop()}
    info = {**same, "between": [frame.content_sha256 for frame in (one, two)], "share": share}
    if "doubtful" in (one.info.get("verdict"), two.info.get("verdict")):
        info["verdict"] = "doubtful"
    if jumps := max(each.info.get("jump_leaves", 0) for each in (one, two)):
        info["jump_leaves"] = jumps
    if "none" in (one.info.get("sign"), two.info.get("sign")):
        info["sign"] = "none"
    if bound is not None and "parameters" in same:
        stated = max(same["parameters"]["tolerance"], one.info["max_error"], two.info["max_error"])
        moved = bound / one.unit
        # Near the band's border, the distance, and so the error, may be larger in one of the frames.
        info["max_error"] = stated * (1 + moved / same["parameters"]["band"]) + moved
    return info
