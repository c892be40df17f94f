// Sharp edges and corners in a surface from marching cubes, from the mesh's nearest triangles:
// docs/internals/sharp.md.
//
// Each vertex moves along its grid edge onto the plane of its nearest triangle, its SIDE of an edge. Where the sides of
// a triangle's ends differ by more than an angle, the triangle's edge is split on the line where their planes meet, and
// at most one corner is placed in each triangle, where three planes meet. Triangles are only subdivided, so a closed
// manifold stays one.
//
// INTERFACE
//   sdf_sharp_ends, sdf_sharp_slide, sdf_sharp_seat, sdf_sharp_seat_off   vertices onto the mesh
//   sdf_sharp_flags, sdf_sharp_keys     edges whose sides differ
//   sdf_sharp_lines                     where both planes meet
//   sdf_sharp_corners, sdf_sharp_chosen the same where a third plane cuts the line off
//   sdf_sharp_touched, sdf_sharp_centres, sdf_sharp_counts   triangles that are subdivided, and their corners
//   sdf_sharp_plain, sdf_sharp_pieces   the faces
#ifndef SDFCLI_SURFACE_SHARP_H
#define SDFCLI_SURFACE_SHARP_H
#include "base/kernel.h"
#include "base/search.h"
#include "geometry/triangle.h"

#define SDF_SHARP_STEEP 0.02   // smallest cosine between a grid edge and a plane's normal for their crossing to count
#define SDF_SHARP_END 1e-3     // least distance of a vertex from a node, in cells
#define SDF_SHARP_INNER 0.3    // the same where a grid edge misses the mesh
#define SDF_SHARP_ALIKE 0.9    // cosine up to which a triangle belongs to another one's side
#define SDF_SHARP_FLAT 1e-4    // squared sine of two planes' angle, below which they do not meet
#define SDF_SHARP_DET 0.05     // determinant of three unit normals, below which their planes have no corner
#define SDF_SHARP_BEND 1e-3    // the same for a bend in an edge
#define SDF_SHARP_REACH 1.5    // largest distance of a new vertex from its edge's middle, in edge lengths
#define SDF_SHARP_ONWARD 0.02  // how far behind a corner its edge must go on, in cells
#define SDF_SHARP_NEAR 0.01    // distance from the mesh at which a new vertex is moved onto it, in cells

enum SharpSeat { SEAT_ON, SEAT_OFF, SEAT_LOST };  // on its grid edge; off it, on the mesh; far from the mesh
enum SharpSplit { SPLIT_NONE, SPLIT_EDGE, SPLIT_TRIAL, SPLIT_CORNER = SDF_SPLIT_CORNER };

struct SharpMesh {
    const double* corner;  // [corners, 3] the mesh's vertices
    const u32* triangle;   // [triangles, 3]
    double cell;           // edge of the grid's cells
    double slack;          // distance from the mesh up to which a point counts as on it
    double cosine;         // of the largest angle that is smooth
};
struct SharpPlane {
    D3 at, normal;  // of unit length, or 0
};
FN D3 corner_of(const SharpMesh& mesh, u32 face, int k) {
    return load3(mesh.corner + 3 * (size_t)mesh.triangle[3 * (size_t)face + k]);
}
FN SharpPlane plane_of_face(const SharpMesh& mesh, u32 face) {
    D3 p = corner_of(mesh, face, 0), n = cross(corner_of(mesh, face, 1) - p, corner_of(mesh, face, 2) - p);
    double length = sqrt_of(dot(n, n));
    return {p, (length > 0 ? 1.0 / length : 0.0) * n};
}
// A side is 2 x face, plus 1 if the normal is reversed.
FN SharpPlane plane_of_side(const SharpMesh& mesh, u32 side) {
    SharpPlane plane = plane_of_face(mesh, side / 2);
    if (side & 1) plane.normal = -1.0 * plane.normal;
    return plane;
}
FN u32 side_facing(const SharpMesh& mesh, u32 face, D3 outward) {
    return 2 * face + (dot(plane_of_face(mesh, face).normal, outward) < 0);
}
FN D3 nearest_on_face(const SharpMesh& mesh, u32 face, D3 p) {
    return nearest_on_triangle(p, corner_of(mesh, face, 0), corner_of(mesh, face, 1), corner_of(mesh, face, 2)).point;
}
FN double& along(D3& p, u32 axis) { return axis == 0 ? p.x : axis == 1 ? p.y : p.z; }

