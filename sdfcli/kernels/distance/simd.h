// The CPU's distance query: sixteen consecutive points, one per lane, traverse an implicit tree together. The tree has
// sixteen children per node over triangles in the order of trees/wide_order.h: sixteen consecutive triangles form a
// block, sixteen blocks a level 0 node, sixteen nodes a node on the next level: no pointers, all lanes full. Child j of
// node k is 16 k + j.
//
// Lanes change their role during the traversal. A node's children are tested sixteen per vector against the points'
// common box; close children are then tested against the sixteen points. A block's triangles are tested sixteen per
// vector against one point, by their bounds in the block's frame; close triangles form pairs with the point, and
// sixteen pairs are measured per vector: few triangles are close to most points. Results equal sdf_distance_cct's to
// the last bit: the same arithmetic in every lane, bounds that hold despite rounding (see geometry/turned.h), and a
// nearest triangle independent of the traversal order (see geometry/boxes.h).
//
// INTERFACE
//   sdf_distance_wide_lanes  nearest triangles for consecutive points
#ifndef SDFCLI_DISTANCE_SIMD_H
#define SDFCLI_DISTANCE_SIMD_H
#include "base/simd.h"
#include "geometry/boxes.h"
#include "geometry/triangle.h"
#include "trees/wide.h"

#define SDF_WIDE_LEVELS 8                            // 16^8 = 2^32 blocks
#define SDF_WIDE_STACK (SDF_WIDE * SDF_WIDE_LEVELS)  // a step down a level replaces one entry by at most sixteen

struct sdf_distance_wide_args {
    u32 n;  // queries
    u32 triangles;
    u32 levels;              // node levels above the blocks
    u32 seeds;               // seed slots per query
    const float* points;     // [n, 3]
    const float* triangle;   // [triangles, 9] by slot
    const float* block;      // [ceil(triangles / 16), 7, 16]
    const u32* block_slot;   // [triangles]
    const float* wide_box;   // [nodes, 6, 16]
    const u32* level_start;  // [levels] first node of each level
    const u32* triangle_id;  // [triangles]
    const u32* seed;         // [n, seeds] terminated by SDF_NONE
    float* distance;         // [n] out
    u32* slot;               // [n] out
    u32* boxes;              // [n] out: box tests; may be null
    u32* tests;              // [n] out: triangle tests; may be null
};

namespace {

struct WideBox {
    Vec<FloatV> low, high;
};

struct Postponed {
    float bound, order;
    u32 node;
    int level;
};

struct Packet {
    float x[SDF_LANES], y[SDF_LANES], z[SDF_LANES];
    Vec<FloatV> p;   // as vectors
    WideBox around;  // the points' bounding box, in every lane
    Vec<FloatV> centre;
    FloatV best;     // squared search radii
    float farthest;  // the largest of them
    u32 pairs;       // pending pairs (point, triangle), measured once sixteen have accumulated
    u32 pair_point[2 * SDF_LANES], pair_slot[2 * SDF_LANES];
    u32 boxes, tests;  // vector operations: one box against all points, or sixteen boxes against one point or all

    // The points first .. first + 15 below `last`; unused lanes repeat the last one. Returns their count.
    METHOD u32 load(const float* points, u32 first, u32 last) {
        u32 count = min_of((u32)SDF_LANES, last - first);
        F3 low = {SDF_UNKNOWN, SDF_UNKNOWN, SDF_UNKNOWN}, high = {-SDF_UNKNOWN, -SDF_UNKNOWN, -SDF_UNKNOWN};
        for (u32 k = 0; k < SDF_LANES; k++) {
            F3 own = load3(points + 3 * (size_t)(first + min_of(k, count - 1)));
            x[k] = own.x;
            y[k] = own.y;
            z[k] = own.z;
            low = {min_of(low.x, own.x), min_of(low.y, own.y), min_of(low.z, own.z)};
            high = {max_of(high.x, own.x), max_of(high.y, own.y), max_of(high.z, own.z)};
        }
        p = {load_lanes(x), load_lanes(y), load_lanes(z)};
        F3 middle = 0.5f * (low + high);
        around = {{FloatV(low.x), FloatV(low.y), FloatV(low.z)}, {FloatV(high.x), FloatV(high.y), FloatV(high.z)}};
        centre = {FloatV(middle.x), FloatV(middle.y), FloatV(middle.z)};
        best = FloatV(SDF_UNKNOWN);
        farthest = SDF_UNKNOWN;
        pairs = boxes = tests = 0;
        return count;
    }
};

// Each point's nearest triangle so far, at the squared distance `best`.
struct NearestPacket : Packet {
    WideInts slot, id;

