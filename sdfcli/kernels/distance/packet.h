// The GPU's distance query: a warp finds the nearest triangles for 32 neighbouring points together, or for one.
//
// Each thread measures one child of a node from the points' centre, and the nearest child comes first: all points share
// one traversal, without divergence. Children that are too far from every single point are skipped. Triangles whose box
// is close enough to a point form a pair with it; pairs accumulate until each thread has one, and are then measured
// together. Results equal sdf_distance_cct's to the last bit, see distance/simd.h: differently rounded values serve as
// bounds only.
//
// INTERFACE
//   PacketTree           the tree, for kernels with queries of their own
//   sdf_distance_packet  one warp per 32 consecutive points
//   sdf_distance_sample  the same for samples of the points, whose results are initial bounds
//   sdf_distance_single    one warp per point
#ifndef SDFCLI_DISTANCE_PACKET_H
#define SDFCLI_DISTANCE_PACKET_H
#include "base/kernel.h"
#include "trees/packed.h"

// The tree, for kernels with queries of their own.
struct PacketTree {
    u32 levels;              // node levels, including blocks
    const u32* slot_place;   // [triangles]
    const float* record;     // [places, 16]
    const float* box;        // [nodes, 4, 32, 4] child boxes
    const float* part;       // [parts, 4, 32, 4] boxes for 4 triangles each
    const u32* level_start;  // [levels] first node of each level
};

#ifdef SDF_SHARED
#define SDF_PACKET_LEVELS 6  // 32^6 = 2^30 blocks
#define SDF_SLACK 4e-5f      // absolute error in the length of a difference of unit vectors
#define SDF_BLOCK_PARTS (SDF_WARP / SDF_PART)
#define SDF_SAMPLES 16u        // samples examined by a packet
#define SDF_SAMPLE_STEPS 256u  // maximum steps for a packet of samples; few take more

struct alignas(8) Pair {
    u32 point, place;
};
// A warp's shared memory: results so far; pending pairs (point, triangle); per level, the open node's child bounds,
// SDF_NONE for finished children; the points that need a block; and pending block parts with points that need them: 32
// x part + point.
struct PacketMemory {
    Float4 point[SDF_WARP];  // and its squared distance
    u32 id[SDF_WARP], slot[SDF_WARP];
    Pair pair[2 * SDF_WARP];
    u32 bound[SDF_PACKET_LEVELS * SDF_WARP];
    u32 wanting[SDF_WARP];
    u32 part[SDF_WARP + SDF_BLOCK_PARTS];
};

// Bounds need not be rounded as distances are: these use fused multiply-adds.
FN float fused_dot(F3 a, F3 b) { return fused(a.x, b.x, fused(a.y, b.y, a.z * b.z)); }
FN float rough_sqrt(float x) { return x * rough_inverse_sqrt(fmaxf(x, 1e-37f)); }

FN Obb load_turned(const Float4* from) {
    Float4 middle = from[0], x = from[SDF_WARP], y = from[2 * SDF_WARP], z = from[3 * SDF_WARP];
    Obb b = {xyz(middle), vec(x.w, y.w, z.w), xyz(x), xyz(y), xyz(z)};
    return b;
}
FN F3 turn(F3 v, const Obb& b) {  // to the box's axes
    return vec(fused_dot(v, b.x), fused_dot(v, b.y), fused_dot(v, b.z));
}
// Lower bound for squared distances to the box's contents.
FN float turned_distance_sq(F3 p, const Obb& b) {
    F3 t = turn(p - b.middle, b);
    F3 away =
        vec(fmaxf(fabsf(t.x) - b.half.x, 0.f), fmaxf(fabsf(t.y) - b.half.y, 0.f), fmaxf(fabsf(t.z) - b.half.z, 0.f));
    return fused_dot(away, away);
}

