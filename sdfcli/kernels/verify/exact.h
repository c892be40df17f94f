// Float64 reference for verifying fields: distance and winding number. It shares only the vector arithmetic with the
// kernels that build fields: the tree, the point-triangle distance and the sign are independent.
//
// THE TREE is a complete binary tree of boxes, built by median splits. Node k has the children 2 k + 1 and 2 k + 2; the
// last `leaves` nodes are leaves with leaf_size triangles each. Padding triangles repeat one surface point three times,
// which changes no distance and no winding number.
//
// COORDINATES are scaled so that the surface has about unit size near the origin.
//
// INTERFACE
//   ExactTree, ExactBoundary       the surface's triangles, and its open edges
//   exact_triangle_distance_sq     squared distance from a point to a triangle
//   exact_nearest, exact_winding   a point's nearest triangle, and its winding number
//   sdf_exact_distance, sdf_exact_winding   the same for many points: distances, and winding numbers
#ifndef SDFCLI_VERIFY_EXACT_H
#define SDFCLI_VERIFY_EXACT_H
#include "base/kernel.h"
#include "base/vec.h"

// A traversal descends at most 31 levels (the leaf count is a power of two below 2^32) and postpones at most one
// sibling per level, besides the current node.
#define SDF_EXACT_STACK 33

// ---- Distance ----

FN double exact_box_distance_sq(D3 p, const double* box) {  // box: lower x, y, z, upper x, y, z
    double x = max_of(max_of(box[0] - p.x, p.x - box[3]), 0.0), y = max_of(max_of(box[1] - p.y, p.y - box[4]), 0.0),
           z = max_of(max_of(box[2] - p.z, p.z - box[5]), 0.0);
    return x * x + y * y + z * z;
}

FN double exact_segment_distance_sq(D3 p, D3 a, D3 b) {
    D3 ab = b - a, ap = p - a, bp = p - b;
    double along = dot(ap, ab), length_sq = dot(ab, ab);
    if (along <= 0.0) return dot(ap, ap);
    if (along >= length_sq) return dot(bp, bp);
    D3 r = ap - (along / length_sq) * ab;
    return dot(r, r);
}

// Squared distance from p to the triangle a b c, by the Voronoi region that contains p (Ericson 2005, Real-Time
// Collision Detection, 5.1.5). Two changes make it safe for slivers:
//  - the edges' regions are determined by triple products with the normal n. Ericson's equal expression through dot
//    products (Lagrange's identity) cancels where n is small;
//  - over the face, the height is measured from the perpendicular's foot instead of a corner, so an error in n enters
//    only in second order.
// Where n is below 1e-10 times the product of its edges, the face is narrower than its height's error: only edges
// count.
FN double exact_triangle_distance_sq(D3 p, D3 a, D3 b, D3 c) {
    D3 ab = b - a, ac = c - a, bc = c - b, ap = p - a, bp = p - b, cp = p - c, n = cross(ab, ac);
    double n_sq = dot(n, n);
    if (!(n_sq > 1e-20 * dot(ab, ab) * dot(ac, ac)))
        return min_of(exact_segment_distance_sq(p, a, b),
                      min_of(exact_segment_distance_sq(p, b, c), exact_segment_distance_sq(p, c, a)));
    if (dot(ap, ab) <= 0.0 && dot(ap, ac) <= 0.0) return dot(ap, ap);
    if (dot(bp, ab) >= 0.0 && dot(bp, bc) <= 0.0) return dot(bp, bp);
    if (dot(cp, ac) >= 0.0 && dot(cp, bc) >= 0.0) return dot(cp, cp);
    double w = dot(n, cross(ab, ap)), v = dot(n, cross(ap, ac)), u = dot(n, cross(bc, bp));
    if (w <= 0.0 && dot(ap, ab) >= 0.0 && dot(bp, ab) <= 0.0) return exact_segment_distance_sq(p, a, b);
    if (v <= 0.0 && dot(ap, ac) >= 0.0 && dot(cp, ac) <= 0.0) return exact_segment_distance_sq(p, c, a);
    if (u <= 0.0) return exact_segment_distance_sq(p, b, c);
    D3 above = ap - ((v / n_sq) * ab + (w / n_sq) * ac);
    double height = dot(n, above);
    return height * height / n_sq;
}

// Squared distance to a triangle's bounding box: a tenth of the work.
FN double exact_bounds_distance_sq(D3 p, const double* t) {
    double box[6];
    for (int k = 0; k < 3; k++) {
        box[k] = min_of(t[k], min_of(t[k + 3], t[k + 6]));
        box[k + 3] = max_of(t[k], max_of(t[k + 3], t[k + 6]));
    }
    return exact_box_distance_sq(p, box);
}

struct ExactTree {
    u32 leaves;              // a power of two
    u32 leaf_size;           // triangles per leaf
    const double* triangle;  // [leaves, leaf_size, 9]
    const double* box;       // [2 * leaves - 1, 6] node k has the children 2 k + 1 and 2 k + 2
};

