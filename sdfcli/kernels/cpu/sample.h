// Sampling on the CPU: several points descend the tree in lockstep.
//
// INTERFACE
//   side_by_side            field values at several points
//   sdf_field_sample_chunk  sdf_field_sample for the points first .. last - 1
//   sdf_contact_bound_chunk sdf_contact_bound for the pairs first .. last - 1
#ifndef SDFCLI_CPU_SAMPLE_H
#define SDFCLI_CPU_SAMPLE_H
#include "contact/spheres.h"
#include "field/sample.h"

// Prefetches the next read on the path to a leaf.
FN void prefetch_next(const Sampler& field, const Way& way) {
    if (at_leaf(way)) __builtin_prefetch(field.leaf_level + leaf_of(way));
    const void* values = field.leaf_value + 8 * (size_t)leaf_of(way);
    const void* entries = field.tree.child + 8 * (size_t)way.entry;
    __builtin_prefetch(at_leaf(way) ? values : entries);
}

// Sampling is bound by memory latency. So points descend in lockstep, and each one's next read is prefetched during the
// others' steps. begin(i, way) starts a point, end(i, way) evaluates it at its leaf.
template <class Begin, class End>
FN void side_by_side(const Sampler& field, u32 first, u32 last, const Begin& begin, const End& end) {
    const u32 many = 64;
    Way way[many];
    u32 open[many];  // points that have not reached their leaf
    for (; first < last; first += many) {
        u32 count = last - first < many ? last - first : many;
        for (u32 k = 0; k < count; k++) {
            begin(first + k, way[k]);
            open[k] = k;
            __builtin_prefetch(top_entry(field.tree, way[k]));
        }
        for (u32 k = 0; k < count; k++) way[k].entry = *top_entry(field.tree, way[k]);
        for (u32 left = count, still; left; left = still) {
            still = 0;
            for (u32 j = 0; j < left; j++) {
                u32 k = open[j];
                prefetch_next(field, way[k]);
                open[still] = k;
                still += at_leaf(way[k]) ? 0 : 1;
            }
            for (u32 j = 0; j < still; j++) step_down(field.tree, way[open[j]]);
        }
        for (u32 k = 0; k < count; k++) end(first + k, way[k]);
    }
}

FN void sdf_field_sample_chunk(const sdf_field_sample_args& a, u32 first, u32 last) {
    side_by_side(
        a.field, first, last, [&a](u32 i, Way& way) { begin_sample(a, i, way); },
        [&a](u32 i, const Way& way) { store_sample(a, i, way); });
}

FN void sdf_contact_bound_chunk(const sdf_contact_bound_args& a, u32 first, u32 last) {
    side_by_side(
        a.posed.field, first, last, [&a](u32 i, Way& way) { begin_bound(a, i, way); },
        [&a](u32 i, const Way& way) { store_bound(a, i, way); });
}

#endif
