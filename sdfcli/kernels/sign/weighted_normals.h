// Angle-weighted pseudonormals for faces, edges and vertices (Baerentzen and Aanaes 2005).
//
// INTERFACE
//   sdf_corner_enter      the corners at each vertex
//   sdf_vertex_normals    the vertices' pseudonormals
//   sdf_weighted_normals  each triangle's pseudonormals: for its vertices, edges and face
//
// Corner 3 f + k of face f starts half-edge 3 f + k (mesh/edges.h). Sums are in face order, in double.
#ifndef SDFCLI_SIGN_WEIGHTED_NORMALS_H
#define SDFCLI_SIGN_WEIGHTED_NORMALS_H
#include "base/kernel.h"
#include "base/vec.h"
#include "geometry/domain.h"
#include "mesh/edges.h"
#include "winding/moments.h"

#define SDF_ARC_TERMS 16  // in the arc tangent series: full precision

struct sdf_corner_enter_args {
    u32 n;              // corners, 3 x faces
    const u32* welded;  // [n]
    u32* first;         // [vertices + 1] in and out: end of each vertex's corners; then the start
    u32* corner;        // [n] out: each vertex's corners, in any order
};
SDF_KERNEL(sdf_corner_enter, PLAIN, i) {
    a.corner[atomic_add(a.first + a.welded[i], SDF_NONE) - 1] = i;  // adds -1
}

struct FaceNormal {
    D3 corner[3];  // in the unit cube
    D3 unit;       // the normal; zero for a face without area
    double length;
};

FN FaceNormal normal_of(Domain domain, const double* vertex, const u32* face, u32 f) {
    FaceNormal own;
    for (u32 k = 0; k < 3; k++) own.corner[k] = to_unit(domain, vertex + 3 * (size_t)face[3 * (size_t)f + k]);
    D3 normal = cross(own.corner[1] - own.corner[0], own.corner[2] - own.corner[0]);
    own.length = sqrt_of(dot(normal, normal));
    double by = own.length > 0.0 ? own.length : 1.0;
    own.unit = vec(normal.x / by, normal.y / by, normal.z / by);
    return own;
}
FN void store_floats(float* to, D3 v) { to[0] = (float)v.x, to[1] = (float)v.y, to[2] = (float)v.z; }

struct sdf_vertex_normals_args {
    u32 n;  // vertices
    Domain domain;
    const double* vertex;  // [n, 3]
    const u32* face;       // [corners]
    const u32* first;      // [n + 1] start of each vertex's corners
    u32* corner;           // [corners] in and out: sorted afterwards
    float* normal;         // [n, 3] out
};
SDF_KERNEL(sdf_vertex_normals, PLAIN, i) {
    u32 begin = a.first[i], end = a.first[i + 1];
    sort_few(a.corner + begin, end - begin);
    D3 sum = vec(0.0, 0.0, 0.0);
    for (u32 k = begin; k < end; k++) {
        u32 corner = a.corner[k], at = corner % 3;
        FaceNormal own = normal_of(a.domain, a.vertex, a.face, corner / 3);
        D3 ahead = own.corner[(at + 1) % 3] - own.corner[at], back = own.corner[(at + 2) % 3] - own.corner[at];
        sum = sum + arc_tangent2(own.length, dot(ahead, back), SDF_ARC_TERMS) * own.unit;
    }
    store_floats(a.normal + 3 * (size_t)i, sum);
}

struct sdf_weighted_normals_args {
    u32 n;  // triangles
    Domain domain;
    const double* vertex;    // [vertices, 3]
    const u32* face;         // [3, faces]
    const u32* welded;       // [3, faces]
    const u32* first;        // [vertices + 1] start of each vertex's corners
    const u32* corner;       // [3, faces] each vertex's corners, ascending
    const float* normal;     // [vertices, 3]
    const u32* triangle_id;  // [n] faces in Morton order
    const u32* slot;         // [faces] a face's index in this order, or SDF_NONE
    float* normals;          // [n, 7, 3] out: as for sdf_pseudonormal
};

// Calls what(half-edge) for all half-edges between two vertices, in face order, until it returns true.
template <class Args, class What>
FN void each_use(const Args& a, u32 one, u32 other, const What& what) {
    u32 uses_of_one = a.first[one + 1] - a.first[one], uses_of_other = a.first[other + 1] - a.first[other];
    bool swap = uses_of_other < uses_of_one || (uses_of_other == uses_of_one && other < one);
    u32 at = swap ? other : one, far = swap ? one : other;
    for (u32 place = a.first[at]; place < a.first[at + 1]; place++) {
        u32 corner = a.corner[place], next = next_corner(corner), before = next_corner(next);
        if (a.welded[next] == far && what(corner)) return;
        if (at != far && a.welded[before] == far && what(before)) return;
    }
}

// An edge's first half-edge writes for all of them: an edge may have very many.
SDF_KERNEL(sdf_weighted_normals, PLAIN, i) {
    u32 id = a.triangle_id[i];
    float* row = a.normals + 21 * (size_t)i;
    for (u32 k = 0; k < 3; k++) {
        u32 half = 3 * id + k, start = a.welded[half], end = a.welded[next_corner(half)], owner = SDF_NONE;
        memcpy(row + 3 * k, a.normal + 3 * (size_t)start, 3 * sizeof(float));
        each_use(a, start, end, [&](u32 use) {
            if (a.slot[use / 3] != SDF_NONE) owner = use;
            return owner != SDF_NONE;
        });
        if (owner != half) continue;
        D3 sum = vec(0.0, 0.0, 0.0);
        each_use(a, start, end, [&](u32 use) {
            sum = sum + normal_of(a.domain, a.vertex, a.face, use / 3).unit;
            return false;
        });
        each_use(a, start, end, [&](u32 use) {
            u32 slot = a.slot[use / 3];
            if (slot != SDF_NONE) store_floats(a.normals + 21 * (size_t)slot + 9 + 3 * (use % 3), sum);
            return false;
        });
    }
    store_floats(row + 18, normal_of(a.domain, a.vertex, a.face, id).unit);
}

#endif
