// Whether two points have the same sign: the ball around each that its distance allows is empty of surface, so where
// the two balls meet, nothing lies between.
//
// INTERFACE
//   SDF_DISTANCE_ERROR  the slack for rounding
//   UNKNOWN             a sign that is neither inside nor outside yet
//   balls_meet          whether no surface lies between two points
#ifndef SDFCLI_SIGN_PROPAGATE_H
#define SDFCLI_SIGN_PROPAGATE_H
#include "base/vec.h"

#define SDF_DISTANCE_ERROR 1.6e-5f  // more than two distances are off: 6.1e-6 is the most found for one, at needles

#define UNKNOWN 2  // of a sign: neither inside nor outside yet

// both: the sum of the distances. Their error grows where they are larger than the unit cube.
template <class T>
FN auto balls_meet(Vec<T> way, T both) {
    T room = both - T(SDF_DISTANCE_ERROR) * max_of(both, T(1.f));
    return (room > T(0.f)) & (room * room > dot(way, way));
}

#endif
