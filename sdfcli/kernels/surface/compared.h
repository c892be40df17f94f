// Pictures of a mesh alone, coloured by values that are computed for its visible points.
//
// INTERFACE
//   sdf_mesh_seen  each pixel's point on the mesh, and its light
#ifndef SDFCLI_SURFACE_COMPARED_H
#define SDFCLI_SURFACE_COMPARED_H
#include "base/kernel.h"
#include "surface/cast.h"
#include "surface/shade.h"

struct sdf_mesh_seen_args {
    u32 n;      // pixels, row by row
    u32 first;  // number of earlier pixels, from the top
    u32 width;
    u32 height;
    Shapes mesh;
    double pixel_size;     // size of a pixel at distance 1
    const double* camera;  // [4, 3] the eye, then unit vectors: right, up, forward
    double* point;         // [n, 3] out: in the domain's unit cube; undefined where nothing is seen
    float* light;          // [n] out: light reflected by a white surface, 0 to 1; negative where nothing is seen
};
SDF_KERNEL(sdf_mesh_seen, PLAIN, i) {
    u32 row = (a.first + i) / a.width, column = (a.first + i) % a.width;
    D3 eye = load3(a.camera);
    D3 way = ray_way(a.camera, a.pixel_size, column + 0.5 - 0.5 * a.width, row + 0.5 - 0.5 * a.height);
    Met met = nearest_triangle(a.mesh, eye, way);
    a.light[i] = -1.0f;
    if (!(met.t < SDF_CAST_FAR)) return;
    D3 at = eye + met.t * way, normal = unit(met.normal);
    if (dot(normal, way) > 0.0) normal = -1.0 * normal;
    D3 shown = shade(a.camera, way, normal, vec(1.0, 1.0, 1.0), 1.0, 1.0);
    a.light[i] = (float)clamp01((shown.x + shown.y + shown.z) / 3.0);
    a.point[3 * (size_t)i] = at.x;
    a.point[3 * (size_t)i + 1] = at.y;
    a.point[3 * (size_t)i + 2] = at.z;
}

#endif
