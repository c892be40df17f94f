// Winding numbers on a GPU, by warps. Each point takes the same nodes and triangles as in winding.h, and all
// contributions are multiples of 2^-36, so the sums are the same to the last bit.
#ifndef SDFCLI_WARP_WINDING_H
#define SDFCLI_WARP_WINDING_H
#include "warp.h"
#include "winding.h"

#ifdef SDF_SHARED
#define SDF_GRAINS 68719476736.0  // 2^36

FN u64 grains(double x) { return (u64)(long long)(x * SDF_GRAINS); }
FN double from_grains(u64 x) { return (double)(long long)x / SDF_GRAINS; }

struct WindingTree {
    u32 triangles;
    const float* triangle;
    const float* moments;
};
FN double triangle_winding(const WindingTree& t, u32 slot, F3 p, int terms) {
    const float* c = t.triangle + 9 * (size_t)slot;
    D3 q = vec((double)p.x, (double)p.y, (double)p.z);
    return grain(solid_angle(load3d(c) - q, load3d(c + 3) - q, load3d(c + 6) - q, terms));
}

// A warp for one point: each thread takes a node, or a triangle.
#define SDF_LONE_STACK 512
#define SDF_LONE_HIGH 352  // from here on one node at a time is taken, which adds no more than SDF_STACK

struct LoneWindingMemory {
    u64 sum;
    u32 node[SDF_LONE_STACK], slot[3 * SDF_WARP];
};

struct LoneWinding {
    WindingTree tree;
    LoneWindingMemory* memory;
    u32 thread;

    METHOD double total(double own) {
        if (thread == 0) memory->sum = 0;
        warp_sync();
        shared_add(&memory->sum, grains(own));
        warp_sync();
        double all = from_grains(memory->sum);
        warp_sync();
        return all;
    }
    METHOD float exact(F3 p, int terms) {
        double sum = 0.0;
        for (u32 slot = thread; slot < tree.triangles; slot += SDF_WARP) sum += triangle_winding(tree, slot, p, terms);
        return (float)(total(sum) / SDF_FOUR_PI);
    }
    METHOD float winding(F3 p, float beta) {
        if (beta == 0.f || tree.triangles == 1) return exact(p, beta > 0.f ? 8 : 16);
        float beta_sq = beta * beta;
        double sum = 0.0;
        u32 height = 1, slots = 0, below = (1u << thread) - 1u;
        if (thread == 0) memory->node[0] = 0;
        warp_sync();
        while (height > 0 || slots > 0) {
            if (slots >= SDF_WARP || height == 0) {
                u32 many = least(slots, (u32)SDF_WARP);
                slots -= many;
                if (thread < many) sum += triangle_winding(tree, memory->slot[slots + thread], p, 8);
                warp_sync();
                continue;
            }
            u32 many = height > SDF_LONE_HIGH ? 1u : least(height, (u32)SDF_WARP);
            height -= many;
            u32 left = SDF_NONE, right = SDF_NONE;
            bool down = false;
            if (thread < many) {
                u32 node = memory->node[height + thread];
                const float* from = tree.moments + SDF_MOMENTS * (size_t)node;
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
            // Children in the order of their parents: so the stack stays as low as a tree is deep, times a warp.
            bool left_leaf = left & SDF_LEAF, right_leaf = right & SDF_LEAF;
            u32 nodes_left = warp_ballot(down && !left_leaf), nodes_right = warp_ballot(down && !right_leaf);
            u32 slots_left = warp_ballot(down && left_leaf), slots_right = warp_ballot(down && right_leaf);
            u32 node_at = height + (u32)(count_ones(nodes_left & below) + count_ones(nodes_right & below));
            u32 slot_at = slots + (u32)(count_ones(slots_left & below) + count_ones(slots_right & below));
            if (down && left_leaf) memory->slot[slot_at++] = left & ~SDF_LEAF;
            if (down && right_leaf) memory->slot[slot_at] = right & ~SDF_LEAF;
            if (down && !left_leaf) memory->node[node_at++] = left;
            if (down && !right_leaf) memory->node[node_at] = right;
            height += (u32)(count_ones(nodes_left) + count_ones(nodes_right));
            slots += (u32)(count_ones(slots_left) + count_ones(slots_right));
            warp_sync();
        }
        return (float)(total(sum) / SDF_FOUR_PI);
    }
};

// Of an open surface, what is near the level 0.5 is corrected by its caps as WindingSigner does it.
FN float corrected(const sdf_winding_lone_args& a, LoneWinding& lone, F3 p, float first) {
    WindingTree all = lone.tree, caps = {a.caps, a.caps_triangle, a.caps_moments};
    float winding = first;
    lone.tree = caps;
    for (u32 k = 0; k < a.steps; k++) {
        float off = winding - 0.5f;
        if (!(most(off, -off) < a.step[2 * k])) continue;
        float own = lone.winding(p, a.step[2 * k + 1]);
        winding = rintf(winding + own) - own;
    }
    lone.tree = all;
    float change = winding - first;
    return most(change, -change) > a.lost ? lone.exact(p, 16) : winding;
}

// Each warp looks at a few points at a time, and takes those that have no link, one after the other.
FN void sdf_winding_lone_at(const sdf_winding_lone_args& a, u32 i) {
    SDF_SHARED LoneWindingMemory memory[SDF_BLOCK_WARPS];
    WindingTree tree = {a.triangles, a.triangle, a.moments};
    u32 thread = i % SDF_WARP, warp = i / SDF_WARP;
    LoneWinding lone = {tree, memory + warp % SDF_BLOCK_WARPS, thread};
    for (u32 first = a.together * warp; first < a.count; first += a.together * (a.n / SDF_WARP)) {
        u32 own = first + thread;
        bool mine = thread < a.together && own < a.count && !(a.link && a.link[own]);
        for (u32 asked = warp_ballot(mine); asked; asked &= asked - 1) {
            u32 point = first + first_one(asked);
            F3 p = load3(a.points + 3 * (size_t)point);
            float winding = lone.winding(p, a.beta);
            if (a.caps) winding = corrected(a, lone, p, winding);
            if (thread == 0) a.winding[point] = winding;
        }
    }
}
#endif

#endif