struct Found {
    float distance_sq;
    u32 slot, id;
};
FN Found measure_record(const float* records, u32 place, F3 p) {
    const Float4* from = (const Float4*)records + 4 * (size_t)place;
    Float4 a = from[0], b = from[1], c = from[2], rest = from[3];
    PreparedTriangle<float> f = facet(xyz(a), xyz(b), xyz(c), a.w, b.w, c.w, rest.x);
    Found found = {facet_distance_sq(p, f), float_bits(rest.y), float_bits(rest.z)};
    return found;
}

// A thread's query; the last query fills the warp.
FN u32 query_of(const u32* order, u32 queries, u32 i) {
    u32 place = min_of(i, queries - 1);
    return order ? order[place] : place;
}
// Centre of the box around all threads' points.
FN F3 middle_of_all(F3 p) {
    return vec(0.5f * warp_lowest(p.x) + 0.5f * warp_highest(p.x), 0.5f * warp_lowest(p.y) + 0.5f * warp_highest(p.y),
               0.5f * warp_lowest(p.z) + 0.5f * warp_highest(p.z));
}

struct sdf_distance_packet_args {
    u32 n;  // threads: whole warps
    u32 queries;
    const u32* many;         // [1] query count, at most `queries`; null: `queries`
    u32 levels;              // node levels, including blocks
    u32 seeds;               // seed slots per row, of which the first is used
    const float* points;     // [queries, 3]
    const u32* order;        // [queries] processing order, neighbours together; null: as given
    const u32* slot_place;   // [triangles]
    const float* record;     // [places, 16]
    const float* box;        // [nodes, 4, 32, 4] child boxes
    const float* part;       // [parts, 4, 32, 4] boxes for 4 triangles each
    const u32* level_start;  // [levels] first node of each level
    const u32* sample_slot;  // [ceil(queries / every)] nearest slots for the samples; null: seeds are used
    u32 every;               // queries per sample
    const u32* seed;         // [queries, seeds] terminated by SDF_NONE
    const u32* seed_slot;    // [slots] slot of each seed; null: seeds are slots
    float* distance;         // [queries] out
    u32* slot;               // [queries] out
    u32* boxes;              // [queries] out: box tests by the point's thread; may be null
    u32* tests;              // [queries] out: triangle tests by it; may be null
};
// A thread in a warp's joint traversal. All points are within `radius` of `around`. `ahead` is approximately the unit
// direction from there to the surface, or 0 if unknown.
struct Traversal {
    const sdf_distance_packet_args& a;
    PacketMemory* memory;
    u32 thread;
    F3 around, ahead;
    float radius;
    u32 limit;         // bits of the search radius: larger bounds are pruned
    u32 boxes, tests;  // tests by this thread

    METHOD const Float4* boxes_of(u32 level, u32 node) const {
        return (const Float4*)a.box + 4 * SDF_WARP * (size_t)((level ? a.level_start[level] : 0) + node);
    }
    METHOD const Float4* part_box(u32 block, u32 k) const {
        u32 part = SDF_BLOCK_PARTS * block + k;
        return (const Float4*)a.part + 4 * SDF_WARP * (size_t)(part / SDF_WARP) + part % SDF_WARP;
    }

    // Bound b, as bits: every point p is at least b - dot(p - around, ahead) away from the box. The box lies behind a
    // plane at distance d from `around`, with unit normal u. So p is at least d - dot(p - around, u) away, hence at
    // least (d - radius |u - ahead|) - dot(p - around, ahead).
    METHOD u32 bound(const Obb& b) {
        boxes++;
        F3 t = turn(around - b.middle, b), h = b.half, way = turn(ahead, b);
        F3 away = vec(t.x - fmaxf(fminf(t.x, h.x), -h.x), t.y - fmaxf(fminf(t.y, h.y), -h.y),
                      t.z - fmaxf(fminf(t.z, h.z), -h.z));
        float d_sq = fused_dot(away, away), over_d = rough_inverse_sqrt(d_sq);
        F3 differ = vec(fused(away.x, over_d, way.x), fused(away.y, over_d, way.y), fused(away.z, over_d, way.z));
        float less = radius * (rough_sqrt(fused_dot(differ, differ)) + SDF_SLACK);
        return float_bits(fmaxf(d_sq * over_d * SDF_NEARER - less, 0.f));  // NaN in the box, which fmaxf turns into 0
    }

