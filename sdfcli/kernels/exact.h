// The reference that fields are judged by: distance and winding number in double precision. It shares only the vector
// arithmetic with the kernels that build fields: the tree, the point-triangle distance and the sign are all its own.
//
// THE TREE is a complete binary tree of boxes, made by median splits. Node k has the children 2 k + 1 and 2 k + 2; the
// last `leaves` nodes are leaves, of leaf_size triangles each. A triangle that fills up the last places is one point of
// the surface three times: it changes no distance and no winding number.
//
// COORDINATES are such that the surface has about unit size near the origin.
#ifndef SDFCLI_EXACT_H
#define SDFCLI_EXACT_H
#include "args.h"
#include "vec.h"

// A walk goes down at most 31 levels (the number of leaves is a power of two below 2^32) and postpones at most one
// sibling at each of them, beside the node that it is at.
#define SDF_EXACT_STACK 33

// ---- Distance ----

FN double exact_box_distance_sq(D3 p, const double* box) {  // box: lower x, y, z, upper x, y, z
    double x = most(most(box[0] - p.x, p.x - box[3]), 0.0), y = most(most(box[1] - p.y, p.y - box[4]), 0.0),
           z = most(most(box[2] - p.z, p.z - box[5]), 0.0);
    return x * x + y * y + z * z;
}

// Squared distance from the origin to the segment a b.
FN double exact_segment_distance_sq(D3 a, D3 b) {
    D3 e = b - a;
    double along = -dot(a, e), length_sq = dot(e, e);
    if (along <= 0.0) return dot(a, a);
    if (along >= length_sq) return dot(b, b);
    D3 r = a + (along / length_sq) * e;
    return dot(r, r);
}

FN double exact_outline_distance_sq(D3 a, D3 b, D3 c) {
    return least(exact_segment_distance_sq(a, b),
                 least(exact_segment_distance_sq(b, c), exact_segment_distance_sq(c, a)));
}

// Squared distance from the origin to the triangle a b c, by the Voronoi region that the origin lies in (Ericson 2005,
// Real-Time Collision Detection, 5.1.5). Two changes make it safe for slivers:
//  - the edges' regions are told by triple products with the normal n. Ericson's equal expression through dot products
//    (Lagrange's identity) cancels where n is small;
//  - inside the face, the height is measured over the foot of the perpendicular and not over a corner, so that an error
//    of n counts only in second order.
// The outline alone is the answer where the normal is made of rounding (below 1e-10 of its edges' product the face is
// narrower than the error of the distance to its plane), and where rounding leaves no region.
FN double exact_triangle_distance_sq(D3 a, D3 b, D3 c) {
    D3 ab = b - a, ac = c - a, n = cross(ab, ac);
    double n_sq = dot(n, n);
    if (!(n_sq > 1e-20 * dot(ab, ab) * dot(ac, ac))) return exact_outline_distance_sq(a, b, c);
    double ab_a = -dot(ab, a), ac_a = -dot(ac, a), ab_b = -dot(ab, b), ac_b = -dot(ac, b), ab_c = -dot(ab, c),
           ac_c = -dot(ac, c);
    if (ab_a <= 0.0 && ac_a <= 0.0) return dot(a, a);
    if (ab_b >= 0.0 && ac_b <= ab_b) return dot(b, b);
    if (ac_c >= 0.0 && ab_c <= ac_c) return dot(c, c);
    double w = dot(n, cross(a, b)), v = dot(n, cross(c, a)), u = dot(n, cross(b, c));
    if (w <= 0.0 && ab_a >= 0.0 && ab_b <= 0.0) return exact_segment_distance_sq(a, b);
    if (v <= 0.0 && ac_a >= 0.0 && ac_c <= 0.0) return exact_segment_distance_sq(c, a);
    if (u <= 0.0 && ac_b >= ab_b && ab_c >= ac_c) return exact_segment_distance_sq(b, c);
    if (!(u > 0.0 && v > 0.0 && w > 0.0)) return exact_outline_distance_sq(a, b, c);
    double sum = u + v + w;
    D3 foot = a + ((v / sum) * ab + (w / sum) * ac);
    double height = dot(n, foot);
    return height * height / n_sq;
}

