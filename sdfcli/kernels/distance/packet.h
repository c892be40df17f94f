// The GPU's distance query: a warp looks for the nearest triangles of 32 neighbouring points together, or of one.
//
// Each thread measures one child of a node from the middle of the points, and the nearest child comes first: the way
// down is paid once for all points, and no two threads part company. Children that no single point is near enough to
// are passed over. Triangles whose box comes near enough to a point make a pair with it; pairs are kept until there is
// one for each thread, and then measured at once. Answers are those of sdf_distance_cct to the last bit, see
// distance/simd.h: what is rounded otherwise here only bounds them.
//
// INTERFACE
//   PacketTree           the tree, for kernels that ask it by themselves
//   sdf_distance_packet  a warp for 32 points that follow each other
//   sdf_distance_sample  the same for samples of the points, whose answers are first bounds
//   sdf_distance_lone    a warp for each point
#ifndef SDFCLI_DISTANCE_PACKET_H
#define SDFCLI_DISTANCE_PACKET_H
#include "base/kernel.h"
#include "trees/packed.h"

#ifdef SDF_SHARED
#define SDF_PACKET_LEVELS 6  // 32^6 = 2^30 blocks
#define SDF_SLACK 4e-5f      // of the length of a difference of directions
#define SDF_BLOCK_PARTS (SDF_WARP / SDF_PART)
#define SDF_SAMPLES 16u        // that a packet looks at
#define SDF_SAMPLE_STEPS 256u  // on the way of a packet of samples, of which few take more

struct alignas(8) Pair {
    u32 point, place;
};
// What the threads of a warp share: the answers so far, pairs of points and triangles that wait, for each level the
// bounds of the children of the node that is open there, SDF_NONE for those that are done, which points want a block,
// and parts of blocks with points that want them: 32 x part + point.
struct PacketMemory {
    Float4 point[SDF_WARP];  // and the square of its distance
    u32 id[SDF_WARP], slot[SDF_WARP];
    Pair pair[2 * SDF_WARP];
    u32 bound[SDF_PACKET_LEVELS * SDF_WARP];
    u32 wanting[SDF_WARP];
    u32 part[SDF_WARP + SDF_BLOCK_PARTS];
};

// Bounds may be rounded otherwise than distances: these use fused multiply-adds.
FN float fused_dot(F3 a, F3 b) { return fused(a.x, b.x, fused(a.y, b.y, a.z * b.z)); }
FN float rough_sqrt(float x) { return x * rough_inverse_sqrt(fmaxf(x, 1e-37f)); }

FN Obb load_turned(const Float4* from) {
    Float4 middle = from[0], x = from[SDF_WARP], y = from[2 * SDF_WARP], z = from[3 * SDF_WARP];
    Obb b = {xyz(middle), vec(x.w, y.w, z.w), xyz(x), xyz(y), xyz(z)};
    return b;
}
FN F3 turn(F3 v, const Obb& b) {  // into the box's axes
    return vec(fused_dot(v, b.x), fused_dot(v, b.y), fused_dot(v, b.z));
}
// A lower bound for the squared distances of what the box holds.
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

// The query of a thread; the last one fills up its warp.
FN u32 query_of(const u32* order, u32 queries, u32 i) {
    u32 place = min_of(i, queries - 1);
    return order ? order[place] : place;
}
// The middle of the box around all threads' points.
FN F3 middle_of_all(F3 p) {
    return vec(0.5f * warp_lowest(p.x) + 0.5f * warp_highest(p.x), 0.5f * warp_lowest(p.y) + 0.5f * warp_highest(p.y),
               0.5f * warp_lowest(p.z) + 0.5f * warp_highest(p.z));
}

struct PacketTree {
    u32 levels;              // of nodes, blocks among them
    const u32* slot_place;   // [triangles]
    const float* record;     // [places, 16]
    const float* box;        // [nodes, 4, 32, 4] the boxes of their children
    const float* part;       // [parts, 4, 32, 4] the boxes of 4 triangles each
    const u32* level_start;  // [levels] each one's first node
};
struct sdf_distance_packet_args {
    u32 n;  // threads: whole warps
    u32 queries;
    const u32* many;         // [1] their number, where `queries` is the most; null: that many
    u32 levels;              // of nodes, blocks among them
    u32 seeds;               // slots to start from in a row, of which the first is used
    const float* points;     // [queries, 3]
    const u32* order;        // [queries] the order in which they are taken, neighbours together; null: as they are
    const u32* slot_place;   // [triangles]
    const float* record;     // [places, 16]
    const float* box;        // [nodes, 4, 32, 4] the boxes of their children
    const float* part;       // [parts, 4, 32, 4] the boxes of 4 triangles each
    const u32* level_start;  // [levels] each one's first node
    const u32* sample_slot;  // [ceil(queries / every)] nearest to samples; null: seeds are used
    u32 every;               // how many queries there are from one sample to the next
    const u32* seed;         // [queries, seeds] ended by SDF_NONE
    const u32* seed_slot;    // [slots] the slot of each seed; null: seeds are slots
    float* distance;         // [queries] out
    u32* slot;               // [queries] out
    u32* boxes;              // [queries] out: boxes measured by the point's thread; may be null
    u32* tests;              // [queries] out: triangles measured by it; may be null
};
// One thread of a warp, and the walk that it takes with the others. All points are within `radius` of `around`. `ahead`
// is about the way that leads from there to the surface, of length 1, or 0 if that is not known.
struct Traversal {
    const sdf_distance_packet_args& a;
    PacketMemory* memory;
    u32 thread;
    F3 around, ahead;
    float radius;
    u32 limit;         // bits of a bound: what is above that is of no interest
    u32 boxes, tests;  // measured by this thread

