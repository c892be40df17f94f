// Growing an octree level by level, and keeping its field continuous.
//
// A cell of level L has the Morton key of its place among the 8^L cells of that level. Lattice coordinates have
// SDF_LATTICE_BITS bits, so that the unit cube spans [0, 2^20] and a point's float32 position is exact. Opening a cell
// gives it the 3 x 3 x 3 points of its children's corners, numbered x + 3 y + 9 z; 8 of them are its own corners. The
// other 19 have an odd coordinate on the lattice of the children's level, so they never meet points of coarser levels,
// and only the cells of the same level that touch a point can share it: the first of these, by number, owns it.
//
// The eight children of a cell are a family: cell c of a level is child c % 8, in Morton order, of family c / 8, and
// what siblings have in common is kept once: their parent and its key. Most cells stay leaves that are never opened, so
// whatever only opened cells have, their points, children and the families around, lies in rows. A cell's corners are
// among its parent's points, and its neighbours among the children of its parent's neighbours.
#ifndef SDFCLI_OCTREE_H
#define SDFCLI_OCTREE_H
#include "caps.h"
#include "morton.h"
#include "pseudonormal.h"
#include "triangle.h"

#define SDF_LATTICE_BITS 20
#define SDF_DISTANCE_ERROR 1.6e-5f  // more than two distances are off: 6.1e-6 is the most found for one, at needles
#define CENTRE 13

#define UNKNOWN 2  // of a sign: neither inside nor outside yet

enum State { CLOSED, OPENING, OPENED, JUMP, SPLIT };

struct Offset {
    int x, y, z;
};
FN Offset offset_of(int j) {  // 0 .. 26 to the three coordinates, each 0 .. 2
    Offset o = {j % 3, (j / 3) % 3, j / 9};
    return o;
}
FN int index_of(int x, int y, int z) { return x + 3 * y + 9 * z; }
FN bool is_corner(int j) { return j % 3 != 1 && (j / 3) % 3 != 1 && j / 9 != 1; }
FN int corner_point(int c) { return index_of(2 * (c & 1), 2 * (c >> 1 & 1), 2 * (c >> 2)); }
FN int octant_point(int c) { return index_of(c & 1, c >> 1 & 1, c >> 2); }  // of the octant's eight, from its first on
// Does point o lie between the eight corners in such a way that corner c has a say in its interpolated value?
FN bool lies_between(Offset o, int c) {
    return (o.x == 1 || o.x == 2 * (c & 1)) && (o.y == 1 || o.y == 2 * (c >> 1 & 1)) &&
           (o.z == 1 || o.z == 2 * (c >> 2));
}

