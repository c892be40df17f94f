// The CPU's winding numbers: sixteen points that follow one another, one in each lane, walk the binary tree together. A
// lane takes the nodes and triangles that its point takes alone: it is out of the walk below a node that counted for it
// as a whole. Contributions are rounded so that sums do not depend on their order (see winding/moments.h), and so the
// bits are those of sdf_winding_at.
//
// INTERFACE
//   sdf_winding_lanes  sdf_winding for the points first .. last - 1
#ifndef SDFCLI_WINDING_SIMD_H
#define SDFCLI_WINDING_SIMD_H
#include "base/simd.h"
#include "winding/thread.h"

namespace {

FN Doubles grain(Doubles x) { return x + Doubles(98304.0) - Doubles(98304.0); }

// Points that are to see a triangle, in single file: few of the lanes come to each triangle, but the solid angles of
// pairs are summed up with all lanes full. Many at a time, since what was just stored is not read at full speed.
#define SDF_PAIRS 64
#define SDF_PAIRS_ROOM (SDF_PAIRS + SDF_LANES)

struct Pairs {
    float point[3][SDF_PAIRS_ROOM], corner[9][SDF_PAIRS_ROOM];
    u32 lane[SDF_PAIRS_ROOM], count;
};

struct WindingPacket {
    Vec<FloatV> p;
    WideInts lane;  // 0 .. 15
    Halves nodes;   // sums
    double triangles[SDF_LANES];
};

FN Vec<Doubles> load_corner(const float (*c)[SDF_PAIRS_ROOM], u32 first) {
    return {load_doubles(c[0] + first), load_doubles(c[1] + first), load_doubles(c[2] + first)};
}

FN void see_pairs(const Pairs& pairs, u32 count, bool exact, WindingPacket* q) {
    for (u32 first = 0; first < count; first += SDF_LANES / 2) {
        Vec<Doubles> p = load_corner(pairs.point, first), side[3];
        for (int k = 0; k < 3; k++) side[k] = load_corner(pairs.corner + 3 * k, first) - p;
        // In double: seen from beside its longest edge, a sliver's angle is lost in the rounding of floats.
        double angle[SDF_LANES / 2];
        Doubles seen = exact ? solid_angle(side[0], side[1], side[2], 16) : solid_angle(side[0], side[1], side[2], 8);
        store_lanes(grain(seen), angle);
        for (u32 k = 0; k < SDF_LANES / 2 && first + k < count; k++) q->triangles[pairs.lane[first + k]] += angle[k];
    }
}

template <class T>
FN void move_rest(T* lanes) {
    __builtin_memcpy(lanes, lanes + SDF_PAIRS, SDF_LANES * sizeof(T));
}

FN void add_pairs(const float* t, u32 points, bool exact, Pairs* pairs, WindingPacket* q) {
    u32 end = pairs->count;
    store_lanes(compress(points, q->p.x), pairs->point[0] + end);
    store_lanes(compress(points, q->p.y), pairs->point[1] + end);
    store_lanes(compress(points, q->p.z), pairs->point[2] + end);
    store_lanes(compress(points, q->lane), pairs->lane + end);
    for (int c = 0; c < 9; c++) store_lanes(FloatV(t[c]), pairs->corner[c] + end);
    pairs->count += (u32)popcount(points);
    if (pairs->count < SDF_PAIRS) return;
    see_pairs(*pairs, SDF_PAIRS, exact, q);
    for (auto& lanes : pairs->point) move_rest(lanes);
    for (auto& lanes : pairs->corner) move_rest(lanes);
    move_rest(pairs->lane);
    pairs->count -= SDF_PAIRS;
}

FN void add_node(const float* m, const Vec<FloatV>& r, FloatV d2, u32 points, WindingPacket* q) {
    Halves seen = halves(select(mask_of(points), node_winding(m, r, d2), FloatV(0.f)));
    q->nodes.first = q->nodes.first + grain(seen.first);
    q->nodes.last = q->nodes.last + grain(seen.last);
}

// So many nodes are looked at before the first of their children is: what children are made of is on its way from
// memory meanwhile. The stack holds at most twice as many nodes for each step down the tree: what a round leaves on it
// begins at least a step below what the round underneath left, since that was not used up.
#define SDF_AHEAD 16

struct Opened {
    u32 node, points;
};
FN const float* record(const WindingTree& tree, u32 node) {
    return is_leaf(node) ? corners_at(tree, leaf_index(node)) : tree.moments + SDF_MOMENTS * (size_t)node;
}

// Which of the points look below a node; for the others it counts as a whole. Below a triangle nobody does.
FN u32 look_at(const sdf_winding_args& a, Opened at, bool exact, Pairs* pairs, WindingPacket* q) {
    const float* m = record(a.tree, at.node);
    if (is_leaf(at.node)) {
        add_pairs(m, at.points, exact, pairs, q);
        return 0;
    }
    Vec<FloatV> r = Vec<FloatV>{FloatV(m[0]), FloatV(m[1]), FloatV(m[2])} - q->p;
    FloatV d2 = dot(r, r);
    u32 far = exact ? 0u : bits(d2 > FloatV(a.beta * a.beta * m[3])) & at.points;
    if (far) add_node(m, r, d2, far, q);
    return at.points & ~far;
}

// The points first .. first + 15 below `last`.
FN void winding_packet(const sdf_winding_args& a, u32 first, u32 last) {
    WindingPacket q;
    Pairs pairs = {};
    u32 count = min_of((u32)SDF_LANES, last - first);
    for (u32 k = 0; k < SDF_LANES; k++) {
        F3 p = load3(a.points + 3 * (size_t)(first + min_of(k, count - 1)));
        q.p.x.set(k, p.x);
        q.p.y.set(k, p.y);
        q.p.z.set(k, p.z);
        q.lane.set(k, k);
        q.triangles[k] = 0.0;
    }
    q.nodes = {Doubles(0.0), Doubles(0.0)};
    bool exact = !(a.beta * a.beta > 0.f);
    Opened stack[2 * SDF_AHEAD * SDF_STACK], now[SDF_AHEAD];
    u32 depth = 1;
    stack[0] = {a.tree.triangles > 1 ? 0u : make_leaf(0), (1u << count) - 1u};
    while (depth > 0) {
        u32 many = min_of(depth, (u32)SDF_AHEAD);
        depth -= many;
        for (u32 k = 0; k < many; k++) now[k] = {stack[depth + k].node, stack[depth + k].points};
        for (u32 k = 0; k < many; k++) {
            u32 below = look_at(a, now[k], exact, &pairs, &q);
            for (int side = 0; below && side < 2; side++) {
                u32 child = float_bits(a.tree.moments[SDF_MOMENTS * (size_t)now[k].node + 14 + side]);
                __builtin_prefetch(record(a.tree, child));
                stack[depth++] = {child, below};
            }
        }
    }
    see_pairs(pairs, pairs.count, exact, &q);
    double nodes[SDF_LANES];
    store_lanes(q.nodes.first, nodes);
    store_lanes(q.nodes.last, nodes + SDF_LANES / 2);
    for (u32 k = 0; k < count; k++) a.winding[first + k] = (float)((nodes[k] + q.triangles[k]) / SDF_FOUR_PI);
}

}  // namespace

FN void sdf_winding_lanes(const sdf_winding_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) winding_packet(a, i, last);
}

#endif
