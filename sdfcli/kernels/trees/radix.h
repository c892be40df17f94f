// Bounding volume hierarchy over triangles in Morton order: Karras' binary radix tree (2012), then a refit.
//
// A tree over n triangles has n - 1 internal nodes. A child is an internal node's index, or a leaf: the triangle's
// slot, its index in Morton order. Child pairs and boxes are in separate arrays (the thesis's hybrid SoA): a node's
// children are loaded only after its box has passed.
//
// INTERFACE
//   RadixTree      the nodes, for kernels
//   SDF_STACK      stack size for a traversal
//   reduce_bottom_up          combines subtree values from the leaves to the root
//   child_box      a child's box
//   sdf_bvh_build  the nodes, one thread each
//   sdf_bvh_refit  their boxes, one thread per leaf
#ifndef SDFCLI_TREES_RADIX_H
#define SDFCLI_TREES_RADIX_H
#include "base/kernel.h"
#include "geometry/boxes.h"
#include "trees/child.h"

// Each step down the radix tree lengthens the common prefix, at most 64 + 31 bits (a 64-bit key, then the triangle's
// index), and a traversal postpones at most one sibling per step: the stack cannot overflow.
#define SDF_STACK 96

// Length of two keys' common prefix. Equal keys differ by their index, as if appended to the key.
FN int common_prefix(const u64* keys, int n, int i, int j) {
    if (j < 0 || j >= n) return -1;
    u64 differ = keys[i] ^ keys[j];
    return differ ? clz(differ) : 64 + clz((u32)i ^ (u32)j);
}

// One internal node: its direction, other end, and split (Karras 2012, section 4).
struct sdf_bvh_build_args {
    u32 n;  // internal nodes: triangles - 1
    u32 triangles;
    const u64* keys;   // [triangles] sorted
    u32* child;        // [n, 2] out
    u32* node_parent;  // [n] out: SDF_NONE at the root
    u32* leaf_parent;  // [triangles] out
};
SDF_KERNEL(sdf_bvh_build, PLAIN, node) {
    const u64* k = a.keys;
    int n = (int)a.triangles, i = (int)node;
    int d = common_prefix(k, n, i, i + 1) > common_prefix(k, n, i, i - 1) ? 1 : -1;
    int least_prefix = common_prefix(k, n, i, i - d), reach = 2;
    while (common_prefix(k, n, i, i + reach * d) > least_prefix) reach *= 2;
    int length = 0;
    for (int t = reach / 2; t > 0; t /= 2)
        if (common_prefix(k, n, i, i + (length + t) * d) > least_prefix) length += t;
    int j = i + length * d, prefix = common_prefix(k, n, i, j), s = 0;
    for (int t = (length + 1) / 2;; t = (t + 1) / 2) {
        if (common_prefix(k, n, i, i + (s + t) * d) > prefix) s += t;
        if (t == 1) break;
    }
    int split = i + s * d + (d < 0 ? -1 : 0), first = min_of(i, j), last = max_of(i, j);
    u32 left = (u32)split | (first == split ? SDF_LEAF : 0u);
    u32 right = (u32)(split + 1) | (last == split + 1 ? SDF_LEAF : 0u);
    a.child[2 * (size_t)i] = left;
    a.child[2 * (size_t)i + 1] = right;
    (is_leaf(left) ? a.leaf_parent : a.node_parent)[split] = node;
    (is_leaf(right) ? a.leaf_parent : a.node_parent)[split + 1] = node;
    if (i == 0) a.node_parent[0] = SDF_NONE;
}

struct RadixTree {
    u32 triangles;
    const float* triangle;   // [triangles, 9] in Morton order
    const u32* child;        // [triangles - 1, 2]
    const u32* node_parent;  // [triangles - 1]
    const u32* leaf_parent;  // [triangles]
};
// Combines values from a leaf towards the root. The first child to arrive at a node stops; the second continues with
// join(node, left, right), loading its sibling. Each node is visited once, after both children.
template <class Value, class Load, class Join>
FN void reduce_bottom_up(const RadixTree& tree, u32* arrivals, u32 leaf, Value own, Load load, Join join) {
    u32 from = make_leaf(leaf), node = tree.leaf_parent[leaf];
    while (node != SDF_NONE) {
        const u32 left = tree.child[2 * (size_t)node], right = tree.child[2 * (size_t)node + 1];
        const u32 above = tree.node_parent[node];  // all three load while this one arrives
        if (fetch_add_acq_rel(arrivals + node) == 0u) return;
        if (left == from)
            own = join(node, own, load(right));
        else
            own = join(node, load(left), own);
        from = node;
        node = above;
    }
}

FN Box child_box(const float* triangle, const float* box, u32 child) {
    if (is_leaf(child)) return triangle_box(triangle + 9 * (size_t)leaf_index(child));
    Box b;
    load_coherent<6>(box + 6 * (size_t)child, b.v);
    return b;
}

struct sdf_bvh_refit_args {
    u32 n;  // triangles
    RadixTree tree;
    u32* arrivals;  // [n - 1] in and out: 0 before
    float* box;     // [n - 1, 6] out: lower then upper corner
};
SDF_KERNEL(sdf_bvh_refit, PLAIN, leaf) {
    auto load = [&](u32 child) { return child_box(a.tree.triangle, a.box, child); };
    reduce_bottom_up(a.tree, a.arrivals, leaf, load(make_leaf(leaf)), load, [&](u32 node, const Box& l, const Box& r) {
        Box both = box_of_both(l, r);
        store_row<6>(a.box + 6 * (size_t)node, both.v);
        return both;
    });
}

#endif
