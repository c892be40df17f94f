// Winding numbers on a GPU, by warps. Each point takes the same nodes and triangles as in winding.h, and all
// contributions are multiples of 2^-36, so the sums are the same to the last bit.
#ifndef SDFCLI_WARP_WINDING_H
#define SDFCLI_WARP_WINDING_H
#include "warp.h"
#include "winding.h"

#ifdef SDF_SHARED
#define SDF_LANES 32
#define SDF_GRAINS 68719476736.0  // 2^36

FN u64 grains(double x) { return (u64)(long long)(x * SDF_GRAINS); }
FN double from_grains(u64 x) { return (double)(long long)x / SDF_GRAINS; }

struct WindingTree {
    u32 triangles;
    const float* triangle;
    const u32* child;
    const float* moments;
};
template <class Args>
FN WindingTree tree_of(const Args& a) {
    WindingTree t = {a.triangles, a.triangle, a.child, a.moments};
    return t;
}
FN double triangle_winding(const WindingTree& t, u32 slot, F3 p, int terms) {
    const float* c = t.triangle + 9 * (size_t)slot;
    D3 q = vec((double)p.x, (double)p.y, (double)p.z);
    return grain(solid_angle(load3d(c) - q, load3d(c + 3) - q, load3d(c + 6) - q, terms));
}

// 32 neighbouring points go down the tree together. A node's children are measured by those that come to it, and opened
// by those that they are too near to. Pairs of points and triangles are kept until there is one for each thread.
struct PacketWindingMemory {
    float x[SDF_LANES], y[SDF_LANES], z[SDF_LANES];
    u64 sum[SDF_LANES];
    u32 pair_point[2 * SDF_LANES], pair_slot[2 * SDF_LANES];
    u32 left[SDF_STACK], right[SDF_STACK], points[SDF_STACK];  // opened nodes' children, and by which points
};

struct PacketWinding {
    const WindingTree& tree;
    PacketWindingMemory* memory;
    u32 thread;
    F3 p;
    float beta_sq;
    double sum;
    u32 pairs;

    METHOD void add(u32 mask, u32 slot) {
        if (mask >> thread & 1u) {
            u32 at = pairs + (u32)count_ones(mask & ((1u << thread) - 1u));
            memory->pair_point[at] = thread;
            memory->pair_slot[at] = slot;
        }
        pairs += (u32)count_ones(mask);
        if (pairs >= SDF_LANES) measure(SDF_LANES);
    }
    METHOD void measure(u32 count) {
        warp_sync();
        pairs -= count;
        if (thread < count) {
            u32 k = memory->pair_point[pairs + thread];
            F3 q = vec(memory->x[k], memory->y[k], memory->z[k]);
            shared_add(memory->sum + k, grains(triangle_winding(tree, memory->pair_slot[pairs + thread], q, 8)));
        }
        warp_sync();
    }
    // The points of a mask for which a node is too near. It counts for the others.
    METHOD u32 measure_node(const float* m, F3 centre, float radius_sq, u32 mask) {
        F3 r = centre - p;
        float d2 = dot(r, r);
        bool comes = mask >> thread & 1u, far = d2 > beta_sq * radius_sq;
        if (comes && far) sum += grain(node_winding(m, r, d2));
        return warp_ballot(comes && !far);
    }
    METHOD double walk(u32 all) {
        memory->x[thread] = p.x;
        memory->y[thread] = p.y;
        memory->z[thread] = p.z;
        memory->sum[thread] = 0;
        warp_sync();
        int depth = 0;
        if (tree.triangles == 1) {
            add(all, 0);
        } else {
            u32 root = measure_node(tree.moments, load3(tree.moments), tree.moments[3], all);
            open(0, root, depth);
        }
        while (depth > 0) {
            depth--;
            u32 left = memory->left[depth], right = memory->right[depth], mask = memory->points[depth];
            warp_sync();
            u32 l = left & SDF_LEAF ? 0u : left, r = right & SDF_LEAF ? 0u : right;
            const float *ml = tree.moments + SDF_MOMENTS * (size_t)l, *mr = tree.moments + SDF_MOMENTS * (size_t)r;
            F3 cl = load3(ml), cr = load3(mr);
            float radius_l = ml[3], radius_r = mr[3];
            if (right & SDF_LEAF)
                add(mask, right & ~SDF_LEAF);
            else
                open(r, measure_node(mr, cr, radius_r, mask), depth);
            if (left & SDF_LEAF)
                add(mask, left & ~SDF_LEAF);
            else
                open(l, measure_node(ml, cl, radius_l, mask), depth);
        }
        if (pairs > 0) measure(pairs);
        return sum + from_grains(memory->sum[thread]);
    }
    METHOD void open(u32 node, u32 mask, int& depth) {
        if (mask == 0) return;
        if (thread == 0) {
            memory->left[depth] = tree.child[2 * (size_t)node];
            memory->right[depth] = tree.child[2 * (size_t)node + 1];
            memory->points[depth] = mask;
        }
        depth++;
        warp_sync();
    }
};

