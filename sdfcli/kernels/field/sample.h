// Field value and gradient at points.
//
// INTERFACE
//   begin_sample, store_sample  start a point; finish it at its leaf
//   sdf_field_sample            points in the mesh's units
#ifndef SDFCLI_FIELD_SAMPLE_H
#define SDFCLI_FIELD_SAMPLE_H
#include "base/kernel.h"
#include "field/sampler.h"

struct sdf_field_sample_args {
    u32 n;
    const double* points;  // [n, 3] in the mesh's units; null where `single` is given
    const float* single;   // [n, 3]
    Sampler field;
    u32* marks;        // [1] in and out: 1 if a point is not finite
    double* result;    // [n] out; may be null
    double* gradient;  // [n, 3] out; may be null
    u32* leaf_of;      // [n] out; may be null
    u8* level_of;      // [n] out; may be null: of the leaf
};
FN void begin_sample(const sdf_field_sample_args& a, u32 i, Way& way) {
    D3 p = a.single ? load3d(a.single + 3 * (size_t)i) : load3(a.points + 3 * (size_t)i);
    if (!((p.x - p.x) + (p.y - p.y) + (p.z - p.z) == 0.0)) store_relaxed(a.marks, 1u);
    start_way(a.field.domain, p, way);
}
FN void store_sample(const sdf_field_sample_args& a, u32 i, const Way& way) {
    FieldPoint found = at_point(a.field, way, a.gradient ? a.gradient + 3 * (size_t)i : nullptr);
    if (a.result) a.result[i] = found.inside + found.beyond;
    if (a.leaf_of) a.leaf_of[i] = leaf_of(way);
    if (a.level_of) a.level_of[i] = (u8)(SDF_LATTICE_BITS - leaf_shift(a.field, way));
}

SDF_KERNEL(sdf_field_sample, CHUNKS, i) {
    Way way;
    begin_sample(a, i, way);
    go_down(a.field.tree, way);
    store_sample(a, i, way);
}

#endif
