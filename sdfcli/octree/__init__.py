"""Octrees over a mesh: growth, corners, quantisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sdfcli.octree import adaptive, density
from sdfcli.octree.grown import Grown, Limits, Progress
from sdfcli.scene import Scene


class Kind(NamedTuple):
    """A kind of octree. lean: see Scene. kernel: one that takes long to compile; None: none does."""

    build: Callable[[Scene, Limits, Progress | None], Grown]
    lean: bool
    kernel: str | None = None


OCTREES = {
    "adaptive": Kind(adaptive.build, lean=False, kernel="sdf_octree_visit"),
    "bvh": Kind(density.build, lean=True),
}
"""By the names of params.OCTREES."""
