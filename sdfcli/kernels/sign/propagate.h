// Whether no surface lies between two points, so that they have the same sign: the ball around each with its distance
// as radius is empty of surface, and the two balls overlap.
//
// INTERFACE
//   empty_between    from two distances and the way between the points
//   empty_reach      a distance less its own slack: nothing lies between where two of these exceed the way
//
// Distances are those of points in the unit cube, with an error below SDF_DISTANCE_ERROR for two together. Elsewhere
// the error grows with the distance.
#ifndef SDFCLI_SIGN_PROPAGATE_H
#define SDFCLI_SIGN_PROPAGATE_H
#include "base/vec.h"

// T may be a vector of floats (base/simd.h), here and below.
template <class T>
FN auto empty_between(T d, T e, T way) {
    return d + e - T(SDF_DISTANCE_ERROR) > way;
}

FN float empty_reach(float d) { return d - SDF_DISTANCE_ERROR * max_of(d, 0.5f); }

// Of distances of any size; both: their sum.
template <class T>
FN auto empty_between(T both, Vec<T> way) {
    T room = both - T(SDF_DISTANCE_ERROR) * max_of(both, T(1.f));
    return (room > T(0.f)) & (room * room > dot(way, way));
}

#endif
