"""Signed distances at the corners of an octree, with few winding numbers (see sign/corners.h)."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.octree.cells import Corners
from sdfcli.sign.signer import Signer
from sdfcli.sign.winding import BETA, WindingSigner, wind_alone


def room_of(backend: Backend, signer: Signer, tree: Corners) -> Array | None:
    """(m,) float32: how far around an octree's corners signs change at the surface alone; None: everywhere."""
    if not isinstance(signer, WindingSigner) or signer.caps is None:
        return None
    return signer.cap_groups.room(backend, tree.position)


def signed_distances(
    backend: Backend, signer: Signer, tree: Corners, distance: Array, slot: Array, room: Array | None = None
) -> Array:
    """The distances (m,) float32 of an octree's corners with the signs that the signer gives them; maybe in place.

    room: what `room_of` gives, where that is known already.
    """
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
        clear=room_of(backend, signer, tree) if room is None else room,
        link=link,
    )
    if backend.warps:
        wind_alone(backend, index, tree.position, winding, BETA, link, signer.caps)
    else:
        root = xp.flatnonzero(link == 0)
        winding[root] = signer.inside(tree.position[root], slot[root])
    backend.run("sdf_sign_spread", m, link=link, winding=winding, distance=distance)
    return distance
