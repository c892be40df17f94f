// Neighbours of different size: they differ by one level at most, and the field is continuous between them.
//
// INTERFACE
//   sdf_octree_balance    selects cells to split, and to open first, and requests coarser neighbours' splits
//   sdf_octree_constrain  sets hanging corners to the coarser leaf's value, where it may have changed
//   sdf_octree_tighten    requests splits of leaves that move their neighbours' corners too far
#ifndef SDFCLI_OCTREE_BALANCE_H
#define SDFCLI_OCTREE_BALANCE_H
#include "base/kernel.h"
#include "octree/error.h"

// Flags a level's cells to split: requested, without children yet. Flag 2: the cell must be opened first. Its parent's
// neighbours without children get a request, too: otherwise its own neighbours would be two levels coarser than its
// children. The flag after the last cell's is 3 if any such request was made.
struct sdf_octree_balance_args {
    u32 n;             // cells of a level
    Level own, above;  // above: split_request is out; null: no balance
    u8* flag;          // [n + 1] in and out: first 0
};
SDF_KERNEL(sdf_octree_balance, PLAIN, i) {
    if (!a.own.split_request[i] || a.own.state[i] == SPLIT) return;
    a.flag[i] = a.own.state[i] == CLOSED ? 2 : 1;
    if (!a.above.split_request) return;
    for (u32 sides = 1; sides < 8; sides++) {
        u32 other = neighbour_of_parent(a.own, a.above, i, sides, i & 7u);
        if (other >= SDF_OUTSIDE || a.above.state[other] == SPLIT) continue;
        request_split(a.above.split_request + other, BY_BALANCE);
        store_relaxed(a.flag + a.n, (u8)3);
    }
}

// Points at the centre of a split cell's edge or face shared with a leaf ("hanging") take the leaf's interpolated
// value, which follows from shared corners, so that the field has no cracks. Only stale families are processed; the
// families of their cells' children become stale, too.
struct sdf_octree_constrain_args {
    u32 n;                    // families on the level below: split cells
    Level own, above, below;  // below: stale is in and out
    u8* stale_below;          // [families two levels below] out; null below the finest
    const float* distance;    // [points] signed
    float* value;             // [points] in and out: the field's value
    u8* hanging;              // [points] in and out: 1 for points with a leaf's value
};
SDF_KERNEL(sdf_octree_constrain, PLAIN, i) {
    a.below.stale[i] = a.below.stale[i] == STALE ? RENEWED : SETTLED;
    if (a.below.stale[i] == SETTLED) return;
    for (u32 c = 8 * i; c < 8 * i + 8; c++) {
        u32 row = a.below.row[c], family = row == SDF_NONE ? SDF_NONE : a.below.child[row];
        if (family != SDF_NONE) a.stale_below[family] = STALE;
    }
    u32 cell = a.below.parent[i], hangs = 0;
    Neighbours around;
    float corner[8], value[27];
    const u32* points = a.own.points + 27 * (size_t)a.own.row[cell];
    for (int c = 0; c < 8; c++) corner[c] = a.value[points[corner_point(c)]];
    interpolate(corner, value);
    neighbours_of(a.own, a.above, cell, around, Alone());
    UNROLL
    for (int k = 0; k < 27; k++) {
        if (around.cell[k] >= SDF_OUTSIDE || around.state[k] == SPLIT) continue;
        each_shared(k, [&](int j, int) { hangs |= 1u << j; });
    }
    UNROLL
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        bool takes = hangs >> j & 1u;
        store_relaxed(a.value + points[j], takes ? value[j] : a.distance[points[j]]);
        store_relaxed(a.hanging + points[j], (u8)takes);
    }
}

#define SDF_MOVED \
    1.1f  // maximum error including the effect of hanging corners, in units of the tests' share of the tolerance

// Tests leaves of renewed families with moved hanging corners: if the field now misses the true distance by more than
// the tolerance, splits are requested for the coarser leaves that move the corners moved most. They are neighbours of
// the leaf's parent, as touching leaves differ by one level at most.
struct sdf_octree_tighten_args {
    u32 n;             // cells, of which leaves are tested
    u32 first;         // index of the first
    AllLevels octree;  // split_request is out
    Points points;
    Limits allowed;
    const float* value;  // [points]
    const u8* hanging;   // [points]
    u8* any;             // [levels] out: 1 for a level with requests
};
SDF_KERNEL(sdf_octree_tighten, SIMD, i) {
    CellOfAll of = cell_of(a.octree, a.first + i);
    const Level &own = of.own, &above = of.above;
    u32 cell = of.cell, at[8];
    if (own.stale[cell >> 3] != RENEWED || own.state[cell] >= JUMP) return;
    corners_of(own, above, cell, at);
    float corner[8], move[8], moved = 0.f;
    for (int c = 0; c < 8; c++) {
        move[c] = 0.f;
        if (!a.hanging[at[c]]) continue;
        float d = a.points.distance[at[c]];
        move[c] = abs_of(a.value[at[c]] - d) / allowed_error(d, a.allowed.tolerance, a.allowed.band);
        moved = max_of(moved, move[c]);
    }
    if (moved == 0.f) return;
    if (moved <= 1.f) {
        if (own.row[cell] == SDF_NONE) return;
        const u32* point = own.points + 27 * (size_t)own.row[cell];
        PointErrors of_points;
        for (int j = 0; j < 27; j++) of_points.distance[j] = a.points.distance[point[j]];
        for (int c = 0; c < 8; c++) corner[c] = a.value[at[c]];
        CellError error = largest_error(own, a.points, a.allowed, cell, point, corner, of_points, Alone());
        if (max_of(error.tolerance, error.sheet) / SDF_MOVED <= 1.f) return;
    }
    for (int c = 0; c < 8; c++) {
        if (move[c] < 0.5f * moved) continue;
        Offset o = offset_of(octant_point((int)(cell & 7u)) + octant_point(c));
        for (int z = o.z == 0 ? 0 : 1; z <= (o.z == 2 ? 2 : 1); z++)
            for (int y = o.y == 0 ? 0 : 1; y <= (o.y == 2 ? 2 : 1); y++)
                for (int x = o.x == 0 ? 0 : 1; x <= (o.x == 2 ? 2 : 1); x++) {
                    int k = index_of(x, y, z);
                    u32 other = neighbour_of_parent(own, above, cell, sides_of(k), toward(k));
                    if (other >= SDF_OUTSIDE || above.state[other] >= JUMP) continue;
                    request_split(above.split_request + other, BY_HANGING);
                    store_relaxed(a.any + above.level, (u8)1);
                }
    }
}

#endif
