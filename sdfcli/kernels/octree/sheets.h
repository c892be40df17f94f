// Sheets: thin walls, and thin gaps, of which a cell has both sides.
//
// INTERFACE
//   SDF_SHEET_SHARE, SDF_SHEET_EDGE  what a cell with both sides has to keep
//   near_surface, sheet_width        whether the surface may lie in a cell; how thin the thinnest sheet in it is
//   sdf_octree_sheets                that thickness for new cells
//   sdf_octree_sheet_points, sdf_octree_beside_sheets  points whose values are rounded more finely
#ifndef SDFCLI_OCTREE_SHEETS_H
#define SDFCLI_OCTREE_SHEETS_H
#include "base/kernel.h"
#include "octree/gradient.h"

// Of a sheet's thickness, the part by which the field may err in a cell with both of its sides, and the largest edge of
// such a cell: along the lattice's axes none then holds a side and the middle, where the distance turns round.
// (docs/concepts/accuracy.md).
#define SDF_SHEET_SHARE 0.22f
#define SDF_SHEET_EDGE 0.5f

// Whether the surface may lie in a cell: a corner is no farther from it than the cell's diagonal.
FN bool near_surface(const float* corner, float edge) {
    float nearest = abs_of(corner[0]);
    for (int c = 1; c < 8; c++) nearest = min_of(nearest, abs_of(corner[c]));
    return nearest <= 1.74f * edge;
}

// The thickness of the thinnest sheet, a wall or a gap, of which a cell has both sides: where the gradients at the ends
// of an edge oppose each other, the points of the surface nearest to these lie on either side of it. The width between
// these is positive across a wall and negative across a gap. Without effect on the surface, and passed over, are walls
// in cells that lie within them, and gaps likewise, and wide ones; sheets thinner than thin_least are given up. Where
// `everywhere`, they are not passed over.
template <class Gradient, class Team = Alone>
FN float sheet_width(const Limits& allowed, const float* corner, float edge, const Gradient& gradient,
                     bool everywhere = false, const Team& team = Team()) {
    float thinnest = SDF_NO_SHEET;
    int inside = 0;
    for (int c = 0; c < 8; c++) inside += corner[c] < 0.f;
    if (!near_surface(corner, edge)) return thinnest;
    for (int k = team.first(); k < 24; k += Team::THREADS) {
        int axis = k / 8, c = k % 8, e = c | 1 << axis;
        if (e == c) continue;
        F3 g = gradient(c), h = gradient(e);
        if (dot(g, h) > SDF_OPPOSED) continue;
        F3 way = vec(axis == 0 ? edge : 0.f, axis == 1 ? edge : 0.f, axis == 2 ? edge : 0.f), between = g - h;
        float width = dot(corner[e] * h - corner[c] * g - way, between) / sqrtf(dot(between, between));
        if ((!everywhere && inside == (width > 0.f ? 8 : 0)) || abs_of(width) < allowed.thin_least) continue;
        thinnest = min_of(thinnest, abs_of(width));
    }
    thinnest = team.least(thinnest);
    return thinnest > SDF_SHEET_WIDEST * allowed.tolerance ? SDF_NO_SHEET : thinnest;
}

// How thin the sheets in new cells are.
struct sdf_octree_sheets_args {
    u32 n;      // new cells
    u32 first;  // number of the first
    Level own, above;
    Points points;
    Limits allowed;
    float* width;  // [n] out: of the thinnest sheet in the cell, 3e38 for none
    u8* thin;      // [n] out: whether there is one
};
SDF_KERNEL(sdf_octree_sheets, PLAIN, i) {
    u32 cell = a.first + i, point[8];
    corners_of(a.own, a.above, cell, point);
    float corner[8], gradient[24];
    for (int c = 0; c < 8; c++) corner[c] = a.points.distance[point[c]];
    corner_gradients(a.own, a.points, cell, point, gradient);
    float edge = 1.f / (float)(1u << a.own.level);
    a.width[i] = sheet_width(a.allowed, corner, edge, [&](int c) { return load3(gradient + 3 * c); });
    a.thin[i] = a.width[i] < SDF_NO_SHEET;
}

// The points whose values are rounded more finely, for a sheet's thickness hangs on them: the corners of leaves with
// its middle, and in two more passes those of leaves around: these are no larger than half of the sheet, and not much
// smaller than a fifth. The last pass takes only those through which the surface passes. Bit k stands for a step halved
// k times; the highest counts.
struct sdf_octree_sheet_points_args {
    u32 n;  // cells, of which leaves are looked at
    AllLevels octree;
    Points points;
    Limits allowed;
    float step;   // to which distances are rounded elsewhere, in edges of the domain
    float share;  // of a sheet's thickness: steps are no larger around it
    u32 parts;    // of a step at most, a power of two
    u32* fine;    // [points] in and out, bits: how often the step is halved
    u8* halved;   // [1] in and out, 0 before: whether it is halved anywhere
};
SDF_KERNEL(sdf_octree_sheet_points, PLAIN, i) {
    CellOfAll at = cell_of(a.octree, i);
    if (at.own.state[at.cell] == SPLIT) return;
    u32 point[8], halvings = 0;
    float corner[8], gradient[24], edge = 1.f / (float)(1u << at.own.level);
    corners_of(at.own, at.above, at.cell, point);
    for (int c = 0; c < 8; c++) corner[c] = a.points.distance[point[c]];
    if (!near_surface(corner, edge)) return;
    corner_gradients(at.own, a.points, at.cell, point, gradient);
    float width = sheet_width(a.allowed, corner, edge, [&](int c) { return load3(gradient + 3 * c); }, true);
    for (float step = a.step; step > a.share * width && 1u << halvings < a.parts; step *= 0.5f) halvings++;
    if (halvings == 0) return;
    store_relaxed(a.halved, (u8)1);
    for (int c = 0; c < 8; c++) atomic_or(a.fine + point[c], 1u << halvings);
}

struct sdf_octree_beside_sheets_args {
    u32 n;  // cells, of which leaves are looked at
    AllLevels octree;
    const float* distance;  // [points] signed
    u32 on_surface;         // whether only leaves count through which the surface passes
    const u32* before;      // [points]
    u32* fine;              // [points] in and out: at first as before
};
SDF_KERNEL(sdf_octree_beside_sheets, PLAIN, i) {
    CellOfAll at = cell_of(a.octree, i);
    if (at.own.state[at.cell] == SPLIT) return;
    u32 point[8], inside = 0, bits = 0;
    corners_of(at.own, at.above, at.cell, point);
    for (int c = 0; c < 8; c++) {
        bits |= a.before[point[c]];
        inside += float_bits(a.distance[point[c]]) >> 31;
    }
    if (bits == 0 || (a.on_surface && inside % 8 == 0)) return;
    for (int c = 0; c < 8; c++) atomic_or(a.fine + point[c], bits);
}

#endif
