// Signs for the corners of an octree: most of them take over a neighbour's.
//
// Where the distances of two points are together more than the way between them, no surface lies between. So each corner
// takes its sign from the farthest of its neighbours, if that is farther from the surface than itself. Those without one
// are asked for their winding number: where chains end, and corners close to the surface.
#ifndef SDFCLI_CORNER_SIGN_H
#define SDFCLI_CORNER_SIGN_H
#include "cells.h"

// A neighbour as a number: the farther from the surface, the larger; of equally far ones that with the smallest place.
FN u64 farther(float distance, u32 place) { return (u64)float_bits(distance) << 32 | ~place; }
FN u32 neighbour_of(u64 farther) { return ~(u32)farther; }

// A lower bound of the distance to the caps of holes: that to boxes around groups of them.
FN void sdf_sign_clear_at(const sdf_sign_clear_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    float clear_sq = box_distance_sq(p, a.box);
    for (u32 k = 1; k < a.boxes; k++) clear_sq = least(clear_sq, box_distance_sq(p, a.box + 6 * k));
    a.clear[i] = sqrtf(clear_sq);
}

// All pairs among the 27 points of a split cell.
FN void sdf_sign_links_at(const sdf_sign_links_args& a, u32 i) {
    const float half = 0.5f / (float)(1u << cell_level(a.cell[i])), half_sq = half * half;
    u64 own[27], best[27];
    float distance[27], clear[27];
    SDF_UNROLL
    for (int k = 0; k < 27; k++) {
        u32 place = a.point[27 * (size_t)i + k];
        distance[k] = a.distance[place];
        clear[k] = a.clear ? a.clear[place] - a.guard : 0.f;
        own[k] = farther(distance[k], place);
        best[k] = 0;
    }
    SDF_UNROLL
    for (int k = 0; k < 27; k++) {
        Offset from = offset_of(k);
        SDF_UNROLL
        for (int j = 0; j < k; j++) {
            Offset to = offset_of(j);
            int x = from.x - to.x, y = from.y - to.y, z = from.z - to.z;
            float way_sq = (float)(x * x + y * y + z * z) * half_sq, both = distance[k] + distance[j];
            float room = both - SDF_DISTANCE_ERROR * most(both, 1.f), beside = most(clear[k], clear[j]);
            bool apart = room > 0.f && room * room > way_sq;
            if (a.clear) apart = apart && beside > 0.f && beside * beside > way_sq;
            if (apart && own[j] > own[k]) best[k] = most(best[k], own[j]);
            if (apart && own[k] > own[j]) best[j] = most(best[j], own[k]);
        }
    }
    SDF_UNROLL
    for (int k = 0; k < 27; k++)
        if (best[k]) most_of_all(a.link + neighbour_of(own[k]), best[k]);
}

FN void sdf_sign_alone_at(const sdf_sign_alone_args& a, u32 i) { a.alone[i] = a.link[i] == 0; }
FN void sdf_sign_roots_at(const sdf_sign_roots_args& a, u32 i) {
    if (a.link[i] == 0) a.root[a.end[i] - 1] = i;
}

// Links lead from point to point to one that was asked for its winding number.
FN void sdf_sign_spread_at(const sdf_sign_spread_args& a, u32 i) {
    u32 at = i;
    for (u64 link = a.link[i]; link; link = a.link[at]) at = neighbour_of(link);
    a.result[i] = a.winding[at] > 0.5f ? -a.distance[i] : a.distance[i];
}

#endif
