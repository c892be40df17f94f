// Bounds on a field's error that hold everywhere in a cell: docs/internals/proof.md derives them.
//
// A cell is a leaf or one of its parts, an eighth of an eighth and so on, on which the field is trilinear, too. All
// lengths are in the coordinates of `surface` (verify/exact.h). phi is the exact signed distance, d its magnitude, f
// the field, m the cell's centre, rho the distance from there to the corners, e the rounding allowance.
//
// Four bounds of d, at points x of the cell:
//   corners   d^2 - |x|^2 is concave, so d >= sqrt(g^2 - Q), where g interpolates the distances at the corners
//   planes    the faces nearest to the cell's points lie in a ball B(m, R); each has a linear function that bounds its
//             distance from below; their minimum is concave
//   supports  if u.y <= h for all these faces, d >= u.x - h
//   faces     d is at most the distance to one face, which is convex: at most its interpolation from the corners
//
// The first three need phi's sign. A cell without faces has its centre's. Otherwise the part of the ball beyond a
// support has no faces and one sign, that of a witness in it, and bounds phi on both sides of the support.
//
// INTERFACE
//   sdf_proof_corners distances, nearest faces and signs at leaves' corners
//   sdf_proof_centres the same at leaves' centres
//   sdf_proof_cells   bounds cells' errors
//   sdf_proof_settle  decides which cells are split, and gives the others' bounds to their leaves
//   sdf_proof_split   the cells to split
#ifndef SDFCLI_VERIFY_PROVE_H
#define SDFCLI_VERIFY_PROVE_H
#include "geometry/lattice.h"
#include "geometry/triangle.h"
#include "verify/exact.h"

#define SDF_PROOF_INFINITE 1.7976931348623157e308
#define SDF_PROOF_UP 1.000000000001  // more than the relative rounding error of a few operations

// ---- Nodes around a cell ----

#define SDF_PROOF_NODES 32

// Nodes of the tree whose faces include all that meet a ball.
struct ProofNodes {
    u32 count;
    u32 node[SDF_PROOF_NODES];
};
FN ProofNodes nodes_around(const ExactTree& tree, D3 m, double radius) {
    ProofNodes found = {1, {0}};
    for (bool opened = true; opened;) {
        opened = false;
        u32 count = found.count;
        for (u32 k = 0; k < count; k++) {
            u32 node = found.node[k];
            if (node >= tree.leaves - 1 || found.count == SDF_PROOF_NODES) continue;
            bool first = exact_box_distance_sq(m, tree.box + 6 * (size_t)(2 * node + 1)) <= radius * radius;
            bool second = exact_box_distance_sq(m, tree.box + 6 * (size_t)(2 * node + 2)) <= radius * radius;
            found.node[k] = 2 * node + (first ? 1 : 2);
            if (first && second) found.node[found.count++] = 2 * node + 2;
            opened = true;
        }
    }
    return found;
}
// The nearest face among the nodes', or `best` if none is nearer.
FN ExactHit nearest_among(const ExactTree& tree, const ProofNodes& nodes, D3 p, ExactHit best) {
    for (u32 k = 0; k < nodes.count; k++) {
        u32 node = nodes.node[k];
        if (exact_box_distance_sq(p, tree.box + 6 * (size_t)node) < best.distance_sq)
            best = exact_nearest(tree, p, best, node);
    }
    return best;
}

struct ProofTask {
    ExactTree surface;       // all faces
    ExactTree solid;         // the faces that bound the inside, in coordinates of their own:
    ExactBoundary boundary;  //   scale x + (shift_x, shift_y, shift_z)
    double scale, shift_x, shift_y, shift_z;
    u32 is_signed;
    u32 hole_halvings;       // halvings after which a leaf with an uncertain sign is given up
    double x, y, z, length;  // the domain's origin and edge
    double slack;            // e: exceeds every rounding error of a distance or a position
    double unit;             // of errors
    double band;
    double value_scale;       // from the field's values
    const u64* leaf_key;      // [leaves]
    const u8* leaf_level;     // [leaves]
    const u32* leaf_corner;   // [leaves, 8]
    const float* value;       // [corners]
    double* corner_distance;  // [corners] out of sdf_proof_corners, as are the following
    u32* corner_face;         // [corners] the nearest one
    u8* corner_sign;          // [corners] SDF_PROOF_OUTSIDE or SDF_PROOF_INSIDE; 0 if unknown, and on open surfaces
    u32* mark;                // [leaves] in and out: see below
    u64* leaf_found;          // [leaves] in and out: the bits of the largest error found at points
};
// Growth of the tolerance at a distance.
FN double growth(const ProofTask& a, double distance) { return max_of(1.0, distance / a.band); }

// Bounds up to `enough` need not be improved, bounds above `most` need not be known.
struct ProofLimits {
    double enough, most;
};

// Marks of a leaf: no face in it; parts of it, without faces, in which the centre is outside, or inside; uncertain
// sign.
FN bool at_jump(u32 mark) {
    const u32 both = SDF_PROOF_FREE | SDF_PROOF_OUTSIDE | SDF_PROOF_INSIDE;
    return (mark & both) == both || mark & SDF_PROOF_HOLE;
}

