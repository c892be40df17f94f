"""Part: a collision mesh of an asset, and Cooked, the files that a target makes of its field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Part:
    """A collision mesh, in its shape's frame, with all scales applied, in metres.

    name      unique in the asset: letters, digits, `_` and `-`, for file names.
    vertices  (v, 3) float64.
    faces     (f, 3) int64; turned round where the scales mirror the mesh, so that they stay outward.
    place     where the asset names it, for messages: `robot.urdf: link arm, collision 2`.
    source    the mesh file, or the asset for meshes within it.
    """

    name: str
    vertices: npt.NDArray[np.float64]
    faces: npt.NDArray[np.int64]
    place: str
    source: str

    @property
    def diagonal(self) -> float:
        """Length of the bounding box diagonal, in metres."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))


@dataclass(frozen=True)
class Cooked:
    """A target's output for a part, and its names in scenes. File names are relative to the output folder.

    files  names of the files written.
    urdf   the child of `<geometry>`; None: the element stays, with the file's path mended. And under `urdf_collision`
           elements for the `<collision>`, beside its geometry.
    mjcf   attributes of the `<geom>`, merged into its own (None as a value removes one), and under `mjcf_asset` and
           `mjcf_extension` the elements for `<asset>` and `<extension>`.
    usd    attributes for the prim: name to (type name as in `token`, `float`, `asset`, value); and `usd_schemas`, API
           schemas to apply.
    """

    files: list[str]
    urdf: Element | None = None
    urdf_collision: list[Element] = field(default_factory=list)
    mjcf: dict[str, str | None] | None = None
    mjcf_asset: list[Element] = field(default_factory=list)
    mjcf_extension: list[Element] = field(default_factory=list)
    usd: dict[str, tuple[str, Any]] = field(default_factory=dict)
    usd_schemas: list[str] = field(default_factory=list)
