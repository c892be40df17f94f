// The GPU's distance query: a warp looks for the nearest triangles of 32 neighbouring points together, or of one.
//
// The tree is like that of wide.h, with 32 children a node: a packed R-tree, whose lowest nodes are blocks of 32
// triangles. Boxes of triangles and of blocks are turned as these lie (Gottschalk, Lin and Manocha 1996): slanted
// triangles are flat in theirs. Each thread measures one child of a node from the middle of the points, and the nearest
// child comes first: the way down is paid once for all points, and no two threads part company. Children that no single
// point is near enough to are passed over. Triangles whose box comes near enough to a point make a pair with it; pairs
// are kept until there is one for each thread, and then measured at once. Answers are those of sdf_distance_cct to the
// last bit, see wide.h: what is rounded otherwise here only bounds them.
#ifndef SDFCLI_PACKET_H
#define SDFCLI_PACKET_H
#include "distance.h"
#include "warp.h"

#ifdef SDF_SHARED
#define SDF_WARP 32
#define SDF_PACKET_LEVELS 6    // 32^6 = 2^30 blocks
#define SDF_FARTHER 1.00001f   // more than the rounding of a bound
#define SDF_NEARER 0.99999f
#define SDF_TURNED_MARGIN 3.8147e-06f  // more than that of places in a turned box

struct alignas(16) Quad {
    float x, y, z, w;
};

// What the threads of a warp share: the answers so far, pairs that wait, and for each level the bounds of the children of
// the node that is open there, SDF_NONE for those that are done.
struct PacketMemory {
    Quad point[SDF_WARP];  // and the square of its distance
    u32 id[SDF_WARP], slot[SDF_WARP];
    u32 pair_point[2 * SDF_WARP], pair_place[2 * SDF_WARP];
    u32 bound[SDF_PACKET_LEVELS * SDF_WARP];
};

