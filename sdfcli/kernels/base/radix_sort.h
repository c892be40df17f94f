// Stable radix sort of integers by a grid's threads, eight bits per pass from the lowest; passes where all keys agree
// are skipped. For lists too short to justify loading a library's sort, which holds the kernels for all types in one
// module.
//
// INTERFACE
//   sdf_radix_sort  sorts keys and returns the permutation
#ifndef SDFCLI_BASE_RADIX_SORT_H
#define SDFCLI_BASE_RADIX_SORT_H
#include "base/grid.h"
#include "base/kernel.h"

#ifdef SDF_SHARED

const u32 SDF_DIGITS = 256;
const u32 SDF_ABREAST = 4;  // entries in flight per thread

struct sdf_radix_sort_args {
    u32 n;             // threads: at most one warp per run
    u32 count;         // keys, at least one
    u32* short_keys;   // [count] in and out; null for 64-bit keys, as the next
    u32* short_other;  // [count] scratch
    u64* keys;         // [count] in and out; null for 32-bit keys, as the next
    u64* other;        // [count] scratch
    long long* order;  // [count] out: source index of each key; null: not needed, as the next
    u32* next;         // [count] scratch
    u32* counts;       // [counters] scratch: 256 per run; up to 1024 runs, at least 256 keys each
    u32* totals;       // [256] scratch
    u32* set;          // [4] 0 at first: bits set in some key, bits clear in some key, each low and high
    u32* arrivals;     // [1] 0 at first
};

// Mask of a warp's threads with the same digit.
FN u32 alike(u32 digit) {
    u32 same = ~0u;
    for (u32 bit = 0; bit < 8; bit++) {
        u32 vote = warp_ballot(digit >> bit & 1u);
        same &= digit >> bit & 1u ? vote : ~vote;
    }
    return same;
}

// Replaces per-run counts for one digit by the number of entries with this digit in earlier runs.
FN void before_runs(u32* counts, u32 runs, u32* total, u32 lane) {
    u32 own[SDF_SCAN_RUNS / SDF_WARP], before = 0;
    UNROLL
    for (u32 j = 0; j < SDF_SCAN_RUNS / SDF_WARP; j++) {
        u32 run = j * SDF_WARP + lane;
        own[j] = run < runs ? counts[run] : 0;
    }
    UNROLL
    for (u32 j = 0; j < SDF_SCAN_RUNS / SDF_WARP; j++) {
        u32 until = running_sum(own[j], lane), run = j * SDF_WARP + lane;
        if (run < runs) counts[run] = before + until - own[j];
        before += shfl(until, SDF_WARP - 1);
    }
    if (lane == 0) *total = before;
}

