// The CPU's wide tree, traversed by distance/simd.h: nodes with sixteen children over blocks of sixteen triangles.
//
// INTERFACE
//   SDF_WIDE        children per node, triangles per block
//   sdf_wide_build  the blocks, or one level's nodes
#ifndef SDFCLI_TREES_WIDE_H
#define SDFCLI_TREES_WIDE_H
#include "base/kernel.h"
#include "geometry/boxes.h"
#include "geometry/turned.h"

constexpr int SDF_WIDE = SDF_LANES;  // children per node, triangles per block

#define SDF_WIDE_BLOCK (7 * SDF_WIDE)  // floats per block: its frame, and its triangles' bounds

// One block or node of the wide tree: its box becomes a lane in its parent.
struct sdf_wide_build_args {
    u32 n;  // blocks of 16 triangles, or nodes on one level
    u32 triangles;
    const float* triangle;  // [triangles, 9]
    const u32* block_slot;  // [triangles] slots in block order
    float* block;           // [n, 7, 16] out, for blocks; null for nodes: a frame, and the 16 triangles' bounds in it
    const float* own;       // [n, 6, 16] for nodes: their children's boxes
    float* above;           // [ceil(n / 16), 6, 16] out: boxes for the next level, padded with empty ones
};
FN const float* triangle_of_block(const sdf_wide_build_args& a, u32 block, u32 k) {
    return a.triangle + 9 * (size_t)a.block_slot[SDF_WIDE * block + k];
}

// A block's frame: axes oriented along its triangles. Neighbouring triangles are nearly flat in it, where axis-aligned
// boxes are as thick as long.
struct Frame {
    F3 middle, x, y, z;
};
FN Box bounds_in(const Frame& f, const float* t) {
    float turned[9];
    for (int k = 0; k < 9; k += 3) {
        F3 r = load3(t + k) - f.middle;
        turned[k] = dot(r, f.x);
        turned[k + 1] = dot(r, f.y);
        turned[k + 2] = dot(r, f.z);
    }
    Box b = triangle_box(turned);
    for (int k = 0; k < 3; k++) {
        b.v[k] -= SDF_TURNED_MARGIN;
        b.v[k + 3] += SDF_TURNED_MARGIN;
    }
    return b;
}
// A block's frame, the half lengths of its triangles' box there, and the triangles' bounds; unused lanes are empty.
FN void build_block(const sdf_wide_build_args& a, u32 block) {
    u32 count = min_of((u32)SDF_WIDE, a.triangles - SDF_WIDE * block);
    F3 n = vec(0.f, 0.f, 0.f);
    for (u32 k = 0; k < count; k++) {
        const float* t = triangle_of_block(a, block, k);
        F3 own = cross(load3(t + 3) - load3(t), load3(t + 6) - load3(t));
        n = dot(own, n) < 0.f ? n - own : n + own;  // whichever way faces are oriented
    }
    Axes axes = turned_axes(n);
    Frame f = {load3(triangle_of_block(a, block, 0)), SDF_NEARER * axes.x, SDF_NEARER * axes.y, SDF_NEARER * axes.z};
    Box all = empty_box();
    for (u32 k = 0; k < count; k++) all = box_of_both(all, bounds_in(f, triangle_of_block(a, block, k)));
    F3 middle = 0.5f * (load3(all.v) + load3(all.v + 3));
    f.middle = f.middle + middle.x * axes.x + middle.y * axes.y + middle.z * axes.z;
    all = empty_box();
    float* out = a.block + SDF_WIDE_BLOCK * (size_t)block;
    for (u32 k = 0; k < SDF_WIDE; k++) {
        Box own = k < count ? bounds_in(f, triangle_of_block(a, block, k)) : empty_box();
        for (int c = 0; c < 6; c++) out[SDF_WIDE * (c + 1) + k] = own.v[c];
        all = box_of_both(all, own);
    }
    F3 half = vec(max_of(all.v[3], -all.v[0]), max_of(all.v[4], -all.v[1]), max_of(all.v[5], -all.v[2]));
    const F3 rows[5] = {f.middle, half, f.x, f.y, f.z};
    for (int c = 0; c < 5; c++) {
        out[3 * c] = rows[c].x;
        out[3 * c + 1] = rows[c].y;
        out[3 * c + 2] = rows[c].z;
    }
    out[15] = 0.f;
}
SDF_KERNEL(sdf_wide_build, PLAIN, i) {
    Box around = empty_box();
    if (a.block) {
        build_block(a, i);
        for (u32 k = 0; k < SDF_WIDE && SDF_WIDE * i + k < a.triangles; k++)
            around = box_of_both(around, triangle_box(triangle_of_block(a, i, k)));
    } else {
        for (u32 k = 0; k < SDF_WIDE; k++) {
            Box b;
            for (int c = 0; c < 6; c++) b.v[c] = a.own[SDF_WIDE * (6 * (size_t)i + c) + k];
            around = box_of_both(around, b);
        }
    }
    float* out = a.above + SDF_WIDE * 6 * (size_t)(i / SDF_WIDE) + i % SDF_WIDE;
    for (int c = 0; c < 6; c++) out[SDF_WIDE * c] = around.v[c];
}

#endif
