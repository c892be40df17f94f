// Reading a finished field: which corners a leaf has, and the value and gradient at a point.
#ifndef SDFCLI_SAMPLE_H
#define SDFCLI_SAMPLE_H
#include "octree.h"

FN u64 leaf_corner_key(u64 leaf, u8 level, u32 c) {
    Lattice at = morton_decode(leaf);
    u32 size = 1u << (SDF_LATTICE_BITS - level);
    Lattice p = {at.x + (c & 1) * size, at.y + (c >> 1 & 1) * size, at.z + (c >> 2) * size};
    return morton_encode(p);
}

FN void sdf_leaf_corners_at(const sdf_leaf_corners_args& a, u32 i) {
    for (u32 c = 0; c < 8; c++) a.corner_key[8 * (size_t)i + c] = leaf_corner_key(a.leaf_key[i], a.leaf_level[i], c);
}

// The places of a leaf's eight corners among the sorted corner keys; SDF_NONE where a corner is missing.
FN void sdf_field_corners_at(const sdf_field_corners_args& a, u32 i) {
    for (u32 c = 0; c < 8; c++) {
        u64 key = leaf_corner_key(a.leaf_key[i], a.leaf_level[i], c);
        u32 place = lower_bound(a.corner_key, a.corners, key);
        a.leaf_corner[8 * (size_t)i + c] = place < a.corners && a.corner_key[place] == key ? place : SDF_NONE;
    }
}

struct InLeaf {
    u32 leaf;
    D3 t;  // the place in it, from 0 to 1
};

// The leaf in which a point of the unit cube lies; a point outside goes to the nearest point of the cube.
FN InLeaf find_leaf(D3 p, const u64* leaf_key, const u8* leaf_level, u32 leaves) {
    const double full = (double)(1u << SDF_LATTICE_BITS);
    double u[3] = {clamp01(p.x) * full, clamp01(p.y) * full, clamp01(p.z) * full};
    u32 cell[3];
    for (int k = 0; k < 3; k++) cell[k] = u[k] < full - 1.0 ? (u32)u[k] : (1u << SDF_LATTICE_BITS) - 1u;
    Lattice at = {cell[0], cell[1], cell[2]};
    u32 leaf = lower_bound(leaf_key, leaves, morton_encode(at) + 1) - 1;
    u32 size = 1u << (SDF_LATTICE_BITS - leaf_level[leaf]);
    Lattice origin = morton_decode(leaf_key[leaf]);
    InLeaf found = {leaf, vec((u[0] - origin.x) / size, (u[1] - origin.y) / size, (u[2] - origin.z) / size)};
    return found;
}

// The triangle that was nearest to a corner of an earlier field, the corner nearest to a point: where to start from.
FN void sdf_previous_at(const sdf_previous_args& a, u32 i) {
    D3 p = load3d(a.points + 3 * (size_t)i), shift = vec(a.shift_x, a.shift_y, a.shift_z);
    InLeaf at = find_leaf(a.scale * p + shift, a.leaf_key, a.leaf_level, a.leaves);
    u32 c = (at.t.x > 0.5 ? 1u : 0u) | (at.t.y > 0.5 ? 2u : 0u) | (at.t.z > 0.5 ? 4u : 0u);
    a.seed[i] = a.slot_of[a.nearest[a.leaf_corner[8 * (size_t)at.leaf + c]]];
}

// Value and gradient (in the unit cube) of the trilinear field. A point outside of the cube takes the value at the
// nearest point of the cube plus the distance to it: an upper bound of the true distance outside.
FN void sdf_field_sample_at(const sdf_field_sample_args& a, u32 i) {
    const double* p = a.points + 3 * (size_t)i;
    double beyond[3], far_sq = 0.0;
    for (int k = 0; k < 3; k++) {
        beyond[k] = p[k] - clamp01(p[k]);
        far_sq += beyond[k] * beyond[k];
    }
    InLeaf at = find_leaf(vec(p[0], p[1], p[2]), a.leaf_key, a.leaf_level, a.leaves);
    u32 leaf = at.leaf;
    D3 t = at.t;
    double v[8];
    for (int c = 0; c < 8; c++) v[c] = (double)a.value[a.leaf_corner[8 * (size_t)leaf + c]];
    double far = sqrt(far_sq);
    a.result[i] = trilinear(v, t) + far * a.length;
    if (a.leaf_of) a.leaf_of[i] = leaf;
    if (!a.gradient) return;
    double* g = a.gradient + 3 * (size_t)i;
    double scale = (double)(1u << a.leaf_level[leaf]) / a.length;
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
