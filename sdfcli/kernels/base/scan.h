// Prefix sums: by a grid for short arrays; and a scan in several parts, where each part begins with the preceding
// parts' total, or has it added to each element.
//
// INTERFACE
//   sdf_scan                             in place, by a grid
//   sdf_scan_carry, sdf_scan_carry_wide  the preceding parts' total, 32 and 64 bits, into a part before its scan
//   sdf_scan_add, sdf_scan_add_wide      add a base to 32-bit and to 64-bit elements
#ifndef SDFCLI_BASE_SCAN_H
#define SDFCLI_BASE_SCAN_H
#include "base/grid.h"
#include "base/kernel.h"

// A thread's elements are n apart, so that neighbouring threads access neighbouring elements.
template <class T>
FN void add_base(T* values, u64 count, u64 base, u32 each, u32 n, u32 i) {
    for (u32 k = 0; k < each; k++) {
        u64 at = i + k * (u64)n;
        if (at < count) values[at] += base;
    }
}

struct sdf_scan_add_args {
    u32 n;     // threads: ceil(count / each)
    u32 each;  // elements per thread
    u64 count;
    u64 base;
    u32* values;  // [count] in and out
};
SDF_KERNEL(sdf_scan_add, PLAIN, i) { add_base(a.values, a.count, a.base, a.each, a.n, i); }
struct sdf_scan_add_wide_args {
    u32 n;     // threads: ceil(count / each)
    u32 each;  // elements per thread
    u64 count;
    u64 base;
    u64* values;  // [count] in and out
};
SDF_KERNEL(sdf_scan_add_wide, PLAIN, i) { add_base(a.values, a.count, a.base, a.each, a.n, i); }

// Sets a part's first sum to the preceding parts' total, and adds that to the second, so that its scan begins from
// there.
template <class T>
FN void carry_base(T base, const T* before, const T* own, u32 entries, T* after, u64 count, T* sums) {
    T sum = 0;
    for (u32 k = 0; k < entries; k++) sum += own[k * (size_t)SDF_SCAN_APART];
    if (before) base += *before;
    sums[0] = base;
    if (count) sums[1] += base;
    *after = base + sum;
}
struct sdf_scan_carry_args {
    u32 n;  // 1
    u64 base;
    u64 count;
    u32 entries;
    const u32* before;  // [1] added to `base`; null: 0
    const u32* own;     // [summed] every SDF_SCAN_APART-th of `entries`: their sum is the part's
    u32* after;         // [1] out: total up to the part's end
    u32* sums;          // [count + 1] in and out: the part's values follow the first
};
SDF_KERNEL(sdf_scan_carry, PLAIN, i) {
    carry_base((u32)a.base, a.before, a.own, a.entries, a.after + i, a.count, a.sums);
}
struct sdf_scan_carry_wide_args {
    u32 n;  // 1
    u64 base;
    u64 count;
    u32 entries;
    const u64* before;  // [1] as above
    const u64* own;     // [summed] as above
    u64* after;         // [1] out
    u64* sums;          // [count + 1] in and out
};
SDF_KERNEL(sdf_scan_carry_wide, PLAIN, i) {
    carry_base(a.base, a.before, a.own, a.entries, a.after + i, a.count, a.sums);
}

#ifdef SDF_SHARED
// Inclusive prefix sums in place. sums: [SDF_SCAN_RUNS] scratch. The caller synchronises afterwards.
template <class T>
FN void running_sums(const Grid& grid, T* values, u32 count, u64* sums) {
    const u32 ABREAST = 4;  // numbers in flight per thread
    u32 lane = grid.thread % SDF_WARP, warp = grid.thread / SDF_WARP;
    u32 warps = min_of(grid.threads / SDF_WARP, (u32)SDF_SCAN_RUNS), step = ABREAST * SDF_WARP;
    u32 run = (count / warps / step + 1) * step, first = warp < warps ? min_of(warp * run, count) : count;
    u32 end = min_of(first + run, count);
    T own = 0, before = 0;
    for (u32 i = first + lane; i < end; i += SDF_WARP) own += values[i];
    own = sum_of_warp(own, lane);
    if (lane == 0 && warp < warps) sums[warp] = own;
    grid.meet();
    if (first < end)
        for (u32 k = lane; k < warp; k += SDF_WARP) before += (T)sums[k];
    before = sum_of_warp(before, lane);
    for (u32 start = first; start < end; start += step) {
        T until[ABREAST];
        UNROLL
        for (u32 j = 0; j < ABREAST; j++) {
            u32 i = start + j * SDF_WARP + lane;
            until[j] = i < end ? values[i] : 0;
        }
        UNROLL
        for (u32 j = 0; j < ABREAST; j++) until[j] = running_sum(until[j], lane);
        UNROLL
        for (u32 j = 0; j < ABREAST; j++) {
            u32 i = start + j * SDF_WARP + lane;
            if (i < end) values[i] = before + until[j];
            before += shfl(until[j], SDF_WARP - 1);
        }
    }
}

struct sdf_scan_args {
    u32 n;  // threads: at most one warp per run
    u32 count;
    u32* values;    // [count] in and out; null: `wide` is used
    u64* wide;      // [count] in and out; null: `values` is used
    u64* sums;      // [1024] scratch
    u32* arrivals;  // [1] 0 at first
};
SDF_KERNEL(sdf_scan, GRID, i) {
    Grid grid = {i, a.n, a.arrivals, a.sums};
    if (a.wide)
        running_sums(grid, a.wide, a.count, a.sums);
    else
        running_sums(grid, a.values, a.count, a.sums);
}
#endif

#endif
