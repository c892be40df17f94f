// Walls given by a field, without particles: their contributions to sums over neighbours, from density maps (Koschier
// and Bender 2017, with the MPS method's weights), and their effect on penetrating particles.
//
// INTERFACE
//   Wall, wall_at       the maps, and a wall's contribution at a position
//   Bounds, clearance   the walls themselves, and the distance from them
//   sdf_flow_clearance  this distance at points
//   sdf_flow_map        computes the maps
//   sdf_flow_push       moves particles out of walls
#ifndef SDFCLI_FLOW_WALL_H
#define SDFCLI_FLOW_WALL_H
#include "field/sampler.h"
#include "flow/particles.h"

struct Wall {
    u32 there;         // whether a wall exists
    float x, y, z;     // the lattice's lowest node
    float over_edge;   // 1 / lattice edge
    u32 nx, ny, nz;    // nodes
    const u32* node;   // [nz, ny, nx] each node's index; SDF_NONE: the maps are 0
    const float* map;  // [nodes, 4] the wall's share of the number density, and of the gradient
};
struct WallShare {
    float density;
    F3 gradient;
};
FN WallShare wall_at(const Wall& wall, F3 p) {
    WallShare share = {0.f, {0.f, 0.f, 0.f}};
    if (!wall.there) return share;
    float u = clamp01((p.x - wall.x) * wall.over_edge / (float)(wall.nx - 1)) * (float)(wall.nx - 1);
    float v = clamp01((p.y - wall.y) * wall.over_edge / (float)(wall.ny - 1)) * (float)(wall.ny - 1);
    float w = clamp01((p.z - wall.z) * wall.over_edge / (float)(wall.nz - 1)) * (float)(wall.nz - 1);
    u32 x = min_of((u32)(int)u, wall.nx - 2), y = min_of((u32)(int)v, wall.ny - 2),
        z = min_of((u32)(int)w, wall.nz - 2);
    float corner[4][8];
    bool near = false;
    for (u32 c = 0; c < 8; c++) {
        u32 node = wall.node[((size_t)(z + (c >> 2)) * wall.ny + y + (c >> 1 & 1u)) * wall.nx + x + (c & 1u)];
        near = near || node != SDF_NONE;
        for (int k = 0; k < 4; k++) corner[k][c] = node == SDF_NONE ? 0.f : wall.map[4 * (size_t)node + k];
    }
    if (!near) return share;
    F3 t = vec(u - (float)x, v - (float)y, w - (float)z);
    share.density = trilinear(corner[0], t);
    share.gradient = vec(trilinear(corner[1], t), trilinear(corner[2], t), trilinear(corner[3], t));
    return share;
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

// Maps at the coarse lattice's nodes: sums over the wall nodes of a lattice twice as fine.
struct sdf_flow_map_args {
    u32 n;               // nodes
    u32 offsets;         // to fine nodes within the reach
    const u32* fine;     // [n] the fine node at the same position
    const float* solid;  // [fine nodes] each one's wall fraction
    const int* offset;   // [offsets] added to a fine node's index
    const float* share;  // [offsets, 4] a solid node's contribution to each map
    float* map;          // [n, 4] out
};
SDF_KERNEL(sdf_flow_map, PLAIN, i) {
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    for (u32 o = 0; o < a.offsets; o++) {
        float solid = a.solid[(long long)a.fine[i] + a.offset[o]];
        for (int k = 0; k < 4; k++) sum[k] += solid * a.share[4 * o + k];
    }
    for (int k = 0; k < 4; k++) a.map[4 * (size_t)i + k] = sum[k];
}

#define SDF_PUSHES 4  // maximum pushes to free a particle from a corner

struct sdf_flow_push_args {
    u32 n;  // places
    Bounds bounds;
    double least;        // minimum distance from the wall
    double restitution;  // of a collision with it
    const u8* kind;      // [n]
    float* position;     // [n, 3] in and out
    float* velocity;     // [n, 3] in and out
    u32* behind;         // [1] in and out: number of particles still behind a wall
};
SDF_KERNEL(sdf_flow_push, PLAIN, i) {
    if (a.kind[i] != SDF_FLUID) return;
    float *at = a.position + 3 * (size_t)i, *speed = a.velocity + 3 * (size_t)i;
    double away[3];
    double distance = clearance(a.bounds, load3d(at), away);
    if (!(distance < a.least)) return;
    for (int round = 0; round < SDF_PUSHES && distance < a.least; round++) {
        double into = 0.0;
        for (int k = 0; k < 3; k++) into += (double)speed[k] * away[k];
        for (int k = 0; k < 3; k++) {
            at[k] = (float)((double)at[k] + (a.least - distance) * away[k]);
            if (into < 0.0) speed[k] = (float)((double)speed[k] - (1.0 + a.restitution) * into * away[k]);
        }
        distance = clearance(a.bounds, load3d(at), away);
    }
    if (!(distance >= 0.0)) atomic_add(a.behind, 1u);
}

#endif
