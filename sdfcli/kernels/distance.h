// The exact distance query: the nearest triangle of a point.
#ifndef SDFCLI_DISTANCE_H
#define SDFCLI_DISTANCE_H
#include "bvh.h"

// Every step down the radix tree lengthens the common prefix, which is between 0 and 64 + 31 bits long (a 64-bit key,
// then the place of the triangle), and a traversal holds at most one postponed sibling a step: the stack cannot overflow.
#define SDF_STACK 96

struct Hit {
    float distance_sq;
    u32 slot;
};

// Ties go to the smallest triangle id, so that the answer does not depend on the order of the walk.
FN void test_triangle(const sdf_distance_cct_args& a, F3 p, u32 slot, Hit* best) {
    const float* t = a.triangle + 9 * (size_t)slot;
    if (box_distance_sq(p, triangle_box(t).v) > best->distance_sq) return;  // a tenth of the work, and mostly enough
    float d = triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
    if (d < best->distance_sq || (d == best->distance_sq && a.triangle_id[slot] < a.triangle_id[best->slot])) {
        best->distance_sq = d;
        best->slot = slot;
    }
}

// Closer-child traversal over the hybrid SoA layout (the thesis, Algorithm 1): both children's boxes are measured, the
// nearer is walked first; a child that is a leaf is tested at once. The first bound comes from up to eight triangles
// that are known to lie near (SDF_NONE: no more), or from any triangle at all.
FN void sdf_distance_cct_at(const sdf_distance_cct_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    Hit best = {3.402823466e38f, 0};
    u32 seeds = a.seed ? 8 : 0, last = SDF_NONE;
    for (u32 s = 0; s < seeds; s++) {
        u32 slot = a.seed[8 * (size_t)i + s];
        if (slot == SDF_NONE) break;
        if (slot != last) test_triangle(a, p, slot, &best);
        last = slot;
    }
    if (last == SDF_NONE) test_triangle(a, p, 0, &best);

    u32 node_stack[SDF_STACK], node = 0;
    float bound_stack[SDF_STACK];
    int depth = 0;
    bool more = a.triangles > 1;
    while (more) {
        u32 child[2] = {a.child[2 * (size_t)node], a.child[2 * (size_t)node + 1]};
        float bound[2];
        for (int k = 0; k < 2; k++) {
            bound[k] = 3.402823466e38f;
            if (child[k] & SDF_LEAF)
                test_triangle(a, p, child[k] & ~SDF_LEAF, &best);
            else
                bound[k] = box_distance_sq(p, a.box + 6 * (size_t)child[k]);
        }
        int near = bound[1] < bound[0] ? 1 : 0, far = 1 - near;
        if (!(child[far] & SDF_LEAF) && bound[far] <= best.distance_sq) {
            node_stack[depth] = child[far];
            bound_stack[depth++] = bound[far];
        }
        if (!(child[near] & SDF_LEAF) && bound[near] <= best.distance_sq) {
            node = child[near];
            continue;
        }
        do {
            more = depth > 0;
            if (more) node = node_stack[--depth];
        } while (more && bound_stack[depth] > best.distance_sq);
    }
    a.distance[i] = sqrtf(best.distance_sq);
    a.slot[i] = best.slot;
}

// The nearest point of a point's nearest triangle.
FN void sdf_closest_at(const sdf_closest_args& a, u32 i) {
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    D3 q = nearest_on_triangle(load3d(a.points + 3 * (size_t)i), load3d(t), load3d(t + 3), load3d(t + 6)).point;
    a.nearest[3 * (size_t)i] = q.x;
    a.nearest[3 * (size_t)i + 1] = q.y;
    a.nearest[3 * (size_t)i + 2] = q.z;
}

#endif
