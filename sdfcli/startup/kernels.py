"""Kernels to compile or load while the mesh is read: one per module."""

OF_EVERY_BUILD = (
    "sdf_distance_single",
    "sdf_packet_cells",
    "sdf_winding_single",
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
    "sdf_sign_unlinked",
    "sdf_sign_clear",
    "sdf_pseudonormal",
    "sdf_weighted_normals",
    "sdf_lattice_cross",
    "sdf_octree_corners",
    "sdf_leaf_count",
    "sdf_field_sample",
    "sdf_block_count",
    "sdf_look_up",
    "sdf_curve_count",
    "sdf_ball_centres",
)
"""Kernels that every build runs."""
OF_GROWTH = (
    "sdf_octree_grow",
    "sdf_octree_settle",
    "sdf_octree_ranks",
    "sdf_octree_screen",
    "sdf_octree_children",
    "sdf_octree_sheets",
    "sdf_octree_leaves",
    "sdf_sign_inherit",
    "sdf_octree_round",
)
"""Additional kernels for adaptive octrees; the slowest to compile first."""

COMPILED_AHEAD = {"adaptive": (*OF_GROWTH, *OF_EVERY_BUILD), "bvh": (*OF_EVERY_BUILD, "sdf_split_own")}
"""By octree, as in params.OCTREES."""
