// The thesis's distance queries: a point's nearest triangle from the binary tree, with a stack.
//
// INTERFACE
//   sdf_distance_baseline, sdf_distance_soa, sdf_distance_cct  two node layouts in fixed order; closer child first
//   sdf_distance_*_counted                                     the same, counting box and triangle tests
#ifndef SDFCLI_DISTANCE_STACK_H
#define SDFCLI_DISTANCE_STACK_H
#include "base/kernel.h"
#include "geometry/triangle.h"
#include "trees/radix.h"

struct Hit {
    float distance_sq;
    u32 slot;
};

// A query's test counters. Only the *_counted kernels count; elsewhere the counters are optimised away.
struct Uncounted {
    static constexpr bool counts = false;
    u32 boxes, tests;
};

struct Counted {
    static constexpr bool counts = true;
    u32 boxes, tests;
};
template <class Tally>
FN float measure_box(F3 p, const float* box, Tally* tally) {
    if (Tally::counts) tally->boxes++;
    return box_distance_sq(p, box);
}

struct sdf_distance_cct_args {
    u32 n;  // queries
    u32 triangles;
    u32 seeds;               // seed slots per query
    const float* points;     // [n, 3]
    const float* triangle;   // [triangles, 9] in Morton order
    const u32* triangle_id;  // [triangles] Morton order to mesh order
    const float* node;       // [triangles - 1, 8] baseline: a box and the two children's bits
    const u32* child;        // [triangles - 1, 2] other kernels
    const float* box;        // [triangles - 1, 6]
    const u32* seed;         // [n, seeds] terminated by SDF_NONE
    float* distance;         // [n] out
    u32* slot;               // [n] out: the nearest triangle's slot
    u32* boxes;              // [n] out, counting kernels: box tests
    u32* tests;              // [n] out, counting kernels: triangle tests
};
// Ties go to the smallest triangle id, so the result does not depend on the traversal order.
template <class Tally>
FN void test_triangle(const sdf_distance_cct_args& a, F3 p, u32 slot, Hit* best, Tally* tally) {
    const float* t = a.triangle + 9 * (size_t)slot;
    if (Tally::counts) tally->tests++;
    float d = triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
    if (d < best->distance_sq || (d == best->distance_sq && a.triangle_id[slot] < a.triangle_id[best->slot])) {
        best->distance_sq = d;
        best->slot = slot;
    }
}
// The same after a test of the triangle's box: a tenth of the work, and usually sufficient.
template <class Tally>
FN void test_boxed_triangle(const sdf_distance_cct_args& a, F3 p, u32 slot, Hit* best, Tally* tally) {
    if (measure_box(p, triangle_box(a.triangle + 9 * (size_t)slot).v, tally) <= best->distance_sq)
        test_triangle(a, p, slot, best, tally);
}

// Initial bound from triangles known to be close, such as the previous frame's. A single triangle has no tree.
template <class Tally>
FN Hit first_hit(const sdf_distance_cct_args& a, F3 p, u32 i, Tally* tally) {
    Hit best = {SDF_UNKNOWN, 0};
    u32 last = SDF_NONE;
    for (u32 s = 0; s < a.seeds; s++) {
        u32 slot = a.seed[a.seeds * (size_t)i + s];
        if (slot == SDF_NONE) break;
        if (last == SDF_NONE)
            test_triangle(a, p, slot, &best, tally);
        else if (slot != last)
            test_boxed_triangle(a, p, slot, &best, tally);
        last = slot;
    }
    if (a.triangles == 1) test_triangle(a, p, 0, &best, tally);
    return best;
}

template <class Tally>
FN void store_hit(const sdf_distance_cct_args& a, u32 i, Hit best, Tally tally) {
    a.distance[i] = sqrtf(best.distance_sq);
    a.slot[i] = best.slot;
    if (!Tally::counts) return;
    a.boxes[i] = tally.boxes;
    a.tests[i] = tally.tests;
}

struct alignas(8) Children {  // loaded together
    u32 left, right;
};

// The thesis's two node layouts. One structure: the children are loaded together with the box.
struct Structures {
    float box[6], child[2];
};
template <class Args>
FN Structures load_node(const Args& a, u32 node, Structures) {
    return ((const Structures*)a.node)[node];
}
template <class Args>
FN Children children_of(const Args&, u32, const Structures& own) {
    Children pair = {float_bits(own.child[0]), float_bits(own.child[1])};
    return pair;
}

