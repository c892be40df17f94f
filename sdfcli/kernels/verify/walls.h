// Wall thickness at surface points: the largest ball that touches the surface there, and a ray to the other side.
//
// A ball lies behind the surface, tangent to it at the point. It shrinks until no face that opposes the point's normal
// reaches into it (the shrinking ball of Ma, Bae and Choi 2012, with the nearest point of each face in place of a
// sample). The face that limits it must be seen from the point, through the solid. Balls tangent at one point are
// nested: faces outside of one are outside of all smaller ones, so a single traversal finds the result, in any order of
// nodes.
//
// INTERFACE
//   sdf_wall_normals    the triangles' unit normals, for the refit of a tree of normals
//   sdf_wall_points     points on faces, with the faces' normals
//   sdf_wall_thickness  the ball's diameter, and the length of the ray
#ifndef SDFCLI_VERIFY_WALLS_H
#define SDFCLI_VERIFY_WALLS_H
#include "base/kernel.h"
#include "geometry/domain.h"
#include "geometry/triangle.h"
#include "surface/cast.h"

// All lengths are in domain edges.
#define SDF_WALL_TOUCH 2e-7      // distance of coincident surfaces: corners are rounded to float32
#define SDF_WALL_WIDEST 4.0      // a ball's diameter before it shrinks, larger than any solid's
#define SDF_WALL_CLOSER 1e-9     // relative change of the diameter at which it has converged
#define SDF_WALL_NEARLY 1e-3     // last part of the way to a contact that may graze faces beside it
#define SDF_WALL_ROUNDS 32       // maximum number of changes by one face; convergence is quadratic
#define SDF_WALL_NODES 4096      // visited nodes after which faces that reach less than SDF_WALL_SLACK into the ball
#define SDF_WALL_SLACK 0.01      // may be ignored, in radii: else time is quadratic where many faces are as near
#define SDF_WALL_OPPOSED -0.642  // maximum cosine between normals of opposing sides, which meet at 50 degrees or less

FN D3 unit_normal(D3 a, D3 b, D3 c) {
    D3 n = cross(b - a, c - a);
    double length = sqrt(dot(n, n));
    return length > 0.0 ? (1.0 / length) * n : vec(0.0, 0.0, 0.0);
}

struct sdf_wall_normals_args {
    u32 n;  // triangles
    u32 vertices;
    const double* vertex;    // [vertices, 3]
    const u32* face;         // [n, 3]
    const u32* triangle_id;  // [n]
    float* normal;           // [n, 9] out, by slot: a unit vector, or 0 for a degenerate triangle, three times
};
SDF_KERNEL(sdf_wall_normals, PLAIN, slot) {
    const u32* corner = a.face + 3 * (size_t)a.triangle_id[slot];
    D3 n = unit_normal(load3(a.vertex + 3 * (size_t)corner[0]), load3(a.vertex + 3 * (size_t)corner[1]),
                       load3(a.vertex + 3 * (size_t)corner[2]));
    for (int k = 0; k < 9; k += 3) {
        float* out = a.normal + 9 * (size_t)slot + k;
        out[0] = (float)n.x;
        out[1] = (float)n.y;
        out[2] = (float)n.z;
    }
}

struct sdf_wall_points_args {
    u32 n;
    u32 vertices, faces;
    Domain domain;
    const double* vertex;  // [vertices, 3] in the mesh's units
    const u32* face;       // [faces, 3]
    const u32* on;         // [n] the points' faces
    const double* weight;  // [n, 3] barycentric
    double* point;         // [n, 3] out: in the unit cube
    double* normal;        // [n, 3] out: a unit vector, or 0 for a degenerate face
};
SDF_KERNEL(sdf_wall_points, PLAIN, i) {
    const u32* corner = a.face + 3 * (size_t)a.on[i];
    D3 at[3], p = vec(0.0, 0.0, 0.0);
    for (int k = 0; k < 3; k++) {
        at[k] = to_unit(a.domain, a.vertex + 3 * (size_t)corner[k]);
        p = p + a.weight[3 * (size_t)i + k] * at[k];
    }
    D3 n = unit_normal(at[0], at[1], at[2]);
    double values[6] = {p.x, p.y, p.z, n.x, n.y, n.z};
    for (int k = 0; k < 3; k++) {
        a.point[3 * (size_t)i + k] = values[k];
        a.normal[3 * (size_t)i + k] = values[3 + k];
    }
}

