// Balls of equal size over a picture. Each covers the rays that intersect it; the nearest on a ray wins, with ties to
// the smallest index: the order does not matter.
//
// INTERFACE
//   sdf_balls_cover  first ball on each ray
//   sdf_balls_draw   their light, over a given picture
#ifndef SDFCLI_SURFACE_BALLS_H
#define SDFCLI_SURFACE_BALLS_H
#include "base/kernel.h"
#include "surface/shade.h"

struct Balls {
    u32 width, height;     // in pixels
    u32 rays;              // rays per pixel, before squaring
    double pixel_size;     // size of a pixel at distance 1
    double radius;         // of all balls
    const double* camera;  // [4, 3] see surface/shade.h
};
// A ray's direction; rays are numbered row by row over the whole picture.
FN D3 way_of(const Balls& balls, u32 column, u32 row) {
    return ray_way(balls.camera, balls.pixel_size, (column + 0.5) / balls.rays - 0.5 * balls.width,
                   (row + 0.5) / balls.rays - 0.5 * balls.height);
}
// Ray parameter at the intersection with a ball; negative for none. at: the centre, relative to the eye.
FN double meeting(const Balls& balls, D3 at, D3 way) {
    double along = dot(at, way);
    D3 beside = at - along * way;
    double inner = balls.radius * balls.radius - dot(beside, beside);
    return inner < 0.0 ? -1.0 : along - sqrt(inner);
}
// First and last ray, out of `many` along an axis, that a ball can cover. side, ahead: its centre, relative to the eye;
// middle: the axis's central ray; over: rays per slope.
FN void range_of(double side, double ahead, double radius, double over, double middle, u32 many, int* first,
                 int* last) {
    double slope = side / ahead, reach = radius * sqrt(1.0 + slope * slope) / (ahead - radius);
    double low = (slope - reach) * over + middle - 1.0, high = (slope + reach) * over + middle;
    *first = (int)min_of(max_of(low, 0.0), (double)many);
    *last = (int)min_of(max_of(high, -1.0), many - 1.0);
}

struct sdf_balls_cover_args {
    u32 n;  // balls
    Balls balls;
    const double* centre;  // [n, 3]
    u64* front;            // [rays of the picture] in and out: row by row,
                           // complement of distance and index; 0 for none
};
SDF_KERNEL(sdf_balls_cover, PLAIN, i) {
    const Balls& balls = a.balls;
    D3 at = load3(a.centre + 3 * (size_t)i) - load3(balls.camera);
    double ahead = dot(at, load3(balls.camera + 9)), over = balls.rays / balls.pixel_size;
    if (!(ahead > 2.0 * balls.radius)) return;
    u32 across = balls.width * balls.rays, down = balls.height * balls.rays;
    int left, right, top, bottom;
    range_of(dot(at, load3(balls.camera + 3)), ahead, balls.radius, over, 0.5 * across, across, &left, &right);
    range_of(-dot(at, load3(balls.camera + 6)), ahead, balls.radius, over, 0.5 * down, down, &top, &bottom);
    for (int row = top; row <= bottom; row++)
        for (int column = left; column <= right; column++) {
            double t = meeting(balls, at, way_of(balls, column, row));
            if (t < 0.0) continue;
            atomic_max(a.front + (size_t)row * across + column, ~((u64)float_bits((float)t) << 32 | i));
        }
}

struct sdf_balls_draw_args {
    u32 n;  // pixels
    u32 count;
    Balls balls;
    double through;  // 0: the surface hides balls behind it; else it contains all of them, and is this transparent
    const double* centre;  // [count, 3]
    const u8* colour;      // [count, 3] red, green, blue
    const u64* front;      // [rays of the picture]
    const double* depth;   // [n] depth of the picture's surface, from the eye; negative for none; may be null
    const u8* behind;      // [n, 3] the picture; null: none
    u8* pixel;             // [n, 3] out
};
SDF_KERNEL(sdf_balls_draw, PLAIN, i) {
    const Balls& balls = a.balls;
    u32 rays = balls.rays, column = i % balls.width, row = i / balls.width;
    D3 under = a.behind ? load_rgb(a.behind + 3 * (size_t)i) : background(row / (double)balls.height);
    D3 sum = vec(0.0, 0.0, 0.0);
    double depth = a.depth ? a.depth[i] : -1.0, all = rays * rays;
    for (u32 ray = 0; ray < rays * rays; ray++) {
        u32 x = column * rays + ray % rays, y = row * rays + ray / rays;
        u64 front = a.front[(size_t)y * balls.width * rays + x];
        D3 light = under;
        if (front) {
            u32 ball = (u32)~front;
            D3 at = load3(a.centre + 3 * (size_t)ball) - load3(balls.camera), way = way_of(balls, x, y);
            double t = meeting(balls, at, way);
            D3 own = shade(balls.camera, way, unit(t * way - at), load_rgb(a.colour + 3 * (size_t)ball), 1.0, 1.0);
            light = mix(under, own, depth >= 0.0 && (a.through > 0.0 || depth < t) ? a.through : 1.0);
        }
        sum = sum + light;
    }
    store_rgb(a.pixel + 3 * (size_t)i, vec(sum.x / all, sum.y / all, sum.z / all));
}

#endif
