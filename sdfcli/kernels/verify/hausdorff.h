// How far the points of one mesh may be from another: bounds over parts of its faces (docs/internals/hausdorff.md).
//
// COORDINATES are float64, scaled so that both meshes lie within 1 of the origin.
//
// INTERFACE
//   PatchTarget         the other mesh
//   sdf_patch_near      distances of points to given faces of it
//   sdf_patch_bound     bounds of the distance over triangles
//   sdf_patch_split     parts of triangles whose bound is too large
//   sdf_patch_exact     the distance of one point to all faces
#ifndef SDFCLI_VERIFY_HAUSDORFF_H
#define SDFCLI_VERIFY_HAUSDORFF_H
#include "verify/exact.h"

#define SDF_PATCH_FAR 1.7976931348623157e308

struct PatchTarget {
    u32 vertices;
    u32 faces;
    const double* vertex;  // [vertices, 3]
    const u32* face;       // [faces, 3]
    double slack;          // exceeds the rounding error of a distance and of a part's corners
};
struct PatchFace {
    D3 a, b, c;
};
FN PatchFace patch_face(const PatchTarget& target, u32 number) {
    const u32* corner = target.face + 3 * (size_t)number;
    PatchFace face = {load3(target.vertex + 3 * (size_t)corner[0]), load3(target.vertex + 3 * (size_t)corner[1]),
                      load3(target.vertex + 3 * (size_t)corner[2])};
    return face;
}
FN double patch_distance(D3 p, const PatchFace& f) { return sqrt(exact_triangle_distance_sq(p, f.a, f.b, f.c)); }
FN bool same_point(D3 p, D3 q) { return p.x == q.x && p.y == q.y && p.z == q.z; }

// The distance from above. At a corner it is 0 without rounding: equal faces have the distance 0.
FN double patch_distance_above(const PatchTarget& target, D3 p, const PatchFace& f) {
    if (same_point(p, f.a) || same_point(p, f.b) || same_point(p, f.c)) return 0.0;
    return patch_distance(p, f) + target.slack;
}

struct sdf_patch_near_args {
    u32 n;
    const double* points;  // [n, 3]
    const u32* near;       // [n] a face
    PatchTarget target;
    double* distance;  // [n] out
};
SDF_KERNEL(sdf_patch_near, PLAIN, i) {
    a.distance[i] = patch_distance(load3(a.points + 3 * (size_t)i), patch_face(a.target, a.near[i]));
}

struct sdf_patch_bound_args {
    u32 n;
    u32 candidates;        // at most 4
    const double* corner;  // [n, 9] triangles
    const u32* near;       // [n, candidates] nearby faces: with `found`, the centroid's first; else the corners', 3
    const double* above;   // [n] a known bound; null: none
    double limit;          // a bound within it is not improved
    PatchTarget target;
    double* found;  // [n] out: distance of the centroid to the first face; null: not needed
    double* bound;  // [n] out: no point of the triangle is farther from the target
    double* size;   // [n] out: longest edge
};
SDF_KERNEL(sdf_patch_bound, PLAIN, i) {
    D3 corner[3], middle;
    for (int c = 0; c < 3; c++) corner[c] = load3(a.corner + 9 * (size_t)i + 3 * c);
    const u32* near = a.near + (size_t)a.candidates * i;
    double edge[3], way[3];  // edge[c] is opposite to corner c; way[c] is the longest from it
    for (int c = 0; c < 3; c++) edge[c] = length_of(corner[(c + 1) % 3] - corner[(c + 2) % 3]);
    for (int c = 0; c < 3; c++) way[c] = max_of(edge[(c + 1) % 3], edge[(c + 2) % 3]);
    double bound = a.above ? a.above[i] : SDF_PATCH_FAR;
    // Along a way, the distance changes by at most its length.
    if (a.found) {
        middle = (1.0 / 3.0) * (corner[0] + corner[1] + corner[2]);
        double d = patch_distance(middle, patch_face(a.target, near[0])), reach = 0.0;
        for (int c = 0; c < 3; c++) reach = max_of(reach, length_of(middle - corner[c]));
        a.found[i] = d;
        bound = min_of(bound, d + reach + 2.0 * a.target.slack);
    } else {
        for (int c = 0; c < 3; c++)
            bound =
                min_of(bound, patch_distance(corner[c], patch_face(a.target, near[c])) + way[c] + 2.0 * a.target.slack);
    }
    for (u32 k = 0; k < a.candidates && bound > a.limit; k++) {
        if (k > 0 && near[k] == near[k - 1]) continue;
        PatchFace face = patch_face(a.target, near[k]);
        double largest = 0.0;  // the distance to one face is convex: it is largest at a corner
        for (int c = 0; c < 3; c++) largest = max_of(largest, patch_distance_above(a.target, corner[c], face));
        bound = min_of(bound, largest);
    }
    a.bound[i] = bound;
    a.size[i] = max_of(edge[0], way[0]);
}

