// Initial triangles for queries after a mesh has moved: the previous field's nearest triangles.
//
// INTERFACE
//   sdf_previous  a triangle per point
#ifndef SDFCLI_FIELD_WARM_START_H
#define SDFCLI_FIELD_WARM_START_H
#include "base/kernel.h"
#include "field/leaf_tree.h"

// The nearest triangle of the previous field's corner closest to a point: the initial candidate.
struct sdf_previous_args {
    u32 n;  // points
    u32 leaves;
    const float* points;  // [n, 3] in the new field's unit cube
    double scale;         // from there to the previous field's unit cube
    double shift_x;
    double shift_y;
    double shift_z;
    const u64* leaf_key;     // [leaves] of the previous field, sorted
    const u8* leaf_level;    // [leaves]
    const u32* leaf_corner;  // [leaves, 8]
    const u32* nearest;      // [corners] of the previous field: triangles in mesh order
    const u32* slot_of;      // [triangles] mesh order to Morton order
    u32* seed;               // [n] out
};
SDF_KERNEL(sdf_previous, PLAIN, i) {
    D3 p = load3d(a.points + 3 * (size_t)i), shift = vec(a.shift_x, a.shift_y, a.shift_z);
    InLeaf at = find_leaf(a.scale * p + shift, a.leaf_key, a.leaf_level, a.leaves);
    u32 c = (at.t.x > 0.5 ? 1u : 0u) | (at.t.y > 0.5 ? 2u : 0u) | (at.t.z > 0.5 ? 4u : 0u);
    a.seed[i] = a.slot_of[a.nearest[a.leaf_corner[8 * (size_t)at.leaf + c]]];
}

#endif