    // The block reached by always entering the child whose centre is nearest to p, without backtracking.
    METHOD u32 descend(F3 p) {
        u32 node = 0;
        for (u32 level = a.levels - 1; level > 0; level--) {
            F3 r = xyz(boxes_of(level, node)[thread]) - p;
            bool exists = SDF_WARP * node + thread < a.level_start[level] - a.level_start[level - 1];
            u32 bits = exists ? float_bits(fused_dot(r, r)) & ~(SDF_WARP - 1u) : SDF_NONE - SDF_WARP;
            node = SDF_WARP * node + reduce_min(bits | thread) % SDF_WARP;
        }
        return node;
    }

    // Depth first, nearest child first, until the search tires; search.block(node) handles a level 0 node.
    template <class Search>
    METHOD void walk(Search& search) {
        u32 level = a.levels - 1, node = 0;
        const Float4* children = boxes_of(level, node);
        bool opens = true;
        while (!search.tires()) {
            u32* own = memory->bound + SDF_WARP * (level - 1) + thread;
            if (opens) {
                Obb b = load_turned(children + thread);
                bool exists = SDF_WARP * node + thread < a.level_start[level] - a.level_start[level - 1];
                *own = exists ? bound(b) : SDF_NONE;
                search.opened(b, exists);
                opens = false;
            }
            u32 nearest = reduce_min((*own & ~(SDF_WARP - 1u)) | thread), child = nearest % SDF_WARP;
            if (nearest - child > limit) {  // nothing left here
                if (++level == a.levels) return;
                node /= SDF_WARP;
                children = boxes_of(level, node);
                continue;
            }
            if (thread == child) *own = SDF_NONE;
            if (!search.wants(children + child)) continue;
            if (level == 1) {
                search.block(SDF_WARP * node + child);
            } else {
                node = SDF_WARP * node + child;
                children = boxes_of(--level, node);
                opens = true;
            }
        }
    }
};

// One point: each thread keeps the best triangle it has measured.
struct SingleSearch {
    Traversal& walker;
    Found best;

    METHOD void consider(Found other) {
        if (other.distance_sq < best.distance_sq || (other.distance_sq == best.distance_sq && other.id < best.id))
            best = other;
    }
    METHOD void reach(float distance) {
        walker.limit = min_of(walker.limit, reduce_min(float_bits(distance * SDF_FARTHER)));
    }
    METHOD void measure(u32 place) { consider(measure_record(walker.a.record, place, walker.around)); }
    METHOD void start(u32 seed_place) {
        Found none = {SDF_UNKNOWN, 0, SDF_NONE};
        best = none;
        if (seed_place != SDF_NONE) measure(seed_place);
        walker.limit = SDF_NONE - SDF_WARP;
        reach(sqrtf(best.distance_sq));
    }
    METHOD bool tires() const { return false; }
    METHOD bool wants(const Float4*) const { return true; }
    // A box's farthest corner gives an upper bound: the box contains a triangle.
    METHOD void opened(const Obb& b, bool exists) {
        F3 p = turn(walker.around - b.middle, b), far = vec(fabsf(p.x), fabsf(p.y), fabsf(p.z)) + b.half;
        reach(exists ? sqrtf(dot(far, far)) : SDF_UNKNOWN);
    }
    METHOD void block(u32 block) {
        bool near = walker.bound(load_turned(walker.boxes_of(0, block) + walker.thread)) <= walker.limit;
        if (warp_ballot(near) == 0) return;
        walker.tests += near;
        if (near) measure(SDF_WARP * block + walker.thread);
        reach(sqrtf(best.distance_sq));
    }
    // Shares the result with all threads.
    METHOD void agree() {
        for (u32 k = 1; k < SDF_WARP; k *= 2) {
            Found other = {exchanged(best.distance_sq, k), shfl_xor(best.slot, k), shfl_xor(best.id, k)};
            consider(other);
        }
    }
};

