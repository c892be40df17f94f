// The GPU's distance query: a warp looks for the nearest triangles of 32 neighbouring points together, or of one.
//
// The tree is like that of wide.h, with 32 children a node: a packed R-tree over triangles along the Hilbert curve. Each
// thread measures one child of a node, or one triangle of a
// block, from the box around the points, and the nearest child comes first: the way down is paid once for all points,
// and no two threads part company. Children that no single point is near enough to are passed over. Triangles whose box
// comes near enough to a point make a pair with it; pairs are kept until there is one for each thread, and then
// measured at once. Answers are those of sdf_distance_cct to the last bit, see wide.h.
#ifndef SDFCLI_PACKET_H
#define SDFCLI_PACKET_H
#include "distance.h"
#include "warp.h"

#ifdef SDF_SHARED
#define SDF_WARP 32
#define SDF_PACKET_LEVELS 6    // 32^6 = 2^30 blocks
#define SDF_FARTHER 1.000004f  // more than the rounding of an upper bound

struct alignas(16) Quad {
    float x, y, z, w;
};

// What the threads of a warp share: the answers so far, pairs that wait, and for each level the bounds of the children of
// the node that is open there, SDF_NONE for those that are done.
struct PacketMemory {
    Quad point[SDF_WARP];  // and the square of its distance
    u32 id[SDF_WARP], slot[SDF_WARP];
    Quad low[SDF_WARP], high[SDF_WARP];  // boxes of a block's triangles, and their slots
    u32 pair_point[2 * SDF_WARP], pair_slot[2 * SDF_WARP];
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

// Squared distances between two boxes: no points of the two are closer, and none farther apart.
FN float gap(float low, float high, float box_low, float box_high) { return most(most(box_low - high, low - box_high), 0.f); }
FN float gap_sq(const Box& q, const Box& b) {
    float x = gap(q.v[0], q.v[3], b.v[0], b.v[3]), y = gap(q.v[1], q.v[4], b.v[1], b.v[4]),
          z = gap(q.v[2], q.v[5], b.v[2], b.v[5]);
    return (x * x + y * y + z * z) * SDF_BOX_SHRINK;
}
FN float span_sq(const Box& q, const Box& b) {
    float x = most(b.v[3] - q.v[0], q.v[3] - b.v[0]), y = most(b.v[4] - q.v[1], q.v[4] - b.v[1]),
          z = most(b.v[5] - q.v[2], q.v[5] - b.v[2]);
    return (x * x + y * y + z * z) * SDF_FARTHER;
}
FN Quad quad(F3 v, float w) {
    Quad q = {v.x, v.y, v.z, w};
    return q;
}
FN F3 xyz(Quad q) { return vec(q.x, q.y, q.z); }

// A warp for each block or node: its box goes into its lane of the node above.
FN void store_above(float* above, u32 i, const Box& own) {
    u32 child = i / SDF_WARP;
    Box b;
    for (int k = 0; k < 3; k++) {
        b.v[k] = warp_lowest(own.v[k]);
        b.v[k + 3] = warp_highest(own.v[k + 3]);
    }
    if (i % SDF_WARP) return;
    float* out = above + 6 * SDF_WARP * (size_t)(child / SDF_WARP) + child % SDF_WARP;
    for (int k = 0; k < 6; k++) out[SDF_WARP * k] = b.v[k];
}
FN void sdf_packet_blocks_at(const sdf_packet_blocks_args& a, u32 i) {
    const float* t = a.triangle + 9 * (size_t)a.block_slot[least(i, a.triangles - 1)];
    float* out = a.block + 9 * SDF_WARP * (size_t)(i / SDF_WARP) + i % SDF_WARP;
    for (int c = 0; c < 9; c++) out[SDF_WARP * c] = t[c];
    store_above(a.box, i, triangle_box(t));
}
FN void sdf_packet_nodes_at(const sdf_packet_nodes_args& a, u32 i) {
    const float* from = a.own + 6 * SDF_WARP * (size_t)(i / SDF_WARP) + i % SDF_WARP;
    Box b;
    for (int k = 0; k < 6; k++) b.v[k] = from[SDF_WARP * k];
    store_above(a.above, i, b);
}

FN float slot_distance_sq(const sdf_distance_packet_args& a, F3 p, u32 slot) {
    const float* t = a.triangle + 9 * (size_t)slot;
    return triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
}

// One thread of a warp, and the walk that it takes with the others.
struct Walker {
    const sdf_distance_packet_args& a;
    PacketMemory* memory;
    u32 thread;
    u32 limit;         // bits of a squared distance: what is farther from `around` than that is of no interest
    u32 boxes, tests;  // measured by this thread

