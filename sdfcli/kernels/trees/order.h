// Triangles in Morton order, the order of every tree's leaves. A triangle's place in it is its slot.
//
// INTERFACE
//   sdf_triangle_keys     Morton codes of centroids (the thesis, section 2.3)
//   sdf_triangles_sorted  triangles in the order of their codes
#ifndef SDFCLI_TREES_ORDER_H
#define SDFCLI_TREES_ORDER_H
#include "base/kernel.h"
#include "geometry/morton.h"

struct sdf_triangle_keys_args {
    u32 n;                  // triangles
    const double* corners;  // [n, 9]
    u64* keys;              // [n] out
};
SDF_KERNEL(sdf_triangle_keys, PLAIN, i) {
    const double* t = a.corners + 9 * (size_t)i;
    a.keys[i] = morton_code(vec((t[0] + t[3] + t[6]) / 3.0, (t[1] + t[4] + t[7]) / 3.0, (t[2] + t[5] + t[8]) / 3.0));
}

struct sdf_triangles_sorted_args {
    u32 n;                   // coordinates, 9 x triangles
    const long long* order;  // [n // 9] triangles by their keys
    const double* corners;   // [n // 9, 9]
    u32* triangle_id;        // [n // 9] out: the order
    float* triangle;         // [n // 9, 9] out: in that order
};
SDF_KERNEL(sdf_triangles_sorted, PLAIN, i) {
    u32 slot = i / 9, k = i % 9, from = (u32)a.order[slot];
    if (k == 0) a.triangle_id[slot] = from;
    a.triangle[i] = (float)a.corners[9 * (size_t)from + k];
}

#endif
