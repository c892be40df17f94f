// All triangles within a radius of a point: the radix tree's traversal with a test that keeps what it finds.
//
// INTERFACE
//   sdf_distance_within  counts them, or lists them
#ifndef SDFCLI_DISTANCE_WITHIN_H
#define SDFCLI_DISTANCE_WITHIN_H
#include "distance/stack.h"

struct sdf_distance_within_args {
    u32 n;  // queries
    u32 triangles;
    double radius;           // in the distances' unit
    const float* points;     // [n, 3]
    const double* scale;     // [n] distance factors
    const float* triangle;   // [triangles, 9] in Morton order
    const u32* triangle_id;  // [triangles] Morton order to mesh order
    const u32* child;        // [triangles - 1, 2]
    const float* box;        // [triangles - 1, 6]
    const u64* start;        // [n] each point's first entry in the list; null: only count
    u32* count;              // [n] out
    double* distance;        // [found] out, in traversal order; null: only count
    u32* face;               // [found] out: triangle ids; null: only count
};
SDF_KERNEL(sdf_distance_within, PLAIN, i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    double scale = a.scale[i], radius = a.radius / scale;
    // Larger than the radius by more than rounding, so that the exact comparison below decides.
    float bound = radius < 1e15 ? (float)(radius * radius) * 1.000001f + 1e-37f : SDF_UNKNOWN;
    Uncounted tally = {0, 0};
    u32 found = 0;
    auto test = [&](u32 slot) {
        const float* t = a.triangle + 9 * (size_t)slot;
        double d = scale * (double)sqrtf(triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6)));
        if (d > a.radius) return;
        if (a.start) {
            a.distance[a.start[i] + found] = d;
            a.face[a.start[i] + found] = a.triangle_id[slot];
        }
        found++;
    };
    auto reach = [&] { return bound; };
    if (a.triangles == 1) test(0);
    walk_radix_tree<CloserChild>(a, p, false, &tally, test, reach);
    a.count[i] = found;
}

#endif