// ---- Vertices ----

struct sdf_sharp_ends_args {
    u32 n;                 // vertices
    const double* frame;   // [6] the grid's
    const double* vertex;  // [n, 3]
    u8* axis;              // [n] out: of the vertex's grid edge
    double* ends;          // [n, 6] out: its ends, the lower one first
};
SDF_KERNEL(sdf_sharp_ends, PLAIN, i) {
    double low[3], most = -1;
    u32 axis = 0;
    for (u32 k = 0; k < 3; k++) {
        double steps = (a.vertex[3 * (size_t)i + k] - a.frame[k]) / a.frame[3 + k];
        double away = abs_of(steps - floor(steps + 0.5));
        if (away > most) most = away, axis = k;
        low[k] = steps;
    }
    for (u32 k = 0; k < 3; k++) {
        double step = k == axis ? floor(low[k]) : floor(low[k] + 0.5);
        a.ends[6 * (size_t)i + k] = a.frame[k] + a.frame[3 + k] * step;
        a.ends[6 * (size_t)i + 3 + k] = a.frame[k] + a.frame[3 + k] * (step + (k == axis));
    }
    a.axis[i] = (u8)axis;
}

struct sdf_sharp_slide_args {
    u32 n;
    SharpMesh mesh;
    const u8* axis;      // [n]
    const double* ends;  // [n, 6]
    const u32* face;     // [n] nearest to `at`
    double* at;          // [n, 3] in and out: where the grid edge crosses the face's plane
};
SDF_KERNEL(sdf_sharp_slide, PLAIN, i) {
    SharpPlane plane = plane_of_face(a.mesh, a.face[i]);
    u32 axis = a.axis[i];
    double slope = along(plane.normal, axis);
    if (abs_of(slope) <= SDF_SHARP_STEEP) return;
    double* at = a.at + 3 * (size_t)i;
    double low = a.ends[6 * (size_t)i + axis], clear = SDF_SHARP_END * a.mesh.cell;
    double there = at[axis] + dot(plane.at - load3(at), plane.normal) / slope;
    at[axis] = min_of(max_of(there, low + clear), low + a.mesh.cell - clear);
}

FN D3 outward_along(u32 axis, const double* value) {  // from a grid edge's inside end to the other
    D3 r = {0, 0, 0};
    along(r, axis) = value[0] < value[1] ? 1.0 : -1.0;
    return r;
}

struct sdf_sharp_seat_args {
    u32 n;
    SharpMesh mesh;
    const u8* axis;       // [n]
    const double* ends;   // [n, 6]
    const double* value;  // [n, 2] the field at both ends
    const u32* face;      // [n] nearest to `at`
    double* at;           // [n, 3] in and out: further from the nodes if not on the mesh
    u32* side;            // [n] out
    u8* seat;             // [n] out
};
SDF_KERNEL(sdf_sharp_seat, PLAIN, i) {
    double* at = a.at + 3 * (size_t)i;
    D3 p = load3(at);
    a.side[i] = side_facing(a.mesh, a.face[i], outward_along(a.axis[i], a.value + 2 * (size_t)i));
    a.seat[i] = SEAT_ON;
    if (length_of(nearest_on_face(a.mesh, a.face[i], p) - p) <= a.mesh.slack) return;
    u32 axis = a.axis[i];
    double low = a.ends[6 * (size_t)i + axis], clear = SDF_SHARP_INNER * a.mesh.cell;
    at[axis] = min_of(max_of(at[axis], low + clear), low + a.mesh.cell - clear);
    a.seat[i] = SEAT_OFF;
}

