// Tests for no surface between two points, so that their signs agree: each point's distance gives a ball without
// surface, and the two balls overlap.
//
// INTERFACE
//   empty_between    from two distances and the vector or length between the points
//   empty_reach      a distance less its own slack: no surface lies between two points if these exceed their separation
//
// Distances are for points in the unit cube, with an error below SDF_DISTANCE_ERROR for two together. Elsewhere the
// error grows with the distance.
#ifndef SDFCLI_SIGN_PROPAGATE_H
#define SDFCLI_SIGN_PROPAGATE_H
#include "base/vec.h"

// T may be a vector of floats (base/simd.h), here and below.
template <class T>
FN auto empty_between(T d, T e, T way) {
    return d + e - T(SDF_DISTANCE_ERROR) > way;
}

FN float empty_reach(float d) { return d - SDF_DISTANCE_ERROR * max_of(d, 0.5f); }

// For distances of any size; both: their sum.
template <class T>
FN auto empty_between(T both, Vec<T> way) {
    T room = both - T(SDF_DISTANCE_ERROR) * max_of(both, T(1.f));
    return (room > T(0.f)) & (room * room > dot(way, way));
}

#endif
