// Winding numbers for a closed surface, which are integers: computed once at lattice nodes, then at arbitrary points.
//
// The winding number is the signed number of entries into the surface along a path from far away. Along the lattice's
// columns, parallel to z, triangles are counted as by a rasteriser. A point's number is its nearest node's, plus the
// crossings on the segment between the two. There are none if the ball given by the point's distance contains the node.
//
// EXACT: signs of determinants in double are used only if the error cannot change them. Then they equal the signs in
// exact arithmetic, so triangles agree on shared edges: no segment slips through or counts twice. Where rounding may
// have changed a sign the number is unknown, and the caller determines it otherwise. Nodes are at odd fractions of the
// spacing, different for each axis, so this hardly ever happens.
//
// INTERFACE
//   SignLattice          the lattice
//   sdf_lattice_cross    the columns' crossings
//   sdf_lattice_sum      winding numbers at nodes
//   sdf_lattice_winding  on a GPU: winding numbers at points
#ifndef SDFCLI_SIGN_LATTICE_H
#define SDFCLI_SIGN_LATTICE_H
#include "base/kernel.h"
#include "base/warp.h"
#include "sign/caps.h"
#include "sign/propagate.h"
#include "trees/packed.h"
#include "winding/moments.h"

// Multiples of 2^-14: with up to 2^8 nodes per edge, a node's coordinates are exact in float.
#define SDF_NODE_X 0.54742431640625f
#define SDF_NODE_Y 0.46514892578125f
#define SDF_NODE_Z 0.51409912109375f
#define SDF_NUMBER_ZERO 128u
#define SDF_NUMBER_REACH 64u  // points on each side from which a number may be inherited

FN u32 lattice_index(u32 side, u32 x, u32 y, u32 z) { return (z * side + y) * side + x; }
FN F3 lattice_node(u32 side, u32 x, u32 y, u32 z) {
    float spacing = 1.f / (float)side;
    return vec(((float)x + SDF_NODE_X) * spacing, ((float)y + SDF_NODE_Y) * spacing, ((float)z + SDF_NODE_Z) * spacing);
}
FN u32 nearest_node(u32 side, float u, float first) {
    float at = u * (float)side + (0.5f - first), last = (float)(side - 1);
    return at < 0.f ? 0u : at < last ? (u32)at : side - 1;
}

// Error bound for a sum of two products, with half a unit in the last place for each factor and for each operation:
// less than 4 units of the summed magnitudes.
#define SDF_DOUBLE_ERROR 1e-15

struct Signed {
    double value, error;
    METHOD int sign() const { return value > error ? 1 : value < -error ? -1 : 0; }
};
FN Signed area_sign(double ax, double ay, double bx, double by) {
    double p = ax * by, q = ay * bx;
    Signed s = {p - q, SDF_DOUBLE_ERROR * (max_of(p, -p) + max_of(q, -q))};
    return s;
}

