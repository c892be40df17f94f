// The CPU's distance query: an implicit tree with sixteen children a node over triangles along the Hilbert curve, a
// packed R-tree (Kamel and Faloutsos 1993). Sixteen consecutive triangles make a block,
// sixteen blocks a node of level 0, sixteen nodes of a level one of the next: no pointers, all lanes full. Child j of node k is
// 16 k + j. Answers are those of sdf_distance_cct to the last bit: the same arithmetic in every lane, and a nearest
// triangle that does not depend on the order of the walk (see triangle.h).
#ifndef SDFCLI_WIDE_H
#define SDFCLI_WIDE_H
#include "distance.h"
#include "lanes.h"

#define SDF_WIDE_LEVELS 8                            // 16^8 = 2^32 blocks
#define SDF_WIDE_STACK (SDF_WIDE * SDF_WIDE_LEVELS)  // a step down a level replaces one entry by at most sixteen

namespace {

struct Postponed {
    float bound;
    u32 place;  // a node, or on level -1 a block
    int level;
};

FN void test_lanes(const sdf_distance_wide_args& a, F3 p, Vec<Wide> u, Vec<Wide> v, Vec<Wide> w, const u32* slots, Hit* best) {
    Vec<Wide> q = {Wide(p.x), Wide(p.y), Wide(p.z)};
    Wide d = triangle_distance_sq(q, u, v, w);
    for (u32 left = bits(d <= Wide(best->distance_sq)); left; left &= left - 1) {
        int k = __builtin_ctz(left);
        if (d.v[k] < best->distance_sq ||
            (d.v[k] == best->distance_sq && a.triangle_id[slots[k]] < a.triangle_id[best->slot])) {
            best->distance_sq = d.v[k];
            best->slot = slots[k];
        }
    }
}

FN Vec<Wide> load_corner(const float* block, int corner) {
    const float* c = block + 3 * SDF_LANES * corner;
    return {load_lanes(c), load_lanes(c + SDF_LANES), load_lanes(c + 2 * SDF_LANES)};
}

FN void test_block(const sdf_distance_wide_args& a, F3 p, u32 block, Hit* best) {
    const float* t = a.block + 9 * SDF_LANES * (size_t)block;
    u32 slots[SDF_LANES];
    for (u32 k = 0; k < SDF_LANES; k++) slots[k] = a.block_slot[least(block * SDF_LANES + k, a.triangles - 1)];
    test_lanes(a, p, load_corner(t, 0), load_corner(t, 1), load_corner(t, 2), slots, best);
}

// All seeds at once, one in each lane.
FN void test_seeds(const sdf_distance_wide_args& a, F3 p, u32 i, Hit* best) {
    u32 slots[SDF_LANES] = {0}, slot = 0;
    float t[9 * SDF_LANES];
    bool ended = false;
    for (u32 k = 0; k < SDF_LANES; k++) {
        if (!ended && k < a.seeds) {
            u32 next = a.seed[a.seeds * (size_t)i + k];
            ended = next == SDF_NONE;  // lanes without a seed repeat the last one
            if (!ended) slot = next;
        }
        slots[k] = slot;
        for (int c = 0; c < 9; c++) t[SDF_LANES * c + k] = a.triangle[9 * (size_t)slot + c];
    }
    test_lanes(a, p, load_corner(t, 0), load_corner(t, 1), load_corner(t, 2), slots, best);
}

FN void sdf_distance_wide_at(const sdf_distance_wide_args& a, u32 i) {
    F3 p = load3(a.points + 3 * (size_t)i);
    Vec<Wide> q = {Wide(p.x), Wide(p.y), Wide(p.z)};
    Hit best = {SDF_UNKNOWN, 0};
    test_seeds(a, p, i, &best);
    Postponed stack[SDF_WIDE_STACK];
    int depth = 1;
    stack[0].bound = 0.f;
    stack[0].place = 0;
    stack[0].level = (int)a.levels - 1;
    u32 nodes = 0, blocks = 1;
    while (depth > 0) {
        Postponed at = stack[--depth];
        if (at.bound > best.distance_sq) continue;
        if (at.level < 0) {
            test_block(a, p, at.place, &best);
            blocks++;
            continue;
        }
        nodes++;
        const float* b = a.wide_box + 6 * SDF_LANES * ((size_t)a.level_start[at.level] + at.place);
        Wide x = most(most(load_lanes(b) - q.x, q.x - load_lanes(b + 3 * SDF_LANES)), Wide(0.f));
        Wide y = most(most(load_lanes(b + SDF_LANES) - q.y, q.y - load_lanes(b + 4 * SDF_LANES)), Wide(0.f));
        Wide z = most(most(load_lanes(b + 2 * SDF_LANES) - q.z, q.z - load_lanes(b + 5 * SDF_LANES)), Wide(0.f));
        Wide bound = (x * x + y * y + z * z) * Wide(SDF_BOX_SHRINK);
        int base = depth;
        for (u32 left = bits(bound <= Wide(best.distance_sq)); left; left &= left - 1) {
            int k = __builtin_ctz(left), place = depth++;  // the nearest child ends on top
            for (; place > base && stack[place - 1].bound < bound.v[k]; place--) stack[place] = stack[place - 1];
            stack[place].bound = bound.v[k];
            stack[place].place = at.place * SDF_LANES + (u32)k;
            stack[place].level = at.level - 1;
        }
    }
    a.distance[i] = sqrtf(best.distance_sq);
    a.slot[i] = best.slot;
    if (!a.boxes) return;
    a.boxes[i] = SDF_LANES * nodes;
    a.tests[i] = SDF_LANES * blocks;
}

}  // namespace

#endif