struct ProofCell {
    u32 leaf;
    double edge, rho;
    D3 middle, corner[8];
    double value[8];  // f at the corners
    D3 slope;         // f's gradient at the centre
    int point[8];     // the corners among ProofPoints
};
// A leaf's corners, or the 27 points of a cell that is split: their distances and nearest faces, where known.
struct ProofPoints {
    u32 known;
    double distance[27];
    u32 face[27];
    ProofNodes nodes;  // with all faces that may matter
};
// x, y, z: on the lattice.
FN D3 lattice_place(const ProofTask& a, double x, double y, double z) {
    const double full = (double)(1u << SDF_LATTICE_BITS);
    return vec(a.x + a.length * (x / full), a.y + a.length * (y / full), a.z + a.length * (z / full));
}
// path: octants, three bits each, the last in the lowest; above SDF_PROOF_SIGN, the sign of a cell without faces: 1 for
// outside, 2 for inside, 0 if unknown.
#define SDF_PROOF_SIGN 30
FN u32 part_path(u32 path, u32 octant) { return path >> SDF_PROOF_SIGN << SDF_PROOF_SIGN | (path << 5 >> 2) | octant; }
FN ProofCell proof_cell(const ProofTask& a, u32 leaf, u32 path, u32 halvings) {
    ProofCell cell;
    Lattice at = morton_decode(a.leaf_key[leaf]);
    double size = (double)(1u << (SDF_LATTICE_BITS - a.leaf_level[leaf])), part = 1.0;
    D3 low = vec(0.0, 0.0, 0.0);  // in the leaf, 0 to 1
    for (u32 k = halvings; k-- > 0;) {
        u32 octant = path >> 3 * k & 7u;
        part *= 0.5;
        low = low + part * vec((double)(octant & 1u), (double)(octant >> 1 & 1u), (double)(octant >> 2));
    }
    double v[8];
    for (int c = 0; c < 8; c++) v[c] = a.value_scale * (double)a.value[a.leaf_corner[8 * (size_t)leaf + c]];
    cell.leaf = leaf;
    cell.edge = a.length * (part * size / (double)(1u << SDF_LATTICE_BITS));
    cell.rho = 0.8660254037844387 * cell.edge;
    auto placed = [&](D3 t) {
        return lattice_place(a, (double)at.x + size * t.x, (double)at.y + size * t.y, (double)at.z + size * t.z);
    };
    for (int c = 0; c < 8; c++) {
        D3 t = low + part * vec((double)(c & 1), (double)(c >> 1 & 1), (double)(c >> 2));
        cell.corner[c] = placed(t);
        cell.value[c] = trilinear(v, t);
        cell.point[c] = halvings ? octant_point((int)(path & 7u)) + octant_point(c) : corner_point(c);
    }
    cell.middle = placed(low + 0.5 * part * vec(1.0, 1.0, 1.0));
    double slope[3] = {0.0, 0.0, 0.0};
    for (int axis = 0; axis < 3; axis++)
        for (int c = 0; c < 8; c++) slope[axis] += c >> axis & 1 ? cell.value[c] : -cell.value[c];
    cell.slope = vec(slope[0] / (4.0 * cell.edge), slope[1] / (4.0 * cell.edge), slope[2] / (4.0 * cell.edge));
    return cell;
}
FN double centre_value(const ProofCell& cell) {
    double sum = 0.0;
    for (int c = 0; c < 8; c++) sum += cell.value[c];
    return 0.125 * sum;
}
FN double least_of(const double* v) {
    double least = v[0];
    for (int c = 1; c < 8; c++) least = min_of(least, v[c]);
    return least;
}

// ---- The two sides of the error ----

struct ProofError {
    double over, under;  // of f - phi, and of phi - f
};
// For phi's sign where it is known. excess: of sign x f over a bound of sign x phi from below.
FN void bound_below(ProofError& error, double sign, double excess) {
    double& side = sign > 0.0 ? error.over : error.under;
    side = min_of(side, excess);
}

struct Proven {
    ProofError error;
    double least;   // least distance in the cell
    double radius;  // R
    double found;   // the largest error at points, over the growth of the tolerance
    double sign;    // of a cell without faces; 0: it has faces, or its sign is uncertain
    bool uncertain, free;
};

// Distances to one triangle at the corners, plus e.
FN void corner_distances(const ProofTask& a, const ProofCell& cell, u32 triangle, double* d) {
    const double* t = exact_triangle(a.surface, triangle);
    D3 p = load3(t), q = load3(t + 3), r = load3(t + 6);
    for (int c = 0; c < 8; c++) d[c] = sqrt(exact_triangle_distance_sq(cell.corner[c], p, q, r)) + a.slack;
}
// d: a bound of the distance from above is its interpolation. |phi| <= d needs no sign.
FN double excess_over(const ProofCell& cell, double sign, const double* d) {
    double excess = -SDF_PROOF_INFINITE;
    for (int c = 0; c < 8; c++) excess = max_of(excess, d[c] - sign * cell.value[c]);
    return excess;
}
FN void bound_above(const ProofTask& a, const ProofCell& cell, const double* d, Proven& proven) {
    proven.error.under = min_of(proven.error.under, excess_over(cell, 1.0, d));
    if (a.is_signed) proven.error.over = min_of(proven.error.over, excess_over(cell, -1.0, d));
    double farthest = d[0];
    for (int c = 1; c < 8; c++) farthest = max_of(farthest, d[c]);
    proven.radius = min_of(proven.radius, cell.rho + farthest);
}