// ---- Parts of a triangle ----

#define SDF_PATCH_CORNERS 6
#define SDF_PATCH_MARGIN 1e-9  // minimum way from a centroid to a prism's sides, in the face's longest edge

struct Polygon {
    int corners;
    D3 at[SDF_PATCH_CORNERS];
};
FN void add_corner(Polygon& polygon, D3 p) {
    if (polygon.corners < SDF_PATCH_CORNERS) polygon.at[polygon.corners] = p;
    polygon.corners++;
}

// Cuts a convex polygon along the plane normal . x = height. The two parts have the cut's ends in common, so together
// they cover the polygon. False if rounding has left no two parts.
FN bool cut_polygon(const Polygon& whole, D3 normal, D3 on, Polygon& below, Polygon& above) {
    int changes = 0;
    below.corners = above.corners = 0;
    for (int k = 0; k < whole.corners; k++) {
        D3 p = whole.at[k], q = whole.at[(k + 1) % whole.corners];
        double s = dot(normal, p - on), t = dot(normal, q - on);
        if (s <= 0.0) add_corner(below, p);
        if (s > 0.0) add_corner(above, p);
        if ((s <= 0.0) == (t <= 0.0)) continue;
        D3 between = p + (s / (s - t)) * (q - p);
        changes++;
        add_corner(below, between);
        add_corner(above, between);
    }
    return changes <= 2 && below.corners <= SDF_PATCH_CORNERS && above.corners <= SDF_PATCH_CORNERS;
}

struct Parts {
    int count;
    double* corner;  // [SDF_PATCH_PARTS, 9]
};
FN void add_part(Parts& parts, D3 p, D3 q, D3 r) {
    if (parts.count < SDF_PATCH_PARTS) {
        double* out = parts.corner + 9 * parts.count;
        D3 corner[3] = {p, q, r};
        for (int c = 0; c < 3; c++) {
            out[3 * c] = corner[c].x;
            out[3 * c + 1] = corner[c].y;
            out[3 * c + 2] = corner[c].z;
        }
    }
    parts.count++;
}

