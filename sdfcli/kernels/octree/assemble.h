// From an octree's levels to the list of its leaves, along the Morton curve.
//
// INTERFACE
//   sdf_octree_held, sdf_octree_rank  how many leaves are in each cell, and come before it
//   sdf_octree_leaves                 the leaves' keys and levels, and which points are corners
#ifndef SDFCLI_OCTREE_ASSEMBLE_H
#define SDFCLI_OCTREE_ASSEMBLE_H
#include "octree/levels.h"

// How many leaves are in a cell, from those in its children.
FN void sdf_octree_held_at(const sdf_octree_held_args& a, u32 i) {
    u32 sum = 0;
    for (u32 c = 8 * i; c < 8 * i + 8; c++) sum += a.held[c];
    a.above_held[a.parent[i]] = sum;
}
// How many leaves come before a cell along the Morton curve, in place of how many are in it.
FN void sdf_octree_rank_at(const sdf_octree_rank_args& a, u32 i) {
    u32 before = a.above_rank[a.parent[i]];
    for (u32 c = 8 * i; c < 8 * i + 8; c++) {
        u32 held = a.rank[c];
        a.rank[c] = before;
        before += held;
    }
}
FN void sdf_octree_leaves_at(const sdf_octree_leaves_args& a, u32 cell) {
    if (a.state[cell] == SPLIT) return;
    u32 corner[8], place = a.rank[cell];
    a.leaf_key[place] = key_of(a, cell) << 3 * (SDF_LATTICE_BITS - a.level);
    a.leaf_level[place] = (u8)a.level;
    corners_of(a, cell, corner);
    for (int c = 0; c < 8; c++) store_shared(a.used + corner[c], (u8)1);
}

#endif
