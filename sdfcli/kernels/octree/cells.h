// An octree as the sorted list of the cells that are split. Leaves, corners and which corner is whose follow from it.
//
// Points of a split cell are numbered as in geometry/lattice.h, and owned as in octree/levels.h: by the first split
// cell that touches them, here the one towards the origin along z, then y, then x. The root owns the corners of the
// domain, too.
//
// INTERFACE
//   sdf_split_count, sdf_split_cells         the split cells, from sorted Morton codes of triangles
//   sdf_split_leaves                         the leaves
//   sdf_split_own, sdf_split_points          the points that each cell owns; the corners, and which is which
//   sdf_corner_sorted, sdf_corner_placed     corners in Morton order, and what is known of them
//   sdf_corner_level                         the level on which a corner comes up first
#ifndef SDFCLI_OCTREE_CELLS_H
#define SDFCLI_OCTREE_CELLS_H
#include "geometry/lattice.h"

// The deepest level on which two Morton codes lie in one cell; equal codes do on all levels.
FN int levels_in_common(u64 a, u64 b) { return a == b ? SDF_MORTON_BITS : (leading_zeros(a ^ b) - 1) / 3; }

// The levels of the split cells that begin at a code: it and the next one lie in them, and the one before does not.
struct Levels {
    int first, end;
};
FN Levels levels_begun(const u64* keys, u32 i, u32 depth) {
    Levels found = {i ? levels_in_common(keys[i - 1], keys[i]) + 1 : 0, levels_in_common(keys[i], keys[i + 1]) + 1};
    found.end = most(found.first, least(found.end, (int)depth));
    return found;
}
FN void sdf_split_count_at(const sdf_split_count_args& a, u32 i) {
    Levels levels = levels_begun(a.keys, i, a.depth);
    a.count[i] = (u32)(levels.end - levels.first);
}
FN void sdf_split_cells_at(const sdf_split_cells_args& a, u32 i) {
    Levels levels = levels_begun(a.keys, i, a.depth);
    u64* out = a.cell + a.end[i] - (levels.end - levels.first);
    for (int level = levels.first; level < levels.end; level++) {
        int below = 3 * (SDF_LATTICE_BITS - level);
        *out++ = cell_of(a.keys[i] >> 3 * (SDF_MORTON_BITS - SDF_LATTICE_BITS) >> below << below, (u32)level);
    }
}

// A child that is not split is a leaf. Its place follows from the split cells before it, depth first: each of them that
// is done has brought eight cells and is none of the leaves itself; those that the leaf lies in have brought as many as
// the octal digits of its key say.
FN void sdf_split_leaves_at(const sdf_split_leaves_args& a, u32 i) {
    u64 parent = a.cell[i >> 3];
    u32 level = cell_level(parent) + 1;
    u64 key = cell_key(parent) + (i & 7u) * cell_size(level);
    u32 before = lower_bound_from(a.cell, a.splits, (i >> 3) + 1, cell_of(key, 0));
    if (before < a.splits && a.cell[before] == cell_of(key, level)) return;
    u32 high = (u32)(key >> 30), low = (u32)key & 0x3fffffffu, octants = 0;  // octal digits, summed up
    for (u32 bit = 0; bit < 3; bit++)
        octants += (u32)(count_ones(high & 0x9249249u << bit) + count_ones(low & 0x9249249u << bit)) << bit;
    u32 leaf = 7 * (before - level) + octants;
    a.leaf_key[leaf] = key;
    a.leaf_level[leaf] = (u8)level;
    a.leaf_child[leaf] = i;
}

// Who owns a point that is no corner, and which of its points it is. neighbour: a function of directions below 13.
struct Owned {
    u32 cell;
    int point;
};
template <class Neighbour>
FN Owned first_owner(u32 cell, int point, Neighbour neighbour) {
    Offset o = offset_of(point);
    for (int z = o.z == 0 ? -1 : 0; z <= 0; z++)
        for (int y = o.y == 0 ? -1 : 0; y <= (o.y == 2 && z < 0); y++)
            for (int x = o.x == 0 ? -1 : 0; x <= (o.x == 2 && (z < 0 || y < 0)); x++) {
                int direction = index_of(x + 1, y + 1, z + 1);
                u32 other = direction < CENTRE ? neighbour(direction) : cell;
                Owned found = {other, index_of(o.x - 2 * x, o.y - 2 * y, o.z - 2 * z)};
                if (other != SDF_NONE) return found;
            }
    Owned own = {cell, point};
    return own;
}

// What is known of the split cells, a row for each of these: the neighbours of the same level in the directions towards
// the origin, split cells too, or SDF_NONE; the parent, the root's is itself; the points that each cell owns, as bits.
enum { PARENT = CENTRE, MASK };

// Where a point that a cell owns comes among all that are owned, level by level.
template <class Args>
FN u32 owned_place(const Args& a, u32 cell, int point) {
    u32 mask = a.kin[MASK * (size_t)a.splits + cell];
    return a.end[cell_level(a.cell[cell]) * (size_t)a.splits + cell] - (u32)count_ones(mask >> point);
}

