"""The mesh to which a field's distances refer, made again from the mesh as read."""

from __future__ import annotations

from typing import Any

from sdfcli.backend import Backend
from sdfcli.mesh.holes import treated
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import OPEN
from sdfcli.solid.solidify import solid_mesh


def mesh_again(mesh: Mesh, info: dict[str, Any], backend: Backend) -> Mesh:
    """The mesh's solid or the mesh with its holes closed, if the field was built from that. info: the field's."""
    if "solid" in info:
        return solid_mesh(mesh, info["solid"]["gap"] / mesh.diagonal, backend)[0]
    return treated(mesh.on(backend), info.get("parameters", {}).get("holes", OPEN))