struct ExactHit {
    double distance_sq;
    u32 triangle;  // index in the tree
};
FN const double* exact_triangle(const ExactTree& tree, u32 triangle) { return tree.triangle + 9 * (size_t)triangle; }

// The nearest triangle below a node, or `best` if none is nearer. Nearer child first; nodes no nearer than the best
// triangle so far are pruned.
FN ExactHit exact_nearest(const ExactTree& tree, D3 p, ExactHit best, u32 root = 0) {
    u32 stack[SDF_EXACT_STACK] = {root};
    double bound[SDF_EXACT_STACK] = {0.0};
    for (int depth = 1; depth > 0;) {
        u32 node = stack[--depth];
        if (bound[depth] >= best.distance_sq) continue;
        if (node >= tree.leaves - 1) {
            u32 first = tree.leaf_size * (node - (tree.leaves - 1));
            const double* t = exact_triangle(tree, first);
            for (u32 k = 0; k < tree.leaf_size; k++, t += 9) {
                if (exact_bounds_distance_sq(p, t) >= best.distance_sq) continue;
                double distance_sq = exact_triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6));
                if (distance_sq < best.distance_sq) best = {distance_sq, first + k};
            }
            continue;
        }
        u32 left = 2 * node + 1;
        double child_sq[2] = {exact_box_distance_sq(p, tree.box + 6 * (size_t)left),
                              exact_box_distance_sq(p, tree.box + 6 * (size_t)(left + 1))};
        u32 near = child_sq[1] < child_sq[0] ? 1 : 0, far = 1 - near;
        stack[depth] = left + far;
        bound[depth++] = child_sq[far];
        stack[depth] = left + near;
        bound[depth++] = child_sq[near];
    }
    return best;
}
FN ExactHit exact_nearest(const ExactTree& tree, D3 p) {
    return exact_nearest(tree, p, {1.7976931348623157e308, SDF_NONE});
}

struct sdf_exact_distance_args {
    u32 n;
    const double* points;  // [n, 3]
    ExactTree tree;
    double* distance;  // [n] out
};
SDF_KERNEL(sdf_exact_distance, PLAIN, i) {
    a.distance[i] = sqrt(exact_nearest(a.tree, load3(a.points + 3 * (size_t)i)).distance_sq);
}

// ---- Winding number ----
//
// Seen from p, the surface covers the sphere of directions; the generalised winding number (Jacobson, Kavan, Sorkine
// 2013) is the average covering multiplicity. The multiplicity in ONE direction d is the signed number of exits through
// the surface along the ray p + t d. To derive the average from it, only the surface's boundary is needed (Martens,
// Bessmeltsev 2025, "One-Shot Method for Computing Generalized Winding Numbers"; Martens, Trettner, Bessmeltsev 2026,
// "The Antipodal Method"). Fans of great-circle triangles from the antipode -d over the boundary's edges have the same
// boundary on the sphere as the surface, so their multiplicities differ by a constant; and no such triangle covers d.
// Hence
//     w = crossings of the ray + (sum of the solid angles of (-d, i, j) over all open edges i -> j) / 4 pi.
// An open edge is used by triangles more often in one direction than in the other.

#define SDF_EXACT_FOUR_PI 12.566370614359172

// A triple product a . (b x c) of differences to p is off by less than 16 half units in the last place of |a| |b| |c|,
// a relative error of 1.8e-15. More than twice this bound, squared:
#define SDF_EXACT_UNSURE_SQ 1.6e-29

// A triple product's sign; 0 where rounding may have changed it. lengths_sq: product of its vectors' squared lengths.
FN int exact_sign(double product, double lengths_sq) {
    if (product * product <= SDF_EXACT_UNSURE_SQ * lengths_sq) return 0;
    return product > 0.0 ? 1 : -1;
}

enum Crossing { MISSES, LEAVES, ENTERS, UNSURE };

// How the ray from the origin along d meets the triangle a b c: d must lie between the three planes through the origin
// and one edge each, and the origin behind the triangle. For a hit all four determinants have the same sign, +1 if the
// ray leaves a surface with triangles counter-clockwise from outside; two certain opposite signs are a miss. Certain
// signs equal exact arithmetic's, so the triangles at an edge agree on it: no ray slips through or counts twice. Every
// ray misses a point repeated three times.
FN Crossing exact_crossing(D3 d, D3 a, D3 b, D3 c) {
    D3 ab = cross(a, b);
    double a_sq = dot(a, a), b_sq = dot(b, b), c_sq = dot(c, c);
    int s[4] = {exact_sign(dot(d, ab), a_sq * b_sq), exact_sign(dot(d, cross(b, c)), b_sq * c_sq),
                exact_sign(dot(d, cross(c, a)), c_sq * a_sq), exact_sign(dot(c, ab), a_sq * b_sq * c_sq)};
    int low = min_of(min_of(s[0], s[1]), min_of(s[2], s[3])), high = max_of(max_of(s[0], s[1]), max_of(s[2], s[3]));
    if (low < 0 && high > 0) return MISSES;
    if (low > 0) return LEAVES;
    if (high < 0) return ENTERS;
    return dot(b - a, b - a) + dot(c - a, c - a) > 0.0 ? UNSURE : MISSES;
}

