// Where queries for a mesh that has moved start from: the nearest triangles of the earlier field.
//
// INTERFACE
//   sdf_previous  a triangle for each point
#ifndef SDFCLI_FIELD_WARM_START_H
#define SDFCLI_FIELD_WARM_START_H
#include "base/kernel.h"
#include "field/leaf_tree.h"

// The triangle that was nearest to a corner of an earlier field, the corner nearest to a point: where to start from.
struct sdf_previous_args {
    u32 n;  // points
    u32 leaves;
    const float* points;  // [n, 3] in the unit cube of the new field
    double scale;         // from there to the unit cube of the earlier field
    double shift_x;
    double shift_y;
    double shift_z;
    const u64* leaf_key;     // [leaves] of the earlier field, sorted
    const u8* leaf_level;    // [leaves]
    const u32* leaf_corner;  // [leaves, 8]
    const u32* nearest;      // [corners] of the earlier field: triangles in the mesh's order
    const u32* slot_of;      // [triangles] the mesh's order to Morton order
    u32* seed;               // [n] out
};
SDF_KERNEL(sdf_previous, PLAIN, i) {
    D3 p = load3d(a.points + 3 * (size_t)i), shift = vec(a.shift_x, a.shift_y, a.shift_z);
    InLeaf at = find_leaf(a.scale * p + shift, a.leaf_key, a.leaf_level, a.leaves);
    u32 c = (at.t.x > 0.5 ? 1u : 0u) | (at.t.y > 0.5 ? 2u : 0u) | (at.t.z > 0.5 ? 4u : 0u);
    a.seed[i] = a.slot_of[a.nearest[a.leaf_corner[8 * (size_t)at.leaf + c]]];
}

#endif