// Points that follow each other along a curve, a packet after the other for each warp. How many there are only the
// device knows.
FN void sdf_winding_packet_at(const sdf_winding_packet_args& a, u32 i) {
    SDF_SHARED PacketWindingMemory memory[SDF_BLOCK_WARPS];
    u32 thread = i % SDF_LANES, count = *a.count;
    WindingTree tree = tree_of(a);
    for (u32 first = i - thread; first < count; first += a.n) {
        u32 point = a.order[least(first + thread, count - 1)];
        F3 p = load3(a.points + 3 * (size_t)point);
        PacketWinding packet = {tree, memory + i / SDF_LANES % SDF_BLOCK_WARPS, thread, p, a.beta * a.beta, 0.0, 0};
        double sum = packet.walk(warp_ballot(first + thread < count));
        if (first + thread < count) a.winding[point] = (float)(sum / SDF_FOUR_PI);
        warp_sync();
    }
}

// A warp for one point: each thread takes a node, or a triangle.
#define SDF_WIDE_STACK 512
#define SDF_WIDE_HIGH 352  // from here on one node at a time is taken, which adds no more than SDF_STACK

struct LoneWindingMemory {
    u64 sum;
    u32 node[SDF_WIDE_STACK], slot[3 * SDF_LANES];
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
        for (u32 slot = thread; slot < tree.triangles; slot += SDF_LANES) sum += triangle_winding(tree, slot, p, terms);
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
            if (slots >= SDF_LANES || height == 0) {
                u32 many = least(slots, (u32)SDF_LANES);
                slots -= many;
                if (thread < many) sum += triangle_winding(tree, memory->slot[slots + thread], p, 8);
                warp_sync();
                continue;
            }
            u32 many = height > SDF_WIDE_HIGH ? 1u : least(height, (u32)SDF_LANES);
            height -= many;
            u32 left = SDF_NONE, right = SDF_NONE;
            bool down = false;
            if (thread < many) {
                u32 node = memory->node[height + thread];
                const float* m = tree.moments + SDF_MOMENTS * (size_t)node;
                F3 r = load3(m) - p;
                float d2 = dot(r, r);
                left = tree.child[2 * (size_t)node];
                right = tree.child[2 * (size_t)node + 1];
                down = !(d2 > beta_sq * m[3]);
                if (!down) sum += grain(node_winding(m, r, d2));
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

FN LoneWinding lone_winding(WindingTree tree, u32 i) {
    SDF_SHARED LoneWindingMemory memory[SDF_BLOCK_WARPS];
    LoneWinding lone = {tree, memory + i / SDF_LANES % SDF_BLOCK_WARPS, i % SDF_LANES};
    return lone;
}
FN void sdf_winding_lone_at(const sdf_winding_lone_args& a, u32 i) {
    u32 query = i / SDF_LANES;
    float winding = lone_winding(tree_of(a), i).winding(load3(a.points + 3 * (size_t)query), a.beta);
    if (i % SDF_LANES == 0) a.winding[query] = winding;
}

// What is left to do for an open surface, whose winding number is known: see WindingSigner.
FN void sdf_winding_caps_at(const sdf_winding_caps_args& a, u32 i) {
    u32 count = *a.count;
    LoneWinding lone = lone_winding(tree_of(a), i);
    WindingTree caps = {a.caps, a.caps_triangle, a.caps_child, a.caps_moments};
    for (u32 at = i / SDF_LANES; at < count; at += a.n / SDF_LANES) {
        u32 point = a.order[at];
        F3 p = load3(a.points + 3 * (size_t)point);
        float first = a.winding[point], winding = first;
        lone.tree = caps;
        for (u32 k = 0; k < a.steps; k++) {
            float off = winding - 0.5f;
            if (!(most(off, -off) < a.step[2 * k])) continue;
            float own = lone.winding(p, a.step[2 * k + 1]);
            winding = rintf(winding + own) - own;
        }
        float change = winding - first;
        lone.tree = tree_of(a);
        if (most(change, -change) > a.lost) winding = lone.exact(p, 16);
        warp_sync();
        if (i % SDF_LANES == 0) a.winding[point] = winding;
    }
}
#endif

#endif