    METHOD Box load_box(u32 level, u32 node, u32 child) const {
        const float* from = a.box + 6 * SDF_WARP * (size_t)(a.level_start[level] + node) + child;
        Box b;
        for (int k = 0; k < 6; k++) b.v[k] = from[SDF_WARP * k];
        return b;
    }

    // Depth first, the nearest child first; search.block(node, k) deals with child k of a node of level 0.
    template <class Search>
    METHOD void walk(const Box& around, Search& search) {
        u32 level = a.levels - 1, node = 0;
        bool opens = true;
        while (level < a.levels) {
            u32* own = memory->bound + SDF_WARP * level + thread;
            if (opens) {
                Box b = load_box(level, node, thread);
                *own = float_bits(gap_sq(around, b));
                search.opened(b);
                boxes++;
                opens = false;
            }
            u32 nearest = warp_least((*own & ~(SDF_WARP - 1u)) | thread), child = nearest % SDF_WARP;
            if (nearest - child > limit) {  // nothing is left here
                node /= SDF_WARP;
                level++;
                continue;
            }
            if (thread == child) *own = SDF_NONE;
            if (!search.wants(level, node, child)) continue;
            if (level == 0) {
                search.block(SDF_WARP * node + child);
            } else {
                node = SDF_WARP * node + child;
                level--;
                opens = true;
            }
        }
    }

    // This thread's triangle of a block.
    METHOD Box load_triangle(u32 block, float* corners) const {
        const float* from = a.block + 9 * SDF_WARP * (size_t)block + thread;
        for (int c = 0; c < 9; c++) corners[c] = from[SDF_WARP * c];
        return triangle_box(corners);
    }
    METHOD u32 load_slot(u32 block) const { return a.block_slot[least(block * SDF_WARP + thread, a.triangles - 1)]; }
};

// One point: each thread keeps the best of the triangles that it has measured.
struct LoneSearch {
    Walker& walker;
    F3 p;
    Box around;
    Hit best;
    u32 reach;

    METHOD void consider(float distance_sq, u32 slot) {
        const u32* id = walker.a.triangle_id;
        if (distance_sq < best.distance_sq || (distance_sq == best.distance_sq && id[slot] < id[best.slot])) {
            best.distance_sq = distance_sq;
            best.slot = slot;
        }
    }
    METHOD void start(u32 seed) {
        Box b = {{p.x, p.y, p.z, p.x, p.y, p.z}};
        around = b;
        best.distance_sq = SDF_UNKNOWN;
        best.slot = 0;
        if (seed != SDF_NONE) consider(slot_distance_sq(walker.a, p, seed), seed);
        reach = warp_least(float_bits(best.distance_sq));
        walker.limit = reach;
    }
    METHOD bool wants(u32, u32, u32) const { return true; }
    // The farthest corner of a box bounds the distance from above: there is a triangle in it.
    METHOD void opened(const Box& b) {
        reach = least(reach, warp_least(float_bits(span_sq(around, b))));
        walker.limit = reach;
    }
    METHOD void block(u32 block) {
        float t[9];
        bool near = float_bits(gap_sq(around, walker.load_triangle(block, t))) <= walker.limit;
        walker.boxes++;
        if (warp_ballot(near) == 0) return;
        if (near) {
            consider(triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6)), walker.load_slot(block));
            walker.tests++;
        }
        reach = least(reach, warp_least(float_bits(best.distance_sq)));
        walker.limit = reach;
    }
    // All threads learn the answer.
    METHOD void agree() {
        for (u32 k = 1; k < SDF_WARP; k *= 2) {
            float distance_sq = bits_float(warp_exchange(float_bits(best.distance_sq), k));
            consider(distance_sq, warp_exchange(best.slot, k));
        }
    }
};

// A point for each thread.
struct PacketSearch {
    Walker& walker;
    F3 p;
    Box around;
    float distance_sq;
    u32 pairs, wanting;  // pairs that wait; the points that wanted the last child

    METHOD void start(u32 seed) {
        PacketMemory* m = walker.memory;
        distance_sq = slot_distance_sq(walker.a, p, seed);
        m->point[walker.thread] = quad(p, distance_sq);
        m->slot[walker.thread] = seed;
        m->id[walker.thread] = walker.a.triangle_id[seed];
        walker.limit = warp_most(float_bits(distance_sq));
        pairs = 0;
        warp_sync();
    }
    METHOD void opened(const Box&) const {}
    METHOD u32 wanted(const float* box) const {
        walker.boxes++;
        return warp_ballot(box_distance_sq(p, box) <= distance_sq);
    }
    METHOD bool wants(u32 level, u32 node, u32 child) {
        wanting = wanted(walker.load_box(level, node, child).v);
        return wanting != 0;
    }