// From several triangles' distances d (triangles, 8): every mean of them is a bound. Where the nearest triangle changes
// in the cell, a mean is the better one. Steps towards the triangle that is nearest to the worst corner.
FN void bound_by_means(const ProofTask& a, const ProofCell& cell, double (*d)[8], int triangles, Proven& proven) {
    double mean_of[8], tried[8], best = SDF_PROOF_INFINITE, sign = proven.sign;
    for (int k = 0; k < triangles; k++) {
        double excess = excess_over(cell, sign, d[k]);
        bound_above(a, cell, d[k], proven);
        if (excess >= best) continue;
        best = excess;
        for (int c = 0; c < 8; c++) mean_of[c] = d[k][c];
    }
    bool better = triangles > 1;
    for (int round = 0; round < 16 && better; round++) {
        int worst = 0, nearest = 0;
        for (int c = 1; c < 8; c++)
            if (mean_of[c] - sign * cell.value[c] > mean_of[worst] - sign * cell.value[worst]) worst = c;
        for (int k = 1; k < triangles; k++)
            if (d[k][worst] < d[nearest][worst]) nearest = k;
        better = false;
        for (double share = 0.5; share > 0.05 && !better; share *= 0.5) {
            for (int c = 0; c < 8; c++) tried[c] = mean_of[c] + share * (d[nearest][c] - mean_of[c]);
            double excess = excess_over(cell, sign, tried);
            better = excess < best - 0.02 * abs_of(best);
            if (better) best = excess;
        }
        if (better)
            for (int c = 0; c < 8; c++) mean_of[c] = tried[c];
    }
    if (triangles > 1) bound_above(a, cell, mean_of, proven);
}

// Least slope's magnitude of the four edges along an axis, at most 1; 0 if their signs differ.
FN double least_slope(const double* d, double edge, int axis) {
    double low = SDF_PROOF_INFINITE, high = -SDF_PROOF_INFINITE;
    for (int c = 0; c < 8; c++) {
        if (c >> axis & 1) continue;
        double slope = (d[c | 1 << axis] - d[c]) / edge;
        low = min_of(low, slope);
        high = max_of(high, slope);
    }
    return min_of(low > 0.0 ? low : high < 0.0 ? -high : 0.0, 1.0);
}
// Bounds d from below by bounds d (8) at the corners. Returns the least distance in the cell.
FN double bound_by_corners(const ProofCell& cell, double sign, const double* d, ProofError& error) {
    double least = least_of(d), loss = 0.0, excess = -SDF_PROOF_INFINITE;
    for (int axis = 0; axis < 3; axis++) {
        double slope = least_slope(d, cell.edge, axis);
        loss += 1.0 - slope * slope;
    }
    loss *= SDF_PROOF_UP * 0.25 * cell.edge * cell.edge;
    if (!(least * least > loss)) return 0.0;
    double rest = sqrt(least * least - loss);
    for (int c = 0; c < 8; c++) excess = max_of(excess, sign * cell.value[c] - d[c]);
    if (sign != 0.0) bound_below(error, sign, excess + loss / (least + rest));
    return rest;
}

FN bool enough(const ProofTask& a, const Proven& proven, double limit) {
    return max_of(proven.error.over, proven.error.under) + 4.0 * a.slack <= limit * a.unit * growth(a, proven.least);
}

// ---- Signs ----

// How far the winding number may change on the way of one radius in a ball, faces apart, which change it by whole
// numbers: its gradient at x is at most the sum of the integrals of 1 / |x - y|^2 over the open edges, over 4 pi. An
// edge of length l at the distance d contributes at most l / d^2, and pi / d.
#define SDF_PROOF_CHANGE 4.0  // larger changes leave every sign uncertain
FN double winding_change(const ProofTask& a, D3 m, double radius) {
    double sum = 0.0;
    D3 p = a.scale * m + vec(a.shift_x, a.shift_y, a.shift_z);
    radius = a.scale * radius;
    for (u32 k = 0; k < a.boundary.open_edges; k++) {
        D3 from = load3(a.boundary.open_edge + 6 * (size_t)k), to = load3(a.boundary.open_edge + 6 * (size_t)k + 3);
        double far = sqrt(exact_segment_distance_sq(p, from, to)) - radius;
        if (!(far > 0.0)) return SDF_PROOF_INFINITE;
        double length = sqrt(dot(to - from, to - from));
        sum += a.boundary.multiplicity[k] * min_of(length / far, 3.1415926535897936) / far;
        if (radius * sum > SDF_PROOF_CHANGE * SDF_EXACT_FOUR_PI) return SDF_PROOF_INFINITE;
    }
    return radius * sum / SDF_EXACT_FOUR_PI * SDF_PROOF_UP;
}
FN double winding_at(const ProofTask& a, D3 p, bool* sure) {
    return exact_winding(a.solid, a.boundary, a.scale * p + vec(a.shift_x, a.shift_y, a.shift_z), sure);
}
#define SDF_PROOF_WINDING 1e-9  // exceeds the winding number's rounding error
FN double sign_of(double winding) { return winding > 0.5 ? -1.0 : 1.0; }

