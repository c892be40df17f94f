// Counting sorts on a GPU, for values of a few bits: warps count runs of entries, and after a scan of the counts put
// each entry in its place.
//
// INTERFACE
//   sdf_level_count, sdf_level_order  entries by level: counts of each run; the order
//   sdf_chosen                        the numbers of few entries with each of the values 1 to 3, by one warp
//   sdf_chosen_count, sdf_chosen_list those of many: how many there are, and the lists
#ifndef SDFCLI_BASE_SORT_H
#define SDFCLI_BASE_SORT_H
#include "base/kernel.h"
#include "base/warp.h"

#ifdef SDF_SHARED

// visit(at, level, place) for each byte of a warp's run: its place among those of the run with the same value. Returns,
// for the thread whose number is a value, how many there are of it.
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
    u32 n;            // threads: a warp for a run of 256 entries
    u32 count;        // entries
    u32 levels;       // at most 32
    const u8* level;  // [count] of the entries
    u32* counts;      // [levels, n // 32] out: of each run
};
SDF_KERNEL(sdf_level_count, WARP, i) {
    u32 own = count_run(a.level, a.count, i, a.levels, [](u32, u32, u32) {});
    if (i % SDF_WARP < a.levels) a.counts[i % SDF_WARP * (size_t)(a.n / SDF_WARP) + i / SDF_WARP] = own;
}

struct sdf_level_order_args {
    u32 n;  // threads: a warp for a run of 256 entries
    u32 count;
    u32 levels;
    u32 first;        // number of the first entry
    const u8* level;  // [count] of the entries
    const u32* end;   // [levels, n // 32] the running sums of the counts
    u32* order;       // [count] out: the entries by level
    u32* ends;        // [levels] out: where each one ends
};
SDF_KERNEL(sdf_level_order, WARP, i) {
    u32 runs = a.n / SDF_WARP;
    count_run(a.level, a.count, i, a.levels, [&](u32 at, u32 level, u32 place) {
        size_t run = level * (size_t)runs + i / SDF_WARP;
        a.order[(run ? a.end[run - 1] : 0) + place] = a.first + at;
    });
    if (i < a.levels) a.ends[i] = a.end[(i + 1) * (size_t)runs - 1];
}

// The numbers of few entries with each of the values 1 to 3, by one warp: each thread takes entries that follow one
// another, and its counts, 10 bits each, tell where it writes.
struct sdf_chosen_args {
    u32 n;           // 32
    u32 count;       // entries, at most 32 x 1023
    u32 first;       // number of the first
    const u8* wish;  // [count] 0 to 3
    u32* chosen;     // [count] out: the entries with 1, then 2, then 3
    u32* last;       // [3] out: where each ends
};
SDF_KERNEL(sdf_chosen, WARP, thread) {
    u32 many = (a.count + SDF_WARP - 1) / SDF_WARP, counts = 0, place[4] = {0, 0, 0, 0}, before = 0;
    u32 first = min_of(thread * many, a.count), end = min_of(first + many, a.count);
    for (u32 at = first; at < end; at++) counts += a.wish[at] ? 1u << 10 * (a.wish[at] - 1) : 0;
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
        u32 value = a.wish[at];
        UNROLL
        for (u32 k = 1; k < 4; k++)
            if (value == k) a.chosen[place[k]++] = a.first + at;
    }
}

struct sdf_chosen_count_args {
    u32 n;           // threads: a warp for a run of entries
    u32 count;       // entries
    u32 run;         // entries of a run, a multiple of 32
    const u8* wish;  // [count] 0 to 3
    u32* counts;     // [3, n // 32] out: of each run
    u32* totals;     // [3] 0; out: of all
};
SDF_KERNEL(sdf_chosen_count, WARP, i) {
    u32 lane = i % SDF_WARP, own = i / SDF_WARP, first = own * a.run, end = min_of(a.count, first + a.run);
    u32 found[3] = {0, 0, 0};
    for (u32 start = first; start < end; start += SDF_WARP) {
        u32 value = start + lane < end ? a.wish[start + lane] : 0;
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
    u32 first;          // number of the first entry
    const u8* wish;     // [count]
    const u32* counts;  // [3, n // 32]
    u32* one;           // [ones] out: the entries with 1; null: not wanted, as the following
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
            bool wanted = start + lane < end && a.wish[start + lane] == k + 1;
            u32 all = warp_ballot(wanted);
            if (wanted) lists[k][before + (u32)popcount(all & ((1u << lane) - 1u))] = a.first + start + lane;
            before += (u32)popcount(all);
        }
    }
}
#endif

#endif
