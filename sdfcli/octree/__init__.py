"""Octrees over a mesh: growth, corners, quantisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sdfcli.octree import adaptive, density
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.scene import Scene
from sdfcli.startup.kernels import COMPILED_AHEAD


class Kind(NamedTuple):
    """A kind of octree. lean: see Scene. idle: whether the host has little to do while a device is at it. kernels: of
    each header that most builds run kernels of, one."""

    build: Callable[[Scene, Limits, Progress | None, Busy], Grown]
    lean: bool
    idle: bool
    kernels: tuple[str, ...]


OCTREES = {
    "adaptive": Kind(adaptive.build, lean=False, idle=True, kernels=COMPILED_AHEAD["adaptive"]),
    "bvh": Kind(density.build, lean=True, idle=False, kernels=COMPILED_AHEAD["bvh"]),
}
"""By the names of params.OCTREES."""
