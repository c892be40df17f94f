// Memory traffic of the thesis's distance queries, as Nsight Compute counts it, without a profiler: load requests and
// 32-byte sectors of warps whose threads meet again after each step of the traversal.
//
// A request is one load instruction of a warp, whichever threads execute it; its sectors are the distinct ones. Loads
// are those of the compiled kernels. A warp is one index here, so counts are the same on the CPU and on every GPU.
//
// INTERFACE
//   sdf_distance_traffic  the queries' results, tests and loads
#ifndef SDFCLI_DISTANCE_TRAFFIC_H
#define SDFCLI_DISTANCE_TRAFFIC_H
#include "distance/stack.h"

enum TrafficWalk { BASELINE, SOA, CCT, VECTORS, DEFERRED, COMPONENTS };  // the order in spatial/binary.py

// Loads of a warp's threads at one site: distinct offsets from an array's start, sorted.
struct SiteLoads {
    u32 count;
    int loads;      // per thread
    size_t stride;  // between a thread's loads, in bytes
    size_t offset[SDF_WARP];

    APART void add(size_t first, int many, size_t apart) {
        loads = many;
        stride = apart;
        u32 k = count;
        while (k > 0 && offset[k - 1] > first) k--;
        if (k > 0 && offset[k - 1] == first) return;
        for (u32 j = count++; j > k; j--) offset[j] = offset[j - 1];
        offset[k] = first;
    }
    // Loads are aligned: none crosses a sector's edge.
    APART u32 sectors() const {
        u32 sum = 0;
        for (int load = 0; load < loads; load++)
            for (u32 k = 0; k < count; k++) {
                size_t shift = load * stride;
                sum += k == 0 || (offset[k] + shift) / 32 != (offset[k - 1] + shift) / 32;
            }
        return sum;
    }
};

// Counts a thread's tests, and adds its loads to its warp's.
struct TrafficTests {
    static constexpr bool counts = true;
    u32 boxes, tests;
    int site;
    SiteLoads* warp;
    METHOD void at(LoadSite next) { site = next; }
    METHOD void load(size_t offset, int loads, size_t stride, int part = 0) {
        warp[site + part].add(offset, loads, stride);
    }
};

struct sdf_distance_traffic_args {
    u32 n;             // warps
    u32 walk;          // a TrafficWalk
    StackQuery query;  // without seeds
    u64* requests;     // [n] out
    u64* sectors;      // [n] out
    u32* steps;        // [n] out: of the warp
    u64* active;       // [n] out: threads active in them
};
template <class Walk>
FN void count_traffic(const sdf_distance_traffic_args& a, u32 warp) {
    const StackQuery& query = a.query;
    u32 first = SDF_WARP * warp, threads = min_of((u32)SDF_WARP, query.n - first), steps = 0;
    u32 stack[SDF_WARP][SDF_STACK];
    int depth[SDF_WARP];
    Hit best[SDF_WARP];
    TrafficTests tally[SDF_WARP];
    SiteLoads site[LOAD_SITES];
    u64 requests = 0, sectors = 0, active = 0;
    auto meet = [&] {
        for (int s = 0; s < LOAD_SITES; s++) {
            if (site[s].count == 0) continue;
            requests += site[s].loads;
            sectors += site[s].sectors();
            site[s].count = 0;
        }
    };
    for (int s = 0; s < LOAD_SITES; s++) site[s].count = 0;
    for (u32 k = 0; k < threads; k++) {
        tally[k] = {0, 0, NODE, site};
        tally[k].load(12 * (size_t)(first + k), 3, 4);  // the point
        tally[k].at(LEFT);
        best[k] = first_hit(query, load3(query.points + 3 * (size_t)(first + k)), first + k, &tally[k]);
        stack[k][0] = 0;
        depth[k] = query.triangles > 1;
    }
    meet();
    for (bool more = query.triangles > 1; more; steps += more) {
        more = false;
        for (u32 k = 0; k < threads; k++) {
            if (depth[k] == 0) continue;
            more = true;
            active++;
            F3 p = load3(query.points + 3 * (size_t)(first + k));
            auto test = [&](u32 slot) { test_triangle(query, p, slot, &best[k], &tally[k]); };
            auto reach = [&] { return best[k].distance_sq; };
            depth[k] = Walk::step(query, p, false, stack[k], depth[k], &tally[k], test, reach);
        }
        meet();
    }
    for (u32 k = 0; k < threads; k++) store_hit(query, first + k, best[k], tally[k]);
    a.requests[warp] = requests;
    a.sectors[warp] = sectors;
    a.steps[warp] = steps;
    a.active[warp] = active;
}
SDF_KERNEL(sdf_distance_traffic, PLAIN, warp) {
    if (a.walk == BASELINE)
        count_traffic<LeftFirst<Whole<4>>>(a, warp);
    else if (a.walk == SOA)
        count_traffic<LeftFirst<Arrays>>(a, warp);
    else if (a.walk == CCT)
        count_traffic<CloserChild>(a, warp);
    else if (a.walk == VECTORS)
        count_traffic<LeftFirst<Whole<16>>>(a, warp);
    else if (a.walk == DEFERRED)
        count_traffic<LeavesFirst<Structures, false>>(a, warp);
    else
        count_traffic<LeftFirst<Components>>(a, warp);
}

#endif
