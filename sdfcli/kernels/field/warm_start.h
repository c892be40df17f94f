// Where queries for a mesh that has moved start from: the nearest triangles of the earlier field.
//
// INTERFACE
//   sdf_previous  a triangle for each point
#ifndef SDFCLI_FIELD_WARM_START_H
#define SDFCLI_FIELD_WARM_START_H
#include "field/leaf_tree.h"

// The triangle that was nearest to a corner of an earlier field, the corner nearest to a point: where to start from.
FN void sdf_previous_at(const sdf_previous_args& a, u32 i) {
    D3 p = load3d(a.points + 3 * (size_t)i), shift = vec(a.shift_x, a.shift_y, a.shift_z);
    InLeaf at = find_leaf(a.scale * p + shift, a.leaf_key, a.leaf_level, a.leaves);
    u32 c = (at.t.x > 0.5 ? 1u : 0u) | (at.t.y > 0.5 ? 2u : 0u) | (at.t.z > 0.5 ? 4u : 0u);
    a.seed[i] = a.slot_of[a.nearest[a.leaf_corner[8 * (size_t)at.leaf + c]]];
}

#endif
