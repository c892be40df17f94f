"""Warm start: nearest-triangle candidates from an earlier frame (the thesis, Algorithm 1, line 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.scene import Scene
from sdfcli.spatial.morton import Order

LEAVES = ("leaf_key", "leaf_level", "leaf_corner")


class WarmStart:
    """Nearest-triangle candidates, stored at the corners of an earlier frame's octree.

    A point gets the triangle at its nearest octree corner; frames may differ in domain and octree.

    order: this frame's triangles, as many as the earlier frame's. earlier: called on first use; returns the earlier
    frame's arrays for the kernel `sdf_previous`, and its domain's scale and shift.
    """

    def __init__(self, backend: Backend, order: Order, earlier: Callable[[], Mapping[str, Any]]) -> None:
        self.backend, self._order, self._make = backend, order, earlier

    @classmethod
    def from_arrays(cls, backend: Backend, order: Order, arrays: Mapping[str, Array]) -> WarmStart:
        """From an earlier frame's arrays in the same domain, on the device: leaf_key, leaf_level, leaf_corner and
        nearest from `Grown.arrays`. order: as above."""
        own = {name: arrays[name] for name in (*LEAVES, "nearest")}
        return cls(backend, order, lambda: {**own, "scale": 1.0, "shift_x": 0.0, "shift_y": 0.0, "shift_z": 0.0})

    @classmethod
    def of(cls, field: Field, scene: Scene) -> WarmStart | None:
        """A scene's warm start from a field; None if the field's mesh has another triangle count.

        Raises InputError if the field stores no nearest triangles.
        """
        mesh, nearest, count = field.info.get("mesh"), field.nearest, len(scene.order)
        triangles = mesh.get("triangles") if isinstance(mesh, dict) else None
        if triangles is not None and "holes" in field.info:
            triangles += field.info["holes"].get("faces", 0)
        if triangles != count or (nearest is not None and nearest.max() >= count):
            return None
        if nearest is None:
            raise InputError(
                "the previous field stores no nearest triangles; build it with --nearest (in Python nearest=True)"
            )
        backend, domain = scene.backend, scene.mesh.domain
        shift = (domain.origin - field.domain.origin) / field.domain.length

        def earlier() -> dict[str, Any]:
            arrays = field._arrays_on(backend)
            return {
                **{name: arrays[name] for name in LEAVES},
                "nearest": backend.from_host(nearest),
                "scale": domain.length / field.domain.length,
                **{f"shift_{axis}": float(part) for axis, part in zip("xyz", shift, strict=True)},
            }

        return cls(backend, scene.order, earlier)

    @cached_property
    def _earlier(self) -> dict[str, Any]:
        """Kernel arguments that do not depend on the points."""
        earlier, slot_of = self._make(), self.backend.placed(self._order.triangle_id, len(self._order))
        return {"leaves": len(earlier["leaf_key"]), "slot_of": slot_of, **earlier}

    def seeds(self, points: Array) -> Array:
        """Candidate slots (m, 1) uint32 for points (m, 3) float32 in the unit cube."""
        seed = self.backend.xp.empty((len(points), 1), np.uint32)
        self.backend.run("sdf_previous", len(points), points=points, seed=seed, **self._earlier)
        return seed
