// sdf_shift_best by a warp's lanes: 2 k per query, for k = 1, 2, 4, 8, 16 (Park 2019, section 2-2).
//
// INTERFACE
//   sdf_shift_warp  the nearest among the 2 k data around a position
#ifndef SDFCLI_NEIGHBOURS_WARP_H
#define SDFCLI_NEIGHBOURS_WARP_H
#include "base/kernel.h"
#include "base/warp.h"
#include "neighbours/shifted.h"

#ifdef SDF_SHARED
// A neighbour as one sortable number: the bits of its squared distance, which are monotonic, then its index.
FN u64 neighbour_key(float distance_sq, u32 number) {
    return number == SDF_NONE ? ~0ull : (u64)float_bits(distance_sq) << 32 | number;
}

// One step of a bitonic sort: in a pair of lanes, the lower lane keeps the smaller key, or the larger if descending.
FN u64 sorted_pair(u64 key, u32 thread, u32 apart, bool ascending) {
    u64 other = shfl(key, (thread ^ apart) % SDF_WARP);
    return ((thread & apart) == 0) == ascending ? min_of(key, other) : max_of(key, other);
}

struct sdf_shift_warp_args {
    u32 n;  // 2 k lanes per query, in whole warps
    u32 queries;
    u32 data;
    u32 dimension;
    u32 k;                // a power of two, at most 16
    u32 more;             // 1: improves the results from earlier shifts
    const float* query;   // [queries, dimension]
    const float* vector;  // [data, dimension]
    const u32* number;    // [data] the data in curve order
    const u32* place;     // [queries] each query's position in it
    float* distance_sq;   // [queries, k] in and out, see sdf_shift_best
    u32* nearest;         // [queries, k] in and out
};
SDF_KERNEL(sdf_shift_warp, SHUFFLE, i) {
    u32 lanes = 2 * a.k, query = i / lanes, lane = i % lanes, base = i % SDF_WARP - lane;
    bool asked = query < a.queries;
    u64 own = ~0ull, other = ~0ull;
    if (asked && lane < a.k && a.more)
        own = neighbour_key(a.distance_sq[a.k * (size_t)query + lane], a.nearest[a.k * (size_t)query + lane]);
    if (asked) {
        u32 slot = window_start(a.place[query], a.k, a.data) + lane;
        if (slot < a.data) {
            u32 number = a.number[slot];
            with_dimension(a.dimension, [&](auto d) {
                constexpr int size = decltype(d)::value;
                const float *p = a.vector + size * (size_t)number, *q = a.query + size * (size_t)query;
                other = neighbour_key(vector_distance_sq<float, size>(p, q), number);
            });
        }
    }
    for (u32 j = 0; j < a.k; j++)
        if (shfl(own, base + j) == other) other = ~0ull;
    for (u32 size = 2; size <= lanes; size *= 2)
        for (u32 apart = size / 2; apart > 0; apart /= 2)
            other = sorted_pair(other, i, apart, (lane & size) == 0 || size == lanes);
    // The k nearest in two sorted lists: the minimum over pairs from one list's start and the other's end.
    own = min_of(own, shfl(other, base + (a.k - 1 - lane) % lanes));
    for (u32 apart = a.k / 2; apart > 0; apart /= 2) own = sorted_pair(own, i, apart, true);
    if (!asked || lane >= a.k) return;
    bool found = own != ~0ull;
    a.distance_sq[a.k * (size_t)query + lane] = found ? bits_float((u32)(own >> 32)) : SDF_UNKNOWN * SDF_UNKNOWN;
    a.nearest[a.k * (size_t)query + lane] = found ? (u32)own : SDF_NONE;
}
#endif

#endif
