// A field's leaves in blocks: subtrees that are stored, read and decoded independently (docs/reference/file.md).
//
// A block's split cells are numbered depth first. Each lists those of its 27 points that no earlier one of its level
// has, in the order of geometry/lattice.h; its corners are points of coarser cells. Cells of one level that
// touch a point all list it or none does: a point between a split cell and a leaf hangs, and interpolates the cell's
// corners. What lies outside of the block does not count, so that points on its border may be in several blocks.
//
// INTERFACE
//   sdf_block_search             places of Morton codes among the leaves
//   sdf_block_tree               a block's tree, from its leaves' levels
//   sdf_block_begun, _link       all blocks' trees, from their leaves' keys
//   sdf_block_count              number of values, level by level; listed points
//   sdf_block_ends, _begin       ends of blocks' values, and indices of subtrees' first ones
//   sdf_block_corners            values at cells' corners
//   sdf_block_encode             values, from the leaves' corners: as steps, or as they are
//   sdf_block_bits, _code        steps' widths, and steps as they are stored
//   sdf_block_decode             the leaves' corner values, block by block
//   sdf_block_points             the same, split cell by split cell
#ifndef SDFCLI_FIELD_BLOCKS_H
#define SDFCLI_FIELD_BLOCKS_H
#include "base/kernel.h"
#include "field/quantise.h"
#include "field/sampler.h"
#include "geometry/lattice.h"

enum { TREE_FAULT = 1, COUNT_FAULT = 2, VALUE_FAULT = 4 };

struct Blocks {
    u32 blocks, leaves, splits;
    u32 inner;             // number of the first block's first split cell
    const u8* level;       // [blocks] their cells' levels
    const u32* leaf_end;   // [blocks] prefix sums of the leaf counts, which are one more than multiples of seven
    const u8* leaf_level;  // [leaves] in Morton order
    u32* child;            // [splits, 8] a leaf, or a split cell
    u32* mask;             // [splits] listed points
    u32* before;           // [splits] index of the first one's value
    u32* faults;           // [1] bits
};
FN bool fault(const Blocks& a, u32 bit) {
    atomic_or(a.faults, bit);
    return false;
}
FN u32 first_leaf(const Blocks& a, u32 block) { return block ? a.leaf_end[block - 1] : 0; }
FN u32 first_split(const Blocks& a, u32 block) { return a.inner + (first_leaf(a, block) - block) / 7; }

struct sdf_block_tree_args {
    u32 n;  // blocks to do
    Blocks all;
    const u32* block;  // [n]
};
SDF_KERNEL(sdf_block_tree, LARGE, i) {
    u32 block = a.block[i], first = first_leaf(a.all, block), end = a.all.leaf_end[block];
    u32 next = first_split(a.all, block), last = next + (end - first) / 7, top = a.all.level[block];
    u32 split[SDF_SPLIT_LEVELS], octant[SDF_SPLIT_LEVELS], open = 0;  // the cells around the next leaf
    for (u32 leaf = first; leaf < end; leaf++) {
        u32 level = a.all.leaf_level[leaf];
        bool outside = level < top + open || level > SDF_SPLIT_LEVELS || (!open && leaf > first);
        for (; !outside && top + open < level; open++) {
            if (next == last) {
                outside = true;
                break;
            }
            if (open) a.all.child[8 * (size_t)split[open - 1] + octant[open - 1]++] = next;
            split[open] = next++;
            octant[open] = 0;
        }
        if (outside) {
            fault(a.all, TREE_FAULT);
            return;
        }
        if (open) a.all.child[8 * (size_t)split[open - 1] + octant[open - 1]++] = make_leaf(leaf);
        while (open && octant[open - 1] == 8) open--;
    }
    if (open || next != last) fault(a.all, TREE_FAULT);
}

struct sdf_block_search_args {
    u32 n;  // Morton codes
    u32 leaves;
    const u64* leaf_key;  // [leaves]
    const u64* key;       // [n]
    u32* leaf;            // [n] out: the first leaf at or after it
};
SDF_KERNEL(sdf_block_search, PLAIN, i) { a.leaf[i] = lower_bound(a.leaf_key, a.leaves, a.key[i]); }

// The level of the largest cell whose lower corner has this Morton code.
FN u32 level_at(u64 key) { return key ? SDF_LATTICE_BITS - (63u - (u32)clz(key & (0 - key))) / 3 : 0; }

