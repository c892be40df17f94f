// Winding numbers, one thread per point.
//
// INTERFACE
//   sdf_winding  winding numbers for points; the CPU uses winding/simd.h, with the same bits
#ifndef SDFCLI_WINDING_THREAD_H
#define SDFCLI_WINDING_THREAD_H
#include "base/kernel.h"
#include "winding/moments.h"

// beta = 0 requests the exact sum over all triangles, in double.
struct sdf_winding_args {
    u32 n;                // queries
    const float* points;  // [n, 3]
    WindingTree tree;
    float beta;      // 0: exact
    float* winding;  // [n] out
};
SDF_KERNEL(sdf_winding, LANES, i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    u32 stack[SDF_STACK];  // see SDF_STACK: one postponed sibling per step
    int depth = 0;
    u32 at = a.tree.triangles > 1 ? 0u : make_leaf(0);
    float beta_sq = a.beta * a.beta;
    double sum = 0.0;
    for (;;) {
        bool down = false;
        if (is_leaf(at)) {
            const float* t = corners_at(a.tree, leaf_index(at));
            // In double: seen from beside its longest edge, a sliver's angle is lost in float rounding.
            D3 q = vec((double)p.x, (double)p.y, (double)p.z);
            sum += grain(solid_angle(load3d(t) - q, load3d(t + 3) - q, load3d(t + 6) - q, beta_sq > 0.f ? 8 : 16));
        } else {
            const float* m = a.tree.moments + SDF_MOMENTS * (size_t)at;
            F3 r = load3(m) - p;
            float d2 = dot(r, r);
            down = !(beta_sq > 0.f && d2 > beta_sq * m[3]);
            if (!down) sum += grain((double)node_winding(m, r, d2));
        }
        if (down) {
            const float* m = a.tree.moments + SDF_MOMENTS * (size_t)at;
            stack[depth++] = float_bits(m[15]);
            at = float_bits(m[14]);
        } else if (depth > 0) {
            at = stack[--depth];
        } else {
            break;
        }
    }
    a.winding[i] = (float)(sum / SDF_FOUR_PI);
}

#endif
