// An octree as the sorted list of its split cells, which determines leaves, corners and the corners of each leaf.
//
// A split cell's points are numbered as in geometry/lattice.h and owned as in octree/levels.h: by the first split cell
// touching them, here the one towards the origin along z, then y, then x. The root also owns the domain's corners.
//
// INTERFACE
//   sdf_split_count, sdf_split_cells         the split cells, from sorted Morton codes of triangles
//   sdf_split_leaves                         the leaves
//   sdf_split_own, sdf_split_points          the points owned by each cell; the corners and their indices
//   sdf_corner_sorted, sdf_corner_placed     corners in Morton order, and their values
//   sdf_corner_level                         the coarsest level with a corner
#ifndef SDFCLI_OCTREE_CELLS_H
#define SDFCLI_OCTREE_CELLS_H
#include "base/kernel.h"
#include "geometry/lattice.h"

// Deepest level on which two Morton codes share a cell; equal codes share one on all levels.
FN int levels_in_common(u64 a, u64 b) { return a == b ? SDF_MORTON_BITS : (clz(a ^ b) - 1) / 3; }

// Levels of the split cells that start at a code: they contain it and the next code, but not the previous one.
struct Levels {
    int first, end;
};
FN Levels levels_begun(const u64* keys, u32 i, u32 depth) {
    Levels found = {i ? levels_in_common(keys[i - 1], keys[i]) + 1 : 0, levels_in_common(keys[i], keys[i + 1]) + 1};
    found.end = max_of(found.first, min_of(found.end, (int)depth));
    return found;
}

struct sdf_split_count_args {
    u32 n;            // keys - 1: pairs of neighbours
    u32 depth;        // cells of this level are not split
    const u64* keys;  // [n + 1] Morton codes, sorted
    u32* count;       // [n] out: the split cells that begin at each pair
};
SDF_KERNEL(sdf_split_count, PLAIN, i) {
    Levels levels = levels_begun(a.keys, i, a.depth);
    a.count[i] = (u32)(levels.end - levels.first);
}

struct sdf_split_cells_args {
    u32 n;
    u32 depth;
    const u64* keys;  // [n + 1]
    const u32* end;   // [n] prefix sums of the counts
    u64* cell;        // [splits] out: the split cells, sorted
};
SDF_KERNEL(sdf_split_cells, PLAIN, i) {
    Levels levels = levels_begun(a.keys, i, a.depth);
    u64* out = a.cell + a.end[i] - (levels.end - levels.first);
    for (int level = levels.first; level < levels.end; level++) {
        int below = 3 * (SDF_LATTICE_BITS - level);
        *out++ = cell_of(a.keys[i] >> 3 * (SDF_MORTON_BITS - SDF_LATTICE_BITS) >> below << below, (u32)level);
    }
}

// A child that is not split is a leaf. Its index follows from the split cells before it, depth first: each completed
// one adds eight cells and is no leaf itself; each one containing the leaf adds the number of cells given by the
// corresponding octal digit of the leaf's key.
struct sdf_split_leaves_args {
    u32 n;  // 8 x split cells: their children
    u32 splits;
    const u64* cell;  // [splits] sorted
    u64* leaf_key;    // [7 * splits + 1] out: sorted
    u8* leaf_level;   // [7 * splits + 1] out
    u32* leaf_child;  // [7 * splits + 1] out: each leaf's index as a child, 8 x split cell + octant
};
SDF_KERNEL(sdf_split_leaves, PLAIN, i) {
    u64 parent = a.cell[i >> 3];
    u32 level = cell_level(parent) + 1;
    u64 key = cell_key(parent) + (i & 7u) * cell_size(level);
    u32 before = lower_bound_from(a.cell, a.splits, (i >> 3) + 1, cell_of(key, 0));
    if (before < a.splits && a.cell[before] == cell_of(key, level)) return;
    u32 high = (u32)(key >> 30), low = (u32)key & 0x3fffffffu, octants = 0;  // sum of octal digits
    for (u32 bit = 0; bit < 3; bit++)
        octants += (u32)(popcount(high & 0x9249249u << bit) + popcount(low & 0x9249249u << bit)) << bit;
    u32 leaf = 7 * (before - level) + octants;
    a.leaf_key[leaf] = key;
    a.leaf_level[leaf] = (u8)level;
    a.leaf_child[leaf] = i;
}

// Owner of a point other than a corner, and the point's number in it. neighbour: a function of directions below 13.
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
                u32 other = direction < SDF_CENTRE ? neighbour(direction) : cell;
                Owned found = {other, index_of(o.x - 2 * x, o.y - 2 * y, o.z - 2 * z)};
                if (other != SDF_NONE) return found;
            }
    Owned own = {cell, point};
    return own;
}

