// Marching cubes (Lorensen and Cline 1987) over bricks of 8 x 8 x 8 nodes, either all bricks in a volume, or only
// bricks that an octree cannot exclude.
//
// Each node has one bit: 1 inside. A word holds the bits for one layer of a brick: 8 x 8 nodes, x fastest. A cell is
// identified by its lowest node, and owns the vertices on the three edges upwards from this node, so each vertex is
// created once. Nodes on the grid's upper boundary have flat cells, which own vertices but no triangles: beyond the
// grid the bits repeat the boundary's.
//
// The method's two scans: the active cells' flags, 64 per word, whose counts are scanned to compact the cells; and the
// active cells' vertex and triangle counts, scanned for output positions. A vertex in another cell is found through the
// first scan: the active cells before its word, plus the preceding bits.
//
// INTERFACE
//   sdf_leaf_side, sdf_leaf_meets                leaves that the surface can intersect
//   sdf_leaf_bricks, sdf_brick_neighbours        the bricks that they touch, and adjacent bricks
//   sdf_field_inside, sdf_volume_inside          inside nodes, from a field and from a dense volume
//   sdf_cell_flags, sdf_cell_cases               the active cells, and their cases
//   sdf_field_vertices, sdf_volume_vertices, sdf_cell_triangles  the mesh
#ifndef SDFCLI_SURFACE_MARCHING_CUBES_H
#define SDFCLI_SURFACE_MARCHING_CUBES_H
#include "base/kernel.h"
#include "field/leaf_tree.h"

#define SDF_CLEARANCE (1.0 / 1024.0)        // minimum distance from a vertex to a node, in cell edges
#define SDF_LOWEST_X 0x0101010101010101ULL  // a word's nodes with x = 0
#define SDF_LOWEST_Y 0xffULL

FN u32 bricks_along(u32 cells) { return cells / 8 + 1; }
FN Lattice brick_position(u64 key, const u32* cells) {  // of its lowest node, in nodes
    u32 nx = bricks_along(cells[0]), ny = bricks_along(cells[1]);
    Lattice p = {8 * (u32)(key % nx), 8 * (u32)(key / nx % ny), 8 * (u32)(key / nx / ny)};
    return p;
}

// ---- Cells that the surface can intersect ----

struct sdf_leaf_side_args {
    u32 n;                   // leaves
    const u32* leaf_corner;  // [n, 8]
    const float* value;      // [corners]
    float iso;
    u8* side;     // [n] out: 1 inside, 0 outside, 2 both
    u32* around;  // [corners] in and out: bit c: it is corner c of a leaf; may be null
};
SDF_KERNEL(sdf_leaf_side, PLAIN, i) {
    u32 below = 0;
    for (int c = 0; c < 8; c++) {
        u32 corner = a.leaf_corner[8 * (size_t)i + c];
        below += a.value[corner] < a.iso;
        if (a.around) atomic_or(a.around + corner, 1u << c);
    }
    a.side[i] = below == 8 ? 1 : below == 0 ? 0 : 2;
}

// A leaf with all corners on one side may still intersect the surface on its boundary, at a smaller leaf's corner on
// the other side that is not one of its own: in octrees with a discontinuous field.
struct sdf_leaf_meets_args {
    u32 n;                  // corners
    const u32* around;      // [n] from sdf_leaf_side
    const u64* corner_key;  // [n]
    Leaves leaves;
    const u8* side;  // [leaves]
    float iso;
    u8* meets;  // [leaves] in and out: 1 for leaves that touch a corner on the other side
};
SDF_KERNEL(sdf_leaf_meets, PLAIN, i) {
    if (a.around[i] == 255) return;  // a corner of all leaves around it
    Lattice at = morton_decode(a.corner_key[i]);
    const u32 full = 1u << SDF_LATTICE_BITS;
    u8 side = a.leaves.value[i] < a.iso;
    u64 first = 1, next = 0;  // Morton code range of the last leaf
    for (u32 c = 0; c < 8; c++) {
        Lattice p = {at.x - (c & 1), at.y - (c >> 1 & 1), at.z - (c >> 2)};
        if (a.around[i] >> c & 1 || p.x >= full || p.y >= full || p.z >= full) continue;
        u64 key = morton_encode(p);
        if (key >= first && key < next) continue;
        u32 leaf = find_leaf(a.leaves, key);
        if (a.side[leaf] + side == 1) store_relaxed(a.meets + leaf, (u8)1);
        first = a.leaves.leaf_key[leaf];
        next = first + (1ULL << 3 * (SDF_LATTICE_BITS - a.leaves.leaf_level[leaf]));
    }
}

