// Deepest points on single triangles of a posed mesh.
//
// A triangle is split in four, depth first, while one of its parts could be deeper than the known bound. Distances
// change by no more than the path length. Also, where a part's corners have distances of at least d, a point with
// barycentric weights w has a squared distance of at least sum w d^2 - sum w |corner - point|^2 >= d^2 - h^2 / 3 for
// edges of at most h (parallel axis theorem, for any point on the other surface). The second bound is tighter for parts
// that are small relative to their distance: a face at a distance d from a wall takes area / (d e) samples instead of
// area / e^2. A part within one leaf is bounded by the leaf's polynomial, which flat faces need that touch flat walls,
// or lie inside.
//
// INTERFACE
//   sdf_contact_deepest  for pairs (pose, triangle)
//   sdf_contact_first    per pose, the triangle with the minimum bound
//   sdf_contact_verdict  per pose, bounds on the minimum distance, and the verdict
//   sdf_contact_normals  unit normals
#ifndef SDFCLI_CONTACT_DEEPEST_H
#define SDFCLI_CONTACT_DEEPEST_H
#include "contact/spheres.h"
#include "field/range.h"

#define SDF_SPLITS 30  // maximum subdivision depth
#define SDF_NEW (-1)

// A point on a triangle: lower bound for its distance, and its leaf.
struct Corner {
    double bound;
    u32 leaf;
};

// Part of a triangle with corners (x, y), (x + step, y), (x, y + step), in units of 2^-level along the two sides at the
// triangle's first corner.
struct Part {
    int x, y, step;
    Corner at[3];
    Corner between[3];  // midpoints of the sides first-second, first-third, second-third
    int next;           // next sub-part 0 .. 3; SDF_NEW before the split
};

// Deepest point found so far on a triangle.
struct Deepest {
    D3 point;
    Probe probe;
    double bound;
};