    METHOD const Float4* boxes_of(u32 level, u32 node) const {
        return (const Float4*)a.box + 4 * SDF_WARP * (size_t)((level ? a.level_start[level] : 0) + node);
    }
    METHOD const Float4* part_box(u32 block, u32 k) const {
        u32 part = SDF_BLOCK_PARTS * block + k;
        return (const Float4*)a.part + 4 * SDF_WARP * (size_t)(part / SDF_WARP) + part % SDF_WARP;
    }

    // A lower bound, in bits, for the distance of every point p from a box, less what p is farther ahead than `around`.
    // The box lies behind a plane at distance d from `around` across the way there, u: so it is d - (p - around) u from
    // p, which is less by at most radius |u - ahead|.
    METHOD u32 bound(const Obb& b) {
        boxes++;
        F3 t = turn(around - b.middle, b), h = b.half, way = turn(ahead, b);
        F3 away = vec(t.x - fmaxf(fminf(t.x, h.x), -h.x), t.y - fmaxf(fminf(t.y, h.y), -h.y),
                      t.z - fmaxf(fminf(t.z, h.z), -h.z));
        float d_sq = fused_dot(away, away), over_d = rough_inverse_sqrt(d_sq);
        F3 differ = vec(fused(away.x, over_d, way.x), fused(away.y, over_d, way.y), fused(away.z, over_d, way.z));
        float less = radius * (rough_sqrt(fused_dot(differ, differ)) + SDF_SLACK);
        return float_bits(fmaxf(d_sq * over_d * SDF_NEARER - less, 0.f));  // 0 in the box: no number is less than 0
    }

    // The block at the end of a way down that takes the child whose middle is nearest to p, and never turns back.
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

    // Depth first, the nearest child first, until the search tires; search.block(node) deals with a node of level 0.
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
            if (nearest - child > limit) {  // nothing is left here
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

// One point: each thread keeps the best of the triangles that it has measured.
struct LoneSearch {
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
    // The farthest corner of a box bounds the distance from above: there is a triangle in it.
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
    // All threads learn the answer.
    METHOD void agree() {
        for (u32 k = 1; k < SDF_WARP; k *= 2) {
            Found other = {exchanged(best.distance_sq, k), shfl_xor(best.slot, k), shfl_xor(best.id, k)};
            consider(other);
        }
    }
};

// A point for each thread.
struct PacketSearch {
    Traversal& walker;
    F3 p;
    bool sampled;   // answers are only first bounds, for which all other points wait
    float forward;  // how far ahead the point is
    float distance_sq;
    u32 pairs, parts, wanting;  // pairs and parts that wait; the points that wanted the last child
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

    // The points that want a block, four at once beside its eight parts; then the parts that points want, eight at
    // once, beside their triangles. Obb boxes of a few triangles are flat: most points want one part of a block.
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

    // Looks at the triangles of the last `count` parts.
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

    // The pairs of the threads in a mask.
    METHOD void add(u32 mask, u32 point, u32 place) {
        PacketMemory* m = walker.memory;
        if (mask >> walker.thread & 1u) {
            Pair pair = {point, place};
            m->pair[pairs + (u32)popcount(mask & ((1u << walker.thread) - 1u))] = pair;
        }
        pairs += (u32)popcount(mask);
        if (pairs >= SDF_WARP) measure(SDF_WARP);
    }

    // Measures the last `count` pairs. Of equally near triangles the one with the smallest id.
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

// A warp for each point, or for several where there are fewer: whole blocks then.
using sdf_distance_lone_args = sdf_distance_packet_args;
FN void ask_alone(const sdf_distance_packet_args& a, u32 i) {
    u32 query = a.order ? a.order[i / SDF_WARP] : i / SDF_WARP;
    Traversal walker = make_walker(a, i, load3(a.points + 3 * (size_t)query));
    LoneSearch lone = {walker};
    lone.start(seed_place_of(a, query));
    walker.walk(lone);
    lone.agree();
    if (walker.thread == 0) store_answer(a, query, lone.best.distance_sq, lone.best.slot, walker);
}
SDF_KERNEL(sdf_distance_lone, WARP, i) {
    for (u32 queries = number_of_queries(a); i / SDF_WARP < queries; i += a.n) ask_alone(a, i);
}

// One of the triangles from a place on whose box's middle is nearest.
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

// The triangle that seems to be nearest to p in a part of a block, by the middle of its box, and in a block.
FN u32 near_in_part(const Traversal& walker, u32 place, F3 p) {
    const Float4* boxes = walker.boxes_of(0, place / SDF_WARP) + place % SDF_WARP;
    return place + nearest_middle(boxes, SDF_PART, p);
}
FN u32 near_in_block(const Traversal& walker, u32 block, F3 p) {
    u32 part = nearest_middle(walker.part_box(block, 0), SDF_BLOCK_PARTS, p);
    return near_in_part(walker, SDF_WARP * block + SDF_PART * part, p);
}

// A triangle near p: of the blocks that are nearest to samples of the points. Not of the nearest sample alone, as a
// packet's points lie far apart where the curve leaps.
FN u32 place_near_samples(Traversal& walker, u32 packet, F3 p) {
    const sdf_distance_packet_args& a = walker.a;
    Float4* triangle = walker.memory->point;  // the middles of the samples' triangles, and their places
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

// Points that leapt farther than samples of theirs follow would see all triangles between: as long as the one with the
// farthest first bound finds a block that is twice as near by going down, that block bounds the distances of all.
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

// A warp for 32 points that follow each other. First bounds are from triangles near samples of the points, or near
// their seeds.
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
