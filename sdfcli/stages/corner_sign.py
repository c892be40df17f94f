"""Signed distances at the corners of an octree, with few winding numbers (see corner_sign.h)."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.cells import Leaves
from sdfcli.stages.packets import WARP
from sdfcli.stages.sign import BETA, MOST_WARPS, Signer, WindingSigner


def signed_distances(backend: Backend, signer: Signer, tree: Leaves, distance: Array, slot: Array) -> Array:
    """The distances (m,) float32 of an octree's corners with the signs that the signer gives them; maybe in place."""
    xp, m = backend.xp, len(distance)
    if not isinstance(signer, WindingSigner):
        return xp.where(signer.inside(tree.position, slot), -distance, distance)
    link, winding = xp.zeros(m, np.uint64), xp.empty(m, np.float32)
    backend.run(
        "sdf_sign_links",
        len(tree.cell),
        cell=tree.cell,
        point=tree.point,
        distance=distance,
        clear=signer.room(tree.position),
        link=link,
    )
    if backend.warps:
        _ask_by_warps(backend, signer, tree.position, link, winding)
    else:
        root = xp.flatnonzero(link == 0)
        winding[root] = signer.inside(tree.position[root], slot[root])
    backend.run("sdf_sign_spread", m, link=link, winding=winding, distance=distance)
    return distance


def _ask_by_warps(backend: Backend, signer: WindingSigner, points: Array, link: Array, winding: Array) -> None:
    """Fills in the winding numbers (m,) float32 of points (m, 3) along a curve that have no link. Nothing waits for how
    many these are."""
    xp, m = backend.xp, len(points)
    end, root = xp.empty(m, np.uint32), xp.empty(m, np.uint32)
    backend.run("sdf_sign_alone", m, link=link, alone=end)
    backend.inclusive_scan(end)
    backend.run("sdf_sign_roots", m, link=link, end=end, root=root)
    bvh, count = signer.index.bvh, end[-1:]
    backend.run(
        "sdf_winding_packet",
        WARP * min(MOST_WARPS, -(-m // WARP)),
        triangles=len(bvh.order),
        count=count,
        order=root,
        points=points,
        triangle=bvh.order.triangle,
        child=bvh.child,
        moments=signer.index.moments,
        beta=BETA,
        winding=winding,
    )
    signer.add_caps(points, root, count, winding)
