// Tests for opening and splitting cells: Frisken's (2000), made tighter.
//
// INTERFACE
//   sdf_octree_screen   tests new cells by their corners
//   sdf_octree_probe    the centres of undecided cells
//   sdf_octree_probed   tests these cells by the distance at the centre
//   sdf_octree_peek     tests closed cells by points of their neighbours; peek_around: for a team
//   sdf_octree_test     tests opened cells by all 27 points; test_cell: for a team
#ifndef SDFCLI_OCTREE_REFINE_H
#define SDFCLI_OCTREE_REFINE_H
#include "base/kernel.h"
#include "octree/error.h"

// As fractions of the allowed error: maximum bend for a new cell to stay a leaf untested; minimum error at one point
// that indicates larger errors elsewhere in a cell with more bend.
#define SDF_STRAIGHT 0.5f
#define SDF_DOUBTFUL 0.625f

// First test of a new cell, by its corners: may it stay a leaf untested? A large bend predicted by the gradients opens
// the cell, a small one leaves it closed; in between, the centre is queried. Cells with both sides of a sheet are
// opened or left closed, without a query.
struct sdf_octree_screen_args {
    u32 n;      // new cells
    u32 first;  // index of the first
    Level own, above;
    Points points;
    Limits allowed;
    u32 thin_only;  // whether only sheets are split on this level
    u8* verdict;    // [n] out: 0: leaf, 1: open, 2: probe
};
SDF_KERNEL(sdf_octree_screen, SIMD, i) {
    u32 cell = a.first + i, point[8];
    corners_of(a.own, a.above, cell, point);
    float corner[8], gradient[24], nearest = 3.402823466e38f;
    for (int c = 0; c < 8; c++) {
        corner[c] = a.points.distance[point[c]];
        nearest = min_of(nearest, abs_of(corner[c]));
    }
    corner_gradients(a.own, a.points, cell, point, gradient);
    float edge = 1.f / (float)(1u << a.own.level),
          allowed = allowed_error(nearest, a.allowed.tolerance, a.allowed.band);
    float bent = bend(edge, [&](int c, int axis) { return gradient[3 * c + axis]; });
    float width = sheet_width(a.allowed, corner, edge, [&](int c) { return load3(gradient + 3 * c); });
    u8 verdict = 2;
    if (edge > SDF_SHEET_EDGE * width) {
        verdict = 1;
    } else if (SDF_SHEET_SHARE * width < allowed) {
        verdict = bent > SDF_STRAIGHT * SDF_SHEET_SHARE * width;
    } else if (a.thin_only) {
        verdict = 0;
    } else if (bent > allowed || corners_jump(corner, edge) ||
               misses_surface(a.own, a.points, a.allowed.tolerance, cell, corner)) {
        verdict = 1;
    } else if (bent <= SDF_STRAIGHT * allowed) {
        verdict = 0;
    }
    a.verdict[i] = verdict;
}

// Centres of cells to probe.
struct sdf_octree_probe_args {
    u32 n;
    const u32* cells;  // [n] to probe
    Level own, above;
    const u32* slot;  // [points] nearest triangle
    u32 seeds;        // maximum per centre
    float* position;  // [n, 3] out: the centre
    u32* seed;        // [n, seeds] out: terminated by SDF_NONE
};
SDF_KERNEL(sdf_octree_probe, PLAIN, i) {
    u32 cell = a.cells[i];
    place_point(
        a.own.level, morton_decode(key_of(a.own, cell)), [&](int c) { return corner_of(a.own, a.above, cell, c); },
        SDF_CENTRE, a.slot, a.seeds, a.position + 3 * (size_t)i, a.seed + a.seeds * (size_t)i);
}

// Second test, by the distance at a cell's centre. Its sign is not needed: a wrong sign would require a field error of
// twice the distance without any bend.
struct sdf_octree_probed_args {
    u32 n;
    u32 first;         // index of the first new cell
    const u32* cells;  // [n] probed
    Level own, above;
    Points points;
    Limits allowed;
    const float* centre;  // [n] unsigned distance of the centre
    u8* verdict;          // [new cells] out: 1: open
};
SDF_KERNEL(sdf_octree_probed, PLAIN, i) {
    u32 cell = a.cells[i], point[8];
    corners_of(a.own, a.above, cell, point);
    float corner[8], centre = a.centre[i], nearest = centre;
    for (int c = 0; c < 8; c++) {
        corner[c] = a.points.distance[point[c]];
        nearest = min_of(nearest, abs_of(corner[c]));
    }
    float miss = abs_of(abs_of(middle(corner)) - centre);
    a.verdict[cell - a.first] = miss > SDF_DOUBTFUL * allowed_error(nearest, a.allowed.tolerance, a.allowed.band);
}

