// Corners beside narrow passages, and their way to the passage's middle, where a ball may fit.
//
// INTERFACE
//   sdf_passage_corners   corners that may lie beside a passage
//   sdf_passage_points    their positions
//   sdf_passage_opposite  points whose nearest surface is the opposite one
//   sdf_passage_middle    moves points midway between the two
//   sdf_passage_fits      points at which the ball fits
//   sdf_passage_opened    frees corners
#ifndef SDFCLI_SOLID_PASSAGES_H
#define SDFCLI_SOLID_PASSAGES_H
#include "base/kernel.h"
#include "base/vec.h"
#include "geometry/domain.h"
#include "geometry/morton.h"

struct sdf_passage_corners_args {
    u32 n;                   // leaves
    float low, high;         // bounds of the corners' distances
    float slope;             // below which a leaf has the middle between two surfaces
    float length;            // the domain's edge
    const u32* leaf_corner;  // [n, 8]
    const u8* leaf_level;    // [n]
    const float* value;      // [corners] unsigned distances
    u8* beside;              // [corners] in and out: initially 0
};
SDF_KERNEL(sdf_passage_corners, PLAIN, i) {
    const u32* corner = a.leaf_corner + 8 * (size_t)i;
    float square = 0.f, edge = a.length / (float)(1u << a.leaf_level[i]);
    for (int bit = 1; bit < 8; bit <<= 1) {
        float rise = 0.f;
        for (int c = 0; c < 8; c++) rise += c & bit ? a.value[corner[c]] : -a.value[corner[c]];
        square += rise * rise;
    }
    if (square > 16.f * edge * edge * a.slope * a.slope) return;  // the gradient is rise / (4 edge)
    for (int c = 0; c < 8; c++) {
        float value = a.value[corner[c]];
        if (value > a.low && value <= a.high) store_relaxed(a.beside + corner[c], (u8)1);
    }
}

struct sdf_passage_points_args {
    u32 n;
    Domain domain;
    const u32* corner;      // [n]
    const u64* corner_key;  // [corners]
    double* point;          // [n, 3] out: in the mesh's units
};
SDF_KERNEL(sdf_passage_points, PLAIN, i) {
    Lattice at = morton_decode(a.corner_key[a.corner[i]]);
    double step = 1.0 / (double)(1u << SDF_LATTICE_BITS);
    D3 low = {a.domain.x, a.domain.y, a.domain.z};
    store3(a.point + 3 * (size_t)i, low + a.domain.length * (step * vec((double)at.x, (double)at.y, (double)at.z)));
}

FN D3 scaled_to_one(D3 way) {  // 0 stays
    double length = length_of(way);
    return length > 0.0 ? vec(way.x / length, way.y / length, way.z / length) : way;
}

struct sdf_passage_opposite_args {
    u32 n;
    double reach;           // length of the way there
    const double* point;    // [n, 3]
    const double* nearest;  // [n, 3] nearest point on the mesh
    double* opposite;       // [n, 3] out
};
SDF_KERNEL(sdf_passage_opposite, PLAIN, i) {
    D3 point = load3(a.point + 3 * (size_t)i);
    D3 way = scaled_to_one(point - load3(a.nearest + 3 * (size_t)i));
    store3(a.opposite + 3 * (size_t)i, point + a.reach * way);
}

struct sdf_passage_middle_args {
    u32 n;
    double reach;         // longest way from a corner to the middle
    const u32* number;    // [n] corners' indices in `point`
    const double* point;  // [corners, 3]
    const double* one;    // [n, 3] nearest point
    const double* two;    // [n, 3] nearest point to the opposite one
    double* here;         // [n, 3] in and out
    u8* near;             // [n] out: whether `here` is within reach
};
SDF_KERNEL(sdf_passage_middle, PLAIN, i) {
    D3 one = load3(a.one + 3 * (size_t)i), two = load3(a.two + 3 * (size_t)i), here = load3(a.here + 3 * (size_t)i);
    D3 across = scaled_to_one(two - one);
    here = here + dot(across, 0.5 * (one + two) - here) * across;
    D3 moved = here - load3(a.point + 3 * (size_t)a.number[i]);
    a.near[i] = dot(moved, moved) <= a.reach * a.reach;
    store3(a.here + 3 * (size_t)i, here);
}

struct sdf_passage_fits_args {
    u32 n;
    double radius;
    const u32* number;       // [n] corners' indices in `fits`
    const double* distance;  // [n] from the mesh
    u8* fits;                // [corners] out
    u8* narrow;              // [n] out: whether the ball does not fit
};
SDF_KERNEL(sdf_passage_fits, PLAIN, i) {
    bool fits = a.distance[i] > a.radius;
    a.narrow[i] = !fits;
    if (fits) a.fits[a.number[i]] = 1;
}

struct sdf_passage_opened_args {
    u32 n;
    float free;         // distance of a free corner
    const u32* corner;  // [n]
    const u8* fits;     // [n]
    float* value;       // [corners] in and out
};
SDF_KERNEL(sdf_passage_opened, PLAIN, i) {
    if (a.fits[i]) a.value[a.corner[i]] = a.free;
}

#endif
