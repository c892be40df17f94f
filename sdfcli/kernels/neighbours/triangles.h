// A point's k nearest triangles, exactly: closer-child traversal of the radix tree with a list.
//
// INTERFACE
//   sdf_nearest_triangles, sdf_nearest_triangles_many  the traversal; _many for k above 8
#ifndef SDFCLI_NEIGHBOURS_TRIANGLES_H
#define SDFCLI_NEIGHBOURS_TRIANGLES_H
#include "distance/stack.h"
#include "neighbours/list.h"

struct sdf_nearest_triangles_args {
    u32 n;  // queries
    u32 triangles;
    u32 k;                   // 1 to 8; up to 32 for sdf_nearest_triangles_many
    u32 walk;                // 0: only seeds and their neighbours are measured
    u32 seeds;               // seed slots per query
    u32 around;              // number of slots before and after each seed that count as seeds
    const float* points;     // [n, 3]
    const float* triangle;   // [triangles, 9] in Morton order
    const u32* triangle_id;  // [triangles] Morton order to mesh order
    const u32* child;        // [triangles - 1, 2]
    const float* box;        // [triangles - 1, 6]
    const u32* seed;         // [n, seeds] terminated by SDF_NONE
    float* distance;         // [n, k] out: sorted; infinite where fewer exist
    u32* face;               // [n, k] out: triangle ids, SDF_NONE where fewer exist
};
template <int room>
FN void nearest_triangles(const sdf_nearest_triangles_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    Uncounted tally = {0, 0};
    NeighbourList<float, room> list;
    list.start(a.k);
    auto test = [&](u32 slot) {
        const float* t = a.triangle + 9 * (size_t)slot;
        list.offer(triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6)), a.triangle_id[slot]);
    };
    auto reach = [&] { return min_of(list.reach(), SDF_UNKNOWN); };
    for (u32 s = 0; s < a.seeds; s++) {
        u32 slot = a.seed[a.seeds * (size_t)i + s];
        if (slot == SDF_NONE) break;
        u32 last = min_of(slot + a.around, a.triangles - 1);
        for (slot -= min_of(slot, a.around); slot <= last; slot++) test(slot);
    }
    if (a.walk && a.triangles == 1) test(0);
    if (a.walk) walk_radix_tree<CloserChild>(a, p, a.seeds > 0, &tally, test, reach);
    float* distance = a.distance + a.k * (size_t)i;
    list.store(a.k, distance, a.face + a.k * (size_t)i);
    for (u32 j = 0; j < a.k; j++) distance[j] = sqrtf(distance[j]);
}
SDF_KERNEL(sdf_nearest_triangles, PLAIN, i) { nearest_triangles<8>(a, i); }
using sdf_nearest_triangles_many_args = sdf_nearest_triangles_args;
SDF_KERNEL(sdf_nearest_triangles_many, PLAIN, i) { nearest_triangles<32>(a, i); }

#endif
