// Largest possible difference of the exact distance from a level, on triangles of an extracted surface:
// docs/internals/proof.md derives it.
//
// A part of a triangle in one leaf has the field's range there, widened by the leaf's bound. Another one has the
// differences at its corners, and grows by the way from there. Parts are split in four while bounds are to be improved.
//
// INTERFACE
//   sdf_level_corners   the difference at vertices
//   sdf_level_faces     on triangles
#ifndef SDFCLI_SURFACE_PROVEN_H
#define SDFCLI_SURFACE_PROVEN_H
#include "base/kernel.h"
#include "contact/bounds.h"
#include "field/range.h"

#define SDF_LEVEL_SPLITS 8     // maximum subdivision depth of a triangle
#define SDF_LEVEL_NONE 1e300   // no bound
#define SDF_LEVEL_OUT 1e-9     // of a leaf's edge: points this far out count as in the leaf
#define SDF_LEVEL_SLACK 1e-12  // of the domain's edge: exceeds the rounding of positions

struct LevelTask {
    Sampler field;
    StatedError error;
    double iso;
};
// From the field's range in a leaf.
FN double level_difference(const LevelTask& a, u32 leaf, double low, double high) {
    StatedError own = error_in(a.error, leaf);
    if (!(own.near < own.band)) return SDF_LEVEL_NONE;
    double length = a.field.domain.length;
    double above = -lowest_true(own, -high, length) - a.iso, below = a.iso - lowest_true(own, low, length);
    return max_of(above, below) + SDF_LEVEL_SLACK * length;
}
FN double level_difference_at(const LevelTask& a, D3 p) {
    Way way = way_to_leaf(a.field, p);
    double x = at_point(a.field, way, nullptr).inside;
    return level_difference(a, leaf_of(way), x, x);
}

struct sdf_level_corners_args {
    u32 n;
    LevelTask task;
    const double* vertex;  // [n, 3]
    double* off;           // [n] out: SDF_LEVEL_NONE without a bound
};
SDF_KERNEL(sdf_level_corners, PLAIN, i) { a.off[i] = level_difference_at(a.task, load3(a.vertex + 3 * (size_t)i)); }

struct LevelPart {
    D3 p[3];
    double off[3];  // at the corners
    int level;
};
// On a part of a triangle.
FN double level_part(const LevelTask& a, const LevelPart& part) {
    const double full = (double)(1u << SDF_LATTICE_BITS);
    Way way = way_to_leaf(a.field, (1.0 / 3.0) * (part.p[0] + part.p[1] + part.p[2]));
    u32 leaf = leaf_of(way), s = leaf_shift(a.field, way);
    const Domain& domain = a.field.domain;
    D3 low = leaf_low(way, s), t[3];
    double scale = full / domain.length, over = 1.0 / (double)(1u << s);
    bool within = true;
    for (int k = 0; k < 3; k++) {
        t[k] = over * (scale * (part.p[k] - vec(domain.x, domain.y, domain.z)) - low);
        D3 in = vec(clamp01(t[k].x), clamp01(t[k].y), clamp01(t[k].z)), out = t[k] - in;
        within = within && dot(out, out) <= SDF_LEVEL_OUT * SDF_LEVEL_OUT;
        t[k] = in;
    }
    if (within) {
        double v[8];
        for (int c = 0; c < 8; c++) v[c] = (double)a.field.leaf_value[8 * (size_t)leaf + c];
        FieldRange range = range_in_leaf(v, t);
        return level_difference(a, leaf, range.low, range.high) + 2.0 * SDF_LEVEL_OUT / (over * scale);
    }
    if (level_difference(a, leaf, 0.0, 0.0) >= SDF_LEVEL_NONE) return SDF_LEVEL_NONE;
    D3 x = part.p[1] - part.p[0], y = part.p[2] - part.p[0], z = part.p[2] - part.p[1];
    double edge_sq = max_of(max_of(dot(x, x), dot(y, y)), dot(z, z));
    double most = max_of(max_of(part.off[0], part.off[1]), part.off[2]);
    return most >= SDF_LEVEL_NONE ? SDF_LEVEL_NONE : most + 1.000001 * sqrt(edge_sq) / SDF_SQRT3;
}

struct sdf_level_faces_args {
    u32 n;
    LevelTask task;
    const u32* face;       // [n, 3]
    const double* vertex;  // [vertices, 3]
    const double* off;     // [vertices] from sdf_level_corners
    double found;          // the largest difference at points of the surface;
    double margin;         // bounds up to this multiple of it need not be improved
    double* bound;         // [n] out: SDF_LEVEL_NONE without a bound
};
SDF_KERNEL(sdf_level_faces, PLAIN, i) {
    LevelPart stack[3 * SDF_LEVEL_SPLITS + 1];
    for (int k = 0; k < 3; k++) {
        u32 corner = a.face[3 * (size_t)i + k];
        stack[0].p[k] = load3(a.vertex + 3 * (size_t)corner);
        stack[0].off[k] = a.off[corner];
    }
    stack[0].level = 0;
    double worst = 0.0, found = 0.0;  // found: largest at the parts' corners
    for (int depth = 1; depth > 0;) {
        LevelPart part = stack[--depth];
        double bound = level_part(a.task, part);
        for (int k = 0; k < 3; k++) found = max_of(found, part.off[k]);
        if (bound <= a.margin * max_of(a.found, found) || part.level == SDF_LEVEL_SPLITS || bound >= SDF_LEVEL_NONE) {
            worst = max_of(worst, bound);
            continue;
        }
        D3 p[6] = {part.p[0], part.p[1], part.p[2]};
        double off[6] = {part.off[0], part.off[1], part.off[2]};
        for (int k = 0; k < 3; k++) {  // opposite to corner k
            p[3 + k] = 0.5 * (p[(k + 1) % 3] + p[(k + 2) % 3]);
            off[3 + k] = level_difference_at(a.task, p[3 + k]);
        }
        const int corners[4][3] = {{0, 5, 4}, {5, 1, 3}, {4, 3, 2}, {3, 4, 5}};
        for (int child = 0; child < 4; child++) {
            LevelPart& inner = stack[depth++];
            inner.level = part.level + 1;
            for (int k = 0; k < 3; k++) {
                inner.p[k] = p[corners[child][k]];
                inner.off[k] = off[corners[child][k]];
            }
        }
    }
    a.bound[i] = worst;
}

#endif
