// Reading a finished field: which corners a leaf has, and the value and gradient at a point.
#ifndef SDFCLI_SAMPLE_H
#define SDFCLI_SAMPLE_H
#include "octree.h"

FN u64 leaf_corner_key(u64 leaf, u8 level, u32 c) {
    Lattice at = morton_decode(leaf);
    u32 size = 1u << (SDF_LATTICE_BITS - level);
    Lattice p = {at.x + (c & 1) * size, at.y + (c >> 1 & 1) * size, at.z + (c >> 2) * size};
    return morton_encode(p);
}

// The places of a leaf's eight corners among the sorted corner keys; SDF_NONE where a corner is missing.
FN void sdf_field_corners_at(const sdf_field_corners_args& a, u32 i) {
    for (u32 c = 0; c < 8; c++) {
        u64 key = leaf_corner_key(a.leaf_key[i], a.leaf_level[i], c);
        u32 place = lower_bound(a.corner_key, a.corners, key);
        a.leaf_corner[8 * (size_t)i + c] = place < a.corners && a.corner_key[place] == key ? place : SDF_NONE;
    }
}

// What is foretold of a corner: the mean of those half a cell of the level above away, along the axes on which it lies
// in the middle of such a cell; first along x, then y, then z. In float64, the same on every device and in any reader.
template <class Args>
FN double foretold(const Args& a, u32 corner) {
    if (a.level == 0) return 0.0;
    // Each axis of a Morton code is stepped along by itself: the bits of the others are set for the carry to pass, or
    // clear.
    const u64 axes = 0x1249249249249249ULL;
    u64 key = a.corner_key[corner], step = 1ULL << 3 * (SDF_LATTICE_BITS - a.level), low = 0, high = 0;
    u32 odd = 0;
    for (int k = 0; k < 3; k++) {
        u64 axis = axes << k, own = key & axis, by = step << k;
        bool between = (own & by) != 0;
        odd |= (u32)between << k;
        low |= between ? own - by : own;
        high |= between ? ((own | ~axis) + by) & axis : own;
    }
    double v[8];
    for (u32 c = 0; c < 8; c++) {
        if (c & ~odd) {
            v[c] = v[c & odd];
            continue;
        }
        u64 mask = (c & 1 ? axes : 0) | (c & 2 ? axes << 1 : 0) | (c & 4 ? axes << 2 : 0);
        u32 place = lower_bound_near(a.corner_key, a.corners, (low & ~mask) | (high & mask), corner);
        v[c] = (double)a.value[place < a.corners ? place : 0];
    }
    for (int k = 4; k; k >>= 1)
        for (int c = 0; c < k; c++) v[c] = 0.5 * (v[2 * c] + v[2 * c + 1]);
    return v[0];
}
FN void sdf_corner_quantise_at(const sdf_corner_quantise_args& a, u32 i) {
    u32 corner = a.corner[i];
    double base = foretold(a, corner);
    int steps = a.hanging[corner] ? 0 : whole_steps(a.value[corner], base, a.step);
    a.value[corner] = (float)(base + (double)steps * a.step);
    a.residual[i] = steps;
}
FN void sdf_corner_restore_at(const sdf_corner_restore_args& a, u32 i) {
    u32 corner = a.corner[i];
    a.value[corner] = (float)(foretold(a, corner) + (double)a.residual[i] * a.step);
}

struct InLeaf {
    u32 leaf;
    D3 t;  // the place in it, from 0 to 1
};

// The leaf in which a point of the unit cube lies; a point outside goes to the nearest point of the cube.
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

// The triangle that was nearest to a corner of an earlier field, the corner nearest to a point: where to start from.
FN void sdf_previous_at(const sdf_previous_args& a, u32 i) {
    D3 p = load3d(a.points + 3 * (size_t)i), shift = vec(a.shift_x, a.shift_y, a.shift_z);
    InLeaf at = find_leaf(a.scale * p + shift, a.leaf_key, a.leaf_level, a.leaves);
    u32 c = (at.t.x > 0.5 ? 1u : 0u) | (at.t.y > 0.5 ? 2u : 0u) | (at.t.z > 0.5 ? 4u : 0u);
    a.seed[i] = a.slot_of[a.nearest[a.leaf_corner[8 * (size_t)at.leaf + c]]];
}

