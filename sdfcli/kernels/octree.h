// Growing an octree level by level, and keeping its field continuous.
//
// A cell of level L has the Morton key of its place among the 8^L cells of that level. Lattice coordinates have
// SDF_LATTICE_BITS bits, so that the unit cube spans [0, 2^20] and a point's float32 position is exact. Opening a cell
// gives it the 3 x 3 x 3 points of its children's corners, numbered x + 3 y + 9 z; 8 of them are its own corners. The
// other 19 have an odd coordinate on the lattice of the children's level, so they never meet points of coarser levels,
// and only the cells of the same level that touch a point can share it: the first of these, by number, owns it.
#ifndef SDFCLI_OCTREE_H
#define SDFCLI_OCTREE_H
#include "morton.h"
#include "triangle.h"

#define SDF_LATTICE_BITS 20
#define SDF_DISTANCE_ERROR 4e-6f  // more than the rounding of two distances and of the way between their points

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
// Does point o lie between the eight corners in such a way that corner c has a say in its interpolated value?
FN bool lies_between(Offset o, int c) {
    return (o.x == 1 || o.x == 2 * (c & 1)) && (o.y == 1 || o.y == 2 * (c >> 1 & 1)) && (o.z == 1 || o.z == 2 * (c >> 2));
}
#define CENTRE 13
FN int middles(int j) { return (j % 3 == 1) + ((j / 3) % 3 == 1) + (j / 9 == 1); }

// Children of the cells parents[i / 8]; child i % 8 in Morton order, all eight one after the other from `first` on.
FN void sdf_octree_children_at(const sdf_octree_children_args& a, u32 i) {
    u32 parent = a.parents[i >> 3], octant = i & 7u, cell = a.first + i;
    if (octant == 0) {
        a.parent_child[parent] = cell;
        for (int k = 0; k < 27; k++) {
            u32 other = a.parent_neighbour[27 * (size_t)parent + k];
            if (other < SDF_OUTSIDE) store_shared(a.parent_meets_finer + other, (u8)1);
        }
    }
    a.key[cell] = a.parent_key[parent] << 3 | octant;
    a.parent[cell] = parent;
    int x = octant & 1, y = octant >> 1 & 1, z = octant >> 2;
    for (int c = 0; c < 8; c++)
        a.corner[8 * (size_t)cell + c] =
            a.parent_points[27 * (size_t)parent + index_of(x + (c & 1), y + (c >> 1 & 1), z + (c >> 2))];
}

// The 27 neighbours of a new cell (13 is the cell itself), found among the children of its parent's neighbours. Older
// cells learn of the new one.
FN void sdf_octree_neighbours_at(const sdf_octree_neighbours_args& a, u32 i) {
    u32 cell = a.first + i / 27, direction = i % 27, octant = (u32)(a.key[cell] & 7u);
    Offset d = offset_of((int)direction);
    int x = (int)(octant & 1) + d.x - 1, y = (int)(octant >> 1 & 1) + d.y - 1, z = (int)(octant >> 2) + d.z - 1;
    int above = index_of(x < 0 ? 0 : x > 1 ? 2 : 1, y < 0 ? 0 : y > 1 ? 2 : 1, z < 0 ? 0 : z > 1 ? 2 : 1);
    u32 other = a.parent_neighbour[27 * (size_t)a.parent[cell] + above];
    if (other < SDF_OUTSIDE) {
        u32 child = a.parent_child[other];
        other = child == SDF_NONE ? SDF_NONE : child + (u32)((x & 1) | (y & 1) << 1 | (z & 1) << 2);
        if (other < a.first) a.neighbour[27 * (size_t)other + 26 - direction] = cell;
    }
    a.neighbour[27 * (size_t)cell + direction] = other;
}

