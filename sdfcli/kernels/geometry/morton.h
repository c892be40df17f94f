// Morton codes: 3 x 21 bits, x in the lowest bit, so a cell's eight children and a VTK_VOXEL's eight corners have the
// same order.
//
// INTERFACE
//   morton_encode, morton_decode  code of a position on a lattice with 2^21 steps, and the inverse
//   morton_cell, morton_code      cell of a coordinate, and code of a point, in the unit cube
//   spread3, compact3             one coordinate to every third bit, and back
//   sdf_morton                    codes for points
#ifndef SDFCLI_GEOMETRY_MORTON_H
#define SDFCLI_GEOMETRY_MORTON_H
#include "base/kernel.h"
#include "base/search.h"
#include "geometry/domain.h"

FN u64 spread3(u32 v) {  // bit k of v moves to bit 3 k
    u64 x = v & 0x1fffffu;
    x = (x | x << 32) & 0x1f00000000ffffULL;
    x = (x | x << 16) & 0x1f0000ff0000ffULL;
    x = (x | x << 8) & 0x100f00f00f00f00fULL;
    x = (x | x << 4) & 0x10c30c30c30c30c3ULL;
    x = (x | x << 2) & 0x1249249249249249ULL;
    return x;
}
FN u32 compact3(u64 x) {  // the inverse of spread3
    x &= 0x1249249249249249ULL;
    x = (x | x >> 2) & 0x10c30c30c30c30c3ULL;
    x = (x | x >> 4) & 0x100f00f00f00f00fULL;
    x = (x | x >> 8) & 0x1f0000ff0000ffULL;
    x = (x | x >> 16) & 0x1f00000000ffffULL;
    x = (x | x >> 32) & 0x1fffffULL;
    return (u32)x;
}
FN u64 morton_encode(Lattice c) { return spread3(c.x) | spread3(c.y) << 1 | spread3(c.z) << 2; }
FN Lattice morton_decode(u64 key) {
    Lattice c = {compact3(key), compact3(key >> 1), compact3(key >> 2)};
    return c;
}
FN u32 morton_cell(double u) {  // unit interval coordinate to one of 2^21 cells
    double c = clamp01(u) * 2097152.0;
    return c < 2097151.0 ? (u32)c : 2097151u;
}

// Morton code of a point in the unit cube; triangles use their centroid (the thesis, section 2.3).
FN u64 morton_code(D3 p) {
    Lattice c = {morton_cell(p.x), morton_cell(p.y), morton_cell(p.z)};
    return morton_encode(c);
}

struct sdf_morton_args {
    u32 n;
    const double* points;  // [n, 3]
    u64* keys;             // [n] out
};
SDF_KERNEL(sdf_morton, PLAIN, i) { a.keys[i] = morton_code(load3(a.points + 3 * (size_t)i)); }

#endif