// Cuts away the part of a triangle above or below a face, where that face is the nearest: its distance is convex, and
// its bound there at most `limit`. The rest is divided into triangles. False if that part is not bounded so, or empty.
FN bool cut_by_face(const PatchTarget& target, const D3* corner, D3 middle, const PatchFace& face, double limit,
                    Parts& parts, double* closed) {
    D3 f[3] = {face.a, face.b, face.c}, normal = cross(face.b - face.a, face.c - face.a);
    double longest_sq = 0.0, own_sq = 0.0;
    for (int k = 0; k < 3; k++) {
        longest_sq = max_of(longest_sq, dot(f[(k + 1) % 3] - f[k], f[(k + 1) % 3] - f[k]));
        own_sq = max_of(own_sq, dot(corner[(k + 1) % 3] - corner[k], corner[(k + 1) % 3] - corner[k]));
    }
    if (own_sq > 9.0 * longest_sq || !(dot(normal, normal) > 1e-16 * longest_sq * longest_sq)) return false;
    Polygon inside = {3, {corner[0], corner[1], corner[2]}}, below, above;
    for (int k = 0; k < 3; k++) {
        D3 out = cross(f[(k + 1) % 3] - f[k], normal);
        // Clearly inside: otherwise rounding may leave a part as large as the triangle, again and again.
        if (!(dot(out, middle - f[k]) < -SDF_PATCH_MARGIN * sqrt(dot(out, out) * longest_sq))) return false;
        if (!cut_polygon(inside, out, f[k], below, above)) return false;
        if (below.corners < 3) return false;
        for (int c = 1; c + 1 < above.corners; c++) add_part(parts, above.at[0], above.at[c], above.at[c + 1]);
        inside = below;
    }
    *closed = 0.0;
    for (int c = 0; c < inside.corners; c++)
        *closed = max_of(*closed, patch_distance_above(target, inside.at[c], face));
    return parts.count <= SDF_PATCH_PARTS && *closed <= limit;
}

struct sdf_patch_split_args {
    u32 n;
    const double* corner;  // [n, 9]
    const u32* near;       // [n, 2] the face nearest to the centroid first
    PatchTarget target;
    double limit;
    double* part;    // [n, 9, 9] out: SDF_PATCH_PARTS each
    u32* count;      // [n] out: parts
    double* closed;  // [n] out: bound for what is in no part
};
SDF_KERNEL(sdf_patch_split, PLAIN, i) {
    D3 corner[3];
    for (int c = 0; c < 3; c++) corner[c] = load3(a.corner + 9 * (size_t)i + 3 * c);
    D3 middle = (1.0 / 3.0) * (corner[0] + corner[1] + corner[2]);
    Parts parts = {0, a.part + 9 * SDF_PATCH_PARTS * (size_t)i};
    double closed = 0.0;
    PatchFace face = patch_face(a.target, a.near[2 * (size_t)i]);
    if (!cut_by_face(a.target, corner, middle, face, a.limit, parts, &closed)) {
        D3 half[3];  // half[c] is opposite to corner c
        for (int c = 0; c < 3; c++) half[c] = 0.5 * (corner[(c + 1) % 3] + corner[(c + 2) % 3]);
        parts.count = 0;
        closed = 0.0;
        for (int c = 0; c < 3; c++) add_part(parts, corner[c], half[(c + 2) % 3], half[(c + 1) % 3]);
        add_part(parts, half[0], half[1], half[2]);
    }
    a.count[i] = (u32)parts.count;
    a.closed[i] = closed;
}

// ---- One point ----

struct sdf_patch_exact_args {
    u32 n;  // runs of SDF_PATCH_RUN faces
    double x, y, z;
    double known;  // squared distance to some face
    PatchTarget target;
    double* distance_sq;  // [n] out: squared distance to the nearest face of a run, at most `known`
    u32* near;            // [n] out: that face; SDF_NONE if none is as near as `known`
};
SDF_KERNEL(sdf_patch_exact, PLAIN, i) {
    D3 p = vec(a.x, a.y, a.z);
    ExactHit best = {a.known, SDF_NONE};
    u32 last = min_of(a.target.faces, (i + 1) * SDF_PATCH_RUN);
    for (u32 k = i * SDF_PATCH_RUN; k < last; k++) {
        PatchFace face = patch_face(a.target, k);
        double t[9] = {face.a.x, face.a.y, face.a.z, face.b.x, face.b.y, face.b.z, face.c.x, face.c.y, face.c.z};
        if (exact_bounds_distance_sq(p, t) > best.distance_sq) continue;
        double distance_sq = exact_triangle_distance_sq(p, face.a, face.b, face.c);
        if (distance_sq < best.distance_sq || (distance_sq == best.distance_sq && best.triangle == SDF_NONE))
            best = {distance_sq, k};
    }
    a.distance_sq[i] = best.distance_sq;
    a.near[i] = best.triangle;
}

#endif