    METHOD void block(u32 block) {
        PacketMemory* m = walker.memory;
        float t[9];
        Box box = walker.load_triangle(block, t);
        bool near = float_bits(gap_sq(around, box)) <= walker.limit;
        u32 candidates = warp_ballot(near), slot = walker.load_slot(block);
        walker.boxes++;
        if (count_ones(candidates) < count_ones(wanting)) {  // triangle by triangle, measured from all points
            m->low[walker.thread] = quad(vec(box.v[0], box.v[1], box.v[2]), bits_float(slot));
            m->high[walker.thread] = quad(vec(box.v[3], box.v[4], box.v[5]), 0.f);
            warp_sync();
            for (; candidates; candidates &= candidates - 1) {
                u32 k = first_one(candidates);
                Quad low = m->low[k], high = m->high[k];
                float corners[6] = {low.x, low.y, low.z, high.x, high.y, high.z};
                add(wanted(corners), walker.thread, float_bits(low.w));
            }
            warp_sync();
        } else {  // point by point, measured from all triangles
            for (; wanting; wanting &= wanting - 1) {
                u32 k = first_one(wanting);
                Quad q = m->point[k];
                walker.boxes++;
                add(warp_ballot(near && box_distance_sq(xyz(q), box.v) <= q.w), k, slot);
            }
        }
    }

    // The pairs of the threads in a mask.
    METHOD void add(u32 mask, u32 point, u32 slot) {
        PacketMemory* m = walker.memory;
        if (mask >> walker.thread & 1u) {
            u32 at = pairs + (u32)count_ones(mask & ((1u << walker.thread) - 1u));
            m->pair_point[at] = point;
            m->pair_slot[at] = slot;
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
        u32 at = pairs + least(walker.thread, count - 1), k = m->pair_point[at], slot = m->pair_slot[at];
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
        distance_sq = m->point[walker.thread].w;
        warp_sync();
        walker.limit = warp_most(float_bits(distance_sq));
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

FN Walker make_walker(const sdf_distance_packet_args& a, u32 i) {
    SDF_SHARED PacketMemory memory[SDF_BLOCK_WARPS];
    Walker w = {a, memory + i / SDF_WARP % SDF_BLOCK_WARPS, i % SDF_WARP, 0, 0, 0};
    return w;
}

// A warp for each point.
FN void sdf_distance_lone_at(const sdf_distance_packet_args& a, u32 i) {
    Walker walker = make_walker(a, i);
    u32 query = a.order ? a.order[i / SDF_WARP] : i / SDF_WARP;
    LoneSearch lone = {walker, load3(a.points + 3 * (size_t)query)};
    lone.start(seed_of(a, query));
    walker.walk(lone.around, lone);
    lone.agree();
    if (walker.thread == 0) store_packet(a, query, lone.best, walker);
}

// A warp for 32 points that follow each other. Where a point has no seed, the triangle nearest to the middle of them all
// is the first bound.
FN void sdf_distance_packet_at(const sdf_distance_packet_args& a, u32 i) {
    Walker walker = make_walker(a, i);
    u32 place = least(i, a.queries - 1), query = a.order ? a.order[place] : place;
    F3 p = load3(a.points + 3 * (size_t)query);
    Box around = {{warp_lowest(p.x), warp_lowest(p.y), warp_lowest(p.z), warp_highest(p.x), warp_highest(p.y), warp_highest(p.z)}};
    u32 seed = seed_of(a, query);
    if (warp_ballot(seed == SDF_NONE)) {
        F3 low = vec(around.v[0], around.v[1], around.v[2]), high = vec(around.v[3], around.v[4], around.v[5]);
        LoneSearch lone = {walker, 0.5f * (low + high)};
        lone.start(SDF_NONE);
        walker.walk(lone.around, lone);
        lone.agree();
        if (seed == SDF_NONE) seed = lone.best.slot;
    }
    PacketSearch search = {walker, p, around};
    search.start(seed);
    walker.walk(around, search);
    if (search.pairs > 0) search.measure(search.pairs);
    if (i >= a.queries) return;
    Hit best = {search.distance_sq, walker.memory->slot[walker.thread]};
    store_packet(a, query, best, walker);
}
#endif

#endif
