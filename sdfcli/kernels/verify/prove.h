// Bounds on a field's error that hold everywhere in a cell: docs/internals/proof.md derives them.
//
// A cell is a leaf or one of its parts, an eighth of an eighth and so on, on which the field is trilinear, too. All
// lengths are in the coordinates of `surface` (verify/exact.h). phi is the exact signed distance, d its magnitude, f
// the field, m the cell's centre, rho the distance from there to the corners, e the rounding allowance.
//
// Three bounds of d, at points x of the cell:
//   corners   d^2 - |x|^2 is concave, so d >= sqrt(g^2 - Q), where g interpolates the distances at the corners
//   supports  the faces nearest to the cell's points lie in a ball B(m, R); if u.y <= h for them, d >= u.x - h
//   faces     d is at most the distance to one face, which is convex: at most its interpolation from the corners
//
// The first two need phi's sign. A cell without faces has its centre's. Otherwise the part of the ball beyond a support
// has no faces and one sign, that of a witness in it, and bounds phi on both sides of the support.
//
// INTERFACE
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
    double value_scale;      // from the field's values
    const u64* leaf_key;     // [leaves]
    const u8* leaf_level;    // [leaves]
    const u32* leaf_corner;  // [leaves, 8]
    const float* value;      // [corners]
    u32* mark;               // [leaves] in and out: see below
    u64* leaf_found;         // [leaves] in and out: the bits of the largest error found at points
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
};
// path: octants, three bits each, the last in the lowest; above SDF_PROOF_SIGN, the sign of a cell without faces: 1 for
// outside, 2 for inside, 0 if unknown.
#define SDF_PROOF_SIGN 30
FN u32 part_path(u32 path, u32 octant) { return path >> SDF_PROOF_SIGN << SDF_PROOF_SIGN | (path << 5 >> 2) | octant; }
FN ProofCell proof_cell(const ProofTask& a, u32 leaf, u32 path, u32 halvings) {
    ProofCell cell;
    const double full = (double)(1u << SDF_LATTICE_BITS);
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
    cell.edge = a.length * (part * size / full);
    cell.rho = 0.8660254037844387 * cell.edge;
    auto placed = [&](D3 t) {
        return vec(a.x + a.length * (((double)at.x + size * t.x) / full),
                   a.y + a.length * (((double)at.y + size * t.y) / full),
                   a.z + a.length * (((double)at.z + size * t.z) / full));
    };
    for (int c = 0; c < 8; c++) {
        D3 t = low + part * vec((double)(c & 1), (double)(c >> 1 & 1), (double)(c >> 2));
        cell.corner[c] = placed(t);
        cell.value[c] = trilinear(v, t);
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
FN void find_supports(const ExactTree& tree, D3 m, double radius, double slack, Supports& found) {
    u32 stack[SDF_EXACT_STACK] = {0};
    for (int depth = 1; depth > 0;) {
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

// Distance of a number from the numbers k + 1/2.
FN double from_half(double winding) {
    double over = winding - 0.5, part = over - (double)(long long)over;
    part = abs_of(part);
    return min_of(part, 1.0 - part);
}

// ---- A cell ----

FN double growth(const ProofTask& a, double distance) { return max_of(1.0, distance / a.band); }
FN double nearest_error(const ProofTask& a, double value, double sign, double d) {
    double error = sign != 0.0 ? abs_of(sign * value - d) : abs_of(abs_of(value) - d);
    return error / growth(a, d);
}
FN bool enough(const ProofTask& a, const Proven& proven, double limit) {
    return max_of(proven.error.over, proven.error.under) + 4.0 * a.slack <= limit * a.unit * growth(a, proven.least);
}

// From the distances at the corners, and the faces nearest to them. nearest: to the centre.
FN void prove_by_corners(const ProofTask& a, const ProofCell& cell, u32 nearest, Proven& proven) {
    double d[8], above[9][8];
    u32 triangle[9] = {nearest};
    int triangles = 1;
    corner_distances(a, cell, nearest, above[0]);
    for (int c = 0; c < 8; c++) {
        int start = 0;
        for (int k = 1; k < triangles; k++)
            if (above[k][c] < above[start][c]) start = k;
        double known_sq = (above[start][c] - a.slack) * (above[start][c] - a.slack);
        ExactHit hit = exact_nearest(a.surface, cell.corner[c], {known_sq, triangle[start]});
        d[c] = sqrt(hit.distance_sq);
        proven.found = max_of(proven.found, nearest_error(a, cell.value[c], proven.sign, d[c]));
        d[c] = max_of(d[c] - a.slack, 0.0);
        bool known = false;
        for (int k = 0; k < triangles; k++) known |= triangle[k] == hit.triangle;
        if (known) continue;
        corner_distances(a, cell, hit.triangle, above[triangles]);
        triangle[triangles++] = hit.triangle;
    }
    proven.least = max_of(proven.least, bound_by_corners(cell, proven.sign, d, proven.error));
    bound_by_means(a, cell, above, triangles, proven);
}

// From supports of the faces in the ball.
FN void prove_by_supports(const ProofTask& a, const ProofCell& cell, u32 nearest, Proven& proven) {
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
    find_supports(a.surface, m, radius, a.slack, found);
    double change = -1.0;  // of the winding number on one radius
    for (int side = 0; side < (a.is_signed ? 2 : 1); side++) {
        double sign = side ? -1.0 : 1.0, least = SDF_PROOF_INFINITE, h = 0.0;
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
        if (proven.sign == sign) {  // d >= u.x - h is sufficient
            bound_below(proven.error, sign, least);
            continue;
        }
        double past = max_of(h, 0.0), inner = radius - a.slack;
        if (!(radius - h > 4.0 * a.slack) || cell.rho * cell.rho + past * past > inner * inner) continue;
        if (change < 0.0) change = winding_change(a, m, radius);
        bool sure = false;
        double winding = change < 0.25 ? winding_at(a, m + 0.5 * (h + radius) * u, &sure) : 0.0;
        if (change >= 0.25 || (a.boundary.open_edges && from_half(winding) <= 2.0 * change + SDF_PROOF_WINDING)) {
            proven.uncertain |= !proven.free;
            return;
        }
        if (sure && sign_of(winding) == sign) bound_below(proven.error, sign, least);
    }
}

#define SDF_PROOF_NEAR 6.0  // in rho: up to this distance supports are tried before corners

// known: the sign, if the cell is part of one without faces; else 0.
FN Proven prove_cell(const ProofTask& a, const ProofCell& cell, double known, double limit) {
    ExactHit centre = exact_nearest(a.surface, cell.middle);
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
    else if (proven.free) {
        bool sure = false;
        double change = winding_change(a, cell.middle, cell.rho);
        double winding = change < SDF_PROOF_CHANGE ? winding_at(a, cell.middle, &sure) : 0.5;
        proven.uncertain = a.boundary.open_edges && abs_of(winding - 0.5) <= change + SDF_PROOF_WINDING;
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
    bool near = far < SDF_PROOF_NEAR * cell.rho, corners = proven.free || !a.is_signed;
    for (int k = 0; k < 2 && !proven.uncertain && !enough(a, proven, limit); k++)
        if (near == (k == 0))
            prove_by_supports(a, cell, centre.triangle, proven);
        else if (corners)
            prove_by_corners(a, cell, centre.triangle, proven);
    return proven;
}

// ---- Kernels ----

struct sdf_proof_cells_args {
    u32 n;
    ProofTask task;
    u32 halvings;
    u32 first;            // index of the first cell, without halvings: of its leaf
    double limit;         // bounds up to this need not be improved
    const u32* leaf;      // [parents] null: the cells are leaves. Cell i is octant i % 8 of parent i / 8
    const u32* path;      // [parents]
    const double* above;  // [parents] bounds of the parents
    double* bound;        // [n] out: maximum error over the growth of the tolerance, in units
    u8* state;            // [n] out: 1 if the sign is uncertain; 2, 4: no faces, and outside, or inside
};
SDF_KERNEL(sdf_proof_cells, PLAIN, i) {
    u32 leaf = a.leaf ? a.leaf[i >> 3] : a.first + i, path = a.leaf ? part_path(a.path[i >> 3], i & 7u) : 0u;
    u32 known = path >> SDF_PROOF_SIGN;
    ProofCell cell = proof_cell(a.task, leaf, path, a.halvings);
    Proven proven = prove_cell(a.task, cell, known == 1 ? 1.0 : known == 2 ? -1.0 : 0.0, a.limit);
    double worst = max_of(proven.error.over, proven.error.under) + 4.0 * a.task.slack;
    double bound = max_of(worst, 0.0) / (a.task.unit * growth(a.task, proven.least)) * SDF_PROOF_UP;
    if (proven.uncertain || !(bound <= SDF_PROOF_INFINITE)) bound = SDF_PROOF_INFINITE;
    a.bound[i] = a.above ? min_of(bound, a.above[i >> 3]) : bound;
    u32 sign = a.task.is_signed && proven.free && !proven.uncertain ? proven.sign > 0.0   ? 2u
                                                                      : proven.sign < 0.0 ? 4u
                                                                                          : 0u
                                                                    : 0u;
    a.state[i] = (u8)(proven.uncertain | sign);
    u32 mark = a.halvings == 0 && proven.free ? SDF_PROOF_FREE : 0u;
    if (a.task.is_signed && proven.sign != 0.0) mark |= proven.sign > 0.0 ? SDF_PROOF_OUTSIDE : SDF_PROOF_INSIDE;
    if (proven.uncertain && a.halvings >= a.task.hole_halvings) mark |= SDF_PROOF_HOLE;
    if (mark) atomic_or(a.task.mark + leaf, mark);
    if (proven.uncertain) return;
    u64 found = double_bits(proven.found / a.task.unit);
    atomic_max(a.task.leaf_found + leaf, found);
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
    u32* split_leaf;      // [n] out
    u32* split_path;      // [n] out
    double* split_bound;  // [n] out
};
SDF_KERNEL(sdf_proof_split, PLAIN, k) {
    u32 i = a.chosen[k];
    a.split_leaf[k] = a.leaf ? a.leaf[i >> 3] : a.first + i;
    a.split_path[k] = (a.leaf ? part_path(a.path[i >> 3], i & 7u) : 0u) | (u32)(a.state[i] >> 1) << SDF_PROOF_SIGN;
    a.split_bound[k] = a.bound[i];
}

#endif