// One point per thread.
struct PacketSearch {
    Traversal& walker;
    F3 p;
    bool sampled;   // results are only initial bounds, for which all other points wait
    float forward;  // dot(p - around, ahead)
    float distance_sq;
    u32 pairs, parts, wanting;  // pending pairs and parts; points that needed the last child
    u32 steps;

    METHOD void start(const Found& first) {
        PacketMemory* m = walker.memory;
        forward = fused_dot(p - walker.around, walker.ahead);
        reach(first.distance_sq);
        m->point[walker.thread] = quad(p, distance_sq);
        m->slot[walker.thread] = first.slot;
        m->id[walker.thread] = first.id;
        pairs = parts = steps = 0;
        warp_sync();
    }
    METHOD void reach(float nearest_sq) {
        distance_sq = nearest_sq;
        walker.limit = reduce_max(float_bits(fmaxf(rough_sqrt(distance_sq) * SDF_FARTHER + forward, 0.f)));
    }
    METHOD bool tires() { return sampled && steps++ == SDF_SAMPLE_STEPS; }
    METHOD void opened(const Obb&, bool) const {}
    METHOD u32 wanted(const Float4* box) const {
        return warp_ballot(turned_distance_sq(p, load_turned(box)) <= distance_sq);
    }
    METHOD bool wants(const Float4* box) {
        walker.boxes++;
        wanting = wanted(box);
        return wanting != 0;
    }

    // Tests the points that need a block, four per step, against its eight parts; then the parts that points need,
    // eight per step, against their triangles. Oriented boxes around a few triangles are flat: most points need one
    // part of a block.
    METHOD void block(u32 block) {
        PacketMemory* m = walker.memory;
        u32 k = walker.thread % SDF_BLOCK_PARTS, behind = (1u << walker.thread) - 1u, count = (u32)popcount(wanting);
        Obb own = load_turned(walker.part_box(block, k));
        if (wanting >> walker.thread & 1u) m->wanting[popcount(wanting & behind)] = walker.thread;
        warp_sync();
        for (u32 from = 0; from < count; from += SDF_WARP / SDF_BLOCK_PARTS) {
            u32 at = from + walker.thread / SDF_BLOCK_PARTS, point = m->wanting[min_of(at, count - 1)];
            Float4 q = m->point[point];
            u32 mask = warp_ballot((turned_distance_sq(xyz(q), own) <= q.w) & (at < count));
            if (mask >> walker.thread & 1u)
                m->part[parts + (u32)popcount(mask & behind)] = SDF_WARP * (SDF_BLOCK_PARTS * block + k) + point;
            parts += (u32)popcount(mask);
            walker.boxes++;
            warp_sync();
            while (parts >= SDF_BLOCK_PARTS) look(SDF_BLOCK_PARTS);
        }
    }

    // Tests the triangles in the last `count` parts.
    METHOD void look(u32 count) {
        PacketMemory* m = walker.memory;
        parts -= count;
        u32 at = walker.thread / SDF_PART, entry = m->part[parts + min_of(at, count - 1)], point = entry % SDF_WARP,
            place = SDF_PART * (entry / SDF_WARP) + walker.thread % SDF_PART;
        Float4 q = m->point[point];
        Obb own = load_turned(walker.boxes_of(0, place / SDF_WARP) + place % SDF_WARP);
        u32 mask = warp_ballot((turned_distance_sq(xyz(q), own) <= q.w) & (at < count));
        walker.boxes++;
        if (mask) add(mask, point, place);
    }

    // Appends pairs for the threads in a mask.
    METHOD void add(u32 mask, u32 point, u32 place) {
        PacketMemory* m = walker.memory;
        if (mask >> walker.thread & 1u) {
            Pair pair = {point, place};
            m->pair[pairs + (u32)popcount(mask & ((1u << walker.thread) - 1u))] = pair;
        }
        pairs += (u32)popcount(mask);
        if (pairs >= SDF_WARP) measure(SDF_WARP);
    }