// A tree for finding leaves: a table of the cells of level 6, and below it nodes of eight entries each. An entry is a
// leaf, marked, or the number of a node.
#define SDF_LEAF 0x80000000u
#define SDF_TOP_LEVEL 6
#define SDF_TOP_SHIFT (SDF_LATTICE_BITS - SDF_TOP_LEVEL)

// The nodes of which a leaf is the first: cells of these levels that begin where it does. Of no level if it is none.
struct NodeLevels {
    u32 first, end;
};
template <class Args>
FN NodeLevels nodes_from(const Args& a, u32 leaf) {
    NodeLevels levels = {SDF_TOP_LEVEL, a.leaf_level[leaf]};
    while (levels.first < levels.end && a.leaf_key[leaf] & ((1ULL << 3 * (SDF_LATTICE_BITS - levels.first)) - 1ULL))
        levels.first++;
    return levels;
}
FN void sdf_leaf_count_at(const sdf_leaf_count_args& a, u32 i) {
    NodeLevels levels = nodes_from(a, i);
    a.count[i] = levels.first < levels.end ? levels.end - levels.first : 0;
}
FN void sdf_leaf_list_at(const sdf_leaf_list_args& a, u32 i) {
    NodeLevels levels = nodes_from(a, i);
    u32 place = i ? a.end[i - 1] : 0;
    for (u32 level = levels.first; level < levels.end; level++, place++) {
        a.node_key[place] = a.leaf_key[i];
        a.node_level[place] = (u8)level;
    }
}

// The entries of the eight cells of a level that divide a cell: each the leaf that is the cell or holds it, or the node
// that divides it. Leaves and nodes of one level lie in the cells' own order.
template <class Put>
FN void eight_entries(const sdf_leaf_nodes_args& a, u64 key, u32 level, const Put& put) {
    u32 leaf = lower_bound(a.leaf_key, a.leaves, key + 1) - 1, first = a.first_node[level];
    u32 node = first + lower_bound(a.node_key + first, a.first_node[level + 1] - first, key);
    for (u32 octant = 0; octant < 8; octant++) {
        put(octant, a.leaf_level[leaf] <= level ? leaf | SDF_LEAF : node++);
        u64 next = key + ((u64)(octant + 1) << 3 * (SDF_LATTICE_BITS - level));
        if (octant < 7) leaf = lower_bound_near(a.leaf_key, a.leaves, next + 1, leaf) - 1;
    }
}
FN void sdf_leaf_top_at(const sdf_leaf_top_args& a, u32 i) {
    u64 key = (u64)i << 3 * (SDF_TOP_SHIFT + 1);
    Lattice low = morton_decode(key);
    eight_entries(a, key, SDF_TOP_LEVEL, [&](u32 octant, u32 entry) {
        u32 x = (low.x >> SDF_TOP_SHIFT) + (octant & 1u), y = (low.y >> SDF_TOP_SHIFT) + (octant >> 1 & 1u);
        u32 z = (low.z >> SDF_TOP_SHIFT) + (octant >> 2);
        a.entry[x | y << SDF_TOP_LEVEL | z << 2 * SDF_TOP_LEVEL] = entry;
    });
}
FN void sdf_leaf_nodes_at(const sdf_leaf_nodes_args& a, u32 i) {
    eight_entries(a, a.node_key[i], a.node_level[i] + 1u,
                  [&](u32 octant, u32 entry) { a.entry[8 * (size_t)i + octant] = entry; });
}

// A point on the way to its leaf.
struct Way {
    D3 unit, inside;  // in the unit cube, and the nearest point that lies in it
    Lattice cell;
    u32 entry;  // of the tree, where the way has come to: a leaf at its end
    u32 shift;  // SDF_LATTICE_BITS less the level of that entry
};
FN bool at_leaf(const Way& way) { return way.entry & SDF_LEAF; }
FN u32 leaf_of(const Way& way) { return way.entry & ~SDF_LEAF; }

