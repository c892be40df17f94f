// A mesh as given by the caller, with unchecked numbers.
//
// INTERFACE
//   sdf_faces_named    32-bit faces, the vertices in use, and whether all of them exist
//   sdf_vertex_bounds  vertex bounds per run, and whether all vertices are finite
#ifndef SDFCLI_MESH_GIVEN_H
#define SDFCLI_MESH_GIVEN_H
#include "base/kernel.h"

struct sdf_faces_named_args {
    u32 n;              // faces
    u32 vertices;       // vertex count
    const u64* wide;    // [n, 3] faces, negative numbers among the largest; null: `narrow` is used
    const u32* narrow;  // [n, 3]
    u32* face;          // [n, 3] out; null: `narrow` is kept
    u8* used;           // [vertices] in and out: 0 before, 1 where a face uses the vertex
    u8* unknown;        // [1] in and out: 1 if a face refers to a vertex that does not exist
};
SDF_KERNEL(sdf_faces_named, PLAIN, i) {
    u64 corner[3];  // all reads precede the byte stores, which may alias anything
    for (int k = 0; k < 3; k++) corner[k] = a.wide ? a.wide[3 * (size_t)i + k] : a.narrow[3 * (size_t)i + k];
    if (a.face)
        for (int k = 0; k < 3; k++) a.face[3 * (size_t)i + k] = (u32)corner[k];
    u8* used = a.used;
    if (max_of(corner[0], max_of(corner[1], corner[2])) < a.vertices)
        for (int k = 0; k < 3; k++) store_relaxed(used + corner[k], (u8)1);
    else
        store_relaxed(a.unknown, (u8)1);
}

struct sdf_vertex_bounds_args {
    u32 n;  // runs of SDF_FACE_RUN vertices
    u32 vertices;
    const double* vertex;  // [vertices, 3]
    double* bounds;        // [6, n] out: minimum and maximum coordinates per run; undefined if not finite
    u8* infinite;          // [1] in and out: 1 if a vertex is not finite
};
SDF_KERNEL(sdf_vertex_bounds, PLAIN, i) {
    const double* first = a.vertex + 3 * (size_t)i * SDF_FACE_RUN;
    u32 count = min_of(a.vertices - i * SDF_FACE_RUN, SDF_FACE_RUN);
    double low[3] = {first[0], first[1], first[2]}, high[3] = {first[0], first[1], first[2]}, none[3] = {};
    for (u32 k = 0; k < count; k++)
        for (int axis = 0; axis < 3; axis++) {
            double x = first[3 * k + axis];
            low[axis] = min_of(x, low[axis]);
            high[axis] = max_of(x, high[axis]);
            none[axis] += x - x;  // a single sum would serialise the additions
        }
    for (int axis = 0; axis < 3; axis++) {
        a.bounds[axis * (size_t)a.n + i] = low[axis];
        a.bounds[(3 + axis) * (size_t)a.n + i] = high[axis];
    }
    if (none[0] + none[1] + none[2] != 0.0) store_relaxed(a.infinite, (u8)1);
}

#endif