// Eight threads per triangle, each processing every eighth row of its columns.
struct sdf_lattice_cross_args {
    u32 n;  // triangles x SDF_LATTICE_ROWS
    u32 side;
    WindingTree tree;
    u32* change;  // [side + 1, side ** 2] in and out: winding number change from the node below
    u8* unsure;   // [side ** 2] in and out: 1 for a column with uncertain crossings
};
SDF_KERNEL(sdf_lattice_cross, PLAIN, i) {
    const float* t = corners_at(a.tree, i / SDF_LATTICE_ROWS);
    D3 p[3] = {load3d(t), load3d(t + 3), load3d(t + 6)};
    float low_x = min_of(t[0], min_of(t[3], t[6])), high_x = max_of(t[0], max_of(t[3], t[6]));
    float low_y = min_of(t[1], min_of(t[4], t[7])), high_y = max_of(t[1], max_of(t[4], t[7]));
    double low_z = min_of(p[0].z, min_of(p[1].z, p[2].z)), high_z = max_of(p[0].z, max_of(p[1].z, p[2].z));
    u32 first_x = nearest_node(a.side, low_x, SDF_NODE_X), last_x = nearest_node(a.side, high_x, SDF_NODE_X);
    u32 first_y = nearest_node(a.side, low_y, SDF_NODE_Y), last_y = nearest_node(a.side, high_y, SDF_NODE_Y);
    for (u32 y = first_y + i % SDF_LATTICE_ROWS; y <= last_y; y += SDF_LATTICE_ROWS)
        for (u32 x = first_x; x <= last_x; x++) {
            F3 at = lattice_node(a.side, x, y, 0);
            if (at.x < low_x || at.x > high_x || at.y < low_y || at.y > high_y) continue;
            double ax = p[0].x - at.x, ay = p[0].y - at.y, bx = p[1].x - at.x, by = p[1].y - at.y, cx = p[2].x - at.x,
                   cy = p[2].y - at.y;
            Signed s[3] = {area_sign(bx, by, cx, cy), area_sign(cx, cy, ax, ay), area_sign(ax, ay, bx, by)};
            int signs[3] = {s[0].sign(), s[1].sign(), s[2].sign()};
            int low = min_of(signs[0], min_of(signs[1], signs[2])), high = max_of(signs[0], max_of(signs[1], signs[2]));
            if (low < 0 && high > 0) continue;
            if (low == 0 || high == 0) {
                store_relaxed(a.unsure + a.side * y + x, (u8)1);
                continue;
            }
            // Height at which the column intersects the triangle: in spacings, with the first node at 1.
            double area = s[0].value + s[1].value + s[2].value, error = s[0].error + s[1].error + s[2].error;
            double rise = s[0].value * (p[0].z - low_z) + s[1].value * (p[1].z - low_z) + s[2].value * (p[2].z - low_z);
            double z = (low_z + rise / area) * a.side + (1.0 - (double)SDF_NODE_Z);
            double off = a.side * (4.0 * error * (high_z - low_z) / max_of(area, -area) + 1e-14);
            u32 above = (u32)z;  // first node above the intersection
            if (off > 0.25 || z - off < (double)above || z + off > (double)(above + 1))
                store_relaxed(a.unsure + a.side * y + x, (u8)1);
            else
                atomic_add(a.change + lattice_index(a.side, x, y, above), low > 0 ? ~0u : 1u);
        }
}

// A column that does not leave the surface as often as it enters is uncertain, too.
struct sdf_lattice_sum_args {
    u32 n;  // columns: side^2
    u32 side;
    const u32* change;  // [side + 1, n]
    const u8* unsure;   // [n]
    u8* number;         // [side, n] out: SDF_NUMBER_ZERO + the winding number; 0: unknown
};
SDF_KERNEL(sdf_lattice_sum, PLAIN, column) {
    u32 sum = 0;
    for (u32 z = 0; z <= a.side; z++) sum += a.change[(size_t)z * a.n + column];
    bool unsure = a.unsure[column] || sum;
    sum = SDF_NUMBER_ZERO;
    for (u32 z = 0; z < a.side; z++) {
        sum += a.change[(size_t)z * a.n + column];
        a.number[(size_t)z * a.n + column] = unsure || sum > 255 ? (u8)0 : (u8)sum;
    }
}

struct SignLattice {
    u32 side;          // a power of two, at most 256
    const u8* number;  // [side ** 3] SDF_NUMBER_ZERO + the winding number; 0: unknown
};

// Error bound for a triple product of differences to a point: less than 16 half units in the last place of the product
// of their lengths.
#define SDF_TRIPLE_ERROR 4e-15

