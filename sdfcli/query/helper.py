"""A device that answers queries for a build on another one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdfcli.backend import Array, Backend
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

    def __call__(self, backend: Backend, points: Array, seed: Array) -> Callable[[], Answer]:
        own, index, known = self._backend, self._index, bool(self._index.seeds and seed.shape[1])
        if known and own.reaches(backend):
            distance, slot = (backend.xp.empty(len(points), dtype) for dtype in (np.float32, np.uint32))
            own.follow(backend)
            with own.active():
                index.answer(points, distance, slot, seed)

            def answered() -> Answer:
                backend.follow(own)
                return distance, slot

            return answered
        with own.active():
            there = index.nearest(own.fetch(points, backend), own.fetch(seed, backend) if known else None)
        return lambda: (backend.fetch(there[0], own), backend.fetch(there[1], own))
