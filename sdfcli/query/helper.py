"""A device that answers queries for a build on another device."""

from __future__ import annotations

from collections.abc import Callable

from sdfcli.backend import Array, Backend
from sdfcli.mesh.mesh import Mesh
from sdfcli.scene import Scene
from sdfcli.sign.choice import SignChoice
from sdfcli.spatial.query_pool import Answer


class DeviceHelper:
    """A Helper (spatial/query_pool.py) with its own trees, built on construction. mesh: from the build's scene."""

    def __init__(self, backend: Backend, mesh: Mesh) -> None:
        self._backend = backend
        own = Mesh(mesh.vertices, mesh.faces).placed(mesh.domain, mesh.unit)
        with backend.active():
            self._index = Scene(backend, own, SignChoice("none", "")).unsigned_index

    def __call__(self, backend: Backend, points: Array, seed: Array) -> Callable[[], Answer]:
        own = self._backend
        with own.active():
            candidates = own.fetch(seed, backend) if self._index.seeds and seed.shape[1] else None
            distance, slot = self._index.nearest(own.fetch(points, backend), candidates)
        return lambda: (backend.fetch(distance, own), backend.fetch(slot, own))
