// Distance from a point to a triangle.
//
// INTERFACE
//   PreparedTriangle, facet, facet_distance_sq  a triangle prepared for many points, and a point's squared distance
//   triangle_distance_sq                        the same for one point; both handle degenerate triangles
//   nearest_on_triangle                         the nearest point, its feature (vertex, edge, face) and weights
//
// PreparedTriangle's functions have no branches: T may be a vector of floats (base/simd.h).
#ifndef SDFCLI_GEOMETRY_TRIANGLE_H
#define SDFCLI_GEOMETRY_TRIANGLE_H
#include "base/vec.h"

template <class T>
FN T inverse_or_zero(T x) {
    return select(x > T(0), T(1) / x, T(0));
}
template <class T>
FN T segment_distance_sq(Vec<T> p, Vec<T> e, T inverse) {  // p relative to the segment's start, e the segment vector
    Vec<T> r = p - clamp01(dot(p, e) * inverse) * e;
    return dot(r, r);
}

// Point-independent data for a triangle a b c: edge vectors, normal, and their inverse squared lengths.
template <class T>
struct PreparedTriangle {
    Vec<T> a, b, ab, ac, bc, n;
    T over_ab, over_ac, over_bc, over_n;
};
template <class T>
FN PreparedTriangle<T> facet(Vec<T> a, Vec<T> b, Vec<T> c, T over_ab, T over_ac, T over_bc, T over_n) {
    Vec<T> ab = b - a, ac = c - a;
    return {a, b, ab, ac, c - b, cross(ab, ac), over_ab, over_ac, over_bc, over_n};
}
template <class T>
FN PreparedTriangle<T> facet(Vec<T> a, Vec<T> b, Vec<T> c) {
    Vec<T> ab = b - a, ac = c - a, bc = c - b, n = cross(ab, ac);
    return facet(a, b, c, inverse_or_zero(dot(ab, ab)), inverse_or_zero(dot(ac, ac)), inverse_or_zero(dot(bc, bc)),
                 inverse_or_zero(dot(n, n)));
}

// Squared distance from p to a triangle: the minimum over three clamped edges, and the face if the perpendicular's foot
// lies in it. Degenerate triangles are handled, with the corner a as the foot. No branches: T may be a vector of floats
// (base/simd.h).
template <class T>
FN T facet_distance_sq(Vec<T> p, const PreparedTriangle<T>& f) {
    Vec<T> ap = p - f.a;
    T edges = min_of(segment_distance_sq(ap, f.ab, f.over_ab),
                     min_of(segment_distance_sq(ap, f.ac, f.over_ac), segment_distance_sq(p - f.b, f.bc, f.over_bc)));
    T v = dot(cross(ap, f.ac), f.n) * f.over_n, w = dot(cross(f.ab, ap), f.n) * f.over_n;
    Vec<T> r = (ap - v * f.ab) - w * f.ac;
    // A second projection step from the first foot: a needle's normal has lost digits, and the first foot is slightly
    // off the plane. If it lies far away, r has lost these digits as well; the needle is then as thin as rounding
    // errors, and its edges suffice.
    auto beside = v * v + w * w <= T(4);
    T v2 = dot(cross(r, f.ac), f.n) * f.over_n, w2 = dot(cross(f.ab, r), f.n) * f.over_n;
    r = (r - v2 * f.ab) - w2 * f.ac;
    v = v + v2;
    w = w + w2;
    T face = dot(r, r);
    return select(beside & (v >= T(0)) & (w >= T(0)) & (v + w <= T(1)) & (face < edges), face, edges);
}
template <class T>
FN T triangle_distance_sq(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c) {
    return facet_distance_sq(p, facet(a, b, c));
}

// The triangle part nearest to a point, which determines the pseudonormal.
enum Feature { VERTEX_A, VERTEX_B, VERTEX_C, EDGE_AB, EDGE_BC, EDGE_CA, FACE };

template <class T>
struct Nearest {
    Vec<T> point;
    Feature feature;
    T v, w;  // weights of b and c
};

template <class T>
FN void nearest_on_edge(Vec<T> p, Vec<T> a, Vec<T> b, Feature edge, Feature from, Feature to, T* best,
                        Nearest<T>* out) {
    Vec<T> e = b - a;
    T l = dot(e, e), t = l > T(0) ? clamp01(dot(p - a, e) / l) : T(0);
    Vec<T> q = t < T(1) ? a + t * e : b, r = p - q;
    T d = dot(r, r);
    if (d < *best) {
        *best = d;
        out->point = q;
        out->feature = t <= T(0) ? from : t >= T(1) ? to : edge;
        out->v = from == VERTEX_A ? t : from == VERTEX_B ? T(1) - t : T(0);
        out->w = from == VERTEX_A ? T(0) : from == VERTEX_B ? t : T(1) - t;
    }
}

// Nearest point to p on the triangle a b c, its feature and weights.
template <class T>
FN Nearest<T> nearest_on_triangle(Vec<T> p, Vec<T> a, Vec<T> b, Vec<T> c) {
    Nearest<T> out = {a, VERTEX_A, T(0), T(0)};
    Vec<T> ab = b - a, ac = c - a, ap = p - a, n = cross(ab, ac);
    T l = dot(n, n);
    if (l > T(0)) {
        T v = dot(cross(ap, ac), n) / l, w = dot(cross(ab, ap), n) / l;
        if (v > T(0) && w > T(0) && v + w < T(1)) {
            out.point = a + (v * ab + w * ac);
            out.feature = FACE;
            out.v = v;
            out.w = w;
            return out;
        }
    }
    T best = dot(ap, ap);
    nearest_on_edge(p, a, b, EDGE_AB, VERTEX_A, VERTEX_B, &best, &out);
    nearest_on_edge(p, b, c, EDGE_BC, VERTEX_B, VERTEX_C, &best, &out);
    nearest_on_edge(p, c, a, EDGE_CA, VERTEX_C, VERTEX_A, &best, &out);
    return out;
}

#endif
