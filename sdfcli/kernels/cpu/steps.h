// The steps of base/steps.h on a CPU: one thread goes through them, and all threads share their loops.
#ifndef SDFCLI_CPU_STEPS_H
#define SDFCLI_CPU_STEPS_H
#include "cpu/threads.h"

struct Steps {
    int threads;
    u64* sums;  // [SDF_STEP_SUMS]
    u32 part, crowd, recorded;
    bool records;
    u8* record;

    bool leads() const { return true; }
    void meet() const {}
    template <class Body>
    void each(u32 n, const Body& body) const {
        parallel_chunks(n, SDF_CHUNK, threads, [&](u32 first, u32 last) {
            for (u32 i = first; i < last; i++) body(i);
        });
    }
    template <class Value, class Visit>
    u64 scan(u32 n, const Value& value, const Visit& visit) const {
        const u32 run = max_of(n / SDF_STEP_SUMS + 1, (u32)SDF_CHUNK);
        u64 all = 0;
        parallel_chunks(n, run, threads, [&](u32 first, u32 last) {
            u64 sum = 0;
            for (u32 i = first; i < last; i++) sum += value(i);
            sums[first / run] = sum;
        });
        for (u32 k = 0; k * (u64)run < n; k++) {
            u64 before = all;
            all += sums[k];
            sums[k] = before;
        }
        parallel_chunks(n, run, threads, [&](u32 first, u32 last) {
            u64 before = sums[first / run];
            for (u32 i = first; i < last; i++) {
                u64 own = value(i);
                visit(i, before, own, all);
                before += own;
            }
        });
        return all;
    }
};
static Steps steps_of(u32 threads, u32, u32*, u64* sums) { return {(int)threads, sums, 0, 0, 0, false, nullptr}; }

#define SDF_EACH(steps, kernel, args) kernel(&(args), (steps).threads)
#define SDF_EACH_MARKED(steps, kernel, args, skips) SDF_EACH(steps, kernel, args)
#define SDF_EACH_TEAM(steps, kernel, args, Memory, function) SDF_EACH(steps, kernel, args)

#endif
