"""Temporal coherence: queries start from what was nearest in an earlier frame (the thesis, Algorithm 1, line 6)."""

from __future__ import annotations

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.scene import Scene
from sdfcli.spatial.morton import Order


class WarmStart:
    """Where to start from in a mesh that has moved a little: the triangles nearest to an earlier field's corners.

    Frames need not have the same domain or octree: a point starts from the triangle of the corner nearest to it.

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
        """For a scene with as many triangles as the earlier field is of; else None."""
        mesh = field.info.get("mesh")
        triangles, order = mesh.get("triangles") if isinstance(mesh, dict) else None, scene.order
        if triangles != len(order) or (field.nearest is not None and field.nearest.max() >= len(order)):
            return None
        return WarmStart(scene.backend, field, scene.mesh.domain, order)

    def seeds(self, points: Array) -> Array:
        """(m, 1) uint32: for points (m, 3) float32 in the unit cube, a slot each that is likely to be near."""
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