struct sdf_block_begun_args {
    u32 n;  // leaves
    Blocks all;
    const u64* leaf_key;  // [n] Morton codes
    u32* begun;           // [n] out: split cells, in the leaf's block, with its lower corner
};
SDF_KERNEL(sdf_block_begun, PLAIN, i) {
    u32 block = lower_bound(a.all.leaf_end, a.all.blocks, i + 1), level = a.all.leaf_level[i];
    u32 top = max_of((u32)a.all.level[block], level_at(a.leaf_key[i]));
    if (top > level || level > SDF_SPLIT_LEVELS) fault(a.all, TREE_FAULT);
    a.begun[i] = top < level ? level - top : 0;
}

// A cell within a block: alone, or with all cells in it.
struct Subtree {
    u64 key;
    u32 level;
    bool alone;
};
struct Subtrees {
    u32* block;  // [subtrees] each one's block
    u64* key;    // [subtrees] Morton code of its cell
    u8* level;   // [subtrees] its cell's level
    u8* alone;   // [subtrees] 1: without the cells in it
};
FN Subtree subtree_of(const Subtrees& a, u32 i) { return {a.key[i], a.level[i], a.alone[i] != 0}; }

struct sdf_block_link_args {
    u32 n;  // leaves
    Blocks all;
    const u64* leaf_key;  // [n]
    const u32* sums;      // [n + 1] exclusive, of `begun`
    Subtrees of;          // [splits - inner] out: all blocks' split cells, each alone
};
SDF_KERNEL(sdf_block_link, PLAIN, i) {
    u32 block = lower_bound(a.all.leaf_end, a.all.blocks, i + 1), end = a.all.leaf_end[block];
    u64 key = a.leaf_key[i];
    for (u32 cell = a.sums[i]; cell < a.sums[i + 1]; cell++) {
        u32 below = a.all.leaf_level[i] - (a.sums[i + 1] - cell) + 1, leaf = i;  // of children
        a.of.block[cell] = block, a.of.key[cell] = key, a.of.level[cell] = (u8)(below - 1), a.of.alone[cell] = 1;
        for (u32 octant = 0; octant < 8; octant++) {
            u64 corner = key + octant * cell_size(below);
            leaf = lower_bound_from(a.leaf_key, end, leaf, corner);
            bool found = leaf < end && a.leaf_key[leaf] == corner && a.all.leaf_level[leaf] >= below &&
                         a.all.leaf_level[leaf] - below <= a.sums[leaf + 1] - a.sums[leaf];
            if (!found) {
                fault(a.all, TREE_FAULT);
                return;
            }
            u32 deeper = a.all.leaf_level[leaf] - below;  // levels of split cells from the child on
            a.all.child[8 * (size_t)(a.all.inner + cell) + octant] =
                deeper ? a.all.inner + a.sums[leaf + 1] - deeper : make_leaf(leaf);
        }
    }
}

// A split cell on the way from its block's cell to a leaf.
struct Split {
    u64 key;
    u32 level, cell;
    u32 octant, next;  // in the cell above; the first of its own that is not done
    u32 around[27];    // split cells and leaves of its level or coarser; SDF_NONE: outside of the block
    float value[27];   // at its points
    METHOD u32 child(const u32* children, int x, int y, int z) const {  // coordinates -1 to 2, in children
        u32 cell = around[index_of((x >> 1) + 1, (y >> 1) + 1, (z >> 1) + 1)];
        return is_leaf(cell) ? cell : children[8 * (size_t)cell + (u32)((x & 1) | (y & 1) << 1 | (z & 1) << 2)];
    }
};

// Calls visit(cell, point) for the other cells of a split cell's level that touch one of its points, with the point's
// index there.
template <class Visit>
FN void each_sharing(const Split& own, int j, const Visit& visit) {
    Offset o = offset_of(j);
    UNROLL
    for (int k = 1; k < 8; k++) {
        if ((k & 1 && o.x == 1) || (k & 2 && o.y == 1) || (k & 4 && o.z == 1)) continue;
        int x = k & 1 ? o.x - 1 : 0, y = k & 2 ? o.y - 1 : 0, z = k & 4 ? o.z - 1 : 0;
        visit(own.around[index_of(x + 1, y + 1, z + 1)], index_of(o.x - 2 * x, o.y - 2 * y, o.z - 2 * z));
    }
}

