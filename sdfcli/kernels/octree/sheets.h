// Sheets: thin walls and thin gaps with both sides in one cell.
//
// INTERFACE
//   SDF_SHEET_SHARE, SDF_SHEET_EDGE  limits for a cell with both sides
//   near_surface, sheet_width        whether the surface may lie in a cell; thickness of its thinnest sheet
//   sdf_octree_sheets                this thickness for new cells
//   sdf_octree_sheet_points, sdf_octree_sheet_neighbours  points with more finely rounded values
#ifndef SDFCLI_OCTREE_SHEETS_H
#define SDFCLI_OCTREE_SHEETS_H
#include "base/kernel.h"
#include "octree/gradient.h"

// As fractions of a sheet's thickness: the maximum field error in a cell with both sides, and the maximum edge of such
// a cell, so that along the lattice's axes no cell contains a side and the medial surface, where the distance turns
// round (docs/concepts/accuracy.md).
#define SDF_SHEET_SHARE 0.22f
#define SDF_SHEET_EDGE 0.5f

// Whether the surface may lie in a cell: a corner's distance is at most the cell's diagonal.
FN bool near_surface(const float* corner, float edge) {
    float nearest = abs_of(corner[0]);
    for (int c = 1; c < 8; c++) nearest = min_of(nearest, abs_of(corner[c]));
    return nearest <= 1.74f * edge;
}

// Thickness of the thinnest sheet, a wall or a gap, with both sides in a cell: if the gradients at an edge's ends
// oppose each other, the ends' nearest surface points lie on either side of a sheet. The width between them is positive
// across a wall and negative across a gap. Ignored, as without effect on the surface: walls in cells entirely inside
// them, gaps likewise (unless `everywhere`), and wide sheets. Sheets thinner than thin_least are not kept.
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

// Thickness of sheets in new cells.
struct sdf_octree_sheets_args {
    u32 n;      // new cells
    u32 first;  // index of the first
    Level own, above;
    Points points;
    Limits allowed;
    float* width;  // [n] out: thickness of the cell's thinnest sheet; 3e38: none
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

// Points with more finely rounded values, as they determine a sheet's thickness: the corners of leaves that contain its
// middle, and in two more passes the corners of surrounding leaves, whose edges are at most half of the sheet's
// thickness and not much below a fifth. The last pass is restricted to leaves crossed by the surface. Bit k: a step
// halved k times; the highest bit counts.
struct sdf_octree_sheet_points_args {
    u32 n;  // cells, of which leaves are tested
    AllLevels octree;
    Points points;
    Limits allowed;
    float step;   // rounding step elsewhere, in domain edges
    float share;  // maximum step around a sheet, as a fraction of its thickness
    u32 parts;    // maximum parts of a step, a power of two
    u32* fine;    // [points] in and out, bits: halvings of the step
    u8* halved;   // [1] in and out, 0 before: whether any step is halved
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

struct sdf_octree_sheet_neighbours_args {
    u32 n;  // cells, of which leaves are tested
    AllLevels octree;
    const float* distance;  // [points] signed
    u32 on_surface;         // whether only leaves crossed by the surface count
    const u32* before;      // [points]
    u32* fine;              // [points] in and out: at first a copy of `before`
};
SDF_KERNEL(sdf_octree_sheet_neighbours, PLAIN, i) {
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
