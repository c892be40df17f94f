// sdf_octree_measured on the CPU: sixteen points, and their nearest triangles, side by side.
//
// INTERFACE
//   sdf_octree_measured_lanes  sdf_octree_measured for the points first .. last - 1
#ifndef SDFCLI_OCTREE_MEASURED_SIMD_H
#define SDFCLI_OCTREE_MEASURED_SIMD_H
#include "base/simd.h"
#include "octree/grow.h"

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

// As nearest_on_triangle.
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

// Of sixteen points and their triangles, in the order of their numbers.
struct Measured {
    float corner[9][SDF_LANES], position[3][SDF_LANES];
    double way[3][SDF_LANES], along[3][SDF_LANES], length[SDF_LANES], feature[SDF_LANES];
};

FN void measure(Measured* m) {
    for (int half = 0; half < 2; half++) {
        int at = half * SDF_LANES / 2;
        Vec<Doubles> p = half_of(m->position, half);
        NearestOfEach q = nearest_on_triangles(p, half_of(m->corner, half), half_of(m->corner + 3, half),
                                               half_of(m->corner + 6, half));
        Vec<Doubles> way = p - q.point;
        Doubles length = sqrt_of(dot(way, way));
        Vec<Doubles> along = (Doubles(1.0) / length) * way;
        store_lanes(way.x, m->way[0] + at);
        store_lanes(way.y, m->way[1] + at);
        store_lanes(way.z, m->way[2] + at);
        store_lanes(along.x, m->along[0] + at);
        store_lanes(along.y, m->along[1] + at);
        store_lanes(along.z, m->along[2] + at);
        store_lanes(length, m->length + at);
        store_lanes(q.feature, m->feature + at);
    }
}

}  // namespace

FN void sdf_octree_measured_lanes(const sdf_octree_measured_args& a, u32 first, u32 last) {
    Measured m;
    for (; first < last; first += SDF_LANES) {
        u32 count = min_of((u32)SDF_LANES, last - first);
        for (u32 k = 0; k < SDF_LANES; k++) {
            u32 i = first + min_of(k, count - 1), ahead = min_of(i + SDF_LANES, last - 1);
            const float *t = a.triangle + 9 * (size_t)a.slot[i], *next = a.triangle + 9 * (size_t)a.slot[ahead];
            __builtin_prefetch(next);
            __builtin_prefetch(next + 8);
            for (int c = 0; c < 9; c++) m.corner[c][k] = t[c];
            for (int c = 0; c < 3; c++) m.position[c][k] = a.position[3 * (size_t)i + c];
        }
        measure(&m);
        for (u32 k = 0; k < count; k++) {
            u32 i = first + k;
            if (m.length[k] < SDF_ON_SURFACE) {
                sdf_octree_measured_at(a, i);
                continue;
            }
            bool inside;
            if (a.normals) {
                const float* normal = a.normals + 21 * (size_t)a.slot[i] + 3 * (int)m.feature[k];
                inside = dot(D3{m.way[0][k], m.way[1][k], m.way[2][k]}, load3d(normal)) < 0.0;
            } else {
                inside = a.inside[i] == SDF_SIGN_UNKNOWN ? a.winding[i] > 0.5f : a.inside[i] == 1;
            }
            a.nearest[i] = a.slot[i];
            a.signed_distance[i] = inside ? -a.distance[i] : a.distance[i];
            if (!a.gradient) continue;
            for (int axis = 0; axis < 3; axis++)
                a.gradient[3 * (size_t)i + axis] = (float)(inside ? -m.along[axis][k] : m.along[axis][k]);
        }
    }
}

#endif
