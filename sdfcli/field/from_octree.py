"""Conversion of a grown octree to a field."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from sdfcli.backend import Backend
from sdfcli.field.encoding import Encoded, encode_leaves
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.grown import Grown
from sdfcli.runtime.schedule import Deferred, Schedule

KEPT = ["leaf_key", "leaf_level", "distance"]
"""Arrays that stay on the device: downloaded last, after the others' memory is freed."""


def field_of(
    grown: Grown, backend: Backend, domain: Domain, keep_nearest: bool, concurrent: bool
) -> tuple[Field, Deferred[Encoded], Deferred[None]]:
    """An octree's field, whose arrays wait for their copies; its encoding, which holds its device arrays until it is
    made; and None once all copies have arrived. Until then, the field is evaluated on the device. Empties
    `grown.arrays`.

    concurrent: download while later work runs; the arrays then take device memory longer.
    """
    arrays = grown.arrays
    if not keep_nearest:
        del arrays["nearest"]
    leaf_corner = arrays.pop("leaf_corner")
    names = sorted(arrays, key=KEPT.count)
    copies, arrived = Schedule.to_host(backend, {name: arrays[name] for name in names}, concurrent)
    field = Field(domain, **cast("dict[str, Any]", copies), step=grown.step, parts=grown.parts)
    kept = {"leaf_corner": leaf_corner, **{name: arrays.pop(name) for name in ("leaf_key", "leaf_level")}}
    kept["value"] = arrays.pop("distance")
    field._keep_on(backend, kept)
    arrays.clear()
    field.__dict__["_encoding"] = encoding = Deferred(partial(encode_leaves, backend, kept, grown.step, grown.parts))
    return field, encoding, arrived
