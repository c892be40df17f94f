// Places along the Hilbert curve (Skilling 2004), on which consecutive cells are neighbours: Morton's curve leaps.
//
// INTERFACE
//   hilbert_encode                     the place of a cell
//   curve_key                          the place of a point of the unit cube, 30 bits
//   sdf_curve                          places of points
//   sdf_curve_count, sdf_curve_place   on a GPU: a counting sort of points by their places
#ifndef SDFCLI_GEOMETRY_HILBERT_H
#define SDFCLI_GEOMETRY_HILBERT_H
#include "base/kernel.h"
#include "base/warp.h"
#include "geometry/morton.h"

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

struct sdf_curve_args {
    u32 n;
    const float* points;  // [n, 3] in the unit cube
    u32* keys;            // [n] out: places along the Hilbert curve, of 30 bits
};
SDF_KERNEL(sdf_curve, PLAIN, i) { a.keys[i] = curve_key(a.points + 3 * (size_t)i); }

#ifdef SDF_SHARED
// Points of a cell keep no order.
struct sdf_curve_count_args {
    u32 n;  // threads: whole warps
    u32 queries;
    u32 coarser;          // bits of places along the Hilbert curve that are dropped
    const float* points;  // [queries, 3] in the unit cube
    u32* key;             // [queries] out
    u32* rank;            // [queries] out: which of the points with this key a point is, in any order
    u32* count;           // [2 ** (30 - coarser)] in and out: how many points have a key
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
    const u32* end;   // [keys] counts summed up
    u32* order;       // [queries] out
};
SDF_KERNEL(sdf_curve_place, WARP, i) {
    if (i < a.queries) a.order[a.end[a.key[i]] - 1 - a.rank[i]] = i;
}
#endif

#endif