struct sdf_sharp_seat_off_args {
    u32 n;  // vertices that are off their grid edge
    SharpMesh mesh;
    const u32* list;       // [n]
    const u32* face;       // [n] nearest to them
    const double* vertex;  // [vertices, 3] before they were moved
    double* at;            // [vertices, 3] in and out: the nearest points
    u32* side;             // [vertices] out
    u8* seat;              // [vertices] out
};
SDF_KERNEL(sdf_sharp_seat_off, PLAIN, i) {
    u32 v = a.list[i];
    double* at = a.at + 3 * (size_t)v;
    D3 p = load3(at), q = nearest_on_face(a.mesh, a.face[i], p);
    a.side[v] = 2 * a.face[i];
    bool lost = !(length_of(q - p) < a.mesh.cell);
    store3(at, lost ? load3(a.vertex + 3 * (size_t)v) : q);
    a.seat[v] = lost ? SEAT_LOST : SEAT_OFF;
}

// ---- Edges ----

FN bool sides_differ(const SharpMesh& mesh, const u32* side, const u8* seat, u32 one, u32 two) {
    return seat[one] != SEAT_LOST && seat[two] != SEAT_LOST &&
           dot(plane_of_side(mesh, side[one]).normal, plane_of_side(mesh, side[two]).normal) < mesh.cosine;
}
FN u32 half_edge_end(const u32* face, u32 i) { return face[i % 3 == 2 ? i - 2 : i + 1]; }

struct sdf_sharp_flags_args {
    u32 n;  // half-edges
    SharpMesh mesh;
    const u32* face;  // [n] of the surface
    const u32* side;  // [vertices]
    const u8* seat;   // [vertices]
    u8* flag;         // [n] out: 1 for the half-edge of each such edge that runs to the larger vertex
};
SDF_KERNEL(sdf_sharp_flags, PLAIN, i) {
    u32 start = a.face[i], end = half_edge_end(a.face, i);
    a.flag[i] = start < end && sides_differ(a.mesh, a.side, a.seat, start, end);
}

struct sdf_sharp_keys_args {
    u32 n;
    const u32* list;  // [n] half-edges
    const u32* face;  // [half_edges]
    u64* key;         // [n] out: start << 32 | end
};
SDF_KERNEL(sdf_sharp_keys, PLAIN, i) {
    u32 half_edge = a.list[i];
    a.key[i] = (u64)a.face[half_edge] << 32 | half_edge_end(a.face, half_edge);
}

struct SharpEdges {
    const u64* key;    // [edges] sorted
    const double* at;  // [vertices, 3]
    const u32* own;    // [vertices] their sides
};
struct EdgeEnds {
    u32 start, end;
    D3 from, to;
    METHOD D3 middle() const { return 0.5 * (from + to); }
    METHOD bool reaches(D3 p) const { return length_of(p - middle()) < SDF_SHARP_REACH * length_of(to - from); }
};
FN EdgeEnds ends_of(const SharpEdges& edges, u32 i) {
    u32 start = (u32)(edges.key[i] >> 32), end = (u32)edges.key[i];
    return {start, end, load3(edges.at + 3 * (size_t)start), load3(edges.at + 3 * (size_t)end)};
}

struct SharpLine {
    D3 at, direction;
    bool meets;
};
// Where two planes meet, and on this line the point where the edge, bent around it, crosses it: triangles that are
// split there do not fold.
FN SharpLine meet(const SharpPlane& one, const SharpPlane& two, const EdgeEnds& ends) {
    D3 m = ends.middle(), d = cross(one.normal, two.normal);
    double square = dot(d, d), between = dot(one.normal, two.normal);
    if (!(square > SDF_SHARP_FLAT)) return {m, d, false};
    double r = dot(one.at - m, one.normal), s = dot(two.at - m, two.normal);
    D3 o = m + ((r - between * s) / square) * one.normal + ((s - between * r) / square) * two.normal;
    d = (1.0 / sqrt_of(square)) * d;
    double t = dot(ends.from - o, d), u = dot(ends.to - o, d);
    double from = length_of(ends.from - o - t * d), to = length_of(ends.to - o - u * d), both = from + to;
    return {o + (both > 0 ? (t * to + u * from) / both : 0.5 * (t + u)) * d, d, true};
}

