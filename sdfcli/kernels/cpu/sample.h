// sdf_field_sample on the CPU: points go down the tree side by side.
//
// INTERFACE
//   sdf_field_sample_chunk  sdf_field_sample for the points first .. last - 1
#ifndef SDFCLI_CPU_SAMPLE_H
#define SDFCLI_CPU_SAMPLE_H
#include "field/sample.h"

// What is read next on the way to a leaf.
FN void prefetch_next(const sdf_field_sample_args& a, const Way& way) {
    if (at_leaf(way)) __builtin_prefetch(a.field.leaf_level + leaf_of(way));
    const void* values = a.field.leaf_value + 8 * (size_t)leaf_of(way);
    const void* entries = a.field.tree.child + 8 * (size_t)way.entry;
    __builtin_prefetch(at_leaf(way) ? values : entries);
}

// Sampling waits for memory. So points go down the tree side by side, and what each reads in its next step is on its
// way while the others take theirs.
FN void sdf_field_sample_chunk(const sdf_field_sample_args& a, u32 first, u32 last) {
    const u32 many = 64;
    Way way[many];
    u32 open[many];  // those that have not come to their leaf
    for (; first < last; first += many) {
        u32 count = last - first < many ? last - first : many;
        for (u32 k = 0; k < count; k++) {
            begin_sample(a, first + k, way[k]);
            open[k] = k;
            __builtin_prefetch(top_entry(a.field.tree, way[k]));
        }
        for (u32 k = 0; k < count; k++) way[k].entry = *top_entry(a.field.tree, way[k]);
        for (u32 left = count, still; left; left = still) {
            still = 0;
            for (u32 j = 0; j < left; j++) {
                u32 k = open[j];
                prefetch_next(a, way[k]);
                open[still] = k;
                still += at_leaf(way[k]) ? 0 : 1;
            }
            for (u32 j = 0; j < still; j++) step_down(a.field.tree, way[open[j]]);
        }
        for (u32 k = 0; k < count; k++) store_sample(a, first + k, way[k]);
    }
}

#endif