// Nearer child first; a node is dropped once it is not nearer than the best triangle so far.
FN void sdf_exact_distance_at(const sdf_exact_distance_args& a, u32 i) {
    D3 p = load3(a.points + 3 * (size_t)i);
    u32 stack[SDF_EXACT_STACK] = {0};
    double bound[SDF_EXACT_STACK] = {0.0}, best = 1.7976931348623157e308;
    for (int depth = 1; depth > 0;) {
        u32 node = stack[--depth];
        if (bound[depth] >= best) continue;
        if (node >= a.leaves - 1) {
            const double* t = a.triangle + 9 * (size_t)a.leaf_size * (node - (a.leaves - 1));
            for (u32 k = 0; k < a.leaf_size; k++, t += 9)
                best = least(best, exact_triangle_distance_sq(load3(t) - p, load3(t + 3) - p, load3(t + 6) - p));
            continue;
        }
        u32 near = 2 * node + 1, far = near + 1;
        double near_sq = exact_box_distance_sq(p, a.box + 6 * (size_t)near),
               far_sq = exact_box_distance_sq(p, a.box + 6 * (size_t)far);
        if (far_sq < near_sq) {
            u32 other = near;
            near = far;
            far = other;
            double other_sq = near_sq;
            near_sq = far_sq;
            far_sq = other_sq;
        }
        stack[depth] = far;
        bound[depth++] = far_sq;
        stack[depth] = near;
        bound[depth++] = near_sq;
    }
    a.distance[i] = sqrt(best);
}

// ---- Winding number ----
//
// Seen from p, the surface covers the sphere of directions; the generalised winding number (Jacobson, Kavan, Sorkine
// 2013) is how often it does so on average. How often it covers ONE direction d is the signed number of times that the
// ray p + t d leaves through the surface. To get from there to the average, only the surface's boundary is needed
// (Martens, Bessmeltsev 2025, "One-Shot Method for Computing Generalized Winding Numbers"; Martens, Trettner,
// Bessmeltsev 2026, "The Antipodal Method"): fans of great-circle triangles from the antipode -d over the boundary's
// edges have the same boundary on the sphere as the surface has, so both cover all directions equally often but for a
// constant; and no such triangle covers d. Hence
//     w = crossings of the ray + (sum of the solid angles of (-d, i, j) over all open edges i -> j) / 4 pi.
// An open edge is one that triangles use more often in one direction than in the other.

#define SDF_EXACT_FOUR_PI 12.566370614359172

// A triple product a . (b x c) of differences to p is off by less than 16 half units in the last place of |a| |b| |c|,
// which is 1.8e-15 of it. More than twice that, squared:
#define SDF_EXACT_UNSURE_SQ 1.6e-29

// The sign of a triple product; 0 where rounding may have made it. lengths_sq: of its three vectors, multiplied.
FN int exact_sign(double product, double lengths_sq) {
    if (product * product <= SDF_EXACT_UNSURE_SQ * lengths_sq) return 0;
    return product > 0.0 ? 1 : -1;
}

enum Crossing { MISSES, LEAVES, ENTERS, UNSURE };

// How the ray from the origin along d meets the triangle a b c: d must lie between the three planes through the origin
// and an edge each, and the origin behind the triangle. For a hit all four determinants have one sign, +1 if the ray
// leaves a surface whose triangles are counter-clockwise from outside; two certain opposite signs are a miss. Certain
// signs are those of exact arithmetic, so the triangles at an edge agree on it: no ray slips through or counts twice.
// A single point three times is missed by every ray.
FN Crossing exact_crossing(D3 d, D3 a, D3 b, D3 c) {
    D3 ab = cross(a, b);
    double a_sq = dot(a, a), b_sq = dot(b, b), c_sq = dot(c, c);
    int s[4] = {exact_sign(dot(d, ab), a_sq * b_sq), exact_sign(dot(d, cross(b, c)), b_sq * c_sq),
                exact_sign(dot(d, cross(c, a)), c_sq * a_sq), exact_sign(dot(c, ab), a_sq * b_sq * c_sq)};
    int low = least(least(s[0], s[1]), least(s[2], s[3])), high = most(most(s[0], s[1]), most(s[2], s[3]));
    if (low < 0 && high > 0) return MISSES;
    if (low > 0) return LEAVES;
    if (high < 0) return ENTERS;
    return dot(b - a, b - a) + dot(c - a, c - a) > 0.0 ? UNSURE : MISSES;
}