template <class Key>
FN void radix_sort(const sdf_radix_sort_args& a, const Grid& grid, u32* bins, Key* keys, Key* other) {
    u32 lane = grid.thread % SDF_WARP, warp = grid.thread / SDF_WARP, warps = grid.threads / SDF_WARP;
    u32 parts = min_of(warps, (u32)SDF_SCAN_RUNS);
    u32 run = max_of((a.count / parts / SDF_WARP + 1) * SDF_WARP, (u32)SDF_RUN), runs = (a.count + run - 1) / run;
    u32 first = warp < runs ? warp * run : a.count, end = min_of(first + run, a.count);

    u64 has = 0, lacks = 0;
    grid.each(a.count, [&](u32 i) { has |= keys[i], lacks |= ~keys[i]; });
    u32 found[4] = {(u32)has, (u32)(has >> 32), (u32)lacks, (u32)(lacks >> 32)};
    for (u32 k = 0; k < 4; k++) {
        for (u32 step = 1; step < SDF_WARP; step *= 2) found[k] |= shfl_xor(found[k], step);
        if (lane == 0 && found[k]) atomic_or(a.set + k, found[k]);
    }
    grid.meet();
    u64 differ = (a.set[0] & a.set[2]) | (u64)(a.set[1] & a.set[3]) << 32;

    Key *own = keys, *sorted = other;
    u32 *from = nullptr, *next = a.next, *after = (u32*)a.order;  // initially each key is at its source index
    for (u32 shift = 0; shift < 8 * sizeof(Key); shift += 8) {
        if (!(differ >> shift & (SDF_DIGITS - 1))) continue;
        auto digit_of = [&](Key key) { return (u32)(key >> shift) & (SDF_DIGITS - 1); };
        for (u32 k = lane; k < SDF_DIGITS; k += SDF_WARP) bins[k] = 0;
        warp_sync();
        for (u32 start = first; start < end; start += SDF_ABREAST * SDF_WARP) {
            Key key[SDF_ABREAST];
            UNROLL
            for (u32 j = 0; j < SDF_ABREAST; j++) key[j] = own[min_of(start + j * SDF_WARP + lane, end - 1)];
            UNROLL
            for (u32 j = 0; j < SDF_ABREAST; j++)
                if (start + j * SDF_WARP + lane < end) shared_add(bins + digit_of(key[j]), 1u);
        }
        warp_sync();
        if (warp < runs)
            for (u32 k = lane; k < SDF_DIGITS; k += SDF_WARP) a.counts[k * (size_t)runs + warp] = bins[k];
        grid.meet();
        for (u32 digit = warp; digit < SDF_DIGITS; digit += warps)
            before_runs(a.counts + digit * (size_t)runs, runs, a.totals + digit, lane);
        grid.meet();
        if (warp < runs)
            for (u32 k = lane, before = 0; k < SDF_DIGITS; k += SDF_WARP) {
                u32 total = a.totals[k], until = running_sum(total, lane);
                bins[k] = before + until - total + a.counts[k * (size_t)runs + warp];
                before += shfl(until, SDF_WARP - 1);
            }
        warp_sync();
        for (u32 start = first; start < end; start += SDF_ABREAST * SDF_WARP) {
            Key key[SDF_ABREAST];
            u32 came[SDF_ABREAST];
            UNROLL
            for (u32 j = 0; j < SDF_ABREAST; j++) {
                u32 i = min_of(start + j * SDF_WARP + lane, end - 1);
                key[j] = own[i];
                came[j] = from ? from[i] : i;
            }
            UNROLL
            for (u32 j = 0; j < SDF_ABREAST; j++) {
                bool there = start + j * SDF_WARP + lane < end;
                u32 digit = digit_of(key[j]), same = alike(digit) & warp_ballot(there);
                u32 before = (u32)popcount(same & ((1u << lane) - 1u)), place = bins[digit] + before;
                warp_sync();
                if (there) {
                    if (before == 0) bins[digit] += (u32)popcount(same);
                    sorted[place] = key[j];
                    if (a.order) next[place] = came[j];
                }
                warp_sync();
            }
        }
        grid.meet();
        Key* swapped = own;
        own = sorted, sorted = swapped;
        from = next, next = after, after = from;
    }
    if (from && from != a.next) {  // the result is in `order` itself
        grid.each(a.count, [&](u32 i) { a.next[i] = from[i]; });
        grid.meet();
        from = a.next;
    }
    grid.each(a.count, [&](u32 i) {
        if (own != keys) keys[i] = own[i];
        if (a.order) a.order[i] = from ? from[i] : i;
    });
}

SDF_KERNEL(sdf_radix_sort, GRID, i) {
    SDF_SHARED u32 bins[SDF_BLOCK_WARPS][SDF_DIGITS];
    Grid grid = {i, a.n, a.arrivals, nullptr};
    u32* own = bins[i / SDF_WARP % SDF_BLOCK_WARPS];
    if (a.keys)
        radix_sort(a, grid, own, a.keys, a.other);
    else
        radix_sort(a, grid, own, a.short_keys, a.short_other);
}
#endif

#endif
