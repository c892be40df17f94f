// The GPU distance query's tree: a packed R-tree with 32 children per node (Kamel and Faloutsos 1993), whose lowest
// nodes are blocks of 32 triangles. Triangles follow the Hilbert curve, and each run of 4096 is divided into blocks by
// median cuts: such blocks are nearly square, unlike curve segments. Triangles and blocks have oriented boxes. Higher
// nodes have axis-aligned ones, as larger surface parts are rarely flat.
//
// INTERFACE
//   Float4, Obb                                four floats, loaded together; an oriented box
//   warp_lowest, warp_highest, exchanged, got  warp minimum and maximum, and shuffles, for floats
//   sdf_packet_cells, sdf_packet_centres       triangles from Morton order to the Hilbert curve
//   sdf_packet_cut                             median cuts of triangle runs
//   sdf_packet_blocks                          blocks, boxes, and higher nodes
#ifndef SDFCLI_TREES_PACKED_H
#define SDFCLI_TREES_PACKED_H
#include "base/kernel.h"
#include "base/warp.h"
#include "geometry/boxes.h"
#include "geometry/hilbert.h"
#include "geometry/triangle.h"
#include "geometry/turned.h"

#ifdef SDF_SHARED
#define SDF_FARTHER 1.00003f  // scale factor for upper bounds on lengths along the shortened axes
#define SDF_CUT_BINS 256u

struct alignas(16) Float4 {
    float x, y, z, w;
};