FN void start_way(const sdf_field_sample_args& a, u32 i, Way& way) {
    D3 p = a.single ? load3d(a.single + 3 * (size_t)i) : load3(a.points + 3 * (size_t)i);
    if (!((p.x - p.x) + (p.y - p.y) + (p.z - p.z) == 0.0)) store_shared(a.marks, 1u);
    const double full = (double)(1u << SDF_LATTICE_BITS), last = full - 1.0;
    D3 unit = vec((p.x - a.origin_x) / a.length, (p.y - a.origin_y) / a.length, (p.z - a.origin_z) / a.length);
    D3 inside = vec(clamp01(unit.x), clamp01(unit.y), clamp01(unit.z)), u = full * inside;
    way.unit = unit;
    way.inside = inside;
    way.cell.x = (u32)(int)least(u.x, last);
    way.cell.y = (u32)(int)least(u.y, last);
    way.cell.z = (u32)(int)least(u.z, last);
    way.shift = SDF_TOP_SHIFT;
}
FN const u32* top_entry(const sdf_field_sample_args& a, const Way& way) {
    u32 x = way.cell.x >> SDF_TOP_SHIFT, y = way.cell.y >> SDF_TOP_SHIFT, z = way.cell.z >> SDF_TOP_SHIFT;
    return a.top + (x | y << SDF_TOP_LEVEL | z << 2 * SDF_TOP_LEVEL);
}
FN void step_down(const sdf_field_sample_args& a, Way& way) {
    u32 s = --way.shift, octant = (way.cell.x >> s & 1u) | (way.cell.y >> s & 1u) << 1 | (way.cell.z >> s & 1u) << 2;
    way.entry = a.child[8 * (size_t)way.entry + octant];
}

// Value and gradient of the trilinear field. A point outside of the domain takes the value at the nearest point of the
// domain plus the distance to it: an upper bound of the true distance outside.
FN void store_sample(const sdf_field_sample_args& a, u32 i, const Way& way) {
    u32 leaf = leaf_of(way), s = way.shift;
    if (s == SDF_TOP_SHIFT) s = SDF_LATTICE_BITS - a.leaf_level[leaf];
    const double full = (double)(1u << SDF_LATTICE_BITS), cells = (double)(1u << (SDF_LATTICE_BITS - s));
    D3 low = vec((double)(way.cell.x >> s << s), (double)(way.cell.y >> s << s), (double)(way.cell.z >> s << s));
    D3 t = (cells / full) * (full * way.inside - low);  // from 0 to 1 in the leaf; powers of two: nothing is rounded
    D3 outwards = way.unit - way.inside;
    double v[8];
    for (int c = 0; c < 8; c++) v[c] = (double)a.leaf_value[8 * (size_t)leaf + c];
    double far_sq = dot(outwards, outwards), far = far_sq > 0.0 ? sqrt(far_sq) : 0.0;
    if (!(far_sq > 1e-300 && far_sq < 1e300)) {  // squares that leave double
        double m =
            most(most(most(outwards.x, -outwards.x), most(outwards.y, -outwards.y)), most(outwards.z, -outwards.z));
        if (m > 0.0) {
            D3 part = vec(outwards.x / m, outwards.y / m, outwards.z / m);
            far = m * sqrt(dot(part, part));
        }
    }
    if (a.result) a.result[i] = trilinear(v, t) + far * a.length;
    if (a.leaf_of) a.leaf_of[i] = leaf;
    if (!a.gradient) return;
    double* g = a.gradient + 3 * (size_t)i;
    double scale = cells / a.length;
    double slope[3] = {0.0, 0.0, 0.0}, along[3] = {t.x, t.y, t.z};
    double beyond[3] = {outwards.x, outwards.y, outwards.z};
    for (int axis = 0; axis < 3; axis++)
        for (int c = 0; c < 8; c++) {
            if (c >> axis & 1) continue;
            double weight = 1.0;  // of this one of the four edges along the axis
            for (int other = 0; other < 3; other++)
                if (other != axis) weight *= c >> other & 1 ? along[other] : 1.0 - along[other];
            slope[axis] += weight * (v[c | 1 << axis] - v[c]);
        }
    for (int k = 0; k < 3; k++) g[k] = beyond[k] != 0.0 ? beyond[k] / far : slope[k] * scale;
}

FN void sdf_field_sample_at(const sdf_field_sample_args& a, u32 i) {
    Way way;
    start_way(a, i, way);
    way.entry = *top_entry(a, way);
    while (!at_leaf(way)) step_down(a, way);
    store_sample(a, i, way);
}

#endif
