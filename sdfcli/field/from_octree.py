"""Field from a grown octree."""

from __future__ import annotations

from typing import Any

from sdfcli.backend import Backend
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.grown import Grown


def field_of(grown: Grown, backend: Backend, domain: Domain, keep_nearest: bool) -> Field:
    """The field of an octree. Its arrays are copied to the host, and kept on the device. Empties `grown.arrays`."""
    arrays = grown.arrays
    leaf_corner, steps = arrays.pop("leaf_corner"), arrays.pop("steps", None)
    if not keep_nearest:
        del arrays["nearest"]
    on_host: dict[str, Any] = {name: backend.to_host(array) for name, array in arrays.items()}
    field = Field(domain, **on_host, step=grown.step, parts=grown.parts)
    if steps is not None:
        field.keep_steps(backend.to_host(steps))
    field.keep_on(
        backend,
        leaf_key=arrays.pop("leaf_key"),
        leaf_level=arrays.pop("leaf_level"),
        leaf_corner=leaf_corner,
        value=arrays.pop("distance"),
    )
    arrays.clear()
    return field
