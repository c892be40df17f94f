// How an octree grows: cells are split, and opened, and their new points are made and measured.
//
// INTERFACE
//   sdf_octree_children  the families of cells that are split
//   sdf_octree_opening   rows for cells that begin to open
//   sdf_octree_own       which points the opening cells own
//   sdf_octree_points    the numbers of their points; their own are made
//   sdf_octree_keys      the keys of points on the lattice
//   sdf_octree_measured  signed distances, and gradients where they are kept
#ifndef SDFCLI_OCTREE_GROW_H
#define SDFCLI_OCTREE_GROW_H
#include "octree/gradient.h"
#include "sign/propagate.h"
#include "sign/pseudonormal.h"

// A cell is split: its children become a family. Its neighbours now meet finer cells; where their children are older,
// those of them that are opened learn of the new cells.
FN void sdf_octree_children_at(const sdf_octree_children_args& a, u32 i) {
    u32 cell = a.cells[i], family = a.first + i, own_row = a.row[cell];
    a.state[cell] = SPLIT;
    store_shared(a.child + own_row, family);
    a.below_parent[family] = cell;
    a.below_key[family] = key_of(a, cell);
    for (u32 c = 8 * family; c < 8 * family + 8; c++) {
        a.below_row[c] = SDF_NONE;
        a.below_state[c] = CLOSED;
        a.below_asked[c] = a.below_meets_finer[c] = 0;
    }
    for (int k = 0; k < 27; k++) {
        u32 sides = sides_of(k), other = neighbour_across(a.around + 8 * (size_t)own_row, cell & 7u, sides, toward(k));
        if (other >= SDF_OUTSIDE || k == CENTRE) continue;
        store_shared(a.meets_finer + other, (u8)1);
        u32 other_row = a.row[other], older = other_row == SDF_NONE ? SDF_NONE : load_shared(a.child + other_row);
        if (older >= a.first) continue;
        for (u32 q = 0; q < 8; q++) {
            u32 row = a.below_row[8 * older + q];
            bool touches = (q & sides) == (sides & ~toward(k));
            if (touches && row != SDF_NONE) a.below_around[8 * (size_t)row + sides] = family;
        }
    }
}

// Cells begin to open: each gets a row.
FN void sdf_octree_opening_at(const sdf_octree_opening_args& a, u32 i) {
    u32 cell = a.cells[i], row = a.first + i;
    a.row[cell] = row;
    a.state[cell] = OPENING;
    a.cell[row] = cell;
    a.child[row] = SDF_NONE;
}

// Which points the opening cells own: a bit mask and a count. Points that other cells have, or will have, are borrowed.
FN void sdf_octree_own_at(const sdf_octree_own_args& a, u32 i) {
    u32 cell = a.cells[i], mask = 0, lent = 0;
    u32 family[8], neighbour[27];
    u32* points = a.points + 27 * (size_t)(a.first + i);
    neighbours_of(a, cell, family, neighbour);
    for (int k = 0; k < 8; k++) a.around[8 * (size_t)(a.first + i) + k] = family[k];
    UNROLL
    for (int j = 0; j < 27; j++) {
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
                    u32 other = neighbour[index_of(x + 1, y + 1, z + 1)];
                    if (other >= SDF_OUTSIDE || a.state[other] == CLOSED) continue;
                    bool has = a.state[other] >= OPENED;
                    if (has > opened || (has == opened && other < best)) {
                        best = other;
                        there = index_of(o.x - 2 * x, o.y - 2 * y, o.z - 2 * z);
                        opened = has;
                    }
                }
        u32 row = a.row[best];
        if (opened) {
            points[j] = a.points[27 * (size_t)row + there];
        } else if (best == cell) {
            mask |= 1u << j;
        } else {
            points[j] = 27 * (row - a.first) + (u32)there;
            lent |= 1u << j;
        }
    }
    a.mask[i] = mask;
    a.lent[i] = lent;
    a.count[i] = (u32)count_ones(mask);
}

// The numbers of an opening cell's points; its own are made, and with them it is opened.
FN void sdf_octree_points_at(const sdf_octree_points_args& a, u32 i) {
    u32 place = a.piece + i, row = a.first + place, cell = a.cells[place], mask = a.mask[place], lent = a.lent[place];
    a.state[cell] = OPENED;
    u32 id = a.first_point + a.last[place] - (u32)count_ones(mask), corner[8];
    u32* points = a.points + 27 * (size_t)row;
    corners_of(a, cell, corner);
    for (int c = 0; c < 8; c++) points[corner_point(c)] = corner[c];
    for (int j = 0; j < 27; j++) {
        if (mask >> j & 1u) {
            u32 k = id - a.piece_point;
            place_point(a, cell, j, corner, a.position + 3 * (size_t)k, a.seed + a.seeds * (size_t)k);
            a.point_row[k] = row;
            points[j] = id++;
        } else if (lent >> j & 1u) {
            u32 other = points[j] / 27, there = points[j] % 27;
            u32 after = (u32)count_ones(a.mask[other] >> there);
            points[j] = a.first_point + a.last[other] - after;
        }
    }
}

// The keys of an opened cell's points but its corners, which are points of a cell above. Cells that share one agree.
FN void sdf_octree_keys_at(const sdf_octree_keys_args& a, u32 i) {
    Lattice at = morton_decode(key_of(a, a.cell[i]));
    for (int j = 0; j < 27; j++)
        if (!is_corner(j))
            store_shared(a.point_key + a.points[27 * (size_t)i + j], morton_encode(point_of(a, at, offset_of(j))));
}

// A measured point's signed distance and, where they are kept, its gradient. The sign is that of the pseudonormal, or
// given, or that of the winding number.
FN void sdf_octree_measured_at(const sdf_octree_measured_args& a, u32 i) {
    D3 p = load3d(a.position + 3 * (size_t)i);
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
    bool inside = a.normals                ? behind(p, q, a.normals + 21 * (size_t)a.slot[i])
                  : a.inside[i] == UNKNOWN ? a.winding[i] > 0.5f
                                           : a.inside[i] == 1;
    a.nearest[i] = a.slot[i];
    a.signed_distance[i] = inside ? -a.distance[i] : a.distance[i];
    if (!a.gradient) return;
    F3 g = gradient_from(p, q.point, t, inside);
    float* out = a.gradient + 3 * (size_t)i;
    out[0] = g.x;
    out[1] = g.y;
    out[2] = g.z;
}

#endif
