// Neighbours of different size: they differ by one level, and the field is continuous where they meet.
//
// INTERFACE
//   sdf_octree_balance    which cells are split, opened first, or wait for a coarser neighbour
//   sdf_octree_constrain  hanging corners take the coarser leaf's value
//   sdf_octree_tighten    leaves that move their neighbours' corners too far ask to be split
#ifndef SDFCLI_OCTREE_BALANCE_H
#define SDFCLI_OCTREE_BALANCE_H
#include "octree/error.h"

// Which cells of a level are to be split: those that are asked for and have no children yet. The flag is 2 for one that
// has to be opened first. Neighbours of its parent that have no children are asked for, too: its own neighbours would
// otherwise be two levels coarser than its children. The flag behind the last is 3 if there are any.
FN void sdf_octree_balance_at(const sdf_octree_balance_args& a, u32 i) {
    if (!a.asked[i] || a.state[i] == SPLIT) return;
    a.flag[i] = a.state[i] == CLOSED ? 2 : 1;
    if (!a.above_asked) return;
    for (u32 sides = 1; sides < 8; sides++) {
        u32 other = neighbour_of_parent(a, i, sides, i & 7u);
        if (other >= SDF_OUTSIDE || a.above_state[other] == SPLIT) continue;
        store_shared(a.above_asked + other, (u8)1);
        store_shared(a.flag + a.n, (u8)3);
    }
}

// Points in the middle of a leaf's edge or face that finer neighbours use as corners ("hanging") take the leaf's
// interpolated value, so that the field has no cracks.
FN void sdf_octree_constrain_at(const sdf_octree_constrain_args& a, u32 cell) {
    if (!a.meets_finer[cell] || a.state[cell] == SPLIT) return;
    u32 point[8], family[8], neighbour[27];
    float corner[8], value[27];
    corners_of(a, cell, point);
    for (int c = 0; c < 8; c++) corner[c] = a.value[point[c]];
    interpolate(corner, value);
    neighbours_of(a, cell, family, neighbour);
    UNROLL
    for (int k = 0; k < 27; k++) {
        u32 finer = neighbour[k];
        if (finer >= SDF_OUTSIDE || a.state[finer] != SPLIT) continue;
        const u32* points = a.points + 27 * (size_t)a.row[finer];
        each_shared(k, [&](int j, int there) {
            store_shared(a.value + points[there], value[j]);
            store_shared(a.hanging + points[there], (u8)1);
        });
    }
}

#define SDF_MOVED \
    1.1f  // so much of the tests' share of the tolerance may errors take up when hanging corners add to them

// A leaf whose hanging corners were moved: where its field now misses the true distance by more than the tolerance, the
// coarser leaves that move the corners moved most wish to be split. They are neighbours of the leaf's parent: leaves
// that touch differ by one level.
FN void sdf_octree_tighten_at(const sdf_octree_tighten_args& a, u32 cell) {
    u32 at[8];
    if (a.state[cell] >= JUMP) return;
    corners_of(a, cell, at);
    float corner[8], move[8], moved = 0.f;
    for (int c = 0; c < 8; c++) {
        move[c] = 0.f;
        if (!a.hanging[at[c]]) continue;
        float d = a.distance[at[c]];
        move[c] = magnitude(a.value[at[c]] - d) / allowed_error(d, a.tolerance, a.band);
        moved = most(moved, move[c]);
    }
    if (moved == 0.f) return;
    if (moved <= 1.f) {
        if (a.row[cell] == SDF_NONE) return;
        const u32* point = a.points + 27 * (size_t)a.row[cell];
        float distance[27], value[27];
        for (int j = 0; j < 27; j++) distance[j] = a.distance[point[j]];
        for (int c = 0; c < 8; c++) corner[c] = a.value[at[c]];
        interpolate(corner, value);
        CellError error = largest_error(a, cell, point, distance, value);
        if (most(error.tolerance, error.sheet) / SDF_MOVED <= 1.f) return;
    }
    for (int c = 0; c < 8; c++) {
        if (move[c] < 0.5f * moved) continue;
        Offset o = offset_of(octant_point((int)(cell & 7u)) + octant_point(c));
        for (int z = o.z == 0 ? 0 : 1; z <= (o.z == 2 ? 2 : 1); z++)
            for (int y = o.y == 0 ? 0 : 1; y <= (o.y == 2 ? 2 : 1); y++)
                for (int x = o.x == 0 ? 0 : 1; x <= (o.x == 2 ? 2 : 1); x++) {
                    int k = index_of(x, y, z);
                    u32 other = neighbour_of_parent(a, cell, sides_of(k), toward(k));
                    if (other >= SDF_OUTSIDE || a.above_state[other] >= JUMP) continue;
                    store_shared(a.above_asked + other, (u8)1);
                    store_shared(a.any, (u8)1);
                }
    }
}

#endif