// The sign in the ball of radius `free` around p, which has no faces; 0 if it is not certain. The balls around the
// leaf's corners have no faces, either, so those that meet it have its sign.
FN double sign_in_ball(const ProofTask& a, u32 leaf, D3 p, double free) {
    if (a.boundary.open_edges == 0) {
        Lattice at = morton_decode(a.leaf_key[leaf]);
        double size = (double)(1u << (SDF_LATTICE_BITS - a.leaf_level[leaf]));
        for (int c = 0; c < 8; c++) {
            u32 corner = a.leaf_corner[8 * (size_t)leaf + c], sign = a.corner_sign[corner];
            double reach = free + a.corner_distance[corner] - 4.0 * a.slack;
            if (sign == 0 || !(reach > 0.0)) continue;
            D3 way =
                p - lattice_place(a, (double)at.x + size * (double)(c & 1), (double)at.y + size * (double)(c >> 1 & 1),
                                  (double)at.z + size * (double)(c >> 2));
            if (dot(way, way) < reach * reach) return sign == SDF_PROOF_OUTSIDE ? 1.0 : -1.0;
        }
    }
    bool sure = false;
    double winding = winding_at(a, p, &sure);
    return sure ? sign_of(winding) : 0.0;
}

// Distance of a number from the numbers k + 1/2.
FN double from_half(double winding) {
    double over = winding - 0.5, part = over - (double)(long long)over;
    part = abs_of(part);
    return min_of(part, 1.0 - part);
}

// ---- Faces, one by one ----

// d from below by minima of linear functions, one per face near the cell: for a unit vector n, the distance to a face
// is at least n.x minus its largest n.y. Each face has the best of several n. Their minimum is concave, so it is at
// least its interpolation from the corners, and f minus each is largest at a corner.
#define SDF_PROOF_START 0.875  // share of the sufficient bound: faces with less are not looked at
struct FaceBounds {
    D3 m;
    D3 offset[8];     // the corners, relative to m
    double value[8];  // sign x f there
    int ways;
    D3 way[2];         // common n
    double excess[2];  // largest value - n.offset
};
FN double largest_excess(const FaceBounds& b, D3 n) {
    double excess = -SDF_PROOF_INFINITE;
    for (int c = 0; c < 8; c++) excess = max_of(excess, b.value[c] - dot(n, b.offset[c]));
    return excess;
}
FN double reach_of(D3 n, D3 p, D3 q, D3 r) { return max_of(dot(n, p), max_of(dot(n, q), dot(n, r))); }
// The least excess of f over a face's linear functions, but at least `enough`, if it lies in the ball.
FN double face_excess(const FaceBounds& b, const double* t, double radius, double enough) {
    D3 p = load3(t) - b.m, q = load3(t + 3) - b.m, r = load3(t + 6) - b.m;
    double least = SDF_PROOF_INFINITE;
    for (int k = 0; k < b.ways; k++) least = min_of(least, b.excess[k] + reach_of(b.way[k], p, q, r));
    if (least <= enough || exact_bounds_distance_sq(b.m, t) > radius * radius) return enough;
    D3 n = cross(q - p, r - p);
    double n_sq = dot(n, n);
    if (n_sq > 1e-60) {
        n = ((dot(n, p) > 0.0 ? -1.0 : 1.0) / sqrt(n_sq)) * n;
        least = min_of(least, largest_excess(b, n) + reach_of(n, p, q, r));
        if (least <= enough) return enough;
    }
    D3 near = nearest_on_triangle(vec(0.0, 0.0, 0.0), p, q, r).point;
    double far_sq = dot(near, near);
    if (far_sq > 1e-30) {
        D3 way = (-1.0 / sqrt(far_sq)) * near;
        least = min_of(least, largest_excess(b, way) + reach_of(way, p, q, r));
    }
    return max_of(least, enough);
}
FN void bound_by_faces(const ProofTask& a, const ProofCell& cell, u32 nearest, const ProofLimits& limits,
                       const ProofNodes& nodes, Proven& proven) {
    const double* t = exact_triangle(a.surface, nearest);
    D3 m = cell.middle, away = m - nearest_on_triangle(m, load3(t), load3(t + 3), load3(t + 6)).point;
    FaceBounds b = {m, {}, {}, 0, {}, {}};
    for (int c = 0; c < 8; c++) b.offset[c] = cell.corner[c] - m, b.value[c] = proven.sign * cell.value[c];
    for (int k = 0; k < 2; k++) {
        D3 way = k ? proven.sign * cell.slope : away;
        double length = sqrt(dot(way, way));
        if (!(length > 1e-30)) continue;
        b.way[b.ways] = (1.0 / length) * way;
        b.excess[b.ways] = largest_excess(b, b.way[b.ways]);
        b.ways++;
    }
    double grown = a.unit * growth(a, proven.least), radius = proven.radius + a.slack;
    double worst = SDF_PROOF_START * limits.enough * grown - 8.0 * a.slack, most = limits.most * grown;
    u32 stack[SDF_EXACT_STACK + SDF_PROOF_NODES];
    for (u32 k = 0; k < nodes.count; k++) stack[k] = nodes.node[k];
    for (int depth = (int)nodes.count; depth > 0;) {
        u32 node = stack[--depth];
        const double* box = a.surface.box + 6 * (size_t)node;
        D3 low = load3(box) - m, high = load3(box + 3) - m;
        double least = SDF_PROOF_INFINITE;
        for (int k = 0; k < b.ways; k++) {
            D3 u = b.way[k];
            least =
                min_of(least, b.excess[k] + (u.x * (u.x > 0.0 ? high.x : low.x) + u.y * (u.y > 0.0 ? high.y : low.y) +
                                             u.z * (u.z > 0.0 ? high.z : low.z)));
        }
        if (least <= worst || exact_box_distance_sq(m, box) > radius * radius) continue;
        if (node < a.surface.leaves - 1) {
            stack[depth++] = 2 * node + 1;
            stack[depth++] = 2 * node + 2;
            continue;
        }
        u32 first = a.surface.leaf_size * (node - (a.surface.leaves - 1));
        for (u32 k = 0; k < a.surface.leaf_size; k++)
            worst = face_excess(b, exact_triangle(a.surface, first + k), radius, worst);
        if (worst > most) return;
    }
    bound_below(proven.error, proven.sign, worst + a.slack);
}