FN bool exact_ray_meets_box(D3 p, D3 inverse, const double* box) {
    double x0 = (box[0] - p.x) * inverse.x, x1 = (box[3] - p.x) * inverse.x;
    double y0 = (box[1] - p.y) * inverse.y, y1 = (box[4] - p.y) * inverse.y;
    double z0 = (box[2] - p.z) * inverse.z, z1 = (box[5] - p.z) * inverse.z;
    double enter = max_of(max_of(min_of(x0, x1), min_of(y0, y1)), max_of(min_of(z0, z1), 0.0));
    double leave = min_of(max_of(x0, x1), min_of(max_of(y0, y1), max_of(z0, z1)));
    return enter <= leave * 1.000000000000002;  // loses no hit: each of the six is off by 3 half units at most
}

struct ExactBoundary {
    u32 open_edges;
    u32 rays;                    // at least 1
    const double* open_edge;     // [open_edges, 6] start and end
    const double* multiplicity;  // [open_edges]
    const double* ray;           // [rays, 3] unit vectors without zero components, tried in turn
};

// Signed number of crossings; *sure becomes false if the ray grazes a triangle or its edge, or p lies on one.
FN int exact_crossings(const ExactTree& tree, D3 p, D3 d, bool* sure) {
    D3 inverse = vec(1.0 / d.x, 1.0 / d.y, 1.0 / d.z);
    u32 stack[SDF_EXACT_STACK] = {0};
    int sum = 0;
    for (int depth = 1; depth > 0;) {
        u32 node = stack[--depth];
        if (!exact_ray_meets_box(p, inverse, tree.box + 6 * (size_t)node)) continue;
        if (node < tree.leaves - 1) {
            stack[depth++] = 2 * node + 1;
            stack[depth++] = 2 * node + 2;
            continue;
        }
        const double* t = tree.triangle + 9 * (size_t)tree.leaf_size * (node - (tree.leaves - 1));
        for (u32 k = 0; k < tree.leaf_size; k++, t += 9) {
            Crossing crossing = exact_crossing(d, load3(t) - p, load3(t + 3) - p, load3(t + 6) - p);
            sum += crossing == LEAVES ? 1 : crossing == ENTERS ? -1 : 0;
            if (crossing == UNSURE) *sure = false;
        }
    }
    return sum;
}

// Solid angle of the triangle (u, a, b), u a unit vector, seen from the origin (van Oosterom, Strackee 1983). *sure
// becomes false if a is within 4.5e-5 of the direction -u, where rounding rotates the triangle's side u a by more than
// about 1e-12. atan2 is the device library's: its last bits differ between CPU and GPU.
FN double exact_fan_angle(D3 u, D3 a, D3 b, bool* sure) {
    double la = sqrt(dot(a, a)), lb = sqrt(dot(b, b)), ua = dot(u, a);
    if (la + ua <= 1e-9 * la) *sure = false;
    return 2.0 * atan2(dot(u, cross(a, b)), la * lb + dot(a, b) + ua * lb + dot(u, b) * la);
}

// Solid angle of the fans. The boundary is closed: each edge starts where another ends.
FN double exact_fans(const ExactBoundary& boundary, D3 p, D3 antipode, bool* sure) {
    double sum = 0.0;
    for (u32 k = 0; k < boundary.open_edges; k++) {
        const double* edge = boundary.open_edge + 6 * (size_t)k;
        sum += boundary.multiplicity[k] * exact_fan_angle(antipode, load3(edge) - p, load3(edge + 3) - p, sure);
    }
    return sum;
}

// The first ray that grazes nothing decides. If all do, p lies on the surface, where no result is correct, and *sure is
// false.
FN double exact_winding(const ExactTree& tree, const ExactBoundary& boundary, D3 p, bool* sure) {
    double winding = 0.0;
    *sure = false;
    for (u32 k = 0; k < boundary.rays && !*sure; k++) {
        D3 d = load3(boundary.ray + 3 * k);
        *sure = true;
        int crossings = exact_crossings(tree, p, d, sure);
        winding = crossings + exact_fans(boundary, p, -1.0 * d, sure) / SDF_EXACT_FOUR_PI;
    }
    return winding;
}

struct sdf_exact_winding_args {
    u32 n;
    const double* points;  // [n, 3]
    ExactTree tree;
    ExactBoundary boundary;
    double* winding;  // [n] out
};
SDF_KERNEL(sdf_exact_winding, PLAIN, i) {
    bool sure;
    a.winding[i] = exact_winding(a.tree, a.boundary, load3(a.points + 3 * (size_t)i), &sure);
}

#endif
