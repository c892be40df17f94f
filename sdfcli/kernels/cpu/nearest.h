// Nearest points on triangles, on the CPU: sixteen pairs of a point and a triangle per vector.
//
// INTERFACE
//   each_nearest               for points with one triangle each
//   sdf_octree_measured_lanes  sdf_octree_measured for the points first .. last - 1
//   sdf_pseudonormal_lanes     sdf_pseudonormal for the points first .. last - 1
#ifndef SDFCLI_CPU_NEAREST_H
#define SDFCLI_CPU_NEAREST_H
#include "base/simd.h"
#include "octree/open.h"

namespace {

struct NearestOfEach {
    Vec<Doubles> point;
    Doubles feature;  // see Feature
};

FN void nearest_on_edges(const Vec<Doubles>& p, const Vec<Doubles>& a, const Vec<Doubles>& b, Feature edge,
                         Feature from, Feature to, Doubles* best, NearestOfEach* out) {
    const Doubles zero(0.0), one(1.0);
    Vec<Doubles> e = b - a;
    Doubles l = dot(e, e), t = select(l > zero, clamp01(dot(p - a, e) / l), zero);
    Vec<Doubles> q = select(t < one, a + t * e, b), r = p - q;
    Doubles d = dot(r, r), feature = select(t < one, Doubles((double)edge), Doubles((double)to));
    DoubleMask nearer = d < *best;
    *best = select(nearer, d, *best);
    out->point = select(nearer, q, out->point);
    out->feature = select(nearer, select(t > zero, feature, Doubles((double)from)), out->feature);
}

// Vectorised nearest_on_triangle.
FN NearestOfEach nearest_on_triangles(const Vec<Doubles>& p, const Vec<Doubles>& a, const Vec<Doubles>& b,
                                      const Vec<Doubles>& c) {
    const Doubles zero(0.0), one(1.0);
    Vec<Doubles> ab = b - a, ac = c - a, ap = p - a, n = cross(ab, ac);
    Doubles l = dot(n, n), v = dot(cross(ap, ac), n) / l, w = dot(cross(ab, ap), n) / l, best = dot(ap, ap);
    NearestOfEach out = {a, Doubles((double)VERTEX_A)};
    nearest_on_edges(p, a, b, EDGE_AB, VERTEX_A, VERTEX_B, &best, &out);
    nearest_on_edges(p, b, c, EDGE_BC, VERTEX_B, VERTEX_C, &best, &out);
    nearest_on_edges(p, c, a, EDGE_CA, VERTEX_C, VERTEX_A, &best, &out);
    DoubleMask face = (l > zero) & (v > zero) & (w > zero) & (v + w < one);
    out.point = select(face, a + (v * ab + w * ac), out.point);
    out.feature = select(face, Doubles((double)FACE), out.feature);
    return out;
}

struct SixteenTriangles {
    float point[3][SDF_LANES], corner[9][SDF_LANES];
    double way[3][SDF_LANES], feature[SDF_LANES];
};

FN void find_ways(SixteenTriangles* t) {
    for (int half = 0; half < 2; half++) {
        int first = half * SDF_LANES / 2;
        Vec<Doubles> p = half_of(t->point, half);
        NearestOfEach q = nearest_on_triangles(p, half_of(t->corner, half), half_of(t->corner + 3, half),
                                               half_of(t->corner + 6, half));
        Vec<Doubles> way = p - q.point;
        store_lanes(way.x, t->way[0] + first);
        store_lanes(way.y, t->way[1] + first);
        store_lanes(way.z, t->way[2] + first);
        store_lanes(q.feature, t->feature + first);
    }
}

// Calls use(i, way, feature) for the points first .. last - 1: the vector to the point from its triangle's nearest
// point, and that point's feature. points: [.., 3]; slot: [..] rows of triangle [.., 9].
template <class Use>
FN void each_nearest(const float* points, const u32* slot, const float* triangle, u32 first, u32 last, const Use& use) {
    SixteenTriangles t;
    for (; first < last; first += SDF_LANES) {
        u32 count = min_of((u32)SDF_LANES, last - first);
        for (u32 k = 0; k < SDF_LANES; k++) {
            u32 i = first + min_of(k, count - 1), ahead = min_of(i + SDF_LANES, last - 1);
            const float *own = triangle + 9 * (size_t)slot[i], *next = triangle + 9 * (size_t)slot[ahead];
            __builtin_prefetch(next);
            __builtin_prefetch(next + 8);
            for (int c = 0; c < 9; c++) t.corner[c][k] = own[c];
            for (int c = 0; c < 3; c++) t.point[c][k] = points[3 * (size_t)i + c];
        }
        find_ways(&t);
        for (u32 k = 0; k < count; k++)
            use(first + k, D3{t.way[0][k], t.way[1][k], t.way[2][k]}, (Feature)(int)t.feature[k]);
    }
}

}  // namespace

FN void sdf_octree_measured_lanes(const sdf_octree_measured_args& a, u32 first, u32 last) {
    each_nearest(a.position, a.slot, a.triangle, first, last,
                 [&a](u32 i, D3 way, Feature feature) { store_measured(a, i, way, feature); });
}

FN void sdf_pseudonormal_lanes(const sdf_pseudonormal_args& a, u32 first, u32 last) {
    each_nearest(a.points, a.slot, a.triangle, first, last,
                 [&a](u32 i, D3 way, Feature feature) { store_side(a, i, way, feature); });
}

#endif
