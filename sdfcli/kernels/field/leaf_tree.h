// Finding a point's leaf.
//
// INTERFACE
//   find_leaf          by binary search: over all leaves, or within a level 6 cell
//   sdf_leaf_first     number of leaves before each level 6 cell
//   sdf_leaf_count, sdf_leaf_list, sdf_leaf_sorted
//   sdf_leaf_top, sdf_leaf_nodes  the tree for field/sampler.h
//   sdf_leaf_values    the leaves' corner values
//   sdf_leaf_scatter, sdf_leaf_differ  the corners' values from the leaves', and whether all agree
#ifndef SDFCLI_FIELD_LEAF_TREE_H
#define SDFCLI_FIELD_LEAF_TREE_H
#include "base/kernel.h"
#include "field/sampler.h"
#include "geometry/lattice.h"
#include "trees/child.h"

struct InLeaf {
    u32 leaf;
    D3 t;  // position within the leaf, 0 to 1
};

// The leaf at a point in the unit cube; outside points are clamped.
FN InLeaf find_leaf(D3 p, const u64* leaf_key, const u8* leaf_level, u32 leaves) {
    const double full = (double)(1u << SDF_LATTICE_BITS);
    double u[3] = {clamp01(p.x) * full, clamp01(p.y) * full, clamp01(p.z) * full};
    u32 cell[3];
    for (int k = 0; k < 3; k++) cell[k] = u[k] < full - 1.0 ? (u32)u[k] : (1u << SDF_LATTICE_BITS) - 1u;
    Lattice at = {cell[0], cell[1], cell[2]};
    u32 leaf = lower_bound(leaf_key, leaves, morton_encode(at) + 1) - 1;
    u32 size = 1u << (SDF_LATTICE_BITS - leaf_level[leaf]);
    Lattice origin = morton_decode(leaf_key[leaf]);
    InLeaf found = {leaf, vec((u[0] - origin.x) / size, (u[1] - origin.y) / size, (u[2] - origin.z) / size)};
    return found;
}

struct Leaves {
    const u64* leaf_key;     // [leaves] sorted
    const u8* leaf_level;    // [leaves]
    const u32* leaf_corner;  // [leaves, 8]
    const u32* first_leaf;   // [2 ** 18 + 1] number of leaves before each level 6 cell
    const float* value;      // [corners] in the mesh's units
};

// The leaf at a lattice position. first_leaf has the number of leaves before each level 6 cell (edge 2^-6),
// in Morton order.
FN u32 find_leaf(const Leaves& leaves, u64 key) {
    const u32* range = leaves.first_leaf + (key >> 3 * (SDF_LATTICE_BITS - 6));
    return range[0] + lower_bound(leaves.leaf_key + range[0], range[1] - range[0], key + 1) - 1;
}

struct sdf_leaf_first_args {
    u32 n;  // 2 ** 18 + 1 level 6 cells, in Morton order
    u32 leaves;
    const u64* leaf_key;  // [leaves] sorted
    u32* first;           // [n] out: number of leaves before each
};
SDF_KERNEL(sdf_leaf_first, PLAIN, i) {
    a.first[i] = lower_bound(a.leaf_key, a.leaves, (u64)i << 3 * (SDF_LATTICE_BITS - SDF_TOP_LEVEL));
}

// Levels on which a node starts with a given leaf; empty if none does.
struct NodeLevels {
    u32 first, end;
};
FN NodeLevels nodes_from(u64 key, u8 level) {
    NodeLevels levels = {SDF_TOP_LEVEL, level};
    while (levels.first < levels.end && key & ((1ULL << 3 * (SDF_LATTICE_BITS - levels.first)) - 1ULL)) levels.first++;
    return levels;
}

struct sdf_leaf_count_args {
    u32 n;                 // leaves
    const u64* leaf_key;   // [n] sorted
    const u8* leaf_level;  // [n]
    u32* count;            // [n] out: number of nodes starting with the leaf
};
SDF_KERNEL(sdf_leaf_count, PLAIN, i) {
    NodeLevels levels = nodes_from(a.leaf_key[i], a.leaf_level[i]);
    a.count[i] = levels.first < levels.end ? levels.end - levels.first : 0;
}

struct sdf_leaf_list_args {
    u32 n;                 // leaves
    const u64* leaf_key;   // [n] sorted
    const u8* leaf_level;  // [n]
    const u32* end;        // [n] inclusive prefix sums of the counts
    u64* node_key;         // [nodes] out
    u8* node_level;        // [nodes] out
};
SDF_KERNEL(sdf_leaf_list, PLAIN, i) {
    NodeLevels levels = nodes_from(a.leaf_key[i], a.leaf_level[i]);
    u32 place = i ? a.end[i - 1] : 0;
    for (u32 level = levels.first; level < levels.end; level++, place++) {
        a.node_key[place] = a.leaf_key[i];
        a.node_level[place] = (u8)level;
    }
}

