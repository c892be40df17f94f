// Bounding volume hierarchy by locally-ordered clustering (PLOC, Meister and Bittner 2018): clusters in Morton order;
// each finds, among SDF_PLOC_RADIUS on either side, the one with which its box would have the least surface; two that
// find each other merge. Ties are settled by a total order of the pairs, so that rounds always merge some.
//
// INTERFACE
//   sdf_ploc_start    leaves as clusters
//   sdf_ploc_nearest  each cluster's partner
//   sdf_ploc_pair     clusters that stay, and those of them that merge
//   sdf_ploc_merge    the next round's clusters, and the nodes of those that merge
#ifndef SDFCLI_TREES_PLOC_H
#define SDFCLI_TREES_PLOC_H
#include "base/kernel.h"
#include "geometry/boxes.h"
#include "trees/child.h"

constexpr u32 SDF_PLOC_RADIUS = 16;

FN Box load_box(const float* boxes, u32 i) {
    Box b;
    for (int k = 0; k < 6; k++) b.v[k] = boxes[6 * (size_t)i + k];
    return b;
}
FN float half_area(const Box& b) {
    float x = b.v[3] - b.v[0], y = b.v[4] - b.v[1], z = b.v[5] - b.v[2];
    return x * y + y * z + z * x;
}

struct sdf_ploc_start_args {
    u32 n;                  // triangles
    const float* triangle;  // [n, 9] in Morton order
    u32* cluster;           // [n] out
    float* box;             // [n, 6] out
};
SDF_KERNEL(sdf_ploc_start, PLAIN, i) {
    a.cluster[i] = make_leaf(i);
    Box own = triangle_box(a.triangle + 9 * (size_t)i);
    store_row<6>(a.box + 6 * (size_t)i, own.v);
}

struct sdf_ploc_nearest_args {
    u32 n;             // clusters
    const float* box;  // [n, 6]
    u32* nearest;      // [n] out
};
SDF_KERNEL(sdf_ploc_nearest, PLAIN, i) {
    Box own = load_box(a.box, i);
    float least = SDF_NO_BOX;
    u32 best = SDF_NONE, last = min_of(i + SDF_PLOC_RADIUS, a.n - 1);
    for (u32 j = i - min_of(i, SDF_PLOC_RADIUS); j <= last; j++) {
        if (j == i) continue;
        float area = half_area(box_of_both(own, load_box(a.box, j)));
        if (area < least || (area == least && (i ^ j) < (i ^ best))) {
            least = area;
            best = j;
        }
    }
    a.nearest[i] = best;
}

struct sdf_ploc_pair_args {
    u32 n;               // clusters
    const u32* nearest;  // [n]
    u32* stays;          // [n] out: 0 or 1
    u32* merges;         // [n] out: 0 or 1
};
SDF_KERNEL(sdf_ploc_pair, PLAIN, i) {
    u32 j = a.nearest[i];
    bool both = a.nearest[j] == i;
    a.stays[i] = !both || i < j;
    a.merges[i] = both && i < j;
}

struct sdf_ploc_merge_args {
    u32 n;               // clusters
    u32 nodes;           // inner nodes that are still missing: the last ones first
    const u32* nearest;  // [n]
    const u32* stay;     // [n] inclusive sums of `stays`
    const u32* merge;    // [n] inclusive sums of `merges`
    const u32* cluster;  // [n]
    const float* box;    // [n, 6]
    u32* next_cluster;   // [next] out
    float* next_box;     // [next, 6] out
    u32* child;          // [inner, 2] out
    float* node_box;     // [inner, 6] out
    u32* node_parent;    // [inner] out: of those that merge
    u32* leaf_parent;    // [triangles] out: of those that merge
};
SDF_KERNEL(sdf_ploc_merge, PLAIN, i) {
    u32 stay = a.stay[i], merge = a.merge[i];
    if (stay == (i ? a.stay[i - 1] : 0u)) return;
    u32 own = a.cluster[i];
    Box around = load_box(a.box, i);
    if (merge != (i ? a.merge[i - 1] : 0u)) {
        u32 j = a.nearest[i], node = a.nodes - merge, other = a.cluster[j];
        around = box_of_both(around, load_box(a.box, j));
        a.child[2 * (size_t)node] = own;
        a.child[2 * (size_t)node + 1] = other;
        store_row<6>(a.node_box + 6 * (size_t)node, around.v);
        (is_leaf(own) ? a.leaf_parent : a.node_parent)[leaf_index(own)] = node;
        (is_leaf(other) ? a.leaf_parent : a.node_parent)[leaf_index(other)] = node;
        own = node;
    }
    a.next_cluster[stay - 1] = own;
    store_row<6>(a.next_box + 6 * (size_t)(stay - 1), around.v);
}

#endif
