// sdf_crossing on the CPU: sixteen consecutive triangles traverse the tree together, and candidates are tested sixteen
// pairs at once.
//
// INTERFACE
//   sdf_crossing_lanes  sdf_crossing for the triangles first .. last - 1
#ifndef SDFCLI_SIGN_CROSSING_SIMD_H
#define SDFCLI_SIGN_CROSSING_SIMD_H
#include "base/simd.h"
#include "sign/crossing.h"

namespace {

struct FloatBoxes {
    FloatV low[3], high[3];
};
FN u32 which_meet(const FloatBoxes& a, const float* b) {
    Mask m = (a.low[0] <= FloatV(b[3])) & (a.high[0] >= FloatV(b[0]));
    for (int k = 1; k < 3; k++) m = m & (a.low[k] <= FloatV(b[k + 3])) & (a.high[k] >= FloatV(b[k]));
    return bits(m);
}

// Pairs of triangles with intersecting boxes.
struct Pairs {
    u32 count;
    u32 slot[2][SDF_LANES];
    float corner[2][9][SDF_LANES];
};

// For eight pairs, 1 if neither triangle's plane separates the two, or they are coplanar: see crosses.
FN Doubles in_doubt(const Vec<Doubles>* s, const Vec<Doubles>* t) {
    const Doubles zero(0.0), one(1.0);
    Vec<Doubles> m = cross(s[1] - s[0], s[2] - s[1]), n = cross(t[1] - t[0], t[2] - t[1]);
    Doubles lm = sqrt_of(dot(m, m)), ln = sqrt_of(dot(n, n));
    Interval<Doubles> over = along(t, m, s[0]), under = along(s, n, t[0]);
    Doubles beyond = zero - over.low, below = zero - under.low;
    Doubles touch_m = Doubles(SDF_TOUCH) * lm, touch_n = Doubles(SDF_TOUCH) * ln;
    DoubleMask off_plane = (max_of(over.high, beyond) > touch_m) & (max_of(under.high, below) > touch_n);
    DoubleMask through = (min_of(over.high, beyond) > touch_m) & (min_of(under.high, below) > touch_n);
    return select((lm > zero) & (ln > zero), select(off_plane, select(through, one, zero), one), zero);
}

FN void test_pairs(const sdf_crossing_args& a, Pairs* pairs) {
    double doubt[SDF_LANES];
    for (int half = 0; half < 2; half++) {
        Vec<Doubles> t[2][3];
        for (int side = 0; side < 2; side++)
            for (int v = 0; v < 3; v++) t[side][v] = half_of(pairs->corner[side] + 3 * v, half);
        store_lanes(in_doubt(t[0], t[1]), doubt + half * SDF_LANES / 2);
    }
    for (u32 k = 0; k < pairs->count; k++) {
        u32 one = pairs->slot[0][k], other = pairs->slot[1][k];
        if (doubt[k] > 0.0 &&
            crosses(load_corners(a.triangle + 9 * (size_t)one), load_corners(a.triangle + 9 * (size_t)other))) {
            store_relaxed(a.crosses + one, (u8)1);
            store_relaxed(a.crosses + other, (u8)1);
        }
    }
    pairs->count = 0;
}

FN void add_pair(const sdf_crossing_args& a, u32 one, u32 other, Pairs* pairs) {
    if (load_relaxed(a.crosses + one) && load_relaxed(a.crosses + other)) return;
    u32 k = pairs->count++, slot[2] = {one, other};
    for (int side = 0; side < 2; side++) {
        const float* t = a.triangle + 9 * (size_t)slot[side];
        pairs->slot[side][k] = slot[side];
        for (int c = 0; c < 9; c++) pairs->corner[side][c][k] = t[c];
    }
    if (pairs->count == SDF_LANES) test_pairs(a, pairs);
}

// The triangles first .. first + count - 1, at most sixteen, each against later triangles.
FN void walk_together(const sdf_crossing_args& a, u32 first, u32 count, Pairs* pairs) {
    FloatBoxes boxes;
    for (u32 k = 0; k < SDF_LANES; k++) {
        Box own = triangle_box(a.triangle + 9 * (size_t)(first + min_of(k, count - 1)));
        for (int axis = 0; axis < 3; axis++) {
            boxes.low[axis].set(k, own.v[axis]);
            boxes.high[axis].set(k, own.v[axis + 3]);
        }
    }
    // Both children are pushed, so the stack holds up to two more than the tree's depth: 95, see SDF_STACK.
    u32 stack[SDF_STACK], depth = 1, tests[SDF_LANES] = {}, looking = (1u << count) - 1u;
    stack[0] = 0;
    while (depth > 0) {
        u32 at = stack[--depth];
        if (!is_leaf(at)) {
            if (!(which_meet(boxes, a.box + 6 * (size_t)at) & looking)) continue;
            u32 left = a.child[2 * (size_t)at];
            stack[depth++] = a.child[2 * (size_t)at + 1];
            if (leaf_index(left) > first) stack[depth++] = left;
            continue;
        }
        u32 other = leaf_index(at);
        if (other <= first) continue;
        u32 before = other - first < SDF_LANES ? (1u << (other - first)) - 1u : ~0u;
        u32 met = which_meet(boxes, triangle_box(a.triangle + 9 * (size_t)other).v) & looking & before;
        if (met) count_meetings(a, other, (u32)popcount(met));
        for (; met; met &= met - 1) {
            u32 k = (u32)__builtin_ctz(met);
            if (++tests[k] > SDF_MOST_TESTS) {
                store_relaxed(a.crosses + first + k, (u8)1);
                looking &= ~(1u << k);
            } else {
                add_pair(a, first + k, other, pairs);
            }
        }
    }
    for (u32 k = 0; k < count; k++) count_meetings(a, first + k, tests[k]);
}

}  // namespace

FN void sdf_crossing_lanes(const sdf_crossing_args& a, u32 first, u32 last) {
    if (a.all) {
        for (u32 slot = first; slot < last; slot++) sdf_crossing_at(a, slot);
        return;
    }
    if (a.n < 2) return;
    Pairs pairs = {};
    for (u32 slot = first; slot < last; slot += SDF_LANES)
        walk_together(a, slot, min_of((u32)SDF_LANES, last - slot), &pairs);
    if (pairs.count) test_pairs(a, &pairs);
}

#endif
