// The CPU's wide tree, which distance/simd.h walks: nodes of sixteen children over blocks of sixteen triangles.
//
// INTERFACE
//   SDF_WIDE        children of a node, triangles of a block
//   sdf_wide_build  the blocks, or the nodes of one level
#ifndef SDFCLI_TREES_WIDE_H
#define SDFCLI_TREES_WIDE_H
#include "base/kernel.h"
#include "geometry/boxes.h"

constexpr int SDF_WIDE = SDF_LANES;  // children of a node, triangles of a block

// One block or node of the wide tree: its box goes into its lane of the node above.
struct sdf_wide_build_args {
    u32 n;  // blocks of 16 triangles, or nodes of one level of the wide tree
    u32 triangles;
    const float* triangle;  // [triangles, 9]
    const u32* block_slot;  // [triangles] the slots in the order of the blocks
    float* block;           // [n, 9, 16] out, for blocks; null for nodes: the corners' coordinates lane by lane
    const float* own;       // [n, 6, 16] for nodes: the boxes of their children
    float* above;           // [ceil(n / 16), 6, 16] out: boxes as the next level has them, filled up with empty ones
};
SDF_KERNEL(sdf_wide_build, PLAIN, i) {
    float low[3] = {3e38f, 3e38f, 3e38f}, high[3] = {-3e38f, -3e38f, -3e38f};
    for (u32 k = 0; k < SDF_WIDE; k++) {
        Box b;
        if (a.block) {
            const float* t = a.triangle + 9 * (size_t)a.block_slot[min_of(SDF_WIDE * i + k, a.triangles - 1)];
            for (int c = 0; c < 9; c++) a.block[SDF_WIDE * (9 * (size_t)i + c) + k] = t[c];
            b = triangle_box(t);
        } else {
            for (int c = 0; c < 6; c++) b.v[c] = a.own[SDF_WIDE * (6 * (size_t)i + c) + k];
        }
        for (int c = 0; c < 3; c++) {
            low[c] = min_of(low[c], b.v[c]);
            high[c] = max_of(high[c], b.v[c + 3]);
        }
    }
    float* out = a.above + SDF_WIDE * 6 * (size_t)(i / SDF_WIDE) + i % SDF_WIDE;
    for (int c = 0; c < 3; c++) {
        out[SDF_WIDE * c] = low[c];
        out[SDF_WIDE * (c + 3)] = high[c];
    }
}

#endif
