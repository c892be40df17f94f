// Conversion of an octree's levels to its list of leaves along the Morton curve.
//
// INTERFACE
//   sdf_octree_held, sdf_octree_rank  leaf counts in each cell, and before it
//   sdf_octree_leaves                 the leaves' keys, levels and causes, and a mask of corner points
//   sdf_octree_chosen_keys, sdf_octree_sorted_keys  the corners' keys, before and after a sort
//   sdf_octree_counts                 counts of leaves at a sign jump, and of cells split for sheets alone
#ifndef SDFCLI_OCTREE_ASSEMBLE_H
#define SDFCLI_OCTREE_ASSEMBLE_H
#include "base/kernel.h"
#include "octree/levels.h"

// A cell's leaf count, from its children's.
struct sdf_octree_held_args {
    u32 n;              // families of a level
    const u32* parent;  // [n]
    const u32* held;    // [8 * n] leaf count in each cell
    u32* above_held;    // [cells above] out
};
SDF_KERNEL(sdf_octree_held, PLAIN, i) {
    u32 sum = 0;
    for (u32 c = 8 * i; c < 8 * i + 8; c++) sum += a.held[c];
    a.above_held[a.parent[i]] = sum;
}
// Replaces a cell's leaf count by its rank: the number of leaves before it along the Morton curve.
struct sdf_octree_rank_args {
    u32 n;                  // families of a level
    const u32* parent;      // [n]
    const u32* above_rank;  // [cells above]
    u32* rank;              // [8 * n] in and out: first each cell's leaf count
};
SDF_KERNEL(sdf_octree_rank, PLAIN, i) {
    u32 before = a.above_rank[a.parent[i]];
    for (u32 c = 8 * i; c < 8 * i + 8; c++) {
        u32 held = a.rank[c];
        a.rank[c] = before;
        before += held;
    }
}

struct sdf_octree_leaves_args {
    u32 n;  // cells
    AllLevels octree;
    const u32* rank;  // [n] a leaf's index among the leaves
    u64* leaf_key;    // [leaves] out
    u8* leaf_level;   // [leaves] out
    u8* leaf_cause;   // [leaves] out: the Cause of the parent's split, and SDF_CAUSE_JUMP; may be null
    u8* used;         // [points] out: 1 for a leaf corner
};
SDF_KERNEL(sdf_octree_leaves, PLAIN, i) {
    CellOfAll at = cell_of(a.octree, i);
    if (at.own.state[at.cell] == SPLIT) return;
    u32 corner[8], place = a.rank[i];
    a.leaf_key[place] = key_of(at.own, at.cell) << 3 * (SDF_LATTICE_BITS - at.own.level);
    a.leaf_level[place] = (u8)at.own.level;
    if (a.leaf_cause) {
        u32 cause = at.own.level ? at.above.split_request[at.own.parent[at.cell >> 3]] : (u32)NOT_SPLIT;
        a.leaf_cause[place] = (u8)(cause | (at.own.state[at.cell] == JUMP ? SDF_CAUSE_JUMP : 0u));
    }
    corners_of(at.own, at.above, at.cell, corner);
    for (int c = 0; c < 8; c++) store_relaxed(a.used + corner[c], (u8)1);
}

// Keys of corner points; with the list index in the low bits, if these can hold it.
struct sdf_octree_chosen_keys_args {
    u32 n;                 // corner points
    int numbered;          // whether the low bits hold the index
    const u64* point_key;  // [points]
    const u32* corner;     // [n]
    u64* key;              // [n] out
};
SDF_KERNEL(sdf_octree_chosen_keys, PLAIN, i) { a.key[i] = a.point_key[a.corner[i]] | (a.numbered ? i : 0); }

// After sorting: the points in the keys' order; removes the indices from the keys.
struct sdf_octree_sorted_keys_args {
    u32 n;
    u64 mask;           // of the index bits
    const u32* corner;  // [n]
    u64* key;           // [n] in and out
    u32* found;         // [n] out: the points
};
SDF_KERNEL(sdf_octree_sorted_keys, PLAIN, i) {
    a.found[i] = a.corner[a.key[i] & a.mask];
    a.key[i] &= ~a.mask;
}

struct sdf_octree_counts_args {
    u32 n;  // cells
    AllLevels octree;
    u32* counts;  // [2] in and out: leaves at a sign jump; cells split for a sheet alone
};
SDF_KERNEL(sdf_octree_counts, PLAIN, i) {
    CellOfAll at = cell_of(a.octree, i);
    u8 state = at.own.state[at.cell];
    if (state == JUMP) atomic_add(a.counts, 1u);
    if (state == SPLIT && at.own.split_request[at.cell] == BY_SHEET) atomic_add(a.counts + 1, 1u);
}

#endif