template <class Args>
FN u64 key_of(const Args& a, u32 cell) {
    return a.key[cell >> 3] << 3 | (cell & 7u);
}
// The points at a cell's corners; the root's are the first eight.
template <class Args>
FN void corners_of(const Args& a, u32 cell, u32* corner) {
    const u32* above = a.above_row ? a.above_points + 27 * (size_t)a.above_row[a.parent[cell >> 3]] : nullptr;
    int first = octant_point((int)(cell & 7u));
    for (int c = 0; c < 8; c++) corner[c] = above ? above[first + octant_point(c)] : (u32)c;
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
template <class Args>
FN u32 neighbour_of_parent(const Args& a, u32 cell, u32 sides, u32 corner) {
    u32 parent = a.parent[cell >> 3];
    return neighbour_across(a.above_around + 8 * (size_t)a.above_row[parent], parent & 7u, sides, corner);
}
// The families around a cell: the children of its parent and of seven of the parent's neighbours.
template <class Args>
FN void families_of(const Args& a, u32 cell, u32* family) {
    family[0] = a.above_row ? cell >> 3 : SDF_OUTSIDE;
    UNROLL
    for (u32 sides = 1; sides < 8; sides++) {
        u32 other = a.above_row ? neighbour_of_parent(a, cell, sides, cell & 7u) : SDF_OUTSIDE;
        if (other < SDF_OUTSIDE) {
            u32 other_row = a.above_row[other];
            other = other_row == SDF_NONE ? SDF_NONE : a.above_child[other_row];
        }
        family[sides] = other;
    }
}
// The 27 neighbours of a cell, 13 is the cell itself, and the families around it.
template <class Args>
FN void neighbours_of(const Args& a, u32 cell, u32* family, u32* neighbour) {
    families_of(a, cell, family);
    UNROLL
    for (int j = 0; j < 27; j++) neighbour[j] = neighbour_across(family, cell & 7u, sides_of(j), toward(j));
    neighbour[CENTRE] = cell;
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

// Where point o of the cell at a place among those of its level lies on the lattice.
template <class Args>
FN Lattice point_of(const Args& a, Lattice cell, Offset o) {
    u32 half = 1u << (SDF_LATTICE_BITS - 1 - a.level);
    Lattice p = {(2 * cell.x + (u32)o.x) * half, (2 * cell.y + (u32)o.y) * half, (2 * cell.z + (u32)o.z) * half};
    return p;
}
FN void store_position(float* position, Lattice p) {  // in the unit cube, exactly
    const float unit = 1.f / (1u << SDF_LATTICE_BITS);
    position[0] = (float)p.x * unit;
    position[1] = (float)p.y * unit;
    position[2] = (float)p.z * unit;
}
// The place of a cell's point, and the nearest triangles of the 2, 4 or 8 corners between which it lies, or of some of
// them: the first bounds of its query.
template <class Args>
FN void place_point(const Args& a, u32 cell, int j, const u32* corner, float* position, u32* seed) {
    Offset o = offset_of(j);
    store_position(position, point_of(a, morton_decode(key_of(a, cell)), o));
    u32 seeds = 0;
    for (int c = 0; c < 8; c++)
        if (seeds < a.seeds && lies_between(o, c)) seed[seeds++] = a.slot[corner[c]];
    if (seeds < a.seeds) seed[seeds] = SDF_NONE;
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

// The gradient of the signed distance at p, of which q is the nearest point: away from that, or, on the surface, the
// face's normal.
FN F3 gradient_from(D3 p, D3 q, const float* t, bool inside) {
    D3 g = p - q;
    double length = sqrt(dot(g, g)), sign = inside ? -1.0 : 1.0;
    if (length < 1e-9) {
        D3 u = load3d(t);
        g = cross(load3d(t + 3) - u, load3d(t + 6) - u);
        length = sqrt(dot(g, g));
        sign = 1.0;
    }
    sign = length > 0.0 ? sign / length : 0.0;
    return vec((float)(sign * g.x), (float)(sign * g.y), (float)(sign * g.z));
}
// That of a measured point at a place of the lattice. On a GPU it is worked out anew, which takes less time than what
// is kept takes memory.
template <class Args>
FN void load_gradient(const Args& a, u32 point, Lattice at, float* gradient) {
    F3 g;
    if (a.gradient) {
        g = load3(a.gradient + 3 * (size_t)point);
    } else {
        float position[3];
        store_position(position, at);
        const float* t = a.triangle + 9 * (size_t)a.slot[point];
        D3 p = load3d(position);
        Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
        g = gradient_from(p, q.point, t, float_bits(a.distance[point]) >> 31);
    }
    gradient[0] = g.x;
    gradient[1] = g.y;
    gradient[2] = g.z;
}
// Those at a cell's corners.
template <class Args>
FN void corner_gradients(const Args& a, u32 cell, const u32* corner, float* gradient) {
    Lattice at = morton_decode(key_of(a, cell));
    u32 edge = 1u << (SDF_LATTICE_BITS - a.level);
    for (u32 c = 0; c < 8; c++) {
        Lattice p = {(at.x + (c & 1u)) * edge, (at.y + (c >> 1 & 1u)) * edge, (at.z + (c >> 2)) * edge};
        load_gradient(a, corner[c], p, gradient + 3 * c);
    }
}

// A measured point's signed distance and, where they are kept, its gradient. The sign is that of the pseudonormal, or
// given, or that of the winding number.
FN void sdf_octree_measured_at(const sdf_octree_measured_args& a, u32 i) {
    D3 p = load3d(a.position + 3 * (size_t)i);
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    Nearest<double> q = nearest_on_triangle(p, load3d(t), load3d(t + 3), load3d(t + 6));
    bool inside = a.normals ? behind(p, q, a.normals + 21 * (size_t)a.slot[i])
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

FN float magnitude(float x) { return x < 0.f ? -x : x; }
FN float allowed_error(float distance, float tolerance, float band) {
    float d = magnitude(distance);
    return d > band ? tolerance * (d / band) : tolerance;
}

template <class T>
FN T mean(T a, T b) {
    return T(0.5) * (a + b);
}
// What a cell's eight corners say about its 27 points: means along x, then y, then z.
template <class T>
FN void interpolate(const T* corner, T* value) {
    UNROLL
    for (int c = 0; c < 8; c++) value[corner_point(c)] = corner[c];
    for (int y = 0; y < 3; y += 2)
        for (int z = 0; z < 3; z += 2)
            value[index_of(1, y, z)] = mean(value[index_of(0, y, z)], value[index_of(2, y, z)]);
    for (int z = 0; z < 3; z += 2)
        for (int x = 0; x < 3; x++) value[index_of(x, 1, z)] = mean(value[index_of(x, 0, z)], value[index_of(x, 2, z)]);
    UNROLL
    for (int j = 0; j < 9; j++) value[j + 9] = mean(value[j], value[j + 18]);
}

// How far the true distance may lie from the trilinear field between eight corners, judged by their gradients: along an
// edge of length h on which the slope changes by J, a smooth field bends away by h J / 8, a crease by up to h J / 4.
// The factors with which this enters the tests below were found by measuring (docs/concepts/accuracy.md).
template <class Gradient>
FN float bend(float edge, const Gradient& gradient) {
    float sum = 0.f;
    for (int axis = 0; axis < 3; axis++) {
        float steepest = 0.f;
        for (int c = 0; c < 8; c++)
            if (!(c >> axis & 1))
                steepest = most(steepest, magnitude(gradient(c | 1 << axis, axis) - gradient(c, axis)));
        sum += steepest;
    }
    return sum * edge * 0.125f;
}

// Two gradients whose cosine is below this belong to two sides of a sheet: these meet at 37 degrees at most.
#define SDF_OPPOSED (-0.8f)
// Of a sheet's thickness, the part by which the field may err in a cell with both of its sides, and the largest edge of
// such a cell: along the lattice's axes none then holds a side and the middle, where the distance turns round. In
// tolerances, the thickness from which on a sheet is like any other part of the surface (docs/concepts/accuracy.md).
#define SDF_SHEET_SHARE 0.22f
#define SDF_SHEET_EDGE 0.5f
#define SDF_SHEET_WIDEST 8.f
#define SDF_NO_SHEET 3.402823466e38f

// Whether the surface may lie in a cell: a corner is no farther from it than the cell's diagonal.
FN bool near_surface(const float* corner, float edge) {
    float nearest = magnitude(corner[0]);
    for (int c = 1; c < 8; c++) nearest = least(nearest, magnitude(corner[c]));
    return nearest <= 1.74f * edge;
}

// The thickness of the thinnest sheet, a wall or a gap, of which a cell has both sides: where the gradients at the ends
// of an edge oppose each other, the points of the surface nearest to these lie on either side of it. The width between
// these is positive across a wall and negative across a gap. Without effect on the surface, and passed over, are walls in
// cells that lie within them, and gaps likewise, and wide ones; sheets thinner than a.thin_least are given up.
// Where `everywhere`, they are not passed over.
template <class Args, class Gradient>
FN float sheet_width(
    const Args& a, const float* corner, float edge, const Gradient& gradient, bool everywhere = false) {
    float thinnest = SDF_NO_SHEET;
    int inside = 0;
    for (int c = 0; c < 8; c++) inside += corner[c] < 0.f;
    if (!near_surface(corner, edge)) return thinnest;
    for (int axis = 0; axis < 3; axis++)
        for (int c = 0; c < 8; c++) {
            if (c >> axis & 1) continue;
            int e = c | 1 << axis;
            F3 g = gradient(c), h = gradient(e);
            if (dot(g, h) > SDF_OPPOSED) continue;
            F3 way = vec(axis == 0 ? edge : 0.f, axis == 1 ? edge : 0.f, axis == 2 ? edge : 0.f), between = g - h;
            float width = dot(corner[e] * h - corner[c] * g - way, between) / sqrtf(dot(between, between));
            if ((!everywhere && inside == (width > 0.f ? 8 : 0)) || magnitude(width) < a.thin_least) continue;
            thinnest = least(thinnest, magnitude(width));
        }
    return thinnest > SDF_SHEET_WIDEST * a.tolerance ? SDF_NO_SHEET : thinnest;
}

// The trilinear field between eight corners, t in [0, 1]^3.
template <class T>
FN T trilinear(const T* v, Vec<T> t) {
    T x00 = v[0] + t.x * (v[1] - v[0]), x10 = v[2] + t.x * (v[3] - v[2]);
    T x01 = v[4] + t.x * (v[5] - v[4]), x11 = v[6] + t.x * (v[7] - v[6]);
    T y0 = x00 + t.y * (x10 - x00), y1 = x01 + t.y * (x11 - x01);
    return y0 + t.z * (y1 - y0);
}

// On the surface the distance is zero: does the field say so at the centroids in a cell? What lies between the points
// of a coarse cell, such as the relief of a nearly flat wall, shows here; a little beside the surface it errs more.
template <class Args>
FN bool misses_surface(const Args& a, u32 cell, const float* corner) {
    float scale = (float)(1u << a.level);
    for (int c = 0; c < 8; c++)
        if (magnitude(corner[c]) * scale > 1.74f) return false;  // farther than the cell's diagonal
    u64 key = key_of(a, cell), size = 1ULL << 3 * (SDF_MORTON_BITS - a.level), first = key * size;
    Lattice at = morton_decode(key);
    for (u32 slot = lower_bound(a.triangle_key, a.triangles, first); slot < a.triangles; slot++) {
        if (a.triangle_key[slot] >= first + size) return false;
        const float* p = a.triangle + 9 * (size_t)slot;
        F3 centroid = (1.f / 3.f) * (load3(p) + load3(p + 3) + load3(p + 6));
        F3 t = scale * centroid - vec((float)at.x, (float)at.y, (float)at.z);
        if (magnitude(trilinear(corner, vec(clamp01(t.x), clamp01(t.y), clamp01(t.z)))) > 0.75f * a.tolerance)
            return true;
    }
    return false;
}

// The mean of a cell's eight corners, against which a distance at its centre is held.
FN float middle(const float* corner) {
    return mean(mean(mean(corner[0], corner[1]), mean(corner[2], corner[3])),
                mean(mean(corner[4], corner[5]), mean(corner[6], corner[7])));
}

// When bending, as a part of the error that is allowed, settles that a new cell stays a leaf: near the surface, and
// where the nearest corner is farther than so many edges from it, if the points nearest to the corners agree.
#define SDF_STRAIGHT 0.5f
#define SDF_FAR 2.f
#define SDF_FAR_STRAIGHT 0.8f
#define SDF_FAR_MISS 0.5f

// Errors, as such parts, at which a leaf is opened: always, and where it bends.
#define SDF_WRONG 0.8f
#define SDF_DOUBTFUL 0.625f
#define SDF_BENT 0.5f

// Does the sign jump between two of a cell's corners? See holds_jump. Gradients do not tell: they only turn round there.
FN bool corners_jump(const float* corner, float edge) {
    for (int c = 1; c < 8; c++)
        for (int e = 0; e < c; e++) {
            if ((corner[c] < 0.f) == (corner[e] < 0.f)) continue;
            float way = edge * sqrtf((float)count_ones((u32)(c ^ e)));
            if (magnitude(corner[c]) + magnitude(corner[e]) - SDF_DISTANCE_ERROR > way) return true;
        }
    return false;
}

// A first look at a new cell, of which only the corners are known: may it stay a leaf untested? What its gradients
// foretell is enough to open it, or, if it is little, to leave it; in between the centre is asked for. Far from the
// surface the points nearest to the corners tell what the query would find there. Cells with both sides of a sheet are
// opened, or left.
FN void sdf_octree_screen_at(const sdf_octree_screen_args& a, u32 i) {
    u32 cell = a.first + i, point[8];
    corners_of(a, cell, point);
    float corner[8], gradient[24], nearest = 3.402823466e38f;
    for (int c = 0; c < 8; c++) {
        corner[c] = a.distance[point[c]];
        nearest = least(nearest, magnitude(corner[c]));
    }
    corner_gradients(a, cell, point, gradient);
    float edge = 1.f / (float)(1u << a.level), allowed = allowed_error(nearest, a.tolerance, a.band);
    float bent = bend(edge, [&](int c, int axis) { return gradient[3 * c + axis]; });
    float width = sheet_width(a, corner, edge, [&](int c) { return load3(gradient + 3 * c); });
    u8 wish = 2;
    if (edge > SDF_SHEET_EDGE * width) {
        wish = 1;
    } else if (SDF_SHEET_SHARE * width < allowed) {
        wish = bent > SDF_STRAIGHT * SDF_SHEET_SHARE * width;
    } else if (a.thin_only) {
        wish = 0;
    } else if (bent > allowed || corners_jump(corner, edge) || misses_surface(a, cell, corner)) {
        wish = 1;
    } else if (bent <= SDF_STRAIGHT * allowed) {
        wish = 0;
    } else if (nearest > SDF_FAR * edge && bent <= SDF_FAR_STRAIGHT * allowed) {
        float square = 3.402823466e38f;  // from the centre to the points nearest to the corners
        for (int c = 0; c < 8; c++) {
            F3 way = edge * vec(c & 1 ? -0.5f : 0.5f, c & 2 ? -0.5f : 0.5f, c & 4 ? -0.5f : 0.5f);
            F3 from = way + corner[c] * load3(gradient + 3 * c);
            square = least(square, dot(from, from));
        }
        if (magnitude(sqrtf(square) - magnitude(middle(corner))) <= SDF_FAR_MISS * allowed) wish = 0;
    }
    a.wish[i] = wish;
}

// How thin the sheets in new cells are.
FN void sdf_octree_sheets_at(const sdf_octree_sheets_args& a, u32 i) {
    u32 cell = a.first + i, point[8];
    corners_of(a, cell, point);
    float corner[8], gradient[24];
    for (int c = 0; c < 8; c++) corner[c] = a.distance[point[c]];
    corner_gradients(a, cell, point, gradient);
    float edge = 1.f / (float)(1u << a.level);
    a.width[i] = sheet_width(a, corner, edge, [&](int c) { return load3(gradient + 3 * c); });
}

// The centres of cells that are to be probed.
FN void sdf_octree_probe_at(const sdf_octree_probe_args& a, u32 i) {
    u32 corner[8];
    corners_of(a, a.cells[i], corner);
    place_point(a, a.cells[i], CENTRE, corner, a.position + 3 * (size_t)i, a.seed + a.seeds * (size_t)i);
}

// How the field between a cell's corners bends, as a part of the error that is allowed there.
template <class Args>
FN float bend_of(const Args& a, u32 cell, const u32* point) {
    float gradient[24], nearest = 3.402823466e38f;
    for (int c = 0; c < 8; c++) nearest = least(nearest, magnitude(a.distance[point[c]]));
    corner_gradients(a, cell, point, gradient);
    float bent = bend(1.f / (float)(1u << a.level), [&](int c, int axis) { return gradient[3 * c + axis]; });
    return bent / allowed_error(nearest, a.tolerance, a.band);
}
// An error at one point, as a part of what is allowed, tells of larger ones elsewhere in the cell.
template <class Args>
FN bool suspicious(const Args& a, u32 cell, const u32* point, float error) {
    return error > SDF_WRONG || (error > SDF_DOUBTFUL && bend_of(a, cell, point) > SDF_BENT);
}

// A second look, at a cell's centre. Its sign is not asked for: with the wrong one, the field would have to be wrong by
// twice the distance there while nothing bends.
FN void sdf_octree_probed_at(const sdf_octree_probed_args& a, u32 i) {
    u32 cell = a.cells[i], point[8];
    corners_of(a, cell, point);
    float corner[8], centre = a.centre[i], nearest = centre;
    for (int c = 0; c < 8; c++) {
        corner[c] = a.distance[point[c]];
        nearest = least(nearest, magnitude(corner[c]));
    }
    float miss = magnitude(magnitude(middle(corner)) - centre);
    a.wish[cell - a.first] = suspicious(a, cell, point, miss / allowed_error(nearest, a.tolerance, a.band)) ? 1 : 0;
}

// A third look at a cell that was not opened: its neighbours may have been, and share points with it.
FN void sdf_octree_peek_at(const sdf_octree_peek_args& a, u32 i) {
    u32 cell = a.first + i, family[8], neighbour[27], point[8];
    float corner[8], value[27], error = 0.f;
    bool met = false;
    if (a.state[cell] == CLOSED) {
        neighbours_of(a, cell, family, neighbour);
        UNROLL
        for (int k = 0; k < 27; k++) {
            u32 other = neighbour[k];
            if (other >= SDF_OUTSIDE || a.state[other] < OPENED) continue;
            if (!met) {
                corners_of(a, cell, point);
                for (int c = 0; c < 8; c++) corner[c] = a.distance[point[c]];
                interpolate(corner, value);
                met = true;
            }
            const u32* points = a.points + 27 * (size_t)a.row[other];
            each_shared(k, [&](int j, int there) {
                float d = a.distance[points[there]];
                error = most(error, magnitude(value[j] - d) / allowed_error(d, a.tolerance, a.band));
            });
        }
    }
    a.wish[i] = met && suspicious(a, cell, point, error) ? 1 : 0;
}

// Do two of a cell's points have different signs although their distances say that no surface lies between them? Then
// the sign jumps there, as it does where a winding number closes the hole of an open surface: no octree follows that.
FN bool holds_jump(const float* distance, float half) {
    for (int j = 1; j < 27; j++)
        for (int k = 0; k < j; k++) {
            float d = distance[j], e = distance[k];
            if ((d < 0.f) == (e < 0.f)) continue;
            Offset o = offset_of(j), p = offset_of(k);
            int x = o.x - p.x, y = o.y - p.y, z = o.z - p.z;
            if (magnitude(d) + magnitude(e) - SDF_DISTANCE_ERROR > half * sqrtf((float)(x * x + y * y + z * z)))
                return true;
        }
    return false;
}

// The largest error of an opened cell's field: in each octant the one seen at a point, and on top of it half of what the
// gradients foretell between these. tolerance: as a part of what is allowed there; sheet: of what a sheet in the cell
// allows, which is so thick.
struct CellError {
    float tolerance, sheet, width;
};
// value: the field at the 27 points.
template <class Args>
FN CellError largest_error(const Args& a, u32 cell, const u32* point, const float* distance, const float* value) {
    float error[27], gradient[81], corner[8], largest = 0.f, half = 0.5f / (float)(1u << a.level);
    CellError found = {0.f, 0.f, 0.f};
    Lattice at = morton_decode(key_of(a, cell));
    UNROLL
    for (int j = 0; j < 27; j++) error[j] = magnitude(value[j] - distance[j]);
    for (int j = 0; j < 27; j++) load_gradient(a, point[j], point_of(a, at, offset_of(j)), gradient + 3 * j);
    UNROLL
    for (int octant = 0; octant < 8; octant++) {
        int first = octant_point(octant);
        float worst = 0.f, nearest = 3.402823466e38f;
        for (int c = 0; c < 8; c++) {
            int j = first + octant_point(c);
            worst = most(worst, error[j]);
            nearest = least(nearest, magnitude(distance[j]));
        }
        worst += 0.5f * bend(half, [&](int c, int axis) { return gradient[3 * (first + octant_point(c)) + axis]; });
        found.tolerance = most(found.tolerance, worst / allowed_error(nearest, a.tolerance, a.band));
        largest = most(largest, worst);
    }
    for (int c = 0; c < 8; c++) corner[c] = distance[corner_point(c)];
    found.width = sheet_width(a, corner, 2.f * half, [&](int c) { return load3(gradient + 3 * corner_point(c)); });
    found.sheet = largest / (SDF_SHEET_SHARE * found.width);
    return found;
}

// Frisken's test (2000), made tighter: which opened cells are asked to be split. One stays a leaf where the sign jumps.
// Where a.thin_only, the tolerance has all the levels that it gets.
FN void sdf_octree_test_at(const sdf_octree_test_args& a, u32 i) {
    u32 row = a.rows ? a.rows[i] : a.first + i, cell = a.cell[row];
    const u32* point = a.points + 27 * (size_t)row;
    float corner[8], value[27], distance[27], edge = 1.f / (float)(1u << a.level);
    for (int j = 0; j < 27; j++) distance[j] = a.distance[point[j]];
    for (int c = 0; c < 8; c++) corner[c] = distance[corner_point(c)];
    interpolate(corner, value);
    CellError error = largest_error(a, cell, point, distance, value);
    bool wrong = !a.thin_only && (error.tolerance > 1.f || misses_surface(a, cell, corner));
    if (!wrong && error.sheet <= 1.f && edge <= SDF_SHEET_EDGE * error.width) return;
    if (edge > a.jump_edge || !holds_jump(distance, 0.5f * edge))
        a.asked[cell] = wrong ? 1 : 2;
    else if (a.state)
        a.state[cell] = JUMP;
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

// A value as a whole number of steps from a base. It keeps its sign, and changes by half a step at most, or by less
// than one where that would turn the sign.
FN int whole_steps(float value, double base, double step) {
    const double most_steps = 1073741824.0;
    bool negative = value < 0.f;
    double steps = least(most(((double)value - base) / step, -most_steps), most_steps);
    steps = (double)(int)(steps < 0.0 ? steps - 0.5 : steps + 0.5);
    if ((base + steps * step < 0.0) != negative) steps += negative ? -1.0 : 1.0;
    return (int)steps;
}

// The points whose values are rounded more finely, for a sheet's thickness hangs on them: the corners of leaves with its
// middle, and in two more passes those of leaves around: these are no larger than half of the sheet, and not much smaller
// than a fifth. The last pass takes only those through which the surface passes. Bit k stands for a step halved k times;
// the highest counts.
FN void sdf_octree_sheet_points_at(const sdf_octree_sheet_points_args& a, u32 cell) {
    if (a.state[cell] == SPLIT) return;
    u32 point[8], halvings = 0;
    float corner[8], gradient[24], edge = 1.f / (float)(1u << a.level);
    corners_of(a, cell, point);
    for (int c = 0; c < 8; c++) corner[c] = a.distance[point[c]];
    if (!near_surface(corner, edge)) return;
    corner_gradients(a, cell, point, gradient);
    float width = sheet_width(a, corner, edge, [&](int c) { return load3(gradient + 3 * c); }, true);
    for (float step = a.step; step > a.share * width && 1u << halvings < a.parts; step *= 0.5f) halvings++;
    if (halvings == 0) return;
    for (int c = 0; c < 8; c++) add_bits(a.fine + point[c], 1u << halvings);
}
FN void sdf_octree_beside_sheets_at(const sdf_octree_beside_sheets_args& a, u32 cell) {
    if (a.state[cell] == SPLIT) return;
    u32 point[8], inside = 0, bits = 0;
    corners_of(a, cell, point);
    for (int c = 0; c < 8; c++) {
        bits |= a.before[point[c]];
        inside += float_bits(a.distance[point[c]]) >> 31;
    }
    if (bits == 0 || (a.on_surface && inside % 8 == 0)) return;
    for (int c = 0; c < 8; c++) add_bits(a.fine + point[c], bits);
}

// What sdf_corner_quantise does, for an opened cell's points: its corners, which foretell them, need not be looked for.
FN void sdf_octree_round_at(const sdf_octree_round_args& a, u32 i) {
    const u32* points = a.points + 27 * (size_t)i;
    double corner[8], base[27];
    for (int c = 0; c < 8; c++) corner[c] = (double)a.rounded[points[corner_point(c)]];
    interpolate(corner, base);
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        u32 point = points[j];
        int parts = a.parts;  // those of a step that are rounded to
        if (a.fine) parts >>= 31 - leading_zeros(a.fine[point] | 1u);
        int steps = a.hanging[point] ? 0 : parts * whole_steps(a.value[point], base[j], parts * a.step);
        store_shared(a.rounded + point, (float)(base[j] + (double)steps * a.step));
        store_shared(a.steps + point, steps);
    }
}

// How many leaves are in a cell, from those in its children.
FN void sdf_octree_held_at(const sdf_octree_held_args& a, u32 i) {
    u32 sum = 0;
    for (u32 c = 8 * i; c < 8 * i + 8; c++) sum += a.held[c];
    a.above_held[a.parent[i]] = sum;
}
// How many leaves come before a cell along the Morton curve, in place of how many are in it.
FN void sdf_octree_rank_at(const sdf_octree_rank_args& a, u32 i) {
    u32 before = a.above_rank[a.parent[i]];
    for (u32 c = 8 * i; c < 8 * i + 8; c++) {
        u32 held = a.rank[c];
        a.rank[c] = before;
        before += held;
    }
}
FN void sdf_octree_leaves_at(const sdf_octree_leaves_args& a, u32 cell) {
    if (a.state[cell] == SPLIT) return;
    u32 corner[8], place = a.rank[cell];
    a.leaf_key[place] = key_of(a, cell) << 3 * (SDF_LATTICE_BITS - a.level);
    a.leaf_level[place] = (u8)a.level;
    corners_of(a, cell, corner);
    for (int c = 0; c < 8; c++) store_shared(a.used + corner[c], (u8)1);
}
FN void sdf_octree_corners_at(const sdf_octree_corners_args& a, u32 cell) {
    if (a.state[cell] == SPLIT) return;
    u32 corner[8];
    corners_of(a, cell, corner);
    for (int c = 0; c < 8; c++) a.leaf_corner[8 * (size_t)a.rank[cell] + c] = a.place[corner[c]];
}

// Takes the sign of a new point from another point of its cell: the ball around each that its distance allows is empty
// of surface, so where the two balls meet, nothing lies between. The sign of an open surface changes at its holes too:
// `clear` is how far around a point the caps that close them have no say. A first pass asks older points; a second one,
// given what came of that, asks the new ones as well, and says which are left.
FN void sdf_sign_inherit_at(const sdf_sign_inherit_args& a, u32 i) {
    if (a.before && a.before[i] != UNKNOWN) {
        a.inside[i] = a.before[i];
        if (a.link) a.link[i] = 1;
        return;
    }
    const u32* points = a.points + 27 * (size_t)a.point_row[i];
    int own = 0;
    while (points[own] != a.first + i) own++;
    Offset at = offset_of(own);
    float d = a.distance[i], clear = 0.f;
    u8 inside = UNKNOWN;
    for (int j = 0; j < 27; j++) {
        if (j == own) continue;
        bool older = points[j] < a.first;
        u32 other = older ? points[j] : points[j] - a.first;
        if (!older && (!a.before || other >= a.n || a.before[other] == UNKNOWN)) continue;
        float e = older ? magnitude(a.signed_distance[other]) : a.distance[other];
        Offset o = offset_of(j);
        int x = o.x - at.x, y = o.y - at.y, z = o.z - at.z;
        float length = a.step * sqrtf((float)(x * x + y * y + z * z));
        float reach = (a.clear ? a.clear[points[j]] : 1e30f) - length;
        if (d + e - SDF_DISTANCE_ERROR > length && reach > clear) {
            clear = reach;
            inside = older ? (u8)(float_bits(a.signed_distance[other]) >> 31) : a.before[other];
        }
    }
    a.inside[i] = inside;
    if (a.link) a.link[i] = inside != UNKNOWN;
    if (!a.clear) return;
    if (inside == UNKNOWN && a.before) clear = caps_room(a, load3(a.position + 3 * (size_t)i));
    a.clear[a.first + i] = clear;
}

#endif