struct sdf_sharp_lines_args {
    u32 n;
    SharpMesh mesh;
    SharpEdges edges;
    const u32* found;  // [n, 2] faces nearest to `near`: new sides, if they belong to the old ones; may be null
    double share;      // place of `near` on the way from the line to the edge's ends
    u32* pair;         // [n, 2] in and out: both sides
    double* x;         // [n, 3] out: on both planes
    double* near;      // [n, 6] out: beside it, on both sides
    u8* meets;         // [n] out
};
SDF_KERNEL(sdf_sharp_lines, PLAIN, i) {
    EdgeEnds ends = ends_of(a.edges, i);
    u32* pair = a.pair + 2 * (size_t)i;
    for (u32 k = 0; k < 2; k++) {
        u32 own = a.edges.own[k ? ends.end : ends.start];
        if (!a.found) {
            pair[k] = own;
            continue;
        }
        D3 outward = plane_of_side(a.mesh, own).normal;
        u32 side = side_facing(a.mesh, a.found[2 * (size_t)i + k], outward);
        if (dot(plane_of_side(a.mesh, side).normal, outward) > SDF_SHARP_ALIKE) pair[k] = side;
    }
    SharpLine line = meet(plane_of_side(a.mesh, pair[0]), plane_of_side(a.mesh, pair[1]), ends);
    store3(a.x + 3 * (size_t)i, line.at);
    store3(a.near + 6 * (size_t)i, line.at + a.share * (ends.from - line.at));
    store3(a.near + 6 * (size_t)i + 3, line.at + a.share * (ends.to - line.at));
    a.meets[i] = line.meets;
}

struct sdf_sharp_corners_args {
    u32 n;
    SharpMesh mesh;
    SharpEdges edges;
    const u32* pair;  // [n, 2]
    const u8* meets;  // [n]
    const u32* face;  // [n] nearest to x
    double* x;        // [n, 3] in and out
    double* trial;    // [n, 6] out: a corner that cuts the line off before x, and a point of the line beyond it
    u8* split;        // [n] out
};
SDF_KERNEL(sdf_sharp_corners, PLAIN, i) {
    EdgeEnds ends = ends_of(a.edges, i);
    SharpPlane one = plane_of_side(a.mesh, a.pair[2 * (size_t)i]),
               two = plane_of_side(a.mesh, a.pair[2 * (size_t)i + 1]);
    D3 x = load3(a.x + 3 * (size_t)i), q = nearest_on_face(a.mesh, a.face[i], x);
    double away = length_of(q - x);
    a.split[i] = SPLIT_NONE;
    store3(a.trial + 6 * (size_t)i, q);
    store3(a.trial + 6 * (size_t)i + 3, q);
    if (!a.meets[i] || dot(one.normal, two.normal) >= a.mesh.cosine) return;
    if (away <= a.mesh.slack && ends.reaches(x)) {
        a.split[i] = SPLIT_EDGE;
        return;
    }
    SharpPlane third = plane_of_face(a.mesh, a.face[i]);
    D3 d = cross(one.normal, two.normal);
    d = (1.0 / length_of(d)) * d;
    double slope = dot(d, third.normal);
    double alike = max_of(abs_of(dot(one.normal, third.normal)), abs_of(dot(two.normal, third.normal)));
    if (away > a.mesh.slack && alike < a.mesh.cosine && abs_of(slope) > SDF_SHARP_DET) {
        double t = dot(third.at - x, third.normal) / slope;
        D3 corner = x + t * d;
        if (!ends.reaches(corner)) return;
        double on = (t < 0 ? -SDF_SHARP_ONWARD : SDF_SHARP_ONWARD) * a.mesh.cell;
        store3(a.trial + 6 * (size_t)i, corner);
        store3(a.trial + 6 * (size_t)i + 3, corner + on * d);
        a.split[i] = SPLIT_TRIAL;
    } else if (away <= SDF_SHARP_NEAR * a.mesh.cell && ends.reaches(q)) {
        store3(a.x + 3 * (size_t)i, q);
        a.split[i] = SPLIT_EDGE;
    }
}