// Where a point that is not a corner comes from: an opened cell that has it, or the first of the opening cells.
struct Owner {
    u32 cell;
    int point;
    bool opened;
};
template <class Args>
FN Owner owner_of(const Args& a, u32 cell, int j) {
    Owner best = {cell, j, false};
    Offset o = offset_of(j);
    int x0 = o.x == 0 ? -1 : 0, x1 = o.x == 2 ? 1 : 0, y0 = o.y == 0 ? -1 : 0, y1 = o.y == 2 ? 1 : 0;
    int z0 = o.z == 0 ? -1 : 0, z1 = o.z == 2 ? 1 : 0;
    for (int z = z0; z <= z1; z++)
        for (int y = y0; y <= y1; y++)
            for (int x = x0; x <= x1; x++) {
                u32 other = a.neighbour[27 * (size_t)cell + index_of(x + 1, y + 1, z + 1)];
                if (other >= SDF_OUTSIDE || a.state[other] == 0) continue;
                bool opened = a.state[other] >= 2;
                if (opened > best.opened || (opened == best.opened && other < best.cell)) {
                    best.cell = other;
                    best.point = index_of(o.x - 2 * x, o.y - 2 * y, o.z - 2 * z);
                    best.opened = opened;
                }
            }
    return best;
}

// Which points the opening cells own: a bit mask and a count. Corners, and points of opened cells, are filled in. The
// centre is nobody else's, and is there since the cell was probed.
FN void sdf_octree_own_at(const sdf_octree_own_args& a, u32 i) {
    u32 cell = a.cells[i], mask = 0;
    u32* point = a.cell_points + 27 * (size_t)cell;
    for (int j = 0; j < 27; j++) {
        if (is_corner(j) || j == CENTRE) continue;
        Owner o = owner_of(a, cell, j);
        if (o.opened)
            point[j] = a.cell_points[27 * (size_t)o.cell + o.point];
        else if (o.cell == cell)
            mask |= 1u << j;
    }
    a.mask[i] = mask;
    a.count[i] = (u32)count_ones(mask);
}

FN void store_position(float* position, Lattice p) {  // in the unit cube, exactly
    const float unit = 1.f / (1u << SDF_LATTICE_BITS);
    position[0] = (float)p.x * unit;
    position[1] = (float)p.y * unit;
    position[2] = (float)p.z * unit;
}
// Makes the points of a mask: number, key, position, cell, and the nearest triangles of the 2, 4 or 8 corners between
// which each lies, the first bounds of its query.
FN void sdf_octree_points_at(const sdf_octree_points_args& a, u32 i) {
    u32 cell = a.cells[i], mask = a.mask[i], id = a.offset[i];
    Lattice at = morton_decode(a.key[cell]);
    u32 half = 1u << (SDF_LATTICE_BITS - 1 - a.level);
    const u32* corner = a.corner + 8 * (size_t)cell;
    u32* point = a.cell_points + 27 * (size_t)cell;
    for (int c = 0; c < 8; c++) point[corner_point(c)] = corner[c];
    for (int j = 0; j < 27; j++) {
        if (!(mask >> j & 1u)) continue;
        Offset o = offset_of(j);
        Lattice p = {(2 * at.x + (u32)o.x) * half, (2 * at.y + (u32)o.y) * half, (2 * at.z + (u32)o.z) * half};
        point[j] = id;
        a.point_key[id] = morton_encode(p);
        a.point_cell[id] = cell;
        store_position(a.position + 3 * (size_t)id, p);
        u32* seed = a.seed + 8 * (size_t)(id - a.first);
        int seeds = 0;
        for (int c = 0; c < 8; c++)
            if (lies_between(o, c)) seed[seeds++] = a.slot[corner[c]];
        if (seeds < 8) seed[seeds] = SDF_NONE;
        id++;
    }
}

// The points that other opening cells own.
FN void sdf_octree_share_at(const sdf_octree_share_args& a, u32 i) {
    u32 cell = a.cells[i], mask = a.mask[i];
    for (int j = 0; j < 27; j++) {
        if (is_corner(j) || j == CENTRE || mask >> j & 1u) continue;
        Owner o = owner_of(a, cell, j);
        if (!o.opened) a.cell_points[27 * (size_t)cell + j] = a.cell_points[27 * (size_t)o.cell + o.point];
    }
}

FN float magnitude(float x) { return x < 0.f ? -x : x; }
FN float allowed_error(float distance, float tolerance, float band) {
    float d = magnitude(distance);
    return d > band ? tolerance * (d / band) : tolerance;
}

// What the eight corners' values say about the middle of an edge, a face or the cell.
FN float between(const float* corner, int j) {
    Offset o = offset_of(j);
    float sum = 0.f;
    int n = 0;
    for (int c = 0; c < 8; c++)
        if (lies_between(o, c)) {
            sum += corner[c];
            n++;
        }
    return sum / (float)n;
}