struct sdf_contact_deepest_args {
    u32 n;                  // pairs (pose, triangle)
    const u32* pose;        // [n]
    const u32* slot;        // [n] triangles
    const float* triangle;  // [triangles, 9] in the unit cube
    const float* sphere;    // [nodes, 4]
    Posed posed;
    const u64* least;  // [poses] order_bits of the pose's minimum bound, known before
    u64* found;        // [poses] in and out: the same, over these pairs
    double* bound;     // [n] out: minimum bound over the triangle's samples
    double* value;     // [n] out: the distance there
    double* upper;     // [n] out: upper bound for the true distance there
    double* point;     // [n, 3] out
};
FN Corner try_point(const Posed& posed, D3 p, Deepest& best) {
    Probe found = probe(posed.field, posed.padding, way_to_leaf(posed.field, p));
    double bound = lower_bound_of(posed.error, found, posed.field.domain.length);
    if (bound < best.bound) {
        best.point = p;
        best.probe = found;
        best.bound = bound;
    }
    Corner corner = {bound, found.leaf};
    return corner;
}
// Lower bound for a part with edges of at most reach * sqrt(3).
FN double bound_of_part(const Corner* at, double reach) {
    double low = min_of(min_of(at[0].bound, at[1].bound), at[2].bound);
    return low >= reach ? sqrt(low * low - reach * reach) : low - reach;
}
// Lower bound for the field on a triangle within a leaf.
FN double least_in_leaf(const Sampler& field, const D3* p) {
    const double full = (double)(1u << SDF_LATTICE_BITS);
    Way way = way_to_leaf(field, p[0]);
    u32 leaf = leaf_of(way), s = leaf_shift(field, way);
    D3 low = leaf_low(way, s), t[3];
    double v[8], scale = full / field.domain.length, over = 1.0 / (double)(1u << s);
    for (int c = 0; c < 8; c++) v[c] = (double)field.leaf_value[8 * (size_t)leaf + c];
    for (int k = 0; k < 3; k++)
        t[k] = over * (scale * (p[k] - vec(field.domain.x, field.domain.y, field.domain.z)) - low);
    return range_in_leaf(v, t).low;
}
SDF_KERNEL(sdf_contact_deepest, PLAIN, i) {
    const Posed& posed = a.posed;
    u32 pose = a.pose[i];
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    D3 corner = place(posed, pose, load3d(t)), other = place(posed, pose, load3d(t + 3));
    D3 third = place(posed, pose, load3d(t + 6)), along = other - corner, across = third - corner, rest = third - other;
    double edge_sq = max_of(max_of(dot(along, along), dot(across, across)), dot(rest, rest));
    double reach = sqrt(edge_sq) / SDF_SQRT3, known = bound_to_beat(posed, a.least[pose]);

    Deepest best;
    best.bound = 1e300;
    try_point(posed, place(posed, pose, load3d(a.sphere + 4 * (size_t)a.slot[i])), best);
    Part stack[SDF_SPLITS];
    stack[0].x = stack[0].y = 0, stack[0].step = 1, stack[0].next = SDF_NEW;
    stack[0].at[0] = try_point(posed, corner, best);
    stack[0].at[1] = try_point(posed, other, best);
    stack[0].at[2] = try_point(posed, third, best);
    for (int level = 0; level >= 0;) {
        Part& part = stack[level];
        double size = 1.0 / (double)(1u << level);
        if (part.next == SDF_NEW) {
            double wanted = min_of(best.bound - slack_of(posed.error, best.bound), known);
            bool done = level + 1 == SDF_SPLITS || bound_of_part(part.at, reach * size) >= wanted;
            u32 leaf = part.at[0].leaf;
            if (!done && leaf != SDF_NONE && part.at[1].leaf == leaf && part.at[2].leaf == leaf) {
                D3 p[3];
                for (int k = 0; k < 3; k++) {
                    int x = part.x + (k == 1 ? part.step : 0), y = part.y + (k == 2 ? part.step : 0);
                    p[k] = corner + (size * x) * along + (size * y) * across;
                }
                double least = least_in_leaf(posed.field, p);
                done = lowest_true(error_in(posed.error, leaf), least, posed.field.domain.length) >= wanted;
            }
            if (done) {
                level--;
                continue;
            }
            double half = 0.5 * size;
            for (int k = 0; k < 3; k++) {
                int x = 2 * part.x + (k != 1 ? part.step : 0), y = 2 * part.y + (k != 0 ? part.step : 0);
                part.between[k] = try_point(posed, corner + (half * x) * along + (half * y) * across, best);
            }
            part.next = 0;
        }
        if (part.next == 4) {
            level--;
            continue;
        }
        int k = part.next++;
        Part& inner = stack[++level];
        int x = 2 * part.x, y = 2 * part.y, step = part.step;
        const Corner *at = part.at, *between = part.between;
        inner.next = SDF_NEW;
        inner.step = k == 3 ? -step : step;
        inner.x = x + (k == 1 || k == 3 ? step : 0);
        inner.y = y + (k == 2 || k == 3 ? step : 0);
        inner.at[0] = k == 0 ? at[0] : k == 1 ? between[0] : k == 2 ? between[1] : between[2];
        inner.at[1] = k == 0 ? between[0] : k == 1 ? at[1] : k == 2 ? between[2] : between[1];
        inner.at[2] = k == 0 ? between[1] : k == 1 ? between[2] : k == 2 ? at[2] : between[0];
    }
    u64 order = order_bits(best.bound), *found = a.found + pose;
    if (load_relaxed(found) < order) atomic_max(found, order);
    a.bound[i] = best.bound;
    a.value[i] = value_of(best.probe);
    a.upper[i] = upper_bound_of(posed.error, best.probe, posed.field.domain.length);
    double point[3] = {best.point.x, best.point.y, best.point.z};
    for (int k = 0; k < 3; k++) a.point[3 * (size_t)i + k] = point[k];
}

