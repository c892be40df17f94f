// Triangles in Morton order, the leaf order of every tree. A triangle's index in this order is its slot.
//
// INTERFACE
//   sdf_triangle_keys      Morton codes of centroids (the thesis, section 2.3)
//   sdf_triangles_sorted   triangles in code order
//   sdf_triangles_kept     flags triangles that are not left out
#ifndef SDFCLI_TREES_ORDER_H
#define SDFCLI_TREES_ORDER_H
#include "base/kernel.h"
#include "base/search.h"
#include "geometry/morton.h"

struct sdf_triangle_keys_args {
    u32 n;  // triangles
    Domain domain;
    const double* vertex;  // [vertices, 3]
    const u32* face;       // [n, 3]
    u64* keys;             // [n] out
};
SDF_KERNEL(sdf_triangle_keys, PLAIN, i) {
    D3 p[3];
    for (int k = 0; k < 3; k++) p[k] = to_unit(a.domain, a.vertex + 3 * (size_t)a.face[3 * (size_t)i + k]);
    a.keys[i] = morton_code(
        vec((p[0].x + p[1].x + p[2].x) / 3.0, (p[0].y + p[1].y + p[2].y) / 3.0, (p[0].z + p[1].z + p[2].z) / 3.0));
}

struct sdf_triangles_sorted_args {
    u32 n;  // corners, 3 x triangles
    Domain domain;
    const long long* order;  // [n // 3] triangles in key order
    const double* vertex;    // [vertices, 3]
    const u32* face;         // [n // 3, 3]
    u32* triangle_id;        // [n // 3] out: the order
    float* triangle;         // [n // 3, 9] out: in this order
};
SDF_KERNEL(sdf_triangles_sorted, PLAIN, i) {
    u32 slot = i / 3, from = (u32)a.order[slot];
    if (i % 3 == 0) a.triangle_id[slot] = from;
    D3 p = to_unit(a.domain, a.vertex + 3 * (size_t)a.face[3 * (size_t)from + i % 3]);
    float* corner = a.triangle + 3 * (size_t)i;
    corner[0] = (float)p.x, corner[1] = (float)p.y, corner[2] = (float)p.z;
}

struct sdf_triangles_kept_args {
    u32 n;                   // triangles
    u32 faces;               // number of left out triangles
    const u32* triangle_id;  // [n] by slot
    const u32* left_out;     // [faces] sorted
    u8* kept;                // [n] out: 1 for slots whose face is not left out
};
SDF_KERNEL(sdf_triangles_kept, PLAIN, i) {
    u32 own = a.triangle_id[i], place = lower_bound(a.left_out, a.faces, own);
    a.kept[i] = place == a.faces || a.left_out[place] != own;
}

#endif
