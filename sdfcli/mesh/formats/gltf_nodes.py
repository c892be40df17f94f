"""Nodes in a glTF scene: their visibility, and the matrices that place their contents."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.formats.gltf_data import GltfFile, extension
from sdfcli.mesh.formats.gltf_extensions import HIDING, LEVELS

UNIT, AFFINE = 0.01, 1e-5
"""Maximum error in the length of a rotation quaternion, which bytes round by 0.008, and in a matrix's last row."""

NO_TURN = [0.0, 0.0, 0.0, 1.0]


def tree(file: GltfFile) -> tuple[list[int], list[int]]:
    """A file's nodes, parents before children; and each node's parent, -1 for roots."""
    nodes = file.lists["nodes"]
    parents = [-1] * len(nodes)
    for number, node in enumerate(nodes):
        for child in node.get("children", ()):
            file.item("nodes", child)
            if parents[child] >= 0:
                raise InputError(f"node {child} is below two nodes, {parents[child]} and {number}; glTF allows one")
            parents[child] = number
    order = [number for number, parent in enumerate(parents) if parent < 0]
    for number in order:
        order.extend(nodes[number].get("children", ()))
    if len(order) < len(nodes):
        raise InputError(f"node {min(set(range(len(nodes))) - set(order))} is below itself")
    return order, parents


def shown_nodes(file: GltfFile, order: list[int], parents: list[int], left: Counter[str]) -> list[bool]:
    """Whether each node is visible and in the default scene. A file without scenes shows all nodes."""
    nodes, scenes = file.lists["nodes"], file.lists["scenes"]
    roots = range(len(nodes))
    if scenes or "scene" in file.tree:
        roots = file.item("scenes", file.tree.get("scene", 0)).get("nodes", ())
        for root in roots:
            file.item("nodes", root)
            if parents[root] >= 0:
                raise InputError(f"node {root} is a root of the scene, but below node {parents[root]}")
        if len(set(roots)) < len(roots):
            raise InputError("the scene names a root twice")
    coarse = {level for node in nodes for level in (extension(node, LEVELS) or {}).get("ids", ())}
    starts, shown = set(roots), [False] * len(nodes)
    for number in order:
        within = shown[parents[number]] if parents[number] >= 0 else number in starts
        hidden = (extension(nodes[number], HIDING) or {}).get("visible", True) is False
        left[f"hidden nodes ({HIDING}), with all below them,"] += within and hidden
        left[f"coarser levels of detail ({LEVELS})"] += within and number in coarse
        shown[number] = within and not hidden and number not in coarse
    return shown


def world_matrices(nodes: list[dict[str, Any]], order: list[int], parents: list[int]) -> Floats:
    """Node-to-scene matrices (n, 4, 4)."""
    move, scale = _numbers(nodes, "translation", [0.0] * 3), _numbers(nodes, "scale", [1.0] * 3)
    world = composed(len(nodes), move, _numbers(nodes, "rotation", NO_TURN), scale)
    given = [number for number, node in enumerate(nodes) if "matrix" in node]
    for number in given:
        if nodes[number].keys() & {"translation", "rotation", "scale"}:
            raise InputError(
                f"node {number} has a matrix, and a translation, rotation or scale; glTF allows one of them"
            )
    world[given] = _numbers([nodes[number] for number in given], "matrix", []).reshape(-1, 4, 4).transpose(0, 2, 1)
    if (np.abs(world[:, 3] - [0, 0, 0, 1]) > AFFINE).any():
        raise InputError("the matrix of a node does not end in 0, 0, 0, 1")
    world[:, 3] = 0, 0, 0, 1
    for number in order:
        if parents[number] >= 0:
            world[number] = product(world[parents[number]], world[number])
    return world


def _numbers(entries: list[dict[str, Any]], name: str, default: list[float]) -> Floats:
    """A property's numbers (n, width), one row per entry."""
    width = len(default) or 16
    try:
        found = np.array([entry.get(name, default) for entry in entries], np.float64).reshape(-1, width)
    except ValueError as error:
        raise InputError(f"the {name} of a node is not {width} numbers") from error
    if len(found) != len(entries) or not np.isfinite(found).all():
        raise InputError(f"the {name} of a node is not {width} numbers")
    return found


def composed(count: int, move: Floats | None, turn: Floats | None, scale: Floats | None) -> Floats:
    """Matrices (count, 4, 4) from translations (count, 3), rotations (count, 4) as quaternions x, y, z, w, and scales
    (count, 3). None: identity."""
    found = np.zeros((count, 4, 4))
    found[:, :3, :3] = np.eye(3) if turn is None else _rotations(turn)
    if scale is not None:
        found[:, :3, :3] *= scale[:, None]
    if move is not None:
        found[:, :3, 3] = move
    found[:, 3, 3] = 1
    return found


def _rotations(turn: Floats) -> Floats:
    """Matrices (n, 3, 3) from quaternions (n, 4)."""
    length = np.sqrt((turn * turn).sum(axis=1))
    if not (np.abs(length - 1) <= UNIT).all():
        raise InputError(f"a rotation is a quaternion of length {length[np.abs(length - 1).argmax()]:.3g}, not 1")
    x, y, z, w = (turn / length[:, None]).T
    columns = [
        [1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)],
        [2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)],
        [2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(columns).transpose(2, 1, 0)


def product(a: Floats, b: Floats) -> Floats:
    """Products of matrices (..., 4, 4): the same bits on every machine, unlike BLAS products."""
    found: Floats = (a[..., :, :, None] * b[..., None, :, :]).sum(axis=-2)
    return found


def determinants(matrices: Floats) -> Floats:
    """Determinants (n,) of the matrices' first three rows and columns."""
    a, b, c = (matrices[:, :3, k] for k in range(3))
    found: Floats = (a * np.cross(b, c)).sum(axis=1)
    return found


def at(vertices: Floats, matrices: Floats) -> Floats:
    """Vertices (v, 3) or (k, v, 3) transformed by matrices (k, 4, 4), as (k, v, 3); also without BLAS products."""
    found = np.empty((len(matrices), vertices.shape[-2], 3))
    for axis in range(3):
        row = matrices[:, axis, :, None]
        found[..., axis] = vertices[..., 0] * row[:, 0]
        found[..., axis] += vertices[..., 1] * row[:, 1]
        found[..., axis] += vertices[..., 2] * row[:, 2]
        found[..., axis] += row[:, 3]
    return found
