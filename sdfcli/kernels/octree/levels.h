// The levels of an octree that grows: cells, families and rows, and who is whose neighbour.
//
// A cell of level L has the Morton key of its place among the 8^L cells of that level. Opening a cell gives it the 27
// points of its children's corners (geometry/lattice.h); 8 of them are its own corners. The other 19 have an odd
// coordinate on the lattice of the children's level, so they never meet points of coarser levels, and only the cells of
// the same level that touch a point can share it: the first of these, by number, owns it.
//
// The eight children of a cell are a family: cell c of a level is child c % 8, in Morton order, of family c / 8, and
// what siblings have in common is kept once: their parent and its key. Most cells stay leaves that are never opened, so
// whatever only opened cells have, their points, children and the families around, lies in rows. A cell's corners are
// among its parent's points, and its neighbours among the children of its parent's neighbours.
//
// INTERFACE
//   Level, State, Stale                           the arrays of a level, and what has become of a cell
//   Cause, request_split                          why a cell is split
//   AllLevels, number_on, cell_of, row_of         all levels of an octree, and a cell by its number among all cells
//   key_of, corners_of, corner_of                 a cell's key, and the points at its corners
//   sides_of, toward, neighbour_across            neighbours by number: where they lie, and which they are
//   neighbour_of_parent, families_of, Neighbours, neighbours_of  all neighbours of a cell
//   each_shared                                   the points that a cell has in common with a neighbour
//   point_of, place_point                         where a cell's points lie, and first bounds of their queries
#ifndef SDFCLI_OCTREE_LEVELS_H
#define SDFCLI_OCTREE_LEVELS_H
#include "base/team.h"
#include "geometry/lattice.h"

enum State { CLOSED, OPENING, OPENED, JUMP, SPLIT };
enum Stale { SETTLED, STALE, RENEWED };  // RENEWED: hanging corners were set in this round

// Why a cell is split: the first test that requests it. octree/causes.py has the same values.
enum Cause : u8 {
    NOT_SPLIT,
    BY_ERROR,    // its field misses the distance at one of its 27 points,
    BY_BEND,     // or between them, as the gradients there foretell,
    BY_SURFACE,  // or at a vertex of the surface
    BY_SHEET,    // both sides of a thin wall or gap lie in it, and the tolerance alone would leave it
    BY_BALANCE,  // it would be two levels coarser than a neighbour's children
    BY_HANGING,  // its interpolation moves its neighbours' hanging corners too far
    BY_WAVE,     // it lies ahead of a wave of such splits (octree/balance.py)
};

// Requests a split; an earlier cause stays. Threads of one launch that share a cell request it for the same one.
FN void request_split(u8* request, Cause cause) {
    if (load_relaxed(request) == NOT_SPLIT) store_relaxed(request, (u8)cause);
}

struct Level {
    u32 level;
    u32* parent;        // [families] their parent, a cell of the level above
    u64* key;           // [families] Morton key of the parent
    u8* stale;          // [families] where the field may have changed since hanging corners were set: see Stale
    u32* row;           // [cells] number among the opened cells, or SDF_NONE
    u8* state;          // [cells]
    u8* split_request;  // [cells] the Cause, where a cell is to be split
    u32* cell;          // [rows] their cells
    u32* child;         // [rows] family of the level below, or SDF_NONE
    u32* around;        // [rows, 8] families by side, SDF_NONE: coarser there, SDF_OUTSIDE
    u32* points;        // [rows, 27]
};

// All levels, which hand their cells, and their rows, to one launch: coarse ones have few.
struct LevelEntry {
    Level own;        // zeros where it has no cells
    u32 cells, rows;  // on coarser levels
};
struct AllLevels {
    u32 levels;
    const u64* level;  // [levels + 1, 12] the structs LevelEntry; the first one is empty, above the root
};
// How many cells, or rows, level k has, of so many on all levels.
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

// By axis, what numbers of neighbours, 0 .. 26, say: whether they are beside the cell, and whether farther on.
FN u32 sides_of(int j) {
    Offset d = offset_of(j);
    return (u32)((d.x != 1) | (d.y != 1) << 1 | (d.z != 1) << 2);
}
FN u32 toward(int j) {
    Offset d = offset_of(j);
    return (u32)((d.x == 2) | (d.y == 2) << 1 | (d.z == 2) << 2);
}
// The neighbour of an octant of a family across its sides that meet at a corner. family: those among which all of its
// neighbours are, by the axes along which they lie beyond its own. SDF_NONE where cells are coarser.
FN u32 neighbour_across(const u32* family, u32 octant, u32 sides, u32 corner) {
    u32 own = family[sides & ~(octant ^ corner)];
    return own < SDF_OUTSIDE ? 8 * own + (octant ^ sides) : own;
}
// That of a cell's parent.
FN u32 neighbour_of_parent(const Level& own, const Level& above, u32 cell, u32 sides, u32 corner) {
    u32 parent = own.parent[cell >> 3];
    return neighbour_across(above.around + 8 * (size_t)above.row[parent], parent & 7u, sides, corner);
}
// The families around a cell: the children of its parent and of seven of the parent's neighbours.
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
// What those who look at a cell know of the families around it, and of its 27 neighbours: 13 is the cell itself. Where
// there is none, the state is CLOSED.
struct Neighbours {
    u32 family[8], cell[27], state[27];
};
template <class Team>
FN void neighbours_of(const Level& own, const Level& above, u32 cell, Neighbours& m, const Team& team) {
    team.meet();  // before what is known of the cell before is lost
    families_of(own, above, cell, m.family, team);
    team.meet();
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        m.cell[j] = j == SDF_CENTRE ? cell : neighbour_across(m.family, cell & 7u, sides_of(j), toward(j));
    // Each kind of value is loaded for all of them at once: one after the other they would wait for memory.
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        m.state[j] = m.cell[j] < SDF_OUTSIDE ? own.state[m.cell[j]] : (u32)CLOSED;
    team.meet();
}

// Calls visit(j, there) for the points other than corners that a cell has in common with its neighbour: number j of
// its own is number `there` of the neighbour's. A point of an edge, or a face's five.
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

// Where point o of the cell at a place among those of its level lies on the lattice.
FN Lattice point_of(u32 level, Lattice cell, Offset o) {
    u32 half = 1u << (SDF_LATTICE_BITS - 1 - level);
    Lattice p = {(2 * cell.x + (u32)o.x) * half, (2 * cell.y + (u32)o.y) * half, (2 * cell.z + (u32)o.z) * half};
    return p;
}

// The place of a cell's point, and the nearest triangles of the 2, 4 or 8 corners between which it lies, or of some of
// them: the first bounds of its query. corner(c): the point at a corner.
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