// Keeps the order of floats.
FN u32 ordered_bits(float x) {
    u32 bits = float_bits(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
FN float ordered_float(u32 bits) { return bits_float(bits >> 31 ? bits & 0x7fffffffu : ~bits); }
FN float warp_lowest(float x) { return ordered_float(warp_least(ordered_bits(x))); }
FN float warp_highest(float x) { return ordered_float(warp_most(ordered_bits(x))); }

FN Quad quad(F3 v, float w) {
    Quad q = {v.x, v.y, v.z, w};
    return q;
}
FN F3 xyz(Quad q) { return vec(q.x, q.y, q.z); }

// A turned box: its middle, half its lengths, and its first two axes; the third is their cross product.
struct Turned {
    F3 middle, half, x, y;
};

// 32 turned boxes lie in 3 x 32 quads, so that a warp reads whole lines.
FN void store_turned(float* boxes, u32 place, const Turned& b) {
    Quad* out = (Quad*)boxes + 3 * SDF_WARP * (size_t)(place / SDF_WARP) + place % SDF_WARP;
    out[0] = quad(b.middle, b.half.x);
    out[SDF_WARP] = quad(b.x, b.half.y);
    out[2 * SDF_WARP] = quad(b.y, b.half.z);
}
FN Turned load_turned(const float* boxes, u32 node, u32 child) {
    const Quad* from = (const Quad*)boxes + 3 * SDF_WARP * (size_t)node + child;
    Quad middle = from[0], x = from[SDF_WARP], y = from[2 * SDF_WARP];
    Turned b = {xyz(middle), vec(middle.w, x.w, y.w), xyz(x), xyz(y)};
    return b;
}

// Bounds may be rounded otherwise than distances: these use fused multiply-adds.
FN float fused_dot(F3 a, F3 b) { return fused(a.x, b.x, fused(a.y, b.y, a.z * b.z)); }
FN F3 fused_cross(F3 a, F3 b) {
    return vec(fused(a.y, b.z, -(a.z * b.y)), fused(a.z, b.x, -(a.x * b.z)), fused(a.x, b.y, -(a.y * b.x)));
}
FN F3 turn(F3 v, const Turned& b) {  // into the box's axes
    return vec(fused_dot(v, b.x), fused_dot(v, b.y), fused_dot(v, fused_cross(b.x, b.y)));
}
FN F3 from_box(F3 p, F3 half) {  // the way to p from the nearest point of a box around the origin
    return vec(p.x - fmaxf(fminf(p.x, half.x), -half.x), p.y - fmaxf(fminf(p.y, half.y), -half.y),
               p.z - fmaxf(fminf(p.z, half.z), -half.z));
}
// A lower bound for the squared distances of what the box holds.
FN float turned_distance_sq(F3 p, const Turned& b) {
    F3 away = from_box(turn(p - b.middle, b), b.half);
    return fused_dot(away, away) * SDF_NEARER;
}

// The box of a triangle, turned with the normal n; of the triangles of all threads where most_of_all is warp_highest.
template <class Most>
FN Turned turned_box(F3 n, const float* t, Most most_of_all) {
    float length_sq = dot(n, n);
    F3 z = length_sq > 1e-30f ? (1.f / sqrtf(length_sq)) * n : vec(0.f, 0.f, 1.f);
    float x = fabsf(z.x), y = fabsf(z.y), w = fabsf(z.z);
    F3 flat = x <= y && x <= w ? vec(1.f, 0.f, 0.f) : y <= w ? vec(0.f, 1.f, 0.f) : vec(0.f, 0.f, 1.f);
    flat = flat - dot(flat, z) * z;
    F3 axis[3] = {(1.f / sqrtf(dot(flat, flat))) * flat, flat, z};
    axis[1] = cross(z, axis[0]);
    F3 middle = vec(0.f, 0.f, 0.f);
    float half[3];
    for (int k = 0; k < 3; k++) {
        float a = dot(load3(t), axis[k]), b = dot(load3(t + 3), axis[k]), c = dot(load3(t + 6), axis[k]);
        float high = most_of_all(most(a, most(b, c))), low = -most_of_all(-least(a, least(b, c)));
        middle = middle + (0.5f * (low + high)) * axis[k];
    }
    for (int k = 0; k < 3; k++) {
        float a = fabsf(dot(load3(t) - middle, axis[k])), b = fabsf(dot(load3(t + 3) - middle, axis[k])),
              c = fabsf(dot(load3(t + 6) - middle, axis[k]));
        half[k] = most_of_all(most(a, most(b, c))) + SDF_TURNED_MARGIN;
    }
    Turned box = {middle, load3(half), axis[0], axis[1]};
    return box;
}

FN float exchanged(float x, u32 distance) { return bits_float(warp_exchange(float_bits(x), distance)); }

// Bounds along the coordinate axes, from which boxes of nodes above the blocks are made: 32 in 6 x 32 numbers. Those of
// what a whole warp holds go to `place`.
FN float* bounds_at(const float* bounds, u32 place) {
    return (float*)bounds + 6 * SDF_WARP * (size_t)(place / SDF_WARP) + place % SDF_WARP;
}
FN Box gather_bounds(const Box& own, float* bounds, u32 place, bool stores) {
    Box b;
    for (int k = 0; k < 6; k++) {
        b.v[k] = k < 3 ? warp_lowest(own.v[k]) : warp_highest(own.v[k]);
        if (stores) bounds_at(bounds, place)[SDF_WARP * k] = b.v[k];
    }
    return b;
}

// A warp for each block: the boxes of its triangles, and its own.
FN void sdf_packet_blocks_at(const sdf_packet_blocks_args& a, u32 i) {
    u32 block = i / SDF_WARP;
    const float* t = a.triangle + 9 * (size_t)a.block_slot[least(i, a.triangles - 1)];
    F3 n = cross(load3(t + 3) - load3(t), load3(t + 6) - load3(t));
    store_turned(a.own, i, turned_box(n, t, [](float x) { return x; }));
    for (u32 k = 1; k < SDF_WARP; k *= 2) n = n + vec(exchanged(n.x, k), exchanged(n.y, k), exchanged(n.z, k));
    Turned box = turned_box(n, t, [](float x) { return warp_highest(x); });
    gather_bounds(triangle_box(t), a.bounds, block, i % SDF_WARP == 0);
    if (i % SDF_WARP == 0) store_turned(a.above, block, box);
}

// A warp for each node above them.
FN void sdf_packet_nodes_at(const sdf_packet_nodes_args& a, u32 i) {
    u32 node = i / SDF_WARP;
    const float* from = bounds_at(a.own, least(i, a.children - 1));
    Box own;
    for (int k = 0; k < 6; k++) own.v[k] = from[SDF_WARP * k];
    Box b = gather_bounds(own, a.bounds, node, i % SDF_WARP == 0);
    if (i % SDF_WARP) return;
    F3 low = load3(b.v), high = load3(b.v + 3), middle = 0.5f * (low + high), margin = SDF_TURNED_MARGIN * vec(1.f, 1.f, 1.f);
    Turned box = {middle, (high - middle) + margin, vec(1.f, 0.f, 0.f), vec(0.f, 1.f, 0.f)};
    store_turned(a.above, node, box);
}

FN float slot_distance_sq(const sdf_distance_packet_args& a, F3 p, u32 slot) {
    const float* t = a.triangle + 9 * (size_t)slot;
    return triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
}

// One thread of a warp, and the walk that it takes with the others. All points are within `radius` of `around`. `ahead`
// is about the way that leads from there to the surface, of length 1, or 0 if that is not known.
struct Walker {
    const sdf_distance_packet_args& a;
    PacketMemory* memory;
    u32 thread;
    F3 around, ahead;
    float radius;
    u32 limit;         // bits of a bound: what is above that is of no interest
    u32 boxes, tests;  // measured by this thread

    METHOD Turned load_box(u32 level, u32 node, u32 child) const {
        return load_turned(a.box, a.level_start[level] + node, child);
    }

    // A lower bound, in bits, for the distance of every point p from a box, less what p is farther ahead than `around`.
    // The box lies behind a plane at distance d from `around` across the way there, u: so it is d - (p - around) u from
    // p, which is less by at most radius |u - ahead|.
    METHOD u32 bound(const Turned& b) {
        boxes++;
        F3 away = from_box(turn(around - b.middle, b), b.half), way = turn(ahead, b);
        float d_sq = fused_dot(away, away), over_d = rough_inverse_sqrt(d_sq);
        F3 turned = vec(fused(away.x, over_d, way.x), fused(away.y, over_d, way.y), fused(away.z, over_d, way.z));
        float t_sq = fused_dot(turned, turned);
        float bound = d_sq * over_d * SDF_NEARER - radius * SDF_FARTHER * t_sq * rough_inverse_sqrt(t_sq);
        return float_bits(fmaxf(bound, 0.f));  // no number where the box is reached
    }
    // Depth first, the nearest child first; search.block(node) deals with a node of level 0.
    template <class Search>
    METHOD void walk(Search& search) {
        u32 level = a.levels - 1, node = 0;
        bool opens = true;
        while (level < a.levels) {
            u32* own = memory->bound + SDF_WARP * (level - 1) + thread;
            if (opens) {
                Turned b = load_box(level, node, thread);
                bool exists = SDF_WARP * node + thread < a.level_start[level] - a.level_start[level - 1];
                *own = exists ? bound(b) : SDF_NONE;
                search.opened(b, exists);
                opens = false;
            }
            u32 nearest = warp_least((*own & ~(SDF_WARP - 1u)) | thread), child = nearest % SDF_WARP;
            if (nearest - child > limit) {  // nothing is left here
                if (++level == a.levels) return;
                node /= SDF_WARP;
                continue;
            }
            if (thread == child) *own = SDF_NONE;
            if (!search.wants(level, node, child)) continue;
            node = SDF_WARP * node + child;
            if (level == 1) {
                search.block(node);
                node /= SDF_WARP;
            } else {
                level--;
                opens = true;
            }
        }
    }

    // Whether this thread's triangle of a block is near enough.
    METHOD bool near_triangle(u32 block, const Turned& b) {
        return SDF_WARP * block + thread < a.triangles && bound(b) <= limit;
    }
};

// One point: each thread keeps the best of the triangles that it has measured.
struct LoneSearch {
    Walker& walker;
    Hit best;

    METHOD void consider(float distance_sq, u32 slot) {
        const u32* id = walker.a.triangle_id;
        if (distance_sq < best.distance_sq || (distance_sq == best.distance_sq && id[slot] < id[best.slot])) {
            best.distance_sq = distance_sq;
            best.slot = slot;
        }
    }
    METHOD void reach(float distance) { walker.limit = least(walker.limit, warp_least(float_bits(distance * SDF_FARTHER))); }
    METHOD void start(u32 seed) {
        best.distance_sq = SDF_UNKNOWN;
        best.slot = 0;
        if (seed != SDF_NONE) consider(slot_distance_sq(walker.a, walker.around, seed), seed);
        walker.limit = SDF_NONE - SDF_WARP;
        reach(sqrtf(best.distance_sq));
    }
    METHOD bool wants(u32, u32, u32) const { return true; }
    // The farthest corner of a box bounds the distance from above: there is a triangle in it.
    METHOD void opened(const Turned& b, bool exists) {
        F3 p = turn(walker.around - b.middle, b), far = vec(fabsf(p.x), fabsf(p.y), fabsf(p.z)) + b.half;
        reach(exists ? sqrtf(dot(far, far)) : SDF_UNKNOWN);
    }
    METHOD void block(u32 block) {
        bool near = walker.near_triangle(block, walker.load_box(0, block, walker.thread));
        if (warp_ballot(near) == 0) return;
        if (near) {
            u32 slot = walker.a.block_slot[SDF_WARP * block + walker.thread];
            consider(slot_distance_sq(walker.a, walker.around, slot), slot);
            walker.tests++;
        }
        reach(sqrtf(best.distance_sq));
    }
    // All threads learn the answer.
    METHOD void agree() {
        for (u32 k = 1; k < SDF_WARP; k *= 2) {
            float distance_sq = exchanged(best.distance_sq, k);
            consider(distance_sq, warp_exchange(best.slot, k));
        }
    }
};

// A point for each thread.
struct PacketSearch {
    Walker& walker;
    F3 p;
    float forward;  // how far ahead the point is
    float distance_sq;
    u32 pairs, wanting;  // pairs that wait; the points that wanted the last child

    METHOD void start(u32 seed) {
        PacketMemory* m = walker.memory;
        forward = dot(p - walker.around, walker.ahead);
        reach(slot_distance_sq(walker.a, p, seed));
        m->point[walker.thread] = quad(p, distance_sq);
        m->slot[walker.thread] = seed;
        m->id[walker.thread] = walker.a.triangle_id[seed];
        pairs = 0;
        warp_sync();
    }
    METHOD void reach(float nearest_sq) {
        distance_sq = nearest_sq;
        walker.limit = warp_most(float_bits(fmaxf(sqrtf(distance_sq) * SDF_FARTHER + forward, 0.f)));
    }
    METHOD void opened(const Turned&, bool) const {}
    METHOD u32 wanted(const Turned& b) const {
        walker.boxes++;
        return warp_ballot(turned_distance_sq(p, b) <= distance_sq);
    }
    METHOD bool wants(u32 level, u32 node, u32 child) {
        wanting = wanted(walker.load_box(level, node, child));
        return wanting != 0;
    }

    METHOD void block(u32 block) {
        Turned b = walker.load_box(0, block, walker.thread);
        bool near = walker.near_triangle(block, b);
        u32 candidates = warp_ballot(near), first = SDF_WARP * block;
        if (count_ones(candidates) < count_ones(wanting)) {  // triangle by triangle, measured from all points
            for (; candidates; candidates &= candidates - 1) {
                u32 k = first_one(candidates);
                add(wanted(walker.load_box(0, block, k)), walker.thread, first + k);
            }
        } else {  // point by point, measured from all triangles
            for (; wanting; wanting &= wanting - 1) {
                u32 k = first_one(wanting);
                Quad q = walker.memory->point[k];
                walker.boxes++;
                add(warp_ballot(near && turned_distance_sq(xyz(q), b) <= q.w), k, first + walker.thread);
            }
        }
    }

    // The pairs of the threads in a mask.
    METHOD void add(u32 mask, u32 point, u32 place) {
        PacketMemory* m = walker.memory;
        if (mask >> walker.thread & 1u) {
            u32 at = pairs + (u32)count_ones(mask & ((1u << walker.thread) - 1u));
            m->pair_point[at] = point;
            m->pair_place[at] = place;
        }
        pairs += (u32)count_ones(mask);
        if (pairs >= SDF_WARP) measure(SDF_WARP);
    }

    // Measures the last `count` pairs. Of equally near triangles the one with the smallest id.
    METHOD void measure(u32 count) {
        PacketMemory* m = walker.memory;
        warp_sync();
        pairs -= count;
        bool busy = walker.thread < count;
        u32 at = pairs + least(walker.thread, count - 1), k = m->pair_point[at], slot = walker.a.block_slot[m->pair_place[at]];
        Quad q = m->point[k];
        u32 bits = float_bits(slot_distance_sq(walker.a, xyz(q), slot));
        walker.tests += busy;
        warp_sync();
        u32* best = (u32*)&m->point[k].w;
        if (busy) shared_least(best, bits);
        warp_sync();
        bool wins = busy && bits == *best;
        if (wins && bits < float_bits(q.w)) m->id[k] = SDF_NONE;
        warp_sync();
        u32 id = wins ? walker.a.triangle_id[slot] : SDF_NONE;
        if (wins) shared_least(m->id + k, id);
        warp_sync();
        if (wins && m->id[k] == id) m->slot[k] = slot;
        reach(m->point[walker.thread].w);
    }
};

FN void store_packet(const sdf_distance_packet_args& a, u32 query, Hit best, const Walker& walker) {
    a.distance[query] = sqrtf(best.distance_sq);
    a.slot[query] = best.slot;
    if (!a.boxes) return;
    a.boxes[query] = walker.boxes;
    a.tests[query] = walker.tests;
}
FN u32 seed_of(const sdf_distance_packet_args& a, u32 query) {
    u32 seed = a.seeds ? a.seed[a.seeds * (size_t)query] : SDF_NONE;
    return seed == SDF_NONE || !a.seed_slot ? seed : a.seed_slot[seed];
}

FN Walker make_walker(const sdf_distance_packet_args& a, u32 i, F3 around, float radius) {
    SDF_SHARED PacketMemory memory[SDF_BLOCK_WARPS];
    Walker w = {a, memory + i / SDF_WARP % SDF_BLOCK_WARPS, i % SDF_WARP, around, vec(0.f, 0.f, 0.f), radius, 0, 0, 0};
    return w;
}

// A warp for each point.
FN void sdf_distance_lone_at(const sdf_distance_packet_args& a, u32 i) {
    u32 query = a.order ? a.order[i / SDF_WARP] : i / SDF_WARP;
    Walker walker = make_walker(a, i, load3(a.points + 3 * (size_t)query), 0.f);
    LoneSearch lone = {walker};
    lone.start(seed_of(a, query));
    walker.walk(lone);
    lone.agree();
    if (walker.thread == 0) store_packet(a, query, lone.best, walker);
}

// A warp for 32 points that follow each other. Where a point has no seed, the triangle nearest to the middle of them all
// is the first bound.
FN void sdf_distance_packet_at(const sdf_distance_packet_args& a, u32 i) {
    u32 place = least(i, a.queries - 1), query = a.order ? a.order[place] : place;
    F3 p = load3(a.points + 3 * (size_t)query);
    F3 low = vec(warp_lowest(p.x), warp_lowest(p.y), warp_lowest(p.z)),
       high = vec(warp_highest(p.x), warp_highest(p.y), warp_highest(p.z)), middle = 0.5f * low + 0.5f * high;
    Walker walker = make_walker(a, i, middle, 0.f);
    u32 seed = seed_of(a, query);
    if (warp_ballot(seed == SDF_NONE)) {
        LoneSearch lone = {walker};
        lone.start(SDF_NONE);
        walker.walk(lone);
        lone.agree();
        if (seed == SDF_NONE) seed = lone.best.slot;
        const float* t = a.triangle + 9 * (size_t)lone.best.slot;
        F3 way = nearest_on_triangle(middle, load3(t), load3(t + 3), load3(t + 6)).point - middle;
        float way_sq = dot(way, way);
        if (way_sq > 0.f) walker.ahead = (1.f / sqrtf(way_sq)) * way;
    }
    walker.radius = warp_highest(sqrtf(dot(p - middle, p - middle)));
    PacketSearch search = {walker, p};
    search.start(seed);
    walker.walk(search);
    if (search.pairs > 0) search.measure(search.pairs);
    if (i >= a.queries) return;
    Hit best = {search.distance_sq, walker.memory->slot[walker.thread]};
    store_packet(a, query, best, walker);
}
#endif

#endif
