// Leaf corners as indices into the field's corners, eight per leaf, in Morton order.
//
// INTERFACE
//   sdf_octree_corners       from the levels of a grown octree
//   sdf_split_leaf_corners   from an octree's list of split cells
//   sdf_field_corners        from sorted corner keys, as stored in a file
#ifndef SDFCLI_FIELD_LEAF_CORNERS_H
#define SDFCLI_FIELD_LEAF_CORNERS_H
#include "base/kernel.h"
#include "octree/levels.h"

struct sdf_octree_corners_args {
    u32 n;  // cells
    AllLevels octree;
    const u32* place;  // [points] index among the corners
    const u32* rank;   // [n] index among the leaves
    u32* leaf_corner;  // [leaves, 8] out
};
SDF_KERNEL(sdf_octree_corners, PLAIN, i) {
    CellOfAll at = cell_of(a.octree, i);
    if (at.own.state[at.cell] == SPLIT) return;
    u32 corner[8];
    corners_of(at.own, at.above, at.cell, corner);
    for (int c = 0; c < 8; c++) a.leaf_corner[8 * (size_t)a.rank[i] + c] = a.place[corner[c]];
}

struct sdf_split_leaf_corners_args {
    u32 n;                  // 8 x leaves
    const u32* leaf_child;  // [n // 8]
    const u32* point;       // [splits, 27]
    const u32* place;       // [corners] each corner's index in Morton order
    u32* leaf_corner;       // [n // 8, 8] out: indices
};
SDF_KERNEL(sdf_split_leaf_corners, PLAIN, i) {
    u32 child = a.leaf_child[i >> 3], c = i & 7u;
    int x = (int)((child & 1) + (c & 1)), y = (int)((child >> 1 & 1) + (c >> 1 & 1)),
        z = (int)((child >> 2 & 1) + (c >> 2));
    a.leaf_corner[i] = a.place[a.point[27 * (size_t)(child >> 3) + (u32)index_of(x, y, z)]];
}

FN u64 leaf_corner_key(u64 leaf, u8 level, u32 c) {
    Lattice at = morton_decode(leaf);
    u32 size = 1u << (SDF_LATTICE_BITS - level);
    Lattice p = {at.x + (c & 1) * size, at.y + (c >> 1 & 1) * size, at.z + (c >> 2) * size};
    return morton_encode(p);
}

// Indices of a leaf's eight corners in the sorted corner keys; SDF_NONE for a missing corner.
struct sdf_field_corners_args {
    u32 n;  // leaves
    u32 corners;
    const u64* leaf_key;    // [n]
    const u8* leaf_level;   // [n]
    const u64* corner_key;  // [corners] sorted
    u32* leaf_corner;       // [n, 8] out
};
SDF_KERNEL(sdf_field_corners, PLAIN, i) {
    u32 place = lower_bound(a.corner_key, a.corners, a.leaf_key[i]);
    for (u32 c = 0; c < 8; c++) {
        u64 key = leaf_corner_key(a.leaf_key[i], a.leaf_level[i], c);
        if (c) place = lower_bound_near(a.corner_key, a.corners, key, min_of(place, a.corners - 1));
        a.leaf_corner[8 * (size_t)i + c] = place < a.corners && a.corner_key[place] == key ? place : SDF_NONE;
    }
}

#endif