// How far the true distance may lie from the trilinear field between eight corners, judged by the corners' gradients:
// along an edge of length h on which the slope changes by J, a smooth field bends away by h J / 8, a crease by up to
// h J / 4. The factors with which this enters the tests below were found by measuring (docs/accuracy.md).
template <class Point>
FN float bend(const sdf_octree_test_args& a, float edge, Point point_of) {
    float sum = 0.f;
    for (int axis = 0; axis < 3; axis++) {
        float steepest = 0.f;
        for (int c = 0; c < 8; c++) {
            if (c >> axis & 1) continue;
            u32 low = point_of(c), high = point_of(c | 1 << axis);
            steepest = most(steepest, magnitude(a.gradient[3 * (size_t)high + axis] - a.gradient[3 * (size_t)low + axis]));
        }
        sum += steepest;
    }
    return sum * edge * 0.125f;
}

// The trilinear field between eight corners, t in [0, 1]^3.
template <class T>
FN T trilinear(const T* v, Vec<T> t) {
    T x00 = v[0] + t.x * (v[1] - v[0]), x10 = v[2] + t.x * (v[3] - v[2]);
    T x01 = v[4] + t.x * (v[5] - v[4]), x11 = v[6] + t.x * (v[7] - v[6]);
    T y0 = x00 + t.y * (x10 - x00), y1 = x01 + t.y * (x11 - x01);
    return y0 + t.z * (y1 - y0);
}

// On the surface the distance is zero: does the field say so at the centroids in a cell? What lies between the points of
// a coarse cell, such as the relief of a nearly flat wall, shows here; a little beside the surface it errs more.
FN bool misses_surface(const sdf_octree_test_args& a, u32 cell, const float* corner) {
    u64 size = 1ULL << 3 * (SDF_MORTON_BITS - a.level), first = a.key[cell] * size;
    Lattice at = morton_decode(a.key[cell]);
    float scale = (float)(1u << a.level);
    for (u32 slot = lower_bound(a.triangle_key, a.triangles, first); slot < a.triangles; slot++) {
        if (a.triangle_key[slot] >= first + size) return false;
        const float* p = a.triangle + 9 * (size_t)slot;
        F3 centroid = (1.f / 3.f) * (load3(p) + load3(p + 3) + load3(p + 6));
        F3 t = scale * centroid - vec((float)at.x, (float)at.y, (float)at.z);
        if (magnitude(trilinear(corner, vec(clamp01(t.x), clamp01(t.y), clamp01(t.z)))) > 0.75f * a.tolerance) return true;
    }
    return false;
}

// A cheap look at a new cell, of which only the corners and the centre are known: may it stay a leaf without a test?
FN void sdf_octree_screen_at(const sdf_octree_test_args& a, u32 i) {
    u32 cell = a.cells[i];
    const u32* point = a.cell_points + 27 * (size_t)cell;
    float corner[8], nearest = 3.402823466e38f;
    for (int c = 0; c < 8; c++) {
        corner[c] = a.distance[point[corner_point(c)]];
        nearest = least(nearest, magnitude(corner[c]));
    }
    float d = a.distance[point[CENTRE]], miss = magnitude(between(corner, CENTRE) - d);
    nearest = least(nearest, magnitude(d));
    float edge = 1.f / (float)(1u << a.level), bent = bend(a, edge, [&](int c) { return point[corner_point(c)]; });
    bool errs = most(1.6f * miss, bent) > allowed_error(nearest, a.tolerance, a.band);
    a.wish[i] = errs || misses_surface(a, cell, corner) ? 1 : 0;
}

// A second look at a cell that was not opened: its neighbours may have been, and share points with it.
FN void sdf_octree_peek_at(const sdf_octree_peek_args& a, u32 i) {
    u32 cell = a.cells[i];
    float corner[8];
    for (int c = 0; c < 8; c++) corner[c] = a.distance[a.cell_points[27 * (size_t)cell + corner_point(c)]];
    u8 wish = 0;
    for (int j = 0; j < 27; j++) {
        if (is_corner(j) || j == CENTRE) continue;
        Owner o = owner_of(a, cell, j);
        if (!o.opened) continue;
        float d = a.distance[a.cell_points[27 * (size_t)o.cell + o.point]];
        if (1.6f * magnitude(between(corner, j) - d) > allowed_error(d, a.tolerance, a.band)) wish = 1;
    }
    a.wish[i] = wish;
}

