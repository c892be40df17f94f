// Random points on a surface, uniform by area.
//
// INTERFACE
//   sdf_points_drawn  points from random numbers
#ifndef SDFCLI_VERIFY_DRAWN_H
#define SDFCLI_VERIFY_DRAWN_H
#include "base/kernel.h"
#include "base/vec.h"

struct sdf_points_drawn_args {
    u32 n;  // points
    u32 faces;
    const double* sums;    // [faces] the running sums of the faces' areas
    const double* drawn;   // [n] the sum at a point's place along all areas
    const double* weight;  // [n, 3] of its face's corners
    const double* vertex;  // [vertices, 3]
    const u32* face;       // [faces, 3]
    u32* chosen;           // [n] out: the point's face
    double* point;         // [n, 3] out
};
SDF_KERNEL(sdf_points_drawn, PLAIN, i) {
    u32 first = 0, last = a.faces - 1;  // the first face whose sum is not below the point's; or else the last one
    while (first < last) {
        u32 middle = first + (last - first) / 2;
        if (a.sums[middle] < a.drawn[i])
            first = middle + 1;
        else
            last = middle;
    }
    a.chosen[i] = first;
    const double* weight = a.weight + 3 * (size_t)i;
    for (int axis = 0; axis < 3; axis++) {
        double corner[3];
        for (int k = 0; k < 3; k++) corner[k] = a.vertex[3 * (size_t)a.face[3 * (size_t)first + k] + axis];
        a.point[3 * (size_t)i + axis] = weight[0] * corner[0] + weight[1] * corner[1] + weight[2] * corner[2];
    }
}

#endif
