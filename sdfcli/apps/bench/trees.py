"""Binary trees under the thesis's queries, and measures of their quality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, C
from sdfcli.errors import UsageError
from sdfcli.spatial.morton import Order
from sdfcli.spatial.ploc import build_ploc
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit

BUILDERS = ("radix", "ploc")
"""`radix`: Karras 2012, the thesis's. `ploc`: locally-ordered clustering (Meister and Bittner 2018)."""


def check_builder(builder: str) -> None:
    """Raises UsageError for a name not in BUILDERS."""
    if builder not in BUILDERS:
        raise UsageError(f"--builder {builder}: use {', '.join(BUILDERS)}")


def build_tree(backend: Backend, order: Order, builder: str) -> Bvh:
    """A tree over triangles, by one of BUILDERS."""
    return refit(backend, build_bvh(backend, order)) if builder == "radix" else build_ploc(backend, order)


@dataclass(frozen=True)
class TreeQuality:
    """A tree's quality.

    sah      cost by the surface area heuristic: the surface of all nodes' boxes, leaves' too, over the root's.
    overlap  surface of siblings' common boxes over that of their parents' boxes, all summed.
    levels   of inner nodes.
    """

    sah: float
    overlap: float
    levels: int


def quality(backend: Backend, bvh: Bvh) -> TreeQuality:
    """Measures a tree, in float64 on the host."""
    child, inner = backend.to_host(bvh.child).astype(np.int64), backend.to_host(bvh.box).astype(np.float64)
    corner = backend.to_host(bvh.order.triangle).reshape(-1, 3, 3).astype(np.float64)
    if not len(child):
        return TreeQuality(1.0, 0.0, 0)
    leaf = np.concatenate([corner.min(axis=1) - C.BOX_MARGIN, corner.max(axis=1) + C.BOX_MARGIN], axis=1)
    box = np.concatenate([inner, leaf])
    row = np.where(child < C.LEAF, child, len(child) + child - C.LEAF)
    left, right = box[row[:, 0]], box[row[:, 1]]
    common = np.concatenate([np.maximum(left[:, :3], right[:, :3]), np.minimum(left[:, 3:], right[:, 3:])], axis=1)
    surface = _surface(box)
    nodes, levels = np.zeros(1, np.int64), 0
    while len(nodes):
        below = child[nodes].ravel()
        nodes, levels = below[below < C.LEAF], levels + 1
    return TreeQuality(
        sah=float(surface.sum() / surface[0]),
        overlap=float(_surface(common).sum() / surface[: len(child)].sum()),
        levels=levels,
    )


def _surface(box: Array) -> Any:
    """Half the surface of boxes (n, 6); 0 for empty ones."""
    x, y, z = (box[:, 3:] - box[:, :3]).T
    empty = (x < 0) | (y < 0) | (z < 0)
    return np.where(empty, 0, x * y + y * z + z * x)
