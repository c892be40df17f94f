// Splitting and opening cells, and creating and measuring their new points.
//
// INTERFACE
//   sdf_octree_children  creates the families of split cells
//   sdf_octree_link_children    links the families to the neighbours' children
//   sdf_octree_opening   creates the rows of opening cells
//   sdf_octree_own       the points owned by opening cells; own_points: for a team
//   sdf_octree_points    numbers their points and creates the owned ones
//   sdf_octree_keys      the points' keys on the lattice
//   sdf_octree_measured  signed distances, and gradients if stored
#ifndef SDFCLI_OCTREE_OPEN_H
#define SDFCLI_OCTREE_OPEN_H
#include "base/kernel.h"
#include "octree/gradient.h"
#include "sign/propagate.h"
#include "sign/pseudonormal.h"

// Splits cells: a cell's children become a family.
struct sdf_octree_children_args {
    u32 n;             // cells to split
    u32 first;         // index of the first new family
    const u32* cells;  // [n]
    Level own, below;
};
SDF_KERNEL(sdf_octree_children, PLAIN, i) {
    u32 cell = a.cells[i], family = a.first + i, own_row = a.own.row[cell];
    a.own.state[cell] = SPLIT;
    store_relaxed(a.own.child + own_row, family);
    a.below.parent[family] = cell;
    a.below.key[family] = key_of(a.own, cell);
    for (u32 c = 8 * family; c < 8 * family + 8; c++) {
        a.below.row[c] = SDF_NONE;
        a.below.state[c] = CLOSED;
        a.below.split_request[c] = NOT_SPLIT;
    }
    a.below.stale[family] = STALE;
}

// If a neighbour's children are older than a split cell's, the opened ones among them are linked to the new family. The
// field may change in both and in their descendants, but no farther, as dependants of a cell's points touch it and
// their size is halved from level to level. One thread per neighbour: sequential loads would wait for memory.
struct sdf_octree_link_children_args {
    u32 n;             // 27 x cells to split
    u32 first;         // index of the first new family
    const u32* cells;  // [ceil(n / 27)]
    Level own, below;
};
SDF_KERNEL(sdf_octree_link_children, PLAIN, i) {
    u32 cell = a.cells[i / 27], family = a.first + i / 27, own_row = a.own.row[cell];
    int k = (int)(i % 27);
    u32 sides = sides_of(k), other = neighbour_across(a.own.around + 8 * (size_t)own_row, cell & 7u, sides, toward(k));
    if (other >= SDF_OUTSIDE || k == SDF_CENTRE) return;
    u32 other_row = a.own.row[other], older = other_row == SDF_NONE ? SDF_NONE : load_relaxed(a.own.child + other_row);
    if (older >= a.first) return;
    store_relaxed(a.below.stale + older, (u8)STALE);
    u32 row[8];
    UNROLL
    for (u32 q = 0; q < 8; q++) row[q] = a.below.row[8 * older + q];
    for (u32 q = 0; q < 8; q++) {
        bool touches = (q & sides) == (sides & ~toward(k));
        if (touches && row[q] != SDF_NONE) a.below.around[8 * (size_t)row[q] + sides] = family;
    }
}

// Starts opening cells: each gets a row.
struct sdf_octree_opening_args {
    u32 n;             // cells to open
    u32 first;         // row of the first
    const u32* cells;  // [n]
    Level own;
};
SDF_KERNEL(sdf_octree_opening, PLAIN, i) {
    u32 cell = a.cells[i], row = a.first + i;
    a.own.row[cell] = row;
    a.own.state[cell] = OPENING;
    a.own.cell[row] = cell;
    a.own.child[row] = SDF_NONE;
}

