// Counting sorts on a GPU, for values with a few bits: warps count runs of entries, and after a scan of the counts
// write each entry to its position.
//
// INTERFACE
//   sdf_level_count, sdf_level_order    entries by level: counts per run; the order
//   sdf_chosen                          indices of flagged entries, by one warp, for short arrays
//   sdf_chosen_count, sdf_chosen_list   the same for long arrays: counts, then the list
#ifndef SDFCLI_BASE_SORT_H
#define SDFCLI_BASE_SORT_H
#include "base/kernel.h"
#include "base/warp.h"

#ifdef SDF_SHARED

// Calls visit(at, level, place) for each byte in a warp's run, with its rank among the run's bytes of equal value.
// Returns, in the thread whose index is a value, that value's count.
template <class Visit>
FN u32 count_run(const u8* values, u32 count, u32 i, u32 levels, Visit visit) {
    u32 thread = i % SDF_WARP, first = i / SDF_WARP * SDF_RUN, end = min_of(count, first + SDF_RUN), own = 0;
    for (u32 start = first; start < end; start += SDF_WARP) {
        u32 at = start + thread, value = at < end ? values[at] : SDF_NONE;
        for (u32 level = 0; level < levels; level++) {
            u32 same = warp_ballot(value == level), before = shfl(own, level);
            if (value == level) visit(at, level, before + (u32)popcount(same & ((1u << thread) - 1u)));
            if (thread == level) own += (u32)popcount(same);
        }
    }
    return own;
}

struct sdf_level_count_args {
    u32 n;            // threads: one warp per run of 256 entries
    u32 count;        // entries
    u32 levels;       // at most 32
    const u8* level;  // [count] per entry
    u32* counts;      // [levels, n // 32] out: per run
};
SDF_KERNEL(sdf_level_count, WARP, i) {
    u32 own = count_run(a.level, a.count, i, a.levels, [](u32, u32, u32) {});
    if (i % SDF_WARP < a.levels) a.counts[i % SDF_WARP * (size_t)(a.n / SDF_WARP) + i / SDF_WARP] = own;
}

struct sdf_level_order_args {
    u32 n;  // threads: one warp per run of 256 entries
    u32 count;
    u32 levels;
    u32 first;        // index of the first entry
    const u8* level;  // [count] per entry
    const u32* end;   // [levels, n // 32] inclusive prefix sums of the counts
    u32* order;       // [count] out: entries by level
    u32* ends;        // [levels] out: end of each level
};
SDF_KERNEL(sdf_level_order, WARP, i) {
    u32 runs = a.n / SDF_WARP;
    count_run(a.level, a.count, i, a.levels, [&](u32 at, u32 level, u32 place) {
        size_t run = level * (size_t)runs + i / SDF_WARP;
        a.order[(run ? a.end[run - 1] : 0) + place] = a.first + at;
    });
    if (i < a.levels) a.ends[i] = a.end[(i + 1) * (size_t)runs - 1];
}

// Indices of entries valued 1, 2 and 3, by one warp: each thread takes a contiguous range, and its counts, 10 bits
// each, give its write positions.
struct sdf_chosen_args {
    u32 n;           // 32
    u32 count;       // entries
    const u8* flag;  // [count] 0 or 1
    u32* chosen;     // [count] out: indices of the flagged entries
    u32* last;       // [1] out: their count
};
SDF_KERNEL(sdf_chosen, WARP, thread) {
    u32 many = (a.count + SDF_WARP - 1) / SDF_WARP, own = 0;
    u32 first = min_of(thread * many, a.count), end = min_of(first + many, a.count);
    for (u32 at = first; at < end; at++) own += a.flag[at];
    u32 sum = own;
    for (u32 k = 1; k < SDF_WARP; k *= 2) {
        u32 other = shfl(sum, (thread - k) % SDF_WARP);
        if (thread >= k) sum += other;
    }
    if (thread == SDF_WARP - 1) a.last[0] = sum;
    u32 place = sum - own;
    for (u32 at = first; at < end; at++)
        if (a.flag[at]) a.chosen[place++] = at;
}

struct sdf_chosen_count_args {
    u32 n;           // threads: one warp per run
    u32 count;       // entries
    u32 run;         // entries per run, a multiple of 32
    const u8* flag;  // [count] 0 or 1
    u32* counts;     // [n // 32] out: per run
    u32* total;      // [1] 0; out: of all runs
};
SDF_KERNEL(sdf_chosen_count, WARP, i) {
    u32 lane = i % SDF_WARP, own = i / SDF_WARP, first = own * a.run, end = min_of(a.count, first + a.run), found = 0;
    for (u32 start = first; start < end; start += SDF_WARP)
        found += (u32)popcount(warp_ballot(start + lane < end && a.flag[start + lane]));
    if (lane) return;
    a.counts[own] = found;
    if (found) atomic_add(a.total, found);
}

struct sdf_chosen_list_args {
    u32 n;  // as for sdf_chosen_count
    u32 count;
    u32 run;
    const u8* flag;     // [count]
    const u32* counts;  // [n // 32]
    u32* chosen;        // [total] out
};
SDF_KERNEL(sdf_chosen_list, WARP, i) {
    u32 lane = i % SDF_WARP, own = i / SDF_WARP, first = own * a.run, end = min_of(a.count, first + a.run), before = 0;
    if (a.counts[own] == 0) return;
    for (u32 other = lane; other < own; other += SDF_WARP) before += a.counts[other];
    for (u32 step = 1; step < SDF_WARP; step *= 2) before += shfl_xor(before, step);
    for (u32 start = first; start < end; start += SDF_WARP) {
        bool wanted = start + lane < end && a.flag[start + lane];
        u32 all = warp_ballot(wanted);
        if (wanted) a.chosen[before + (u32)popcount(all & ((1u << lane) - 1u))] = start + lane;
        before += (u32)popcount(all);
    }
}
#endif

#endif
