"""Conversion of a grown octree to a field."""

from __future__ import annotations

from typing import Any

from sdfcli.backend import Backend
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.grown import Grown
from sdfcli.runtime.schedule import Deferred, Schedule

KEPT = ["leaf_key", "leaf_level", "leaf_corner", "distance"]
"""Arrays that stay on the device: downloaded last, after the others' memory is freed."""


def field_of(
    grown: Grown, backend: Backend, domain: Domain, keep_nearest: bool, concurrent: bool
) -> tuple[Field, Deferred[None]]:
    """An octree's field, whose arrays wait for their copies, and None once all have arrived. Until then, the field is
    evaluated on the device, which has the arrays, too. Empties `grown.arrays`.

    concurrent: download while later work runs; the arrays then take device memory longer.
    """
    arrays = grown.arrays
    if not keep_nearest:
        del arrays["nearest"]
    names = sorted(arrays, key=KEPT.count)
    copies, arrived = Schedule.to_host(backend, {name: arrays[name] for name in names}, concurrent)
    on_host: dict[str, Any] = {**copies}
    leaf_corner = on_host.pop("leaf_corner")
    field = Field(domain, **on_host, step=grown.step, parts=grown.parts)
    field._defer(_leaf_corner=leaf_corner)
    kept = {name: arrays.pop(name) for name in ("leaf_key", "leaf_level", "leaf_corner")}
    field._keep_on(backend, {**kept, "value": arrays.pop("distance")})
    arrays.clear()
    return field, arrived