// Enters a split cell's child, which is split.
FN void enter_child(const u32* children, const Split& own, u32 octant, Split& below) {
    below.cell = children[8 * (size_t)own.cell + octant];
    below.octant = octant, below.level = own.level + 1, below.next = 0;
    below.key = own.key + octant * cell_size(below.level);
    int x = octant & 1, y = octant >> 1 & 1, z = octant >> 2;
    UNROLL
    for (int j = 0; j < 27; j++) {
        Offset o = offset_of(j);
        if (!is_corner(j) && j != SDF_CENTRE)
            below.around[j] = own.child(children, x + o.x - 1, y + o.y - 1, z + o.z - 1);
    }
    below.around[SDF_CENTRE] = below.cell;
}

// Visits a subtree's split cells depth first: at_split(cell, the cell above or null), then at_leaf(leaf, cell, octant)
// for its leaves. at_split may return false to end.
template <class AtSplit, class AtLeaf>
FN void each_split(const Blocks& a, u32 block, const Subtree& of, const AtSplit& at_split, const AtLeaf& at_leaf) {
    if (a.leaf_end[block] - first_leaf(a, block) == 1) return;
    Split way[SDF_SPLIT_LEVELS];
    way[0].cell = first_split(a, block), way[0].level = a.level[block], way[0].next = 0;
    way[0].key = of.key & ~(cell_size(way[0].level) - 1);
    for (u32& cell : way[0].around) cell = SDF_NONE;
    way[0].around[SDF_CENTRE] = way[0].cell;
    int depth = 0;
    for (; way[depth].level < of.level; depth++)
        enter_child(a.child, way[depth], (u32)(of.key >> 3 * (SDF_LATTICE_BITS - 1 - way[depth].level)) & 7u,
                    way[depth + 1]);
    const int top = depth;
    for (bool enters = true; depth >= top; depth += enters ? 1 : -1) {
        Split& own = way[depth];
        if (enters && (!at_split(own, depth ? &way[depth - 1] : nullptr) || of.alone)) return;
        enters = false;
        while (own.next < 8 && !enters) {
            u32 octant = own.next++, child = a.child[8 * (size_t)own.cell + octant];
            if (is_leaf(child)) {
                at_leaf(leaf_index(child), own, octant);
            } else {
                enter_child(a.child, own, octant, way[depth + 1]);
                enters = true;
            }
        }
    }
}

// A split cell's points as bits: those that it lists if they do not hang, and those that hang.
struct Listing {
    u32 first, hangs;
};
FN Listing listing(const Split& own) {
    Listing found = {0, 0};
    UNROLL
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        bool first = true, hangs = false;
        each_sharing(own, j, [&](u32 cell, int) {
            hangs |= is_leaf(cell) && cell != SDF_NONE;
            first &= cell > own.cell;  // leaves are greater
        });
        found.first |= (u32)first << j;
        found.hangs |= (u32)hangs << j;
    }
    return found;
}

struct sdf_block_count_args {
    u32 n;  // subtrees
    Blocks all;
    Subtrees of;
    int hanging;  // whether hanging points are listed
    u32* count;   // [16, n] out: points listed by the split cells on each level
};
SDF_KERNEL(sdf_block_count, LARGE, i) {
    u32 count[SDF_SPLIT_LEVELS] = {};
    each_split(
        a.all, a.of.block[i], subtree_of(a.of, i),
        [&](const Split& own, const Split*) {
            Listing found = listing(own);
            u32 listed = a.all.mask[own.cell] = a.hanging ? found.first : found.first & ~found.hangs;
            count[own.level] += (u32)popcount(listed);
            return true;
        },
        [](u32, const Split&, u32) {});
    for (u32 level = 0; level < SDF_SPLIT_LEVELS; level++) a.count[level * (size_t)a.n + i] = count[level];
}

struct sdf_block_ends_args {
    u32 n;  // blocks
    u32 subtrees;
    const u32* sums;  // [16 * subtrees + 1] exclusive, of `count`
    const u32* end;   // [n] of each block's subtrees
    u32* until;       // [n, 16] out: the sums there
};
SDF_KERNEL(sdf_block_ends, PLAIN, i) {
    for (u32 level = 0; level < SDF_SPLIT_LEVELS; level++) {
        size_t place = level * (size_t)a.subtrees + a.end[i];
        a.until[SDF_SPLIT_LEVELS * (size_t)i + level] = a.sums[place];
    }
}

