// Counting sorts on a GPU, for values with a few bits: warps count runs of entries, and after a scan of the counts
// write each entry to its position.
//
// INTERFACE
//   sdf_level_count, sdf_level_order    entries by level: counts per run; the order
//   sdf_chosen                          indices of entries valued 1, 2 and 3, by one warp, for short arrays
//   sdf_chosen_count, sdf_chosen_list   the same for long arrays: counts, then lists
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
    u32 count;       // entries, at most 32 x 1023
    u32 first;       // index of the first entry
    const u8* flag;  // [count] 0 to 3
    u32* chosen;     // [count] out: the entries valued 1, then 2, then 3
    u32* last;       // [3] out: end of each list
};
SDF_KERNEL(sdf_chosen, WARP, thread) {
    u32 many = (a.count + SDF_WARP - 1) / SDF_WARP, counts = 0, place[4] = {0, 0, 0, 0}, before = 0;
    u32 first = min_of(thread * many, a.count), end = min_of(first + many, a.count);
    for (u32 at = first; at < end; at++) counts += a.flag[at] ? 1u << 10 * (a.flag[at] - 1) : 0;
    UNROLL
    for (u32 value = 1; value < 4; value++) {
        u32 own = counts >> 10 * (value - 1) & 1023u, sum = own;
        for (u32 k = 1; k < SDF_WARP; k *= 2) {
            u32 other = shfl(sum, (thread - k) % SDF_WARP);
            if (thread >= k) sum += other;
        }
        place[value] = before + sum - own;
        before += shfl(sum, SDF_WARP - 1);
        if (thread == 0) a.last[value - 1] = before;
    }
    for (u32 at = first; at < end; at++) {
        u32 value = a.flag[at];
        UNROLL
        for (u32 k = 1; k < 4; k++)
            if (value == k) a.chosen[place[k]++] = a.first + at;
    }
}

struct sdf_chosen_count_args {
    u32 n;           // threads: one warp per run
    u32 count;       // entries
    u32 run;         // entries per run, a multiple of 32
    const u8* flag;  // [count] 0 to 3
    u32* counts;     // [3, n // 32] out: per run
    u32* totals;     // [3] 0; out: of all runs
};
SDF_KERNEL(sdf_chosen_count, WARP, i) {
    u32 lane = i % SDF_WARP, own = i / SDF_WARP, first = own * a.run, end = min_of(a.count, first + a.run);
    u32 found[3] = {0, 0, 0};
    for (u32 start = first; start < end; start += SDF_WARP) {
        u32 value = start + lane < end ? a.flag[start + lane] : 0;
        UNROLL
        for (u32 k = 0; k < 3; k++) found[k] += (u32)popcount(warp_ballot(value == k + 1));
    }
    UNROLL
    for (u32 k = 0; k < 3; k++) {
        if (lane != k) continue;
        a.counts[k * (size_t)(a.n / SDF_WARP) + own] = found[k];
        if (found[k]) atomic_add(a.totals + k, found[k]);
    }
}

struct sdf_chosen_list_args {
    u32 n;  // as for sdf_chosen_count
    u32 count;
    u32 run;
    u32 first;          // index of the first entry
    const u8* flag;     // [count]
    const u32* counts;  // [3, n // 32]
    u32* one;           // [ones] out: entries valued 1; null: not needed, as the following
    u32* two;           // [twos] out
    u32* three;         // [threes] out
};
SDF_KERNEL(sdf_chosen_list, WARP, i) {
    u32 lane = i % SDF_WARP, own = i / SDF_WARP, first = own * a.run, end = min_of(a.count, first + a.run);
    u32* lists[3] = {a.one, a.two, a.three};
    UNROLL
    for (u32 k = 0; k < 3; k++) {
        const u32* counts = a.counts + k * (size_t)(a.n / SDF_WARP);
        if (!lists[k] || counts[own] == 0) continue;
        u32 before = 0;
        for (u32 other = lane; other < own; other += SDF_WARP) before += counts[other];
        for (u32 step = 1; step < SDF_WARP; step *= 2) before += shfl_xor(before, step);
        for (u32 start = first; start < end; start += SDF_WARP) {
            bool wanted = start + lane < end && a.flag[start + lane] == k + 1;
            u32 all = warp_ballot(wanted);
            if (wanted) lists[k][before + (u32)popcount(all & ((1u << lane) - 1u))] = a.first + start + lane;
            before += (u32)popcount(all);
        }
    }
}
#endif

#endif