// Winding number change by a triangle, seen from p, along the segment d from p: 1 if the segment leaves the surface, so
// that p is one deeper.
FN int way_crosses(D3 p, D3 d, const float* t, bool* sure) {
    D3 a = load3d(t) - p, b = load3d(t + 3) - p, c = load3d(t + 6) - p;
    double la = sqrt(dot(a, a)), lb = sqrt(dot(b, b)), lc = sqrt(dot(c, c)), ld = sqrt(dot(d, d));
    D3 ab = cross(a, b), bc = cross(b, c), ca = cross(c, a);
    Signed s[3] = {{dot(d, bc), SDF_TRIPLE_ERROR * (ld * lb * lc)},
                   {dot(d, ca), SDF_TRIPLE_ERROR * (ld * lc * la)},
                   {dot(d, ab), SDF_TRIPLE_ERROR * (ld * la * lb)}};
    // The segment meets the plane at the fraction start / whole.
    Signed start = {dot(c, ab), SDF_TRIPLE_ERROR * (la * lb * lc)};
    Signed rest = {(s[0].value + s[1].value + s[2].value) - start.value,
                   2.0 * (s[0].error + s[1].error + s[2].error + start.error)};
    int signs[5] = {s[0].sign(), s[1].sign(), s[2].sign(), start.sign(), rest.sign()};
    int low = 1, high = -1;
    for (int k = 0; k < 5; k++) {
        low = min_of(low, signs[k]);
        high = max_of(high, signs[k]);
    }
    if (low < 0 && high > 0) return 0;
    if (low == 0 || high == 0) {
        if (dot(b - a, b - a) + dot(c - a, c - a) > 0.0) *sure = false;
        return 0;
    }
    return low;
}

// Crossings on the segment from p to q: by how much p is deeper.
FN int crossings(const WindingTree& tree, F3 p, F3 q, bool* sure) {
    D3 from = vec((double)p.x, (double)p.y, (double)p.z), to = vec((double)q.x, (double)q.y, (double)q.z);
    Box way = {
        {min_of(p.x, q.x), min_of(p.y, q.y), min_of(p.z, q.z), max_of(p.x, q.x), max_of(p.y, q.y), max_of(p.z, q.z)}};
    u32 stack[SDF_STACK];
    int depth = 0, sum = 0;
    u32 at = tree.triangles > 1 ? 0u : make_leaf(0);
    for (;;) {
        bool down = false;
        if (is_leaf(at))
            sum += way_crosses(from, to - from, corners_at(tree, leaf_index(at)), sure);
        else
            down = boxes_meet(way, tree.box + 6 * (size_t)at);
        if (down) {
            const float* children = tree.moments + SDF_MOMENTS * (size_t)at + 14;
            stack[depth++] = float_bits(children[1]);
            at = float_bits(children[0]);
        } else if (depth > 0) {
            at = stack[--depth];
        } else {
            return sum;
        }
    }
}

// Points with known distances to a surface, whose holes are closed by caps. Winding numbers include the caps.
struct LatticePoints {
    const float* points;    // [queried, 3]
    const float* distance;  // [queried] unsigned, from the surface without caps
    SignLattice lattice;
    WindingTree tree;
    WindingTree caps;  // 0 triangles: none
    Caps groups;
};
struct NearNode {
    F3 p, node;
    float reach;  // radius around p without surface or relevant caps
    u32 number;   // at the node: SDF_NUMBER_ZERO + its winding number; 0: unknown
    bool within;  // in the unit cube, which contains the surface
    bool empty;   // no surface between p and the node
    bool apart;   // no cap between them, and caps do not matter at p
    METHOD bool known() const { return number != 0 && empty && apart; }
};
FN NearNode near_node(const LatticePoints& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    u32 side = a.lattice.side, x = nearest_node(side, p.x, SDF_NODE_X), y = nearest_node(side, p.y, SDF_NODE_Y),
        z = nearest_node(side, p.z, SDF_NODE_Z);
    NearNode at;
    at.p = at.node = p;
    at.within = p.x >= 0.f && p.x <= 1.f && p.y >= 0.f && p.y <= 1.f && p.z >= 0.f && p.z <= 1.f;
    at.number = SDF_NUMBER_ZERO;
    if (at.within) {
        at.node = lattice_node(side, x, y, z);
        at.number = a.lattice.number[lattice_index(side, x, y, z)];
    }
    F3 way = at.node - p;
    float length_sq = dot(way, way), distance = a.distance[i], d = distance - SDF_DISTANCE_ERROR;
    at.empty = !at.within || (d > 0.f && d * d > length_sq);
    at.reach = distance;
    at.apart = true;
    if (a.groups.groups) {
        float room = caps_room(a.groups, p);
        at.apart = room > 0.f && room * room > length_sq * 1.00001f;
        at.reach = min_of(at.reach, room);
    }
    return at;
}
// Number at a point where the node alone does not determine it.
FN u32 number_along(const LatticePoints& a, const NearNode& at) {
    bool sure = at.number != 0;
    int number = (int)at.number;
    if (sure && !at.empty) number += crossings(a.tree, at.p, at.node, &sure);
    if (sure && !at.apart) number += crossings(a.caps, at.p, at.node, &sure);
    return sure && number > 0 ? (u32)number : 0;
}