// The corner itself, or a point of the line shortly behind it: in order of the points before it.
struct sdf_sharp_chosen_args {
    u32 n;
    SharpMesh mesh;
    const double* trial;  // [n, 6]
    const u32* face;      // [n, 2] nearest to them
    double* x;            // [n, 3] in and out
    u8* split;            // [n] in and out
};
SDF_KERNEL(sdf_sharp_chosen, PLAIN, i) {
    if (a.split[i] != SPLIT_TRIAL) return;
    D3 x = load3(a.x + 3 * (size_t)i), corner = load3(a.trial + 6 * (size_t)i), on = load3(a.trial + 6 * (size_t)i + 3);
    const u32* face = a.face + 2 * (size_t)i;
    bool there = length_of(nearest_on_face(a.mesh, face[0], corner) - corner) <= a.mesh.slack;
    bool onward = length_of(nearest_on_face(a.mesh, face[1], on) - on) <= a.mesh.slack;
    double step = SDF_SHARP_ONWARD * a.mesh.cell;
    if (there)
        store3(a.x + 3 * (size_t)i, onward ? corner + step / (step + length_of(corner - x)) * (on - corner) : corner);
    a.split[i] = !there ? SPLIT_NONE : onward ? SPLIT_EDGE : SPLIT_CORNER;
}

// ---- Triangles ----

struct SharpSplits {
    u32 edges;
    SharpEdges edge;
    const u8* split;    // [edges]
    const double* x;    // [edges, 3]
    const u32* pair;    // [edges, 2]
    const u32* number;  // [edges] vertex, if split
};
FN u32 split_between(const SharpSplits& splits, u32 one, u32 two) {  // an index into the edges, or SDF_NONE
    u64 key = (u64)min_of(one, two) << 32 | max_of(one, two);
    u32 at = lower_bound(splits.edge.key, splits.edges, key);
    return at < splits.edges && splits.edge.key[at] == key && splits.split[at] != SPLIT_NONE ? at : SDF_NONE;
}

struct sdf_sharp_touched_args {
    u32 n;  // faces
    SharpMesh mesh;
    const u32* face;  // [n, 3]
    const u32* side;  // [vertices]
    const u8* seat;   // [vertices]
    u8* flag;         // [n] out: 1 if two sides differ
};
SDF_KERNEL(sdf_sharp_touched, PLAIN, i) {
    const u32* corner = a.face + 3 * (size_t)i;
    a.flag[i] = sides_differ(a.mesh, a.side, a.seat, corner[0], corner[1]) ||
                sides_differ(a.mesh, a.side, a.seat, corner[1], corner[2]) ||
                sides_differ(a.mesh, a.side, a.seat, corner[2], corner[0]);
}

FN bool same_plane(const SharpMesh& mesh, const SharpPlane& one, const SharpPlane& two) {
    return abs_of(dot(one.normal, two.normal)) > 1.0 - 1e-9 && abs_of(dot(two.at - one.at, one.normal)) <= mesh.slack;
}
FN SharpPlane plane_at(const SharpMesh& mesh, const SharpSplits& splits, u32 edge, u32 vertex) {  // of this end
    return plane_of_side(mesh, splits.pair[2 * (size_t)edge + ((u32)(splits.edge.key[edge] >> 32) != vertex)]);
}
FN u32 cuts_of(const u32* cut) { return (cut[0] != SDF_NONE) + (cut[1] != SDF_NONE) + (cut[2] != SDF_NONE); }
// A face with two split edges: its corner between them and the ends of its whole edge, with the splits towards these.
struct TwoCuts {
    u32 top, b, c, to_b, to_c;
};
FN TwoCuts two_cuts(const u32* corner, const u32* cut) {
    u32 whole = cut[0] == SDF_NONE ? 0 : cut[1] == SDF_NONE ? 1 : 2, next = (whole + 1) % 3, last = (whole + 2) % 3;
    return {corner[last], corner[whole], corner[next], cut[last], cut[next]};
}
// Where three planes meet; false if they hardly do.
FN bool meet(const SharpPlane* plane, D3 near, double least, D3* out) {
    D3 yz = cross(plane[1].normal, plane[2].normal), zx = cross(plane[2].normal, plane[0].normal),
       xy = cross(plane[0].normal, plane[1].normal);
    double det = dot(plane[0].normal, yz);
    if (!(abs_of(det) > least)) return false;
    double r[3];
    for (int k = 0; k < 3; k++) r[k] = dot(plane[k].at - near, plane[k].normal);
    *out = near + (1.0 / det) * (r[0] * yz + r[1] * zx + r[2] * xy);
    return true;
}

