// Visits of levels with few cells to split, many of them in one launch: most visits of an octree split less than a
// hundred, and each would take some thirty launches and half a dozen waits for what they have counted.
//
// What a visit does is written in octree/adaptive.py, and done by the same kernels here: a level's marked cells are
// split, coarser neighbours before them, and the children are looked at, opened, measured and tested.
//
// INTERFACE
//   VisitRoom, VisitTally  memory for a visit; what comes in and goes out
//   sdf_octree_visit       visits until nothing is left, or there is no room for what comes next
#ifndef SDFCLI_OCTREE_VISIT_H
#define SDFCLI_OCTREE_VISIT_H
#include "base/grid.h"
#include "distance/packet.h"
#include "octree/balance.h"
#include "octree/grow.h"
#include "octree/refine.h"
#include "sign/inherit.h"
#include "winding/warp.h"

#ifdef SDF_SHARED

#define SDF_MOST_LEVELS 22

// Cells that are split in a visit are `most` at most, new ones 8 most, their points 19 times as many.
struct VisitRoom {
    u32 most;
    u32 seeds;        // of a point, at most
    u64* sums;        // [warps]
    u32* list;        // [levels, most] out: the cells that are split
    u32* chosen;      // [8 * most]
    u32* probed;      // [8 * most]
    u32* mask;        // [8 * most]
    u32* lent;        // [8 * most]
    u32* last;        // [8 * most]
    u32* row;         // [152 * most]
    float* position;  // [152 * most, 3]
    u32* seed;        // [152 * most, seeds]
    float* distance;  // [152 * most]
    u32* slot;        // [152 * most]
    u8* before;       // [152 * most]
    u8* inside;       // [152 * most]
    u64* link;        // [152 * most]
    u32* asked;       // [152 * most]
    u32* many;        // [1]
    float* winding;   // [152 * most]
};

// The numbers that come in, and go out with what they have become.
struct VisitTally {
    u32 arrivals;  // 0
    u32 points;
    u32 most_points;
    u32 pending;   // bit by bit, levels that may have cells to split
    u32 coarsest;  // level whose cells were split
    u32 queries;   // out, as what follows
    u32 stop;      // where the visits ended: see base/constants.h
    u32 level;     // the level there
    u32 top;       // the visits of the levels from there up to this one are open: their cells are listed, and opened
};
// By level, after it: cells, room for cells, rows, room for rows, cells that are split.
#define SDF_TALLY_LEVEL 5u

struct sdf_octree_visit_args {
    u32 n;             // threads: all that run at a time
    u32 levels;        // of the octree
    u32 depth;         // the finest for the tolerance
    u32 only;          // level to split, or to open cells of; SDF_NONE: all that may have cells to split
    u32 opening;       // number of cells to open, and nothing else; 0: levels are visited
    const u32* cells;  // [opening] these
    float jump_edge;   // as for sdf_octree_test
    const u64* level;  // [levels, 11] the structs Level
    u32* tally;        // [9 + 5 * levels] in and out
    Points points;
    Limits allowed;
    PacketTree tree;
    NewSigns signs;
    VisitRoom room;
    u8* flag;                // [cells + 1] of any level
    float* signed_distance;  // [points] out, as are slot and clear
    u32* slot;               // [points]
    float* gradient;         // [points, 3] out; null: worked out each time
    float* clear;            // [points] null: a closed surface
};

struct Visits {
    const sdf_octree_visit_args& a;
    Grid grid;
    VisitTally t;
    u32 cells[SDF_MOST_LEVELS], rows[SDF_MOST_LEVELS], split[SDF_MOST_LEVELS];

    METHOD u32* of_level(u32 level) const {
        return a.tally + sizeof(VisitTally) / sizeof(u32) + SDF_TALLY_LEVEL * level;
    }
    METHOD Level own(u32 level) const { return ((const Level*)a.level)[level]; }
    METHOD Level above(u32 level) const {
        Level none = {};
        return level ? own(level - 1) : none;
    }
    METHOD bool room_for(u32 level, u32 new_cells, u32 new_rows, u32 opened) const {
        const u32* known = of_level(level);
        return cells[level] + new_cells <= known[1] && rows[level] + new_rows <= known[3] &&
               t.points + SDF_OWN_POINTS * opened <= t.most_points;
    }

