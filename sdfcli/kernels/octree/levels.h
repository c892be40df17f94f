// Levels of a growing octree: cells, families, rows and neighbours.
//
// A cell on level L has the Morton key of its position among the level's 8^L cells. Opening a cell gives it the 27
// points at its children's corners (geometry/lattice.h); 8 of them are its own corners. The other 19 have an odd
// coordinate on the lattice of the children's level, so they never coincide with points of coarser levels, and only
// cells of the same level that touch a point can share it: the first of them, by index, owns it.
//
// A cell's eight children are a family: cell c of a level is child c % 8, in Morton order, of family c / 8, and data
// common to siblings is stored once: their parent and its key. Most cells stay leaves and are never opened, so data
// only opened cells have, their points, children and surrounding families, is stored in rows. A cell's corners are
// among its parent's points, and its neighbours among the children of its parent's neighbours.
//
// INTERFACE
//   Level, State, Stale                           a level's arrays, and a cell's state
//   Cause, request_split                          causes of splits
//   AllLevels, number_on, cell_of, row_of         an octree's levels, and a cell by its index among all cells
//   key_of, corners_of, corner_of                 a cell's key, and the points at its corners
//   sides_of, toward, neighbour_across            a neighbour's direction, and its cell
//   neighbour_of_parent, families_of, Neighbours, neighbours_of  all neighbours of a cell
//   each_shared                                   the points shared by a cell and a neighbour
//   point_of, place_point                         positions of a cell's points, and seeds for their queries
#ifndef SDFCLI_OCTREE_LEVELS_H
#define SDFCLI_OCTREE_LEVELS_H
#include "base/team.h"
#include "geometry/lattice.h"

enum State { CLOSED, OPENING, OPENED, JUMP, SPLIT };
enum Stale { SETTLED, STALE, RENEWED };  // RENEWED: hanging corners were set in this round

// Cause of a cell's split: the first test that requested it. octree/causes.py has the same values.
enum Cause : u8 {
    NOT_SPLIT,
    BY_ERROR,    // its field misses the distance at one of its 27 points,
    BY_BEND,     // or between them, as predicted by the gradients there,
    BY_SURFACE,  // or at a vertex of the surface
    BY_SHEET,    // it contains both sides of a thin wall or gap, and meets the tolerance alone
    BY_BALANCE,  // it would be two levels coarser than a neighbour's children
    BY_HANGING,  // its interpolation moves its neighbours' hanging corners too far
    BY_WAVE,     // it lies ahead of a wave of such splits (octree/balance.py)
    BY_PROOF,    // its error is not proven to be within the tolerance (octree/balance.py)
};

// Requests a split; an earlier cause stays. A launch's threads that share a cell request it for the same cause.
FN void request_split(u8* request, Cause cause) {
    if (load_relaxed(request) == NOT_SPLIT) store_relaxed(request, (u8)cause);
}

struct Level {
    u32 level;
    u32* parent;        // [families] their parent, a cell of the level above
    u64* key;           // [families] Morton key of the parent
    u8* stale;          // [families] whether the field may have changed since hanging corners were set: see Stale
    u32* row;           // [cells] index among the opened cells, or SDF_NONE
    u8* state;          // [cells]
    u8* split_request;  // [cells] the Cause if the cell is to be split
    u32* cell;          // [rows] their cells
    u32* child;         // [rows] family on the level below, or SDF_NONE
    u32* around;        // [rows, 8] families by side, SDF_NONE: coarser there, SDF_OUTSIDE
    u32* points;        // [rows, 27]
};

// All levels, for launches over all cells or rows, as coarse levels have few.
struct LevelEntry {
    Level own;        // zeros if it has no cells
    u32 cells, rows;  // on coarser levels
};
struct AllLevels {
    u32 levels;
    const u64* level;  // [levels + 1, 12] the structs LevelEntry; the first one is empty, above the root
};
// Number of cells or rows on level k, given the total on all levels.
FN u32 number_on(const AllLevels& all, u32 k, u32 LevelEntry::* before, u32 total) {
    const LevelEntry* entry = (const LevelEntry*)all.level + 1 + k;
    return (k + 1 < all.levels ? entry[1].*before : total) - entry->*before;
}
struct CellOfAll {
    const Level &own, &above;
    u32 cell;  // or row
};
FN CellOfAll cell_of(const AllLevels& all, u32 number) {
    const LevelEntry* entry = (const LevelEntry*)all.level + all.levels;
    while (entry->cells > number) entry--;
    return {entry->own, entry[-1].own, number - entry->cells};
}
FN CellOfAll row_of(const AllLevels& all, u32 number) {
    const LevelEntry* entry = (const LevelEntry*)all.level + all.levels;
    while (entry->rows > number) entry--;
    return {entry->own, entry[-1].own, number - entry->rows};
}

