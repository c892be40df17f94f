// Rays against a posed mesh, or against balls: the first hit, by tree traversal.
//
// A ray's side relative to an edge is the sign of a volume, and adjacent triangles compute the same number for a shared
// edge, up to sign: a ray between two triangles hits at least one. Among several hits at the same position the smallest
// id wins, so the result does not depend on the traversal order.
//
// INTERFACE
//   Shapes            triangles or balls in their own cube
//   nearest_triangle  the first triangle on a ray, and its normal there
//   nearest_ball      the same for balls
#ifndef SDFCLI_SURFACE_CAST_H
#define SDFCLI_SURFACE_CAST_H
#include "base/kernel.h"
#include "base/vec.h"
#include "trees/radix.h"

#define SDF_CAST_FAR 1e30     // nothing is hit at this distance
#define SDF_CAST_MISSED 2e30  // greater still

struct Shapes {
    u32 count;               // 0: none
    const float* triangle;   // [count, 9] in Morton order, in the cube; for a ball: its box's corners, and its centre
    const u32* triangle_id;  // [count]
    const float* normal;     // [count, 9] unit normals at the corners, by id; null for balls
    const u32* child;        // [count - 1, 2]
    const float* box;        // [count - 1, 6]
    double x, y, z, edge;    // the cube's lower corner and edge, in domain edges
};

struct CubeRay {  // in the shapes' cube
    D3 from, way, inverse;
};
FN double inverse_of(double x) { return select(x < 1e-30 && x > -1e-30, SDF_CAST_FAR, 1.0 / x); }
FN CubeRay ray_in_cube(const Shapes& m, D3 eye, D3 way) {
    CubeRay ray = {(1.0 / m.edge) * (eye - vec(m.x, m.y, m.z)), way,
                   vec(inverse_of(way.x), inverse_of(way.y), inverse_of(way.z))};
    return ray;
}

// Ray parameter at the entry into a box, SDF_CAST_MISSED for a miss.
FN double entry_of(const CubeRay& ray, const float* box) {
    double from[3] = {ray.from.x, ray.from.y, ray.from.z}, over[3] = {ray.inverse.x, ray.inverse.y, ray.inverse.z};
    double enter = 0.0, leave = SDF_CAST_FAR;
    for (int k = 0; k < 3; k++) {
        double one = (box[k] - from[k]) * over[k], other = (box[k + 3] - from[k]) * over[k];
        enter = max_of(enter, min_of(one, other));
        leave = min_of(leave, max_of(one, other));
    }
    return enter <= leave ? enter : SDF_CAST_MISSED;
}

struct Met {
    double t;  // along the ray, SDF_CAST_FAR for none
    u32 id;
    D3 normal;
};

// Calls test(slot) for shapes possibly hit before best.t, which test lowers; nearer nodes first.
template <class Test>
FN void walk_along(const Shapes& m, const CubeRay& ray, const Met& best, Test test) {
    if (m.count == 1) test(0u);
    u32 stack[SDF_STACK];  // one postponed sibling per step
    int depth = 0;
    if (m.count > 1) stack[depth++] = 0;
    while (depth > 0) {
        u32 node = stack[--depth];
        u32 child[2] = {m.child[2 * (size_t)node], m.child[2 * (size_t)node + 1]};
        double entry[2] = {SDF_CAST_MISSED, SDF_CAST_MISSED};
        for (int k = 0; k < 2; k++) {
            if (is_leaf(child[k]))
                test(leaf_index(child[k]));
            else
                entry[k] = entry_of(ray, m.box + 6 * (size_t)child[k]);
        }
        int later = entry[0] < entry[1];
        if (entry[later] <= best.t) stack[depth++] = child[later];
        if (entry[1 - later] <= best.t) stack[depth++] = child[1 - later];
    }
}

FN bool comes_first(double t, u32 id, const Met& best) {
    return t > 0.0 && (t < best.t || (t == best.t && id < best.id));
}

// The first hit on a ray. test(ray, slot, best) updates the best hit so far.
template <class Test>
FN Met nearest_of(const Shapes& m, D3 eye, D3 way, Test test) {
    Met best = {SDF_CAST_FAR, SDF_NONE, vec(0.0, 0.0, 0.0)};
    if (m.count == 0) return best;
    CubeRay ray = ray_in_cube(m, eye, way);
    walk_along(m, ray, best, [&](u32 slot) { test(ray, slot, best); });
    if (best.t < SDF_CAST_FAR) best.t *= m.edge;
    return best;
}

FN Met nearest_triangle(const Shapes& m, D3 eye, D3 way) {
    return nearest_of(m, eye, way, [&](const CubeRay& ray, u32 slot, Met& best) {
        const float* corner = m.triangle + 9 * (size_t)slot;
        D3 a = load3d(corner) - ray.from, b = load3d(corner + 3) - ray.from, c = load3d(corner + 6) - ray.from;
        double u = dot(way, cross(c, b)), v = dot(way, cross(a, c)), w = dot(way, cross(b, a)), sum = u + v + w;
        bool below = u < 0.0 || v < 0.0 || w < 0.0, over = u > 0.0 || v > 0.0 || w > 0.0;
        if ((below && over) || sum == 0.0) return;
        double t = (u * dot(a, way) + v * dot(b, way) + w * dot(c, way)) / sum;  // between the corners' values
        u32 id = m.triangle_id[slot];
        if (!comes_first(t, id, best)) return;
        const float* normal = m.normal + 9 * (size_t)id;
        best.t = t;
        best.id = id;
        best.normal = (u / sum) * load3d(normal) + (v / sum) * load3d(normal + 3) + (w / sum) * load3d(normal + 6);
    });
}

FN Met nearest_ball(const Shapes& m, D3 eye, D3 way) {
    return nearest_of(m, eye, way, [&](const CubeRay& ray, u32 slot, Met& best) {
        const float* ball = m.triangle + 9 * (size_t)slot;
        double radius = 0.5 * ((double)ball[3] - (double)ball[0]), along = dot(load3d(ball + 6) - ray.from, way);
        D3 beside = ray.from + along * way - load3d(ball + 6);
        double inner = radius * radius - dot(beside, beside);
        if (inner < 0.0) return;
        double t = along - sqrt(inner);
        u32 id = m.triangle_id[slot];
        if (!comes_first(t, id, best)) return;
        best.t = t;
        best.id = id;
        best.normal = (1.0 / radius) * (beside - sqrt(inner) * way);
    });
}

#endif