// Third test, for cells still closed, by points shared with opened neighbours.
struct sdf_octree_peek_args {
    u32 n;      // new cells, of which closed ones are tested
    u32 first;  // index of the first
    Level own, above;
    Points points;
    Limits allowed;
    u8* verdict;  // [n] out: 1: open
};
template <class Team>
FN void peek_around(const sdf_octree_peek_args& a, u32 i, Neighbours& around, const Team& team) {
    u32 cell = a.first + i, row[27], point[8], opened = 0;
    float corner[8], value[27], error = 0.f;
    if (a.own.state[cell] == CLOSED) {
        neighbours_of(a.own, a.above, cell, around, team);
        UNROLL
        for (int k = team.first(); k < 27; k += Team::THREADS) opened |= (u32)(around.state[k] >= OPENED) << k;
        opened = team.all(opened);
    }
    if (opened) {
        corners_of(a.own, a.above, cell, point);
        for (int c = 0; c < 8; c++) corner[c] = a.points.distance[point[c]];
        if (Team::THREADS == 1) interpolate(corner, value);
        UNROLL
        for (int k = team.first(); k < 27; k += Team::THREADS)
            row[team.at(k)] = opened >> k & 1u ? a.own.row[around.cell[k]] : SDF_NONE;
        UNROLL
        for (int k = team.first(); k < 27; k += Team::THREADS) {
            u32 own_row = row[team.at(k)];
            if (own_row == SDF_NONE) continue;
            const u32* points = a.own.points + 27 * (size_t)own_row;
            each_shared(k, [&](int j, int there) {
                float d = a.points.distance[points[there]], v = Team::THREADS == 1 ? value[j] : interpolated(corner, j);
                error = max_of(error, abs_of(v - d) / allowed_error(d, a.allowed.tolerance, a.allowed.band));
            });
        }
        error = team.most(error);
    }
    bool opens = error > 1.f;
    if (!opens && error > SDF_DOUBTFUL) opens = bend_of(a.own, a.points, a.allowed, cell, point) > SDF_STRAIGHT;
    if (team.first() == 0) a.verdict[i] = opens;
}
SDF_KERNEL(sdf_octree_peek, SIMD, i) {
    Neighbours around;
    peek_around(a, i, around, Alone());
}

// Frisken's test (2000), made tighter: selects opened cells to split, with the cause. A cell stays a leaf where the
// sign jumps. With a.thin_only, the tolerance's finest level is reached.
struct sdf_octree_test_args {
    u32 n;            // rows
    u32 first;        // the first, if consecutive
    const u32* rows;  // [n] may be null
    Level own;
    Points points;
    Limits allowed;
    u32 thin_only;      // whether only sheets are split on this level
    float jump_edge;    // cells with at most this edge are not split at a sign jump
    u8* split_request;  // [cells] out: the Cause of cells to split
    u8* state;          // [cells] out: JUMP where the sign jumps; may be null
};
template <class Team>
FN void test_cell(const sdf_octree_test_args& a, u32 i, PointErrors& m, const Team& team) {
    u32 row = a.rows ? a.rows[i] : a.first + i, cell = a.own.cell[row];
    const u32* point = a.own.points + 27 * (size_t)row;
    float corner[8], edge = 1.f / (float)(1u << a.own.level);
    team.meet();  // before overwriting the previous cell's data
    for (int j = team.first(); j < 27; j += Team::THREADS) m.distance[j] = a.points.distance[point[j]];
    team.meet();
    for (int c = 0; c < 8; c++) corner[c] = m.distance[corner_point(c)];
    CellError error = largest_error(a.own, a.points, a.allowed, cell, point, corner, m, team);
    Cause cause = NOT_SPLIT;
    if (!a.thin_only) {
        if (error.tolerance > 1.f)
            cause = error.at_point ? BY_ERROR : BY_BEND;
        else if (misses_surface(a.own, a.points, a.allowed.tolerance, cell, corner, team))
            cause = BY_SURFACE;
    }
    if (cause == NOT_SPLIT) {
        if (error.sheet <= 1.f && edge <= SDF_SHEET_EDGE * error.width) return;
        cause = BY_SHEET;
    }
    bool splits = edge > a.jump_edge || !holds_jump(m.distance, 0.5f * edge, team);
    if (team.first() > 0) return;
    if (splits)
        request_split(a.split_request + cell, cause);
    else if (a.state)
        a.state[cell] = JUMP;
}
SDF_KERNEL(sdf_octree_test, SIMD, i) {
    PointErrors of_points;
    test_cell(a, i, of_points, Alone());
}

#endif
