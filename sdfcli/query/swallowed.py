"""Solids of a field that lie wholly within a posed mesh, so that no two surfaces meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sdfcli.backend import Backend
from sdfcli.field.device_field import DeviceField
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.query.mesh_distance import MeshDistance

MOST_QUERIED = 1 << 20
"""Maximum (pose, piece) pairs tested together."""


@dataclass(frozen=True)
class Pieces:
    """The connected pieces of a field's inside, each represented by its deepest leaf corner.

    point  (k, 3) float64, in field units.
    depth  (k,) float64, positive.
    """

    point: Floats
    depth: Floats


@dataclass(frozen=True)
class Swallowed:
    """Poses at which a mesh holds a piece of a field's inside, each with the piece that lies deepest in it.

    pose      (s,) int64, ascending.
    depth     (s,) float64: minimum distance that the mesh must move to have the whole ball around the piece's deepest
              point outside.
    inner     (s,) float64: the part of `depth` within the piece, from the field.
    point     (s, 3) float64: the point on the posed mesh nearest to the piece's deepest point.
    normal    (s, 3) float64: unit vectors, the direction in which the mesh moves out.
    triangle  (s,) int64.
    """

    pose: Ints
    depth: Floats
    inner: Floats
    point: Floats
    normal: Floats
    triangle: Ints


_PIECES: WeakKeyDictionary[DeviceField, Pieces] = WeakKeyDictionary()


def pieces_of(field: Field, backend: Backend) -> Pieces:
    """A field's pieces, cached with its arrays on the device."""
    key = field._on_device(backend)
    if key not in _PIECES:
        _PIECES[key] = _pieces(field, backend)
    return _PIECES[key]


def _pieces(field: Field, backend: Backend) -> Pieces:
    arrays, corners = field._arrays_on(backend), field.corners
    parent = backend.xp.arange(corners, dtype=np.uint32)
    leaf_corner, value = arrays["leaf_corner"], arrays["value"]
    backend.run("sdf_pieces_join", len(leaf_corner), leaf_corner=leaf_corner, value=value, parent=parent)
    backend.run("sdf_shell_roots", corners, state=None, welded=None, parent=parent, number=None)
    distance = backend.to_host(value)
    inside = np.flatnonzero(distance < 0)
    root = backend.to_host(parent)[inside]
    order = np.lexsort((distance[inside], root))
    deepest = inside[order[np.flatnonzero(np.diff(root[order], prepend=-1))]]
    key = backend.to_host(field._corner_keys_on(backend)[backend.from_host(deepest)])
    point = field.domain.origin + lattice_position(key) * field.domain.length
    return Pieces(point, -distance[deepest].astype(np.float64))


def swallowed(solid: MeshDistance, pieces: Pieces, poses: Floats, scales: Floats) -> Swallowed:
    """Finds the poses (t, 4, 4), with scales (t,) from `checked_poses`, whose posed mesh has a piece within.

    A mesh without an inside holds nothing.
    """
    low, high = solid.mesh.bounds
    found: list[tuple[Any, ...]] = []
    batch = max(1, MOST_QUERIED // max(1, len(pieces.depth)))
    for first in range(0, len(poses), batch):
        part, scale = poses[first : first + batch], scales[first : first + batch]
        turn = part[:, :3, :3] / scale[:, None, None] ** 2
        away = pieces.point[None] - part[:, None, :3, 3]
        # Fixed summation order: einsum's depends on the CPU.
        x, y, z = (away[:, :, k, None] * turn[:, None, k] for k in range(3))
        at = x + y + z
        pose, piece = np.nonzero(((at > low) & (at < high)).all(axis=2))
        if len(pose) == 0 or solid.sign.method == "none":
            continue
        asked = at[pose, piece]
        within = -solid.signed_distance(asked) * scale[pose]
        held, inner = within > 0, pieces.depth[piece]
        found.append((pose[held] + first, (within + inner)[held], inner[held], asked[held]))
    if not found:
        none, nowhere = np.empty(0), np.empty((0, 3))
        return Swallowed(none.astype(np.int64), none, none, nowhere, nowhere, none.astype(np.int64))
    pose, depth, inner, asked = (np.concatenate([each[k] for each in found]) for k in range(4))
    order = np.lexsort((-depth, pose))
    deepest = order[np.diff(pose[order], prepend=-1) > 0]
    pose, asked = pose[deepest], asked[deepest]
    near, triangle = solid.closest(asked)
    point = _posed(poses[pose], near)
    way = _posed(poses[pose], asked) - point
    normal = way / np.linalg.norm(way, axis=1, keepdims=True)
    return Swallowed(pose, depth[deepest], inner[deepest], point, normal, triangle)


def _posed(poses: Floats, points: Floats) -> Floats:
    """Points (s, 3) transformed by poses (s, 4, 4)."""
    turned: Floats = sum(poses[:, :3, k] * points[:, k, None] for k in range(3)) + poses[:, :3, 3]
    return turned
