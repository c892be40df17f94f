// Whether two points have the same sign: the ball around each that its distance allows is empty of surface, so where
// the two balls meet, nothing lies between.
//
// INTERFACE
//   balls_meet          whether no surface lies between two points
#ifndef SDFCLI_SIGN_PROPAGATE_H
#define SDFCLI_SIGN_PROPAGATE_H
#include "base/vec.h"

// both: the sum of the distances. Their error grows where they are larger than the unit cube.
template <class T>
FN auto balls_meet(Vec<T> way, T both) {
    T room = both - T(SDF_DISTANCE_ERROR) * max_of(both, T(1.f));
    return (room > T(0.f)) & (room * room > dot(way, way));
}

#endif
