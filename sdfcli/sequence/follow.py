"""Follower: what the frames of a moving mesh share while their faces are equal."""

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

    They are made anew for other faces, and where other vertices meet than before. All that depends on positions, as
    which shells point inwards, is decided for each frame.
    """

    def __init__(self) -> None:
        self._followed: tuple[Faces, npt.NDArray[np.uint32]] | None = None  # faces and `position` of the frame before
        self._edges: Connectivity | None = None
        self._oriented: Repaired | None = None

    def choose_sign(self, mesh: Mesh, asked: str) -> tuple[Mesh, SignChoice]:
        """See sign/choice.py: the same result, for the next frame's mesh. Its health is counted on the way."""
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