FN bool exact_ray_meets_box(D3 p, D3 inverse, const double* box) {
    double x0 = (box[0] - p.x) * inverse.x, x1 = (box[3] - p.x) * inverse.x;
    double y0 = (box[1] - p.y) * inverse.y, y1 = (box[4] - p.y) * inverse.y;
    double z0 = (box[2] - p.z) * inverse.z, z1 = (box[5] - p.z) * inverse.z;
    double enter = most(most(least(x0, x1), least(y0, y1)), most(least(z0, z1), 0.0));
    double leave = least(most(x0, x1), least(most(y0, y1), most(z0, z1)));
    return enter <= leave * 1.000000000000002;  // no hit is lost: each of the six is off by 3 half units at most
}

// The signed number of crossings; *sure is false if the ray grazes an edge, a corner or a triangle, or p lies on one.
FN int exact_crossings(const sdf_exact_winding_args& a, D3 p, D3 d, bool* sure) {
    D3 inverse = vec(1.0 / d.x, 1.0 / d.y, 1.0 / d.z);
    u32 stack[SDF_EXACT_STACK] = {0};
    int sum = 0;
    *sure = true;
    for (int depth = 1; depth > 0;) {
        u32 node = stack[--depth];
        if (!exact_ray_meets_box(p, inverse, a.box + 6 * (size_t)node)) continue;
        if (node < a.leaves - 1) {
            stack[depth++] = 2 * node + 1;
            stack[depth++] = 2 * node + 2;
            continue;
        }
        const double* t = a.triangle + 9 * (size_t)a.leaf_size * (node - (a.leaves - 1));
        for (u32 k = 0; k < a.leaf_size; k++, t += 9) {
            Crossing crossing = exact_crossing(d, load3(t) - p, load3(t + 3) - p, load3(t + 6) - p);
            sum += crossing == LEAVES ? 1 : crossing == ENTERS ? -1 : 0;
            if (crossing == UNSURE) *sure = false;
        }
    }
    return sum;
}

// Solid angle of the triangle (u, a, b), u a unit vector, seen from the origin (van Oosterom, Strackee 1983).
FN double exact_fan_angle(D3 u, D3 a, D3 b) {
    double la = sqrt(dot(a, a)), lb = sqrt(dot(b, b));
    return 2.0 * atan2(dot(u, cross(a, b)), la * lb + dot(a, b) + dot(u, a) * lb + dot(u, b) * la);
}

FN double exact_fan(const sdf_exact_winding_args& a, D3 p, D3 antipode) {
    double sum = 0.0;
    for (u32 k = 0; k < a.open_edges; k++) {
        const double* edge = a.open_edge + 6 * (size_t)k;
        sum += a.multiplicity[k] * exact_fan_angle(antipode, load3(edge) - p, load3(edge + 3) - p);
    }
    return sum;
}

// The first ray that grazes nothing decides. If all do, p lies on the surface, where no answer is right.
FN void sdf_exact_winding_at(const sdf_exact_winding_args& a, u32 i) {
    D3 p = load3(a.points + 3 * (size_t)i), d;
    int crossings;
    bool sure;
    u32 k = 0;
    do {
        d = load3(a.ray + 3 * k);
        crossings = exact_crossings(a, p, d, &sure);
    } while (!sure && ++k < a.rays);
    a.winding[i] = crossings + exact_fan(a, p, -1.0 * d) / SDF_EXACT_FOUR_PI;
}

#endif