FN u64 key_of(const Level& own, u32 cell) { return own.key[cell >> 3] << 3 | (cell & 7u); }
// The points at a cell's corners; the root's are the first eight.
FN void corners_of(const Level& own, const Level& above, u32 cell, u32* corner) {
    const u32* points = above.row ? above.points + 27 * (size_t)above.row[own.parent[cell >> 3]] : nullptr;
    int first = octant_point((int)(cell & 7u));
    for (int c = 0; c < 8; c++) corner[c] = points ? points[first + octant_point(c)] : (u32)c;
}
FN u32 corner_of(const Level& own, const Level& above, u32 cell, int c) {
    if (!above.row) return (u32)c;
    return above
        .points[27 * (size_t)above.row[own.parent[cell >> 3]] + octant_point((int)(cell & 7u)) + octant_point(c)];
}

// Neighbour j's direction, j in 0 .. 26, as bits by axis: whether it lies beside the cell, and whether on the upper
// side.
FN u32 sides_of(int j) {
    Offset d = offset_of(j);
    return (u32)((d.x != 1) | (d.y != 1) << 1 | (d.z != 1) << 2);
}
FN u32 toward(int j) {
    Offset d = offset_of(j);
    return (u32)((d.x == 2) | (d.y == 2) << 1 | (d.z == 2) << 2);
}
// Neighbour of a family's octant across the sides that meet at a corner. family: the families that contain all of its
// neighbours, by the axes along which they differ from its own. SDF_NONE: cells are coarser there.
FN u32 neighbour_across(const u32* family, u32 octant, u32 sides, u32 corner) {
    u32 own = family[sides & ~(octant ^ corner)];
    return own < SDF_OUTSIDE ? 8 * own + (octant ^ sides) : own;
}
// Neighbour of a cell's parent.
FN u32 neighbour_of_parent(const Level& own, const Level& above, u32 cell, u32 sides, u32 corner) {
    u32 parent = own.parent[cell >> 3];
    return neighbour_across(above.around + 8 * (size_t)above.row[parent], parent & 7u, sides, corner);
}
// Families around a cell: the children of its parent and of seven of the parent's neighbours.
template <class Team>
FN void families_of(const Level& own, const Level& above, u32 cell, u32* family, const Team& team) {
    UNROLL
    for (int k = team.first(); k < 8; k += Team::THREADS) {
        u32 sides = (u32)k, other = SDF_OUTSIDE;
        if (above.row) other = sides ? neighbour_of_parent(own, above, cell, sides, cell & 7u) : cell >> 3;
        if (sides && other < SDF_OUTSIDE) {
            u32 other_row = above.row[other];
            other = other_row == SDF_NONE ? SDF_NONE : above.child[other_row];
        }
        family[sides] = other;
    }
}
// A team's data on the families around a cell and its 27 neighbours; 13 is the cell itself. The state of a missing
// neighbour is CLOSED.
struct Neighbours {
    u32 family[8], cell[27], state[27];
};
template <class Team>
FN void neighbours_of(const Level& own, const Level& above, u32 cell, Neighbours& m, const Team& team) {
    team.meet();  // before overwriting the previous cell's data
    families_of(own, above, cell, m.family, team);
    team.meet();
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        m.cell[j] = j == SDF_CENTRE ? cell : neighbour_across(m.family, cell & 7u, sides_of(j), toward(j));
    // Values of one kind are loaded for all neighbours at once: sequential loads would wait for memory.
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        m.state[j] = m.cell[j] < SDF_OUTSIDE ? own.state[m.cell[j]] : (u32)CLOSED;
    team.meet();
}

// Calls visit(j, there) for points other than corners shared by a cell and its neighbour: the cell's point j is the
// neighbour's point `there`. One point for an edge, five for a face.
template <class Visit>
FN void each_shared(int direction, const Visit& visit) {
    Offset d = offset_of(direction);
    int x0 = d.x == 2 ? 2 : 0, x1 = d.x == 0 ? 0 : 2, y0 = d.y == 2 ? 2 : 0, y1 = d.y == 0 ? 0 : 2;
    int z0 = d.z == 2 ? 2 : 0, z1 = d.z == 0 ? 0 : 2;
    for (int z = z0; z <= z1; z++)
        for (int y = y0; y <= y1; y++)
            for (int x = x0; x <= x1; x++) {
                int j = index_of(x, y, z);
                if (!is_corner(j)) visit(j, index_of(x - 2 * (d.x - 1), y - 2 * (d.y - 1), z - 2 * (d.z - 1)));
            }
}

// Lattice position of point o of a cell, given the cell's position on its level.
FN Lattice point_of(u32 level, Lattice cell, Offset o) {
    u32 half = 1u << (SDF_LATTICE_BITS - 1 - level);
    Lattice p = {(2 * cell.x + (u32)o.x) * half, (2 * cell.y + (u32)o.y) * half, (2 * cell.z + (u32)o.z) * half};
    return p;
}

// Position of a cell's point, and its query's seeds: the nearest triangles at the 2, 4 or 8 corners around it, or at
// some of them. corner(c): the point at a corner.
template <class Corner>
FN void place_point(u32 level, Lattice cell, const Corner& corner, int j, const u32* slot, u32 most_seeds,
                    float* position, u32* seed) {
    Offset o = offset_of(j);
    store_position(position, point_of(level, cell, o));
    u32 seeds = 0;
    for (int c = 0; c < 8 && seeds < most_seeds; c++)
        if (lies_between(o, c)) seed[seeds++] = slot[corner(c)];
    if (seeds < most_seeds) seed[seeds] = SDF_NONE;
}

#endif