struct sdf_contact_first_args {
    u32 n;
    const u32* pose;         // [n]
    const u32* slot;         // [n]
    const u32* triangle_id;  // [triangles]
    const double* bound;     // [n]
    const u64* found;        // [poses]
    u64* first;              // [poses] in and out: 2^32 less the smallest id among the triangles with the minimum bound
};
SDF_KERNEL(sdf_contact_first, PLAIN, i) {
    u32 pose = a.pose[i];
    if (order_bits(a.bound[i]) == a.found[pose]) atomic_max(a.first + pose, (1ULL << 32) - a.triangle_id[a.slot[i]]);
}

struct sdf_contact_verdict_args {
    u32 n;                   // poses
    const long long* row;    // [n] the pair with the minimum bound
    const double* bound;     // [pairs]
    const double* upper;     // [pairs]
    const double* rounding;  // [n] rounding error of positions
    StatedError error;
    int is_unsigned;  // whether the field lacks signs
    double* low;      // [n] out: bounds on the minimum true distance
    double* high;     // [n] out
    u8* verdict;      // [n] out: 0 clear, 1 touching, 2 penetrating
};
SDF_KERNEL(sdf_contact_verdict, PLAIN, i) {
    double bound = a.bound[a.row[i]], low = bound - slack_of(a.error, bound) - a.rounding[i];
    double high = a.upper[a.row[i]] + a.rounding[i];
    if (a.is_unsigned) {
        low = max_of(low, 0.0);
        high = max_of(high, 0.0);
    }
    a.low[i] = low;
    a.high[i] = high;
    a.verdict[i] = low > 0.0 ? 0 : high < 0.0 ? 2 : 1;
}

#define SDF_FLAT 1e-3  // a smaller slope has no direction
#define SDF_NEARBY 14  // levels of neighbour steps: from 2^-14 domain edges

// Central difference over one leaf edge to both sides: second order for a smooth field, while a leaf's own gradient is
// exact only at its centre.
FN D3 slope_at(const Sampler& field, D3 p) {
    Way way = way_to_leaf(field, p);
    double step = field.domain.length / (double)(1u << field.leaf_level[leaf_of(way)]), slope[3];
    for (int k = 0; k < 3; k++) {
        D3 along = vec(k == 0 ? step : 0.0, k == 1 ? step : 0.0, k == 2 ? step : 0.0);
        slope[k] = (sdf_sample(field, p + along, nullptr) - sdf_sample(field, p - along, nullptr)) / (2.0 * step);
    }
    return load3(slope);
}

// Unit normals along the slope. Where it vanishes, as at a ball's centre, the slope is taken one step away along an
// axis, for the smallest step where one exists: the steepest, or the first among equals. 0 where none exists.
struct sdf_contact_normals_args {
    u32 n;
    const double* point;  // [n, 3]
    Sampler field;
    double* normal;  // [n, 3] out
};
SDF_KERNEL(sdf_contact_normals, PLAIN, i) {
    D3 p = load3(a.point + 3 * (size_t)i), best = slope_at(a.field, p);
    double most = dot(best, best);
    for (int level = SDF_NEARBY; level > 0 && most < SDF_FLAT * SDF_FLAT; level--) {
        double step = a.field.domain.length / (double)(1u << level);
        for (int side = 0; side < 6; side++) {
            double way[3] = {0.0, 0.0, 0.0};
            way[side >> 1] = side & 1 ? step : -step;
            D3 there = slope_at(a.field, p + load3(way));
            if (dot(there, there) > most) {
                most = dot(there, there);
                best = there;
            }
        }
    }
    double over = most < SDF_FLAT * SDF_FLAT ? 0.0 : 1.0 / sqrt(most);
    double normal[3] = {over * best.x, over * best.y, over * best.z};
    for (int k = 0; k < 3; k++) a.normal[3 * (size_t)i + k] = normal[k];
}

#endif
