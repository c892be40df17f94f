"""Follower: what the frames of a moving mesh share while their faces are equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sdfcli.mesh.arrays import Bools, Ints
from sdfcli.mesh.health import Health, degenerate_faces
from sdfcli.mesh.mesh import CONNECTIVITY, Mesh
from sdfcli.mesh.repair import Repaired, oriented
from sdfcli.sign.choice import SignChoice, choose_sign

KEPT = 4
"""Lists of faces whose connectivity is kept: as given, consistently oriented, those that count, and turned outwards."""


class Follower:
    """Carries connectivity and consistent orientation from frame to frame.

    They are made anew for other faces, and where other vertices meet than before. All that depends on positions, as
    which shells point inwards, is decided for each frame.
    """

    def __init__(self) -> None:
        self._followed: tuple[Ints, Ints] | None = None  # faces and `position` of the frame before
        self._known: list[tuple[Ints, dict[str, Any]]] = []
        self._counted: Health | None = None
        self._oriented: tuple[Ints, Bools | None, list[str]] | None = None

    def choose_sign(self, mesh: Mesh, asked: str) -> tuple[Mesh, SignChoice]:
        """See sign/choice.py: the same result, for the next frame's mesh. Its health is counted on the way."""
        own = mesh.faces, mesh.position
        if self._followed is None or not all(map(np.array_equal, self._followed, own)):
            self._known, self._oriented, self._counted = [], None, None
        self._followed = own
        self._share(mesh)
        if self._counted is not None:
            count = degenerate_faces(mesh.unit_triangles, mesh.normals)
            mesh.__dict__["health"] = replace(self._counted, degenerate_faces=count)
        self._counted = mesh.health
        turned, choice = choose_sign(mesh, asked, self._orient)
        self._share(turned)
        return turned, choice

    def _orient(self, mesh: Mesh) -> Repaired:
        if self._oriented is None:
            found = oriented(mesh)
            self._oriented = found.mesh.faces, found.counted, found.notes
        faces, counted, notes = self._oriented
        own = mesh if np.array_equal(faces, mesh.faces) else mesh.with_faces(faces)
        self._share(own)
        repaired = Repaired(own, counted, notes=notes)
        if counted is not None:
            boundary = repaired.__dict__["boundary"] = own.with_faces(own.faces[counted])
            self._share(boundary)
        return repaired

    def _share(self, mesh: Mesh) -> None:
        """Gives a mesh what is known of its faces."""
        for place, (faces, known) in enumerate(self._known):
            if np.array_equal(faces, mesh.faces):
                mesh.__dict__.update(known)
                self._known.append(self._known.pop(place))
                return
        self._known.append((mesh.faces, {name: getattr(mesh, name) for name in CONNECTIVITY}))
        del self._known[:-KEPT]  # other shells may be turned in each frame
