// A launch of many steps, each of which reads the results of the previous ones. Two executors run the same steps: a
// GPU's grid, here, and a CPU's pool of threads (cpu/steps.h).
//
// INTERFACE
//   Steps          the executor:
//     each           calls a body for 0 .. n - 1, on all threads
//     scan           the same with prefix sums
//     meet           a barrier for all threads
//   SDF_EACH        runs a kernel as part of a step
//   SDF_EACH_MARKED  the same for items of which few are marked; skips(k): whether none of items 8k to 8k + 7 is
//   SDF_EACH_TEAM    the same; on a GPU, a warp with shared memory takes each item
//
// On a GPU, wide steps run faster as launches of their own, with as many registers as each kernel needs: a step may
// leave its kernels to the host. They are recorded, and the launch ends after the step.
#ifndef SDFCLI_BASE_STEPS_H
#define SDFCLI_BASE_STEPS_H
#include "base/grid.h"
#include "base/team.h"

#ifdef SDF_SHARED

struct Steps {
    Grid grid;
    u32 part;      // index of the step: steps of few items start at different blocks, whose caches keep their code
    bool records;  // whether kernels are left to the host
    u32 crowd;     // items per warp from which teams' kernels are left to the host
    u32 recorded;  // kernels of this step
    u8* record;    // [SDF_RECORDS, SDF_RECORD_BYTES] out: a kernel's name, then its arguments; on the host

    METHOD bool leads() const { return grid.thread == 0; }
    METHOD u32 threads() const { return grid.threads; }
    METHOD u32 warps() const { return grid.threads / SDF_WARP; }
    METHOD Together warp() const { return {grid.thread % SDF_WARP}; }
    METHOD u32 warp_of_block() const { return grid.thread / SDF_WARP % SDF_BLOCK_WARPS; }
    METHOD void meet() const { grid.meet(); }

    template <class Body>
    METHOD void each(u32 n, const Body& body) const {
        for (u32 i = grid.from(part, SDF_PARTS); i < n; i += grid.threads) body(i);
    }
    template <class Value, class Visit>
    METHOD u64 scan(u32 n, const Value& value, const Visit& visit) const {
        return grid.scan(n, value, visit);
    }
    template <class Args, class Body>
    METHOD void run(const char* kernel, const Args& args, const Body& body) {
        if (records)
            leave_to_host(kernel, args);
        else
            each(args.n, body);
    }
    // Of many items, a multiple of eight, eight at a time, unless a test skips all of these.
    template <class Args, class Skips, class Body>
    METHOD void run_marked(const char* kernel, const Args& args, const Skips& skips, const Body& body) {
        if (records) return leave_to_host(kernel, args);
        const u32 step = args.n / 8 > threads() ? 8 : 1;
        each(args.n / step, [&](u32 i) {
            if (step == 8 && skips(i)) return;
            for (u32 k = step * i; k < step * i + step; k++) body(k);
        });
    }
    template <class Args, class Body>
    METHOD void run_teams(const char* kernel, const Args& args, const Body& body) {
        if (records || args.n / warps() >= crowd)
            leave_to_host(kernel, args);
        else
            each(SDF_WARP * args.n, [&](u32 i) { body(i / SDF_WARP); });
    }
    template <class Args>
    METHOD void leave_to_host(const char* kernel, const Args& args) {
        static_assert(sizeof args <= SDF_RECORD_BYTES - SDF_NAME_BYTES, "the record is too small");
        u8* to = record + SDF_RECORD_BYTES * recorded++;
        if (!leads()) return;
        for (u32 k = 0; k == 0 || kernel[k - 1]; k++) to[k] = (u8)kernel[k];
        *(Args*)(to + SDF_NAME_BYTES) = args;  // aligned: by bytes, this would take registers from all steps
    }
};
// Starts a launch's steps. i, threads: a kernel's index and n; arrivals: [1] 0 at first; sums: null without scans.
FN Steps steps_of(u32 i, u32 threads, u32* arrivals, u64* sums) {
    return {{i, threads, arrivals, sums}, 0, false, SDF_NONE, 0, nullptr};
}

#define SDF_EACH(steps, kernel, args) (steps).run(#kernel, args, [&](u32 i) { kernel##_at(args, i); })
#define SDF_EACH_MARKED(steps, kernel, args, skips) \
    (steps).run_marked(#kernel, args, skips, [&](u32 i) { kernel##_at(args, i); })
#define SDF_EACH_TEAM(steps, kernel, args, Memory, function)                                                    \
    do {                                                                                                        \
        SDF_SHARED Memory of_warp[SDF_BLOCK_WARPS];                                                             \
        (steps).run_teams(#kernel, args,                                                                        \
                          [&](u32 i) { function(args, i, of_warp[(steps).warp_of_block()], (steps).warp()); }); \
    } while (0)

#endif

#endif
