// Arbitrary query points, mapped to the unit cube and sorted along the Morton curve.
//
// INTERFACE
//   sdf_look_up         keys for points, and whether all points are finite
//   sdf_look_up_sorted  the points in the unit cube, in key order
//   sdf_look_up_done    distances in the mesh's units, in the original order
#ifndef SDFCLI_DISTANCE_POINTS_H
#define SDFCLI_DISTANCE_POINTS_H
#include "base/kernel.h"
#include "geometry/lattice.h"

struct QueryPoints {
    const double* points;  // [queries, 3] unrestricted; null: `single` is used
    const float* single;   // [queries, 3]
    Domain domain;
    double far;  // in domain edges: points farther away are moved to this distance
    u32 bits;    // bits for a point's index in its key
};
FN D3 query_point(const QueryPoints& a, u32 i) {
    return a.points ? load3(a.points + 3 * (size_t)i) : load3d(a.single + 3 * (size_t)i);
}

// Maps a point to the unit cube. Squares of very large distances overflow float: from there the mesh is a point, and
// the distance grows by the factor by which the point was moved closer.
FN D3 into_cube(const Domain& domain, double far, D3 p, double* scale) {
    D3 u = {(p.x - domain.x) / domain.length, (p.y - domain.y) / domain.length, (p.z - domain.z) / domain.length};
    // From the domain's centre, in the mesh's units, halved to prevent overflow.
    double middle = 0.25 * domain.length;
    *scale = domain.length;
    D3 off = {0.5 * p.x - (0.5 * domain.x + middle), 0.5 * p.y - (0.5 * domain.y + middle),
              0.5 * p.z - (0.5 * domain.z + middle)};
    double farthest = max_of(max_of(max_of(off.x, -off.x), max_of(off.y, -off.y)), max_of(off.z, -off.z));
    if (farthest > 0.5 * far * domain.length) {
        u = vec(0.5 + off.x / farthest * far, 0.5 + off.y / farthest * far, 0.5 + off.z / farthest * far);
        *scale = farthest / (0.5 * far);
    }
    return u;
}
FN D3 into_cube(const QueryPoints& a, D3 p, double* scale) { return into_cube(a.domain, a.far, p, scale); }

struct sdf_look_up_args {
    u32 n;  // at most 2^bits
    QueryPoints queries;
    u64* keys;   // [n] out: leading Morton code bits, then the point's index
    u32* wrong;  // [1] in and out: 1 if a point is not finite
};
SDF_KERNEL(sdf_look_up, PLAIN, i) {
    D3 p = query_point(a.queries, i);
    if (p.x - p.x != 0.0 || p.y - p.y != 0.0 || p.z - p.z != 0.0) store_relaxed(a.wrong, 1u);
    double scale;
    a.keys[i] = morton_code(into_cube(a.queries, p, &scale)) >> a.queries.bits << a.queries.bits | i;
}

struct sdf_look_up_sorted_args {
    u32 n;
    QueryPoints queries;
    const u64* keys;  // [n] sorted
    u32* order;       // [n] out: the points' indices
    float* unit;      // [n, 3] out
    double* scale;    // [n] out: scale factor for distances from there
};
SDF_KERNEL(sdf_look_up_sorted, PLAIN, i) {
    u32 from = (u32)a.keys[i] & ((1u << a.queries.bits) - 1u);
    D3 u = into_cube(a.queries, query_point(a.queries, from), a.scale + i);
    float* out = a.unit + 3 * (size_t)i;
    out[0] = (float)u.x;
    out[1] = (float)u.y;
    out[2] = (float)u.z;
    a.order[i] = from;
}

struct sdf_look_up_done_args {
    u32 n;
    const u32* order;       // [n]
    const float* distance;  // [n] unsigned, in the unit cube
    const u8* inside;       // [n] null: all outside
    const double* scale;    // [n]
    double* result;         // [n] out
};
SDF_KERNEL(sdf_look_up_done, PLAIN, i) {
    float d = a.distance[i];
    a.result[a.order[i]] = (a.inside && a.inside[i] ? -d : d) * a.scale[i];
}

#endif