// Points owned by opening cells: a bit mask and a count. Points of other opened or opening cells are borrowed.
struct sdf_octree_own_args {
    u32 n;             // cells to open
    u32 first;         // row of the first
    const u32* cells;  // [n]
    Level own, above;  // out: around, and points; other opening cells' points as indices in their list
    u32* mask;         // [n] out: the points owned by each cell
    u32* lent;         // [n] out: the points owned by other opening cells
    u32* count;        // [n] out: number of owned points
};
template <class Team>
FN void own_points(const sdf_octree_own_args& a, u32 i, Neighbours& around, const Team& team) {
    u32 cell = a.cells[i], mask = 0, lent = 0, older = 0, owner[27], place[27];
    neighbours_of(a.own, a.above, cell, around, team);
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS) {
        if (is_corner(j)) continue;
        Offset o = offset_of(j);
        u32 best = cell;
        int there = j;
        bool opened = false;
        int x0 = o.x == 0 ? -1 : 0, x1 = o.x == 2 ? 1 : 0, y0 = o.y == 0 ? -1 : 0, y1 = o.y == 2 ? 1 : 0;
        int z0 = o.z == 0 ? -1 : 0, z1 = o.z == 2 ? 1 : 0;
        for (int z = z0; z <= z1; z++)
            for (int y = y0; y <= y1; y++)
                for (int x = x0; x <= x1; x++) {
                    int k = index_of(x + 1, y + 1, z + 1);
                    u32 other = around.cell[k], state = around.state[k];
                    if (other >= SDF_OUTSIDE || state == CLOSED) continue;
                    bool has = state >= OPENED;
                    if (has > opened || (has == opened && other < best)) {
                        best = other;
                        there = index_of(o.x - 2 * x, o.y - 2 * y, o.z - 2 * z);
                        opened = has;
                    }
                }
        owner[team.at(j)] = best;
        place[team.at(j)] = (u32)there;
        older |= (u32)opened << j;
        if (!opened && best == cell) mask |= 1u << j;
    }
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        if (!is_corner(j)) owner[team.at(j)] = a.own.row[owner[team.at(j)]];
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        if (!is_corner(j))
            place[team.at(j)] = older >> j & 1u ? a.own.points[27 * (size_t)owner[team.at(j)] + place[team.at(j)]]
                                                : 27 * (owner[team.at(j)] - a.first) + place[team.at(j)];
    for (int k = team.first(); k < 8; k += Team::THREADS)
        a.own.around[8 * (size_t)(a.first + i) + k] = around.family[k];
    u32* points = a.own.points + 27 * (size_t)(a.first + i);
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS) {
        if (is_corner(j) || mask >> j & 1u) continue;
        points[j] = place[team.at(j)];
        lent |= (u32)(~older >> j & 1u) << j;
    }
    mask = team.all(mask);
    lent = team.all(lent);
    if (team.first() > 0) return;
    a.mask[i] = mask;
    a.lent[i] = lent;
    a.count[i] = (u32)popcount(mask);
}
SDF_KERNEL(sdf_octree_own, SIMD, i) {
    Neighbours around;
    own_points(a, i, around, Alone());
}

