// Jump flooding (Rong and Tan 2006) in three dimensions: every node of a grid learns of a seed that is, nearly always,
// the nearest one. A node carries its seed's number; positions lie in a table, so a node takes 4 bytes and not 16.
//
// INTERFACE
//   sdf_flood_pass      one pass
//   sdf_flood_distance  distances to the triangles of the seeds
#ifndef SDFCLI_UNIFORM_JUMP_FLOOD_H
#define SDFCLI_UNIFORM_JUMP_FLOOD_H
#include "base/kernel.h"
#include "geometry/triangle.h"
#include "uniform/grid.h"

// One pass: a node takes the nearest of the seeds that it and the 26 nodes `step` away carry. Ties go to the smaller
// number, so that the answer does not depend on the order in which they are looked at. Distance and number are compared
// as one integer (floats from 0 on are ordered as their bits are), which spares the CPU unforeseeable branches.
struct sdf_flood_pass_args {
    u32 n;  // nodes: side^3
    u32 side;
    float spacing;
    u32 step;               // in nodes
    const float* position;  // [seeds, 3]
    const u32* carried;     // [n] numbers of seeds; SDF_NONE: none yet
    u32* nearer;            // [n] out
};
SDF_KERNEL(sdf_flood_pass, PLAIN, i) {
    Lattice at = node_of(a.side, i);
    F3 p = node_position(at, a.spacing);
    u64 best = ~0ull;  // SDF_NONE, farther than anything
    u32 last = SDF_NONE;
    for (u32 dz = 0; dz < 3; dz++) {
        u32 z = at.z + (dz - 1) * a.step;  // below zero it wraps, and is beyond the side too
        if (z >= a.side) continue;
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

// The distance to the triangle that a node's seed lies on. It is never below the distance to the mesh.
struct sdf_flood_distance_args {
    u32 n;  // nodes: side^3
    u32 side;
    float spacing;
    const u32* carried;     // [n] numbers of seeds or SDF_NONE
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