    METHOD void run() {
        t = *(const VisitTally*)a.tally;
        for (u32 k = 0; k < a.levels; k++) cells[k] = of_level(k)[0], rows[k] = of_level(k)[2], split[k] = 0;
        enum Step { NEXT, BEGIN, COARSER, CHILDREN, PEEK, TEST, UP, END } step = NEXT;
        u32 level = 0, first = 0, row = 0, opening = 0, at = 0, closed = 0;
        bool coarse = false;
        const u32* list = nullptr;
        t.stop = SDF_VISITS_DONE;
        t.queries = 0;
        if (a.opening)
            open(a.only, a.cells, a.opening), step = END;
        else if (a.only != SDF_NONE)
            level = t.top = a.only, step = BEGIN;
        while (step != END) {
            if (opening) open(at, list, opening);
            opening = 0;
            switch (step) {
                case NEXT:
                    step = END;
                    if (a.only != SDF_NONE || t.pending == 0) break;
                    level = t.top = 31u - (u32)clz(t.pending & (0u - t.pending));
                    step = BEGIN;
                    break;
                case BEGIN:
                    if (!begin(level, closed, coarse)) {
                        t.stop = SDF_BEFORE_VISIT;
                        step = END;
                        break;
                    }
                    if (level == t.top && a.only == SDF_NONE) t.pending &= ~(1u << level);
                    at = level, list = a.room.list + a.room.most * level + split[level] - closed, opening = closed;
                    step = COARSER;
                    break;
                case COARSER:
                    step = coarse ? BEGIN : CHILDREN;
                    level -= coarse;
                    break;
                case CHILDREN:
                    step = UP;
                    if (split[level] == 0) break;
                    if (!room_for(level + 1, 8 * split[level], 8 * split[level], 8 * split[level]) ||
                        (level + 1 == a.depth && cells[level + 1] == 0)) {  // what sheets cost is found out first
                        t.stop = SDF_BEFORE_CHILDREN;
                        step = END;
                        break;
                    }
                    first = cells[level + 1], row = rows[level + 1];
                    children(level);
                    if (level + 1 == a.levels - 1) break;
                    at = level + 1, list = a.room.chosen, opening = screen(level + 1, first);
                    step = PEEK;
                    break;
                case PEEK:
                    if (level + 1 < a.depth) at = level + 1, list = a.room.chosen, opening = peek(level + 1, first);
                    step = TEST;
                    break;
                case TEST:
                    if (rows[level + 1] > row) test(level + 1, row);
                    step = UP;
                    break;
                default:
                    step = level < t.top ? CHILDREN : NEXT;
                    level += level < t.top;
            }
        }
        t.level = level;
        if (grid.thread > 0) return;
        for (u32 k = 1; k < sizeof t / sizeof(u32); k++)
            a.tally[k] = ((const u32*)&t)[k];  // others still count arrivals
        for (u32 k = 0; k < a.levels; k++)
            of_level(k)[0] = cells[k], of_level(k)[2] = rows[k], of_level(k)[4] = split[k];
    }

    // The cells to split, those that are closed last. False where there is no room for them, or to open these.
    APART bool begin(u32 level, u32& closed, bool& coarse) {
        u8* flag = a.flag;
        u32 n = cells[level], most = a.room.most, *list = a.room.list + most * level;
        grid.each(n + 1, [&](u32 i) { flag[i] = 0; });
        grid.meet();
        sdf_octree_balance_args balance = {n, own(level), above(level), flag};
        grid.each(n, [&](u32 i) { sdf_octree_balance_at(balance, i); });
        grid.meet();
        u64 all = grid.scan(
            n, [&](u32 i) { return flag[i] == 1   ? (u64)1
                                   : flag[i] == 2 ? (u64)1 << 32
                                                  : 0; },
            [&](u32 i, u64 before, u64 own, u64 found) {
                u32 place = own == 1 ? (u32)before : (u32)found + (u32)(before >> 32);
                if (own && place < most) list[place] = i;
            });
        closed = (u32)(all >> 32);
        coarse = flag[n] == 3;
        split[level] = (u32)all + closed;
        return split[level] <= most && room_for(level, 0, closed, closed);
    }

    APART void children(u32 level) {
        sdf_octree_children_args children = {split[level], cells[level + 1] / 8, a.room.list + a.room.most * level,
                                             own(level), own(level + 1)};
        grid.each(split[level], [&](u32 i) { sdf_octree_children_at(children, i); });
        grid.meet();
        cells[level + 1] += 8 * split[level];
        t.coarsest = min_of(t.coarsest, level);
    }

    // The new cells with this wish: their number; `chosen` has them.
    APART u32 choose(u32 first, u32 count, u8 wish, u32* chosen) {
        const u8* flag = a.flag;
        return (u32)grid.scan(
            count, [&](u32 i) { return (u64)(flag[i] == wish); },
            [&](u32 i, u64 before, u64 own, u64) {
                if (own) chosen[before] = first + i;
            });
    }

    APART u32 screen(u32 level, u32 first) {
        u32 count = cells[level] - first, thin_only = level >= a.depth;
        sdf_octree_screen_args screen = {count,    first,     own(level), above(level),
                                         a.points, a.allowed, thin_only,  a.flag};
        grid.each(count, [&](u32 i) { sdf_octree_screen_at(screen, i); });
        grid.meet();
        u32 probed = choose(first, count, 2, a.room.probed);
        if (probed) {
            sdf_octree_probe_args probe = {probed, a.room.probed, own(level),      above(level),
                                           a.slot, a.room.seeds,  a.room.position, a.room.seed};
            grid.each(probed, [&](u32 i) { sdf_octree_probe_at(probe, i); });
            grid.meet();
            ask(probed);
            sdf_octree_probed_args look = {probed,   first,     a.room.probed,   own(level), above(level),
                                           a.points, a.allowed, a.room.distance, a.flag};
            grid.each(probed, [&](u32 i) { sdf_octree_probed_at(look, i); });
            grid.meet();
        }
        return choose(first, count, 1, a.room.chosen);
    }

