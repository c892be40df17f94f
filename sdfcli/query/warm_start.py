"""Warm start: candidates for nearest triangles from an earlier frame (the thesis, Algorithm 1, line 6)."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.scene import Scene
from sdfcli.spatial.morton import Order


class WarmStart:
    """Candidates for nearest triangles: those stored at the corners of an earlier frame's field.

    A point takes the triangle of the field's corner nearest to it; frames may differ in domain and octree.

    Raises InputError where the previous field stores no nearest triangles.
    """

    def __init__(self, backend: Backend, field: Field, domain: Domain, order: Order) -> None:
        if field.nearest is None:
            raise InputError(
                "the previous field stores no nearest triangles; build it with --nearest (in Python keep_nearest=True)"
            )
        self.backend = backend
        self.slot_of = backend.xp.empty(len(order), np.uint32)
        self.slot_of[order.triangle_id] = backend.xp.arange(len(order), dtype=np.uint32)
        arrays = field.on(backend)
        self.leaves = {name: arrays[name] for name in ("leaf_key", "leaf_level", "leaf_corner")}
        self.nearest = backend.from_host(field.nearest)
        self.scale = domain.length / field.domain.length
        self.shift = (domain.origin - field.domain.origin) / field.domain.length

    @staticmethod
    def of(field: Field, scene: Scene) -> WarmStart | None:
        """The warm start of a scene; None where the field is of a mesh with another number of triangles."""
        mesh = field.info.get("mesh")
        triangles, order = mesh.get("triangles") if isinstance(mesh, dict) else None, scene.order
        if triangles != len(order) or (field.nearest is not None and field.nearest.max() >= len(order)):
            return None
        return WarmStart(scene.backend, field, scene.mesh.domain, order)

    def seeds(self, points: Array) -> Array:
        """Slots (m, 1) uint32 of candidates for points (m, 3) float32 in the unit cube."""
        seed = self.backend.xp.empty((len(points), 1), np.uint32)
        self.backend.run(
            "sdf_previous",
            len(points),
            points=points,
            leaves=len(self.leaves["leaf_key"]),
            scale=self.scale,
            shift_x=self.shift[0],
            shift_y=self.shift[1],
            shift_z=self.shift[2],
            nearest=self.nearest,
            slot_of=self.slot_of,
            seed=seed,
            **self.leaves,
        )
        return seed