// The bricks with the nodes of all cells that touch a leaf.
struct sdf_leaf_bricks_args {
    u32 n;                 // leaves that may contain the surface
    const u32* leaf;       // [n]
    const u64* leaf_key;   // [leaves]
    const u8* leaf_level;  // [leaves]
    const u32* cells;      // [3]
    const u32* first;      // [n] start of each leaf's bricks; null: count only
    u32* count;            // [n] out; may be null
    u64* brick;            // [bricks] out: bricks with nodes of cells at the leaf; may be null
};
SDF_KERNEL(sdf_leaf_bricks, PLAIN, i) {
    u32 leaf = a.leaf[i];
    Lattice at = morton_decode(a.leaf_key[leaf]);
    u64 size = 1ULL << (SDF_LATTICE_BITS - a.leaf_level[leaf]);
    u32 low[3] = {at.x, at.y, at.z}, first[3], last[3];
    for (int k = 0; k < 3; k++) {
        u64 cells = a.cells[k], up = (low[k] * cells + (1u << SDF_LATTICE_BITS) - 1) >> SDF_LATTICE_BITS;
        u64 top = ((low[k] + size) * cells >> SDF_LATTICE_BITS) + 1;
        first[k] = (u32)(up > 0 ? up - 1 : 0) / 8;
        last[k] = (u32)min_of(top, cells) / 8;
    }
    if (a.count) a.count[i] = (last[0] - first[0] + 1) * (last[1] - first[1] + 1) * (last[2] - first[2] + 1);
    if (!a.brick) return;
    u32 next = a.first[i];
    for (u64 z = first[2]; z <= last[2]; z++)
        for (u64 y = first[1]; y <= last[1]; y++)
            for (u64 x = first[0]; x <= last[0]; x++)
                a.brick[next++] = (z * bricks_along(a.cells[1]) + y) * bricks_along(a.cells[0]) + x;
}

struct sdf_brick_neighbours_args {
    u32 n;             // bricks
    const u64* brick;  // [n] sorted
    const u32* cells;  // [3]
    u32* neighbour;    // [n, 8] out: indices into `brick`, SDF_NONE if missing
};
SDF_KERNEL(sdf_brick_neighbours, PLAIN, i) {
    u64 nx = bricks_along(a.cells[0]), ny = bricks_along(a.cells[1]), nz = bricks_along(a.cells[2]), key = a.brick[i];
    u64 x = key % nx, y = key / nx % ny, z = key / nx / ny;
    for (u32 c = 0; c < 8; c++) {
        u64 px = x + (c & 1), py = y + (c >> 1 & 1), pz = z + (c >> 2), there = (pz * ny + py) * nx + px;
        u32 place = SDF_NONE;
        if (px < nx && py < ny && pz < nz) {
            u64 gap = there - a.brick[0];  // the index if no brick is missing
            place = gap < a.n && a.brick[gap] == there ? (u32)gap : lower_bound(a.brick, a.n, there);
            if (place >= a.n || a.brick[place] != there) place = SDF_NONE;
        }
        a.neighbour[8 * (size_t)i + c] = place;
    }
}

struct Bricks {
    const u64* brick;      // [bricks] sorted
    const u32* neighbour;  // [bricks, 8]
    const u32* cells;      // [3]
};

// ---- Node values ----

FN u32 lattice_step(u32 node, u32 cells) {  // lattice step that contains a node
    u64 at = ((u64)node << SDF_LATTICE_BITS) / cells;
    return (u32)min_of(at, (u64)(1u << SDF_LATTICE_BITS) - 1);
}

// The field at nodes, as in sdf_field_sample, in float.
struct FieldNodes {
    const Leaves& leaves;
    const u32* cells;
    u32 leaf, size;  // size 0: no leaf yet
    Lattice low;
    double inverse, corner[8];

