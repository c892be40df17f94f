// Points along a curve that take over a neighbour's winding number: the ball around each that its distance allows is
// empty of surface, so where the balls of two points meet, nothing lies between.
#ifndef SDFCLI_SIGN_LINK_H
#define SDFCLI_SIGN_LINK_H
#include "bvh.h"
#include "octree.h"

#define SDF_LINK_REACH 128  // points before and behind, SDF_WIDE at a time

// both: the sum of the distances. Their error grows where they are larger than the unit cube.
template <class T>
FN auto balls_meet(Vec<T> way, T both) {
    T room = both - T(SDF_DISTANCE_ERROR) * most(both, T(1.f));
    return (room > T(0.f)) & (room * room > dot(way, way));
}

// The first neighbour found that is farther from the surface, or the point itself: so that links lead in no circle.
FN void sdf_sign_link_at(const sdf_sign_link_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    float own = a.distance[i];
    u32 link = i;
    for (u32 first = 0; first < 2 * SDF_LINK_REACH && link == i; first += SDF_WIDE) {
        bool behind = first / SDF_WIDE % 2;
        u32 from = first / SDF_WIDE / 2 * SDF_WIDE + 1;
        for (u32 k = from; k < from + SDF_WIDE && link == i; k++) {
            u32 j = behind ? i + k : i - k;  // below 0 is beyond the end, too
            if (j < a.n && a.distance[j] > own && balls_meet(load3(a.points + 3 * (size_t)j) - p, own + a.distance[j]))
                link = j;
        }
    }
    a.link[i] = link;
}

#endif