struct sdf_block_begin_args {
    u32 n;              // subtrees, of consecutive blocks
    u32 first;          // of the blocks
    const u32* block;   // [n]
    const u32* sums;    // [16 * n + 1] exclusive, of `count`
    const u32* starts;  // [blocks, 16] added to the sums
    u32* begin;         // [n, 16] out
};
SDF_KERNEL(sdf_block_begin, PLAIN, i) {
    const u32* starts = a.starts + SDF_SPLIT_LEVELS * (size_t)(a.block[i] - a.first);
    for (u32 level = 0; level < SDF_SPLIT_LEVELS; level++) {
        size_t place = level * (size_t)a.n + i;
        a.begin[SDF_SPLIT_LEVELS * (size_t)i + level] = starts[level] + a.sums[place];
    }
}

// The number of steps from a base to a value, exact if there is one.
FN int steps_between(double base, float value, double step) {
    const double most_steps = 1073741824.0;
    double steps = min_of(max_of(((double)value - base) / step, -most_steps), most_steps);
    int nearest = (int)(steps < 0.0 ? steps - 0.5 : steps + 0.5);
    for (int k = 0; k < 3; k++) {  // rounding to float32 may hide one
        int near = nearest + (k == 1) - (k == 2);
        if (float_bits((float)(base + (double)near * step)) == float_bits(value)) return near;
    }
    return nearest;
}

struct sdf_block_encode_args {
    u32 n;  // subtrees
    Blocks all;
    Subtrees of;
    const u32* begin;        // [n, 16] index of the first value of each level
    const u32* leaf_corner;  // [leaves, 8] indices of the leaves' corners; or null: leaf by leaf
    const float* value;      // [corners]
    int hanging;             // whether hanging points are listed
    double step;             // 0: values are stored as they are
    int* steps;              // [values] out: from the interpolated cell's corners; or the values' bits
};
template <class Args>
FN float corner_value(const Args& a, u32 cell, u32 c) {
    while (!is_leaf(cell)) cell = a.all.child[8 * (size_t)cell + c];
    size_t corner = 8 * (size_t)leaf_index(cell) + c;
    return a.value[a.leaf_corner ? a.leaf_corner[corner] : corner];
}
struct sdf_block_corners_args {
    u32 n;  // cells
    Blocks all;
    const u32* cell;         // [n] as children
    const u32* leaf_corner;  // [leaves, 8] as above
    const float* value;      // [corners]
    float* corner;           // [n, 8] out: values at the cells' corners
};
SDF_KERNEL(sdf_block_corners, PLAIN, i) {
    for (u32 c = 0; c < 8; c++) a.corner[8 * (size_t)i + c] = corner_value(a, a.cell[i], c);
}
SDF_KERNEL(sdf_block_encode, LARGE, i) {
    u32 next[SDF_SPLIT_LEVELS];
    for (u32 level = 0; level < SDF_SPLIT_LEVELS; level++) next[level] = a.begin[SDF_SPLIT_LEVELS * i + level];
    each_split(
        a.all, a.of.block[i], subtree_of(a.of, i),
        [&](Split& own, const Split*) {
            Listing found = listing(own);
            double base[27], corner[8];
            for (u32 c = 0; c < 8; c++) corner[c] = (double)corner_value(a, own.cell, c);
            interpolate(corner, base);
            for (int j = 0; j < 27; j++) {
                bool hangs = !a.hanging && found.hangs >> j & 1u, lists = !hangs && found.first >> j & 1u;
                if (is_corner(j) || !(hangs || lists)) continue;
                Offset o = offset_of(j);
                int x = o.x >> 1, y = o.y >> 1, z = o.z >> 1;  // an octant with the point
                float value = corner_value(a, a.all.child[8 * (size_t)own.cell + (u32)(x | y << 1 | z << 2)],
                                           (u32)(o.x - x) | (u32)(o.y - y) << 1 | (u32)(o.z - z) << 2);
                if (a.step == 0.0) {
                    a.steps[next[own.level]++] = (int)float_bits(value);
                    continue;
                }
                int steps = lists ? steps_between(base[j], value, a.step) : 0;
                if (float_bits((float)(base[j] + (double)steps * a.step)) != float_bits(value))
                    fault(a.all, VALUE_FAULT);
                if (lists) a.steps[next[own.level]++] = steps;
            }
            return true;
        },
        [](u32, const Split&, u32) {});
}

