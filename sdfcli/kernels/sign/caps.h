// What closes the holes of an open surface, and how far from it signs are those of the surface alone.
//
// INTERFACE
//   caps_room       how far around a point the caps have no say
//   sdf_sign_clear  the same for points
#ifndef SDFCLI_SIGN_CAPS_H
#define SDFCLI_SIGN_CAPS_H
#include "args.h"
#include "geometry/boxes.h"

// How far around a point the winding number of the caps of holes is small; negative where it may be more. It is at most
// the sum of area / distance^2 over groups of caps, in boxes; and nearer by a part of the distance to the nearest, all
// distances are less by no more than that part.
template <class Args>
FN float caps_room(const Args& a, F3 p) {
    float nearest_sq = 1e30f, sum = 0.f;
    for (u32 k = 0; k < a.groups; k++) {
        float distance_sq = most(box_distance_sq(p, a.box + 6 * k), 1e-12f);
        nearest_sq = least(nearest_sq, distance_sq);
        sum += a.area[k] / distance_sq;
    }
    return sqrtf(nearest_sq) * (1.f - sqrtf(sum));
}

FN void sdf_sign_clear_at(const sdf_sign_clear_args& a, u32 i) {
    a.clear[i] = caps_room(a, load3(a.points + 3 * (size_t)i));
}

#endif
