// A tree of spheres over a mesh, and its descent: which triangles of a posed mesh may be the nearest to a field's
// surface, or nearer than a margin.
//
// The tree is implicit (Quinlan 1994 has sphere trees for distances): triangles lie in Morton order, and eight
// consecutive nodes have one parent. A sphere's centre is the centroid of one of its triangles, so that one sample of
// the field gives both a distance of the mesh and, by the radius, a bound of all distances in the node. The descent
// goes level by level, for all poses together. The least bound of a pose is known when a level ends, so that neither
// the number of threads nor their order has a say in what is passed over.
//
// INTERFACE
//   sdf_sphere_triangles, sdf_sphere_parents    the levels of the tree
//   Posed, place                                a mesh at a pose, and a point of it
//   begin_bound, store_bound                    a sample that starts, and one that has come to its leaf
//   sdf_contact_bound, sdf_contact_keep, sdf_contact_children   a level: bounds; what is opened; the next level
#ifndef SDFCLI_CONTACT_SPHERES_H
#define SDFCLI_CONTACT_SPHERES_H
#include "base/kernel.h"
#include "contact/bounds.h"

struct sdf_sphere_triangles_args {
    u32 n;  // nodes of the finest level: triangles, and up to seven more that are none
    u32 triangles;
    const float* triangle;  // [triangles, 9] in the unit cube, in Morton order
    float* sphere;          // [n, 4] out: centre and radius; a negative radius: no node
    float* box;             // [n, 6] out: lower and upper corner
};
FN float distance_up(F3 p, F3 q) {  // of points in the unit cube, not less than the true one
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
    u32 n;  // nodes of a level
    u32 triangles;
    u32 span;               // triangles of a node: 8 ** level
    u32 children;           // nodes of the level below, a multiple of 8
    const float* triangle;  // [triangles, 9]
    const float* below;     // [children, 4] spheres
    const float* boxes;     // [children, 6]
    float* sphere;          // [n, 4] out
    float* box;             // [n, 6] out
};
SDF_KERNEL(sdf_sphere_parents, PLAIN, i) {
    const u32 many = SDF_SPHERES_ABREAST, nodes = a.children / many;
    u32 node = i < nodes ? i : nodes - 1;  // the rest has the last one's centre: a distance that it has, too
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

// A mesh at poses, against a field.
struct Posed {
    const double* pose;   // [poses, 12] from the mesh's unit cube to the field's units: three rows of a matrix
    const double* scale;  // [poses] how much longer than in the unit cube lengths become, at most
    Sampler field;
    double padding;  // see probe
    StatedError error;
    double margin;  // in the field's units: how near triangles are that are wanted; below every number: none but the
                    // nearest
};
FN D3 place(const Posed& posed, u32 pose, D3 p) {
    const double* m = posed.pose + 12 * (size_t)pose;
    return vec(m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3], m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
               m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]);
}
// Bounds from here on are of no use: a pose's least bound, less what it may stay loose, or the margin.
FN double bound_to_beat(const Posed& posed, u64 least) {
    double low = order_of(least);
    return max_of(low - slack_of(posed.error, low), posed.margin);
}

struct sdf_contact_bound_args {
    u32 n;                // pairs of a pose and a node
    const u32* pose;      // [n] of the pair
    const u32* node;      // [n] of a level
    const float* sphere;  // [nodes, 4] of that level
    Posed posed;
    double* bound;  // [n] out: of the signed distance at the sphere's centre
    u64* least;     // [poses] in and out: order_bits of a pose's least bound
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
    u8* keep;             // [n] out: 1 for what is opened
};
SDF_KERNEL(sdf_contact_keep, PLAIN, i) {
    u32 pose = a.pose[i];
    double radius = (double)a.sphere[4 * (size_t)a.node[i] + 3], bound = a.bound[i];
    bool near = bound - radius * a.posed.scale[pose] < bound_to_beat(a.posed, a.least[pose]);
    // The nearest centre itself goes down to its triangle, which is then known by its number.
    a.keep[i] = radius >= 0.0 && (near || order_bits(bound) == a.least[pose]);
}

struct sdf_contact_children_args {
    u32 n;              // 8 x what is opened
    const u32* opened;  // [n // 8] numbers of pairs
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
