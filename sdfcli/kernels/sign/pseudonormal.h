// The sign from angle-weighted pseudonormals (Baerentzen and Aanaes 2005).
//
// INTERFACE
//   behind            whether a point lies behind its nearest triangle
//   sdf_pseudonormal  the same for points with their nearest triangles
#ifndef SDFCLI_SIGN_PSEUDONORMAL_H
#define SDFCLI_SIGN_PSEUDONORMAL_H
#include "base/kernel.h"
#include "geometry/triangle.h"

// Whether a point lies behind a triangle of which q is nearest to it. normals: those of vertices a, b, c, then of edges
// ab, bc, ca, then of the face, in the order of Feature.
FN bool behind(D3 p, const Nearest<double>& q, const float* normals) {
    return dot(p - q.point, load3d(normals + 3 * (size_t)q.feature)) < 0.0;
}

// In double: far from the surface the nearest feature must not be decided by rounding. Outside of the unit cube the
// distances to all faces may be the same in float32, and the nearest one anybody's guess; nothing is inside there.
struct sdf_pseudonormal_args {
    u32 n;                  // queries
    const float* points;    // [n, 3]
    const u32* slot;        // [n] the nearest triangle
    const float* triangle;  // [triangles, 9]
    const float* normals;   // [triangles, 7, 3] vertices a b c, edges ab bc ca, face; in Morton order
    u8* inside;             // [n] out
};
SDF_KERNEL(sdf_pseudonormal, PLAIN, i) {
    D3 p = load3d(a.points + 3 * (size_t)i);
    u32 slot = a.slot[i];
    const float* t = a.triangle + 9 * (size_t)slot;
    Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
    bool within = p.x >= 0.0 && p.x <= 1.0 && p.y >= 0.0 && p.y <= 1.0 && p.z >= 0.0 && p.z <= 1.0;
    a.inside[i] = within && behind(p, q, a.normals + 21 * (size_t)slot) ? 1 : 0;
}

#endif
