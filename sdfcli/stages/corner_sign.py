"""Signed distances at the corners of an octree, with few winding numbers (see corner_sign.h)."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.stages.cells import Leaves
from sdfcli.stages.sign import BETA, Signer, WindingSigner, wind_alone


def signed_distances(backend: Backend, signer: Signer, tree: Leaves, distance: Array, slot: Array) -> Array:
    """The distances (m,) float32 of an octree's corners with the signs that the signer gives them; maybe in place."""
    xp, m = backend.xp, len(distance)
    if not isinstance(signer, WindingSigner):
        return xp.where(signer.inside(tree.position, slot), -distance, distance)
    index = signer.index  # before what links take: it may have to be made
    link, winding = xp.zeros(m, np.uint64), xp.empty(m, np.float32)
    backend.run(
        "sdf_sign_links",
        len(tree.cell),
        cell=tree.cell,
        point=tree.point,
        distance=distance,
        clear=None if signer.caps is None else signer.cap_groups.room(backend, tree.position),
        link=link,
    )
    if backend.warps:
        wind_alone(backend, index, tree.position, winding, BETA, link, signer.caps)
    else:
        root = xp.flatnonzero(link == 0)
        winding[root] = signer.inside(tree.position[root], slot[root])
    backend.run("sdf_sign_spread", m, link=link, winding=winding, distance=distance)
    return distance