// ---- Supports ----

#define SDF_PROOF_SUPPORTS 6

struct Supports {
    int count;
    D3 along[SDF_PROOF_SUPPORTS];      // unit vectors u
    double least[SDF_PROOF_SUPPORTS];  // h, relative to the ball's centre
};
FN void add_support(Supports& found, D3 way) {
    double length = sqrt(dot(way, way));
    if (!(length > 1e-30)) return;
    found.along[found.count] = (1.0 / length) * way;
    found.least[found.count++] = -SDF_PROOF_INFINITE;
}

// h of one triangle's part in the ball: at most the largest over its corners, and over the disc that its plane cuts
// out.
FN void extend_by_triangle(const double* t, D3 m, double radius, double slack, Supports& found) {
    D3 p = load3(t) - m, q = load3(t + 3) - m, r = load3(t + 6) - m;
    double corner[SDF_PROOF_SUPPORTS];
    bool extends = false;
    for (int k = 0; k < found.count; k++) {
        D3 u = found.along[k];
        corner[k] = max_of(dot(u, p), max_of(dot(u, q), dot(u, r)));
        extends |= corner[k] > found.least[k];
    }
    D3 o = vec(0.0, 0.0, 0.0);
    if (!extends || exact_bounds_distance_sq(m, t) > radius * radius) return;
    if (sqrt(exact_triangle_distance_sq(o, p, q, r)) > radius + slack) return;
    D3 pq = q - p, pr = r - p, n = cross(pq, pr);
    double n_sq = dot(n, n);
    bool thick = n_sq > 1e-8 * dot(pq, pq) * dot(pr, pr);  // else the normal has lost digits
    n = (1.0 / sqrt(select(thick, n_sq, 1.0))) * n;
    double height = dot(n, p), disc = sqrt(max_of(radius * radius - height * height, 0.0));
    for (int k = 0; k < found.count; k++) {
        D3 u = found.along[k], across = cross(n, u);
        double h = thick ? min_of(corner[k], height * dot(n, u) + disc * sqrt(dot(across, across))) : corner[k];
        found.least[k] = max_of(found.least[k], min_of(h, radius) + slack);
    }
}
FN bool extends_by_box(const double* box, D3 m, const Supports& found) {
    D3 low = load3(box) - m, high = load3(box + 3) - m;
    for (int k = 0; k < found.count; k++) {
        D3 u = found.along[k];
        double h = u.x * (u.x > 0.0 ? high.x : low.x) + u.y * (u.y > 0.0 ? high.y : low.y) +
                   u.z * (u.z > 0.0 ? high.z : low.z);
        if (h > found.least[k]) return true;
    }
    return false;
}
FN void find_supports(const ExactTree& tree, const ProofNodes& nodes, D3 m, double radius, double slack,
                      Supports& found) {
    u32 stack[SDF_EXACT_STACK + SDF_PROOF_NODES];
    for (u32 k = 0; k < nodes.count; k++) stack[k] = nodes.node[k];
    for (int depth = (int)nodes.count; depth > 0;) {
        u32 node = stack[--depth];
        const double* box = tree.box + 6 * (size_t)node;
        if (exact_box_distance_sq(m, box) > radius * radius || !extends_by_box(box, m, found)) continue;
        if (node < tree.leaves - 1) {
            stack[depth++] = 2 * node + 1;
            stack[depth++] = 2 * node + 2;
            continue;
        }
        u32 first = tree.leaf_size * (node - (tree.leaves - 1));
        for (u32 k = 0; k < tree.leaf_size; k++)
            extend_by_triangle(exact_triangle(tree, first + k), m, radius, slack, found);
    }
}

// ---- A cell ----

FN double nearest_error(const ProofTask& a, double value, double sign, double d) {
    double error = sign != 0.0 ? abs_of(sign * value - d) : abs_of(abs_of(value) - d);
    return error / growth(a, d);
}
// From the distances at the corners, and the faces nearest to them. nearest: to the centre.
FN void prove_by_corners(const ProofTask& a, const ProofCell& cell, u32 nearest, ProofPoints& points, Proven& proven) {
    double d[8], above[9][8];
    u32 triangle[9] = {nearest};
    int triangles = 1;
    corner_distances(a, cell, nearest, above[0]);
    for (int c = 0; c < 8; c++) {
        int start = 0, point = cell.point[c];
        if (!(points.known >> point & 1u)) {
            for (int k = 1; k < triangles; k++)
                if (above[k][c] < above[start][c]) start = k;
            double known_sq = (above[start][c] - a.slack) * (above[start][c] - a.slack);
            ExactHit hit = nearest_among(a.surface, points.nodes, cell.corner[c], {known_sq, triangle[start]});
            points.known |= 1u << point;
            points.distance[point] = sqrt(hit.distance_sq);
            points.face[point] = hit.triangle;
        }
        u32 face = points.face[point];
        d[c] = points.distance[point];
        proven.found = max_of(proven.found, nearest_error(a, cell.value[c], proven.sign, d[c]));
        d[c] = max_of(d[c] - a.slack, 0.0);
        bool known = false;
        for (int k = 0; k < triangles; k++) known |= triangle[k] == face;
        if (known) continue;
        corner_distances(a, cell, face, above[triangles]);
        triangle[triangles++] = face;
    }
    proven.least = max_of(proven.least, bound_by_corners(cell, proven.sign, d, proven.error));
    bound_by_means(a, cell, above, triangles, proven);
}