    METHOD bool look_up(u32 x, u32 y, u32 z) {  // whether the leaf changed
        Lattice at = {lattice_step(x, cells[0]), lattice_step(y, cells[1]), lattice_step(z, cells[2])};
        if (size && at.x - low.x < size && at.y - low.y < size && at.z - low.z < size) return false;
        leaf = find_leaf(leaves, morton_encode(at));
        size = 1u << (SDF_LATTICE_BITS - leaves.leaf_level[leaf]);
        inverse = 1.0 / size;  // exact
        low = morton_decode(leaves.leaf_key[leaf]);
        return true;
    }
    METHOD void load() {
        for (int c = 0; c < 8; c++) corner[c] = (double)leaves.value[leaves.leaf_corner[8 * (size_t)leaf + c]];
    }
    METHOD double along(u32 node, u32 many, u32 from) const {
        return ((double)node / (double)many * (double)(1u << SDF_LATTICE_BITS) - from) * inverse;
    }
    METHOD float operator()(u32 x, u32 y, u32 z) {
        if (look_up(x, y, z)) load();
        D3 t = vec(along(x, cells[0], low.x), along(y, cells[1], low.y), along(z, cells[2], low.z));
        return (float)trilinear(corner, t);
    }
    METHOD u32 end(u32 from, u32 many) const {  // the first node beyond the leaf
        u64 top = (u64)from + size;
        if (top >> SDF_LATTICE_BITS) return SDF_NONE;
        return (u32)((top * many + (1u << SDF_LATTICE_BITS) - 1) >> SDF_LATTICE_BITS);
    }
};

// Leaf by leaf: a word's nodes in one leaf are a rectangle.
struct sdf_field_inside_args {
    u32 n;  // 8 x bricks
    Bricks bricks;
    Leaves leaves;
    const u8* side;  // [leaves]
    float iso;
    u64* inside;  // [n] out: words
};
SDF_KERNEL(sdf_field_inside, PLAIN, i) {
    Lattice at = brick_position(a.bricks.brick[i / 8], a.bricks.cells);
    FieldNodes nodes = {a.leaves, a.bricks.cells, 0, 0, {0, 0, 0}, 0.0, {}};
    u32 z = min_of(at.z + i % 8, a.bricks.cells[2]);
    u64 word = 0;
    for (u64 todo = ~0ULL; todo;) {
        u32 bit = 63 - clz(todo & (0 - todo)), x0 = bit % 8, y0 = bit / 8;
        nodes.look_up(min_of(at.x + x0, a.bricks.cells[0]), min_of(at.y + y0, a.bricks.cells[1]), z);
        u32 x1 = min_of(nodes.end(nodes.low.x, a.bricks.cells[0]) - at.x, 8u);
        u32 y1 = min_of(nodes.end(nodes.low.y, a.bricks.cells[1]) - at.y, 8u);
        u64 row = (SDF_LOWEST_Y >> (8 - x1 + x0)) << x0, all = 0;
        for (u32 y = y0; y < y1; y++) all |= row << 8 * y;
        todo &= ~all;
        u8 side = a.side[nodes.leaf];
        if (side < 2) {
            word |= side ? all : 0;
            continue;
        }
        nodes.load();
        double tx[8], tz = nodes.along(z, a.bricks.cells[2], nodes.low.z);
        for (u32 x = x0; x < x1; x++)
            tx[x] = nodes.along(min_of(at.x + x, a.bricks.cells[0]), a.bricks.cells[0], nodes.low.x);
        for (u32 y = y0; y < y1; y++) {
            double ty = nodes.along(min_of(at.y + y, a.bricks.cells[1]), a.bricks.cells[1], nodes.low.y);
            for (u32 x = x0; x < x1; x++)
                word |= (u64)((float)trilinear(nodes.corner, vec(tx[x], ty, tz)) < a.iso) << (8 * y + x);
        }
    }
    a.inside[i] = word;
}

struct Volume {
    u32 first_layer;     // of nodes, the first in `value`
    const float* value;  // [nodes] some layers, x fastest
};

struct VolumeNodes {
    const Volume& volume;
    const u32* cells;