FN float winding_of(u32 number) { return number ? (float)number - (float)SDF_NUMBER_ZERO : SDF_UNKNOWN; }

#ifdef SDF_SHARED
// A warp classifies a run of points, then processes the remaining ones with all its threads: first by neighbours with a
// number, then along the segments to their nodes.
struct LatticeMemory {
    Float4 point[SDF_RUN];  // and its reach
    u32 number[SDF_RUN], waiting[SDF_RUN];
};
struct sdf_lattice_winding_args {
    u32 n;      // threads: one warp per run of 256 points
    u32 count;  // points
    LatticePoints queried;
    float* winding;  // [count] out: surface and caps together, or SDF_UNKNOWN
    u32* unsettled;  // [count] out: points where it is unknown, or caps matter
    u32* many;       // [1] in and out: their number; 0 before
};
// Appends the entries of a warp's threads in thread order; returns the new count.
FN u32 kept(u32* list, u32 count, u32 thread, bool keeps, u32 what) {
    u32 mask = warp_ballot(keeps);
    if (keeps) list[count + (u32)popcount(mask & ((1u << thread) - 1u))] = what;
    return count + (u32)popcount(mask);
}
FN u32 number_of_neighbour(const LatticeMemory& run, u32 own, u32 points) {
    Float4 at = run.point[own];
    for (u32 k = 2; k < 2 * SDF_NUMBER_REACH; k++) {
        u32 j = k % 2 ? own + k / 2 : own - k / 2;
        if (j >= points || run.number[j] == 0) continue;
        Float4 other = run.point[j];
        if (empty_between(at.w + other.w, xyz(other) - xyz(at))) return run.number[j];
    }
    return 0;
}
SDF_KERNEL(sdf_lattice_winding, WARP, i) {
    SDF_SHARED LatticeMemory memory[SDF_BLOCK_WARPS];
    LatticeMemory& run = memory[i / SDF_WARP % SDF_BLOCK_WARPS];
    u32 thread = i % SDF_WARP, first = i / SDF_WARP * SDF_RUN, points = min_of(a.count - first, (u32)SDF_RUN),
        count = 0;
    for (u32 k = thread; k < SDF_RUN; k += SDF_WARP) {
        bool waits = false;
        if (k < points) {
            NearNode at = near_node(a.queried, first + k);
            waits = !at.known();
            run.point[k] = quad(at.p, at.apart ? at.reach : -1.f);
            run.number[k] = waits ? 0 : at.number;
            if (!waits) a.winding[first + k] = winding_of(at.number);
        }
        count = kept(run.waiting, count, thread, waits, k);
    }
    warp_sync();
    u32 single = 0;
    for (u32 k = thread; k < count + thread; k += SDF_WARP) {
        u32 own = run.waiting[min_of(k, count - 1)], number = 0;
        if (k < count && run.point[own].w > 0.f) number = number_of_neighbour(run, own, points);
        if (number) a.winding[first + own] = winding_of(number);
        warp_sync();
        single = kept(run.waiting, single, thread, k < count && number == 0, own);
    }
    warp_sync();
    for (u32 k = thread; k < single + thread; k += SDF_WARP) {
        bool open = false;
        u32 point = first + run.waiting[min_of(k, single - 1)];
        if (k < single) {
            NearNode at = near_node(a.queried, point);
            u32 number = number_along(a.queried, at);
            a.winding[point] = winding_of(number);
            open = number == 0 || !at.apart;
        }
        u32 mask = warp_ballot(open);
        if (mask == 0) continue;
        u32 place = shfl(thread == 0 ? atomic_add(a.many, (u32)popcount(mask)) : 0, 0);
        if (open) a.unsettled[place + (u32)popcount(mask & ((1u << thread) - 1u))] = point;
    }
}
#endif

#endif