// From supports of the faces in the ball.
FN void prove_by_supports(const ProofTask& a, const ProofCell& cell, u32 nearest, const ProofLimits& limits,
                          const ProofPoints& points, Proven& proven) {
    if (proven.sign != 0.0) {
        bound_by_faces(a, cell, nearest, limits, points.nodes, proven);
        double other = proven.sign > 0.0 ? proven.error.under : proven.error.over;
        if (!a.is_signed || other + 4.0 * a.slack <= limits.enough * a.unit * growth(a, proven.least)) return;
    }
    const double* t = exact_triangle(a.surface, nearest);
    D3 p = load3(t), q = load3(t + 3), r = load3(t + 6), m = cell.middle;
    D3 way[3] = {m - nearest_on_triangle(m, p, q, r).point, cell.slope, cross(q - p, r - p)};
    Supports found = {0, {}, {}};
    for (int k = 0; k < (proven.free ? 2 : 3); k++) {
        add_support(found, way[k]);
        add_support(found, -1.0 * way[k]);
    }
    if (found.count == 0) return;
    double radius = proven.radius + a.slack;
    find_supports(a.surface, points.nodes, m, radius, a.slack, found);
    double change = -1.0;  // of the winding number on one radius
    for (int side = 0; side < (a.is_signed ? 2 : 1); side++) {
        double sign = side ? -1.0 : 1.0, least = SDF_PROOF_INFINITE, h = 0.0;
        if (sign == proven.sign) continue;
        D3 u = found.along[0];
        for (int k = 0; k < found.count; k++) {
            double excess = -SDF_PROOF_INFINITE;
            for (int c = 0; c < 8; c++)
                excess = max_of(excess, sign * cell.value[c] - dot(found.along[k], cell.corner[c] - m));
            excess += found.least[k];
            if (!(excess < least)) continue;
            least = excess;
            h = found.least[k];
            u = found.along[k];
        }
        if (!(least < (side ? proven.error.under : proven.error.over))) continue;
        double past = max_of(h, 0.0), inner = radius - a.slack;
        if (!(radius - h > 4.0 * a.slack) || cell.rho * cell.rho + past * past > inner * inner) continue;
        D3 witness = m + 0.5 * (h + radius) * u;
        if (a.boundary.open_edges == 0) {
            double there = sign_in_ball(a, cell.leaf, witness, 0.5 * (radius - h) - a.slack);
            if (there == sign) bound_below(proven.error, sign, least);
            continue;
        }
        if (change < 0.0) change = winding_change(a, m, radius);
        bool sure = false;
        double winding = change < 0.25 ? winding_at(a, witness, &sure) : 0.0;
        if (change >= 0.25 || from_half(winding) <= 2.0 * change + SDF_PROOF_WINDING) {
            proven.uncertain |= !proven.free;
            return;
        }
        if (sure && sign_of(winding) == sign) bound_below(proven.error, sign, least);
    }
}

#define SDF_PROOF_NEAR 6.0  // in rho: up to this distance supports are tried before corners

// known: the sign, if the cell is part of one without faces; else 0. centre: the nearest face to the centre.
FN Proven prove_cell(const ProofTask& a, const ProofCell& cell, double known, ExactHit centre, ProofPoints& points,
                     const ProofLimits& limits) {
    double far = sqrt(centre.distance_sq);
    Proven proven = {{SDF_PROOF_INFINITE, SDF_PROOF_INFINITE},
                     max_of(far - cell.rho - a.slack, 0.0),
                     far + 2.0 * cell.rho + 2.0 * a.slack,
                     0.0,
                     0.0,
                     false,
                     far > cell.rho + a.slack};
    if (!a.is_signed)
        proven.sign = 1.0;
    else if (known != 0.0)
        proven.sign = known;
    else if (proven.free && a.boundary.open_edges == 0)
        proven.sign = sign_in_ball(a, cell.leaf, cell.middle, far);
    else if (proven.free) {
        bool sure = false;
        double change = winding_change(a, cell.middle, cell.rho);
        double winding = change < SDF_PROOF_CHANGE ? winding_at(a, cell.middle, &sure) : 0.5;
        proven.uncertain = abs_of(winding - 0.5) <= change + SDF_PROOF_WINDING;
        proven.sign = sure ? sign_of(winding) : 0.0;
    }
    proven.found = nearest_error(a, centre_value(cell), proven.sign, far);
    double d[8];
    corner_distances(a, cell, centre.triangle, d);
    bound_above(a, cell, d, proven);
    if (proven.sign != 0.0) {  // from the centre's distance
        double excess = -SDF_PROOF_INFINITE;
        for (int c = 0; c < 8; c++) excess = max_of(excess, proven.sign * cell.value[c]);
        bound_below(proven.error, proven.sign, excess - proven.least);
    }
    bool known_corners = points.known & 1u && cell.point[0] == 0 && cell.point[7] == 26;  // a leaf's
    bool near = far < SDF_PROOF_NEAR * cell.rho && !(known_corners && proven.sign != 0.0),
         corners = proven.free || !a.is_signed;
    for (int k = 0; k < 2 && !proven.uncertain && !enough(a, proven, limits.enough); k++)
        if (near == (k == 0))
            prove_by_supports(a, cell, centre.triangle, limits, points, proven);
        else if (corners)
            prove_by_corners(a, cell, centre.triangle, points, proven);
    return proven;
}