// Do two of a cell's points have different signs although their distances say that no surface lies between them? Then
// the sign jumps there, as it does where a winding number closes the hole of an open surface: no octree follows that.
FN bool holds_jump(const sdf_octree_test_args& a, const u32* point) {
    for (int j = 1; j < 27; j++)
        for (int k = 0; k < j; k++) {
            float d = a.distance[point[j]], e = a.distance[point[k]];
            if ((d < 0.f) == (e < 0.f)) continue;
            F3 step = load3(a.position + 3 * (size_t)point[j]) - load3(a.position + 3 * (size_t)point[k]);
            if (magnitude(d) + magnitude(e) - SDF_DISTANCE_ERROR > sqrtf(dot(step, step))) return true;
        }
    return false;
}

// Frisken's test (2000), made tighter: an error at one of the 19 points that lie between the corners, or one that the
// gradients foretell between these, splits the cell. The answer is 2 for a cell that stays a leaf because the sign jumps.
FN void sdf_octree_test_at(const sdf_octree_test_args& a, u32 i) {
    u32 cell = a.cells[i];
    const u32* point = a.cell_points + 27 * (size_t)cell;
    float corner[8], error[27], distance[27];
    for (int c = 0; c < 8; c++) corner[c] = a.distance[point[corner_point(c)]];
    for (int j = 0; j < 27; j++) {
        distance[j] = a.distance[point[j]];
        error[j] = is_corner(j) ? 0.f : magnitude(between(corner, j) - distance[j]);
    }
    float half = 0.5f / (float)(1u << a.level);
    u8 wish = 0;
    for (int octant = 0; octant < 8; octant++) {
        int first = index_of(octant & 1, octant >> 1 & 1, octant >> 2);
        float worst = 0.f, nearest = 3.402823466e38f;
        for (int c = 0; c < 8; c++) {
            int j = first + index_of(c & 1, c >> 1 & 1, c >> 2);
            worst = most(worst, error[j]);
            nearest = least(nearest, magnitude(distance[j]));
        }
        float bent = bend(a, half, [&](int c) { return point[first + index_of(c & 1, c >> 1 & 1, c >> 2)]; });
        if (worst + 0.5f * bent > allowed_error(nearest, a.tolerance, a.band)) wish = 1;
    }
    if (!wish && misses_surface(a, cell, corner)) wish = 1;
    if (wish && 2.f * half <= a.jump_edge && holds_jump(a, point)) wish = 2;
    a.wish[i] = wish;
}

// The gradient of the signed distance at a point: away from its nearest point, or the face's normal on the surface.
FN void sdf_gradient_at(const sdf_gradient_args& a, u32 i) {
    D3 p = load3d(a.points + 3 * (size_t)i);
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    D3 u = load3d(t), v = load3d(t + 3), w = load3d(t + 6);
    D3 g = p - nearest_on_triangle(p, u, v, w).point;
    double length = sqrt(dot(g, g)), sign = a.inside[i] == 1 ? -1.0 : 1.0;
    if (length < 1e-9) {
        g = cross(v - u, w - u);
        length = sqrt(dot(g, g));
        sign = 1.0;
    }
    sign = length > 0.0 ? sign / length : 0.0;
    float* out = a.gradient + 3 * (size_t)i;
    out[0] = (float)(sign * g.x);
    out[1] = (float)(sign * g.y);
    out[2] = (float)(sign * g.z);
}

// Points in the middle of a leaf's edge or face that finer neighbours use as corners ("hanging") take the leaf's
// interpolated value, so that the field has no cracks. A leaf wishes to be split where such a point is tight, see below.
FN void sdf_octree_constrain_at(const sdf_octree_constrain_args& a, u32 i) {
    u32 cell = a.cells[i];
    const u32* neighbour = a.neighbour + 27 * (size_t)cell;
    float corner[8];
    for (int c = 0; c < 8; c++) corner[c] = a.value[a.corner[8 * (size_t)cell + c]];
    u8 wish = 0;
    for (int k = 0; k < 27; k++) {
        u32 finer = neighbour[k];
        if (finer >= SDF_OUTSIDE || a.child[finer] == SDF_NONE) continue;
        Offset d = offset_of(k);
        // The points that the cell shares with that neighbour: a corner, an edge's three, or a face's nine.
        int x0 = d.x == 2 ? 2 : 0, x1 = d.x == 0 ? 0 : 2, y0 = d.y == 2 ? 2 : 0, y1 = d.y == 0 ? 0 : 2;
        int z0 = d.z == 2 ? 2 : 0, z1 = d.z == 0 ? 0 : 2;
        for (int z = z0; z <= z1; z++)
            for (int y = y0; y <= y1; y++)
                for (int x = x0; x <= x1; x++) {
                    int j = index_of(x, y, z);
                    if (is_corner(j) || j == CENTRE) continue;
                    int there = index_of(x - 2 * (d.x - 1), y - 2 * (d.y - 1), z - 2 * (d.z - 1));
                    u32 point = a.cell_points[27 * (size_t)finer + there];
                    store_shared(a.value + point, between(corner, j));
                    store_shared(a.hanging + point, (u8)1);
                    if (a.tight[point]) wish = 1;
                }
    }
    a.wish[i] = a.state[cell] == 3 ? 0 : wish;
}

