// The CPU's wide tree, which distance/simd.h walks: nodes of sixteen children over blocks of sixteen triangles.
//
// INTERFACE
//   SDF_WIDE        children of a node, triangles of a block
//   sdf_wide_build  the blocks, or the nodes of one level
#ifndef SDFCLI_TREES_WIDE_H
#define SDFCLI_TREES_WIDE_H
#include "base/kernel.h"
#include "geometry/boxes.h"
#include "geometry/turned.h"

constexpr int SDF_WIDE = SDF_LANES;  // children of a node, triangles of a block

#define SDF_WIDE_BLOCK (7 * SDF_WIDE)  // floats of a block: its frame, and its triangles' bounds

// A block's frame: axes that are turned as its triangles lie, and the box around all of them along these. In it
// neighbouring triangles are nearly flat, where boxes along the coordinate axes are as thick as long.
struct Frame {
    F3 middle, half, x, y, z;
};
FN F3 turn(const Frame& f, F3 p) {
    F3 r = p - f.middle;
    return vec(dot(r, f.x), dot(r, f.y), dot(r, f.z));
}

// One block or node of the wide tree: its box goes into its lane of the node above.
struct sdf_wide_build_args {
    u32 n;  // blocks of 16 triangles, or nodes of one level of the wide tree
    u32 triangles;
    const float* triangle;  // [triangles, 9]
    const u32* block_slot;  // [triangles] the slots in the order of the blocks
    float* block;           // [n, 7, 16] out, for blocks; null for nodes: a frame, and 16 triangles' bounds in it
    const float* own;       // [n, 6, 16] for nodes: the boxes of their children
    float* above;           // [ceil(n / 16), 6, 16] out: boxes as the next level has them, filled up with empty ones
};
FN const float* triangle_of_block(const sdf_wide_build_args& a, u32 block, u32 k) {
    return a.triangle + 9 * (size_t)a.block_slot[SDF_WIDE * block + k];
}
FN F3 lowest(F3 a, F3 b) { return vec(min_of(a.x, b.x), min_of(a.y, b.y), min_of(a.z, b.z)); }
FN F3 highest(F3 a, F3 b) { return vec(max_of(a.x, b.x), max_of(a.y, b.y), max_of(a.z, b.z)); }
struct Extent {
    F3 low, high;
};
FN Extent bounds_in(const Frame& f, const float* t) {
    F3 u = turn(f, load3(t)), v = turn(f, load3(t + 3)), w = turn(f, load3(t + 6));
    F3 margin = SDF_TURNED_MARGIN * vec(1.f, 1.f, 1.f);
    Extent b = {lowest(u, lowest(v, w)) - margin, highest(u, highest(v, w)) + margin};
    return b;
}
// A block's frame, with the triangles' bounds in it; lanes without a triangle are empty. near: a point near them.
FN void build_block(const sdf_wide_build_args& a, u32 block, F3 near) {
    u32 count = min_of((u32)SDF_WIDE, a.triangles - SDF_WIDE * block);
    F3 n = vec(0.f, 0.f, 0.f), none = n;
    for (u32 k = 0; k < count; k++) {
        const float* t = triangle_of_block(a, block, k);
        F3 own = cross(load3(t + 3) - load3(t), load3(t + 6) - load3(t));
        n = dot(own, n) < 0.f ? n - own : n + own;  // whichever way faces are turned
    }
    Axes axes = turned_axes(n);
    Frame f = {near, none, SDF_NEARER * axes.x, SDF_NEARER * axes.y, SDF_NEARER * axes.z};
    Extent empty = {vec(3e38f, 3e38f, 3e38f), vec(-3e38f, -3e38f, -3e38f)}, all = empty;
    for (u32 k = 0; k < count; k++) {
        Extent own = bounds_in(f, triangle_of_block(a, block, k));
        all.low = lowest(all.low, own.low);
        all.high = highest(all.high, own.high);
    }
    F3 middle = 0.5f * (all.low + all.high);
    f.middle = near + middle.x * axes.x + middle.y * axes.y + middle.z * axes.z;
    float* out = a.block + SDF_WIDE_BLOCK * (size_t)block;
    for (u32 k = 0; k < SDF_WIDE; k++) {
        Extent own = empty;
        if (k < count) {
            own = bounds_in(f, triangle_of_block(a, block, k));
            f.half = highest(f.half, highest(own.high, none - own.low));
        }
        const float ends[6] = {own.low.x, own.low.y, own.low.z, own.high.x, own.high.y, own.high.z};
        for (int c = 0; c < 6; c++) out[SDF_WIDE * (c + 1) + k] = ends[c];
    }
    const F3 rows[5] = {f.middle, f.half, f.x, f.y, f.z};
    for (int c = 0; c < 5; c++) {
        out[3 * c] = rows[c].x;
        out[3 * c + 1] = rows[c].y;
        out[3 * c + 2] = rows[c].z;
    }
    out[15] = 0.f;
}
SDF_KERNEL(sdf_wide_build, PLAIN, i) {
    Box around = {{3e38f, 3e38f, 3e38f, -3e38f, -3e38f, -3e38f}};
    for (u32 k = 0; k < SDF_WIDE; k++) {
        Box b;
        if (!a.block) {
            for (int c = 0; c < 6; c++) b.v[c] = a.own[SDF_WIDE * (6 * (size_t)i + c) + k];
        } else if (SDF_WIDE * i + k < a.triangles) {
            b = triangle_box(triangle_of_block(a, i, k));
        } else {
            continue;
        }
        for (int c = 0; c < 3; c++) {
            around.v[c] = min_of(around.v[c], b.v[c]);
            around.v[c + 3] = max_of(around.v[c + 3], b.v[c + 3]);
        }
    }
    if (a.block) build_block(a, i, 0.5f * (load3(around.v) + load3(around.v + 3)));
    float* out = a.above + SDF_WIDE * 6 * (size_t)(i / SDF_WIDE) + i % SDF_WIDE;
    for (int c = 0; c < 6; c++) out[SDF_WIDE * c] = around.v[c];
}

#endif
