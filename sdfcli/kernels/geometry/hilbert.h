// Indices along the Hilbert curve (Skilling 2004), whose consecutive cells are neighbours: the Morton curve has jumps.
//
// INTERFACE
//   hilbert_encode                     a cell's index
//   curve_key                          index of a point in the unit cube, 30 bits
//   sdf_curve                          indices for points
//   sdf_curve_count, sdf_curve_place   on a GPU: counting sort by index
#ifndef SDFCLI_GEOMETRY_HILBERT_H
#define SDFCLI_GEOMETRY_HILBERT_H
#include "base/kernel.h"
#include "base/warp.h"
#include "geometry/morton.h"

// A cell's index along the Hilbert curve (Skilling 2004): consecutive cells are neighbours, without the Morton curve's
// jumps. bits: per axis.
FN u64 hilbert_encode(Lattice c, int bits) {
    u32 x[3] = {c.x, c.y, c.z}, highest = 1u << (bits - 1), t = 0;
    for (u32 bit = highest; bit > 1; bit >>= 1)  // undo the rotations and reflections of the levels above
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

// Short keys, for sorting points: finer cells would not pay.
FN u32 curve_key(const float* p) {
    const int bits = 10, coarser = SDF_MORTON_BITS - bits;
    Lattice c = {morton_cell(p[0]) >> coarser, morton_cell(p[1]) >> coarser, morton_cell(p[2]) >> coarser};
    return (u32)hilbert_encode(c, bits);
}

struct sdf_curve_args {
    u32 n;
    const float* points;  // [n, 3] in the unit cube
    u32* keys;            // [n] out: Hilbert curve indices, 30 bits
};
SDF_KERNEL(sdf_curve, PLAIN, i) { a.keys[i] = curve_key(a.points + 3 * (size_t)i); }

#ifdef SDF_SHARED
// Within a cell the order is arbitrary.
struct sdf_curve_count_args {
    u32 n;  // threads: whole warps
    u32 queries;
    u32 coarser;          // low bits dropped from the Hilbert curve indices
    const float* points;  // [queries, 3] in the unit cube
    u32* key;             // [queries] out
    u32* rank;            // [queries] out: rank among the points with this key, in any order
    u32* count;           // [2 ** (30 - coarser)] in and out: points per key
};
SDF_KERNEL(sdf_curve_count, WARP, i) {
    if (i >= a.queries) return;
    u32 key = curve_key(a.points + 3 * (size_t)i) >> a.coarser;
    a.key[i] = key;
    a.rank[i] = atomic_add(a.count + key, 1);
}

struct sdf_curve_place_args {
    u32 n;  // threads: whole warps
    u32 queries;
    const u32* key;   // [queries]
    const u32* rank;  // [queries]
    const u32* end;   // [keys] inclusive prefix sums of the counts
    u32* order;       // [queries] out
};
SDF_KERNEL(sdf_curve_place, WARP, i) {
    if (i < a.queries) a.order[a.end[a.key[i]] - 1 - a.rank[i]] = i;
}
#endif

#endif
