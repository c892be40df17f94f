// A sphere tree over a mesh, and its descent: finds the triangles of a posed mesh that may be nearest to a field's
// surface, or closer than a margin.
//
// The tree is implicit (Quinlan 1994 has sphere trees for distances): triangles are in Morton order, and eight
// consecutive nodes share a parent. A sphere's centre is a centroid of one of its triangles, so one field sample gives
// both a mesh distance and, with the radius, a bound on all distances in the node. The descent proceeds level by level,
// for all poses together. A pose's minimum bound is known when a level ends, so pruning does not depend on the threads'
// number or order.
//
// INTERFACE
//   sdf_sphere_triangles, sdf_sphere_parents    the tree's levels
//   Posed, place                                a posed mesh, and one of its points
//   begin_bound, store_bound                    start a sample; finish one at its leaf
//   sdf_contact_bound, sdf_contact_keep, sdf_contact_children   a level: bounds; opened nodes; the next level
#ifndef SDFCLI_CONTACT_SPHERES_H
#define SDFCLI_CONTACT_SPHERES_H
#include "base/kernel.h"
#include "contact/bounds.h"

struct sdf_sphere_triangles_args {
    u32 n;  // nodes on the finest level: the triangles, padded by up to seven
    u32 triangles;
    const float* triangle;  // [triangles, 9] in the unit cube, in Morton order
    float* sphere;          // [n, 4] out: centre and radius; negative radius: padding
    float* box;             // [n, 6] out: lower and upper corner
};
FN float distance_up(F3 p, F3 q) {  // distance in the unit cube, rounded up
    F3 r = p - q;
    return sqrtf(dot(r, r)) * 1.000001f + 1e-7f;
}
SDF_KERNEL(sdf_sphere_triangles, PLAIN, i) {
    u32 from = i < a.triangles ? i : a.triangles - 1;
    const float* t = a.triangle + 9 * (size_t)from;
    F3 p = load3(t), q = load3(t + 3), r = load3(t + 6);
    F3 c = vec((p.x + q.x + r.x) / 3.f, (p.y + q.y + r.y) / 3.f, (p.z + q.z + r.z) / 3.f);
    float radius = max_of(max_of(distance_up(c, p), distance_up(c, q)), distance_up(c, r));
    float sphere[4] = {c.x, c.y, c.z, i < a.triangles ? radius : -1.f};
    for (int k = 0; k < 4; k++) a.sphere[4 * (size_t)i + k] = sphere[k];
    for (int k = 0; k < 3; k++) {
        a.box[6 * (size_t)i + k] = min_of(min_of(t[k], t[3 + k]), t[6 + k]);
        a.box[6 * (size_t)i + 3 + k] = max_of(max_of(t[k], t[3 + k]), t[6 + k]);
    }
}

struct sdf_sphere_parents_args {
    u32 n;  // nodes on a level
    u32 triangles;
    u32 span;               // triangles per node: 8 ** level
    u32 children;           // nodes on the level below, a multiple of 8
    const float* triangle;  // [triangles, 9]
    const float* below;     // [children, 4] spheres
    const float* boxes;     // [children, 6]
    float* sphere;          // [n, 4] out
    float* box;             // [n, 6] out
};
SDF_KERNEL(sdf_sphere_parents, PLAIN, i) {
    const u32 many = SDF_SPHERES_ABREAST, nodes = a.children / many;
    u32 node = i < nodes ? i : nodes - 1;  // padding repeats the last node's centre, which is a valid distance there
    u32 first = many * node, last = first + many;
    float low[3], high[3];
    for (int k = 0; k < 3; k++) {
        low[k] = a.boxes[6 * (size_t)first + k];
        high[k] = a.boxes[6 * (size_t)first + 3 + k];
        for (u32 child = first; child < last; child++) {
            low[k] = min_of(low[k], a.boxes[6 * (size_t)child + k]);
            high[k] = max_of(high[k], a.boxes[6 * (size_t)child + 3 + k]);
        }
        a.box[6 * (size_t)i + k] = low[k];
        a.box[6 * (size_t)i + 3 + k] = high[k];
    }
    F3 middle = vec(mean(low[0], high[0]), mean(low[1], high[1]), mean(low[2], high[2]));
    F3 c = load3(a.below + 4 * (size_t)first);
    float nearest = distance_up(middle, c), radius = -1.f;
    for (u32 child = first; child < last; child++) {
        const float* sphere = a.below + 4 * (size_t)child;
        float away = distance_up(middle, load3(sphere));
        if (sphere[3] >= 0.f && away < nearest) {
            nearest = away;
            c = load3(sphere);
        }
    }
    u64 begin = (u64)a.span * i, end = begin + a.span < a.triangles ? begin + a.span : a.triangles;
    for (u64 t = begin; t < end; t++)
        for (int k = 0; k < 3; k++) radius = max_of(radius, distance_up(c, load3(a.triangle + 9 * t + 3 * k)));
    float sphere[4] = {c.x, c.y, c.z, radius};
    for (int k = 0; k < 4; k++) a.sphere[4 * (size_t)i + k] = sphere[k];
}