    METHOD const float* row(u32 y, u32 z) const {
        return volume.value + ((z - volume.first_layer) * (size_t)(cells[1] + 1) + y) * (cells[0] + 1);
    }
    METHOD float operator()(u32 x, u32 y, u32 z) const { return row(y, z)[x]; }
};

// Consecutive indices are neighbours along x, whose nodes are adjacent in memory.
struct sdf_volume_inside_args {
    u32 n;             // 8 x bricks, in whole layers
    const u32* cells;  // [3]
    Volume nodes;
    float iso;
    u64* inside;  // [n] out: words
};
SDF_KERNEL(sdf_volume_inside, PLAIN, i) {
    u32 nx = bricks_along(a.cells[0]), ny = bricks_along(a.cells[1]);
    u32 bx = i % nx, by = i / nx % ny, layer = i / nx / ny, z = min_of(a.nodes.first_layer + layer, a.cells[2]);
    VolumeNodes nodes = {a.nodes, a.cells};
    u64 word = 0;
    for (u32 y = 0; y < 8; y++) {
        const float* row = nodes.row(min_of(8 * by + y, a.cells[1]), z);
        u32 bits = 0;
        if (8 * bx + 7 <= a.cells[0])
            bits = eight_below(row + 8 * bx, a.iso);
        else
            for (u32 x = 0; x < 8; x++) bits |= (u32)(row[min_of(8 * bx + x, a.cells[0])] < a.iso) << x;
        word |= (u64)bits << 8 * y;
    }
    a.inside[((layer / 8 * (size_t)ny + by) * nx + bx) * 8 + layer % 8] = word;
}

// ---- Flags, cases and counts ----

// The words for a cell's eight corners: bit b in corner c is the bit of node b's neighbour c. Where a brick is missing,
// no cell that extends into it intersects the surface, and its nodes repeat the boundary, which leaves the cell
// uniform.
struct Corners {
    u64 word[8];
};
FN Corners corner_words(const Bricks& bricks, const u64* inside, u32 i) {
    const u32* next = bricks.neighbour + 8 * (size_t)(i / 8);
    u32 layer = i % 8;
    Corners r;
    for (u32 up = 0; up < 2; up++) {
        bool above = up && layer == 7 && next[4] != SDF_NONE;
        u32 z = above ? 0 : min_of(layer + up, 7u);
        u64 w[4];
        bool there[4];
        for (u32 c = 0; c < 4; c++) {
            u32 brick = next[above ? c | 4 : c];
            there[c] = brick != SDF_NONE;
            w[c] = there[c] ? inside[8 * (size_t)brick + z] : 0;
        }
        u64 last_x = there[1] ? w[1] << 7 : w[0];   // for nodes with x = 7
        u64 last_y = there[2] ? w[2] << 56 : w[0];  // for nodes with y = 7
        u64 last = there[3]   ? w[3] << 63
                   : there[1] ? w[1] << 7
                   : there[2] ? w[2] << 56
                              : w[0];  // for the node with both
        const u64 top_x = SDF_LOWEST_X << 7, top_y = SDF_LOWEST_Y << 56, top = 1ULL << 63;
        r.word[4 * up] = w[0];
        r.word[4 * up + 1] = (w[0] >> 1 & ~top_x) | (last_x & top_x);
        r.word[4 * up + 2] = (w[0] >> 8 & ~top_y) | (last_y & top_y);
        r.word[4 * up + 3] =
            (w[0] >> 9 & ~top_x & ~top_y) | (last_x >> 8 & top_x & ~top) | (last_y >> 1 & top_y & ~top) | (last & top);
    }
    return r;
}

FN u64 within_grid(Lattice at, u32 layer, const u32* cells) {  // a word's nodes within the grid
    if (at.z + layer > cells[2]) return 0;
    u64 row = cells[0] - at.x < 8 ? SDF_LOWEST_Y >> (7 - (cells[0] - at.x)) : SDF_LOWEST_Y;
    u64 all = row * SDF_LOWEST_X;
    return cells[1] - at.y < 8 ? all & (~0ULL >> 8 * (7 - (cells[1] - at.y))) : all;
}

