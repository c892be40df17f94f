// All kernels. SDF_KERNELS(X) is the one list of them: the CPU's entry points come from it. For a GPU each header with
// kernels is compiled by itself (backend/cuda.py).
#ifndef SDFCLI_KERNELS_H
#define SDFCLI_KERNELS_H
#include "args.h"
#include "cells.h"
#include "corner_sign.h"
#include "crossing.h"
#include "distance.h"
#include "exact.h"
#include "jump_flood.h"
#include "marching_cubes.h"
#include "octree.h"
#include "packet.h"
#include "pseudonormal.h"
#include "render.h"
#include "sample.h"
#include "scan.h"
#include "sign_link.h"
#include "warp_order.h"
#include "warp_winding.h"
#include "winding.h"

#define SDF_KERNELS(X)               \
    X(sdf_morton)                    \
    X(sdf_curve)                     \
    X(sdf_triangle_keys)             \
    X(sdf_triangles_sorted)          \
    X(sdf_hilbert)                   \
    X(sdf_look_up)                   \
    X(sdf_look_up_sorted)            \
    X(sdf_bvh_build)                 \
    X(sdf_bvh_refit)                 \
    X(sdf_wide_build)                \
    X(sdf_distance_baseline)         \
    X(sdf_distance_soa)              \
    X(sdf_distance_cct)              \
    X(sdf_distance_baseline_counted) \
    X(sdf_distance_soa_counted)      \
    X(sdf_distance_cct_counted)      \
    X(sdf_closest)                   \
    X(sdf_winding_moments)           \
    X(sdf_winding)                   \
    X(sdf_pseudonormal)              \
    X(sdf_octree_children)           \
    X(sdf_octree_own)                \
    X(sdf_octree_points)             \
    X(sdf_octree_measured)           \
    X(sdf_octree_screen)             \
    X(sdf_octree_probe)              \
    X(sdf_octree_probed)             \
    X(sdf_octree_peek)               \
    X(sdf_octree_test)               \
    X(sdf_octree_constrain)          \
    X(sdf_octree_tighten)            \
    X(sdf_octree_round)              \
    X(sdf_octree_used)               \
    X(sdf_octree_corners)            \
    X(sdf_sign_inherit)              \
    X(sdf_sign_link)                 \
    X(sdf_sign_clear)                \
    X(sdf_sign_links)                \
    X(sdf_sign_spread)               \
    X(sdf_split_count)               \
    X(sdf_split_cells)               \
    X(sdf_split_leaves)              \
    X(sdf_split_own)                 \
    X(sdf_split_corners)             \
    X(sdf_corner_sorted)             \
    X(sdf_split_points)              \
    X(sdf_split_near)                \
    X(sdf_split_leaf_corners)        \
    X(sdf_corner_level)              \
    X(sdf_previous)                  \
    X(sdf_field_corners)             \
    X(sdf_corner_quantise)           \
    X(sdf_corner_restore)            \
    X(sdf_leaf_top)                  \
    X(sdf_leaf_nodes)                \
    X(sdf_field_sample)              \
    X(sdf_render)                    \
    X(sdf_exact_distance)            \
    X(sdf_exact_winding)             \
    X(sdf_grid_doubt)                \
    X(sdf_grid_sign)                 \
    X(sdf_flood_pass)                \
    X(sdf_flood_distance)            \
    X(sdf_leaf_side)                 \
    X(sdf_leaf_meets)                \
    X(sdf_leaf_bricks)               \
    X(sdf_brick_neighbours)          \
    X(sdf_field_inside)              \
    X(sdf_volume_inside)             \
    X(sdf_cell_flags)                \
    X(sdf_cell_cases)                \
    X(sdf_field_vertices)            \
    X(sdf_volume_vertices)           \
    X(sdf_cell_triangles)            \
    X(sdf_scan_add)                  \
    X(sdf_scan_add_wide)             \
    X(sdf_crossing)

// Those of which the GPU alone is capable.
#define SDF_WARP_KERNELS(X) \
    X(sdf_packet_centres)   \
    X(sdf_packet_cut)       \
    X(sdf_packet_blocks)    \
    X(sdf_packet_nodes)     \
    X(sdf_distance_packet)  \
    X(sdf_distance_sample)  \
    X(sdf_distance_lone)    \
    X(sdf_winding_lone)     \
    X(sdf_level_count)      \
    X(sdf_level_order)      \
    X(sdf_curve_count)      \
    X(sdf_curve_place)

#endif
