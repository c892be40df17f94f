// Points along a curve that inherit a neighbour's winding number (see sign/propagate.h).
//
// INTERFACE
//   SDF_LINK_REACH  number of points tested on each side
//   sdf_sign_link   links each point to the neighbour from which it inherits, or to itself
#ifndef SDFCLI_SIGN_LINK_H
#define SDFCLI_SIGN_LINK_H
#include "base/kernel.h"
#include "sign/propagate.h"

#define SDF_LINK_REACH 128  // points on each side, SDF_LANES per step

// The first neighbour found that is farther from the surface, or the point itself: so links form no cycle.
struct sdf_sign_link_args {
    u32 n;                  // points, along a curve
    const float* points;    // [n, 3]
    const float* distance;  // [n] unsigned, to everything that changes the sign, or the inherited value
    u32* link;              // [n] out
};
SDF_KERNEL(sdf_sign_link, LANES, i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    float own = a.distance[i];
    u32 link = i;
    for (u32 first = 0; first < 2 * SDF_LINK_REACH && link == i; first += SDF_LANES) {
        bool behind = first / SDF_LANES % 2;
        u32 from = first / SDF_LANES / 2 * SDF_LANES + 1;
        for (u32 k = from; k < from + SDF_LANES && link == i; k++) {
            u32 j = behind ? i + k : i - k;  // wraps around below 0, hence beyond the end
            if (j < a.n && a.distance[j] > own &&
                empty_between(own + a.distance[j], load3(a.points + 3 * (size_t)j) - p))
                link = j;
        }
    }
    a.link[i] = link;
}

#endif
