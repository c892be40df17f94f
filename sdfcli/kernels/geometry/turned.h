// Axes for oriented boxes (Gottschalk, Lin and Manocha 1996), so that slanted surface parts are flat along the last
// axis.
//
// INTERFACE
//   Axes, turned_axes  three axes, the last along a normal
//   SDF_NEARER         scale factor for axes: no rounding then lengthens a projection
//   SDF_TURNED_MARGIN  margin for bounds along the axes: exceeds the rounding of coordinates
#ifndef SDFCLI_GEOMETRY_TURNED_H
#define SDFCLI_GEOMETRY_TURNED_H
#include "base/vec.h"

#define SDF_NEARER 0.99999f
#define SDF_TURNED_MARGIN 3.8147e-06f

struct Axes {
    F3 x, y, z;
};
FN Axes turned_axes(F3 n) {
    float length_sq = dot(n, n);
    F3 z = length_sq > 1e-30f ? (1.f / sqrtf(length_sq)) * n : vec(0.f, 0.f, 1.f);
    float x = fabsf(z.x), y = fabsf(z.y), w = fabsf(z.z);
    F3 flat = x <= y && x <= w ? vec(1.f, 0.f, 0.f) : y <= w ? vec(0.f, 1.f, 0.f) : vec(0.f, 0.f, 1.f);
    flat = flat - dot(flat, z) * z;
    F3 first = (1.f / sqrtf(dot(flat, flat))) * flat;
    Axes axes = {first, cross(z, first), z};
    return axes;
}

#endif