    APART u32 peek(u32 level, u32 first) {
        u32 count = cells[level] - first;
        sdf_octree_peek_args peek = {count, first, own(level), above(level), a.points, a.allowed, a.flag};
        grid.each(count, [&](u32 i) { sdf_octree_peek_at(peek, i); });
        grid.meet();
        return choose(first, count, 1, a.room.chosen);
    }

    APART void test(u32 level, u32 row) {
        Level of = own(level);
        u32 count = rows[level] - row, thin_only = level >= a.depth;
        sdf_octree_test_args test = {count,     row,       nullptr,     of,       a.points,
                                     a.allowed, thin_only, a.jump_edge, of.asked, of.state};
        grid.each(count, [&](u32 i) { sdf_octree_test_at(test, i); });
        grid.meet();
        t.pending |= 1u << level;
    }

    APART void open(u32 level, const u32* list, u32 count) {
        const VisitRoom& room = a.room;
        u32 first = rows[level], older = t.points;
        rows[level] += count;
        sdf_octree_opening_args opening = {count, first, list, own(level)};
        grid.each(count, [&](u32 i) { sdf_octree_opening_at(opening, i); });
        grid.meet();
        sdf_octree_own_args owned = {count, first, list, own(level), above(level), room.mask, room.lent, room.last};
        grid.each(count, [&](u32 i) { sdf_octree_own_at(owned, i); });
        grid.meet();
        u32 more = (u32)grid.scan(
            count, [&](u32 i) { return (u64)room.last[i]; },
            [&](u32 i, u64 before, u64 own, u64) { room.last[i] = (u32)(before + own); });
        t.points += more;
        sdf_octree_points_args points = {count,         first,     0,         older,     older,  list,       own(level),
                                         above(level),  room.mask, room.lent, room.last, a.slot, room.seeds, room.row,
                                         room.position, room.seed};
        grid.each(count, [&](u32 i) { sdf_octree_points_at(points, i); });
        grid.meet();
        if (more == 0) return;
        ask(more);
        sign(level, older, more);
        sdf_octree_measured_args measured = {more,
                                             room.position,
                                             room.slot,
                                             room.distance,
                                             room.inside,
                                             room.winding,
                                             a.signs.normals,
                                             a.points.triangle,
                                             a.slot + older,
                                             a.signed_distance + older,
                                             a.gradient ? a.gradient + 3 * (size_t)older : nullptr};
        grid.each(more, [&](u32 i) { sdf_octree_measured_at(measured, i); });
        grid.meet();
    }

    // Unsigned distances, and nearest triangles, of the points at room.position.
    APART void ask(u32 count) {
        const VisitRoom& room = a.room;
        sdf_distance_lone_args query = {SDF_WARP * count,
                                        count,
                                        a.tree.levels,
                                        room.seeds,
                                        room.position,
                                        nullptr,
                                        a.tree.slot_place,
                                        a.tree.record,
                                        a.tree.box,
                                        a.tree.part,
                                        a.tree.level_start,
                                        nullptr,
                                        1,
                                        room.seed,
                                        nullptr,
                                        room.distance,
                                        room.slot,
                                        nullptr,
                                        nullptr};
        grid.each(SDF_WARP * count, [&](u32 i) { sdf_distance_lone_at(query, i); });
        grid.meet();
        t.queries += count;
    }

    APART void sign(u32 level, u32 older, u32 count) {
        const VisitRoom& room = a.room;
        const NewSigns& s = a.signs;
        if (s.normals) return;
        if (s.tree.triangles == 0) {
            grid.each(count, [&](u32 i) { room.inside[i] = 0; });
            grid.meet();
            return;
        }
        float step = 0.5f / (float)(1u << level);
        sdf_sign_inherit_args inherit = {
            count,   older,         room.row, own(level).points, step,        a.signed_distance, room.distance,
            nullptr, room.position, s.groups, a.clear,           room.before, room.link};
        grid.each(count, [&](u32 i) { sdf_sign_inherit_at(inherit, i); });
        if (grid.thread == 0) *room.many = 0;
        grid.meet();
        inherit.before = room.before;
        inherit.inside = room.inside;
        grid.each(count, [&](u32 i) {
            sdf_sign_inherit_at(inherit, i);
            if (room.link[i] == 0) room.asked[atomic_add(room.many, 1)] = i;
        });
        grid.meet();
        sdf_winding_lone_args winding = {grid.threads, count,  room.position, room.asked, room.many,
                                         s.tree,       s.caps, s.steps,       s.step,     s.beta,
                                         s.lost,       0,      room.winding};
        sdf_winding_lone_at(winding, grid.thread);
        grid.meet();
    }
};

SDF_KERNEL(sdf_octree_visit, GRID, i) {
    Visits visits = {a, {i, a.n, a.tally, a.room.sums}};
    visits.run();
}
#endif

#endif
