// Signs for the corners of an octree: most of them take over a neighbour's.
//
// Where the distances of two points are together more than the way between them, no surface lies between. So a corner
// takes its sign from the farthest of such neighbours, if that is farther from the surface than itself. Corners without
// one are asked for their winding number: where chains end, and close to the surface.
#ifndef SDFCLI_CORNER_SIGN_H
#define SDFCLI_CORNER_SIGN_H
#include "cells.h"

// A neighbour as a number: the farther from the surface, the larger.
FN u64 farther(float distance, u32 place) { return (u64)float_bits(distance) << 32 | ~place; }
FN u32 neighbour_of(u64 farther) { return ~(u32)farther; }

FN void sdf_sign_clear_at(const sdf_sign_clear_args& a, u32 i) {
    a.clear[i] = caps_room(a, load3(a.points + 3 * (size_t)i));
}

// All pairs of neighbours among the 27 points of a split cell.
FN void sdf_sign_links_at(const sdf_sign_links_args& a, u32 i) {
    const float half = 0.5f / (float)(1u << cell_level(a.cell[i]));
    const float ways[3] = {half, 1.414214f * half, 1.732051f * half};
    u32 place[27], best_place[27];
    float distance[27], reach[27], clear[27], best[27];
    UNROLL
    for (int k = 0; k < 27; k++) {
        place[k] = a.point[27 * (size_t)i + k];
        best[k] = distance[k] = a.distance[place[k]];
        reach[k] = distance[k] - SDF_DISTANCE_ERROR * most(distance[k], 0.5f);  // two of them have less error than that
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
            bool apart = reach[k] + reach[j] > way && most(clear[k], clear[j]) > way;
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
        if (best_place[k] != SDF_NONE) most_of_all(a.link + place[k], farther(best[k], best_place[k]));
}

// Links lead from point to point to one that was asked for its winding number.
FN void sdf_sign_spread_at(const sdf_sign_spread_args& a, u32 i) {
    u32 at = i;
    for (u64 link = a.link[i]; link; link = a.link[at]) at = neighbour_of(link);
    if (a.winding[at] > 0.5f) a.distance[i] = -a.distance[i];
}

#endif