struct sdf_sharp_centres_args {
    u32 n;  // touched faces
    SharpMesh mesh;
    SharpSplits splits;
    const u32* list;  // [n]
    const u32* face;  // [faces, 3]
    const u8* seat;   // [vertices]
    u32* cut;         // [n, 3] out: the splits of its edges; SDF_NONE for none
    double* centre;   // [n, 3] out: where three planes meet
    u8* has;          // [n] out: 1 if they do
};
SDF_KERNEL(sdf_sharp_centres, PLAIN, i) {
    const u32* corner = a.face + 3 * (size_t)a.list[i];
    u32* cut = a.cut + 3 * (size_t)i;
    D3 p[3];
    bool lost = false;
    for (u32 k = 0; k < 3; k++) {
        cut[k] = split_between(a.splits, corner[k], corner[(k + 1) % 3]);
        p[k] = load3(a.splits.edge.at + 3 * (size_t)corner[k]);
        lost |= a.seat[corner[k]] == SEAT_LOST;
    }
    D3 middle = (1.0 / 3.0) * (p[0] + p[1] + p[2]), found = middle;
    SharpPlane plane[3];
    u32 cuts = cuts_of(cut);
    bool has = false;
    if (cuts == 3) {
        for (u32 k = 0; k < 3; k++) plane[k] = plane_at(a.mesh, a.splits, cut[k], corner[k]);
        has = meet(plane, middle, SDF_SHARP_BEND, &found);
        for (u32 k = 0; k < 3; k++)
            has = has && length_of(load3(a.splits.x + 3 * (size_t)cut[k]) - found) > SDF_SHARP_END * a.mesh.cell;
    } else if (cuts == 2) {  // an edge that bends: one of its two planes changes
        TwoCuts t = two_cuts(corner, cut);
        SharpPlane one = plane_at(a.mesh, a.splits, t.to_b, t.top), two = plane_at(a.mesh, a.splits, t.to_b, t.b);
        SharpPlane other = plane_at(a.mesh, a.splits, t.to_c, t.top), last = plane_at(a.mesh, a.splits, t.to_c, t.c);
        bool same_top = same_plane(a.mesh, one, other), same_below = same_plane(a.mesh, two, last);
        plane[0] = one, plane[1] = two, plane[2] = same_top ? last : other;
        has = same_top != same_below && meet(plane, middle, SDF_SHARP_BEND, &found);
        D3 from = load3(a.splits.x + 3 * (size_t)t.to_b), way = load3(a.splits.x + 3 * (size_t)t.to_c) - from;
        double place = dot(found - from, way), all = dot(way, way);
        has = has && place > SDF_SHARP_END * all && place < (1.0 - SDF_SHARP_END) * all;
    } else if (cuts == 0 && !lost) {  // an apex
        for (u32 k = 0; k < 3; k++) plane[k] = plane_of_side(a.mesh, a.splits.edge.own[corner[k]]);
        has = meet(plane, middle, SDF_SHARP_DET, &found);
    }
    has = has && length_of(found - middle) < 2.0 * a.mesh.cell;
    a.has[i] = has;
    store3(a.centre + 3 * (size_t)i, has ? found : middle);
}

struct sdf_sharp_counts_args {
    u32 n;
    SharpMesh mesh;
    const u32* cut;        // [n, 3]
    const double* centre;  // [n, 3]
    const u32* face;       // [n] nearest to it
    u8* has;               // [n] in and out: 0 if it is not on the mesh
    u32* pieces;           // [n] out: triangles
};
SDF_KERNEL(sdf_sharp_counts, PLAIN, i) {
    D3 p = load3(a.centre + 3 * (size_t)i);
    a.has[i] = a.has[i] && length_of(nearest_on_face(a.mesh, a.face[i], p) - p) <= a.mesh.slack;
    a.pieces[i] = cuts_of(a.cut + 3 * (size_t)i) + (a.has[i] ? 3 : 1);
}