// ---- Kernels ----

// Corners' distances, nearest faces and signs. A thread does a run of corners along the Morton curve: each starts from
// the last one's face, and has its sign if their balls without faces meet.
struct sdf_proof_corners_args {
    u32 n;              // runs
    ProofTask task;     // corner_distance, corner_face and corner_sign are out
    u32 count;          // corners
    const u32* chosen;  // [count]
    const u64* key;     // [corners]
};
SDF_KERNEL(sdf_proof_corners, PLAIN, i) {
    const ProofTask& of = a.task;
    ExactHit hit = {SDF_PROOF_INFINITE, SDF_NONE};
    D3 before = vec(0.0, 0.0, 0.0);
    double free = 0.0;
    u32 sign = 0;
    for (u32 k = SDF_PROOF_RUN * i; k < min_of(a.count, SDF_PROOF_RUN * (i + 1)); k++) {
        u32 corner = a.chosen[k];
        Lattice at = morton_decode(a.key[corner]);
        D3 p = lattice_place(of, (double)at.x, (double)at.y, (double)at.z);
        if (hit.triangle != SDF_NONE) {
            const double* t = exact_triangle(of.surface, hit.triangle);
            hit.distance_sq = exact_triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
        }
        hit = exact_nearest(of.surface, p, hit);
        double d = sqrt(hit.distance_sq), reach = d + free - 4.0 * of.slack;
        if (of.is_signed && of.boundary.open_edges == 0) {
            bool same = sign != 0 && reach > 0.0 && dot(p - before, p - before) < reach * reach, sure = false;
            if (!same) {
                double winding = d > 2.0 * of.slack ? winding_at(of, p, &sure) : 0.0;
                sign = !sure ? 0 : sign_of(winding) > 0.0 ? SDF_PROOF_OUTSIDE : SDF_PROOF_INSIDE;
            }
        }
        of.corner_distance[corner] = d;
        of.corner_face[corner] = hit.triangle;
        of.corner_sign[corner] = (u8)sign;
        before = p, free = d;
    }
}

// Faces nearest to leaves' centres, and the largest error there.
struct sdf_proof_centres_args {
    u32 n;  // leaves
    ProofTask task;
    u32 first;  // index of the first
    u32* face;  // [n] out
};
FN void nearer_face(const ExactTree& tree, D3 p, u32 triangle, ExactHit& best) {
    if (triangle == best.triangle || triangle == SDF_NONE) return;
    const double* t = exact_triangle(tree, triangle);
    double distance_sq = exact_triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
    if (distance_sq < best.distance_sq) best = {distance_sq, triangle};
}
SDF_KERNEL(sdf_proof_centres, PLAIN, i) {
    const ProofTask& of = a.task;
    ProofCell cell = proof_cell(of, a.first + i, 0, 0);
    ExactHit hit = {SDF_PROOF_INFINITE, SDF_NONE};
    for (int c = 0; c < 8; c++)
        nearer_face(of.surface, cell.middle, of.corner_face[of.leaf_corner[8 * (size_t)cell.leaf + c]], hit);
    hit = exact_nearest(of.surface, cell.middle, hit);
    a.face[i] = hit.triangle;
    atomic_max(of.leaf_found + cell.leaf,
               double_bits(nearest_error(of, centre_value(cell), 0.0, sqrt(hit.distance_sq)) / of.unit));
}

