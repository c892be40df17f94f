// Winding numbers on a GPU, by warps. Each point uses the same nodes and triangles as in winding/thread.h, and all
// contributions are multiples of 2^-36, so the sums agree to the last bit.
//
// INTERFACE
//   sdf_winding_single  winding numbers for points, half a warp each; for open surfaces corrected by caps
#ifndef SDFCLI_WINDING_WARP_H
#define SDFCLI_WINDING_WARP_H
#include "base/kernel.h"
#include "base/warp.h"
#include "winding/moments.h"

#ifdef SDF_SHARED
#define SDF_GRAINS 68719476736.0  // 2^36

FN u64 grains(double x) { return (u64)(long long)(x * SDF_GRAINS); }
FN double from_grains(u64 x) { return (double)(long long)x / SDF_GRAINS; }

FN double triangle_winding(const WindingTree& t, u32 place, F3 p, int terms) {
    const float* c = corners_at(t, place);
    D3 q = vec((double)p.x, (double)p.y, (double)p.z);
    return grain(solid_angle(load3d(c) - q, load3d(c + 3) - q, load3d(c + 6) - q, terms));
}

// Half a warp per point: each thread processes a node or a triangle. Rarely are more than 16 nodes pending: a whole
// warp would take nearly as many steps.
#define SDF_SINGLE_HIGH 192  // above this height nodes are processed one by one, which adds no more than SDF_STACK
#define SDF_SINGLE_STACK (SDF_SINGLE_HIGH + SDF_POINT_WIDTH + SDF_STACK)

struct LoneWindingMemory {
    u64 sum;
    u32 node[SDF_SINGLE_STACK], slot[3 * SDF_POINT_WIDTH];
};

// Both halves execute every method: `queried` tells whether this half's point takes part.
struct SingleWinding {
    WindingTree tree;
    LoneWindingMemory* memory;
    u32 thread, shift;  // within this half; position of its votes

    METHOD u32 ballot(bool vote) const { return warp_ballot(vote) >> shift & ((1u << SDF_POINT_WIDTH) - 1u); }
    METHOD double total(double own) {
        if (thread == 0) memory->sum = 0;
        warp_sync();
        shared_add(&memory->sum, grains(own));
        warp_sync();
        double all = from_grains(memory->sum);
        warp_sync();
        return all;
    }
    METHOD float exact(F3 p, int terms, bool queried) {
        double sum = 0.0;
        for (u32 slot = thread; queried && slot < tree.triangles; slot += SDF_POINT_WIDTH)
            sum += triangle_winding(tree, slot, p, terms);
        return (float)(total(sum) / SDF_FOUR_PI);
    }
    METHOD float winding(F3 p, float beta, bool queried) {
        if (beta == 0.f || tree.triangles == 1) return exact(p, beta > 0.f ? 8 : 16, queried);
        float beta_sq = beta * beta;
        double sum = 0.0;
        u32 height = queried ? 1 : 0, slots = 0, below = (1u << thread) - 1u;
        if (thread == 0) memory->node[0] = 0;
        warp_sync();
        while (warp_ballot(height > 0 || slots > 0)) {
            bool measures = slots >= SDF_POINT_WIDTH || (height == 0 && slots > 0);
            if (warp_ballot(measures)) {
                u32 many = measures ? min_of(slots, SDF_POINT_WIDTH) : 0;
                slots -= many;
                if (thread < many) sum += triangle_winding(tree, memory->slot[slots + thread], p, 8);
                warp_sync();
                if (!warp_ballot(!measures && height > 0)) continue;
            }
            u32 many = measures ? 0 : height > SDF_SINGLE_HIGH ? 1u : min_of(height, SDF_POINT_WIDTH);
            height -= many;
            u32 left = SDF_NONE, right = SDF_NONE;
            bool down = false;
            if (thread < many) {
                const float* from = tree.moments + SDF_MOMENTS * (size_t)memory->node[height + thread];
                float m[SDF_MOMENTS];
                load_row<4>(from, m);
                load_row<4>(from + 12, m + 12);
                F3 r = load3(m) - p;
                float d2 = dot(r, r);
                left = float_bits(m[14]);
                right = float_bits(m[15]);
                down = !(d2 > beta_sq * m[3]);
                if (!down) {
                    load_row<8>(from + 4, m + 4);
                    sum += grain((double)node_winding(m, r, d2));
                }
            }
            warp_sync();
            // Children in their parents' order: so the stack height is limited to tree depth times half a warp.
            bool left_leaf = is_leaf(left), right_leaf = is_leaf(right);
            u32 nodes_left = ballot(down && !left_leaf), nodes_right = ballot(down && !right_leaf);
            u32 slots_left = ballot(down && left_leaf), slots_right = ballot(down && right_leaf);
            u32 node_at = height + (u32)(popcount(nodes_left & below) + popcount(nodes_right & below));
            u32 slot_at = slots + (u32)(popcount(slots_left & below) + popcount(slots_right & below));
            if (down && left_leaf) memory->slot[slot_at++] = leaf_index(left);
            if (down && right_leaf) memory->slot[slot_at] = leaf_index(right);
            if (down && !left_leaf) memory->node[node_at++] = left;
            if (down && !right_leaf) memory->node[node_at] = right;
            height += (u32)(popcount(nodes_left) + popcount(nodes_right));
            slots += (u32)(popcount(slots_left) + popcount(slots_right));
            warp_sync();
        }
        return (float)(total(sum) / SDF_FOUR_PI);
    }
};

