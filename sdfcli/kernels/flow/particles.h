// Particles in buckets, in three layouts, and iteration over a particle's possible neighbours.
//
// Neighbours are visited bucket by bucket (z, y, x, x fastest), in a bucket by number: sums over them have the same
// bits in every layout.
//
// INTERFACE
//   Slab, owned              layers of buckets that a device computes
//   Particles                buckets and their contents
//   bucket_start             a bucket's start
//   each_in_buckets          calls a function for all particles in the buckets around one, with the vector to them
//   each_near                the same, for the particles in its neighbour list, if any
//   sdf_flow_list            neighbour lists
#ifndef SDFCLI_FLOW_PARTICLES_H
#define SDFCLI_FLOW_PARTICLES_H
#include "base/kernel.h"
#include "base/vec.h"

// Layers of buckets that a device computes, along one axis. Beyond them it has copies of other devices' particles.
struct Slab {
    u32 stride;       // from a bucket to the one in the next layer
    u32 across;       // layers along the axis
    u32 first, last;  // its layers
};
FN u32 layer_of(const Slab& slab, u32 bucket) { return bucket / slab.stride % slab.across; }
FN bool owned(const Slab& slab, u32 bucket) { return layer_of(slab, bucket) - slab.first < slab.last - slab.first; }

// Memory layouts of particles: ordered by number, with linked lists as buckets (Tomioka et al. 2025, section 3.1); a
// fixed number of places per bucket, some of them empty (section 3.2); sorted by bucket without gaps (after Green
// 2008).
struct Particles {
    u32 places;       // for particles; in the layout BUCKET buckets * room
    u32 layout;       // SDF_LAYOUT_INDEX, SDF_LAYOUT_BUCKET or SDF_LAYOUT_COMPACT
    u32 room;         // places per bucket, in the layout BUCKET
    u32 buckets;      // including the buckets around the domain
    u32 nx, ny;       // buckets along x and y
    const u32* end;   // [buckets] end of each bucket, without gaps
    const u32* link;  // [places + buckets] in the layout INDEX: each particle's successor in its bucket, then each
                      // bucket's first particle; SDF_NONE: none
    const u32* own;   // [places] each particle's bucket
    const u8* kind;   // [places]
    Slab slab;        // the device's share
    u32 listed;       // capacity of a particle's neighbour list; 0: no lists
    const u32* many;  // [places] possible neighbours; more than `listed`: the list is invalid
    const u32* list;  // [places, listed] their places, in iteration order
    u32 apart, next;  // strides in `list` between particles, and between a particle's neighbours
};
FN u32 bucket_start(const u32* end, u32 bucket) { return bucket ? end[bucket - 1] : 0; }

// Calls visit(place, r) for place_of(0) .. place_of(count - 1), in this order; r: the vector there from `at`.
template <class Place, class Visit>
FN void each_of(u32 count, const float* position, F3 at, const Place& place_of, const Visit& visit) {
#ifdef __CUDACC_RTC__
    const u32 AHEAD = 12;  // concurrent loads: a thread has no other work
    for (u32 from = 0; from < count; from += AHEAD) {
        u32 place[AHEAD];
        F3 r[AHEAD];
        for (u32 k = 0; k < AHEAD; k++) place[k] = place_of(min_of(from + k, count - 1));
        for (u32 k = 0; k < AHEAD; k++) r[k] = load3(position + 3 * (size_t)place[k]) - at;
        for (u32 k = 0; k < AHEAD; k++)
            if (from + k < count) visit(place[k], r[k]);
    }
#else
    for (u32 k = 0; k < count; k++) {
        u32 place = place_of(k);
        visit(place, load3(position + 3 * (size_t)place) - at);
    }
#endif
}

template <class Visit>
FN void each_in_buckets(const Particles& all, const float* position, u32 place, const Visit& visit) {
    F3 at = load3(position + 3 * (size_t)place);
    u32 middle = all.own[place];
    for (u32 row = 0; row < 9; row++) {
        u32 first = middle + all.nx * (all.ny * (row / 3) + row % 3) - all.nx * (all.ny + 1) - 1;
        if (all.layout == SDF_LAYOUT_COMPACT) {  // three consecutive buckets
            u32 start = bucket_start(all.end, first);
            each_of(all.end[first + 2] - start, position, at, [&](u32 k) { return start + k; }, visit);
        } else {
            for (u32 bucket = first; bucket < first + 3; bucket++) {
                if (all.layout == SDF_LAYOUT_BUCKET) {
                    u32 count = min_of(all.end[bucket] - bucket_start(all.end, bucket), all.room);
                    each_of(count, position, at, [&](u32 k) { return bucket * all.room + k; }, visit);
                } else {
                    for (u32 p = all.link[all.places + bucket]; p != SDF_NONE; p = all.link[p])
                        visit(p, load3(position + 3 * (size_t)p) - at);
                }
            }
        }
    }
}

template <class Visit>
FN void each_near(const Particles& all, const float* position, u32 place, const Visit& visit) {
    if (all.listed == 0 || all.many[place] > all.listed) {
        each_in_buckets(all, position, place, visit);
        return;
    }
    const u32* list = all.list + all.apart * (size_t)place;
    F3 at = load3(position + 3 * (size_t)place);
    each_of(all.many[place], position, at, [&](u32 k) { return list[all.next * (size_t)k]; }, visit);
}

struct sdf_flow_list_args {
    u32 n;  // places
    Particles all;
    float reach;            // radius of particles that may become neighbours within a step
    const float* position;  // [n, 3]
    u32* many;              // [n] out
    u32* list;              // [n, room] out
};
SDF_KERNEL(sdf_flow_list, PLAIN, i) {
    if (a.all.kind[i] == SDF_GONE) return;
    u32 count = 0;
    each_in_buckets(a.all, a.position, i, [&](u32 p, F3 r) {
        if (p == i || !(dot(r, r) < a.reach * a.reach)) return;
        if (count < a.all.listed) a.list[a.all.apart * (size_t)i + a.all.next * (size_t)count] = p;
        count++;
    });
    a.many[i] = count;
}

#endif