// A leaf whose hanging corners were moved: where its field now misses the true distance by more than the tolerance, the
// corners that were moved most are tight, that is the coarser neighbours that move them must be split.
FN void sdf_octree_tighten_at(const sdf_octree_tighten_args& a, u32 i) {
    u32 cell = a.cells[i];
    if (a.state[cell] == 3) return;
    const u32* at = a.corner + 8 * (size_t)cell;
    float corner[8], excess = 0.f, moved = 0.f;
    for (int c = 0; c < 8; c++) {
        corner[c] = a.value[at[c]];
        float move = magnitude(corner[c] - a.distance[at[c]]) / allowed_error(a.distance[at[c]], a.tolerance, a.band);
        moved = most(moved, move);
    }
    if (moved == 0.f) return;
    excess = moved;
    for (int j = 0; j < 27 && a.points_of_cell; j++) {
        u32 point = a.points_of_cell[27 * (size_t)cell + j];
        if (is_corner(j) || point == SDF_NONE) continue;
        float d = a.distance[point];
        excess = most(excess, magnitude(between(corner, j) - d) / allowed_error(d, a.tolerance, a.band));
    }
    if (excess <= 1.f) return;
    for (int c = 0; c < 8; c++) {
        float move = magnitude(corner[c] - a.distance[at[c]]) / allowed_error(a.distance[at[c]], a.tolerance, a.band);
        if (move >= 0.5f * moved) store_shared(a.tight + at[c], (u8)1);
    }
}

// Takes the sign of a point from another point of its cell: the ball around each that its distance allows is empty of
// surface, so where the two balls meet, nothing lies between. The sign of an open surface changes at its holes too:
// `clear` is a lower bound of the distance to the caps that close them, beyond `guard` they have no say.
FN void sdf_sign_inherit_at(const sdf_sign_inherit_args& a, u32 i) {
    u32 id = a.points[i], cell = a.point_cell[id];
    F3 p = load3(a.position + 3 * (size_t)id);
    float d = a.distance[id], clear = a.guard;
    u8 inside = 2;
    for (int j = 0; j < 27; j++) {
        u32 other = a.cell_points[27 * (size_t)cell + j];
        if (other == id || other == SDF_NONE || a.inside[other] == 2) continue;
        F3 step = load3(a.position + 3 * (size_t)other) - p;
        float length = sqrtf(dot(step, step)), reach = a.clear[other] - length;
        if (d + a.distance[other] - SDF_DISTANCE_ERROR > length && reach > clear) {
            clear = reach;
            inside = a.inside[other];
        }
    }
    a.new_inside[i] = inside;
    a.new_clear[i] = clear;
}

#define SDF_LINK_REACH 32

// The same for points along a curve: the earliest of the points just before one whose sign it has, or itself.
FN void sdf_sign_link_at(const sdf_sign_link_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    u32 link = i;
    for (u32 j = i > SDF_LINK_REACH ? i - SDF_LINK_REACH : 0; j < i && link == i; j++) {
        F3 step = load3(a.points + 3 * (size_t)j) - p;
        float length = sqrtf(dot(step, step));
        bool clear = !a.clear || a.clear[j] - length > a.guard;
        float both = a.distance[i] + a.distance[j];  // the error grows with distances larger than the unit cube
        if (clear && both - SDF_DISTANCE_ERROR * most(both, 1.f) > length) link = j;
    }
    a.link[i] = link;
}

#endif
