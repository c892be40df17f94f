// Reading a finished field: which corners a leaf has, and the value and gradient at a point.
#ifndef SDFCLI_SAMPLE_H
#define SDFCLI_SAMPLE_H
#include "octree.h"

// The places of a leaf's eight corners among the sorted corner keys; SDF_NONE where a corner is missing.
FN void sdf_field_corners_at(const sdf_field_corners_args& a, u32 i) {
    Lattice at = morton_decode(a.leaf_key[i]);
    u32 size = 1u << (SDF_LATTICE_BITS - a.leaf_level[i]);
    for (u32 c = 0; c < 8; c++) {
        Lattice p = {at.x + (c & 1) * size, at.y + (c >> 1 & 1) * size, at.z + (c >> 2) * size};
        u64 key = morton_encode(p);
        u32 place = lower_bound(a.corner_key, a.corners, key);
        a.leaf_corner[8 * (size_t)i + c] = place < a.corners && a.corner_key[place] == key ? place : SDF_NONE;
    }
}

// Value and gradient (in the unit cube) of the trilinear field. A point outside of the cube takes the value at the
// nearest point of the cube plus the distance to it: an upper bound of the true distance outside.
FN void sdf_field_sample_at(const sdf_field_sample_args& a, u32 i) {
    const double* p = a.points + 3 * (size_t)i;
    const double full = (double)(1u << SDF_LATTICE_BITS);
    double u[3], beyond[3], far_sq = 0.0;
    u32 cell[3];
    for (int k = 0; k < 3; k++) {
        double inside = clamp01(p[k]);
        beyond[k] = p[k] - inside;
        far_sq += beyond[k] * beyond[k];
        u[k] = inside * full;
        cell[k] = u[k] < full - 1.0 ? (u32)u[k] : (1u << SDF_LATTICE_BITS) - 1u;
    }
    Lattice at = {cell[0], cell[1], cell[2]};
    u32 leaf = lower_bound(a.leaf_key, a.leaves, morton_encode(at) + 1) - 1;
    u32 size = 1u << (SDF_LATTICE_BITS - a.leaf_level[leaf]);
    Lattice origin = morton_decode(a.leaf_key[leaf]);
    D3 t = vec((u[0] - origin.x) / size, (u[1] - origin.y) / size, (u[2] - origin.z) / size);
    double v[8];
    for (int c = 0; c < 8; c++) v[c] = (double)a.value[a.leaf_corner[8 * (size_t)leaf + c]];
    double far = sqrt(far_sq);
    a.result[i] = trilinear(v, t) + far * a.length;
    if (a.leaf_of) a.leaf_of[i] = leaf;
    if (!a.gradient) return;
    double* g = a.gradient + 3 * (size_t)i;
    double scale = full / (size * a.length);
    double slope[3] = {0.0, 0.0, 0.0}, along[3] = {t.x, t.y, t.z};
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

#endif
