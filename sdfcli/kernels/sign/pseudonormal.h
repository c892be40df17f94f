// The sign from angle-weighted pseudonormals (Baerentzen and Aanaes 2005).
//
// INTERFACE
//   behind            whether a point lies behind its nearest triangle
//   sdf_pseudonormal  the same for points with their nearest triangles
#ifndef SDFCLI_SIGN_PSEUDONORMAL_H
#define SDFCLI_SIGN_PSEUDONORMAL_H
#include "base/kernel.h"
#include "geometry/triangle.h"

// Whether a point lies behind a triangle. way: from the triangle's nearest point, which lies on the feature. normals:
// for vertices a, b, c, edges ab, bc, ca, and the face, in the order of Feature.
FN bool behind(D3 way, Feature feature, const float* normals) {
    return dot(way, load3d(normals + 3 * (size_t)feature)) < 0.0;
}

// In double: far from the surface, rounding must not decide the nearest feature. Outside the unit cube, float32
// distances to all faces may be equal and the nearest one arbitrary; nothing is inside there.
struct sdf_pseudonormal_args {
    u32 n;                  // queries
    const float* points;    // [n, 3]
    const u32* slot;        // [n] the nearest triangle
    const float* triangle;  // [triangles, 9]
    const float* normals;   // [triangles, 7, 3] vertices a b c, edges ab bc ca, face; in Morton order
    u8* inside;             // [n] out
};
FN void store_side(const sdf_pseudonormal_args& a, u32 i, D3 way, Feature feature) {
    F3 p = load3(a.points + 3 * (size_t)i);
    bool within = p.x >= 0.f && p.x <= 1.f && p.y >= 0.f && p.y <= 1.f && p.z >= 0.f && p.z <= 1.f;
    a.inside[i] = within && behind(way, feature, a.normals + 21 * (size_t)a.slot[i]) ? 1 : 0;
}
SDF_KERNEL(sdf_pseudonormal, LANES, i) {
    D3 p = load3d(a.points + 3 * (size_t)i);
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
    store_side(a, i, p - q.point, q.feature);
}

#endif