struct sdf_sharp_plain_args {
    u32 n;             // faces
    const u32* face;   // [n, 3]
    const u8* flag;    // [n] 1: touched
    const u32* first;  // [n + 1]
    u32* out;          // [triangles, 3] out: the others
};
SDF_KERNEL(sdf_sharp_plain, PLAIN, i) {
    if (a.flag[i]) return;
    for (u32 k = 0; k < 3; k++) a.out[3 * (size_t)a.first[i] + k] = a.face[3 * (size_t)i + k];
}

struct sdf_sharp_pieces_args {
    u32 n;  // touched faces
    SharpMesh mesh;
    SharpSplits splits;
    const u32* list;       // [n]
    const u32* face;       // [faces, 3]
    const u32* first;      // [faces + 1]
    const u32* cut;        // [n, 3]
    const u8* has;         // [n]
    const u32* number;     // [n] the centre's vertex
    const double* vertex;  // [vertices, 3] all
    u32* out;              // [triangles, 3] out
    u32* folded;           // [1] in and out: triangles that face away from their side
};
SDF_KERNEL(sdf_sharp_pieces, PLAIN, i) {
    const u32 *corner = a.face + 3 * (size_t)a.list[i], *cut = a.cut + 3 * (size_t)i;
    u32 ring[6], size = 0, first = 0, pivot = SDF_NONE, cuts = cuts_of(cut);
    u32* out = a.out + 3 * (size_t)a.first[a.list[i]];
    u32* start = out;
    auto add = [&](u32 x, u32 y, u32 z) {
        out[0] = x, out[1] = y, out[2] = z;
        out += 3;
    };
    for (u32 k = 0; k < 3; k++) {
        ring[size++] = corner[k];
        if (cut[k] == SDF_NONE) continue;
        if (a.splits.split[cut[k]] == SPLIT_CORNER && pivot == SDF_NONE) pivot = size;
        if (size == k + 1) first = size;  // no split before it
        ring[size++] = a.splits.number[cut[k]];
    }
    if (a.has[i]) {
        for (u32 k = 0; k < size; k++) add(a.number[i], ring[k], ring[(k + 1) % size]);
    } else if (cuts == 0) {
        add(corner[0], corner[1], corner[2]);
    } else if (cuts == 1) {
        add(ring[first], ring[(first + 1) % 4], ring[(first + 2) % 4]);
        add(ring[first], ring[(first + 2) % 4], ring[(first + 3) % 4]);
    } else if (cuts == 2) {
        TwoCuts t = two_cuts(corner, cut);
        u32 to_b = a.splits.number[t.to_b], to_c = a.splits.number[t.to_c];
        D3 across = load3(a.vertex + 3 * (size_t)to_b) - load3(a.vertex + 3 * (size_t)t.c);
        D3 other = load3(a.vertex + 3 * (size_t)to_c) - load3(a.vertex + 3 * (size_t)t.b);
        add(t.top, to_b, to_c);
        if (dot(across, across) <= dot(other, other)) {
            add(to_b, t.b, t.c);
            add(to_b, t.c, to_c);
        } else {
            add(to_b, t.b, to_c);
            add(t.b, t.c, to_c);
        }
    } else if (pivot != SDF_NONE) {
        for (u32 k = 1; k < 5; k++) add(ring[pivot], ring[(pivot + k) % 6], ring[(pivot + k + 1) % 6]);
    } else {
        for (u32 k = 0; k < 3; k++) add(ring[2 * k], ring[2 * k + 1], ring[(2 * k + 5) % 6]);
        add(ring[1], ring[3], ring[5]);
    }
    u32 folded = 0;
    for (const u32* t = start; t != out; t += 3) {
        D3 p = load3(a.vertex + 3 * (size_t)t[0]);
        D3 normal = cross(load3(a.vertex + 3 * (size_t)t[1]) - p, load3(a.vertex + 3 * (size_t)t[2]) - p);
        for (u32 k = 0; k < 3; k++) {
            u32 own = t[k] == corner[0] || t[k] == corner[1] || t[k] == corner[2];
            if (!own) continue;
            folded += dot(normal, plane_of_side(a.mesh, a.splits.edge.own[t[k]]).normal) < 0;
            break;
        }
    }
    if (folded) atomic_add(a.folded, folded);
}

#endif
