// Value and gradient of a field at points.
//
// INTERFACE
//   store_sample      a point that has come to its leaf
//   sdf_field_sample  points in the mesh's units
#ifndef SDFCLI_FIELD_SAMPLE_H
#define SDFCLI_FIELD_SAMPLE_H
#include "base/kernel.h"
#include "field/leaf_tree.h"

struct sdf_field_sample_args {
    u32 n;
    const double* points;  // [n, 3] in the mesh's units; null where `single` is given
    const float* single;   // [n, 3]
    Domain domain;
    const u8* leaf_level;     // [leaves]
    const float* leaf_value;  // [leaves, 8] in the mesh's units
    LeafTree tree;
    u32* marks;        // [1] in and out: 1 where a point is not finite
    double* result;    // [n] out; may be null
    double* gradient;  // [n, 3] out; may be null
    u32* leaf_of;      // [n] out; may be null
};
FN void start_way(const sdf_field_sample_args& a, u32 i, Way& way) {
    D3 p = a.single ? load3d(a.single + 3 * (size_t)i) : load3(a.points + 3 * (size_t)i);
    if (!((p.x - p.x) + (p.y - p.y) + (p.z - p.z) == 0.0)) store_relaxed(a.marks, 1u);
    const double full = (double)(1u << SDF_LATTICE_BITS), last = full - 1.0;
    D3 unit = vec((p.x - a.domain.x) / a.domain.length, (p.y - a.domain.y) / a.domain.length,
                  (p.z - a.domain.z) / a.domain.length);
    D3 inside = vec(clamp01(unit.x), clamp01(unit.y), clamp01(unit.z)), u = full * inside;
    way.unit = unit;
    way.inside = inside;
    way.cell.x = (u32)(int)min_of(u.x, last);
    way.cell.y = (u32)(int)min_of(u.y, last);
    way.cell.z = (u32)(int)min_of(u.z, last);
    way.shift = SDF_TOP_SHIFT;
}

// Value and gradient of the trilinear field. A point outside of the domain takes the value at the nearest point of the
// domain plus the distance to it: an upper bound of the true distance outside.
FN void store_sample(const sdf_field_sample_args& a, u32 i, const Way& way) {
    u32 leaf = leaf_of(way), s = way.shift;
    if (s == SDF_TOP_SHIFT) s = SDF_LATTICE_BITS - a.leaf_level[leaf];
    const double full = (double)(1u << SDF_LATTICE_BITS), cells = (double)(1u << (SDF_LATTICE_BITS - s));
    D3 low = vec((double)(way.cell.x >> s << s), (double)(way.cell.y >> s << s), (double)(way.cell.z >> s << s));
    D3 t = (cells / full) * (full * way.inside - low);  // from 0 to 1 in the leaf; powers of two: nothing is rounded
    D3 outwards = way.unit - way.inside;
    double v[8];
    for (int c = 0; c < 8; c++) v[c] = (double)a.leaf_value[8 * (size_t)leaf + c];
    double far_sq = dot(outwards, outwards), far = far_sq > 0.0 ? sqrt(far_sq) : 0.0;
    if (!(far_sq > 1e-300 && far_sq < 1e300)) {  // squares that leave double
        double m = max_of(max_of(max_of(outwards.x, -outwards.x), max_of(outwards.y, -outwards.y)),
                          max_of(outwards.z, -outwards.z));
        if (m > 0.0) {
            D3 part = vec(outwards.x / m, outwards.y / m, outwards.z / m);
            far = m * sqrt(dot(part, part));
        }
    }
    if (a.result) a.result[i] = trilinear(v, t) + far * a.domain.length;
    if (a.leaf_of) a.leaf_of[i] = leaf;
    if (!a.gradient) return;
    double* g = a.gradient + 3 * (size_t)i;
    double scale = cells / a.domain.length;
    double slope[3] = {0.0, 0.0, 0.0}, along[3] = {t.x, t.y, t.z};
    double beyond[3] = {outwards.x, outwards.y, outwards.z};
    for (int axis = 0; axis < 3; axis++)
        for (int c = 0; c < 8; c++) {
            if (c >> axis & 1) continue;
            double weight = 1.0;  // of this one of the four edges along the axis
            for (int other = 0; other < 3; other++)
                if (other != axis) weight *= c >> other & 1 ? along[other] : 1.0 - along[other];
            slope[axis] += weight * (v[c | 1 << axis] - v[c]);
        }
    for (int k = 0; k < 3; k++) g[k] = beyond[k] != 0.0 ? beyond[k] / far : slope[k] * scale;
}

SDF_KERNEL(sdf_field_sample, CHUNKS, i) {
    Way way;
    start_way(a, i, way);
    way.entry = *top_entry(a.tree, way);
    while (!at_leaf(way)) step_down(a.tree, way);
    store_sample(a, i, way);
}

#endif
