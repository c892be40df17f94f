// The CPU's distance query: sixteen points that follow one another, one in each lane, go down an implicit tree
// together. The tree has sixteen children a node over triangles in the order of trees/wide_order.h: sixteen consecutive
// triangles make a block, sixteen blocks a node of level 0, sixteen nodes of a level one of the next: no pointers, all
// lanes full. Child j of node k is 16 k + j.
//
// Lanes change their meaning on the way. A node's children, and a block's triangles, are measured sixteen at a time
// from the points' common box; what is near enough for that is measured from the sixteen points. Answers are those of
// sdf_distance_cct to the last bit: the same arithmetic in every lane, bounds that hold whatever was rounded (each step
// is monotonic), and a nearest triangle that does not depend on the order of the walk (see geometry/boxes.h).
//
// INTERFACE
//   sdf_distance_wide_lanes  nearest triangles of points that follow one another
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
    u32 levels;              // of nodes above the blocks
    u32 seeds;               // for each query, slots to start from
    const float* points;     // [n, 3]
    const float* triangle;   // [triangles, 9] by slot
    const float* block;      // [ceil(triangles / 16), 9, 16]
    const u32* block_slot;   // [triangles]
    const float* wide_box;   // [nodes, 6, 16]
    const u32* level_start;  // [levels] each one's first node
    const u32* triangle_id;  // [triangles]
    const u32* seed;         // [n, seeds] ended by SDF_NONE
    float* distance;         // [n] out
    u32* slot;               // [n] out
    u32* boxes;              // [n] out: boxes measured; may be null
    u32* tests;              // [n] out: triangles measured; may be null
};

