// Rays against a mesh: the first triangle, or the number of triangles.
//
// Which triangles a ray crosses is decided exactly, for the float64 numbers given. Where the ray meets an edge or a
// vertex, the origin is thought of as shifted infinitesimally (simulation of simplicity, Edelsbrunner and Muecke 1990):
// by e along one axis and e^2 along another, the two axes along which the ray advances least. So a closed surface is
// crossed as often inwards as outwards, and no ray slips between two triangles. Triangles parallel to the ray are not
// crossed. A triangle that contains the origin is.
//
// INTERFACE
//   sdf_ray_first  the first triangle on each ray; ties by the smallest face
//   sdf_ray_count  the number of triangles on each ray
#ifndef SDFCLI_DISTANCE_RAYS_H
#define SDFCLI_DISTANCE_RAYS_H
#include "base/kernel.h"
#include "distance/closest.h"
#include "geometry/domain.h"
#include "geometry/expansion.h"
#include "trees/radix.h"
#include "verify/exact.h"

struct RayScene {
    u32 triangles;
    const u32* triangle_id;  // [triangles] Morton order to mesh order
    const u32* child;        // [triangles - 1, 2]
    const float* box;        // [triangles - 1, 6] in the unit cube
    const double* vertex;    // [vertices, 3] in the mesh's units
    const u32* face;         // [triangles, 3] as given
    Domain domain;
};

struct Ray {
    D3 from, way;       // in the mesh's units
    u32 axis;           // along which it advances most
    D3 start, inverse;  // in the unit cube
    double margin;      // of boxes: rounding of their corners, and of start
};
FN double component(D3 v, u32 axis) { return axis == 0 ? v.x : axis == 1 ? v.y : v.z; }
FN D3 unit_axis(u32 axis) { return vec(axis == 0 ? 1.0 : 0.0, axis == 1 ? 1.0 : 0.0, axis == 2 ? 1.0 : 0.0); }
FN Ray make_ray(const Domain& domain, D3 from, D3 way) {
    Ray ray = {from, way, 0u, vec(0.0, 0.0, 0.0), vec(0.0, 0.0, 0.0), 0.0};
    D3 size = vec(abs_of(way.x), abs_of(way.y), abs_of(way.z));
    ray.axis = size.x >= size.y && size.x >= size.z ? 0u : size.y >= size.z ? 1u : 2u;
    ray.start = (1.0 / domain.length) * (from - vec(domain.x, domain.y, domain.z));
    double most = component(size, ray.axis);
    // In units of the largest component. A component of 0 becomes small enough not to leave a box's margin.
    double way_of[3] = {way.x / most, way.y / most, way.z / most}, over[3];
    for (int k = 0; k < 3; k++) over[k] = abs_of(way_of[k]) < 1e-30 ? 1e30 : 1.0 / way_of[k];
    ray.inverse = vec(over[0], over[1], over[2]);
    double reach = max_of(max_of(abs_of(from.x), abs_of(from.y)), abs_of(from.z)) / domain.length;
    ray.margin = 5e-7 + 1e-15 * (reach + abs_of(ray.start.x) + abs_of(ray.start.y) + abs_of(ray.start.z));
    return ray;
}

// Ray parameters, in units of the largest component, between which the ray is in a box.
struct Span {
    double enter, leave;
};
FN Span span_of(const Ray& ray, const float* box) {
    double from[3] = {ray.start.x, ray.start.y, ray.start.z};
    double over[3] = {ray.inverse.x, ray.inverse.y, ray.inverse.z};
    Span span = {0.0, 1e300};
    for (int k = 0; k < 3; k++) {
        double one = (box[k] - ray.margin - from[k]) * over[k], other = (box[k + 3] + ray.margin - from[k]) * over[k];
        span.enter = max_of(span.enter, min_of(one, other));
        span.leave = min_of(span.leave, max_of(one, other));
    }
    span.enter *= 1.0 - 1e-15;
    span.leave *= 1.0 + 1e-15;
    return span;
}

// Side of the ray on which the edge a b passes: the sign of way . (a - from) x (b - from); 0 for an edge parallel to
// the ray. value: the product, rounded.
APART int edge_side(const Ray& ray, D3 a, D3 b, double* value) {
    D3 u = a - ray.from, v = b - ray.from;
    *value = dot(ray.way, cross(u, v));
    int sign = exact_sign(*value, dot(ray.way, ray.way) * dot(u, u) * dot(v, v));
    if (sign != 0) return sign;
    ExactVec way = exactly(ray.way), edge = exact_difference(a, b);
    sign = exact_triple_sign(way, exact_difference(a, ray.from), exact_difference(b, ray.from));
    // The product's derivatives by the two shifts of the origin.
    for (u32 k = 1; k <= 2 && sign == 0; k++)
        sign = exact_triple_sign(way, exactly(unit_axis((ray.axis + k) % 3u)), edge);
    return sign;
}

