// Morton codes: 3 x 21 bits, x in the lowest bit, so that the eight children of a cell and the eight corners of a
// VTK_VOXEL have the same order.
#ifndef SDFCLI_MORTON_H
#define SDFCLI_MORTON_H
#include "args.h"
#include "vec.h"

#define SDF_MORTON_BITS 21

struct Lattice {
    u32 x, y, z;
};

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
FN u32 morton_cell(double u) {  // a coordinate of the unit cube in one of 2^21 cells
    double c = clamp01(u) * 2097152.0;
    return c < 2097151.0 ? (u32)c : 2097151u;
}

FN u32 lower_bound(const u64* keys, u32 n, u64 key) {  // the first place whose key is not less
    u32 low = 0;
    while (n > 0) {
        u32 half = n / 2;
        if (keys[low + half] < key) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

// The same for a key that is likely to be near place `from`: the steps away from there double.
FN u32 lower_bound_near(const u64* keys, u32 n, u64 key, u32 from) {
    u32 step = 1;
    if (keys[from] < key) {
        while (step < n - from && keys[from + step] < key) {
            from += step;
            step *= 2;
        }
        return from + 1 + lower_bound(keys + from + 1, least(step, n - from) - 1, key);
    }
    while (step <= from && keys[from - step] >= key) {
        from -= step;
        step *= 2;
    }
    u32 low = step <= from ? from - step + 1 : 0;
    return low + lower_bound(keys + low, from - low, key);
}

// Morton codes of points in the unit cube, for triangles those of their centroids (the thesis, section 2.3).
FN u64 morton_code(D3 p) {
    Lattice c = {morton_cell(p.x), morton_cell(p.y), morton_cell(p.z)};
    return morton_encode(c);
}
FN void sdf_morton_at(const sdf_morton_args& a, u32 i) { a.keys[i] = morton_code(load3(a.points + 3 * (size_t)i)); }
FN void sdf_triangle_keys_at(const sdf_triangle_keys_args& a, u32 i) {
    const double* t = a.corners + 9 * (size_t)i;
    a.keys[i] = morton_code(vec((t[0] + t[3] + t[6]) / 3.0, (t[1] + t[4] + t[7]) / 3.0, (t[2] + t[5] + t[8]) / 3.0));
}
FN void sdf_triangles_sorted_at(const sdf_triangles_sorted_args& a, u32 i) {
    u32 slot = i / 9, k = i % 9, from = (u32)a.order[slot];
    if (k == 0) a.triangle_id[slot] = from;
    a.triangle[i] = (float)a.corners[9 * (size_t)from + k];
}

// The place of a cell along the Hilbert curve (Skilling 2004): consecutive cells are neighbours, without Morton's
// leaps.
FN u64 hilbert_encode(Lattice c, int bits) {  // of cells with so many bits an axis
    u32 x[3] = {c.x, c.y, c.z}, highest = 1u << (bits - 1), t = 0;
    for (u32 bit = highest; bit > 1; bit >>= 1)  // undo the turns and mirrorings of the levels above
        for (int k = 0; k < 3; k++) {
            u32 below = bit - 1, swap = x[k] & bit ? 0u : (x[0] ^ x[k]) & below;
            x[0] ^= x[k] & bit ? below : swap;
            if (k) x[k] ^= swap;
        }
    x[1] ^= x[0];  // Gray code
    x[2] ^= x[1];
    for (u32 bit = highest; bit > 1; bit >>= 1)
        if (x[2] & bit) t ^= bit - 1;
    return spread3(x[0] ^ t) << 2 | spread3(x[1] ^ t) << 1 | spread3(x[2] ^ t);
}

// Short codes, for sorting points: finer cells would not be worth the time.
FN u32 curve_key(const float* p) {
    const int bits = 10, coarser = SDF_MORTON_BITS - bits;
    Lattice c = {morton_cell(p[0]) >> coarser, morton_cell(p[1]) >> coarser, morton_cell(p[2]) >> coarser};
    return (u32)hilbert_encode(c, bits);
}
FN void sdf_curve_at(const sdf_curve_args& a, u32 i) { a.keys[i] = curve_key(a.points + 3 * (size_t)i); }

#define SDF_LOOK_UP_BITS 21

// Brings points into the unit cube. Squares of very large distances would leave float: seen from there, the mesh is a
// point, and the distance is as many times larger as the point was moved nearer.
FN void sdf_look_up_at(const sdf_look_up_args& a, u32 i) {
    const double* p = a.points + 3 * (size_t)i;
    D3 u = {(p[0] - a.x) / a.length, (p[1] - a.y) / a.length, (p[2] - a.z) / a.length};
    // From the domain's middle, in the mesh's units, and halved, so that nothing overflows.
    double middle = 0.25 * a.length, scale = a.length;
    D3 off = {0.5 * p[0] - (0.5 * a.x + middle), 0.5 * p[1] - (0.5 * a.y + middle), 0.5 * p[2] - (0.5 * a.z + middle)};
    double farthest = most(most(most(off.x, -off.x), most(off.y, -off.y)), most(off.z, -off.z));
    if (farthest > 0.5 * a.far * a.length) {
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
FN void sdf_look_up_sorted_at(const sdf_look_up_sorted_args& a, u32 i) {
    u32 from = (u32)a.keys[i] & ((1u << SDF_LOOK_UP_BITS) - 1u);
    a.order[i] = from;
    a.sorted_scale[i] = a.scale[from];
    for (int k = 0; k < 3; k++) a.sorted_unit[3 * (size_t)i + k] = a.unit[3 * (size_t)from + k];
}

#endif
