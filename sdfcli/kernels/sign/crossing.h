// Triangles that cross or overlap others: without any, the surface is embedded.
//
// INTERFACE
//   crosses             whether two triangles cross or overlap
//   sdf_crossing        marks triangles that cross another one
//   sdf_crossing_count  their number
#ifndef SDFCLI_SIGN_CROSSING_H
#define SDFCLI_SIGN_CROSSING_H
#include "base/kernel.h"
#include "trees/radix.h"

// Depths below this (in the unit cube) are due to rounding coordinates to float, not a crossing.
#define SDF_TOUCH 3e-7

// A triangle whose box intersects more boxes counts as crossing: very large fans would take forever.
#define SDF_MOST_TESTS 4096

struct TriangleCorners {
    D3 v[3];
};
FN TriangleCorners load_corners(const float* t) { return {{load3d(t), load3d(t + 3), load3d(t + 6)}}; }

// Range of a triangle's corners along an axis. T may be eight doubles (base/simd.h).
template <class T>
struct Interval {
    T low, high;
};
template <class T>
FN Interval<T> along(const Vec<T>* t, Vec<T> axis, Vec<T> origin) {
    T a = dot(t[0] - origin, axis), b = dot(t[1] - origin, axis), c = dot(t[2] - origin, axis);
    return {min_of(a, min_of(b, c)), max_of(a, max_of(b, c))};
}

// Whether an axis separates two triangles, or they only touch along it. A zero axis separates nothing.
FN bool apart_along(const TriangleCorners& s, const TriangleCorners& t, D3 axis) {
    double length = sqrt(dot(axis, axis));
    if (!(length > 0.0)) return false;
    Interval<double> a = along(s.v, axis, s.v[0]), b = along(t.v, axis, s.v[0]);
    return min_of(a.high - b.low, b.high - a.low) <= SDF_TOUCH * length;
}

// Separating axis test for two triangles (Gottschalk, Lin, Manocha 1996): axes in the plane for coplanar triangles,
// else the two normals and the edges' cross products.
FN bool crosses(const TriangleCorners& s, const TriangleCorners& t) {
    D3 p[3] = {s.v[1] - s.v[0], s.v[2] - s.v[1], s.v[0] - s.v[2]},
       q[3] = {t.v[1] - t.v[0], t.v[2] - t.v[1], t.v[0] - t.v[2]};
    D3 m = cross(p[0], p[1]), n = cross(q[0], q[1]);
    double lm = sqrt(dot(m, m)), ln = sqrt(dot(n, n));
    if (!(lm > 0.0) || !(ln > 0.0)) return false;
    Interval<double> over = along(t.v, m, s.v[0]), under = along(s.v, n, t.v[0]);
    bool in_plane =
        (max_of(over.high, -over.low) <= SDF_TOUCH * lm) || (max_of(under.high, -under.low) <= SDF_TOUCH * ln);
    if (in_plane) {
        for (int k = 0; k < 3; k++)
            if (apart_along(s, t, cross(m, p[k])) || apart_along(s, t, cross(n, q[k]))) return false;
        return true;
    }
    if (min_of(over.high, -over.low) <= SDF_TOUCH * lm || min_of(under.high, -under.low) <= SDF_TOUCH * ln)
        return false;
    for (int j = 0; j < 3; j++)
        for (int k = 0; k < 3; k++)
            if (apart_along(s, t, cross(p[j], q[k]))) return false;
    return true;
}

struct sdf_crossing_args {
    u32 n;                  // triangles
    const float* triangle;  // [n, 9]
    const u32* child;       // [n - 1, 2]
    const float* box;       // [n - 1, 6]
    u32 all;                // whether each triangle is tested against all others, instead of later ones only
    u32* meets;             // [n] in and out, 0 before: number of boxes intersecting each triangle's; null if `all`
    u8* crowded;            // [1] in and out, 0 before: 1 if such a number is too large, so results are missing
    u8* crosses;            // [n] in and out, 0 before: 1 for a triangle that crosses another one
};
// Adds to the number of boxes intersecting a triangle's box, and reports when there are too many.
FN void count_meetings(const sdf_crossing_args& a, u32 slot, u32 more) {
    u32 before = atomic_add(a.meets + slot, more);
    if (before <= SDF_MOST_TESTS && before + more > SDF_MOST_TESTS) store_relaxed(a.crowded, (u8)1);
}

// Marks triangles that cross another one. Each pair is tested once, by its first triangle: a left child's index equals
// the last triangle below it (trees/radix.h), so earlier triangles are skipped. Where a triangle's box intersects too
// many others, this is insufficient; another launch with `all` then tests each against all others.
SDF_KERNEL(sdf_crossing, LANES, slot) {
    const float* own = a.triangle + 9 * (size_t)slot;
    TriangleCorners t = load_corners(own);
    Box box = triangle_box(own);
    u32 stack[SDF_STACK];  // see SDF_STACK: one postponed sibling per step
    int depth = 0;
    u32 at = a.n > 1 ? 0u : make_leaf(slot), tests = 0;
    for (;;) {
        bool down = false;
        if (is_leaf(at)) {
            u32 other = leaf_index(at);
            const float* theirs = a.triangle + 9 * (size_t)other;
            if (other != slot && boxes_meet(box, triangle_box(theirs).v)) {
                bool too_many = ++tests > SDF_MOST_TESTS;
                if (!a.all) count_meetings(a, other, 1);
                bool known = load_relaxed(a.crosses + slot) && load_relaxed(a.crosses + other);
                if (too_many || (!known && crosses(t, load_corners(theirs)))) {
                    store_relaxed(a.crosses + slot, (u8)1);
                    if (too_many || a.all) break;
                    store_relaxed(a.crosses + other, (u8)1);
                }
            }
        } else {
            down = boxes_meet(box, a.box + 6 * (size_t)at);
        }
        if (down) {
            u32 left = a.child[2 * (size_t)at], right = a.child[2 * (size_t)at + 1];
            bool before = !a.all && leaf_index(left) <= slot;
            if (!before) stack[depth++] = right;
            at = before ? right : left;
        } else if (depth > 0) {
            at = stack[--depth];
        } else {
            break;
        }
    }
    if (!a.all) count_meetings(a, slot, tests);
}

struct sdf_crossing_count_args {
    u32 n;              // triangles
    const u8* crosses;  // [n]
    u32* count;         // [1] in and out, 0 before: number of triangles that cross another one
};
SDF_KERNEL(sdf_crossing_count, PLAIN, slot) {
    if (a.crosses[slot]) atomic_add(a.count, 1u);
}

#endif
