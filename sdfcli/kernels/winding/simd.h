// The CPU's winding numbers: sixteen consecutive points, one per lane, traverse the binary tree together. Each lane
// uses the same nodes and triangles as its point would alone: it is inactive below a node that it has added as a whole.
// Contributions are rounded so that sums do not depend on their order (see winding/moments.h), hence the bits equal
// sdf_winding_at's.
//
// INTERFACE
//   sdf_winding_lanes  sdf_winding for the points first .. last - 1
#ifndef SDFCLI_WINDING_SIMD_H
#define SDFCLI_WINDING_SIMD_H
#include "base/simd.h"
#include "winding/thread.h"

namespace {

FN Doubles grain(Doubles x) { return x + Doubles(98304.0) - Doubles(98304.0); }

struct WindingPacket {
    Vec<FloatV> p;
    Vec<Doubles> half[2];  // the same points
    Doubles sum[2];
};

// A triangle is evaluated for a whole half if any of its points needs it: gathering points over several triangles takes
// longer than it saves.
FN void add_triangle(const float* t, u32 points, bool exact, WindingPacket* q) {
    for (int h = 0; h < 2; h++) {
        u32 mine = points >> SDF_LANES / 2 * h & ((1u << SDF_LANES / 2) - 1u);
        if (!mine) continue;
        // In double: seen from beside its longest edge, a sliver's angle is lost in float rounding.
        Vec<Doubles> side[3];
        for (int k = 0; k < 3; k++)
            side[k] = Vec<Doubles>{Doubles(t[3 * k]), Doubles(t[3 * k + 1]), Doubles(t[3 * k + 2])} - q->half[h];
        Doubles seen = exact ? solid_angle(side[0], side[1], side[2], 16) : solid_angle(side[0], side[1], side[2], 8);
        q->sum[h] = q->sum[h] + select(double_mask_of(mine), grain(seen), Doubles(0.0));
    }
}

FN void add_node(const float* m, const Vec<FloatV>& r, FloatV d2, u32 points, WindingPacket* q) {
    Halves seen = halves(select(mask_of(points), node_winding(m, r, d2), FloatV(0.f)));
    q->sum[0] = q->sum[0] + grain(seen.first);
    q->sum[1] = q->sum[1] + grain(seen.last);
}

// Number of nodes processed before their children, whose records are prefetched meanwhile. The stack holds at most
// twice as many nodes per step down the tree: a round's remaining nodes start at least one level below the remaining
// nodes of the round underneath, which was not used up.
#define SDF_AHEAD 16

struct Opened {
    u32 node, points;
};
FN const float* record(const WindingTree& tree, u32 node) {
    return is_leaf(node) ? corners_at(tree, leaf_index(node)) : tree.moments + SDF_MOMENTS * (size_t)node;
}

// The points that continue below a node; for the others it is added as a whole. None continue below a triangle.
FN u32 look_at(const sdf_winding_args& a, Opened at, bool exact, WindingPacket* q) {
    const float* m = record(a.tree, at.node);
    if (is_leaf(at.node)) {
        add_triangle(m, at.points, exact, q);
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
    u32 count = min_of((u32)SDF_LANES, last - first);
    q.p = load_points(a.points, count, [first](u32 k) { return first + k; });
    Halves x = halves(q.p.x), y = halves(q.p.y), z = halves(q.p.z);
    q.half[0] = {x.first, y.first, z.first};
    q.half[1] = {x.last, y.last, z.last};
    q.sum[0] = q.sum[1] = Doubles(0.0);
    bool exact = !(a.beta * a.beta > 0.f);
    Opened stack[2 * SDF_AHEAD * SDF_STACK], now[SDF_AHEAD];
    u32 depth = 1;
    stack[0] = {a.tree.triangles > 1 ? 0u : make_leaf(0), (1u << count) - 1u};
    while (depth > 0) {
        u32 many = min_of(depth, (u32)SDF_AHEAD);
        depth -= many;
        for (u32 k = 0; k < many; k++) now[k] = {stack[depth + k].node, stack[depth + k].points};
        for (u32 k = 0; k < many; k++) {
            u32 below = look_at(a, now[k], exact, &q);
            for (int side = 0; below && side < 2; side++) {
                u32 child = float_bits(a.tree.moments[SDF_MOMENTS * (size_t)now[k].node + 14 + side]);
                __builtin_prefetch(record(a.tree, child));
                stack[depth++] = {child, below};
            }
        }
    }
    double sum[SDF_LANES];
    for (int h = 0; h < 2; h++) store_lanes(q.sum[h], sum + SDF_LANES / 2 * h);
    for (u32 k = 0; k < count; k++) a.winding[first + k] = (float)(sum[k] / SDF_FOUR_PI);
}

}  // namespace

FN void sdf_winding_lanes(const sdf_winding_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) winding_packet(a, i, last);
}

#endif
