// Refits on a GPU, by warps. Most nodes have all of their triangles in one warp, whose threads meet there without a
// word to the rest of the device. From the others on they climb as in bvh.h.
#ifndef SDFCLI_WARP_CLIMB_H
#define SDFCLI_WARP_CLIMB_H
#include "warp.h"
#include "winding.h"

#ifdef SDF_SHARED

// For each node with the number of one of the warp's slots: the thread that came to it last, and what the first
// brought.
template <int N>
struct ClimbMemory {
    u32 thread[32];
    float value[N][32];
};

// Climbs from slot i as far as the triangles of its warp alone lead. own: a triangle's N numbers, then a node's;
// merge(node, left, right, own) makes these. Returns the node that is next, SDF_NONE where another thread has gone on.
template <int N, class Merge>
FN u32 climb_together(u32 i, bool starts, u32 node, const u32* node_parent, ClimbMemory<N>* memory, float* own,
                      Merge merge) {
    u32 thread = i % 32, first = i - thread;
    bool climbs = starts;
    memory->thread[thread] = SDF_NONE;
    warp_sync();
    for (;;) {
        u32 at = node - first, other = SDF_NONE;
        bool here = climbs && at < 32;
        if (warp_ballot(here) == 0) break;
        if (here) {
            other = shared_exchange(memory->thread + at, thread);
            if (other == SDF_NONE) {
                for (int k = 0; k < N; k++) memory->value[k][at] = own[k];
                climbs = false;
            }
        }
        warp_sync();
        if (other != SDF_NONE) {
            float left[N], right[N];
            for (int k = 0; k < N; k++) {
                float brought = memory->value[k][at];
                left[k] = other < thread ? brought : own[k];
                right[k] = other < thread ? own[k] : brought;
            }
            merge(node, left, right, own);
            node = node_parent[node];
        }
    }
    bool waits = starts && !climbs && memory->thread[node - first] == thread;
    return climbs || waits ? node : SDF_NONE;
}

FN void sdf_bvh_refit_warp_at(const sdf_bvh_refit_warp_args& a, u32 i) {
    SDF_SHARED ClimbMemory<6> memory[SDF_BLOCK_WARPS];
    u32 leaf = least(i, a.triangles - 1);
    Box own = triangle_box(a.triangle + 9 * (size_t)leaf);
    auto merge = [&](u32 node, const float* left, const float* right, float* box) {
        for (int k = 0; k < 3; k++) {
            a.box[6 * (size_t)node + k] = box[k] = least(left[k], right[k]);
            a.box[6 * (size_t)node + k + 3] = box[k + 3] = most(left[k + 3], right[k + 3]);
        }
    };
    u32 node = climb_together(i, i < a.triangles, a.leaf_parent[leaf], a.node_parent, memory + i / 32 % SDF_BLOCK_WARPS,
                              own.v, merge);
    climb(node, a.node_parent, a.arrivals, [&](u32 at) {
        Box l = child_box(a, a.child[2 * (size_t)at]), r = child_box(a, a.child[2 * (size_t)at + 1]);
        merge(at, l.v, r.v, own.v);
    });
}

#define SDF_SUMMED 13  // what a node's moments are made of: centre, normal, area, first moments

FN void store_sums(const Moments& m, float* out) {
    float head[7] = {m.centre.x, m.centre.y, m.centre.z, m.normal.x, m.normal.y, m.normal.z, m.area};
    for (int k = 0; k < 7; k++) out[k] = head[k];
    for (int k = 0; k < 6; k++) out[7 + k] = m.first[k];
}
FN Moments load_sums(const float* from) {
    Moments m;
    m.centre = load3(from);
    m.normal = load3(from + 3);
    m.area = from[6];
    for (int k = 0; k < 6; k++) m.first[k] = from[7 + k];
    return m;
}
FN void sdf_winding_moments_warp_at(const sdf_winding_moments_warp_args& a, u32 i) {
    SDF_SHARED ClimbMemory<SDF_SUMMED> memory[SDF_BLOCK_WARPS];
    u32 leaf = least(i, a.triangles - 1);
    float own[SDF_SUMMED];
    store_sums(child_moments(a, SDF_LEAF | leaf), own);
    auto merge = [&](u32 node, const float* left, const float* right, float* sums) {
        store_sums(node_moments(a, node, load_sums(left), load_sums(right)), sums);
    };
    u32 node = climb_together(i, i < a.triangles, a.leaf_parent[leaf], a.node_parent, memory + i / 32 % SDF_BLOCK_WARPS,
                              own, merge);
    climb(node, a.node_parent, a.arrivals, [&](u32 at) {
        node_moments(a, at, child_moments(a, a.child[2 * (size_t)at]), child_moments(a, a.child[2 * (size_t)at + 1]));
    });
}
#endif

#endif
