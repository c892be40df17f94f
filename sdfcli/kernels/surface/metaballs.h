// Density of balls of equal size on a grid (metaballs; Nishimura et al. 1985): marching cubes' input.
//
// Space is divided into cubes with the balls' radius as edge. Balls are sorted by cube, so that those around a node lie
// in nine runs. All lengths are in radii, from the grid's node 0.
//
// INTERFACE
//   sdf_metaballs_first   each cube's first ball
//   sdf_metaballs_weight  larger weights for balls in thin company
//   sdf_metaballs         density at nodes, negated: smaller values are inside
#ifndef SDFCLI_SURFACE_METABALLS_H
#define SDFCLI_SURFACE_METABALLS_H
#include "base/kernel.h"
#include "base/search.h"

struct sdf_metaballs_first_args {
    u32 n;  // cubes + 1
    u32 balls;
    const u32* cube;  // [balls] sorted
    u32* first;       // [n] out: balls in earlier cubes
};
SDF_KERNEL(sdf_metaballs_first, PLAIN, i) { a.first[i] = lower_bound(a.cube, a.balls, i); }

// A ball's density at a distance: 1 at its centre, 2/3 at a third of its radius, and 0 from its radius on.
FN float metaball(float squared) {
    if (squared >= 1.0f) return 0.0f;
    if (squared < 1.0f / 9.0f) return 1.0f - 3.0f * squared;
    float within = 1.0f - sqrtf(squared);
    return 1.5f * within * within;
}

struct Metaballs {
    const u32* cubes;     // [3] along x, y, z
    const u32* first;     // [cubes + 1] from sdf_metaballs_first
    const float* centre;  // [balls, 3] sorted by cube
};
// weight: [balls] factors; null: 1.
FN float density_at(const Metaballs& balls, const float* weight, const float* at) {
    u32 low[3], high[3];  // cubes that contain the balls around the point
    float sum = 0.0f;
    for (int k = 0; k < 3; k++) {
        u32 cube = min_of((u32)at[k], balls.cubes[k] - 1);
        low[k] = cube ? cube - 1 : 0;
        high[k] = min_of(cube + 1, balls.cubes[k] - 1);
    }
    for (u32 x = low[0]; x <= high[0]; x++)
        for (u32 y = low[1]; y <= high[1]; y++) {
            const u32* run = balls.first + ((size_t)x * balls.cubes[1] + y) * balls.cubes[2];
            for (u32 ball = run[low[2]]; ball < run[high[2] + 1]; ball++) {
                const float* centre = balls.centre + 3 * (size_t)ball;
                float dx = at[0] - centre[0], dy = at[1] - centre[1], dz = at[2] - centre[2];
                float part = metaball(dx * dx + dy * dy + dz * dz);
                sum += weight ? weight[ball] * part : part;
            }
        }
    return sum;
}

struct sdf_metaballs_weight_args {
    u32 n;  // balls
    Metaballs balls;
    float least;
    float* weight;  // [n] out: at least 1; in thin company, what lifts the density here to `least`
};
SDF_KERNEL(sdf_metaballs_weight, PLAIN, i) {
    a.weight[i] = max_of(1.0f, a.least / density_at(a.balls, 0, a.balls.centre + 3 * (size_t)i));
}

struct sdf_metaballs_args {
    u32 n;  // nodes of some layers
    u32 first_layer;
    Metaballs balls;
    const u32* nodes;     // [3] along x, y, z
    const float* weight;  // [balls] from sdf_metaballs_weight; null: 1
    float spacing;        // between nodes
    float* value;         // [n] out: z fastest
};
SDF_KERNEL(sdf_metaballs, PLAIN, i) {
    u32 row = i / a.nodes[2], index[3] = {a.first_layer + row / a.nodes[1], row % a.nodes[1], i % a.nodes[2]};
    float at[3];
    for (int k = 0; k < 3; k++) at[k] = (float)index[k] * a.spacing;
    a.value[i] = -density_at(a.balls, a.weight, at);
}

#endif