struct sdf_wall_thickness_args {
    u32 n;
    u32 triangles;
    Shapes mesh;           // its cube is the unit cube; without normals at the corners
    const float* facing;   // [triangles, 9] unit normals by slot, as from sdf_wall_normals
    const float* range;    // [triangles - 1, 6] box around the unit normals below each node
    const double* point;   // [n, 3] on the surface
    const double* normal;  // [n, 3] unit vectors there; 0: not measured
    double* thickness;     // [n] out: the ball's diameter; SDF_CAST_FAR if no face opposes the point
    double* opposite;      // [n] out: along the inward normal to the first face left through; SDF_CAST_FAR without one
};

struct WallBall {
    D3 point, way;  // way: the inward normal
    double width;   // diameter
    D3 contact;     // where a face limits it
};
FN D3 centre_of(const WallBall& ball) { return ball.point + (0.5 * ball.width) * ball.way; }
// share: of the radius, below 1 to ignore what lies near the ball's border.
FN bool reaches(const WallBall& ball, double distance_sq, double share = 1.0) {
    double radius = 0.5 * share * ball.width + SDF_WALL_TOUCH;
    return distance_sq < radius * radius;
}

FN bool opposes(const sdf_wall_thickness_args& a, u32 slot, D3 way) {
    return dot(load3d(a.facing + 9 * (size_t)slot), way) > -SDF_WALL_OPPOSED;
}
// The same for any triangle below a node.
FN bool may_oppose(const sdf_wall_thickness_args& a, u32 node, D3 way) {
    const float* box = a.range + 6 * (size_t)node;
    double x = max_of(box[0] * way.x, box[3] * way.x), y = max_of(box[1] * way.y, box[4] * way.y);
    return x + y + max_of(box[2] * way.z, box[5] * way.z) > -SDF_WALL_OPPOSED;
}

// Shrinks a ball until a triangle does not reach into it.
FN void shrink(const sdf_wall_thickness_args& a, u32 slot, WallBall* ball) {
    const float* t = a.mesh.triangle + 9 * (size_t)slot;
    D3 one = load3d(t), two = load3d(t + 3), three = load3d(t + 6);
    for (int round = 0; round < SDF_WALL_ROUNDS; round++) {
        D3 centre = centre_of(*ball), q = nearest_on_triangle(centre, one, two, three).point;
        D3 off = q - centre, across = q - ball->point;
        if (!reaches(*ball, dot(off, off))) return;
        double square = dot(across, across), along = dot(across, ball->way);
        if (square <= SDF_WALL_TOUCH * SDF_WALL_TOUCH) {
            ball->width = 0.0;
            ball->contact = ball->point;
            return;
        }
        if (!(along > 0.0)) return;
        double width = square / along;  // of the ball through q
        if (!(width < (1.0 - SDF_WALL_CLOSER) * ball->width)) return;
        ball->width = width;
        ball->contact = q;
    }
}

