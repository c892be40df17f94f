"""(d) Exact distances from points to the mesh."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.bvh import Bvh


def nearest(backend: Backend, bvh: Bvh, points: Array, seed: Array | None = None) -> tuple[Array, Array]:
    """Unsigned distance (m,) float32 and nearest slot (m,) uint32 of points (m, 3) float32 in the unit cube.

    seed: (m, 8) uint32, slots that are likely to be near, ended by 0xffffffff; they only make the query faster.
    """
    xp, m = backend.xp, len(points)
    distance, slot = xp.empty(m, np.float32), xp.empty(m, np.uint32)
    common = {
        "triangles": len(bvh.order),
        "points": points,
        "triangle_id": bvh.order.triangle_id,
        "seed": seed,
        "distance": distance,
        "slot": slot,
    }
    if bvh.wide is None:
        backend.run("sdf_distance_cct", m, triangle=bvh.order.triangle, child=bvh.child, box=bvh.box, **common)
    else:
        wide = bvh.wide
        backend.run(
            "sdf_distance_wide",
            m,
            levels=len(wide.level_start),
            triangle=bvh.order.triangle,
            block=wide.block,
            block_slot=wide.block_slot,
            wide_box=wide.box,
            level_start=wide.level_start,
            **common,
        )
    return distance, slot