// A number of parts of a step as steps and the rest, each coded: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
struct Coded {
    u32 whole, rest;
};
FN u32 unsigned_of(int number) { return (u32)number << 1 ^ (number < 0 ? SDF_NONE : 0u); }
FN Coded coded(int number, int parts) {
    int shifted = number + parts / 2, whole = shifted / parts - (shifted % parts < 0);
    return {unsigned_of(whole), unsigned_of(number - whole * parts)};
}

struct sdf_block_bits_args {
    u32 n;             // values
    const int* steps;  // [n] in parts
    int parts;         // per step
    u32* bits;         // [1] in and out: all bits of the coded numbers of steps
};
SDF_KERNEL(sdf_block_bits, PLAIN, i) {
    u32 whole = coded(a.steps[i], a.parts).whole;
    if (whole & ~load_relaxed(a.bits)) atomic_or(a.bits, whole);
}

struct sdf_block_code_args {
    u32 n;             // values
    const int* steps;  // [n] in parts
    int parts;         // per step
    int width;         // bytes per coded number of steps
    u8* stored;        // [n, width] out, little-endian
    u8* part;          // [n] out: the rests; or null
};
SDF_KERNEL(sdf_block_code, PLAIN, i) {
    Coded own = coded(a.steps[i], a.parts);
    for (int k = 0; k < a.width; k++) a.stored[a.width * (size_t)i + k] = (u8)(own.whole >> 8 * k);
    if (a.part) a.part[i] = (u8)own.rest;
}

// Stored values, and what they are decoded to.
struct Stored {
    const u32* begin;     // [begins] by block and level: index of the first value; then the end
    const float* corner;  // [blocks, 8] values at the corners of the blocks' cells
    const u8* stored;     // [bytes] the values, little-endian; steps 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
    int width;            // bytes per value
    const u8* part;       // [values] parts of steps, added, in the same code; or null
    int parts;            // per step
    double step;          // in parts; 0: the values' bits are stored
    int hanging;          // whether hanging points are listed
    float* leaf_value;    // [leaves, 8] out
    u32* entry;           // [2 ** 18] out: what is in the cells on level 6, x fastest (field/sampler.h)
};
FN u32 stored_at(const Stored& a, u32 place) {
    u32 number = 0;
    for (int k = 0; k < a.width; k++) number |= (u32)a.stored[a.width * (size_t)place + k] << 8 * k;
    return number;
}
FN double signed_of(u32 number) { return (double)((int)(number >> 1) ^ -(int)(number & 1u)); }
FN float value_at(const Stored& a, u32 place, double base) {
    if (a.step == 0.0) return bits_float(stored_at(a, place));
    double steps = signed_of(stored_at(a, place));
    if (a.part) steps = steps * a.parts + signed_of(a.part[place]);
    return (float)(base + steps * a.step);
}
// Enters a leaf or a split cell in the cells on level 6 that it covers.
FN void enter(u32* entry, u64 key, u32 level, u32 child) {
    if (level > SDF_TOP_LEVEL || (level < SDF_TOP_LEVEL && !is_leaf(child))) return;
    Lattice low = morton_decode(key);
    u32 many = 1u << (SDF_TOP_LEVEL - level);
    for (u32 z = low.z >> SDF_TOP_SHIFT, ze = z + many; z < ze; z++)
        for (u32 y = low.y >> SDF_TOP_SHIFT, ye = y + many; y < ye; y++)
            for (u32 x = low.x >> SDF_TOP_SHIFT, xe = x + many; x < xe; x++)
                entry[x | y << SDF_TOP_LEVEL | z << 2 * SDF_TOP_LEVEL] = child;
}
FN void decode_leaf(const Stored& of, u32 leaf, const Split& own, u32 octant) {
    for (int c = 0; c < 8; c++)
        of.leaf_value[8 * (size_t)leaf + c] = own.value[octant_point((int)octant) + octant_point(c)];
    enter(of.entry, own.key + octant * cell_size(own.level + 1), own.level + 1, make_leaf(leaf));
}
// Decodes the values at a split cell's points, from those at its corners. free: the first value that it lists; then the
// first that it does not list. Returns false for a fault.
FN bool decode_split(const Blocks& a, const Stored& of, Split& own, u32& free, u32 end, u32& mask) {
    double base[27], corner[8];
    for (int c = 0; c < 8; c++) corner[c] = (double)own.value[corner_point(c)];
    interpolate(corner, base);
    mask = 0;
    UNROLL
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        u32 lister = own.cell, place = free;
        int at = j;
        bool hangs = false;
        each_sharing(own, j, [&](u32 cell, int point) {
            hangs |= is_leaf(cell) && cell != SDF_NONE;
            if (cell < lister) lister = cell, at = point;
        });
        float value = (float)base[j];
        if (of.hanging || !hangs) {
            if (lister == own.cell)
                mask |= 1u << j, free++;
            else
                place = a.before[lister] + (u32)popcount(a.mask[lister] & ((1u << at) - 1u));
            if (place >= end) return fault(a, COUNT_FAULT);
            value = value_at(of, place, base[j]);
        }
        if ((float_bits(value) & 0x7f800000u) == 0x7f800000u) return fault(a, VALUE_FAULT);
        own.value[j] = value;
    }
    enter(of.entry, own.key, own.level, own.cell);
    return true;
}

