"""Fewer faces for a closed mesh, by edge collapses that keep it closed."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from sdfcli.backend import Backend
from sdfcli.errors import DeviceError
from sdfcli.mesh.arrays import Ints
from sdfcli.mesh.mesh import Mesh

AGGRESSIVENESS = (7.0, 7.0, 5.0, 3.0, 7.0, 7.0)
"""Values for fast-simplification, in order, each on the last closed result: lower ones collapse in more passes."""
APART = 1e-3
"""Share of the way to its faces' centres that a duplicated vertex is moved."""
SPARE = 1.02
"""Face count, in requested ones, that ends the attempts."""


def fewer_faces(mesh: Mesh, count: int, backend: Backend) -> Mesh:
    """A closed mesh with about `count` faces, still closed and manifold; more where no attempt gets there.

    Raises DeviceError without fast-simplification.
    """
    try:
        library = import_module("fast_simplification")
    except ImportError as error:
        raise DeviceError("--faces needs fast-simplification: pip install 'sdfcli[solid]'") from error
    center, scale = mesh.bounds.mean(axis=0), mesh.diagonal
    best = mesh
    for aggressiveness in AGGRESSIVENESS:
        points, faces = (best.vertices - center) / scale, best.faces.astype(np.int64)
        vertices, found = library.simplify(points, faces, target_count=count, agg=aggressiveness)
        collapsed = Mesh(np.asarray(vertices, np.float64) * scale + center, np.asarray(found, np.uint32))
        for turn in (0, 1):
            made = separated(collapsed, turn)
            if 4 <= len(made.faces) < len(best.faces) and is_closed(made, backend):
                best = made
        if len(best.faces) <= SPARE * count:
            break
    return best


def separated(mesh: Mesh, turn: int) -> Mesh:
    """A closed oriented mesh without back-to-back faces, whose surface is cut along edges with more than two faces.

    Half-edges of such an edge are paired in order of their faces, or shifted by `turn`; vertices are duplicated where
    their faces are then no longer connected, and moved APART into their faces.
    """
    faces = _without_twins(mesh.faces.astype(np.int64))
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    forward, low, high = start < end, np.minimum(start, end), np.maximum(start, end)
    one, two = (np.flatnonzero(way)[np.lexsort((high[way], low[way]))] for way in (forward, ~forward))
    if len(one) != len(two) or (low[one] != low[two]).any() or (high[one] != high[two]).any():
        return mesh
    group = np.flatnonzero(np.diff(low[one], prepend=-1) | np.diff(high[one], prepend=-1))
    sizes = np.diff(np.append(group, len(one)))
    start_of, size = np.repeat(group, sizes), np.repeat(sizes, sizes)
    two = two[start_of + (np.arange(len(one)) - start_of + turn) % size]
    half = np.arange(len(start))
    after = half - half % 3 + (half + 1) % 3  # the corner at a half-edge's end
    corner = _components(np.concatenate((one, after[one])), np.concatenate((after[two], two)), len(start))
    first, number = np.unique(corner, return_index=True, return_inverse=True)[1:]
    number = number.ravel()
    vertices, source = mesh.vertices[start[first]], start[first]
    copies = np.flatnonzero(np.bincount(source, minlength=len(mesh.vertices))[source] > 1)
    centres = np.repeat(mesh.vertices[faces].mean(axis=1), 3, axis=0)
    for copy in copies:
        vertices[copy] += APART * (centres[number == copy].mean(axis=0) - vertices[copy])
    return Mesh(vertices, number.reshape(-1, 3).astype(np.uint32))


def _without_twins(faces: Ints) -> Ints:
    """Faces (f, 3) without pairs that have the same vertices in opposite orientations."""
    turned = np.argmin(faces, axis=1)[:, None]
    a, b, c = (np.take_along_axis(faces, (turned + k) % 3, axis=1)[:, 0] for k in range(3))
    order = np.lexsort((b > c, np.maximum(b, c), np.minimum(b, c), a))
    key = np.stack((a, np.minimum(b, c), np.maximum(b, c)), axis=1)[order]
    pair = (key[1:] == key[:-1]).all(axis=1) & ((b > c)[order][1:] != (b > c)[order][:-1])
    dropped = np.zeros(len(faces), bool)
    dropped[order[1:][pair]] = dropped[order[:-1][pair]] = True
    return faces[~dropped]


def _components(one: Ints, two: Ints, count: int) -> Ints:
    """The smallest node of each node's component (count,), where nodes `one` and `two` are joined."""
    label = np.arange(count)
    while True:
        least = np.minimum(label[one], label[two])
        before = label.copy()
        np.minimum.at(label, one, least)
        np.minimum.at(label, two, least)
        label = label[label]
        if np.array_equal(label, before):
            return label


def is_closed(mesh: Mesh, backend: Backend) -> bool:
    """Whether every edge has two faces, which agree on the orientation, and no face repeats a vertex."""
    health = mesh.on(backend).health
    wrong = health.open_edges + health.non_manifold_edges + health.inconsistent_edges + health.duplicate_faces
    return not wrong and bool((mesh.faces != np.roll(mesh.faces, 1, axis=1)).all())