struct RayHit {
    bool hit;
    double t;     // in units of way
    double v, w;  // weights of b and c
};
FN RayHit ray_triangle(const Ray& ray, D3 a, D3 b, D3 c) {
    RayHit result = {false, 0.0, 0.0, 0.0};
    double over_a, over_b, over_c;
    int side = edge_side(ray, a, b, &over_c);
    if (side == 0 || edge_side(ray, b, c, &over_a) != side || edge_side(ray, c, a, &over_b) != side) return result;
    D3 u = a - ray.from, v = b - ray.from, w = c - ray.from;
    int front = exact_sign(dot(u, cross(v, w)), dot(u, u) * dot(v, v) * dot(w, w));
    if (front == 0)
        front = exact_triple_sign(exact_difference(a, ray.from), exact_difference(b, ray.from),
                                  exact_difference(c, ray.from));
    if (front == -side) return result;
    over_a = abs_of(over_a);
    over_b = abs_of(over_b);
    over_c = abs_of(over_c);
    double sum = over_a + over_b + over_c;
    result.v = sum > 0.0 ? over_b / sum : 0.0;
    result.w = sum > 0.0 ? over_c / sum : 0.0;
    double along =
        (1.0 - result.v - result.w) * dot(u, ray.way) + result.v * dot(v, ray.way) + result.w * dot(w, ray.way);
    result.t = max_of(along / dot(ray.way, ray.way), 0.0);
    result.hit = true;
    return result;
}

// Calls test(id, hit) for all triangles on the ray that begin before reach(), in units of the way's largest component
// and of the domain; nearer nodes first.
template <class Test, class Reach>
FN void walk_ray(const RayScene& scene, const Ray& ray, const Test& test, const Reach& reach) {
    auto try_leaf = [&](u32 slot) {
        u32 id = scene.triangle_id[slot];
        const u32* face = scene.face + 3 * (size_t)id;
        RayHit hit = ray_triangle(ray, load3(scene.vertex + 3 * (size_t)face[0]),
                                  load3(scene.vertex + 3 * (size_t)face[1]), load3(scene.vertex + 3 * (size_t)face[2]));
        if (hit.hit) test(id, hit);
    };
    if (scene.triangles == 1) try_leaf(0u);
    u32 stack[SDF_STACK];
    int depth = 0;
    if (scene.triangles > 1) stack[depth++] = 0;
    while (depth > 0) {
        u32 node = stack[--depth];
        Span span = span_of(ray, scene.box + 6 * (size_t)node);
        if (span.enter > span.leave || span.enter > reach()) continue;
        u32 child[2] = {scene.child[2 * (size_t)node], scene.child[2 * (size_t)node + 1]};
        double enter[2] = {-1.0, -1.0};
        for (int k = 0; k < 2; k++) {
            if (is_leaf(child[k]))
                try_leaf(leaf_index(child[k]));
            else
                enter[k] = span_of(ray, scene.box + 6 * (size_t)child[k]).enter;
        }
        int later = enter[0] < enter[1];
        if (!is_leaf(child[later])) stack[depth++] = child[later];
        if (!is_leaf(child[1 - later])) stack[depth++] = child[1 - later];
    }
}

struct sdf_ray_first_args {
    u32 n;
    const double* from;  // [n, 3] in the mesh's units
    const double* way;   // [n, 3]
    RayScene scene;
    const u32* oriented;  // [triangles, 3] for the normals
    double* t;            // [n] out: infinite without a hit
    double* weight;       // [n, 2] out: of the face's second and third corner
    double* normal;       // [n, 3] out: the face's unit normal
    u32* face_of;         // [n] out: SDF_NONE without a hit
};
SDF_KERNEL(sdf_ray_first, PLAIN, i) {
    Ray ray = make_ray(a.scene.domain, load3(a.from + 3 * (size_t)i), load3(a.way + 3 * (size_t)i));
    // From units of way to those of boxes, with room for the rounding of t.
    double to_boxes = (1.0 + 1e-12) * abs_of(component(ray.way, ray.axis)) / a.scene.domain.length;
    u32 best = SDF_NONE;
    RayHit first = {false, 1e300, 0.0, 0.0};
    walk_ray(
        a.scene, ray,
        [&](u32 id, RayHit hit) {
            if (hit.t > first.t || (hit.t == first.t && id > best)) return;
            first = hit;
            best = id;
        },
        [&] { return first.t * to_boxes + ray.margin; });
    a.face_of[i] = best;
    a.t[i] = first.hit ? first.t : 1.0 / 0.0;
    a.weight[2 * (size_t)i] = first.v;
    a.weight[2 * (size_t)i + 1] = first.w;
    D3 normal = vec(0.0, 0.0, 0.0);
    if (first.hit) normal = face_normal(a.scene.vertex, a.oriented + 3 * (size_t)best);
    store3(a.normal + 3 * (size_t)i, normal);
}

struct sdf_ray_count_args {
    u32 n;
    const double* from;  // [n, 3] in the mesh's units
    const double* way;   // [n, 3]
    RayScene scene;
    u32* count;  // [n] out
};
SDF_KERNEL(sdf_ray_count, PLAIN, i) {
    Ray ray = make_ray(a.scene.domain, load3(a.from + 3 * (size_t)i), load3(a.way + 3 * (size_t)i));
    u32 count = 0;
    walk_ray(a.scene, ray, [&](u32, RayHit) { count++; }, [] { return 1e300; });
    a.count[i] = count;
}

#endif