struct sdf_cell_flags_args {
    u32 n;  // words
    Bricks bricks;
    const u64* inside;  // [n]
    u64* active;        // [n] out: nodes whose cells intersect the surface
    u32* count;         // [n] out
};
SDF_KERNEL(sdf_cell_flags, PLAIN, i) {
    Corners corner = corner_words(a.bricks, a.inside, i);
    u64 any = 0, all = ~0ULL;
    for (int c = 0; c < 8; c++) {
        any |= corner.word[c];
        all &= corner.word[c];
    }
    u64 active = any & ~all & within_grid(brick_position(a.bricks.brick[i / 8], a.bricks.cells), i % 8, a.bricks.cells);
    a.active[i] = active;
    a.count[i] = popcount((u32)active) + popcount((u32)(active >> 32));
}

// Bit k: the surface crosses the edge from a cell's lowest node along axis k.
FN u32 own_crossings(u32 cases) {
    u32 lowest = 0 - (cases & 1);
    return ((cases >> 1 & 1) | (cases >> 1 & 2) | (cases >> 2 & 4)) ^ (lowest & 7);
}

struct sdf_cell_cases_args {
    u32 n;  // words
    Bricks bricks;
    const u64* inside;  // [n]
    const u64* active;  // [n]
    const u32* first;   // [n] index of each word's first active cell
    const u8* table;    // [256, 16] see extract/tables.py
    u32* cell;          // [active] out: 64 x word + bit
    u8* cases;          // [active] out
    u32* vertices;      // [active] out: owned vertices per cell
    u32* triangles;     // [active] out: triangles per cell
    u32 own;            // words whose counts are summed, for the next part
    u32* vertex_sum;    // [slots] in and out: their vertices, see sdf_scan_carry; null: neither is summed
    u32* triangle_sum;  // [slots] in and out: their triangles
    u32* marks;         // [1] in and out: 1 if the surface meets the grid's boundary
};
SDF_KERNEL(sdf_cell_cases, PLAIN, i) {
    u64 todo = a.active[i];
    if (!todo) return;
    Corners corner = corner_words(a.bricks, a.inside, i);
    Lattice at = brick_position(a.bricks.brick[i / 8], a.bricks.cells);
    u32 vertices = 0, triangles = 0;
    for (u32 next = a.first[i]; todo; next++, todo &= todo - 1) {
        u32 bit = 63 - clz(todo & (0 - todo)), cases = 0;
        for (u32 c = 0; c < 8; c++) cases |= (u32)(corner.word[c] >> bit & 1) << c;
        u32 node[3] = {at.x + bit % 8, at.y + bit / 8, at.z + i % 8}, crossed = own_crossings(cases);
        bool flat = false, cut = false;
        for (int k = 0; k < 3; k++) {
            bool upper = node[k] == a.bricks.cells[k];
            flat |= upper;
            cut |= (upper || node[k] == 0) && (crossed & ~(1u << k));
        }
        if (cut) store_relaxed(a.marks, 1u);
        a.cell[next] = 64 * i + bit;
        a.cases[next] = (u8)cases;
        u32 made = flat ? 0 : a.table[SDF_TABLE_ROW * cases];
        a.vertices[next] = popcount(crossed);
        a.triangles[next] = made;
        vertices += popcount(crossed);
        triangles += made;
    }
    if (i >= a.own || !a.vertex_sum) return;
    u32 slot = i / SDF_WARP % SDF_SCAN_SLOTS * SDF_SCAN_APART;
    atomic_add(a.vertex_sum + slot, vertices);
    atomic_add(a.triangle_sum + slot, triangles);
}

struct ActiveCells {
    const u32* cell;          // [active] 64 x word + bit
    const u8* cases;          // [active]
    const u32* first_vertex;  // [active + 1] counted from the first part on
};

struct Vertices {
    ActiveCells active;
    const u64* brick;     // [bricks]
    const u32* cells;     // [3]
    const double* frame;  // [6] position of node 0, node spacing
    u32 reversed;         // 1: positions are written z, y, x
    float iso;
    u32* marks;        // [2] in and out: marks[1] is 1 if a value is not finite
    double* position;  // [vertices, 3] out
};
// ---- Vertices and triangles ----

