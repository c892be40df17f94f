"""Kinds of octrees by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sdfcli.octree import adaptive, density
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.scene import Scene
from sdfcli.startup.kernels import COMPILED_AHEAD


class Kind(NamedTuple):
    """A kind of octree. trees_dominate: see MemoryPlan in scene.py. host_idle: whether the host is mostly idle during
    the build. kernels: one kernel per header that most builds use."""

    build: Callable[[Scene, Limits, Progress | None, Busy], Grown]
    trees_dominate: bool
    host_idle: bool
    kernels: tuple[str, ...]


OCTREES = {
    "adaptive": Kind(adaptive.build, trees_dominate=False, host_idle=True, kernels=COMPILED_AHEAD["adaptive"]),
    "bvh": Kind(density.build, trees_dominate=True, host_idle=False, kernels=COMPILED_AHEAD["bvh"]),
}
"""By the names of params.OCTREES."""
