// Caps that close an open surface's holes, and the radius within which they do not affect signs.
//
// INTERFACE
//   Caps            groups of caps, in boxes
//   caps_room       radius around a point within which the caps do not matter
//   sdf_sign_clear  the same for points
#ifndef SDFCLI_SIGN_CAPS_H
#define SDFCLI_SIGN_CAPS_H
#include "base/kernel.h"
#include "geometry/boxes.h"

struct Caps {
    u32 groups;         // number of groups
    const float* box;   // [groups, 6]
    const float* area;  // [groups] area / (4 pi times the winding number considered small)
};

// Radius around a point within which the caps' winding number is small; negative if it may be larger. It is at most the
// sum over groups of area / distance^2, with distances to boxes. Moving by a fraction of the distance to the nearest
// box reduces every distance by at most that fraction. T may be a vector of floats (base/simd.h).
template <class T>
FN T caps_room(const Caps& caps, Vec<T> p) {
    T nearest_sq(1e30f), sum(0.f);
    for (u32 k = 0; k < caps.groups; k++) {
        T distance_sq = max_of(box_distance_sq(p, caps.box + 6 * k), T(1e-12f));
        nearest_sq = min_of(nearest_sq, distance_sq);
        sum = sum + T(caps.area[k]) / distance_sq;
    }
    return sqrt_of(nearest_sq) * (T(1.f) - sqrt_of(sum));
}

struct sdf_sign_clear_args {
    u32 n;
    const float* points;  // [n, 3]
    Caps caps;
    float* clear;  // [n] out
};
SDF_KERNEL(sdf_sign_clear, PLAIN, i) { a.clear[i] = caps_room(a.caps, load3(a.points + 3 * (size_t)i)); }

#endif
