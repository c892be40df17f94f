"""Encoded: a field's lists as its file has them, with their checksums; see docs/reference/file.md."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import any_backend
from sdfcli.field.blocks import Blocks, encode, unsigned
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
    """Encodes a field: in steps if it has any and they restore its distances exactly, else as distances."""
    backend = any_backend()
    leaf_corner, value = field._leaf_values(backend)
    leaves = field.leaf_key, backend.from_host(np.ascontiguousarray(field.leaf_level, np.uint8)), leaf_corner, value
    lists: dict[str, npt.NDArray[Any]] = {"leaf_level": np.ascontiguousarray(field.leaf_level, np.uint8)}
    blocks, steps, exact = encode(backend, *leaves, field.step)
    if not exact:
        blocks, steps, _ = encode(backend, *leaves, None)
    if field.step is None or not exact:
        return Encoded(blocks, {**lists, "distance": steps}, None, 1)
    if field.parts == 1:
        return Encoded(blocks, {**lists, "residual": unsigned(steps)}, field.step, 1)
    whole = (steps + np.int32(field.parts // 2)) // np.int32(field.parts)
    lists |= {"residual": unsigned(whole), "residual_part": unsigned(steps - whole * np.int32(field.parts))}
    return Encoded(blocks, lists, field.step, field.parts)
