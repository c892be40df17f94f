// Threads resident on a GPU together, in a launch with many steps. They synchronise between steps, so each step reads
// the previous one's results, and counts never leave the device.
//
// INTERFACE
//   sum_of_warp  sum over a warp
//   running_sum  inclusive prefix sum over a warp
//   Grid         a thread with the collective operations meet, each, scan
#ifndef SDFCLI_BASE_GRID_H
#define SDFCLI_BASE_GRID_H
#include "base/warp.h"

#ifdef SDF_SHARED

#ifdef __CUDACC_RTC__
FN void meet_all(u32* arrivals, u32 blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 before, now;
        asm volatile("atom.add.release.gpu.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrivals) : "memory");
        u32 until = (before / blocks + 1) * blocks;
        do asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(now) : "l"(arrivals) : "memory");
        while (now < until);
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();
}
#endif

template <class T>
FN T sum_of_warp(T x, u32 lane) {
    for (u32 k = 1; k < SDF_WARP; k *= 2) x += shfl(x, lane ^ k);
    return x;
}

template <class T>
FN T running_sum(T x, u32 lane) {
    for (u32 k = 1; k < SDF_WARP; k *= 2) {
        T other = shfl(x, (lane - k) % SDF_WARP);
        if (lane >= k) x += other;
    }
    return x;
}

struct Grid {
    u32 thread, threads;
    u32* arrivals;  // [1] 0 before
    u64* sums;      // [warps]

    // Thread index rotated to start `part / parts` of the way through the grid's blocks, so that several short loops
    // use different threads.
    METHOD u32 from(u32 part, u32 parts) const {
        const u32 block = SDF_WARP * SDF_BLOCK_WARPS;
        return (thread + threads - part * (threads / block / parts) * block) % threads;
    }

    METHOD void meet() const { meet_all(arrivals, threads / (SDF_WARP * SDF_BLOCK_WARPS)); }

    // Calls body(i) for i = 0 .. n - 1. A warp's indices are contiguous.
    template <class Body>
    METHOD void each(u32 n, const Body& body) const {
        for (u32 i = thread; i < n; i += threads) body(i);
    }

    // Calls visit(i, before, own, all) for i = 0 .. n - 1, where own = value(i), before is the exclusive prefix sum and
    // all is the total, which is returned. Synchronises at the end. For small n every warp sums everything, so visit
    // must not change values.
    template <class Value, class Visit>
    METHOD u64 scan(u32 n, const Value& value, const Visit& visit) const {
        u32 warps = threads / SDF_WARP, warp = thread / SDF_WARP, lane = thread % SDF_WARP;
        u32 run = max_of((n / warps / SDF_WARP + 1) * SDF_WARP, (u32)SDF_RUN), runs = (n + run - 1) / run;
        u32 first = min_of(warp * run, n), end = min_of(first + run, n);
        u64 sum = 0, before = 0, all = 0;
        if (runs <= 1) {
            for (u32 i = lane; i < n; i += SDF_WARP) all += value(i);
        } else {
            for (u32 i = first + lane; i < end; i += SDF_WARP) sum += value(i);
            sum = sum_of_warp(sum, lane);
            if (lane == 0) sums[warp] = sum;
            meet();
            for (u32 k = lane; k < runs; k += SDF_WARP) {
                all += sums[k];
                if (k < warp) before += sums[k];
            }
        }
        all = sum_of_warp(all, lane);
        before = sum_of_warp(before, lane);
        for (u32 start = first; start < end; start += SDF_WARP) {
            u32 i = start + lane;
            u64 own = i < end ? value(i) : 0, until = running_sum(own, lane);
            if (i < end) visit(i, before + until - own, own, all);
            before += shfl(until, SDF_WARP - 1);
        }
        meet();
        return all;
    }
};
#endif

#endif
