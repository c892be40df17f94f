"""A device that answers queries for a build on another one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend
from sdfcli.mesh.mesh import Mesh
from sdfcli.scene import Scene
from sdfcli.sign.choice import SignChoice
from sdfcli.spatial.crew import Answer


class DeviceHelper:
    """A Helper of spatial/crew.py with trees of its own, made here. mesh: that of the build's scene."""

    def __init__(self, backend: Backend, mesh: Mesh) -> None:
        self._backend = backend
        own = Mesh(mesh.vertices, mesh.faces).placed(mesh.domain, mesh.unit)
        with backend.active():
            self._index = Scene(backend, own, SignChoice("none", "")).unsigned_index

    def __call__(self, points: npt.NDArray[np.float32], seed: npt.NDArray[np.uint32]) -> Answer:
        with self._backend.active():
            candidates = self._backend.from_host(seed) if self._index.seeds and seed.shape[1] else None
            distance, slot = self._index.nearest(self._backend.from_host(points), candidates)
            return self._backend.to_host(distance), self._backend.to_host(slot)
