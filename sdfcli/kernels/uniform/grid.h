// Uniform grids over the unit cube: side^3 nodes, x fastest, the corners of an octree whose cells all have one size.
//
// INTERFACE
//   node_of, node_position  a node's place on the grid, and in the unit cube
//   sdf_grid_doubt          nodes whose sign has to be asked for
//   sdf_grid_sign           signs along rows of nodes
#ifndef SDFCLI_UNIFORM_GRID_H
#define SDFCLI_UNIFORM_GRID_H
#include "base/kernel.h"
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

// Whose sign has to be asked for. The balls that the distances of two neighbours leave empty of surface cover the edge
// between them if they meet: then the signs are the same. A distance above the spacing may be too large, for a ball of
// the spacing's size covers the edge alone. A row begins outside, where the domain does.
struct sdf_grid_doubt_args {
    u32 n;  // nodes: side^3
    u32 side;
    float spacing;          // 1 / (side - 1), a power of two
    const float* distance;  // [n] unsigned, and right where it is not above the spacing
    u8* sign;               // [n] out: SDF_AS_BEFORE or SDF_TO_ASK
};
SDF_KERNEL(sdf_grid_doubt, PLAIN, i) {
    bool inherits = i % a.side == 0 || empty_between(a.distance[i - 1], a.distance[i], a.spacing);
    a.sign[i] = inherits ? SDF_AS_BEFORE : SDF_TO_ASK;
}

// Hands the signs on along a row of nodes, and makes the distances inside negative.
struct sdf_grid_sign_args {
    u32 n;  // rows: side^2
    u32 side;
    const u8* sign;   // [n, side] of every node: 1 inside, 0 outside, or SDF_AS_BEFORE
    float* distance;  // [n, side] in and out: of every node
};
SDF_KERNEL(sdf_grid_sign, PLAIN, row) {
    u8 inside = 0;
    for (size_t i = (size_t)row * a.side, end = i + a.side; i < end; i++) {
        if (a.sign[i] != SDF_AS_BEFORE) inside = a.sign[i];
        if (inside) a.distance[i] = -a.distance[i];
    }
}

#endif