// Numbers an opening cell's points and creates the owned ones; the cell is opened then. One thread per point:
// sequential loads would wait for memory.
struct sdf_octree_points_args {
    u32 n;             // 27 x opening cells in this chunk
    u32 first;         // row of the first opening cell
    u32 piece;         // index of the chunk's first cell among the opening cells
    u32 first_point;   // index of the first new point
    u32 piece_point;   // index of the chunk's first new point
    const u32* cells;  // [opening]
    Level own, above;  // in and out: points; out: state, opened
    const u32* mask;   // [opening]
    const u32* lent;   // [opening]
    const u32* last;   // [opening] prefix sums of their new point counts
    const u32* slot;   // [points]
    u32 seeds;         // maximum per new point
    u32* point_row;    // [new points] out: the owner's row
    float* position;   // [new points, 3] out
    u32* seed;         // [new points, seeds] out: terminated by SDF_NONE
};
// at(): the cell's position on its level; corner(c): the point at a corner.
template <class At, class Corner>
FN void make_point(const sdf_octree_points_args& a, u32 place, int j, const At& at, const Corner& corner) {
    u32 row = a.first + place, mask = a.mask[place];
    u32* point = a.own.points + 27 * (size_t)row + j;
    if (is_corner(j)) {
        Offset o = offset_of(j);
        *point = corner(o.x / 2 + o.y / 2 * 2 + o.z / 2 * 4);
    } else if (mask >> j & 1u) {
        *point = a.first_point + a.last[place] - (u32)popcount(mask >> j);
        u32 k = *point - a.piece_point;
        place_point(a.own.level, at(), corner, j, a.slot, a.seeds, a.position + 3 * (size_t)k,
                    a.seed + a.seeds * (size_t)k);
        a.point_row[k] = row;
    } else if (a.lent[place] >> j & 1u) {
        u32 other = *point / 27, there = *point % 27;
        *point = a.first_point + a.last[other] - (u32)popcount(a.mask[other] >> there);
    }
}
SDF_KERNEL(sdf_octree_points, CHUNKS, i) {
    u32 place = a.piece + i / 27, cell = a.cells[place];
    int j = (int)(i % 27);
    make_point(
        a, place, j, [&] { return morton_decode(key_of(a.own, cell)); },
        [&](int c) { return corner_of(a.own, a.above, cell, c); });
    if (j == SDF_CENTRE) a.own.state[cell] = OPENED;
}

// Keys of an opened cell's points except its corners, which are points of coarser cells. Cells sharing a point agree.
struct sdf_octree_keys_args {
    u32 n;  // rows
    AllLevels octree;
    u64* point_key;  // [points] out: Morton keys on the lattice
};
SDF_KERNEL(sdf_octree_keys, PLAIN, i) {
    CellOfAll opened = row_of(a.octree, i);
    const Level& own = opened.own;
    Lattice at = morton_decode(key_of(own, own.cell[opened.cell]));
    for (int j = 0; j < 27; j++)
        if (!is_corner(j))
            store_relaxed(a.point_key + own.points[27 * (size_t)opened.cell + j],
                          morton_encode(point_of(own.level, at, offset_of(j))));
}

// A measured point's signed distance and, if stored, gradient. The sign comes from the pseudonormal, an older point or
// the winding number.
struct sdf_octree_measured_args {
    u32 n;                   // new points
    const float* position;   // [n, 3]
    const u32* slot;         // [n] nearest triangle
    const float* distance;   // [n] unsigned
    const u8* inside;        // [n] 0, 1, or 2: the winding number decides; null: normals decide
    const float* winding;    // [n] may be null
    const float* normals;    // [triangles, 7, 3] as in sdf_pseudonormal
    const float* triangle;   // [triangles, 9]
    u32* nearest;            // [n] out: copy of the slots
    float* signed_distance;  // [n] out
    float* gradient;         // [n, 3] out: of the signed distance; may be null
};
FN void store_measured(const sdf_octree_measured_args& a, u32 i, D3 way, Feature feature) {
    u32 slot = a.slot[i];
    bool inside = a.normals                         ? behind(way, feature, a.normals + 21 * (size_t)slot)
                  : a.inside[i] == SDF_SIGN_UNKNOWN ? a.winding[i] > 0.5f
                                                    : a.inside[i] == 1;
    a.nearest[i] = slot;
    a.signed_distance[i] = inside ? -a.distance[i] : a.distance[i];
    if (!a.gradient) return;
    F3 g = gradient_along(way, a.triangle + 9 * (size_t)slot, inside);
    float* out = a.gradient + 3 * (size_t)i;
    out[0] = g.x;
    out[1] = g.y;
    out[2] = g.z;
}
SDF_KERNEL(sdf_octree_measured, LANES, i) {
    D3 p = load3d(a.position + 3 * (size_t)i);
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
    store_measured(a, i, p - q.point, q.feature);
}

#endif
