// Gradients of the signed distance at an octree's points.
//
// INTERFACE
//   Points, Limits    the points' data, and the field's error limits between them
//   gradient_along    from the vector from the nearest surface point
//   load_gradients    at measured points: stored, or recomputed
//   corner_gradients  at a cell's corners
#ifndef SDFCLI_OCTREE_GRADIENT_H
#define SDFCLI_OCTREE_GRADIENT_H
#include "geometry/triangle.h"
#include "octree/levels.h"

// Gradient of the signed distance, along the vector from the nearest surface point or, on the surface, along the face's
// normal.
FN F3 gradient_along(D3 g, const float* t, bool inside) {
    double length = sqrt(dot(g, g)), sign = inside ? -1.0 : 1.0;
    if (length < 1e-9) {
        D3 u = load3d(t);
        g = cross(load3d(t + 3) - u, load3d(t + 6) - u);
        length = sqrt(dot(g, g));
        sign = 1.0;
    }
    sign = length > 0.0 ? sign / length : 0.0;
    return vec((float)(sign * g.x), (float)(sign * g.y), (float)(sign * g.z));
}

struct Points {
    u32 triangles;
    const u64* triangle_key;  // [triangles]
    const float* triangle;    // [triangles, 9]
    const float* distance;    // [points] signed
    const float* gradient;    // [points, 3] null: recomputed
    const u32* slot;          // [points] nearest triangle
};

struct Limits {
    float tolerance;
    float band;
    float thin_least;  // thinner sheets, in domain edges, are not kept
};

// Gradients at COUNT points, given by index; place(cell position, k): point k's position on the lattice. On a GPU with
// many points, gradients are recomputed to save memory.
template <int COUNT, class Place, class Team>
FN void load_gradients(const Points& points, const Level& own, u32 cell, const u32* point, const Place& place,
                       const Team& team, float* gradient) {
    if (points.gradient) {
        UNROLL
        for (int k = team.first(); k < COUNT; k += Team::THREADS)
            for (int axis = 0; axis < 3; axis++) gradient[3 * k + axis] = points.gradient[3 * (size_t)point[k] + axis];
        return;
    }
    Lattice at = morton_decode(key_of(own, cell));
    for (int k = team.first(); k < COUNT; k += Team::THREADS) {
        float position[3];
        store_position(position, place(at, k));
        const float* t = points.triangle + 9 * (size_t)points.slot[point[k]];
        D3 p = load3d(position);
        Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
        F3 g = gradient_along(p - q.point, t, float_bits(points.distance[point[k]]) >> 31);
        gradient[3 * k] = g.x;
        gradient[3 * k + 1] = g.y;
        gradient[3 * k + 2] = g.z;
    }
}
// Gradients at a cell's corners.
FN void corner_gradients(const Level& own, const Points& points, u32 cell, const u32* corner, float* gradient) {
    u32 edge = 1u << (SDF_LATTICE_BITS - own.level);
    load_gradients<8>(
        points, own, cell, corner,
        [&](Lattice at, int k) {
            u32 c = (u32)k;
            Lattice p = {(at.x + (c & 1u)) * edge, (at.y + (c >> 1 & 1u)) * edge, (at.z + (c >> 2)) * edge};
            return p;
        },
        Alone(), gradient);
}

#endif
