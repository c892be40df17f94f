// A binary tree by agglomeration: parallel locally-ordered clustering (PLOC, Meister and Bittner 2018), in the two
// steps per round of PLOC++ (Benthin et al. 2022).
//
// Clusters, at first the triangles in Morton order, each find the one with the smallest joint surface among `radius` on
// either side. Two that find each other become a node, in the place of the first, until a single cluster remains. The
// arrays are the radix tree's (trees/radix.h), but a node's triangles are no range of slots. Nodes are numbered from
// the last one made: the root is 0, and parents come before their children.
//
// Ties: among equal surfaces, the smallest i ^ j for clusters i and j, which differs among a cluster's neighbours. So a
// pair that is smallest of all is mutual, each round merges at least one, and equal boxes give a balanced tree.
//
// Height: a round adds at most one level, and there are at most SDF_STACK - 1 rounds, for traversals. Boxes nested in
// each other would need one round per box: from the round on in which only halving stays within the limit, clusters 2k
// and 2k + 1 merge whatever their surface.
//
// INTERFACE
//   sdf_ploc_build  the nodes, their boxes and parents, in one launch
#ifndef SDFCLI_TREES_PLOC_H
#define SDFCLI_TREES_PLOC_H
#include "base/steps.h"
#include "trees/radix.h"

// Half of the surface.
FN float half_surface(const Box& b) {
    float x = b.v[3] - b.v[0], y = b.v[4] - b.v[1], z = b.v[5] - b.v[2];
    return x * y + y * z + z * x;
}
// The index that cluster i would merge with.
FN u32 nearest_cluster(const Box* bounds, u32 count, u32 radius, u32 i) {
    const Box own = bounds[i];
    u32 last = min_of(count - 1, i + radius);
    u64 best = ~0ull;
    for (u32 j = i - min_of(i, radius); j <= last; j++) {
        u64 key = (u64)float_bits(half_surface(box_of_both(own, bounds[j]))) << 32 | (i ^ j);
        if (j != i) best = min_of(best, key);
    }
    return i ^ (u32)best;
}

struct sdf_ploc_build_args {
    u32 n;  // threads: all that run concurrently
    u32 triangles;
    u32 radius;             // clusters compared on either side, at least 1
    const float* triangle;  // [triangles, 9] in Morton order
    u32* child;             // [triangles - 1, 2] out
    u32* node_parent;       // [triangles - 1] out: SDF_NONE at the root
    u32* leaf_parent;       // [triangles] out
    float* box;             // [triangles - 1, 6] out
    u32* cluster;           // [2, triangles] scratch: a cluster's node or leaf
    float* bounds;          // [2, triangles, 6] scratch: its box
    u32* nearest;           // [triangles] scratch
    u64* sums;              // [8192] scratch
    u32* arrivals;          // [1] 0 at first
};
SDF_KERNEL(sdf_ploc_build, STEPS, i) {
    Steps steps = steps_of(i, a.n, a.arrivals, a.sums);
    u32 *cluster = a.cluster, *next_cluster = cluster + a.triangles;
    Box *bounds = (Box*)a.bounds, *next_bounds = bounds + a.triangles;
    steps.each(a.triangles, [&](u32 k) {
        cluster[k] = make_leaf(k);
        bounds[k] = triangle_box(a.triangle + 9 * (size_t)k);
    });
    steps.meet();
    u32 count = a.triangles;
    for (u32 rounds = SDF_STACK - 1; count > 1; rounds--) {
        bool halve = rounds <= 32 && count > 1u << (rounds - 1);
        steps.each(count, [&](u32 k) { a.nearest[k] = halve ? k ^ 1 : nearest_cluster(bounds, count, a.radius, k); });
        steps.meet();
        auto merges = [&](u32 k) { return a.nearest[k] < count && a.nearest[a.nearest[k]] == k; };
        // Clusters of the next round, and nodes in the upper half.
        auto made = [&](u32 k) -> u64 { return !merges(k) ? 1 : k < a.nearest[k] ? 1ull << 32 | 1 : 0; };
        u64 all = steps.scan(count, made, [&](u32 k, u64 before, u64 own, u64) {
            if (own == 0) return;
            u32 to = (u32)before, from = cluster[k];
            Box both = bounds[k];
            if (own > 1) {
                u32 other = a.nearest[k], node = count - 2 - (u32)(before >> 32);
                u32 pair[2] = {from, cluster[other]};
                both = box_of_both(both, bounds[other]);
                for (int side = 0; side < 2; side++) {
                    a.child[2 * (size_t)node + side] = pair[side];
                    (is_leaf(pair[side]) ? a.leaf_parent : a.node_parent)[leaf_index(pair[side])] = node;
                }
                store_row<6>(a.box + 6 * (size_t)node, both.v);
                from = node;
            }
            next_cluster[to] = from;
            next_bounds[to] = both;
        });
        count = (u32)all;
        u32* clusters_before = cluster;
        cluster = next_cluster;
        next_cluster = clusters_before;
        Box* bounds_before = bounds;
        bounds = next_bounds;
        next_bounds = bounds_before;
    }
    if (steps.leads()) a.node_parent[0] = SDF_NONE;
}

#endif
