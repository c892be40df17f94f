// What closes the holes of an open surface, and how far from it signs are those of the surface alone.
//
// INTERFACE
//   Caps            groups of caps, in boxes
//   caps_room       how far around a point the caps have no say
//   sdf_sign_clear  the same for points
#ifndef SDFCLI_SIGN_CAPS_H
#define SDFCLI_SIGN_CAPS_H
#include "base/kernel.h"
#include "geometry/boxes.h"

struct Caps {
    u32 groups;         // of caps
    const float* box;   // [groups, 6]
    const float* area;  // [groups] over 4 pi times the winding number that is small
};

// How far around a point the winding number of the caps of holes is small; negative where it may be more. It is at most
// the sum of area / distance^2 over groups of caps, in boxes; and nearer by a part of the distance to the nearest, all
// distances are less by no more than that part. T may be a vector of floats (base/simd.h).
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
