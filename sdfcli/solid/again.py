"""The mesh to which a field's distances refer, made again from the mesh as read."""

from __future__ import annotations

from typing import Any

from sdfcli.backend import Backend
from sdfcli.mesh.holes import treated
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import INSIDE, OPEN
from sdfcli.solid.solidify import solid_mesh


def mesh_again(mesh: Mesh, info: dict[str, Any], backend: Backend) -> Mesh:
    """The mesh's solid or the mesh with its holes closed, if the field was built from that; for a room, its free space,
    whose distances have opposite signs, see `is_turned`. info: the field's."""
    if "solid" in info:
        gap = info["solid"]["gap"] / mesh.diagonal
        return solid_mesh(mesh, gap, backend, inside=is_turned(info), tested=False)[0]
    return treated(mesh.on(backend), info.get("parameters", {}).get("holes", OPEN))


def is_turned(info: dict[str, Any]) -> bool:
    """Whether a field's signs are opposite to its mesh's, from `mesh_again`. info: the field's."""
    return bool(info.get("parameters", {}).get("sign") == INSIDE)