struct sdf_winding_single_args {
    u32 n;                // threads: whole warps
    u32 count;            // points
    const float* points;  // [count, 3]
    const u32* queried;   // [most] indices of queried points; null: all
    const u32* many;      // [1] their number; null: count
    WindingTree tree;
    WindingTree caps;  // triangles that close the surface's holes; 0 triangles: none, or not requested
    u32 steps;
    const float* step;  // [steps, 2] distance from the level 0.5, and beta for the caps there
    float beta;         // 0: exact
    float lost;         // larger changes by the caps require the exact sum
    u32 closed;         // 1: `winding` holds the number for surface and caps together, unless SDF_UNKNOWN
    float* winding;     // [count] out, and in if closed
    u32* left;          // [count] out: points whose exact winding number is left to the caller; null: none
    u32* many_left;     // [1] in and out: their number
};
// For an open surface, corrects values near the level 0.5 by the caps, as WindingSigner does. whole: the winding number
// for surface and caps together, if known.
FN float corrected(const sdf_winding_single_args& a, SingleWinding& single, u32 point, F3 p, float first, float whole,
                   bool queried) {
    WindingTree all = single.tree;
    float winding = first;
    single.tree = a.caps;
    single.tree.slots = nullptr;  // caps use all rows
    bool known = whole != SDF_UNKNOWN;
    if (warp_ballot(queried && known)) {
        float own = single.winding(p, a.beta, queried && known);
        if (known) winding = whole - own;
    }
    for (u32 k = 0; k < a.steps; k++) {
        float off = winding - 0.5f;
        bool near = queried && max_of(off, -off) < a.step[2 * k];
        if (!warp_ballot(near)) continue;
        float own = single.winding(p, a.step[2 * k + 1], near);
        if (near) winding = (known ? whole : rintf(winding + own)) - own;
    }
    single.tree = all;
    float change = winding - first;
    bool lost = queried && !known && max_of(change, -change) > a.lost;
    if (!warp_ballot(lost)) return winding;
    if (a.left) {
        if (lost && single.thread == 0) a.left[atomic_add(a.many_left, 1)] = point;
        return winding;
    }
    float exact = single.exact(p, 16, lost);
    return lost ? exact : winding;
}

SDF_KERNEL(sdf_winding_single, WARP, i) {
    const u32 together = SDF_WARP / SDF_POINT_WIDTH;
    SDF_SHARED LoneWindingMemory memory[SDF_BLOCK_WARPS * together];
    u32 thread = i % SDF_POINT_WIDTH, part = i / SDF_POINT_WIDTH % together, warp = i / SDF_WARP;
    SingleWinding single = {a.tree, memory + warp % SDF_BLOCK_WARPS * together + part, thread, SDF_POINT_WIDTH * part};
    u32 count = a.many ? *a.many : a.count;
    for (u32 first = together * warp; first < count; first += together * (a.n / SDF_WARP)) {
        u32 at = min_of(first + part, count - 1), point = a.queried ? a.queried[at] : at;
        bool queried = first + part < count;
        F3 p = load3(a.points + 3 * (size_t)point);
        float whole = a.closed && queried ? a.winding[point] : SDF_UNKNOWN;
        float winding = single.winding(p, a.beta, queried && whole == SDF_UNKNOWN);
        if (a.caps.triangles) winding = corrected(a, single, point, p, winding, whole, queried);
        if (queried && thread == 0) a.winding[point] = winding;
    }
}
#endif

#endif
