// Sorting particles into buckets. Arrivals are counted in any order, then ranked by particle number: the result is
// deterministic.
//
// INTERFACE
//   sdf_flow_count   particle counts by bucket
//   sdf_flow_arrive  each bucket's particles
//   sdf_flow_rank    sorts them by number
//   sdf_flow_move    moves the particles into this order, without gaps or with a fixed number of slots per bucket
//   sdf_flow_link    linked lists in this order, instead of moving particles
#ifndef SDFCLI_FLOW_BUCKETS_H
#define SDFCLI_FLOW_BUCKETS_H
#include "flow/particles.h"

// NaN gives the minimum, too.
FN u32 bucket_along(float at, u32 n) { return (u32)(int)min_of(max_of(at, 0.f), (float)(n - 3)) + 1; }

struct BucketGrid {
    float x, y, z;    // domain's lowest corner
    float over_edge;  // 1 / bucket edge
    u32 nx, ny, nz;   // buckets along the axes, including a layer of one around the domain
};
// Bucket of a position. Outside the domain, also by rounding: the domain's nearest bucket.
FN u32 bucket_of(const BucketGrid& grid, F3 p) {
    u32 x = bucket_along((p.x - grid.x) * grid.over_edge, grid.nx),
        y = bucket_along((p.y - grid.y) * grid.over_edge, grid.ny),
        z = bucket_along((p.z - grid.z) * grid.over_edge, grid.nz);
    return (z * grid.ny + y) * grid.nx + x;
}

struct sdf_flow_count_args {
    u32 n;  // places
    BucketGrid grid;
    const float* position;  // [n, 3]
    const u8* kind;         // [n]
    u32* count;             // [buckets] in and out: 0 before
    u32* own;               // [n] out: each particle's bucket
    u32* arrival;           // [n] out: number of earlier arrivals in the bucket
};
SDF_KERNEL(sdf_flow_count, PLAIN, i) {
    if (a.kind[i] == SDF_GONE) return;
    a.own[i] = bucket_of(a.grid, load3(a.position + 3 * (size_t)i));
    a.arrival[i] = atomic_add(a.count + a.own[i], 1u);
}

struct sdf_flow_arrive_args {
    u32 n;               // places
    const u8* kind;      // [n]
    const u32* own;      // [n]
    const u32* arrival;  // [n]
    const u32* end;      // [buckets] end of each bucket
    u32* member;         // [n] out: places of particles, bucket by bucket
};
SDF_KERNEL(sdf_flow_arrive, PLAIN, i) {
    if (a.kind[i] != SDF_GONE) a.member[bucket_start(a.end, a.own[i]) + a.arrival[i]] = i;
}

struct sdf_flow_rank_args {
    u32 n;              // places
    const u8* kind;     // [n]
    const u32* number;  // [n]
    const u32* own;     // [n]
    const u32* end;     // [buckets]
    const u32* member;  // [n]
    u32* ranked;        // [n] out: places of particles, bucket by bucket, in each by number
};
SDF_KERNEL(sdf_flow_rank, PLAIN, i) {
    if (a.kind[i] == SDF_GONE) return;
    u32 first = bucket_start(a.end, a.own[i]), last = a.end[a.own[i]], before = 0, number = a.number[i];
    for (u32 m = first; m < last; m++) before += a.number[a.member[m]] < number;
    a.ranked[first + before] = i;
}

struct sdf_flow_move_args {
    u32 n;  // places to fill
    u32 places;
    u32 buckets;
    u32 room;               // places per bucket; 0: no gaps
    const u32* end;         // [buckets]
    const u32* ranked;      // [places]
    const u32* own;         // [places]
    const float* position;  // [places, 3]
    const float* velocity;  // [places, 3]
    const u8* kind;         // [places]
    const u32* number;      // [places]
    u32* new_own;           // [n] out
    float* new_position;    // [n, 3] out
    float* new_velocity;    // [n, 3] out
    u8* new_kind;           // [n] out
    u32* new_number;        // [n] out
    u64* most;              // [1] in and out: maximum particle count of a bucket
};
SDF_KERNEL(sdf_flow_move, PLAIN, i) {
    u32 rank = i, last = a.end[a.buckets - 1];
    if (a.room) {
        u32 bucket = i / a.room;
        if (bucket >= a.buckets) {
            a.new_kind[i] = SDF_GONE;
            return;
        }
        u32 first = bucket_start(a.end, bucket);
        rank = first + i % a.room;
        last = a.end[bucket];
        if (i % a.room == 0 && last - first > a.room) atomic_max(a.most, (u64)(last - first));
    }
    if (rank >= last) {
        a.new_kind[i] = SDF_GONE;
        return;
    }
    u32 from = a.ranked[rank];
    a.new_own[i] = a.own[from];
    a.new_kind[i] = a.kind[from];
    a.new_number[i] = a.number[from];
    for (int k = 0; k < 3; k++) {
        a.new_position[3 * (size_t)i + k] = a.position[3 * (size_t)from + k];
        a.new_velocity[3 * (size_t)i + k] = a.velocity[3 * (size_t)from + k];
    }
}

struct sdf_flow_link_args {
    u32 n;  // places and buckets
    u32 places;
    u32 buckets;
    const u32* end;     // [buckets]
    const u32* ranked;  // [places]
    const u32* own;     // [places]
    u32* link;          // [n] out: see Particles
};
SDF_KERNEL(sdf_flow_link, PLAIN, i) {
    if (i >= a.places) {
        u32 bucket = i - a.places, first = bucket_start(a.end, bucket);
        a.link[i] = first < a.end[bucket] ? a.ranked[first] : SDF_NONE;
        return;
    }
    if (i >= a.end[a.buckets - 1]) return;
    u32 from = a.ranked[i];
    a.link[from] = i + 1 < a.end[a.own[from]] ? a.ranked[i + 1] : SDF_NONE;
}

#endif