struct sdf_proof_cells_args {
    u32 n;  // leaves, or cells to split, whose eight parts are bounded
    ProofTask task;
    u32 halvings;
    u32 first;            // index of the first leaf
    double limit;         // bounds up to this need not be improved,
    double most;          // and bounds above this need not be known
    const u32* leaf;      // [parents] null: the cells are leaves. Part k of parent i is cell 8 i + k
    const u32* path;      // [parents]
    const double* above;  // [parents] bounds of the parents
    const u32* face;      // [n] nearest to the centres
    double* bound;        // [cells] out: maximum error over the growth of the tolerance, in units
    u8* state;            // [cells] out: 1 if the sign is uncertain; 2, 4: no faces, and outside, or inside
    u32* nearest;         // [cells] out: nearest face to the centre
};
FN ExactHit prove_part(const sdf_proof_cells_args& a, u32 i, u32 leaf, u32 path, double above, ExactHit seed,
                       ProofPoints& points) {
    u32 known = path >> SDF_PROOF_SIGN;
    ProofCell cell = proof_cell(a.task, leaf, path, a.halvings);
    const ExactTree& tree = a.task.surface;
    ExactHit centre = {SDF_PROOF_INFINITE, SDF_NONE};
    nearer_face(tree, cell.middle, seed.triangle, centre);
    if (a.halvings > 0) {
        for (int c = 0; c < 8; c++)
            if (points.known >> cell.point[c] & 1u) nearer_face(tree, cell.middle, points.face[cell.point[c]], centre);
        centre = nearest_among(tree, points.nodes, cell.middle, centre);
    }
    Proven proven = prove_cell(a.task, cell,
                               known == 1   ? 1.0
                               : known == 2 ? -1.0
                                            : 0.0,
                               centre, points, {a.limit, a.most});
    double worst = max_of(proven.error.over, proven.error.under) + 4.0 * a.task.slack;
    double bound = max_of(worst, 0.0) / (a.task.unit * growth(a.task, proven.least)) * SDF_PROOF_UP;
    if (proven.uncertain || !(bound <= SDF_PROOF_INFINITE)) bound = SDF_PROOF_INFINITE;
    a.bound[i] = min_of(bound, above);
    a.nearest[i] = centre.triangle;
    u32 sign = a.task.is_signed && proven.free && !proven.uncertain ? proven.sign > 0.0   ? 2u
                                                                      : proven.sign < 0.0 ? 4u
                                                                                          : 0u
                                                                    : 0u;
    a.state[i] = (u8)(proven.uncertain | sign);
    u32 mark = a.halvings == 0 && proven.free ? SDF_PROOF_FREE : 0u;
    if (a.task.is_signed && proven.sign != 0.0) mark |= proven.sign > 0.0 ? SDF_PROOF_OUTSIDE : SDF_PROOF_INSIDE;
    if (proven.uncertain && a.halvings >= a.task.hole_halvings) mark |= SDF_PROOF_HOLE;
    if (mark) atomic_or(a.task.mark + leaf, mark);
    if (proven.uncertain) return centre;
    u64 found = double_bits(proven.found / a.task.unit);
    atomic_max(a.task.leaf_found + leaf, found);
    return centre;
}
SDF_KERNEL(sdf_proof_cells, PLAIN, i) {
    u32 leaf = a.leaf ? a.leaf[i] : a.first + i;
    ProofPoints points = {0, {}, {}, {1, {0}}};
    if (a.halvings <= 1)
        for (int c = 0; c < 8; c++) {
            u32 corner = a.task.leaf_corner[8 * (size_t)leaf + c];
            points.known |= 1u << corner_point(c);
            points.distance[corner_point(c)] = a.task.corner_distance[corner];
            points.face[corner_point(c)] = a.task.corner_face[corner];
        }
    if (!a.leaf) {
        prove_part(a, i, leaf, 0, SDF_PROOF_INFINITE, {0.0, a.face[i]}, points);
        return;
    }
    // The nearest faces to all points of the parts lie in the ball, as do all balls around parts.
    ProofCell whole = proof_cell(a.task, leaf, a.path[i], a.halvings - 1);
    ExactHit seed = {SDF_PROOF_INFINITE, SDF_NONE};
    nearer_face(a.task.surface, whole.middle, a.face[i], seed);
    points.nodes =
        nodes_around(a.task.surface, whole.middle, sqrt(seed.distance_sq) + 2.0 * whole.rho + 16.0 * a.task.slack);
    for (u32 k = 0; k < 8; k++)
        seed = prove_part(a, 8 * i + k, leaf, part_path(a.path[i], k), a.above[i], seed, points);
}

struct sdf_proof_settle_args {
    u32 n;
    ProofTask task;
    u32 first;
    u32 last;             // 1: no cell is split any more
    double limit;         // of bounds, in any leaf,
    double tolerance;     // and in a leaf in which no larger error was found
    const u32* leaf;      // [parents] as in sdf_proof_cells
    const double* bound;  // [n]
    const u8* state;      // [n] as in sdf_proof_cells
    u64* leaf_bound;      // [leaves] in and out: the bits of the largest bound of cells that are not split
    u8* split;            // [n] out
};
SDF_KERNEL(sdf_proof_settle, PLAIN, i) {
    u32 leaf = a.leaf ? a.leaf[i >> 3] : a.first + i;
    a.split[i] = 0;
    if (at_jump(a.task.mark[leaf])) return;
    double found = bits_double(a.task.leaf_found[leaf]), bound = a.bound[i];
    bool wanted = (a.state[i] & 1u) || bound > a.limit || (bound > a.tolerance && found <= a.tolerance);
    if (wanted && !a.last)
        a.split[i] = 1;
    else
        atomic_max(a.leaf_bound + leaf, double_bits(bound));
}

struct sdf_proof_split_args {
    u32 n;
    u32 first;
    const u32* chosen;    // [n] cells to split
    const u32* leaf;      // [parents] as in sdf_proof_cells
    const u32* path;      // [parents]
    const double* bound;  // [cells]
    const u8* state;      // [cells]
    const u32* nearest;   // [cells]
    u32* split_leaf;      // [n] out
    u32* split_path;      // [n] out
    double* split_bound;  // [n] out
    u32* split_face;      // [n] out
};
SDF_KERNEL(sdf_proof_split, PLAIN, k) {
    u32 i = a.chosen[k];
    a.split_leaf[k] = a.leaf ? a.leaf[i >> 3] : a.first + i;
    a.split_path[k] = (a.leaf ? part_path(a.path[i >> 3], i & 7u) : 0u) | (u32)(a.state[i] >> 1) << SDF_PROOF_SIGN;
    a.split_bound[k] = a.bound[i];
    a.split_face[k] = a.nearest[i];
}

#endif
