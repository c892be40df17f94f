// The trilinear field at a point. Users' own kernels include this text, too: see docs/guides/kernels.md.
//
// The tree over the leaves is a table for level 6, with nodes below, each of eight entries. An entry is a leaf, marked
// by the highest bit, or a node index.
//
// INTERFACE
//   LeafTree, Sampler          a field's arrays
//   sdf_sample                 value, and gradient, at a point
//   leaf_shift, leaf_low       size and position of a point's leaf
//   FieldPoint, at_point       its two terms: the value in the domain, and the distance to the domain
//   Way, start_way, top_entry, step_down, at_leaf, leaf_of, go_down, way_to_leaf   a point's descent to its leaf
#ifndef SDFCLI_FIELD_SAMPLER_H
#define SDFCLI_FIELD_SAMPLER_H
#include "geometry/domain.h"
#include "trees/child.h"

#define SDF_TOP_SHIFT (SDF_LATTICE_BITS - SDF_TOP_LEVEL)

struct LeafTree {
    const u32* top;    // [2 ** 18] entries for level 6 cells, x fastest
    const u32* child;  // [nodes, 8] entries, x fastest
};

struct Sampler {
    Domain domain;
    const u8* leaf_level;     // [leaves]
    const float* leaf_value;  // [leaves, 8] in the mesh's units, x fastest
    LeafTree tree;
};

// A point's descent to its leaf.
struct Way {
    D3 unit, inside;  // unit cube position, and the nearest point in the cube
    Lattice cell;
    u32 entry;  // current tree entry: a leaf at the end
    u32 shift;  // SDF_LATTICE_BITS less the entry's level
};
FN bool at_leaf(const Way& way) { return is_leaf(way.entry); }
FN u32 leaf_of(const Way& way) { return leaf_index(way.entry); }

FN void start_way(const Domain& domain, D3 p, Way& way) {
    const double full = (double)(1u << SDF_LATTICE_BITS), last = full - 1.0;
    D3 unit = vec((p.x - domain.x) / domain.length, (p.y - domain.y) / domain.length, (p.z - domain.z) / domain.length);
    D3 inside = vec(clamp01(unit.x), clamp01(unit.y), clamp01(unit.z)), u = full * inside;
    way.unit = unit;
    way.inside = inside;
    way.cell.x = (u32)(int)min_of(u.x, last);
    way.cell.y = (u32)(int)min_of(u.y, last);
    way.cell.z = (u32)(int)min_of(u.z, last);
    way.shift = SDF_TOP_SHIFT;
}
FN const u32* top_entry(const LeafTree& tree, const Way& way) {
    u32 x = way.cell.x >> SDF_TOP_SHIFT, y = way.cell.y >> SDF_TOP_SHIFT, z = way.cell.z >> SDF_TOP_SHIFT;
    return tree.top + (x | y << SDF_TOP_LEVEL | z << 2 * SDF_TOP_LEVEL);
}
FN void step_down(const LeafTree& tree, Way& way) {
    u32 s = --way.shift, octant = (way.cell.x >> s & 1u) | (way.cell.y >> s & 1u) << 1 | (way.cell.z >> s & 1u) << 2;
    way.entry = tree.child[8 * (size_t)way.entry + octant];
}
FN void go_down(const LeafTree& tree, Way& way) {
    way.entry = *top_entry(tree, way);
    while (!at_leaf(way)) step_down(tree, way);
}

// For a point's leaf: SDF_LATTICE_BITS less its level, and its lowest corner on the lattice.
FN u32 leaf_shift(const Sampler& field, const Way& way) {
    return way.shift == SDF_TOP_SHIFT ? SDF_LATTICE_BITS - field.leaf_level[leaf_of(way)] : way.shift;
}
FN D3 leaf_low(const Way& way, u32 s) {
    return vec((double)(way.cell.x >> s << s), (double)(way.cell.y >> s << s), (double)(way.cell.z >> s << s));
}

// The field at a point. Outside the domain this is the value at the nearest domain point plus the distance to that
// point: an upper bound on the true distance.
struct FieldPoint {
    double inside;  // value at the nearest domain point
    double beyond;  // distance to that point: 0 in the domain
};

// Evaluates a point that has reached its leaf. gradient may be null.
FN FieldPoint at_point(const Sampler& field, const Way& way, double* gradient) {
    u32 leaf = leaf_of(way), s = leaf_shift(field, way);
    const double full = (double)(1u << SDF_LATTICE_BITS), cells = (double)(1u << (SDF_LATTICE_BITS - s));
    D3 low = leaf_low(way, s);
    D3 t = (cells / full) * (full * way.inside - low);  // 0 to 1 in the leaf; exact, as the factors are powers of two
    D3 outwards = way.unit - way.inside;
    double v[8];
    for (int c = 0; c < 8; c++) v[c] = (double)field.leaf_value[8 * (size_t)leaf + c];
    double far_sq = dot(outwards, outwards), far = far_sq > 0.0 ? sqrt(far_sq) : 0.0;
    if (!(far_sq > 1e-300 && far_sq < 1e300)) {  // squares beyond double's range
        double m = max_of(max_of(max_of(outwards.x, -outwards.x), max_of(outwards.y, -outwards.y)),
                          max_of(outwards.z, -outwards.z));
        if (m > 0.0) {
            D3 part = vec(outwards.x / m, outwards.y / m, outwards.z / m);
            far = m * sqrt(dot(part, part));
        }
    }
    FieldPoint found = {trilinear(v, t), far * field.domain.length};
    if (!gradient) return found;
    double scale = cells / field.domain.length;
    double slope[3] = {0.0, 0.0, 0.0}, along[3] = {t.x, t.y, t.z};
    double beyond[3] = {outwards.x, outwards.y, outwards.z};
    for (int axis = 0; axis < 3; axis++)
        for (int c = 0; c < 8; c++) {
            if (c >> axis & 1) continue;
            double weight = 1.0;  // of one of the four edges along the axis
            for (int other = 0; other < 3; other++)
                if (other != axis) weight *= c >> other & 1 ? along[other] : 1.0 - along[other];
            slope[axis] += weight * (v[c | 1 << axis] - v[c]);
        }
    for (int k = 0; k < 3; k++) gradient[k] = beyond[k] != 0.0 ? beyond[k] / far : slope[k] * scale;
    return found;
}

FN Way way_to_leaf(const Sampler& field, D3 p) {
    Way way;
    start_way(field.domain, p, way);
    go_down(field.tree, way);
    return way;
}

// Signed distance at a point, negative inside. p in the mesh's units, finite; gradient: three numbers, or null.
FN double sdf_sample(const Sampler& field, D3 p, double* gradient) {
    FieldPoint found = at_point(field, way_to_leaf(field, p), gradient);
    return found.inside + found.beyond;
}

#endif
