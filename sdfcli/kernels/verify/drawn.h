// Random points on and around a surface, uniform by area.
//
// INTERFACE
//   sdf_points_drawn  points from random numbers
#ifndef SDFCLI_VERIFY_DRAWN_H
#define SDFCLI_VERIFY_DRAWN_H
#include "base/kernel.h"
#include "geometry/domain.h"

struct sdf_points_drawn_args {
    u32 n;  // points
    u32 faces;
    const u32* order;  // [n] sorts the shares: neighbouring points are processed together
    Domain domain;
    const double* sums;    // [faces] prefix sums of face areas
    const double* share;   // [n] fraction of the total area before a point
    const double* weight;  // [n, 3] barycentric weights
    const double* vertex;  // [vertices, 3]
    const u32* face;       // [faces, 3]
    const double* way;     // [n, 3] direction of a point's offset from the surface; null: none
    const double* far;     // [n] offset in widths
    double width;
    double* point;   // [n, 3] out: offset points are clamped to the domain
    double* normal;  // [n, 3] out: the face's unit normal, 0 if it has no area; null: not needed
};
SDF_KERNEL(sdf_points_drawn, PLAIN, k) {
    u32 i = a.order[k];
    double drawn = a.share[i] * a.sums[a.faces - 1];
    u32 first = 0, last = a.faces - 1;  // the first face whose sum is not below the point's, otherwise the last one
    while (first < last) {
        u32 middle = first + (last - first) / 2;
        if (a.sums[middle] < drawn)
            first = middle + 1;
        else
            last = middle;
    }
    const u32* face = a.face + 3 * (size_t)first;
    const double *corner[3], *weight = a.weight + 3 * (size_t)i;
    for (int c = 0; c < 3; c++) corner[c] = a.vertex + 3 * (size_t)face[c];
    const double low[3] = {a.domain.x, a.domain.y, a.domain.z};
    double away = a.way ? a.far[i] * a.width : 0.0;
    for (int axis = 0; axis < 3; axis++) {
        double x = weight[0] * corner[0][axis] + weight[1] * corner[1][axis] + weight[2] * corner[2][axis];
        if (a.way) x = min_of(max_of(x + a.way[3 * (size_t)i + axis] * away, low[axis]), low[axis] + a.domain.length);
        a.point[3 * (size_t)i + axis] = x;
    }
    if (!a.normal) return;
    D3 at = to_unit(a.domain, corner[0]);
    D3 normal = cross(to_unit(a.domain, corner[1]) - at, to_unit(a.domain, corner[2]) - at);
    double length = sqrt(dot(normal, normal));
    if (!(length > 0.0)) length = 1.0;
    a.normal[3 * (size_t)i] = normal.x / length;
    a.normal[3 * (size_t)i + 1] = normal.y / length;
    a.normal[3 * (size_t)i + 2] = normal.z / length;
}

#endif
