// Triangles in Morton order, the order of every tree's leaves. A triangle's place in it is its slot.
//
// INTERFACE
//   sdf_triangle_keys     Morton codes of centroids (the thesis, section 2.3)
//   sdf_triangles_sorted  triangles in the order of their codes
#ifndef SDFCLI_TREES_ORDER_H
#define SDFCLI_TREES_ORDER_H
#include "geometry/morton.h"

FN void sdf_triangle_keys_at(const sdf_triangle_keys_args& a, u32 i) {
    const double* t = a.corners + 9 * (size_t)i;
    a.keys[i] = morton_code(vec((t[0] + t[3] + t[6]) / 3.0, (t[1] + t[4] + t[7]) / 3.0, (t[2] + t[5] + t[8]) / 3.0));
}
FN void sdf_triangles_sorted_at(const sdf_triangles_sorted_args& a, u32 i) {
    u32 slot = i / 9, k = i % 9, from = (u32)a.order[slot];
    if (k == 0) a.triangle_id[slot] = from;
    a.triangle[i] = (float)a.corners[9 * (size_t)from + k];
}

#endif
