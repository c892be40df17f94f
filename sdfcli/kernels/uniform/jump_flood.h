// Jump flooding (Rong and Tan 2006) in two or three dimensions: every grid node receives a seed, nearly always the
// nearest. A node stores its seed's index, positions are in a table: 4 bytes per node instead of 16.
//
// INTERFACE
//   sdf_flood_pass      one pass
//   sdf_flood_distance  distances to the seeds' triangles
#ifndef SDFCLI_UNIFORM_JUMP_FLOOD_H
#define SDFCLI_UNIFORM_JUMP_FLOOD_H
#include "base/kernel.h"
#include "geometry/triangle.h"
#include "uniform/grid.h"

// One pass: a node takes the nearest seed among its own and the 26 nodes' `step` away, 8 in a single plane. Ties go to
// the smaller index, so the result does not depend on the order. Distance and index are compared as one integer
// (non-negative floats sort like their bits), which spares the CPU unpredictable branches.
struct sdf_flood_pass_args {
    u32 n;  // nodes: side^2 per plane
    u32 side;
    u32 planes;  // side in a cube, 1 in two dimensions
    float spacing;
    u32 step;               // in nodes
    const float* position;  // [seeds, 3]
    const u32* carried;     // [n] seed indices; SDF_NONE: none yet
    u32* nearer;            // [n] out
};
SDF_KERNEL(sdf_flood_pass, PLAIN, i) {
    Lattice at = node_of(a.side, i);
    F3 p = node_position(at, a.spacing);
    u64 best = ~0ull;  // SDF_NONE, farther than any seed
    u32 last = SDF_NONE;
    for (u32 dz = 0; dz < 3; dz++) {
        u32 z = at.z + (dz - 1) * a.step;  // wraps around below zero, hence exceeds the planes
        if (z >= a.planes) continue;
        for (u32 dy = 0; dy < 3; dy++) {
            u32 y = at.y + (dy - 1) * a.step;
            if (y >= a.side) continue;
            const u32* row = a.carried + ((size_t)z * a.side + y) * a.side;
            for (u32 dx = 0; dx < 3; dx++) {
                u32 x = at.x + (dx - 1) * a.step;
                if (x >= a.side) continue;
                u32 seed = row[x];
                if (seed == last || seed == SDF_NONE) continue;  // neighbours mostly carry the same one
                last = seed;
                F3 r = p - load3(a.position + 3 * (size_t)seed);
                best = min_of(best, (u64)float_bits(dot(r, r)) << 32 | seed);
            }
        }
    }
    a.nearer[i] = (u32)best;
}

// Distance to the triangle that contains a node's seed, never below the distance to the mesh.
struct sdf_flood_distance_args {
    u32 n;  // nodes: side^3
    u32 side;
    float spacing;
    const u32* carried;     // [n] seed indices or SDF_NONE
    const u32* slot;        // [seeds] their triangles
    const float* triangle;  // [triangles, 9]
    float* distance;        // [n] out: the largest float without a seed
};
SDF_KERNEL(sdf_flood_distance, PLAIN, i) {
    u32 seed = a.carried[i];
    float d = 3.402823466e38f;
    if (seed != SDF_NONE) {
        const float* t = a.triangle + 9 * (size_t)a.slot[seed];
        F3 p = node_position(node_of(a.side, i), a.spacing);
        d = sqrtf(triangle_distance_sq(p, load3(t), load3(t + 3), load3(t + 6)));
    }
    a.distance[i] = d;
}

#endif