// Links of split cells, a row for each kind: split neighbours on the same level in the directions towards the origin,
// or SDF_NONE; the parent (the root's is itself); the cell's owned points, as bits.
enum { PARENT = SDF_CENTRE, MASK };

// Finds links and owned points; neighbours only in the nine directions with shared points other than corners.
struct sdf_split_own_args {
    u32 n;            // split cells
    u32 depth;        // all are on levels above it
    const u64* cell;  // [n]
    u32* kin;         // [15, n] out: see above
    u32* count;       // [depth, n] out: each cell's owned point count; 0 on other levels
};
SDF_KERNEL(sdf_split_own, PLAIN, i) {
    u64 cell = a.cell[i];
    u32 level = cell_level(cell), size = 1u << (SDF_LATTICE_BITS - level), neighbour[SDF_CENTRE];
    Lattice at = morton_decode(cell_key(cell));
    for (int direction = 0; direction < SDF_CENTRE; direction++) {
        neighbour[direction] = SDF_NONE;
        if (is_corner(direction)) continue;  // only a corner is shared
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
    for (u32 k = 0; k < a.depth; k++) a.count[k * (size_t)a.n + i] = k == level ? (u32)popcount(mask) : 0;
}

// Coarsest level with a corner.
FN u8 corner_level(u64 key) {
    u64 lowest = key & (0 - key);
    u32 up = key ? min_of((u32)(63 - clz(lowest)) / 3, (u32)SDF_LATTICE_BITS) : SDF_LATTICE_BITS;
    return (u8)(SDF_LATTICE_BITS - up);
}

struct sdf_corner_level_args {
    u32 n;                  // corners
    const u64* corner_key;  // [n]
    u8* level;              // [n] out: the coarsest whose cells have it
};
SDF_KERNEL(sdf_corner_level, PLAIN, i) { a.level[i] = corner_level(a.corner_key[i]); }

struct sdf_split_points_args {
    u32 n;  // 27 x split cells: their points
    u32 splits;
    u32 low_bits;     // number of the corner keys' low bits, all 0
    const u64* cell;  // [splits]
    const u32* kin;   // [15, splits]
    const u32* end;   // [depth, splits] prefix sums of the counts
    u32* point;       // [n] out: their corners' indices, level by level, cell by cell; or null
    u32* near;        // [corners] out: a nearby corner on a coarser level, or SDF_NONE; or null
    float* position;  // [corners, 3] out: in the unit cube; or null
    u32* short_code;  // [corners] out: their keys without low_bits
    u64* code;        // [corners] out: the same if 32 bits are too few; short_code is null then
};

// Index of a cell's owned point among all owned points, level by level.
FN u32 owned_place(const sdf_split_points_args& a, u32 cell, int point) {
    u32 mask = a.kin[MASK * (size_t)a.splits + cell];
    return a.end[cell_level(a.cell[cell]) * (size_t)a.splits + cell] - (u32)popcount(mask >> point);
}

// Numbers the split cells' points by their index among all owned points. A cell's own corners are points of its parent,
// or in turn its corners. A corner is `near` the cell's owned points for which it is the next corner towards the
// origin.
SDF_KERNEL(sdf_split_points, PLAIN, i) {
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

// Corners in Morton order.
struct sdf_corner_sorted_args {
    u32 n;  // corners
    u32 low_bits;
    const u32* short_code;   // [n] sorted; or null
    const u64* code;         // [n]
    const long long* order;  // [n] each one's index before sorting
    u64* corner_key;         // [n] out
    u32* place;              // [n] out: the inverse of the order
};
SDF_KERNEL(sdf_corner_sorted, PLAIN, i) {
    a.corner_key[i] = (a.short_code ? (u64)a.short_code[i] : a.code[i]) << a.low_bits;
    a.place[a.order[i]] = i;
}

struct sdf_corner_placed_args {
    u32 n;                   // corners
    const u32* place;        // [n] each one's index in Morton order
    const float* distance;   // [n]
    const u32* slot;         // [n]
    const u32* triangle_id;  // [triangles] by slot
    float* placed_distance;  // [n] out
    u32* nearest;            // [n] out: triangle ids
};
SDF_KERNEL(sdf_corner_placed, PLAIN, i) {
    a.placed_distance[a.place[i]] = a.distance[i];
    a.nearest[a.place[i]] = a.triangle_id[a.slot[i]];
}

#endif
