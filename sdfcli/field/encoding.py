"""Encoded: a field's lists as its file has them, with their checksums; see docs/reference/file.md."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, any_backend
from sdfcli.field.blocks import Blocks, check_leaves, code, encode
from sdfcli.field.stored import chunk_sums
from sdfcli.mesh.mesh import Domain

if TYPE_CHECKING:
    from sdfcli.field.field import Field


@dataclass(frozen=True)
class Encoded:
    """A field's leaves and distances in a file.

    lists  leaf_level, and residual, residual_part or distance, by name.
    step   of a part of the residuals' steps, in mesh units; None for distances.
    parts  per step.
    """

    blocks: Blocks
    lists: dict[str, npt.NDArray[Any]]
    step: float | None
    parts: int

    @cached_property
    def sums(self) -> npt.NDArray[np.uint8]:
        """SHA-256 (c, 32) of the lists' chunks."""
        return np.concatenate([chunk_sums(each) for each in self.lists.values()])

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that the distances need."""
        found: dict[str, Any] = {}
        if self.step is not None:
            found["distance_step"] = self.parts * self.step
        if "residual_part" in self.lists:
            found["distance_parts"] = self.parts
        return found


def content_sha256(
    domain: Domain, attributes: dict[str, Any], table: npt.NDArray[np.uint32], sums: npt.NDArray[np.uint8]
) -> str:
    """Hexadecimal SHA-256 over all that determines a field, by the checksums of its lists' chunks.

    attributes: Encoded's. table: of Blocks. sums: (c, 32).
    """
    numbers = [*domain.origin, domain.length, attributes.get("distance_step", 0.0), attributes.get("distance_parts", 1)]
    digest = hashlib.sha256(np.array(numbers, "<f8").tobytes())
    digest.update(np.ascontiguousarray(table, "<u4").data)
    digest.update(np.ascontiguousarray(sums).data)
    return digest.hexdigest()


def encode_field(field: Field) -> Encoded:
    """Encodes a field on the host's device. Raises InputError unless its leaves fill the domain."""
    backend = any_backend()
    key, level = field.leaf_key, np.ascontiguousarray(field.leaf_level, np.uint8)
    check_leaves(key, level)
    leaf_corner, value = field._leaf_values(backend)
    arrays = {"leaf_key": backend.from_host(key), "leaf_level": backend.from_host(level)}
    arrays |= {"leaf_corner": leaf_corner, "value": value}
    return encode_leaves(backend, arrays, field.step, field.parts)


def encode_leaves(backend: Backend, arrays: dict[str, Array], step: float | None, parts: int) -> Encoded:
    """Encodes a field's leaves: in steps if it has any and they restore its distances exactly, else as distances.

    arrays: leaf_key (n,) uint64, leaf_level (n,) uint8; leaf_corner (n, 8) uint32 and value (m,) float32, or None and
    value (n, 8); on the backend. The leaves must fill the domain, in Morton order.
    """
    lists: dict[str, npt.NDArray[Any]] = {"leaf_level": backend.to_host(arrays["leaf_level"])}
    blocks, steps, exact = encode(backend, **arrays, step=step)
    if not exact:
        blocks, steps, _ = encode(backend, **arrays, step=None)
    if step is None or not exact:
        lists["distance"] = np.concatenate([backend.to_host(each) for each in steps]).view(np.float32)
        return Encoded(blocks, lists, None, 1)
    return Encoded(blocks, lists | code(backend, steps, parts), step, parts)