struct sdf_block_decode_args {
    u32 n;  // blocks to do
    Blocks all;
    const u32* block;  // [n]
    const u64* key;    // [blocks] Morton codes of their cells
    Stored of;
};
SDF_KERNEL(sdf_block_decode, LARGE, i) {
    u32 block = a.block[i], leaf = first_leaf(a.all, block);
    const u32* begin = a.of.begin + SDF_SPLIT_LEVELS * (size_t)block;
    u32 next[SDF_SPLIT_LEVELS];
    for (u32 level = 0; level < SDF_SPLIT_LEVELS; level++) next[level] = begin[level];
    const float* of_block = a.of.corner + 8 * (size_t)block;
    if (a.all.leaf_end[block] - leaf == 1) {
        for (int c = 0; c < 8; c++) a.of.leaf_value[8 * (size_t)leaf + c] = of_block[c];
        enter(a.of.entry, a.key[block], a.all.level[block], make_leaf(leaf));
    }
    each_split(
        a.all, block, {a.key[block], a.all.level[block], false},
        [&](Split& own, const Split* above) {
            for (int c = 0; c < 8; c++)
                own.value[corner_point(c)] =
                    above ? above->value[octant_point((int)own.octant) + octant_point(c)] : of_block[c];
            a.all.before[own.cell] = next[own.level];
            return decode_split(a.all, a.of, own, next[own.level], begin[own.level + 1], a.all.mask[own.cell]);
        },
        [&](u32 below, const Split& own, u32 octant) { decode_leaf(a.of, below, own, octant); });
    for (u32 level = 0; level < SDF_SPLIT_LEVELS; level++)
        if (next[level] != begin[level + 1]) fault(a.all, COUNT_FAULT);
}

struct sdf_block_points_args {
    u32 n;             // split cells of one level; those above are done
    Blocks all;        // with the mask and the first value of each split cell
    const u32* which;  // [n] the cells, among the subtrees
    Subtrees each;     // all blocks' split cells
    Stored of;
    float* point;  // [splits, 27] in and out: values at the split cells' points
};
SDF_KERNEL(sdf_block_points, LARGE, i) {
    u32 subtree = a.which[i], block = a.each.block[subtree];
    each_split(
        a.all, block, subtree_of(a.each, subtree),
        [&](Split& own, const Split* above) {
            for (int c = 0; c < 8; c++)
                own.value[corner_point(c)] =
                    above ? a.point[27 * (size_t)above->cell + octant_point((int)own.octant) + octant_point(c)]
                          : a.of.corner[8 * (size_t)block + c];
            u32 free = a.all.before[own.cell], mask;
            u32 end = a.of.begin[SDF_SPLIT_LEVELS * (size_t)block + own.level + 1];
            if (!decode_split(a.all, a.of, own, free, end, mask)) return false;
            for (int j = 0; j < 27; j++) a.point[27 * (size_t)own.cell + j] = own.value[j];
            for (u32 octant = 0; octant < 8; octant++) {
                u32 child = a.all.child[8 * (size_t)own.cell + octant];
                if (is_leaf(child)) decode_leaf(a.of, leaf_index(child), own, octant);
            }
            return true;
        },
        [](u32, const Split&, u32) {});
}

#endif
