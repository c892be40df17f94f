// Axes of boxes that are turned as what they hold lies (Gottschalk, Lin and Manocha 1996), so that slanted parts of a
// surface are flat in theirs.
//
// INTERFACE
//   Axes, turned_axes  three axes, the last one along a normal
//   SDF_NEARER         what axes are multiplied by, so that no rounding makes a length along them a longer one
//   SDF_TURNED_MARGIN  by which bounds along them are grown: more than the rounding of places there
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