// Order-preserving map from floats to integers.
FN u32 ordered_bits(float x) {
    u32 bits = float_bits(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
FN float ordered_float(u32 bits) { return bits_float(bits >> 31 ? bits & 0x7fffffffu : ~bits); }
FN float warp_lowest(float x) { return ordered_float(reduce_min(ordered_bits(x))); }
FN float warp_highest(float x) { return ordered_float(reduce_max(ordered_bits(x))); }

FN Float4 quad(F3 v, float w) {
    Float4 q = {v.x, v.y, v.z, w};
    return q;
}
FN F3 xyz(Float4 q) { return vec(q.x, q.y, q.z); }

// Oriented box: centre, half lengths, and axes. Stored axes are slightly short, so lengths along them are lower bounds
// despite rounding.
struct Obb {
    F3 middle, half, x, y, z;
};

// 32 oriented boxes occupy 4 x 32 quads, so a warp reads whole cache lines.
FN void store_turned(float* boxes, u32 place, const Obb& b) {
    Float4* out = (Float4*)boxes + 4 * SDF_WARP * (size_t)(place / SDF_WARP) + place % SDF_WARP;
    out[0] = quad(b.middle, 0.f);
    out[SDF_WARP] = quad(SDF_NEARER * b.x, b.half.x);
    out[2 * SDF_WARP] = quad(SDF_NEARER * b.y, b.half.y);
    out[3 * SDF_WARP] = quad(SDF_NEARER * b.z, b.half.z);
}
// A triangle's box, oriented along the normal n; a box for all threads' triangles if max_of_all is warp_highest.
template <class Most>
FN Obb turned_box(F3 n, const float* t, Most max_of_all) {
    Axes axes = turned_axes(n);
    F3 axis[3] = {axes.x, axes.y, axes.z};
    F3 middle = vec(0.f, 0.f, 0.f);
    float half[3];
    for (int k = 0; k < 3; k++) {
        float a = dot(load3(t), axis[k]), b = dot(load3(t + 3), axis[k]), c = dot(load3(t + 6), axis[k]);
        float high = max_of_all(max_of(a, max_of(b, c))), low = -max_of_all(-min_of(a, min_of(b, c)));
        middle = middle + (0.5f * (low + high)) * axis[k];
    }
    for (int k = 0; k < 3; k++) {
        float a = fabsf(dot(load3(t) - middle, axis[k])), b = fabsf(dot(load3(t + 3) - middle, axis[k])),
              c = fabsf(dot(load3(t + 6) - middle, axis[k]));
        half[k] = max_of_all(max_of(a, max_of(b, c))) + SDF_TURNED_MARGIN;
    }
    Obb box = {middle, load3(half), axes.x, axes.y, axes.z};
    return box;
}

FN float exchanged(float x, u32 distance) { return bits_float(shfl_xor(float_bits(x), distance)); }
FN F3 exchanged(F3 v, u32 distance) {
    return vec(exchanged(v.x, distance), exchanged(v.y, distance), exchanged(v.z, distance));
}
FN float got(float x, u32 thread) { return bits_float(shfl(float_bits(x), thread)); }

// Reorders triangles from Morton order to the Hilbert curve. A cell's triangles are contiguous in both, so only whole
// cells move. Within a cell the Morton order remains: median cuts follow.
FN u64 curve_cell(u64 key, u32 bits) { return key >> 3 * (SDF_MORTON_BITS - bits); }
FN u32 along_curve(u64 cell, u32 bits) { return (u32)hilbert_encode(morton_decode(cell), (int)bits); }

struct sdf_packet_cells_args {
    u32 n;  // threads: whole warps
    u32 triangles;
    u32 bits;         // 2^bits cells per domain edge
    const u64* keys;  // [triangles] Morton codes, sorted
    u32* count;       // [8 ** bits] in and out: triangles per curve cell; 0 before
    u32* last;        // [8 ** bits] out: end slot of each non-empty cell
};
SDF_KERNEL(sdf_packet_cells, WARP, i) {
    if (i >= a.triangles) return;
    u64 cell = curve_cell(a.keys[i], a.bits);
    bool begins = i == 0 || curve_cell(a.keys[i - 1], a.bits) != cell;
    bool ends = i + 1 == a.triangles || curve_cell(a.keys[i + 1], a.bits) != cell;
    u32 place = begins || ends ? along_curve(cell, a.bits) : 0;
    if (begins) atomic_add(a.count + place, 0 - i);
    if (ends) atomic_add(a.count + place, i + 1);
    if (ends) a.last[place] = i + 1;
}
// A triangle to be sorted into a block: box centre and slot.
struct sdf_packet_centres_args {
    u32 n;  // threads: whole warps
    u32 triangles;
    u32 bits;               // 2^bits cells per domain edge
    const u64* keys;        // [triangles]
    const float* triangle;  // [triangles, 9]
    const u32* end;         // [8 ** bits] inclusive prefix sums of the counts
    const u32* last;        // [8 ** bits]
    float* placed;          // [triangles, 4] out: box centres, and slots, along the curve
    u32 nodes;              // above the blocks
    u32* arrivals;          // [nodes] out: 0
};
SDF_KERNEL(sdf_packet_centres, WARP, i) {
    if (i < a.nodes) a.arrivals[i] = 0;
    if (i >= a.triangles) return;
    u32 cell = along_curve(curve_cell(a.keys[i], a.bits), a.bits);
    Box b = triangle_box(a.triangle + 9 * (size_t)i);
    ((Float4*)a.placed)[i + a.end[cell] - a.last[cell]] = quad(0.5f * (load3(b.v) + load3(b.v + 3)), bits_float(i));
}

// A warp's median cut through contiguous triangles, across the longest side of their centres' bounding box.
struct Cut {
    const Float4* from;
    u32 count, thread;
    F3 axis;
    float low, scale;
    u32 middle, before;  // the cut's bin, and the triangle count in earlier bins

    METHOD u32 bin(Float4 q) const { return min_of((u32)((dot(xyz(q), axis) - low) * scale), SDF_CUT_BINS - 1); }
    METHOD void choose_axis() {
        F3 start = xyz(from[0]), end = start;
        for (u32 j = thread; j < count; j += SDF_WARP) {
            F3 p = xyz(from[j]);
            start = vec(min_of(start.x, p.x), min_of(start.y, p.y), min_of(start.z, p.z));
            end = vec(max_of(end.x, p.x), max_of(end.y, p.y), max_of(end.z, p.z));
        }
        start = vec(warp_lowest(start.x), warp_lowest(start.y), warp_lowest(start.z));
        F3 side = vec(warp_highest(end.x), warp_highest(end.y), warp_highest(end.z)) - start;
        float longest = max_of(side.x, max_of(side.y, side.z));
        axis = longest == side.x ? vec(1.f, 0.f, 0.f) : longest == side.y ? vec(0.f, 1.f, 0.f) : vec(0.f, 0.f, 1.f);
        low = dot(start, axis);
        scale = longest > 1e-30f ? SDF_CUT_BINS / longest : 0.f;
    }
    METHOD void choose_bin(u32* bins, u32 left) {
        const u32 each = SDF_CUT_BINS / SDF_WARP;
        for (u32 k = 0; k < each; k++) bins[each * thread + k] = 0;
        warp_sync();
        for (u32 j = thread; j < count; j += SDF_WARP) shared_add(bins + bin(from[j]), 1);
        warp_sync();
        u32 sum = 0, place = 0;
        for (u32 k = 0; k < each; k++) sum += bins[each * thread + k];
        for (u32 k = 1; k < SDF_WARP; k *= 2) {
            u32 other = shfl_xor(sum, k);
            if (thread & k) place += other;
            sum += other;
        }
        middle = before = SDF_NONE;
        for (u32 k = each * thread; k < each * (thread + 1); k++) {
            if (place <= left && left < place + bins[k]) {
                middle = k;
                before = place;
            }
            place += bins[k];
        }
        middle = reduce_min(middle);
        before = reduce_min(before);
    }
    // Stores the left half first, resolved to 1 / 256 of the side; the cut's bin contributes its first entries.
    METHOD void store(Float4* to, u32 left) const {
        u32 lefts = 0, middles = 0, lower = (1u << thread) - 1;
        Float4 next = from[min_of(thread, count - 1)];
        for (u32 j = thread; j < count + thread; j += SDF_WARP) {
            Float4 q = next;
            next = from[min_of(j + SDF_WARP, count - 1)];  // loaded during this iteration
            u32 own = j < count ? bin(q) : SDF_NONE, same = warp_ballot(own == middle);
            bool first_ones = before + middles + (u32)popcount(same & lower) < left;
            bool goes = own < middle || (own == middle && first_ones);
            u32 going = warp_ballot(goes), rank = lefts + (u32)popcount(going & lower);
            if (j < count) to[goes ? rank : left + (j - rank)] = q;
            lefts += (u32)popcount(going);
            middles += (u32)popcount(same);
        }
    }
};
// One warp per `size` triangles, halved repeatedly down to `until`.
struct sdf_packet_cut_args {
    u32 n;  // 32 x parts
    u32 triangles;
    u32 size;       // triangles per part; the last may have fewer
    u32 until;      // final part size
    float* placed;  // [triangles, 4] in and out
    float* cut;     // [triangles, 4] out: the result after an odd number of halvings
};
SDF_KERNEL(sdf_packet_cut, WARP, i) {
    SDF_SHARED u32 memory[SDF_BLOCK_WARPS][SDF_CUT_BINS];
    u32* bins = memory[i / SDF_WARP % SDF_BLOCK_WARPS];
    u32 first = i / SDF_WARP * a.size, count = min_of(a.size, a.triangles - first);
    Float4 *from = (Float4*)a.placed + first, *to = (Float4*)a.cut + first;
    for (u32 size = a.size; size > a.until; size /= 2) {
        for (u32 part = 0; part < count; part += size) {
            Cut c = {from + part, min_of(size, count - part), i % SDF_WARP};
            c.middle = SDF_CUT_BINS;  // everything goes left
            if (c.count > size / 2) {
                c.choose_axis();
                c.choose_bin(bins, size / 2);
            }
            c.store(to + part, size / 2);
        }
        Float4* cut = to;
        to = from;
        from = cut;
        warp_sync();
    }
}

// Axis-aligned bounds, for the boxes above the blocks: 32 in 6 x 32 numbers. gather_bounds stores the bounds over a
// whole warp at `place`.
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

// A triangle's record for distances: corners, inverse squared lengths, slot and id.
FN void store_record(float* records, u32 place, const float* t, u32 slot, u32 id) {
    Float4* out = (Float4*)records + 4 * (size_t)place;
    PreparedTriangle<float> f = facet(load3(t), load3(t + 3), load3(t + 6));
    out[0] = quad(load3(t), f.over_ab);
    out[1] = quad(load3(t + 3), f.over_ac);
    out[2] = quad(load3(t + 6), f.over_bc);
    out[3] = quad(vec(f.over_n, bits_float(slot), bits_float(id)), 0.f);
}
// Sorts the entries of `together` neighbouring threads, a power of two, along their bounding box's longest side.
// Missing entries stay at the end.
FN Float4 sort_along_box(Float4 q, u32 thread, u32 together, bool exists) {
    F3 p = xyz(q), low = p, high = p;
    for (u32 k = 1; k < together; k *= 2) {
        F3 a = exchanged(low, k), b = exchanged(high, k);
        low = vec(min_of(low.x, a.x), min_of(low.y, a.y), min_of(low.z, a.z));
        high = vec(max_of(high.x, b.x), max_of(high.y, b.y), max_of(high.z, b.z));
    }
    F3 side = high - low;
    float longest = max_of(side.x, max_of(side.y, side.z)), place = longest == side.x   ? p.x
                                                                    : longest == side.y ? p.y
                                                                                        : p.z;
    u32 key = ((exists ? ordered_bits(place) : SDF_NONE) & ~(SDF_WARP - 1u)) | thread;
    for (u32 size = 2; size <= together; size *= 2)  // Batcher's bitonic sort
        for (u32 k = size / 2; k; k /= 2) {
            u32 other = shfl_xor(key, k);
            bool lower = !(thread & k), rising = size == together || !(thread & size);
            key = lower == rising ? min_of(key, other) : max_of(key, other);
        }
    u32 from = key % SDF_WARP;
    return quad(vec(got(q.x, from), got(q.y, from), got(q.z, from)), got(q.w, from));
}
// Axis-aligned box of a node above the blocks.
FN Obb aabb(const Box& bounds) {
    F3 low = load3(bounds.v), high = load3(bounds.v + 3), middle = 0.5f * (low + high),
       margin = SDF_TURNED_MARGIN * vec(1.f, 1.f, 1.f);
    Obb box = {middle, (high - middle) + margin, vec(1.f, 0.f, 0.f), vec(0.f, 1.f, 0.f), vec(0.f, 0.f, 1.f)};
    return box;
}
// One warp per block: sorts its triangles into parts by medians, and computes all boxes. The last child to finish
// continues with its parent, up to the root, as in `reduce_bottom_up`.
struct sdf_packet_blocks_args {
    u32 n;  // positions: 32 x blocks
    u32 triangles;
    const float* triangle;   // [triangles, 9]
    const u32* triangle_id;  // [triangles]
    const float* placed;     // [triangles, 4]
    u32* arrivals;           // [above] in and out: finished children per node above the blocks; 0 before
    u32* slot_place;         // [triangles] out: positions by slot
    float* record;           // [n, 16] out: distance records
    float* box;              // [nodes, 4, 32, 4] out: child boxes of blocks and nodes
    float* part;             // [ceil(n / 128), 4, 32, 4] out: boxes for 4 triangles each
    float* bounds;           // [above, 6, 32] out: as box, axis-aligned
    u32* level_start;        // [levels] out: first node of each level
};
SDF_KERNEL(sdf_packet_blocks, WARP, i) {
    u32 block = i / SDF_WARP, thread = i % SDF_WARP;
    bool exists = i < a.triangles;
    Float4 q = ((const Float4*)a.placed)[min_of(i, a.triangles - 1)];
    for (u32 together = SDF_WARP; together > SDF_PART; together /= 2) q = sort_along_box(q, thread, together, exists);
    u32 slot = float_bits(q.w);
    const float* t = a.triangle + 9 * (size_t)slot;
    store_record(a.record, i, t, slot, a.triangle_id[slot]);
    if (exists) a.slot_place[slot] = i;
    F3 n = cross(load3(t + 3) - load3(t), load3(t + 6) - load3(t));
    store_turned(a.box, i, turned_box(n, t, [](float x) { return x; }));
    for (u32 k = 1; k < SDF_WARP; k *= 2) {
        if (k == SDF_PART) {
            Obb part = turned_box(n, t, [](float x) {
                for (u32 j = 1; j < SDF_PART; j *= 2) x = max_of(x, exchanged(x, j));
                return x;
            });
            if (thread % SDF_PART == 0) store_turned(a.part, i / SDF_PART, part);
        }
        n = n + exchanged(n, k);
    }
    Obb box = turned_box(n, t, [](float x) { return warp_highest(x); });
    const u32 blocks = a.n / SDF_WARP;
    Box own = triangle_box(t);
    if (i == 0) a.level_start[0] = 0;
    for (u32 level = 0, node = block, count = blocks, start = blocks;; level++) {
        // The level above starts at node `start`; these are its bounds.
        float* bounds = a.bounds + 6 * SDF_WARP * (size_t)(start - blocks);
        Box all = gather_bounds(own, bounds, node, thread == 0);
        if (level) box = aabb(all);
        if (thread == 0) store_turned(a.box + 16 * SDF_WARP * (size_t)start, node, box);
        if (thread == 0 && node == 0) a.level_start[level + 1] = start;
        if (count <= SDF_WARP) return;
        u32 parent = node / SDF_WARP, children = min_of(count - SDF_WARP * parent, (u32)SDF_WARP);
        u32 before = shfl(thread == 0 ? fetch_add_acq_rel(a.arrivals + start - blocks + parent) : 0, 0);
        if (before + 1 < children) return;
        warp_sync();  // writes visible to thread 0 become visible to all
        const float* from = bounds_at(bounds, SDF_WARP * parent + min_of(thread, children - 1));
        for (int k = 0; k < 6; k++) own.v[k] = from[SDF_WARP * k];
        node = parent;
        start += count = (count + SDF_WARP - 1) / SDF_WARP;
    }
}
#endif

#endif
