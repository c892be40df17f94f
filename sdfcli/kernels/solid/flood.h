// Flood of an octree's corners from the outside.
//
// INTERFACE
//   sdf_flood_join   joins free corners along leaf edges; sdf_shell_roots (mesh/edges.h) then gives the components
//   sdf_flood_grow   spreads labels of outside and inside to free neighbours
//   sdf_flood_value  distances to the boundary of the reached region, positive only there
//   sdf_flood_pocket volume of leaves that the flood does not reach
#ifndef SDFCLI_SOLID_FLOOD_H
#define SDFCLI_SOLID_FLOOD_H
#include "base/kernel.h"
#include "base/union_find.h"

struct sdf_flood_join_args {
    u32 n;                   // leaves
    float radius;            // corners farther from the surface are free
    const u32* leaf_corner;  // [n, 8]
    const float* value;      // [corners] unsigned distances
    u32* parent;             // [corners] in and out: initially each its own
};
SDF_KERNEL(sdf_flood_join, PLAIN, i) {
    const u32* corner = a.leaf_corner + 8 * (size_t)i;
    for (int low = 0; low < 8; low++) {
        if (!(a.value[corner[low]] > a.radius)) continue;
        for (int bit = 1; bit < 8; bit <<= 1) {
            if (low & bit || !(a.value[corner[low | bit]] > a.radius)) continue;
            join(a.parent, corner[low], corner[low | bit]);
        }
    }
}

struct sdf_flood_grow_args {
    u32 n;                   // leaves
    float radius;            // as in sdf_flood_join
    const u32* leaf_corner;  // [n, 8]
    const float* value;      // [corners] unsigned distances
    const u32* label;        // [corners] SDF_FLOOD bits, 0 if unknown
    u32* next;               // [corners] in and out: initially equal to `label`
};
SDF_KERNEL(sdf_flood_grow, PLAIN, i) {
    const u32* corner = a.leaf_corner + 8 * (size_t)i;
    for (int k = 0; k < 8; k++) {
        u32 from = corner[k], label = a.label[from];
        if (!label) continue;
        for (int bit = 1; bit < 8; bit <<= 1) {
            u32 to = corner[k ^ bit];
            if (a.label[to] || !(a.value[to] > a.radius)) continue;
            atomic_or(a.next + to, label == SDF_FLOOD_OUTSIDE ? SDF_FLOOD_OUTSIDE : SDF_FLOOD_INSIDE);
        }
    }
}

struct sdf_flood_value_args {
    u32 n;               // corners
    float radius;        // as in sdf_flood_join
    const u32* root;     // [n] component; 0: that of the domain's lower corner, the outside
    const float* value;  // [n] unsigned distances
    float* result;       // [n] out
};
SDF_KERNEL(sdf_flood_value, PLAIN, i) {
    float beyond = a.value[i] - a.radius;
    a.result[i] = beyond > 0.f && a.root[i] ? -max_of(beyond, 0.25f * a.radius) : beyond;
}

struct sdf_flood_pocket_args {
    u32 n;                   // leaves
    float deep;              // minimum distance from the surface of a leaf's corners
    const u32* leaf_corner;  // [n, 8]
    const u8* leaf_level;    // [n]
    const float* value;      // [corners] unsigned distances
    const u32* root;         // [corners] as in sdf_flood_value
    double* volume;          // [n] out, in domain volumes; 0 unless all corners are deep and none is reached; or null
    u64* total;              // [1] in and out: their sum, in cells of the finest level; or null
};
SDF_KERNEL(sdf_flood_pocket, PLAIN, i) {
    const u32* corner = a.leaf_corner + 8 * (size_t)i;
    bool counts = true;
    for (int k = 0; k < 8; k++) counts = counts && a.value[corner[k]] > a.deep && a.root[corner[k]] != 0;
    double edge = 1.0 / (double)(1u << a.leaf_level[i]);
    if (a.volume) a.volume[i] = counts ? edge * edge * edge : 0.0;
    if (a.total && counts) atomic_add(a.total, (u64)1 << 3 * (SDF_LATTICE_BITS - a.leaf_level[i]));
}

#endif