    // Measures the last `count` pairs. Ties go to the smallest id.
    METHOD void measure(u32 count) {
        PacketMemory* m = walker.memory;
        warp_sync();
        pairs -= count;
        bool busy = walker.thread < count;
        Pair pair = m->pair[pairs + min_of(walker.thread, count - 1)];
        u32 k = pair.point;
        Float4 q = m->point[k];
        Found found = measure_record(walker.a.record, pair.place, xyz(q));
        u32 bits = float_bits(found.distance_sq);
        walker.tests += busy;
        warp_sync();
        u32* best = (u32*)&m->point[k].w;
        if (busy) shared_least(best, bits);
        warp_sync();
        bool wins = busy && bits == *best;
        if (wins && bits < float_bits(q.w)) m->id[k] = SDF_NONE;
        warp_sync();
        if (wins) shared_least(m->id + k, found.id);
        warp_sync();
        if (wins && m->id[k] == found.id) m->slot[k] = found.slot;
        warp_sync();
        reach(m->point[walker.thread].w);
    }
};

FN void store_answer(const sdf_distance_packet_args& a, u32 query, float distance_sq, u32 slot,
                     const Traversal& walker) {
    a.distance[query] = sqrtf(distance_sq);
    a.slot[query] = slot;
    if (!a.boxes) return;
    a.boxes[query] = walker.boxes;
    a.tests[query] = walker.tests;
}
FN u32 seed_place_of(const sdf_distance_packet_args& a, u32 query) {
    u32 seed = a.seeds ? a.seed[a.seeds * (size_t)query] : SDF_NONE;
    return seed == SDF_NONE ? seed : a.slot_place[a.seed_slot ? a.seed_slot[seed] : seed];
}

FN Traversal make_walker(const sdf_distance_packet_args& a, u32 i, F3 around) {
    SDF_SHARED PacketMemory memory[SDF_BLOCK_WARPS];
    PacketMemory* own = memory + i / SDF_WARP % SDF_BLOCK_WARPS;
    Traversal w = {a, own, i % SDF_WARP, around, vec(0.f, 0.f, 0.f), 0.f, 0, 0, 0};
    return w;
}

FN u32 number_of_queries(const sdf_distance_packet_args& a) { return a.many ? *a.many : a.queries; }

// One warp per point; if the grid has fewer warps, they loop, in full thread blocks.
using sdf_distance_single_args = sdf_distance_packet_args;
FN void ask_alone(const sdf_distance_packet_args& a, u32 i) {
    u32 query = a.order ? a.order[i / SDF_WARP] : i / SDF_WARP;
    Traversal walker = make_walker(a, i, load3(a.points + 3 * (size_t)query));
    SingleSearch single = {walker};
    single.start(seed_place_of(a, query));
    walker.walk(single);
    single.agree();
    if (walker.thread == 0) store_answer(a, query, single.best.distance_sq, single.best.slot, walker);
}
SDF_KERNEL(sdf_distance_single, WARP, i) {
    for (u32 queries = number_of_queries(a); i / SDF_WARP < queries; i += a.n) ask_alone(a, i);
}

// Index of the nearest box centre.
FN u32 nearest_middle(const Float4* boxes, u32 count, F3 p) {
    u32 nearest = 0;
    float distance_sq = SDF_NO_BOX;
    for (u32 k = 0; k < count; k++) {
        F3 r = xyz(boxes[k]) - p;
        float d = fused_dot(r, r);
        if (d < distance_sq) nearest = k;
        distance_sq = fminf(d, distance_sq);
    }
    return nearest;
}

// Triangles that seem nearest to p, by box centre: in a block's part, and in a block.
FN u32 near_in_part(const Traversal& walker, u32 place, F3 p) {
    const Float4* boxes = walker.boxes_of(0, place / SDF_WARP) + place % SDF_WARP;
    return place + nearest_middle(boxes, SDF_PART, p);
}
FN u32 near_in_block(const Traversal& walker, u32 block, F3 p) {
    u32 part = nearest_middle(walker.part_box(block, 0), SDF_BLOCK_PARTS, p);
    return near_in_part(walker, SDF_WARP * block + SDF_PART * part, p);
}