// Of neighbours those in the nine directions in which they share points.
FN void sdf_split_own_at(const sdf_split_own_args& a, u32 i) {
    u64 cell = a.cell[i];
    u32 level = cell_level(cell), size = 1u << (SDF_LATTICE_BITS - level), neighbour[CENTRE];
    Lattice at = morton_decode(cell_key(cell));
    for (int direction = 0; direction < CENTRE; direction++) {
        neighbour[direction] = SDF_NONE;
        if (is_corner(direction)) continue;  // nothing in common but a corner
        Offset o = offset_of(direction);
        Lattice p = {at.x + (u32)(o.x - 1) * size, at.y + (u32)(o.y - 1) * size, at.z + (u32)(o.z - 1) * size};
        if ((p.x | p.y | p.z) >> SDF_LATTICE_BITS == 0) {
            u64 other = cell_of(morton_encode(p), level);
            u32 place = lower_bound(a.cell, a.n, other);
            if (place < a.n && a.cell[place] == other) neighbour[direction] = place;
        }
        a.kin[direction * (size_t)a.n + i] = neighbour[direction];
    }
    u32 mask = 0;
    for (int point = 0; point < 27; point++) {
        if (is_corner(point)) {
            mask |= (u32)(level == 0) << point;
        } else {
            Owned owned = first_owner(i, point, [&](int direction) { return neighbour[direction]; });
            mask |= (u32)(owned.cell == i) << point;
        }
    }
    u64 above = level ? cell_key(cell) & ~(8 * cell_size(level) - 1) : 0;
    a.kin[PARENT * (size_t)a.n + i] = level ? lower_bound(a.cell, i, cell_of(above, level - 1)) : 0;
    a.kin[MASK * (size_t)a.n + i] = mask;
    for (u32 k = 0; k < a.depth; k++) a.count[k * (size_t)a.n + i] = k == level ? (u32)count_ones(mask) : 0;
}

// The level on which a corner of an octree comes up first.
FN u8 corner_level(u64 key) {
    u64 lowest = key & (0 - key);
    u32 up = key ? least((u32)(63 - leading_zeros(lowest)) / 3, (u32)SDF_LATTICE_BITS) : SDF_LATTICE_BITS;
    return (u8)(SDF_LATTICE_BITS - up);
}
FN void sdf_corner_level_at(const sdf_corner_level_args& a, u32 i) { a.level[i] = corner_level(a.corner_key[i]); }

// The points of the split cells, numbered by their places among all that are owned. A cell's own corners are points of
// its parent, or again one's corners. They are near those of the points that the cell owns for which they are the next
// ones towards the origin.
FN void sdf_split_points_at(const sdf_split_points_args& a, u32 i) {
    u32 cell = i / 27, above = cell, mask = a.kin[MASK * (size_t)a.splits + cell];
    int own = (int)(i % 27), point = own;
    if (mask >> own & 1u) {
        Lattice at = point_at(a.cell[cell], own);
        u32 place = owned_place(a, cell, own);
        u64 code = morton_encode(at) >> a.low_bits;
        if (a.short_code)
            a.short_code[place] = (u32)code;
        else
            a.code[place] = code;
        if (a.position) store_position(a.position + 3 * (size_t)place, at);
    }
    if (!a.point) return;
    while (above && is_corner(point)) {
        u32 octant = (u32)(cell_key(a.cell[above]) >> 3 * (SDF_LATTICE_BITS - cell_level(a.cell[above]))) & 7u;
        Offset o = offset_of(point);
        point = index_of((int)(octant & 1) + o.x / 2, (int)(octant >> 1 & 1) + o.y / 2, (int)(octant >> 2) + o.z / 2);
        above = a.kin[PARENT * (size_t)a.splits + above];
    }
    Owned owned = {above, point};
    if (!is_corner(point))
        owned = first_owner(above, point, [&](int at) { return a.kin[at * (size_t)a.splits + above]; });
    u32 place = owned_place(a, owned.cell, owned.point);
    a.point[i] = place;
    if (!is_corner(own)) return;
    if (cell == 0) a.near[place] = SDF_NONE;
    Offset o = offset_of(own);
    for (int z = o.z; z <= (o.z ? 2 : 1); z++)
        for (int y = o.y; y <= (o.y ? 2 : 1); y++)
            for (int x = o.x; x <= (o.x ? 2 : 1); x++) {
                int other = index_of(x, y, z);
                if (other != own && mask >> other & 1u) a.near[owned_place(a, cell, other)] = place;
            }
}

// Corners in Morton order, and what is known of each.
FN void sdf_corner_sorted_at(const sdf_corner_sorted_args& a, u32 i) {
    a.corner_key[i] = (a.short_code ? (u64)a.short_code[i] : a.code[i]) << a.low_bits;
    a.place[a.order[i]] = i;
}
FN void sdf_corner_placed_at(const sdf_corner_placed_args& a, u32 i) {
    a.placed_distance[a.place[i]] = a.distance[i];
    a.nearest[a.place[i]] = a.triangle_id[a.slot[i]];
}

#endif
