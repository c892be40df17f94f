// The CPU's winding numbers: sixteen points that follow one another, one in each lane, walk the binary tree together. A
// lane takes the nodes and triangles that its point takes alone: it is out of the walk below a node that counted for it
// as a whole. Contributions are rounded so that sums do not depend on their order (see winding.h), and so the bits are
// those of sdf_winding_at.
#ifndef SDFCLI_WIDE_WINDING_H
#define SDFCLI_WIDE_WINDING_H
#include "lanes.h"
#include "winding.h"

namespace {

FN Doubles grain(Doubles x) { return x + Doubles(98304.0) - Doubles(98304.0); }

// Points that are to see a triangle, in single file: few of the lanes come to each triangle, but the solid angles of
// pairs are summed up with all lanes full.
struct Pairs {
    float point[3][2 * SDF_LANES], corner[9][2 * SDF_LANES];
    u32 lane[2 * SDF_LANES], count;
};

struct WindingPacket {
    Vec<Wide> p;
    WideInts lane;  // 0 .. 15
    Halves nodes;   // sums
    double triangles[SDF_LANES];
};

FN void see_pairs(u32 first, bool exact, const Pairs& pairs, double* angle) {
    Vec<Doubles> p = {load_doubles(pairs.point[0] + first), load_doubles(pairs.point[1] + first),
                      load_doubles(pairs.point[2] + first)};
    Vec<Doubles> side[3];
    for (int k = 0; k < 3; k++) {
        const float(*c)[2 * SDF_LANES] = pairs.corner + 3 * k;
        side[k] = Vec<Doubles>{load_doubles(c[0] + first), load_doubles(c[1] + first), load_doubles(c[2] + first)} - p;
    }
    Doubles seen = exact ? solid_angle(side[0], side[1], side[2], 16) : solid_angle(side[0], side[1], side[2], 8);
    store_lanes(grain(seen), angle);
}

FN void see_last(u32 many, bool exact, Pairs* pairs, WindingPacket* q) {
    double angle[SDF_LANES / 2];
    pairs->count -= many;
    see_pairs(pairs->count, exact, *pairs, angle);
    for (u32 k = 0; k < many; k++) q->triangles[pairs->lane[pairs->count + k]] += angle[k];
}

FN void add_pairs(const float* t, u32 points, bool exact, Pairs* pairs, WindingPacket* q) {
    u32 end = pairs->count;
    store_lanes(compress(points, q->p.x), pairs->point[0] + end);
    store_lanes(compress(points, q->p.y), pairs->point[1] + end);
    store_lanes(compress(points, q->p.z), pairs->point[2] + end);
    store_lanes(compress(points, q->lane), pairs->lane + end);
    for (int c = 0; c < 9; c++) store_lanes(Wide(t[c]), pairs->corner[c] + end);
    pairs->count += (u32)count_ones(points);
    while (pairs->count >= SDF_LANES / 2) see_last(SDF_LANES / 2, exact, pairs, q);
}

FN void add_node(const float* m, const Vec<Wide>& r, Wide d2, u32 points, WindingPacket* q) {
    Halves seen = halves(select(mask_of(points), node_winding(m, r, d2), Wide(0.f)));
    q->nodes.first = q->nodes.first + grain(seen.first);
    q->nodes.last = q->nodes.last + grain(seen.last);
}

// The points first .. first + 15 below `last`.
FN void winding_packet(const sdf_winding_args& a, u32 first, u32 last) {
    WindingPacket q;
    Pairs pairs = {};
    u32 count = least((u32)SDF_LANES, last - first);
    for (u32 k = 0; k < SDF_LANES; k++) {
        F3 p = load3(a.points + 3 * (size_t)(first + least(k, count - 1)));
        q.p.x.set(k, p.x);
        q.p.y.set(k, p.y);
        q.p.z.set(k, p.z);
        q.lane.set(k, k);
        q.triangles[k] = 0.0;
    }
    q.nodes = {Doubles(0.0), Doubles(0.0)};
    struct {
        u32 at, points;
    } stack[SDF_STACK];
    int depth = 0;
    u32 at = a.triangles > 1 ? 0u : SDF_LEAF, points = (1u << count) - 1u;
    float beta_sq = a.beta * a.beta;
    bool exact = !(beta_sq > 0.f);
    for (;;) {
        u32 down = 0;
        if (at & SDF_LEAF) {
            add_pairs(a.triangle + 9 * (size_t)(at & ~SDF_LEAF), points, exact, &pairs, &q);
        } else {
            const float* m = a.moments + SDF_MOMENTS * (size_t)at;
            Vec<Wide> r = Vec<Wide>{Wide(m[0]), Wide(m[1]), Wide(m[2])} - q.p;
            Wide d2 = dot(r, r);
            u32 far = exact ? 0u : bits(d2 > Wide(beta_sq * m[3])) & points;
            if (far) add_node(m, r, d2, far, &q);
            down = points & ~far;
        }
        if (down) {
            stack[depth++] = {a.child[2 * (size_t)at + 1], down};
            at = a.child[2 * (size_t)at];
            points = down;
        } else if (depth > 0) {
            depth--;
            at = stack[depth].at;
            points = stack[depth].points;
        } else {
            break;
        }
    }
    see_last(pairs.count, exact, &pairs, &q);
    double nodes[SDF_LANES];
    store_lanes(q.nodes.first, nodes);
    store_lanes(q.nodes.last, nodes + SDF_LANES / 2);
    for (u32 k = 0; k < count; k++) a.winding[first + k] = (float)((nodes[k] + q.triangles[k]) / SDF_FOUR_PI);
}

}  // namespace

#endif