// A mesh at several poses, against a field.
struct Posed {
    const double* pose;   // [poses, 12] from the mesh's unit cube to the field's units: three matrix rows
    const double* scale;  // [poses] maximum stretch of lengths from the unit cube
    Sampler field;
    double padding;  // see probe
    StatedError error;
    double margin;  // in the field's units: triangles closer than this are listed; -infinity: only the nearest
};
FN D3 place(const Posed& posed, u32 pose, D3 p) {
    const double* m = posed.pose + 12 * (size_t)pose;
    return vec(m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3], m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
               m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]);
}
// Larger bounds are pruned: a pose's minimum bound less the accepted slack, or the margin.
FN double bound_to_beat(const Posed& posed, u64 least) {
    double low = order_of(least);
    return max_of(low - slack_of(posed.error, low), posed.margin);
}

struct sdf_contact_bound_args {
    u32 n;                // pairs (pose, node)
    const u32* pose;      // [n] of the pair
    const u32* node;      // [n] on one level
    const float* sphere;  // [nodes, 4] on that level
    Posed posed;
    double* bound;  // [n] out: lower bound for the signed distance at the sphere's centre
    u64* least;     // [poses] in and out: order_bits of the pose's minimum bound
};
FN void begin_bound(const sdf_contact_bound_args& a, u32 i, Way& way) {
    start_way(a.posed.field.domain, place(a.posed, a.pose[i], load3d(a.sphere + 4 * (size_t)a.node[i])), way);
}
FN void store_bound(const sdf_contact_bound_args& a, u32 i, const Way& way) {
    double length = a.posed.field.domain.length;
    double bound = lower_bound_of(a.posed.error, probe(a.posed.field, a.posed.padding, way), length);
    u64 order = order_bits(bound), *least = a.least + a.pose[i];
    if (load_relaxed(least) < order) atomic_max(least, order);
    a.bound[i] = bound;
}
SDF_KERNEL(sdf_contact_bound, CHUNKS, i) {
    Way way;
    begin_bound(a, i, way);
    go_down(a.posed.field.tree, way);
    store_bound(a, i, way);
}

struct sdf_contact_keep_args {
    u32 n;
    const u32* pose;      // [n]
    const u32* node;      // [n]
    const float* sphere;  // [nodes, 4]
    Posed posed;
    const double* bound;  // [n]
    const u64* least;     // [poses]
    u8* keep;             // [n] out: 1: opened
};
SDF_KERNEL(sdf_contact_keep, PLAIN, i) {
    u32 pose = a.pose[i];
    double radius = (double)a.sphere[4 * (size_t)a.node[i] + 3], bound = a.bound[i];
    bool near = bound - radius * a.posed.scale[pose] < bound_to_beat(a.posed, a.least[pose]);
    // The nearest centre is followed down to its triangle, whose id is then known.
    a.keep[i] = radius >= 0.0 && (near || order_bits(bound) == a.least[pose]);
}

struct sdf_contact_children_args {
    u32 n;              // 8 x opened pairs
    const u32* opened;  // [n // 8] indices of pairs
    const u32* pose;    // [pairs]
    const u32* node;    // [pairs]
    u32* child_pose;    // [n] out
    u32* child;         // [n] out
};
SDF_KERNEL(sdf_contact_children, PLAIN, i) {
    u32 from = a.opened[i / SDF_SPHERES_ABREAST];
    a.child_pose[i] = a.pose[from];
    a.child[i] = SDF_SPHERES_ABREAST * a.node[from] + i % SDF_SPHERES_ABREAST;
}

#endif
