"""Octrees over a mesh: growth, corners, quantisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sdfcli.octree import adaptive, density
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.scene import Scene


class Kind(NamedTuple):
    """A kind of octree. lean: see Scene. idle: whether the host has little to do while a device is at it. kernels: of
    each header that most builds run kernels of, one."""

    build: Callable[[Scene, Limits, Progress | None, Busy], Grown]
    lean: bool
    idle: bool
    kernels: tuple[str, ...]


OF_ALL = (
    "sdf_distance_lone",
    "sdf_packet_cells",
    "sdf_winding_lone",
    "sdf_winding_moments",
    "sdf_crossing",
    "sdf_bvh_build",
    "sdf_triangle_keys",
    "sdf_weld_enter",
    "sdf_side_count",
    "sdf_face_sums",
    "sdf_chosen",
    "sdf_radix_sort",
    "sdf_scan",
    "sdf_taken",
    "sdf_sign_asked",
    "sdf_sign_clear",
    "sdf_pseudonormal",
    "sdf_weighted_normals",
    "sdf_lattice_cross",
    "sdf_corner_level",
    "sdf_octree_corners",
    "sdf_leaf_count",
    "sdf_field_sample",
    "sdf_look_up",
    "sdf_curve_count",
    "sdf_ball_centres",
)
"""Kernels of headers that builds of all kinds need."""
OF_GROWTH = (
    "sdf_octree_visit",
    "sdf_octree_settle",
    "sdf_octree_ranks",
    "sdf_octree_screen",
    "sdf_octree_children",
    "sdf_octree_sheets",
    "sdf_octree_leaves",
    "sdf_sign_inherit",
    "sdf_corner_quantise",
)
"""And those of an octree that grows; what takes longest to compile comes first."""

OCTREES = {
    "adaptive": Kind(adaptive.build, lean=False, idle=True, kernels=(*OF_GROWTH, *OF_ALL)),
    "bvh": Kind(density.build, lean=True, idle=False, kernels=OF_ALL),
}
"""By the names of params.OCTREES."""
