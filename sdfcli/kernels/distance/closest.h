// Nearest points on given nearest triangles.
//
// INTERFACE
//   sdf_closest  nearest points, in float64
#ifndef SDFCLI_DISTANCE_CLOSEST_H
#define SDFCLI_DISTANCE_CLOSEST_H
#include "base/kernel.h"
#include "geometry/triangle.h"

// The nearest point on a point's nearest triangle.
struct sdf_closest_args {
    u32 n;
    const float* points;    // [n, 3]
    const u32* slot;        // [n]
    const float* triangle;  // [triangles, 9]
    double* nearest;        // [n, 3] out
};
SDF_KERNEL(sdf_closest, PLAIN, i) {
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    D3 point = load3d(a.points + 3 * (size_t)i);
    store3(a.nearest + 3 * (size_t)i, nearest_on_triangle(point, load3d(t), load3d(t + 3), load3d(t + 6)).point);
}

#endif
