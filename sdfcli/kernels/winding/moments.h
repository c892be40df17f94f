// Generalised winding numbers over the binary tree (Barill, Dickson, Schmidt, Levin, Jacobson 2018): the mathematics,
// and each node's record. The sums are in thread.h, simd.h and warp.h.
//
// INTERFACE
//   SDF_MOMENTS, node_winding  a node's record, and its contribution to a winding number, times 4 pi
//   solid_angle                a triangle's solid angle seen from the origin
//   grain                      rounds a contribution, so that sums do not depend on their order
//   WindingTree, corners_at    the tree for kernels, and a triangle's corners
//   sdf_winding_moments        the records, one thread per leaf
#ifndef SDFCLI_WINDING_MOMENTS_H
#define SDFCLI_WINDING_MOMENTS_H
#include "base/kernel.h"
#include "trees/radix.h"

// A node's record, 64 bytes: area-weighted centre (3), squared radius around it, summed area normals (3), area; the
// first moment, sum of n_i (x_j - c_j), as its symmetric part, since only that matters: xx, yy, zz, xy + yx, xz + zx,
// yz + zy; and the two children's bits. A node farther away than beta times its radius contributes its first order
// Taylor expansion, a triangle its solid angle.
#define SDF_FOUR_PI 12.566370614359172

struct Moments {
    F3 centre, normal;
    float area, first[6];
};

struct sdf_winding_moments_args {
    u32 n;  // triangles
    RadixTree tree;
    const float* box;  // [n - 1, 6]
    u32* arrivals;     // [n - 1] in and out: 0 before
    float* moments;    // [n - 1, 16] out
};
FN Moments child_moments(const sdf_winding_moments_args& a, u32 child) {
    Moments m;
    if (is_leaf(child)) {
        const float* t = a.tree.triangle + 9 * (size_t)leaf_index(child);
        F3 p = load3(t), q = load3(t + 3), r = load3(t + 6);
        m.normal = 0.5f * cross(q - p, r - p);
        m.area = sqrtf(dot(m.normal, m.normal));
        m.centre = vec((p.x + q.x + r.x) / 3.f, (p.y + q.y + r.y) / 3.f, (p.z + q.z + r.z) / 3.f);
        for (int k = 0; k < 6; k++) m.first[k] = 0.f;
        return m;
    }
    float row[SDF_MOMENTS];
    load_coherent<SDF_MOMENTS>(a.moments + SDF_MOMENTS * (size_t)child, row);
    m.centre = load3(row);
    m.normal = load3(row + 4);
    m.area = row[7];
    for (int k = 0; k < 6; k++) m.first[k] = row[8 + k];
    return m;
}

// Adds a child's first moment about another centre.
FN void add_first(const Moments& m, F3 centre, float* first) {
    F3 n = m.normal, o = m.centre - centre;
    first[0] += m.first[0] + n.x * o.x;
    first[1] += m.first[1] + n.y * o.y;
    first[2] += m.first[2] + n.z * o.z;
    first[3] += m.first[3] + (n.x * o.y + n.y * o.x);
    first[4] += m.first[4] + (n.x * o.z + n.z * o.x);
    first[5] += m.first[5] + (n.y * o.z + n.z * o.y);
}

SDF_KERNEL(sdf_winding_moments, PLAIN, leaf) {
    auto load = [&](u32 child) { return child_moments(a, child); };
    reduce_bottom_up(
        a.tree, a.arrivals, leaf, load(make_leaf(leaf)), load, [&](u32 node, const Moments& l, const Moments& r) {
            Moments both;
            both.area = l.area + r.area;
            both.centre = l.centre + (both.area > 0.f ? r.area / both.area : 0.5f) * (r.centre - l.centre);
            both.normal = l.normal + r.normal;
            for (int k = 0; k < 6; k++) both.first[k] = 0.f;
            add_first(l, both.centre, both.first);
            add_first(r, both.centre, both.first);
            const float* b = a.box + 6 * (size_t)node;
            F3 c = both.centre, n = both.normal,
               far =
                   vec(max_of(c.x - b[0], b[3] - c.x), max_of(c.y - b[1], b[4] - c.y), max_of(c.z - b[2], b[5] - c.z));
            float row[SDF_MOMENTS] = {c.x, c.y, c.z, dot(far, far), n.x, n.y, n.z, both.area};
            for (int k = 0; k < 6; k++) row[8 + k] = both.first[k];
            memcpy(row + 14, a.tree.child + 2 * (size_t)node, 2 * sizeof(u32));
            store_row<SDF_MOMENTS>(a.moments + SDF_MOMENTS * (size_t)node, row);
            return both;
        });
}

// atan2 by range reduction and `terms` terms in the arc tangent series: 8 give 2e-8, 16 full precision. No branches: T
// may be a vector of doubles (base/simd.h).
template <class T>
FN T arc_tangent2(T y, T x, int terms) {
    const double pi = 3.14159265358979323846;
    T zero(0.0), ax = select(x < zero, zero - x, x), ay = select(y < zero, zero - y, y);
    T high = max_of(ax, ay), low = min_of(ax, ay);
    auto upper = low > T(0.41421356237309503) * high;
    T over = select(upper, low + high, high);
    T t = select(over > zero, select(upper, low - high, low) / over, zero);
    T s = t * t, r = zero;
    for (int k = terms - 1; k > 0; k--) r = s * (T(1.0 / (2 * k + 1)) - r);
    r = t * (T(1.0) - r);
    r = select(upper, T(0.25 * pi) + r, r);
    r = select(ay > ax, T(0.5 * pi) - r, r);
    r = select(x < zero, T(pi) - r, r);
    return select(y < zero, zero - r, r);
}

// A triangle's solid angle seen from the origin (van Oosterom and Strackee 1983), positive inside a surface oriented
// outwards.
template <class T>
FN T solid_angle(Vec<T> a, Vec<T> b, Vec<T> c, int terms) {
    T la = sqrt_of(dot(a, a)), lb = sqrt_of(dot(b, b)), lc = sqrt_of(dot(c, c));
    T up = dot(a, cross(b, c)), down = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb;
    return T(2.0) * arc_tangent2(up, down, terms);
}

template <class T>
FN T node_winding(const float* m, Vec<T> r, T d2) {
    const float* f = m + 8;
    T i2 = T(1.f) / d2, i3 = i2 * sqrt_of(i2);
    T zeroth = m[4] * r.x + m[5] * r.y + m[6] * r.z;
    T along = r.x * (f[0] * r.x + f[3] * r.y + f[4] * r.z) + r.y * (f[1] * r.y + f[5] * r.z) + f[2] * (r.z * r.z);
    return (zeroth + ((f[0] + f[1] + f[2]) - 3.f * (along * i2))) * i3;
}

// Rounds to a multiple of 2^-36. Sums of these are exact up to 2^17, hence independent of order.
FN double grain(double x) { return x + 98304.0 - 98304.0; }

struct WindingTree {
    u32 triangles;
    const float* triangle;  // [rows, 9]
    const u32* slots;       // [triangles] rows in `triangle`; null: consecutive
    const float* moments;   // [triangles - 1, 16]
    const float* box;       // [triangles - 1, 6] node boxes; may be null
};
FN const float* corners_at(const WindingTree& tree, u32 place) {
    return tree.triangle + 9 * (size_t)(tree.slots ? tree.slots[place] : place);
}

#endif