// Two arrays, the "hybrid SoA": the children are loaded only after the box has passed.
struct Arrays {
    const float* box;
};
template <class Args>
FN Arrays load_node(const Args& a, u32 node, Arrays) {
    Arrays own = {a.box + 6 * (size_t)node};
    return own;
}
template <class Args>
FN Children children_of(const Args& a, u32 node, const Arrays&) {
    return ((const Children*)a.child)[node];
}

// The thesis's traversals: depth first, with a stack of nodes and squared distances; leaf children are tested
// immediately, only internal nodes are pushed. Fixed order pushes both children, left then right. Closer-child
// traversal (the thesis, Algorithm 1) measures both and pushes those close enough, the closer one last. The thesis also
// drops boxes at exactly the best distance; here they are visited, since an equally close triangle in them may have a
// smaller id. With `lean`, closer-child traversal does not measure popped boxes again: after a seed, the first bound is
// nearly the final one, so a box close enough when pushed usually remains so.
//
// test: takes a triangle's slot. reach: returns the squared search radius.
template <class Layout, bool kCloserChild, class Args, class Tally, class Test, class Reach>
FN void walk_radix_tree(const Args& a, F3 p, bool lean, Tally* tally, const Test& test, const Reach& reach) {
    u32 stack[SDF_STACK];
    int depth = 0;
    if (a.triangles > 1) stack[depth++] = 0;
    while (depth > 0) {
        u32 node = stack[--depth];
        Layout own = load_node(a, node, Layout());
        bool measured = kCloserChild && lean;
        if (!measured && measure_box(p, own.box, tally) > reach()) continue;
        Children child = children_of(a, node, own);
        if (is_leaf(child.left)) test(leaf_index(child.left));
        if (is_leaf(child.right)) test(leaf_index(child.right));
        if (kCloserChild) {
            float left = SDF_NO_BOX, right = SDF_NO_BOX;
            if (!is_leaf(child.left)) left = measure_box(p, load_node(a, child.left, Layout()).box, tally);
            if (!is_leaf(child.right)) right = measure_box(p, load_node(a, child.right, Layout()).box, tally);
            bool swap = left < right;
            if (max_of(left, right) <= reach()) stack[depth++] = select(swap, child.right, child.left);
            if (min_of(left, right) <= reach()) stack[depth++] = select(swap, child.left, child.right);
        } else {
            if (!is_leaf(child.left)) stack[depth++] = child.left;
            if (!is_leaf(child.right)) stack[depth++] = child.right;
        }
    }
}

template <class Layout, bool kCloserChild, class Tally>
FN void stack_query(const sdf_distance_cct_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    Tally tally = {0, 0};
    Hit best = first_hit(a, p, i, &tally);
    auto test = [&](u32 slot) { test_triangle(a, p, slot, &best, &tally); };
    auto reach = [&] { return best.distance_sq; };
    walk_radix_tree<Layout, kCloserChild>(a, p, a.seeds > 0, &tally, test, reach);
    store_hit(a, i, best, tally);
}

using sdf_distance_baseline_args = sdf_distance_cct_args;
SDF_KERNEL(sdf_distance_baseline, PLAIN, i) { stack_query<Structures, false, Uncounted>(a, i); }
using sdf_distance_baseline_counted_args = sdf_distance_cct_args;
SDF_KERNEL(sdf_distance_baseline_counted, PLAIN, i) { stack_query<Structures, false, Counted>(a, i); }
using sdf_distance_soa_args = sdf_distance_cct_args;
SDF_KERNEL(sdf_distance_soa, PLAIN, i) { stack_query<Arrays, false, Uncounted>(a, i); }
using sdf_distance_soa_counted_args = sdf_distance_cct_args;
SDF_KERNEL(sdf_distance_soa_counted, PLAIN, i) { stack_query<Arrays, false, Counted>(a, i); }
SDF_KERNEL(sdf_distance_cct, PLAIN, i) { stack_query<Arrays, true, Uncounted>(a, i); }
using sdf_distance_cct_counted_args = sdf_distance_cct_args;
SDF_KERNEL(sdf_distance_cct_counted, PLAIN, i) { stack_query<Arrays, true, Counted>(a, i); }

#endif