    METHOD void offer(u32 point, float d, u32 of_slot, u32 of_id) {
        if (d == best[point] && of_id >= id[point]) return;
        best.set(point, d);
        slot.set(point, of_slot);
        id.set(point, of_id);
    }
    METHOD void offer_to_all(const FloatV& d, u32 of_slot, u32 of_id) {
        Mask closer = (d < best) | ((d <= best) & (WideInts(of_id) < id));
        best = select(closer, d, best);
        slot = select(closer, WideInts(of_slot), slot);
        id = select(closer, WideInts(of_id), id);
    }
};

FN Vec<FloatV> load_vectors(const float* p) {
    return {load_lanes(p), load_lanes(p + SDF_LANES), load_lanes(p + 2 * SDF_LANES)};
}
FN Vec<FloatV> one_vector(const float* v, int apart = SDF_LANES) {  // broadcast to all lanes
    return {FloatV(v[0]), FloatV(v[apart]), FloatV(v[2 * apart])};
}
FN WideBox load_boxes(const float* b) { return {load_vectors(b), load_vectors(b + 3 * SDF_LANES)}; }
FN WideBox one_box(const float* b) { return {one_vector(b), one_vector(b + 3 * SDF_LANES)}; }
FN FloatV gap(FloatV low, FloatV high, FloatV from, FloatV to) {
    return max_of(max_of(low - to, from - high), FloatV(0.f));
}
// Squared distances between boxes, or between points and boxes, as in box_distance_sq.
FN FloatV gap_sq(const WideBox& b, const Vec<FloatV>& from, const Vec<FloatV>& to) {
    FloatV x = gap(b.low.x, b.high.x, from.x, to.x), y = gap(b.low.y, b.high.y, from.y, to.y),
           z = gap(b.low.z, b.high.z, from.z, to.z);
    return (x * x + y * y + z * z) * FloatV(SDF_BOX_SHRINK);
}

// Triangles, one per lane.
struct TriangleLanes {
    float corner[9 * SDF_LANES];
    METHOD void put(u32 lane, const float* t) {
        for (int c = 0; c < 9; c++) corner[SDF_LANES * c + lane] = t[c];
    }
    METHOD Vec<FloatV> load(int k) const { return load_vectors(corner + 3 * SDF_LANES * k); }
};
FN WideBox boxes_around(const Vec<FloatV>& u, const Vec<FloatV>& v, const Vec<FloatV>& w) {  // vectorised triangle_box
    FloatV margin(SDF_BOX_MARGIN);
    return {{min_of(u.x, min_of(v.x, w.x)) - margin, min_of(u.y, min_of(v.y, w.y)) - margin,
             min_of(u.z, min_of(v.z, w.z)) - margin},
            {max_of(u.x, max_of(v.x, w.x)) + margin, max_of(u.y, max_of(v.y, w.y)) + margin,
             max_of(u.z, max_of(v.z, w.z)) + margin}};
}

// Sixteen triangles, to be broadcast one by one.
struct FacetLanes {
    float box[6 * SDF_LANES], value[22 * SDF_LANES];
};
FN void store3(const Vec<FloatV>& v, float* p) {
    store_lanes(v.x, p);
    store_lanes(v.y, p + SDF_LANES);
    store_lanes(v.z, p + 2 * SDF_LANES);
}
FN void store_facets(const WideBox& box, const PreparedTriangle<FloatV>& f, FacetLanes* out) {
    const int n = SDF_LANES;
    store3(box.low, out->box);
    store3(box.high, out->box + 3 * n);
    const Vec<FloatV>* vectors[6] = {&f.a, &f.b, &f.ab, &f.ac, &f.bc, &f.n};
    for (int k = 0; k < 6; k++) store3(*vectors[k], out->value + 3 * n * k);
    store_lanes(f.over_ab, out->value + 18 * n);
    store_lanes(f.over_ac, out->value + 19 * n);
    store_lanes(f.over_bc, out->value + 20 * n);
    store_lanes(f.over_n, out->value + 21 * n);
}
FN PreparedTriangle<FloatV> one_facet(const float* v) {
    const int n = SDF_LANES;
    return {one_vector(v),          one_vector(v + 3 * n),  one_vector(v + 6 * n), one_vector(v + 9 * n),
            one_vector(v + 12 * n), one_vector(v + 15 * n), FloatV(v[18 * n]),     FloatV(v[19 * n]),
            FloatV(v[20 * n]),      FloatV(v[21 * n])};
}

// A packet's offers: triangles no farther than its squared radius `best`.
template <class Args, class Own>
FN void test_facet(const Args& a, const FacetLanes& facets, int k, u32 slot, Own* q) {
    q->boxes++;
    if (!bits(gap_sq(one_box(facets.box + k), q->p, q->p) <= q->best)) return;
    q->tests++;
    q->offer_to_all(facet_distance_sq(q->p, one_facet(facets.value + k)), slot, a.triangle_id[slot]);
}

// Up to sixteen triangles, one by one, against all points.
template <class Args, class Own>
FN void test_triangles(const Args& a, const u32* slots, u32 count, Own* q) {
    TriangleLanes t;
    for (u32 k = 0; k < SDF_LANES; k++) t.put(k, a.triangle + 9 * (size_t)slots[k < count ? k : 0]);
    Vec<FloatV> u = t.load(0), v = t.load(1), w = t.load(2);
    FacetLanes facets;
    store_facets(boxes_around(u, v, w), facet(u, v, w), &facets);
    for (u32 k = 0; k < count; k++) test_facet(a, facets, (int)k, slots[k], q);
    q->farthest = most_lane(q->best);
}

// Measures the last sixteen pairs, or all if fewer.
template <class Args, class Own>
FN void test_pairs(const Args& a, Own* q) {
    u32 count = min_of(q->pairs, (u32)SDF_LANES), first = q->pairs -= count;
    TriangleLanes t;
    float point[3 * SDF_LANES];
    for (u32 k = 0; k < SDF_LANES; k++) {
        u32 pair = first + min_of(k, count - 1), own = q->pair_point[pair];
        t.put(k, a.triangle + 9 * (size_t)q->pair_slot[pair]);
        point[k] = q->x[own];
        point[SDF_LANES + k] = q->y[own];
        point[2 * SDF_LANES + k] = q->z[own];
    }
    q->tests++;
    FloatV d = facet_distance_sq(load_vectors(point), facet(t.load(0), t.load(1), t.load(2)));
    for (u32 k = 0; k < count; k++) {
        u32 own = q->pair_point[first + k], slot = q->pair_slot[first + k];
        if (d[k] <= q->best[own]) q->offer(own, d[k], slot, a.triangle_id[slot]);
    }
    q->farthest = most_lane(q->best);
}

// A block's triangles against the points close to the block's own box. The sixteen points are transformed to the
// block's frame, and points still close there are tested one by one against the triangles' bounds. Where few triangles
// form many pairs, as before bounds are tight, testing these triangles against all points is faster.
template <class Args, class Own>
FN void test_block(const Args& a, u32 block, u32 points, Own* q) {
    const float* f = a.block + SDF_WIDE_BLOCK * (size_t)block;
    Vec<FloatV> r = q->p - one_vector(f, 1), half = one_vector(f + 3, 1),
                none = {FloatV(0.f), FloatV(0.f), FloatV(0.f)};
    Vec<FloatV> t = {dot(r, one_vector(f + 6, 1)), dot(r, one_vector(f + 9, 1)), dot(r, one_vector(f + 12, 1))};
    WideBox own = {none - half, half}, bounds = load_boxes(f + SDF_WIDE);
    q->boxes++;
    points &= bits(gap_sq(own, t, t) <= q->best);
    if (!points) return;
    float turned[3 * SDF_LANES];
    store3(t, turned);
    u32 near[SDF_LANES], pairs = 0, triangles = 0;
    for (u32 left = points; left; left &= left - 1) {
        int k = __builtin_ctz(left);
        Vec<FloatV> p = one_vector(turned + k, SDF_LANES);
        q->boxes++;
        near[k] = bits(gap_sq(bounds, p, p) <= FloatV(q->best[k]));
        pairs += popcount(near[k]);
        triangles |= near[k];
    }
    const u32* slots = a.block_slot + SDF_WIDE * (size_t)block;
    if (pairs > 8 + 3 * (u32)popcount(triangles)) {
        u32 slot[SDF_LANES], count = 0;
        for (; triangles; triangles &= triangles - 1) slot[count++] = slots[__builtin_ctz(triangles)];
        test_triangles(a, slot, count, q);
        return;
    }
    for (; points; points &= points - 1) {
        int k = __builtin_ctz(points);
        for (; near[k]; near[k] &= near[k] - 1) {
            q->pair_point[q->pairs] = (u32)k;
            q->pair_slot[q->pairs++] = slots[__builtin_ctz(near[k])];
        }
        if (q->pairs >= SDF_LANES) test_pairs(a, q);
    }
}

// Initial triangles: given seeds, and the previous points' results.
struct Seeds {
    u32 slot[SDF_LANES], count;
};
FN void test_seeds(const sdf_distance_wide_args& a, Seeds* seeds, NearestPacket* q) {
    if (seeds->count > 0) test_triangles(a, seeds->slot, seeds->count, q);
    seeds->count = 0;
}
FN void add_seed(const sdf_distance_wide_args& a, u32 slot, Seeds* seeds, NearestPacket* q) {
    for (u32 k = 0; k < seeds->count; k++)
        if (seeds->slot[k] == slot) return;
    seeds->slot[seeds->count++] = slot;
    if (seeds->count == SDF_LANES) test_seeds(a, seeds, q);
}

// Mask of the points currently close enough to child k of a node.
FN u32 near_child(const float* boxes, u32 k, Packet* q) {
    q->boxes++;
    return bits(gap_sq(one_box(boxes + k), q->p, q->p) <= q->best);
}
template <class Args>
FN const float* boxes_of(const Args& a, int level, u32 node) {
    return a.wide_box + 6 * SDF_LANES * ((size_t)a.level_start[level] + node);
}

// Depth first, nearest nodes first; blocks in any order, as bounds are nearly final there.
//
// near: takes a node's boxes and a child's number, returns the mask of points for which that child matters. block:
// takes a block's number and such a mask. reach: returns the largest squared distance that matters to any point.
template <class Args, class Near, class Block, class Reach>
FN void walk_wide_tree(const Args& a, const Packet& q, u32* tests, const Near& near, const Block& block,
                       const Reach& reach) {
    Postponed stack[SDF_WIDE_STACK];
    int depth = 1, root = (int)a.levels - 1;
    stack[0] = {0.f, 0.f, 0, root};
    while (depth > 0) {
        Postponed at = stack[--depth];
        if (at.bound > reach()) continue;
        if (at.level < root && !near(boxes_of(a, at.level + 1, at.node / SDF_WIDE), at.node % SDF_WIDE)) continue;
        const float* boxes = boxes_of(a, at.level, at.node);
        WideBox child = load_boxes(boxes);
        (*tests)++;
        FloatV bound = gap_sq(child, q.around.low, q.around.high);
        u32 left = bits(bound <= FloatV(reach()));
        if (at.level == 0) {
            for (; left; left &= left - 1) {
                u32 k = (u32)__builtin_ctz(left);
                if (u32 points = near(boxes, k)) block(at.node * SDF_WIDE + k, points);
            }
            continue;
        }
        FloatV order = gap_sq(child, q.centre, q.centre);
        for (int base = depth; left; left &= left - 1) {
            int k = __builtin_ctz(left), place = depth++;  // the child nearest to the points' centre ends on top
            for (; place > base && stack[place - 1].order < order[k]; place--) stack[place] = stack[place - 1];
            stack[place] = {bound[k], order[k], at.node * SDF_WIDE + (u32)k, at.level - 1};
        }
    }
}

// The tree's triangles within the points' radii.
template <class Args, class Own>
FN void search_wide_tree(const Args& a, Own* q) {
    walk_wide_tree(
        a, *q, &q->boxes, [q](const float* boxes, u32 k) { return near_child(boxes, k, q); },
        [&a, q](u32 block, u32 points) { test_block(a, block, points, q); }, [q] { return q->farthest; });
    while (q->pairs > 0) test_pairs(a, q);
}

// The points first .. first + 15 below `last`.
FN void query_packet(const sdf_distance_wide_args& a, u32 first, u32 last, bool follows) {
    NearestPacket q;
    u32 count = q.load(a.points, first, last);
    q.slot = WideInts(0u);
    q.id = WideInts(SDF_NONE);

    Seeds seeds;
    seeds.count = 0;
    if (a.seeds) {
        for (u32 k = 0; k < count; k++) {
            const u32* own = a.seed + a.seeds * (size_t)(first + k);
            for (u32 s = 0; s < a.seeds && own[s] != SDF_NONE; s++) add_seed(a, own[s], &seeds, &q);
        }
    } else if (follows) {
        for (u32 k = 1; k <= SDF_LANES; k++) add_seed(a, a.slot[first - k], &seeds, &q);
    }
    test_seeds(a, &seeds, &q);
    search_wide_tree(a, &q);
    for (u32 k = 0; k < count; k++) {
        a.distance[first + k] = sqrtf(q.best[k]);
        a.slot[first + k] = q.slot[k];
        if (!a.boxes) continue;
        a.boxes[first + k] = q.boxes;
        a.tests[first + k] = q.tests;
    }
}

}  // namespace

// The points first .. last - 1.
FN void sdf_distance_wide_lanes(const sdf_distance_wide_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) query_packet(a, i, last, i > first);
}

#endif
