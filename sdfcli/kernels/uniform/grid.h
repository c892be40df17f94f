// Uniform grids over the unit cube: side^3 nodes, x fastest, the corners of an octree with equal cells.
//
// INTERFACE
//   node_of, node_position  a node's grid indices, and its position in the unit cube
//   sdf_grid_doubt          nodes whose sign must be queried
//   sdf_grid_sign           signs along rows of nodes
//   sdf_grid_sample         trilinear values at points
#ifndef SDFCLI_UNIFORM_GRID_H
#define SDFCLI_UNIFORM_GRID_H
#include "base/kernel.h"
#include "geometry/domain.h"
#include "geometry/morton.h"
#include "sign/propagate.h"

FN Lattice node_of(u32 side, u32 i) {
    Lattice at = {i % side, i / side % side, i / side / side};
    return at;
}
// Exact: the spacing is a power of two.
FN F3 node_position(Lattice at, float spacing) {
    return vec((float)at.x * spacing, (float)at.y * spacing, (float)at.z * spacing);
}

// Nodes whose sign must be queried. Each distance gives a ball without surface. If two neighbours' balls meet, they
// cover the edge between them, and the signs agree. A distance above the spacing may be overestimated, as a ball with
// the spacing as radius covers the edge alone. A row begins outside, on the domain's boundary.
struct sdf_grid_doubt_args {
    u32 n;  // nodes: side^3
    u32 side;
    float spacing;          // 1 / (side - 1), a power of two
    const float* distance;  // [n] unsigned, correct up to the spacing
    u8* sign;               // [n] out: SDF_AS_BEFORE or SDF_TO_ASK
};
SDF_KERNEL(sdf_grid_doubt, PLAIN, i) {
    bool inherits = i % a.side == 0 || empty_between(a.distance[i - 1], a.distance[i], a.spacing);
    a.sign[i] = inherits ? SDF_AS_BEFORE : SDF_TO_ASK;
}

// Propagates signs along a row of nodes, and negates the distances inside.
struct sdf_grid_sign_args {
    u32 n;  // rows: side^2
    u32 side;
    const u8* sign;   // [n, side] per node: 1 inside, 0 outside, or SDF_AS_BEFORE
    float* distance;  // [n, side] in and out: per node
};
SDF_KERNEL(sdf_grid_sign, PLAIN, row) {
    u8 inside = 0;
    for (size_t i = (size_t)row * a.side, end = i + a.side; i < end; i++) {
        if (a.sign[i] != SDF_AS_BEFORE) inside = a.sign[i];
        if (inside) a.distance[i] = -a.distance[i];
    }
}

// Trilinear interpolation between the eight nodes around a point, at the nearest point in the domain.
struct sdf_grid_sample_args {
    u32 n;
    u32 side;
    Domain domain;
    const double* points;   // [n, 3] in the mesh's units
    const float* distance;  // [side, side, side] x fastest
    double* result;         // [n] out
};
SDF_KERNEL(sdf_grid_sample, PLAIN, i) {
    u32 cells = a.side - 1;
    D3 unit = to_unit(a.domain, a.points + 3 * (size_t)i);
    D3 u = (double)cells * vec(clamp01(unit.x), clamp01(unit.y), clamp01(unit.z));
    Lattice low = {min_of((u32)u.x, cells - 1), min_of((u32)u.y, cells - 1), min_of((u32)u.z, cells - 1)};
    const float* d = a.distance + ((size_t)low.z * a.side + low.y) * a.side + low.x;
    double v[8];
    for (u32 corner = 0; corner < 8; corner++)
        v[corner] = (double)d[((size_t)(corner >> 2) * a.side + (corner >> 1 & 1u)) * a.side + (corner & 1u)];
    a.result[i] = trilinear(v, vec(u.x - (double)low.x, u.y - (double)low.y, u.z - (double)low.z));
}

#endif
