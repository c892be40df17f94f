// Pictures of a mesh, coloured by values at points on its faces (quality/wall_points.py).
//
// INTERFACE
//   sdf_wall_picture  pixel colours
#ifndef SDFCLI_SURFACE_WALL_PICTURE_H
#define SDFCLI_SURFACE_WALL_PICTURE_H
#include "base/kernel.h"
#include "geometry/domain.h"
#include "surface/cast.h"
#include "surface/shade.h"

struct sdf_wall_picture_args {
    u32 n;      // pixels, row by row
    u32 first;  // number of earlier pixels, from the top
    u32 width;
    u32 height;
    u32 vertices, faces, points, colours;
    double pixel_size;     // size of a pixel at distance 1
    const double* camera;  // [4, 3] the eye, then unit vectors: right, up, forward
    Shapes mesh;           // its cube is the unit cube; with normals at the corners
    Domain domain;
    const double* vertex;  // [vertices, 3] in the mesh's units
    const u32* face;       // [faces, 3]
    const u32* cuts;       // [faces] parts of an edge; see FacePoints
    const u64* start;      // [faces] each face's first point
    const u8* shade;       // [points] index of each point's colour
    const float* colour;   // [colours, 3] linear light
    const u8* rough;       // [height, width, 3] with one ray per pixel; null: renders this picture
    u8* pixel;             // [height, width, 3] out: red, green, blue
};

// Index of the point whose part of its face contains a position with barycentric weights v and w of the second and
// third corner.
FN u64 point_around(u32 cuts, double v, double w) {
    int most = (int)cuts - 1;
    double down = clamp01(v + w) * cuts, right = clamp01(w) * cuts;
    int row = min_of((int)down, most), column = min_of((int)right, row);
    bool upside_down = right - column > down - row && column < row;
    return (u64)row * row + 2 * column + (upside_down ? 1 : 0);
}

FN D3 seen_colour(const sdf_wall_picture_args& a, u32 face, D3 p) {
    const u32* corner = a.face + 3 * (size_t)face;
    D3 one = to_unit(a.domain, a.vertex + 3 * (size_t)corner[0]);
    D3 ab = to_unit(a.domain, a.vertex + 3 * (size_t)corner[1]) - one;
    D3 ac = to_unit(a.domain, a.vertex + 3 * (size_t)corner[2]) - one, ap = p - one, n = cross(ab, ac);
    double over = dot(n, n) > 0.0 ? 1.0 / dot(n, n) : 0.0;
    double v = dot(cross(ap, ac), n) * over, w = dot(cross(ab, ap), n) * over;
    return load3d(a.colour + 3 * (size_t)a.shade[a.start[face] + point_around(a.cuts[face], v, w)]);
}

SDF_KERNEL(sdf_wall_picture, PLAIN, place) {
    u32 i = a.first + place, column = i % a.width, row = i / a.width, rays = 1;
    if (a.rough) {
        if (contrast(a, column, row) < SDF_SHADE_CONTRAST) {
            for (int k = 0; k < 3; k++) a.pixel[3 * (size_t)i + k] = a.rough[3 * (size_t)i + k];
            return;
        }
        rays = SDF_SHADE_RAYS;
    }
    D3 eye = load3(a.camera), sum = vec(0.0, 0.0, 0.0);
    for (u32 ray = 0; ray < rays * rays; ray++) {
        double x = column + (ray % rays + 0.5) / rays - 0.5 * a.width;
        double y = row + (ray / rays + 0.5) / rays - 0.5 * a.height;
        D3 way = ray_way(a.camera, a.pixel_size, x, y), light = background(row / (double)a.height);
        Met met = nearest_triangle(a.mesh, eye, way);
        if (met.t < SDF_CAST_FAR) {
            // A lamp at the eye: surfaces that face it have the scale's colours.
            double facing = clamp01(abs_of(dot(unit(met.normal), way)));
            light = (0.4 + 0.6 * facing) * seen_colour(a, met.id, eye + met.t * way);
        }
        sum = sum + light;
    }
    double all = rays * rays;
    store_rgb(a.pixel + 3 * (size_t)i, vec(sum.x / all, sum.y / all, sum.z / all));
}

#endif