// A triangle near p, in the block nearest to one of several samples. The nearest sample alone is not enough, as a
// packet's points are far apart where the curve jumps.
FN u32 place_near_samples(Traversal& walker, u32 packet, F3 p) {
    const sdf_distance_packet_args& a = walker.a;
    Float4* triangle = walker.memory->point;  // the samples' triangles: box centres and positions
    u32 middle = min_of(SDF_WARP * packet + SDF_WARP / 2, a.queries - 1) / a.every, last = (a.queries - 1) / a.every,
        first = middle - min_of(middle, SDF_SAMPLES / 2);
    if (walker.thread < SDF_SAMPLES) {
        u32 place = a.slot_place[a.sample_slot[min_of(first + walker.thread, last)]];
        triangle[walker.thread] = quad(xyz(walker.boxes_of(0, place / SDF_WARP)[place % SDF_WARP]), bits_float(place));
    }
    warp_sync();
    F3 way = xyz(triangle[middle - first]) - walker.around;
    walker.ahead = rough_inverse_sqrt(fmaxf(dot(way, way), 1e-30f)) * way;
    u32 block = float_bits(triangle[nearest_middle(triangle, SDF_SAMPLES, p)].w) / SDF_WARP;
    warp_sync();
    return near_in_block(walker, block, p);
}

// Points that jump farther than their samples would visit all triangles in between. So, as long as the point with the
// largest initial bound finds a block at half the distance by descending, this block bounds all points' distances.
FN void start_nearer(Traversal& walker, F3 p, Found& first) {
    F3* point = (F3*)walker.memory->point;
    point[walker.thread] = p;
    warp_sync();
    for (bool nearer = true; nearer;) {
        u32 far = reduce_max((float_bits(first.distance_sq) & ~(SDF_WARP - 1u)) | walker.thread) % SDF_WARP;
        Found found = measure_record(walker.a.record, near_in_block(walker, walker.descend(point[far]), p), p);
        nearer = shfl((u32)(found.distance_sq < 0.25f * first.distance_sq), far);
        if (found.distance_sq < first.distance_sq) first = found;
    }
    warp_sync();
}

// One warp per 32 consecutive points. Initial bounds use triangles near the points' samples, or near their seeds.
FN void ask_packet(const sdf_distance_packet_args& a, u32 queries, u32 i, bool sampled) {
    u32 query = query_of(a.order, queries, i);
    F3 p = load3(a.points + 3 * (size_t)query);
    Traversal walker = make_walker(a, i, middle_of_all(p));
    Found first = {SDF_UNKNOWN, 0, SDF_NONE};
    u32 place = a.sample_slot ? place_near_samples(walker, i / SDF_WARP, p) : seed_place_of(a, query);
    if (!a.sample_slot && place != SDF_NONE) place = near_in_part(walker, place - place % SDF_PART, p);
    if (place != SDF_NONE) first = measure_record(a.record, place, p);
    if (sampled) start_nearer(walker, p, first);
    F3 off = p - walker.around;
    walker.radius = SDF_FARTHER * warp_highest(sqrtf(dot(off, off)));
    PacketSearch search = {walker, p, sampled};
    search.start(first);
    walker.walk(search);
    if (search.parts > 0) search.look(search.parts);
    if (search.pairs > 0) search.measure(search.pairs);
    if (i < queries) store_answer(a, query, search.distance_sq, walker.memory->slot[walker.thread], walker);
}
SDF_KERNEL(sdf_distance_packet, WARP, i) {
    u32 queries = number_of_queries(a);
    if (i - i % SDF_WARP < queries) ask_packet(a, queries, i, false);
}
using sdf_distance_sample_args = sdf_distance_packet_args;
SDF_KERNEL(sdf_distance_sample, WARP, i) { ask_packet(a, a.queries, i, true); }
#endif

#endif
