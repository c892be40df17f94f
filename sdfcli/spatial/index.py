"""(d) Exact distances from points to the mesh, by one of several queries that give the same answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend
from sdfcli.spatial.morton import curve_order, morton_order
from sdfcli.spatial.packets import ask, build_packets, loose_order
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit
from sdfcli.spatial.wide import build_wide


def prepare(backend: Backend, bvh: Bvh, query: str = "fast") -> Bvh:
    """The tree with what a query walks beside child pairs and boxes. query: one of params.QUERIES.

    `baseline` walks nodes of 32 bytes, an array of structures; `fast` a tree of its own.
    """
    if query == "baseline" and bvh.node is None:
        return replace(bvh, node=backend.xp.concatenate([bvh.box, bvh.child.view(np.float32)], axis=1))
    if query == "fast" and backend.warps and bvh.packets is None:
        return replace(bvh, packets=build_packets(backend, bvh.order))
    if query == "fast" and not backend.warps and bvh.wide is None:
        return replace(bvh, wide=build_wide(backend, bvh.order))
    return bvh


def make_bvh(backend: Backend, unit_triangles: npt.NDArray[np.float64]) -> Bvh:
    """A tree over triangles (n, 9), float64 in the unit cube, ready for queries."""
    return prepare(backend, refit(backend, build_bvh(backend, morton_order(backend, unit_triangles))))


def nearest(
    backend: Backend, bvh: Bvh, points: Array, seed: Array | None = None, query: str = "fast"
) -> tuple[Array, Array]:
    """Unsigned distance (m,) float32 and nearest slot (m,) uint32 of points (m, 3) float32 in the unit cube.

    bvh: prepared for the query. seed: (m, k) uint32, slots that are likely to be near, in each row ended by 0xffffffff
    if there are less than k; they only make the query faster. Of equally near triangles the one with the smallest id.
    """
    distance, slot, _, _ = _run(backend, bvh, points, seed, query, counted=False)
    return distance, slot


def order_of(backend: Backend, bvh: Bvh, points: Array) -> Array:
    """(m,) uint32: points that do not come in the order of a curve, in one that is good for the fast query."""
    return curve_order(backend, points) if bvh.packets is None else loose_order(backend, points)


def nearest_in_any_order(backend: Backend, bvh: Bvh, points: Array) -> tuple[Array, Array]:
    """`nearest` by the fast query, for points that do not come in the order of a curve."""
    if bvh.packets is not None:
        distance, slot = backend.xp.empty(len(points), np.float32), backend.xp.empty(len(points), np.uint32)
        ask(backend, bvh.packets, points, distance, slot, along=order_of(backend, bvh, points))
        return distance, slot
    order = order_of(backend, bvh, points)
    answers = nearest(backend, bvh, points[order])
    distance, slot = (backend.xp.empty_like(answer) for answer in answers)
    distance[order], slot[order] = answers
    return distance, slot


def visits(
    backend: Backend, bvh: Bvh, points: Array, seed: Array | None = None, query: str = "fast"
) -> tuple[Array, Array]:
    """How many boxes and how many triangles, (m,) uint32 each, the same query of the same points measures."""
    _, _, boxes, tests = _run(backend, bvh, points, seed, query, counted=True)
    return boxes, tests


def _run(
    backend: Backend, bvh: Bvh, points: Array, seed: Array | None, query: str, counted: bool
) -> tuple[Array, Array, Array, Array]:
    xp, m = backend.xp, len(points)
    distance, slot = xp.empty(m, np.float32), xp.empty(m, np.uint32)
    boxes, tests = (xp.empty(m if counted else 0, np.uint32) for _ in range(2))
    if query == "fast" and bvh.packets is not None:
        counts = {"boxes": boxes, "tests": tests} if counted else {}
        ask(backend, bvh.packets, points, distance, slot, seed=seed, **counts)
        return distance, slot, boxes, tests
    common: dict[str, Any] = {
        "triangles": len(bvh.order),
        "points": points,
        "triangle": bvh.order.triangle,
        "triangle_id": bvh.order.triangle_id,
        "seeds": 0 if seed is None else seed.shape[1],
        "seed": seed,
        "distance": distance,
        "slot": slot,
        "boxes": boxes if counted else None,
        "tests": tests if counted else None,
    }
    if query == "fast":
        wide = bvh.wide
        assert wide is not None
        backend.run(
            "sdf_distance_wide",
            m,
            levels=len(wide.level_start),
            block=wide.block,
            block_slot=wide.block_slot,
            wide_box=wide.box,
            level_start=wide.level_start,
            **common,
        )
    else:
        kernel = f"sdf_distance_{query}{'_counted' if counted else ''}"
        backend.run(kernel, m, node=bvh.node, child=bvh.child, box=bvh.box, **common)
    return distance, slot, boxes, tests
