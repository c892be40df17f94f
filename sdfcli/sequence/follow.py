"""Follower: data shared by a moving mesh's frames while their faces are equal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdfcli.mesh.arrays import Faces
from sdfcli.mesh.connectivity import Connectivity
from sdfcli.mesh.mesh import Mesh
from sdfcli.mesh.repair import Repaired, oriented
from sdfcli.sign.choice import SignChoice, choose_sign


class Follower:
    """Carries connectivity and consistent orientation from frame to frame.

    Both are recomputed if the faces change, or if different vertices coincide. Everything that depends on positions,
    such as which shells point inwards, is decided per frame.
    """

    def __init__(self) -> None:
        self._followed: tuple[Faces, npt.NDArray[np.uint32]] | None = None  # previous frame's faces and `position`
        self._edges: Connectivity | None = None
        self._oriented: Repaired | None = None

    def choose_sign(self, mesh: Mesh, asked: str) -> tuple[Mesh, SignChoice]:
        """The result of `choose_sign` in sign/choice.py for the next frame's mesh; also computes its health."""
        own = mesh.faces, mesh.backend.to_host(mesh.position)
        if self._followed is None or not all(map(np.array_equal, self._followed, own)):
            self._edges, self._oriented = None, None
        self._followed = own
        if self._edges is not None:
            mesh.__dict__["connectivity"] = self._edges
        self._edges = mesh.connectivity
        _ = mesh.health
        return choose_sign(mesh, asked, self._orient)

    def _orient(self, mesh: Mesh) -> Repaired:
        if self._oriented is None:
            self._oriented = oriented(mesh)
        return self._oriented.following(mesh)