struct sdf_leaf_sorted_args {
    u32 n;                   // nodes
    const u32* order;        // [n] by level
    const u64* listed_key;   // [n]
    const u8* listed_level;  // [n]
    u64* node_key;           // [n] out: in this order
    u8* node_level;          // [n] out
};
SDF_KERNEL(sdf_leaf_sorted, PLAIN, i) {
    a.node_key[i] = a.listed_key[a.order[i]];
    a.node_level[i] = a.listed_level[a.order[i]];
}

struct sdf_leaf_nodes_args {
    u32 n;  // nodes; or 2^15 level 5 cells
    u32 leaves;
    const u64* leaf_key;   // [leaves] sorted
    const u8* leaf_level;  // [leaves]
    const u64* node_key;   // [nodes] split cells at level 6 and finer, by level, then sorted
    const u8* node_level;  // [nodes]
    const u32* end;        // [22] end of each level's nodes; [nodes] may be longer
    u32* entry;            // [n, 8] out: a marked leaf, or a node; at level 6 x fastest
};
// Entries for a cell's eight children: the leaf that equals or contains the child, or the node that divides it. Leaves
// and nodes on one level are in the cells' order.
template <class Put>
FN void eight_entries(const sdf_leaf_nodes_args& a, u64 key, u32 level, const Put& put) {
    u32 leaf = lower_bound(a.leaf_key, a.leaves, key + 1) - 1, first = a.end[level - 1];
    u32 node = first + lower_bound(a.node_key + first, a.end[level] - first, key);
    for (u32 octant = 0; octant < 8; octant++) {
        put(octant, a.leaf_level[leaf] <= level ? make_leaf(leaf) : node++);
        u64 next = key + ((u64)(octant + 1) << 3 * (SDF_LATTICE_BITS - level));
        if (octant < 7) leaf = lower_bound_near(a.leaf_key, a.leaves, next + 1, leaf) - 1;
    }
}

using sdf_leaf_top_args = sdf_leaf_nodes_args;
SDF_KERNEL(sdf_leaf_top, PLAIN, i) {
    u64 key = (u64)i << 3 * (SDF_TOP_SHIFT + 1);
    Lattice low = morton_decode(key);
    eight_entries(a, key, SDF_TOP_LEVEL, [&](u32 octant, u32 entry) {
        u32 x = (low.x >> SDF_TOP_SHIFT) + (octant & 1u), y = (low.y >> SDF_TOP_SHIFT) + (octant >> 1 & 1u);
        u32 z = (low.z >> SDF_TOP_SHIFT) + (octant >> 2);
        a.entry[x | y << SDF_TOP_LEVEL | z << 2 * SDF_TOP_LEVEL] = entry;
    });
}
SDF_KERNEL(sdf_leaf_nodes, PLAIN, i) {
    if (i >= a.end[SDF_LATTICE_BITS]) return;
    eight_entries(a, a.node_key[i], a.node_level[i] + 1u,
                  [&](u32 octant, u32 entry) { a.entry[8 * (size_t)i + octant] = entry; });
}

struct sdf_leaf_values_args {
    u32 n;               // leaves; eight times n may exceed 32 bits
    const u32* corner;   // [n, 8] per leaf
    const float* value;  // [corners]
    float* leaf_value;   // [n, 8] out
};
SDF_KERNEL(sdf_leaf_values, PLAIN, i) {
    for (size_t k = 8 * (size_t)i; k < 8 * ((size_t)i + 1); k++) a.leaf_value[k] = a.value[a.corner[k]];
}

struct sdf_leaf_scatter_args {
    u32 n;                    // leaves
    const u32* corner;        // [n, 8] per leaf
    const float* leaf_value;  // [n, 8]
    float* value;             // [corners] out: from one of the leaves
};
SDF_KERNEL(sdf_leaf_scatter, PLAIN, i) {
    for (size_t k = 8 * (size_t)i; k < 8 * ((size_t)i + 1); k++) store_relaxed(a.value + a.corner[k], a.leaf_value[k]);
}

struct sdf_leaf_differ_args {
    u32 n;                    // leaves
    const u32* corner;        // [n, 8] per leaf
    const float* leaf_value;  // [n, 8]
    const float* value;       // [corners]
    u32* marks;               // [1] 1: a leaf has another value at a corner
};
SDF_KERNEL(sdf_leaf_differ, PLAIN, i) {
    for (size_t k = 8 * (size_t)i; k < 8 * ((size_t)i + 1); k++)
        if (float_bits(a.value[a.corner[k]]) != float_bits(a.leaf_value[k])) store_relaxed(a.marks, 1u);
}

#endif
