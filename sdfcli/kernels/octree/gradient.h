// Gradients of the signed distance at the points of an octree.
//
// INTERFACE
//   Points, Limits    what is known of the points, and what is asked of the field between them
//   gradient_from     from a point and the nearest point of the surface
//   load_gradient     at a measured point: as kept, or worked out anew
//   corner_gradients  at a cell's corners
#ifndef SDFCLI_OCTREE_GRADIENT_H
#define SDFCLI_OCTREE_GRADIENT_H
#include "geometry/triangle.h"
#include "octree/levels.h"

// The gradient of the signed distance at p, of which q is the nearest point: away from that, or, on the surface, the
// face's normal.
FN F3 gradient_from(D3 p, D3 q, const float* t, bool inside) {
    D3 g = p - q;
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
    const float* gradient;    // [points, 3] null: worked out
    const u32* slot;          // [points] nearest triangle
};

struct Limits {
    float tolerance;
    float band;
    float thin_least;  // sheets thinner than this, in edges of the domain, are given up
};

// That of a measured point at a place of the lattice. Of many points on a GPU it is worked out anew, which takes less
// time than what is kept takes memory.
FN void load_gradient(const Points& points, u32 point, Lattice at, float* gradient) {
    F3 g;
    if (points.gradient) {
        g = load3(points.gradient + 3 * (size_t)point);
    } else {
        float position[3];
        store_position(position, at);
        const float* t = points.triangle + 9 * (size_t)points.slot[point];
        D3 p = load3d(position);
        Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
        g = gradient_from(p, q.point, t, float_bits(points.distance[point]) >> 31);
    }
    gradient[0] = g.x;
    gradient[1] = g.y;
    gradient[2] = g.z;
}
// Those at a cell's corners.
FN void corner_gradients(const Level& own, const Points& points, u32 cell, const u32* corner, float* gradient) {
    Lattice at = morton_decode(key_of(own, cell));
    u32 edge = 1u << (SDF_LATTICE_BITS - own.level);
    for (u32 c = 0; c < 8; c++) {
        Lattice p = {(at.x + (c & 1u)) * edge, (at.y + (c >> 1 & 1u)) * edge, (at.z + (c >> 2)) * edge};
        load_gradient(points, corner[c], p, gradient + 3 * c);
    }
}

#endif
