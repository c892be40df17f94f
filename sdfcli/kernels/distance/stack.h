// The thesis's distance queries: a point's nearest triangle from the binary tree, with a stack.
//
// INTERFACE
//   sdf_distance_baseline, sdf_distance_soa, sdf_distance_cct  two node layouts in fixed order; closer child first
//   sdf_distance_vectors, sdf_distance_deferred                Baseline with other loads
//   sdf_distance_components                                    the complete SoA
//   sdf_distance_*_counted                                     the same, counting box and triangle tests
//   walk_radix_tree                                            a traversal for other queries
#ifndef SDFCLI_DISTANCE_STACK_H
#define SDFCLI_DISTANCE_STACK_H
#include "base/kernel.h"
#include "geometry/triangle.h"
#include "trees/radix.h"

struct Hit {
    float distance_sq;
    u32 slot;
};

// Where a traversal's step loads from memory. A triangle's own and the best triangle's id follow LEFT and RIGHT.
enum LoadSite { NODE, CHILDREN, LEFT, RIGHT = LEFT + 3, LEFT_BOX = RIGHT + 3, RIGHT_BOX, LOAD_SITES };

// A query's test counters. Only the *_counted kernels count; elsewhere the counters are optimised away. Loads are
// counted in distance/traffic.h.
template <bool kCounts>
struct Tests {
    static constexpr bool counts = kCounts;
    u32 boxes, tests;
    METHOD void at(LoadSite) {}
    METHOD void load(size_t, int, size_t, int = 0) {}
};
using Uncounted = Tests<false>;
using Counted = Tests<true>;
template <class Tally>
FN float measure_box(F3 p, const float* box, Tally* tally) {
    if (Tally::counts) tally->boxes++;
    return box_distance_sq(p, box);
}

struct StackQuery {
    u32 n;  // queries
    u32 triangles;
    u32 seeds;               // seed slots per query
    const float* points;     // [n, 3]
    const float* triangle;   // [triangles, 9] in Morton order
    const u32* triangle_id;  // [triangles] Morton order to mesh order
    const float* node;       // [nodes, 8] a box and the children's bits; `components`: the transpose
    const u32* child;        // [triangles - 1, 2] soa, cct
    const float* box;        // [nodes, 6] soa, cct
    const u32* seed;         // [n, seeds] terminated by SDF_NONE
    float* distance;         // [n] out
    u32* slot;               // [n] out: the nearest triangle's slot
    u32* boxes;              // [n] out, counting kernels: box tests
    u32* tests;              // [n] out, counting kernels: triangle tests
};
template <class Tally>
FN bool has_smaller_id(const StackQuery& a, u32 slot, u32 other, Tally* tally) {
    tally->load(4 * (size_t)slot, 1, 0, 1);
    tally->load(4 * (size_t)other, 1, 0, 2);
    return a.triangle_id[slot] < a.triangle_id[other];
}
// Ties go to the smallest triangle id, so the result does not depend on the traversal order.
template <class Tally>
FN void test_triangle(const StackQuery& a, F3 p, u32 slot, Hit* best, Tally* tally) {
    const float* t = a.triangle + 9 * (size_t)slot;
    if (Tally::counts) tally->tests++;
    tally->load(36 * (size_t)slot, 9, 4);
    float d = triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
    if (d < best->distance_sq || (d == best->distance_sq && has_smaller_id(a, slot, best->slot, tally))) {
        best->distance_sq = d;
        best->slot = slot;
    }
}
// The same after a test of the triangle's box: a tenth of the work, and usually sufficient.
template <class Tally>
FN void test_boxed_triangle(const StackQuery& a, F3 p, u32 slot, Hit* best, Tally* tally) {
    if (measure_box(p, triangle_box(a.triangle + 9 * (size_t)slot).v, tally) <= best->distance_sq)
        test_triangle(a, p, slot, best, tally);
}

