"""Conversion of a grown octree to a field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sdfcli.backend import Backend
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.grown import Grown

KEPT = ["leaf_key", "leaf_level", "distance"]
"""Arrays that stay on the device: downloaded last, after the others' memory is freed."""


def field_of(
    grown: Grown, backend: Backend, domain: Domain, keep_nearest: bool, beside: bool
) -> tuple[Field, Callable[[], None]]:
    """An octree's field, and a function that waits for its arrays on the host. Before that, the field can only be
    evaluated on the device, which has the arrays, too. Empties `grown.arrays`.

    beside: download asynchronously, concurrently with later work; the arrays then take device memory longer.
    """
    arrays = grown.arrays
    leaf_corner = arrays.pop("leaf_corner")
    if not keep_nearest:
        del arrays["nearest"]
    names = sorted(arrays, key=KEPT.count)
    copy = backend.to_host_async if beside else backend.to_host_now
    copies, wait = copy([arrays[name] for name in names])
    on_host: dict[str, Any] = dict(zip(names, copies, strict=True))
    steps = on_host.pop("steps", None)
    field = Field(domain, **on_host, step=grown.step, parts=grown.parts)
    if steps is not None:
        field.keep_steps(steps)
    kept = {name: arrays.pop(name) for name in ("leaf_key", "leaf_level")}
    field.keep_on(backend, {**kept, "leaf_corner": leaf_corner, "value": arrays.pop("distance")}, wait)
    arrays.clear()
    return field, wait
