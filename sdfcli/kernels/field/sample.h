// Value and gradient of a field at points.
//
// INTERFACE
//   store_sample      a point that has come to its leaf
//   sdf_field_sample  points in the mesh's units
#ifndef SDFCLI_FIELD_SAMPLE_H
#define SDFCLI_FIELD_SAMPLE_H
#include "field/leaf_tree.h"

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
        double m =
            most(most(most(outwards.x, -outwards.x), most(outwards.y, -outwards.y)), most(outwards.z, -outwards.z));
        if (m > 0.0) {
            D3 part = vec(outwards.x / m, outwards.y / m, outwards.z / m);
            far = m * sqrt(dot(part, part));
        }
    }
    if (a.result) a.result[i] = trilinear(v, t) + far * a.length;
    if (a.leaf_of) a.leaf_of[i] = leaf;
    if (!a.gradient) return;
    double* g = a.gradient + 3 * (size_t)i;
    double scale = cells / a.length;
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

FN void sdf_field_sample_at(const sdf_field_sample_args& a, u32 i) {
    Way way;
    start_way(a, i, way);
    way.entry = *top_entry(a, way);
    while (!at_leaf(way)) step_down(a, way);
    store_sample(a, i, way);
}

#endif