// Interpolates the level between an edge's end values, in the same order for all cells; kept slightly away from the
// ends, so that vertices never coincide and no triangle is degenerate, even in single precision.
template <class Nodes>
FN void place_vertices(const Vertices& a, u32 i, Nodes& nodes) {
    u32 crossed = own_crossings(a.active.cases[i]);
    if (!crossed) return;
    u32 cell = a.active.cell[i], bit = cell % 64;
    Lattice at = brick_position(a.brick[cell / 512], a.cells);
    u32 node[3] = {at.x + bit % 8, at.y + bit / 8, at.z + cell / 64 % 8};
    double below = (double)nodes(node[0], node[1], node[2]);
    double* out = a.position + 3 * (size_t)(a.active.first_vertex[i] - a.active.first_vertex[0]);
    for (u32 k = 0; k < 3; k++) {
        if (!(crossed >> k & 1)) continue;
        double above = (double)nodes(node[0] + (k == 0), node[1] + (k == 1), node[2] + (k == 2));
        double gap = above - below, t = ((double)a.iso - below) / gap;
        t = min_of(max_of(t, SDF_CLEARANCE), 1.0 - SDF_CLEARANCE);
        if (gap - gap != 0.0) store_relaxed(a.marks + 1, 1u);  // a value is infinite or NaN
        for (u32 axis = 0; axis < 3; axis++) {
            double steps = axis == k ? (double)node[axis] + t : (double)node[axis];
            out[a.reversed ? 2 - axis : axis] = a.frame[axis] + a.frame[3 + axis] * steps;
        }
        out += 3;
    }
}

struct sdf_field_vertices_args {
    u32 n;  // active cells
    Vertices out;
    Leaves leaves;
};
SDF_KERNEL(sdf_field_vertices, PLAIN, i) {
    FieldNodes nodes = {a.leaves, a.out.cells, 0, 0, {0, 0, 0}, 0.0, {}};
    place_vertices(a.out, i, nodes);
}

struct sdf_volume_vertices_args {
    u32 n;  // active cells
    Vertices out;
    Volume nodes;
};
SDF_KERNEL(sdf_volume_vertices, PLAIN, i) {
    VolumeNodes nodes = {a.nodes, a.out.cells};
    place_vertices(a.out, i, nodes);
}

struct sdf_cell_triangles_args {
    u32 n;                      // active cells
    ActiveCells active;         // and subsequent cells with shared vertices
    const u32* first_triangle;  // [n + 1] counted from the first part on
    const u32* neighbour;       // [bricks, 8]
    const u64* word;            // [words] active nodes
    const u32* first;           // [words + 1] index of each word's first active cell
    const u8* table;            // [256, 16]
    u32 reversed;               // 1: reversed orientation
    u32* triangle;              // [triangles, 3] out
};
SDF_KERNEL(sdf_cell_triangles, PLAIN, i) {
    const u8* row = a.table + SDF_TABLE_ROW * (u32)a.active.cases[i];
    u32 cell = a.active.cell[i], corners = 3 * (a.first_triangle[i + 1] - a.first_triangle[i]);
    u32 x = cell % 8, y = cell / 8 % 8, z = cell / 64 % 8;
    u32* out = a.triangle + 3 * (size_t)(a.first_triangle[i] - a.first_triangle[0]);
    for (u32 k = 0; k < corners; k++) {
        u32 edge = row[1 + k], axis = edge / 8;
        u32 px = x + (edge & 1), py = y + (edge >> 1 & 1), pz = z + (edge >> 2 & 1);
        u32 brick = a.neighbour[8 * (size_t)(cell / 512) + (px / 8 | py / 8 << 1 | pz / 8 << 2)];
        u32 word = 8 * brick + pz % 8, bit = 8 * (py % 8) + px % 8;
        u64 before = a.word[word] & ((1ULL << bit) - 1);
        u32 owner = a.first[word] + popcount((u32)before) + popcount((u32)(before >> 32));
        u32 vertex = a.active.first_vertex[owner] + popcount(own_crossings(a.active.cases[owner]) & ((1u << axis) - 1));
        u32 place = a.reversed ? k / 3 * 3 + 2 - k % 3 : k;
        out[place] = vertex;
    }
}

#endif
