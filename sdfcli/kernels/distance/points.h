// Query points of any place and size, brought into the unit cube and sorted along the Morton curve.
//
// INTERFACE
//   sdf_look_up         points in the unit cube, and their keys
//   sdf_look_up_sorted  the same in the order of the keys
#ifndef SDFCLI_DISTANCE_POINTS_H
#define SDFCLI_DISTANCE_POINTS_H
#include "base/kernel.h"
#include "geometry/lattice.h"

#define SDF_LOOK_UP_BITS 21

// Brings points into the unit cube. Squares of very large distances would leave float: seen from there, the mesh is a
// point, and the distance is as many times larger as the point was moved nearer.
struct sdf_look_up_args {
    u32 n;                 // at most 2^21
    const double* points;  // [n, 3] anywhere
    Domain domain;
    double far;     // in edges of the domain: points farther off are moved to this distance
    float* unit;    // [n, 3] out
    double* scale;  // [n] out: what distances from there are multiplied by
    u64* keys;      // [n] out: the first 42 bits of the Morton code, then the point's number
};
SDF_KERNEL(sdf_look_up, PLAIN, i) {
    const double* p = a.points + 3 * (size_t)i;
    D3 u = {(p[0] - a.domain.x) / a.domain.length, (p[1] - a.domain.y) / a.domain.length,
            (p[2] - a.domain.z) / a.domain.length};
    // From the domain's middle, in the mesh's units, and halved, so that nothing overflows.
    double middle = 0.25 * a.domain.length, scale = a.domain.length;
    D3 off = {0.5 * p[0] - (0.5 * a.domain.x + middle), 0.5 * p[1] - (0.5 * a.domain.y + middle),
              0.5 * p[2] - (0.5 * a.domain.z + middle)};
    double farthest = max_of(max_of(max_of(off.x, -off.x), max_of(off.y, -off.y)), max_of(off.z, -off.z));
    if (farthest > 0.5 * a.far * a.domain.length) {
        u = vec(0.5 + off.x / farthest * a.far, 0.5 + off.y / farthest * a.far, 0.5 + off.z / farthest * a.far);
        scale = farthest / (0.5 * a.far);
    }
    float* out = a.unit + 3 * (size_t)i;
    out[0] = (float)u.x;
    out[1] = (float)u.y;
    out[2] = (float)u.z;
    a.scale[i] = scale;
    Lattice c = {morton_cell(u.x), morton_cell(u.y), morton_cell(u.z)};
    a.keys[i] = morton_encode(c) >> SDF_LOOK_UP_BITS << SDF_LOOK_UP_BITS | i;
}

struct sdf_look_up_sorted_args {
    u32 n;
    const u64* keys;       // [n] sorted
    const float* unit;     // [n, 3]
    const double* scale;   // [n]
    u32* order;            // [n] out: the points' numbers
    float* sorted_unit;    // [n, 3] out
    double* sorted_scale;  // [n] out
};
SDF_KERNEL(sdf_look_up_sorted, PLAIN, i) {
    u32 from = (u32)a.keys[i] & ((1u << SDF_LOOK_UP_BITS) - 1u);
    a.order[i] = from;
    a.sorted_scale[i] = a.scale[from];
    for (int k = 0; k < 3; k++) a.sorted_unit[3 * (size_t)i + k] = a.unit[3 * (size_t)from + k];
}

#endif
