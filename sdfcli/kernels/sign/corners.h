// Signs for an octree's corners: most are inherited from a neighbour (see sign/propagate.h).
//
// Among neighbours with no surface in between, a corner inherits from the one farthest from the surface, if that is
// farther than the corner itself. Winding numbers are computed for corners without such a neighbour: at chain ends, and
// close to the surface.
//
// INTERFACE
//   sdf_sign_links   links each corner to the neighbour from which it inherits
//   sdf_sign_spread  propagates signs along the links
//   sdf_sign_unlinked   on a GPU: lists the corners without a link
#ifndef SDFCLI_SIGN_CORNERS_H
#define SDFCLI_SIGN_CORNERS_H
#include "base/kernel.h"
#include "base/warp.h"
#include "geometry/lattice.h"
#include "sign/propagate.h"

// A neighbour as a number, which increases with its distance from the surface.
FN u64 farther(float distance, u32 place) { return (u64)float_bits(distance) << 32 | ~place; }
FN u32 neighbour_of(u64 farther) { return ~(u32)farther; }

// All pairs of neighbours among a split cell's 27 points.
struct sdf_sign_links_args {
    u32 n;                  // split cells
    const u64* cell;        // [n]
    const u32* point;       // [n, 27] from sdf_split_points
    const float* distance;  // [corners] unsigned
    const float* clear;     // [corners] null: a closed surface
    u64* link;              // [corners] in and out: an encoded neighbour; 0: none
};
SDF_KERNEL(sdf_sign_links, PLAIN, i) {
    const float half = 0.5f / (float)(1u << cell_level(a.cell[i]));
    const float ways[3] = {half, 1.414214f * half, 1.732051f * half};
    u32 place[27], best_place[27];
    float distance[27], reach[27], clear[27], best[27];
    UNROLL
    for (int k = 0; k < 27; k++) {
        place[k] = a.point[27 * (size_t)i + k];
        best[k] = distance[k] = a.distance[place[k]];
        reach[k] = empty_reach(distance[k]);
        clear[k] = a.clear ? a.clear[place[k]] : 1e30f;
        best_place[k] = SDF_NONE;
    }
    UNROLL
    for (int k = 0; k < 27; k++) {
        Offset from = offset_of(k);
        UNROLL
        for (int j = 0; j < k; j++) {
            Offset to = offset_of(j);
            int x = from.x - to.x, y = from.y - to.y, z = from.z - to.z;
            if (x * x > 1 || y * y > 1 || z * z > 1) continue;
            float way = ways[x * x + y * y + z * z - 1];
            bool apart = reach[k] + reach[j] > way && max_of(clear[k], clear[j]) > way;
            if (apart && distance[j] > best[k]) {
                best[k] = distance[j];
                best_place[k] = place[j];
            }
            if (apart && distance[k] > best[j]) {
                best[j] = distance[k];
                best_place[j] = place[k];
            }
        }
    }
    UNROLL
    for (int k = 0; k < 27; k++)
        if (best_place[k] != SDF_NONE) atomic_max(a.link + place[k], farther(best[k], best_place[k]));
}

// Links lead to a point with a computed winding number.
struct sdf_sign_spread_args {
    u32 n;                 // corners
    const u64* link;       // [n]
    const float* winding;  // [n] for corners without a link
    float* distance;       // [n] in and out: unsigned, then signed
};
SDF_KERNEL(sdf_sign_spread, PLAIN, i) {
    u32 at = i;
    for (u64 link = a.link[i]; link; link = a.link[at]) at = neighbour_of(link);
    if (a.winding[at] > 0.5f) a.distance[i] = -a.distance[i];
}

#ifdef SDF_SHARED
// Lists the points without a link. Each warp scans a run and reserves space for its results at once, so the order of
// runs is unspecified.

struct sdf_sign_unlinked_args {
    u32 n;            // threads: one warp per run of 256 points
    u32 count;        // points
    const u64* link;  // [count]
    u32* queried;     // [count] out: points with link 0
    u32* many;        // [1] in and out: list length; 0 before
};
SDF_KERNEL(sdf_sign_unlinked, WARP, i) {
    u32 thread = i % SDF_WARP, first = i / SDF_WARP * SDF_LINK_ROUNDS * SDF_WARP, found[SDF_LINK_ROUNDS], all = 0;
    UNROLL
    for (u32 k = 0; k < SDF_LINK_ROUNDS; k++) {
        u32 point = first + k * SDF_WARP + thread;
        found[k] = warp_ballot(point < a.count && a.link[point] == 0);
        all += (u32)popcount(found[k]);
    }
    if (all == 0) return;
    u32 at = shfl(thread == 0 ? atomic_add(a.many, all) : 0, 0);
    UNROLL
    for (u32 k = 0; k < SDF_LINK_ROUNDS; k++) {
        u32 place = at + (u32)popcount(found[k] & ((1u << thread) - 1u));
        if (found[k] >> thread & 1u) a.queried[place] = first + k * SDF_WARP + thread;
        at += (u32)popcount(found[k]);
    }
}
#endif

#endif
