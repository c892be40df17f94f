// The wide tree's triangle order: recursive cuts across the longest side (as in Bentley's k-d tree, 1975), down to
// blocks of sixteen. Cuts coincide with node ends, so only the last lanes can be empty. Blocks are nearly square,
// unlike space-filling curve segments, and intersect fewer balls around points.
//
// CPU only. The order does not depend on the thread count: parts are cut independently.
//
// INTERFACE
//   wide_order  the slots in block order
#ifndef SDFCLI_TREES_WIDE_ORDER_H
#define SDFCLI_TREES_WIDE_ORDER_H
#include <algorithm>

#include "trees/wide.h"

struct sdf_wide_order_args {
    u32 n;                  // triangles
    const float* triangle;  // [n, 9]
    u32* block_slot;        // [n] out: slots in block order
    float* placed;          // [n, 4] scratch
    u32 parts;              // (n + 15) / 16
    u32* part;              // [2, parts, 2] scratch
    u32* middle;            // [parts] scratch
};

namespace {

struct Placed {
    float centre[3];
    u32 slot;
};

struct Part {
    u32 first, last;  // at most SDF_WIDE, or several whole nodes: so parts never outnumber blocks
};

Placed placed(const float* t, u32 slot) {
    Placed p = {{0.f, 0.f, 0.f}, slot};
    for (int k = 0; k < 3; k++)
        p.centre[k] = min_of(t[k], min_of(t[k + 3], t[k + 6])) + max_of(t[k], max_of(t[k + 3], t[k + 6]));
    return p;
}

int longest_side(const Placed* first, const Placed* last) {
    float low[3], high[3];
    for (int k = 0; k < 3; k++) low[k] = high[k] = first->centre[k];
    for (const Placed* p = first; p < last; p++)
        for (int k = 0; k < 3; k++) {
            low[k] = min_of(low[k], p->centre[k]);
            high[k] = max_of(high[k], p->centre[k]);
        }
    int axis = 0;
    for (int k = 1; k < 3; k++)
        if (high[k] - low[k] > high[axis] - low[axis]) axis = k;
    return axis;
}

// Cuts a part in two; returns the position.
u32 cut(Placed* placed, Part part) {
    u32 count = part.last - part.first, unit = SDF_WIDE;
    while ((u64)unit * SDF_WIDE < count) unit *= SDF_WIDE;
    u32 units = (count + unit - 1) / unit, left = units / 2 * unit;
    Placed *first = placed + part.first, *last = placed + part.last;
    int axis = longest_side(first, last);
    std::nth_element(first, first + left, last, [axis](const Placed& a, const Placed& b) {
        return a.centre[axis] < b.centre[axis] || (a.centre[axis] == b.centre[axis] && a.slot < b.slot);
    });
    return part.first + left;
}

// run(n, f) calls f(0) .. f(n - 1), some concurrently.
template <class Run>
void wide_order(const sdf_wide_order_args& a, const Run& run) {
    Placed* all = (Placed*)a.placed;
    Part *parts = (Part*)a.part, *halves = parts + a.parts;
    for (u32 i = 0; i < a.n; i++) all[i] = placed(a.triangle + 9 * (size_t)i, i);
    parts[0] = {0, a.n};
    for (u32 count = 1, next; count; count = next) {
        run(count, [&](u32 i) { a.middle[i] = parts[i].last - parts[i].first > SDF_WIDE ? cut(all, parts[i]) : 0; });
        next = 0;
        for (u32 i = 0; i < count; i++)
            if (u32 middle = a.middle[i]) {
                halves[next++] = {parts[i].first, middle};
                halves[next++] = {middle, parts[i].last};
            }
        Part* before = parts;
        parts = halves, halves = before;
    }
    for (u32 i = 0; i < a.n; i++) a.block_slot[i] = all[i].slot;
}

}  // namespace

#endif