// Initial bound from triangles known to be close, such as the previous frame's. A single triangle has no tree.
template <class Tally>
FN Hit first_hit(const StackQuery& a, F3 p, u32 i, Tally* tally) {
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
FN void store_hit(const StackQuery& a, u32 i, Hit best, Tally tally) {
    a.distance[i] = sqrtf(best.distance_sq);
    a.slot[i] = best.slot;
    if (!Tally::counts) return;
    a.boxes[i] = tally.boxes;
    a.tests[i] = tally.tests;
}

struct alignas(8) Children {  // loaded together
    u32 left, right;
};

// Node layouts. load_node reads a node's box; children_of reads the children, once the box has passed.

// Structures of 32 bytes. The compiler delays the children's load until the box has passed.
struct Structures {
    float box[6], child[2];
};
template <class Args, class Tally>
FN Structures load_node(const Args& a, u32 node, Structures, Tally* tally) {
    tally->load(32 * (size_t)node, 6, 4);
    return ((const Structures*)a.node)[node];
}
template <class Args, class Tally>
FN Children children_of(const Args&, u32 node, const Structures& own, Tally* tally) {
    tally->load(32 * (size_t)node + 24, 2, 4);
    Children pair = {float_bits(own.child[0]), float_bits(own.child[1])};
    return pair;
}

// The same, read whole before the box test, as the thesis describes: eight loads of 4 bytes, its structure's alignment,
// or two of 16. `hollow`, never true, needs the children for the test; otherwise they would be loaded later.
template <int kBytes>
struct Whole {
    float box[8];  // the last two: the children's bits
};
template <int kBytes, class Args, class Tally>
FN Whole<kBytes> load_node(const Args& a, u32 node, Whole<kBytes>, Tally* tally) {
    tally->load(32 * (size_t)node, 32 / kBytes, kBytes);
    const float* row = a.node + 8 * (size_t)node;
    Whole<kBytes> own;
    if (kBytes == 16)
        load_row<8>(row, own.box);
    else
        for (int k = 0; k < 8; k++) own.box[k] = row[k];
    return own;
}
template <int kBytes>
FN bool hollow(const Whole<kBytes>& own) {
    return float_bits(own.box[6]) == float_bits(own.box[7]);
}
template <class Layout>
FN bool hollow(const Layout&) {
    return false;
}
template <int kBytes, class Args, class Tally>
FN Children children_of(const Args&, u32, const Whole<kBytes>& own, Tally*) {
    Children pair = {float_bits(own.box[6]), float_bits(own.box[7])};
    return pair;
}

// Two arrays, the "hybrid SoA".
struct Arrays {
    const float* box;
};
template <class Args, class Tally>
FN Arrays load_node(const Args& a, u32 node, Arrays, Tally* tally) {
    tally->load(24 * (size_t)node, 6, 4);
    Arrays own = {a.box + 6 * (size_t)node};
    return own;
}
template <class Args, class Tally>
FN Children children_of(const Args& a, u32 node, const Arrays&, Tally* tally) {
    tally->load(8 * (size_t)node, 1, 8);
    return ((const Children*)a.child)[node];
}

// Eight arrays, the complete SoA.
struct Components {
    float box[6];
};
template <class Args, class Tally>
FN Components load_node(const Args& a, u32 node, Components, Tally* tally) {
    size_t nodes = 2 * (size_t)a.triangles - 1;
    tally->load(4 * (size_t)node, 6, 4 * nodes);
    Components own;
    for (int k = 0; k < 6; k++) own.box[k] = a.node[k * nodes + node];
    return own;
}
template <class Args, class Tally>
FN Children children_of(const Args& a, u32 node, const Components&, Tally* tally) {
    size_t nodes = 2 * (size_t)a.triangles - 1;
    tally->load(4 * (6 * nodes + node), 2, 4 * nodes);
    Children pair = {float_bits(a.node[6 * nodes + node]), float_bits(a.node[7 * nodes + node])};
    return pair;
}

// Traversals, depth first, with a stack of nodes and squared distances. A step pops a node and returns the stack's new
// depth.
//
// test: takes a triangle's slot. reach: returns the squared search radius.

// The thesis's Baseline (section 3.4.1): boxes of all popped nodes are tested, those of leaves, too; leaves' nodes
// follow the inner ones. The left child is visited first.
template <class Layout>
struct LeftFirst {
    template <class Args, class Tally, class Test, class Reach>
    METHOD static int step(const Args& a, F3 p, bool, u32* stack, int depth, Tally* tally, const Test& test,
                           const Reach& reach) {
        u32 node = stack[--depth];
        tally->at(NODE);
        Layout own = load_node(a, is_leaf(node) ? a.triangles - 1 + leaf_index(node) : node, Layout(), tally);
        if ((measure_box(p, own.box, tally) > reach()) | hollow(own)) return depth;
        tally->at(LEFT);
        if (is_leaf(node)) {
            test(leaf_index(node));
            return depth;
        }
        tally->at(CHILDREN);
        Children child = children_of(a, node, own, tally);
        stack[depth++] = child.right;
        stack[depth++] = child.left;
        return depth;
    }
};

// Leaf children are tested immediately, without their boxes; only internal nodes are pushed. Fixed order pushes both
// children, left then right. Closer-child traversal (the thesis, Algorithm 1) measures both and pushes those close
// enough, the closer one last. The thesis also drops boxes at exactly the best distance; here they are visited, since
// an equally close triangle in them may have a smaller id. With `lean`, closer-child traversal does not measure popped
// boxes again: after a seed, the first bound is nearly the final one, so a box close enough when pushed usually remains
// so.
template <class Layout, bool kCloserChild>
struct LeavesFirst {
    template <class Args, class Tally, class Test, class Reach>
    METHOD static int step(const Args& a, F3 p, bool lean, u32* stack, int depth, Tally* tally, const Test& test,
                           const Reach& reach) {
        u32 node = stack[--depth];
        tally->at(NODE);
        Layout own = load_node(a, node, Layout(), tally);
        bool measured = kCloserChild && lean;
        if (!measured && measure_box(p, own.box, tally) > reach()) return depth;
        tally->at(CHILDREN);
        Children child = children_of(a, node, own, tally);
        tally->at(LEFT);
        if (is_leaf(child.left)) test(leaf_index(child.left));
        tally->at(RIGHT);
        if (is_leaf(child.right)) test(leaf_index(child.right));
        if (kCloserChild) {
            float left = SDF_NO_BOX, right = SDF_NO_BOX;
            tally->at(LEFT_BOX);
            if (!is_leaf(child.left)) left = measure_box(p, load_node(a, child.left, Layout(), tally).box, tally);
            tally->at(RIGHT_BOX);
            if (!is_leaf(child.right)) right = measure_box(p, load_node(a, child.right, Layout(), tally).box, tally);
            bool swap = left < right;
            if (max_of(left, right) <= reach()) stack[depth++] = select(swap, child.right, child.left);
            if (min_of(left, right) <= reach()) stack[depth++] = select(swap, child.left, child.right);
        } else {
            if (!is_leaf(child.left)) stack[depth++] = child.left;
            if (!is_leaf(child.right)) stack[depth++] = child.right;
        }
        return depth;
    }
};
using CloserChild = LeavesFirst<Arrays, true>;

template <class Walk, class Args, class Tally, class Test, class Reach>
FN void walk_radix_tree(const Args& a, F3 p, bool lean, Tally* tally, const Test& test, const Reach& reach) {
    u32 stack[SDF_STACK];
    int depth = 0;
    if (a.triangles > 1) stack[depth++] = 0;
    while (depth > 0) depth = Walk::step(a, p, lean, stack, depth, tally, test, reach);
}

template <class Walk, class Tally>
FN void stack_query(const StackQuery& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    Tally tally = {0, 0};
    Hit best = first_hit(a, p, i, &tally);
    auto test = [&](u32 slot) { test_triangle(a, p, slot, &best, &tally); };
    auto reach = [&] { return best.distance_sq; };
    walk_radix_tree<Walk>(a, p, a.seeds > 0, &tally, test, reach);
    store_hit(a, i, best, tally);
}

using sdf_distance_baseline_args = StackQuery;
SDF_KERNEL(sdf_distance_baseline, PLAIN, i) { stack_query<LeftFirst<Whole<4>>, Uncounted>(a, i); }
using sdf_distance_baseline_counted_args = StackQuery;
SDF_KERNEL(sdf_distance_baseline_counted, PLAIN, i) { stack_query<LeftFirst<Whole<4>>, Counted>(a, i); }
using sdf_distance_vectors_args = StackQuery;
SDF_KERNEL(sdf_distance_vectors, PLAIN, i) { stack_query<LeftFirst<Whole<16>>, Uncounted>(a, i); }
using sdf_distance_vectors_counted_args = StackQuery;
SDF_KERNEL(sdf_distance_vectors_counted, PLAIN, i) { stack_query<LeftFirst<Whole<16>>, Counted>(a, i); }
using sdf_distance_soa_args = StackQuery;
SDF_KERNEL(sdf_distance_soa, PLAIN, i) { stack_query<LeftFirst<Arrays>, Uncounted>(a, i); }
using sdf_distance_soa_counted_args = StackQuery;
SDF_KERNEL(sdf_distance_soa_counted, PLAIN, i) { stack_query<LeftFirst<Arrays>, Counted>(a, i); }
using sdf_distance_components_args = StackQuery;
SDF_KERNEL(sdf_distance_components, PLAIN, i) { stack_query<LeftFirst<Components>, Uncounted>(a, i); }
using sdf_distance_components_counted_args = StackQuery;
SDF_KERNEL(sdf_distance_components_counted, PLAIN, i) { stack_query<LeftFirst<Components>, Counted>(a, i); }
using sdf_distance_deferred_args = StackQuery;
SDF_KERNEL(sdf_distance_deferred, PLAIN, i) { stack_query<LeavesFirst<Structures, false>, Uncounted>(a, i); }
using sdf_distance_deferred_counted_args = StackQuery;
SDF_KERNEL(sdf_distance_deferred_counted, PLAIN, i) { stack_query<LeavesFirst<Structures, false>, Counted>(a, i); }
using sdf_distance_cct_args = StackQuery;
SDF_KERNEL(sdf_distance_cct, PLAIN, i) { stack_query<CloserChild, Uncounted>(a, i); }
using sdf_distance_cct_counted_args = StackQuery;
SDF_KERNEL(sdf_distance_cct_counted, PLAIN, i) { stack_query<CloserChild, Counted>(a, i); }

#endif
