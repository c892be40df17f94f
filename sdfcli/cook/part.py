"""Part: a collision mesh of an asset, and Cooked, the files that a target makes of its field."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

NAME_LENGTH = 60
"""Maximum characters of a name."""


def part_name(text: str, taken: Container[str] = ()) -> str:
    """A name for a part's files: letters, digits, `_` and `-`, numbered where `taken` has it. taken: in lower case, as
    some file systems see names."""
    name = first = re.sub(r"[^A-Za-z0-9_-]+", "_", text)[:NAME_LENGTH].strip("_") or "part"
    number = 1
    while name.lower() in taken:
        number += 1
        name = f"{first}_{number}"
    return name


@dataclass(frozen=True)
class Part:
    """A collision mesh, in its shape's frame, with all scales applied, in metres.

    name      unique in the asset: letters, digits, `_` and `-`, for file names.
    vertices  (v, 3) float64.
    faces     (f, 3) int64; turned round where the scales mirror the mesh, so that they stay outward.
    place     where the asset names it, for messages: `robot.urdf: link arm, collision 2`.
    source    the mesh file, or the asset for meshes within it.
    scale     of a prim in USD, from its float32 points to the vertices; None for other meshes.
    """

    name: str
    vertices: npt.NDArray[np.float64]
    faces: npt.NDArray[np.int64]
    place: str
    source: str
    scale: tuple[float, float, float] | None = None

    @cached_property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 over vertices and faces."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vertices, "<f8").data)
        digest.update(np.ascontiguousarray(self.faces, "<i8").data)
        return digest.hexdigest()

    @property
    def diagonal(self) -> float:
        """Length of the bounding box diagonal, in metres."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))


@dataclass(frozen=True)
class Cooked:
    """A target's files for a part, and how scenes name them. File names are relative to the output folder.

    files  names of the files written.
    urdf   the child of `<geometry>`; None: the element stays, with the file's path mended. And under `urdf_collision`
           elements for the `<collision>`, beside its geometry.
    mjcf   attributes of the `<geom>`, merged into its own (None as a value removes one), and under `mjcf_asset` and
           `mjcf_extension` the elements for `<asset>` and `<extension>`; `mjcf_children`: children of the `<geom>`.
    mjcf_copy  attributes merged into a copy of the original `<geom>` that stays beside it; None: no copy.
    usd    attributes for the prim: name to (type name as in `token`, `float`, `asset`, value); and `usd_schemas`, API
           schemas to apply.
    """

    files: list[str]
    urdf: Element | None = None
    urdf_collision: list[Element] = field(default_factory=list)
    mjcf: dict[str, str | None] | None = None
    mjcf_children: list[Element] = field(default_factory=list)
    mjcf_copy: dict[str, str | None] | None = None
    mjcf_asset: list[Element] = field(default_factory=list)
    mjcf_extension: list[Element] = field(default_factory=list)
    usd: dict[str, tuple[str, Any]] = field(default_factory=dict)
    usd_schemas: list[str] = field(default_factory=list)