FN void shrink_by_all(const sdf_wall_thickness_args& a, WallBall* ball) {
    if (a.triangles == 1 || !may_oppose(a, 0, ball->way)) return;
    u32 stack[SDF_STACK];  // one postponed sibling per step
    int depth = 0;
    stack[depth++] = 0;
    double share = 1.0;
    for (u32 visited = 0; depth > 0; visited++) {
        if (visited == SDF_WALL_NODES) share = 1.0 - SDF_WALL_SLACK;
        u32 node = stack[--depth];
        if (!reaches(*ball, box_distance_sq(centre_of(*ball), a.mesh.box + 6 * (size_t)node), share)) continue;
        u32 child[2] = {a.mesh.child[2 * (size_t)node], a.mesh.child[2 * (size_t)node + 1]};
        double distance[2] = {SDF_CAST_FAR, SDF_CAST_FAR};
        for (int k = 0; k < 2; k++)
            if (is_leaf(child[k]) && opposes(a, leaf_index(child[k]), ball->way)) shrink(a, leaf_index(child[k]), ball);
        for (int k = 0; k < 2; k++)  // from the same centre
            if (!is_leaf(child[k]) && may_oppose(a, child[k], ball->way))
                distance[k] = box_distance_sq(centre_of(*ball), a.mesh.box + 6 * (size_t)child[k]);
        int later = distance[0] < distance[1];
        if (reaches(*ball, distance[later], share)) stack[depth++] = child[later];
        if (reaches(*ball, distance[1 - later], share)) stack[depth++] = child[1 - later];
    }
}

// The first triangle through which a ray from a point leaves the solid, before `*t`, which becomes its ray parameter;
// SDF_NONE for none. way: a unit vector.
FN u32 first_exit(const Shapes& mesh, D3 point, D3 way, double* t) {
    u32 found = SDF_NONE;
    CubeRay ray = ray_in_cube(mesh, point, way);
    Met best = {*t, SDF_NONE, way};
    walk_along(mesh, ray, best, [&](u32 slot) {
        const float* corner = mesh.triangle + 9 * (size_t)slot;
        D3 one = load3d(corner) - point, two = load3d(corner + 3) - point, three = load3d(corner + 6) - point;
        double u = dot(way, cross(three, two)), v = dot(way, cross(one, three)), w = dot(way, cross(two, one));
        double sum = u + v + w;  // negative: the normal points along the ray
        if (!(u <= 0.0 && v <= 0.0 && w <= 0.0 && sum < 0.0)) return;
        double at = (u * dot(one, way) + v * dot(two, way) + w * dot(three, way)) / sum;
        if (at < -SDF_WALL_TOUCH) return;
        at = max_of(at, 0.0);
        u32 id = mesh.triangle_id[slot];
        if (at > best.t || (at == best.t && id > best.id)) return;
        best.t = at;
        best.id = id;
        found = slot;
    });
    *t = best.t;
    return found;
}

// Whether the contact is seen from the point through the solid. Else the ball has left the solid, and has met another
// part of the mesh.
FN bool sees_contact(const Shapes& mesh, const WallBall& ball) {
    D3 across = ball.contact - ball.point;
    double length = sqrt(dot(across, across)), t = (1.0 - SDF_WALL_NEARLY) * length - SDF_WALL_TOUCH;
    return t <= 0.0 || first_exit(mesh, ball.point, (1.0 / length) * across, &t) == SDF_NONE;
}

SDF_KERNEL(sdf_wall_thickness, PLAIN, i) {
    D3 point = load3(a.point + 3 * (size_t)i), normal = load3(a.normal + 3 * (size_t)i), way = -1.0 * normal;
    double opposite = SDF_CAST_FAR, thickness = SDF_CAST_FAR;
    if (dot(normal, normal) > 0.0) {
        u32 slot = first_exit(a.mesh, point, way, &opposite);
        if (slot != SDF_NONE && opposes(a, slot, way)) thickness = opposite;
        double width = min_of(thickness, SDF_WALL_WIDEST);
        WallBall ball = {point, way, width, point};
        shrink_by_all(a, &ball);
        if (ball.width < width && sees_contact(a.mesh, ball)) thickness = ball.width;
    }
    a.opposite[i] = opposite;
    a.thickness[i] = thickness;
}

#endif