namespace {

struct WideBox {
    Vec<FloatV> low, high;
};

struct Postponed {
    float bound, order;
    u32 place;  // a node, or on level -1 a block
    int level;
};

struct Packet {
    float x[SDF_LANES], y[SDF_LANES], z[SDF_LANES];
    Vec<FloatV> p;   // the same
    WideBox around;  // all of the points, the same in every lane
    Vec<FloatV> centre;
    FloatV best;  // squared distances so far, and to which triangles
    WideInts slot, id;
    float farthest;    // the largest of these distances
    u32 boxes, tests;  // measurements, of which each is sixteen: of a box from the points, or of boxes from one or all
};

FN WideBox load_boxes(const float* b) {
    return {{load_lanes(b), load_lanes(b + SDF_LANES), load_lanes(b + 2 * SDF_LANES)},
            {load_lanes(b + 3 * SDF_LANES), load_lanes(b + 4 * SDF_LANES), load_lanes(b + 5 * SDF_LANES)}};
}
FN WideBox one_box(const float* b) {  // the same box in all lanes
    return {{FloatV(b[0]), FloatV(b[SDF_LANES]), FloatV(b[2 * SDF_LANES])},
            {FloatV(b[3 * SDF_LANES]), FloatV(b[4 * SDF_LANES]), FloatV(b[5 * SDF_LANES])}};
}
FN FloatV gap(FloatV low, FloatV high, FloatV from, FloatV to) {
    return max_of(max_of(low - to, from - high), FloatV(0.f));
}
// Squared distances between boxes, or between points and boxes: as box_distance_sq.
FN FloatV gap_sq(const WideBox& b, const Vec<FloatV>& from, const Vec<FloatV>& to) {
    FloatV x = gap(b.low.x, b.high.x, from.x, to.x), y = gap(b.low.y, b.high.y, from.y, to.y),
           z = gap(b.low.z, b.high.z, from.z, to.z);
    return (x * x + y * y + z * z) * FloatV(SDF_BOX_SHRINK);
}

FN Vec<FloatV> load_corner(const float* block, int corner) {
    const float* c = block + 3 * SDF_LANES * corner;
    return {load_lanes(c), load_lanes(c + SDF_LANES), load_lanes(c + 2 * SDF_LANES)};
}
FN WideBox boxes_around(const Vec<FloatV>& u, const Vec<FloatV>& v, const Vec<FloatV>& w) {  // as triangle_box
    FloatV margin(SDF_BOX_MARGIN);
    return {{min_of(u.x, min_of(v.x, w.x)) - margin, min_of(u.y, min_of(v.y, w.y)) - margin,
             min_of(u.z, min_of(v.z, w.z)) - margin},
            {max_of(u.x, max_of(v.x, w.x)) + margin, max_of(u.y, max_of(v.y, w.y)) + margin,
             max_of(u.z, max_of(v.z, w.z)) + margin}};
}

// Sixteen triangles, and then one of them at a time in all lanes.
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
FN Vec<FloatV> one_vector(const float* v) { return {FloatV(v[0]), FloatV(v[SDF_LANES]), FloatV(v[2 * SDF_LANES])}; }
FN PreparedTriangle<FloatV> one_facet(const float* v) {
    const int n = SDF_LANES;
    return {one_vector(v),          one_vector(v + 3 * n),  one_vector(v + 6 * n), one_vector(v + 9 * n),
            one_vector(v + 12 * n), one_vector(v + 15 * n), FloatV(v[18 * n]),     FloatV(v[19 * n]),
            FloatV(v[20 * n]),      FloatV(v[21 * n])};
}

FN void test_facet(const sdf_distance_wide_args& a, const FacetLanes& facets, int k, u32 slot, Packet* q) {
    q->boxes++;
    if (!bits(gap_sq(one_box(facets.box + k), q->p, q->p) <= q->best)) return;
    q->tests++;
    u32 id = a.triangle_id[slot];
    FloatV d = facet_distance_sq(q->p, one_facet(facets.value + k));
    Mask closer = (d < q->best) | ((d <= q->best) & (WideInts(id) < q->id));
    q->best = select(closer, d, q->best);
    q->slot = select(closer, WideInts(slot), q->slot);
    q->id = select(closer, WideInts(id), q->id);
}

FN Vec<FloatV> one_point(const Packet& q, int k) { return {FloatV(q.x[k]), FloatV(q.y[k]), FloatV(q.z[k])}; }

// The triangles from one of the points.
FN void test_point(const sdf_distance_wide_args& a, const PreparedTriangle<FloatV>& facets, u32 near, int k,
                   const u32* slots, Packet* q) {
    q->tests++;
    FloatV d = facet_distance_sq(one_point(*q, k), facets);
    float best = q->best[k];
    for (u32 left = bits(d <= FloatV(best)) & near; left; left &= left - 1) {
        int t = __builtin_ctz(left);
        u32 id = a.triangle_id[slots[t]];
        if (d[t] < best || (d[t] == best && id < q->id[k])) {
            best = d[t];
            q->best.set(k, best);
            q->slot.set(k, slots[t]);
            q->id.set(k, id);
        }
    }
}

// A block of triangles, those of which are measured that are near enough to the points' box, from those points that are
// near enough to the block's box: whichever are fewer, one after the other, the others in the lanes.
FN void test_block(const sdf_distance_wide_args& a, const float* corners, const u32* slots, u32 count, u32 points,
                   Packet* q) {
    Vec<FloatV> u = load_corner(corners, 0), v = load_corner(corners, 1), w = load_corner(corners, 2);
    WideBox box = boxes_around(u, v, w);
    q->boxes++;
    u32 near = bits(gap_sq(box, q->around.low, q->around.high) <= FloatV(q->farthest)) & ((1u << count) - 1u);
    if (!near) return;
    PreparedTriangle<FloatV> f = facet(u, v, w);
    if (popcount(points) < popcount(near)) {
        for (; points; points &= points - 1) {
            int k = __builtin_ctz(points);
            Vec<FloatV> p = one_point(*q, k);
            q->boxes++;
            if (bits(gap_sq(box, p, p) <= FloatV(q->best[k])) & near) test_point(a, f, near, k, slots, q);
        }
    } else {
        FacetLanes facets;
        store_facets(box, f, &facets);
        for (; near; near &= near - 1) {
            int k = __builtin_ctz(near);
            test_facet(a, facets, k, slots[k], q);
        }
    }
    q->farthest = most_lane(q->best);
}

// Triangles to start from: those given, and those of the points before.
struct Seeds {
    u32 slot[SDF_LANES], count;
};
FN void test_seeds(const sdf_distance_wide_args& a, Seeds* seeds, Packet* q) {
    if (seeds->count == 0) return;
    float t[9 * SDF_LANES];
    for (u32 k = 0; k < SDF_LANES; k++) {
        size_t slot = seeds->slot[k < seeds->count ? k : 0];
        for (int c = 0; c < 9; c++) t[SDF_LANES * c + k] = a.triangle[9 * slot + c];
    }
    test_block(a, t, seeds->slot, seeds->count, 0xffffu, q);
    seeds->count = 0;
}
FN void add_seed(const sdf_distance_wide_args& a, u32 slot, Seeds* seeds, Packet* q) {
    for (u32 k = 0; k < seeds->count; k++)
        if (seeds->slot[k] == slot) return;
    seeds->slot[seeds->count++] = slot;
    if (seeds->count == SDF_LANES) test_seeds(a, seeds, q);
}

FN void walk(const sdf_distance_wide_args& a, Packet* q) {
    Postponed stack[SDF_WIDE_STACK];
    int depth = 1;
    stack[0] = {0.f, 0.f, 0, (int)a.levels - 1};
    while (depth > 0) {
        Postponed at = stack[--depth];
        if (at.bound > q->farthest) continue;
        u32 points = 0xffffu;
        if (at.level + 1 <
            (int)a.levels) {  // looked at when its parent was; once more from the points, as they are now
            const float* own =
                a.wide_box + 6 * SDF_LANES * ((size_t)a.level_start[at.level + 1] + at.place / SDF_LANES);
            q->boxes++;
            points = bits(gap_sq(one_box(own + at.place % SDF_LANES), q->p, q->p) <= q->best);
            if (!points) continue;
        }
        if (at.level < 0) {
            u32 first = at.place * SDF_LANES;
            u32 count = min_of((u32)SDF_LANES, a.triangles - first);
            test_block(a, a.block + 9 * (size_t)first, a.block_slot + first, count, points, q);
            continue;
        }
        WideBox child = load_boxes(a.wide_box + 6 * SDF_LANES * ((size_t)a.level_start[at.level] + at.place));
        q->boxes++;
        FloatV bound = gap_sq(child, q->around.low, q->around.high), order = gap_sq(child, q->centre, q->centre);
        int base = depth;
        for (u32 left = bits(bound <= FloatV(q->farthest)); left; left &= left - 1) {
            int k = __builtin_ctz(left), place = depth++;  // the child nearest to the points' centre ends on top
            for (; place > base && stack[place - 1].order < order[k]; place--) stack[place] = stack[place - 1];
            stack[place] = {bound[k], order[k], at.place * SDF_LANES + (u32)k, at.level - 1};
        }
    }
}

// The points first .. first + 15 below `last`; lanes without a point repeat the last one.
FN void query_packet(const sdf_distance_wide_args& a, u32 first, u32 last, bool follows) {
    Packet q;
    u32 count = min_of((u32)SDF_LANES, last - first);
    F3 low = {SDF_UNKNOWN, SDF_UNKNOWN, SDF_UNKNOWN}, high = {-SDF_UNKNOWN, -SDF_UNKNOWN, -SDF_UNKNOWN};
    for (u32 k = 0; k < SDF_LANES; k++) {
        F3 p = load3(a.points + 3 * (size_t)(first + min_of(k, count - 1)));
        q.x[k] = p.x;
        q.y[k] = p.y;
        q.z[k] = p.z;
        low = {min_of(low.x, p.x), min_of(low.y, p.y), min_of(low.z, p.z)};
        high = {max_of(high.x, p.x), max_of(high.y, p.y), max_of(high.z, p.z)};
    }
    q.p = {load_lanes(q.x), load_lanes(q.y), load_lanes(q.z)};
    F3 centre = 0.5f * (low + high);
    q.around = {{FloatV(low.x), FloatV(low.y), FloatV(low.z)}, {FloatV(high.x), FloatV(high.y), FloatV(high.z)}};
    q.centre = {FloatV(centre.x), FloatV(centre.y), FloatV(centre.z)};
    q.best = FloatV(SDF_UNKNOWN);
    q.slot = WideInts(0u);
    q.id = WideInts(SDF_NONE);
    q.farthest = SDF_UNKNOWN;
    q.boxes = q.tests = 0;

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
    walk(a, &q);
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
