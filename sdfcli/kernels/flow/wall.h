// Walls given by a field, without particles: their share of the number density, from a density map (Koschier and Bender
// 2017, with the MPS method's weights), and their effect on penetrating particles.
//
// INTERFACE
//   Wall, wall_at       the map, and the wall's share of the number density at a position
//   Bounds, clearance   the walls themselves, and the distance from them
//   sdf_flow_clearance  this distance at points
//   sdf_flow_map        computes the map
//   sdf_flow_push       moves particles out of walls, and finds each one's nearest wall
#ifndef SDFCLI_FLOW_WALL_H
#define SDFCLI_FLOW_WALL_H
#include "field/sampler.h"
#include "flow/particles.h"

struct Wall {
    u32 there;         // whether a wall exists
    float x, y, z;     // the lattice's lowest node
    float over_edge;   // 1 / lattice edge
    u32 nx, ny, nz;    // nodes
    const u32* node;   // [nz, ny, nx] each node's index; SDF_NONE: the map is 0
    const float* map;  // [nodes] cube root of the wall's share of the number density, which beside a plane is nearly
                       // linear in the distance
};
FN float wall_at(const Wall& wall, F3 p) {
    if (!wall.there) return 0.f;
    float u = clamp01((p.x - wall.x) * wall.over_edge / (float)(wall.nx - 1)) * (float)(wall.nx - 1);
    float v = clamp01((p.y - wall.y) * wall.over_edge / (float)(wall.ny - 1)) * (float)(wall.ny - 1);
    float w = clamp01((p.z - wall.z) * wall.over_edge / (float)(wall.nz - 1)) * (float)(wall.nz - 1);
    u32 x = min_of((u32)(int)u, wall.nx - 2), y = min_of((u32)(int)v, wall.ny - 2),
        z = min_of((u32)(int)w, wall.nz - 2);
    float corner[8];
    bool near = false;
    for (u32 c = 0; c < 8; c++) {
        u32 node = wall.node[((size_t)(z + (c >> 2)) * wall.ny + y + (c >> 1 & 1u)) * wall.nx + x + (c & 1u)];
        near = near || node != SDF_NONE;
        corner[c] = node == SDF_NONE ? 0.f : wall.map[node];
    }
    if (!near) return 0.f;
    float root = trilinear(corner, vec(u - (float)x, v - (float)y, w - (float)z));
    return root * root * root;
}

// Allowed region of particles: one side of a field's surface, and a box.
struct Bounds {
    Sampler field;
    double side;  // 1: outside the surface, -1: inside, 0: no field
    double low_x, low_y, low_z;
    double high_x, high_y, high_z;
};
// Distance from the nearest wall, negative behind it; away: unit vector away from the wall.
FN double clearance(const Bounds& bounds, D3 p, double* away) {
    double at[3] = {p.x, p.y, p.z}, slope[3];
    double low[3] = {bounds.low_x, bounds.low_y, bounds.low_z}, high[3] = {bounds.high_x, bounds.high_y, bounds.high_z};
    double least = at[0] - low[0];
    int axis = 0;
    double way = 1.0;
    for (int k = 0; k < 3; k++) {
        if (at[k] - low[k] < least) least = at[k] - low[k], axis = k, way = 1.0;
        if (high[k] - at[k] < least) least = high[k] - at[k], axis = k, way = -1.0;
    }
    for (int k = 0; k < 3; k++) away[k] = k == axis ? way : 0.0;
    if (bounds.side == 0.0) return least;
    double distance = bounds.side * sdf_sample(bounds.field, p, slope);
    if (!(distance < least)) return least;
    double length = sqrt(slope[0] * slope[0] + slope[1] * slope[1] + slope[2] * slope[2]);
    for (int k = 0; k < 3; k++) away[k] = length > 0.0 ? bounds.side * slope[k] / length : 0.0;
    return distance;
}

struct sdf_flow_clearance_args {
    u32 n;
    Bounds bounds;
    const float* points;  // [n, 3]
    float* distance;      // [n] out
};
SDF_KERNEL(sdf_flow_clearance, PLAIN, i) {
    double away[3];
    a.distance[i] = (float)clearance(a.bounds, load3d(a.points + 3 * (size_t)i), away);
}

// Cube root of a number from 0 to 64, with the same bits on all devices.
FN float cube_root(float x) {
    if (!(x > 0.f)) return 0.f;
    double root = 4.0;
    for (int k = 0; k < 40; k++) root -= (root - (double)x / (root * root)) / 3.0;  // from above: by 2/3, then Newton
    return (float)root;
}

// The map at the coarse lattice's nodes: sums over the wall nodes of a lattice twice as fine.
struct sdf_flow_map_args {
    u32 n;               // nodes
    u32 offsets;         // to fine nodes within the reach
    const u32* fine;     // [n] the fine node at the same position
    const float* solid;  // [fine nodes] each one's wall fraction
    const int* offset;   // [offsets] added to a fine node's index
    const float* share;  // [offsets] a solid node's contribution
    float* map;          // [n] out
};
SDF_KERNEL(sdf_flow_map, PLAIN, i) {
    float sum = 0.f;
    for (u32 o = 0; o < a.offsets; o++) sum += a.solid[(long long)a.fine[i] + a.offset[o]] * a.share[o];
    a.map[i] = cube_root(sum);
}

#define SDF_PUSHES 4  // maximum pushes to free a particle from a corner

struct sdf_flow_push_args {
    u32 n;  // places
    Bounds bounds;
    double least;        // minimum distance from the wall
    double restitution;  // of a collision with it
    const u8* kind;      // [n]
    const u32* own;      // [n] each particle's bucket
    Slab slab;
    float* position;  // [n, 3] in and out
    float* velocity;  // [n, 3] in and out
    float* nearest;   // [n, 4] out; may be null: unit vector away from the nearest wall, and the distance from it
    u32* behind;      // [1] in and out: number of own particles still behind a wall
};
SDF_KERNEL(sdf_flow_push, PLAIN, i) {
    if (a.kind[i] != SDF_FLUID) return;
    float *at = a.position + 3 * (size_t)i, *speed = a.velocity + 3 * (size_t)i;
    double away[3];
    double distance = clearance(a.bounds, load3d(at), away);
    bool free = !(distance < a.least);
    for (int round = 0; round < SDF_PUSHES && distance < a.least; round++) {
        double into = 0.0;
        for (int k = 0; k < 3; k++) into += (double)speed[k] * away[k];
        for (int k = 0; k < 3; k++) {
            at[k] = (float)((double)at[k] + (a.least - distance) * away[k]);
            if (into < 0.0) speed[k] = (float)((double)speed[k] - (1.0 + a.restitution) * into * away[k]);
        }
        distance = clearance(a.bounds, load3d(at), away);
    }
    if (!free && !(distance >= 0.0) && owned(a.slab, a.own[i])) atomic_add(a.behind, 1u);
    if (!a.nearest) return;
    for (int k = 0; k < 3; k++) a.nearest[4 * (size_t)i + k] = (float)away[k];
    a.nearest[4 * (size_t)i + 3] = (float)distance;
}

#endif
