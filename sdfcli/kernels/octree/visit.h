// Visits of an octree's levels, many per launch: most of an octree's visits split fewer than a hundred cells, and
// separate kernels would need about thirty launches and half a dozen waits for counts per visit.
//
// A visit follows octree/adaptive.py and runs the same kernels' code: a level's marked cells are split, after coarser
// neighbours, and the children are screened, opened, measured and tested. It proceeds in steps; if the host has to act
// first, for example to reserve capacity, the launch ends, and the next one resumes with the same step.
//
// INTERFACE
//   VisitRoom, VisitTally  memory for visits; their state between launches
//   sdf_octree_visit       visits until no marked cells remain, or the host is needed
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

// Memory for visits, with capacity for the largest counts so far.
struct VisitRoom {
    u32 seeds;  // maximum per point
    u32 most_listed;
    u32 most_chosen;
    u32 most_queried;
    u32 most_flags;
    u64* sums;        // [warps]
    u32* list;        // [most_listed] cells to split, level by level
    u32* chosen;      // [most_chosen] cells to open
    u32* probed;      // [most_chosen]
    u32* mask;        // [most_chosen]
    u32* lent;        // [most_chosen]
    u32* last;        // [most_chosen]
    u8* flag;         // [most_flags] one per cell of a level, and up to eight more
    u32* row;         // [most_queried] and so on: by point of a chunk; later the points to sum up, see left()
    float* position;  // [most_queried, 3]
    u32* seed;        // [most_queried, seeds]
    float* distance;  // [most_queried]
    u32* slot;        // [most_queried]
    u8* before;       // [most_queried]
    u8* inside;       // [most_queried]
    u64* link;        // [most_queried] later sums
    u32* queried;     // [most_queried] points with a winding number query
    u32* many;        // [2] number of these points, and of points to sum up
    float* winding;   // [most_queried]
};

// A level with its capacity in cells and rows; zeros if it has none.
struct VisitLevel {
    Level own;
    u32 most_cells, most_rows;
};

enum VisitStep {
    NEXT_VISIT,  // the host starts with these two
    CONSIDER_CELLS,
    FLAG_CELLS,
    LIST_CELLS,
    GO_COARSER,
    MAKE_CHILDREN,
    SCREEN_CELLS,
    LIST_SCREENED,
    PROBE_CENTRES,
    LOOK_AT_PROBED,
    LIST_PROBED,
    PEEK_AT_CELLS,
    LIST_PEEKED,
    TEST_CELLS,
    GO_UP,
    OPEN_CELLS,
    MAKE_POINTS,
    ASK_POINTS,
    SIGN_POINTS,
    KEEP_POINTS
};
// Parts of steps, each started on different blocks: few cells occupy few blocks, and loading code into a block's cache
// takes longer than running it.
enum VisitPart {
    ANSWERED,
    FLAGGED,
    BORN,
    LINKED,
    SCREENED,
    PROBED,
    LOOKED_AT,
    PEEKED,
    WINDING,
    TESTED,
    BEGUN,
    OWNED,
    MADE,
    SIGNED,
    KEPT,
    VISIT_PARTS
};
static_assert(ANSWERED == 0 && WINDING == (VISIT_PARTS + 1) / 2,
              "half of all blocks apart, as both may be done at a time");
enum VisitList { LISTED_CELLS, CHOSEN_CELLS };

// State of visits. The host sets entries by the same names in octree/visits.py.
struct VisitTally {
    u32 arrivals;  // 0 at first; 2^32 would take minutes of synchronisation alone
    u32 stop;      // out: reason for the launch's end; see base/constants.h
    u32 step;
    u32 points;
    u32 pending;   // bits: levels that may have cells to split
    u32 coarsest;  // coarsest level with splits
    u32 queries;   // distances measured by kernels
    u32 at;        // level of the cells being tested and opened
    u32 first;     // index of the first new cell there
    u32 asking;    // points to query
    // If capacity was lacking: the capacity required, on level `at`.
    u32 want_cells, want_rows, want_points, want_listed, want_chosen, want_queried, want_flags;
    // State passed between steps.
    u32 level, top;                    // level of the cells being split; finest level of the visit
    u32 listed;                        // entries of the list
    u32 coarse;                        // whether coarser neighbours must be split first
    u32 row;                           // first row of new cells
    u32 probing;                       // cells to probe
    u32 list, list_from, opening;      // the cells to open, and their count
    u32 single, packets;               // points for other launches to query, a warp for each or for 32
    u32 windings;                      // points whose winding numbers other launches compute
    u32 ahead;                         // whether all points' winding numbers were computed with the distances
    u32 then, answered;                // the steps after opening, and after the answers
    u32 first_row, first_point, more;  // first new row and point; number of new points
    u32 piece;                         // cells done in earlier chunks
    u32 turn;                          // 1 after the first launch with work, 0 after the second, and so on
};
#define SDF_MOST_LEVELS 22
// By level, after the tally: cells, rows, and cells to split.
#define SDF_TALLY_LEVEL 3u

struct sdf_octree_visit_args {
    u32 n;              // threads: all that run concurrently
    u32 levels;         // of the octree
    u32 depth;          // finest level for the tolerance
    u32 pieces;         // maximum cells per chunk of new points
    u32 wide;           // new cells per thread from which the host takes over
    u32 single;         // queries per warp from which other launches take over
    u32 most_windings;  // winding numbers per warp from which other launches take over
    u32 together;       // queries from which these launches use packets
    u32 most_ahead;     // maximum points per two warps for computing winding numbers with the distances
    u32 after_asking;   // whether to return at once unless the previous launch ended with queries
    float jump_edge;    // as in sdf_octree_test
    const u64* level;   // [levels, 12] the structs VisitLevel
    u32* tally;         // [37 + 3 * levels] in and out
    u32* host_tally;    // [2, 37 + 3 * levels] out: two alternating copies, read by the host
    Points points;
    Limits allowed;
    PacketTree tree;
    NewSigns signs;
    VisitRoom room;
    u32 most_points;
    float* signed_distance;  // [most_points] out, as are slot and clear
    u32* slot;               // [most_points]
    float* gradient;         // [most_points, 3] out; null: recomputed each time
    float* clear;            // [most_points] null: a closed surface
};

struct Visits {
    const sdf_octree_visit_args& a;
    Grid grid;
    VisitTally t;
    u32 cells[SDF_MOST_LEVELS], rows[SDF_MOST_LEVELS], split[SDF_MOST_LEVELS];

    // As grid.each, starting at different threads for each part.
    template <class Body>
    METHOD void each(VisitPart part, u32 n, const Body& body) const {
        for (u32 i = grid.from(part, VISIT_PARTS); i < n; i += grid.threads) body(i);
    }
    // The same for cells: for few cells, one warp each, with memory shared by its threads.
    template <class OfWarp, class OfThread>
    METHOD void each_cell(VisitPart part, u32 count, const OfWarp& of_warp, const OfThread& of_thread) const {
        SDF_SHARED Neighbours around[SDF_BLOCK_WARPS];
        if (count <= warps())
            each(part, SDF_WARP * count, [&](u32 i) { of_warp(i / SDF_WARP, around[place()]); });
        else
            each(part, count, of_thread);
        grid.meet();
    }
    METHOD u32* of_level(u32 level) const {
        return a.tally + sizeof(VisitTally) / sizeof(u32) + SDF_TALLY_LEVEL * level;
    }
    METHOD const VisitLevel& known(u32 level) const { return ((const VisitLevel*)a.level)[level]; }
    METHOD Level own(u32 level) const { return known(level).own; }
    METHOD Level above(u32 level) const {
        Level none = {};
        return level ? own(level - 1) : none;
    }
    METHOD const u32* opened() const { return (t.list == LISTED_CELLS ? a.room.list : a.room.chosen) + t.list_from; }
    // Whether the capacity suffices; else the launch ends.
    METHOD bool room_for(u32& want, u32 wanted, u32 room) {
        if (wanted <= room) return true;
        want = wanted;
        t.stop = SDF_VISITS_NO_ROOM;
        return false;
    }

    METHOD void run() {
        t = *(const VisitTally*)a.tally;
        if (a.after_asking && t.stop != SDF_VISITS_TO_ASK) return;
        for (u32 k = 0; k < a.levels; k++)
            cells[k] = of_level(k)[0], rows[k] = of_level(k)[1], split[k] = of_level(k)[2];
        grid.meet();  // before one thread overwrites values that others still read
        t.stop = SDF_VISITS_GO_ON, t.turn ^= 1, t.single = t.packets = t.windings = 0;
        t.want_cells = t.want_rows = t.want_points = t.want_listed = t.want_chosen = t.want_queried = t.want_flags = 0;
        while (t.stop == SDF_VISITS_GO_ON) t.step = next();
        if (grid.thread > 0) return;
        const u32 own = sizeof t / sizeof(u32);
        u32* host_tally = a.host_tally + t.turn * (own + SDF_TALLY_LEVEL * a.levels);
        for (u32 k = 1; k < own; k++) a.tally[k] = host_tally[k] = ((const u32*)&t)[k];  // arrivals are counted there
        host_tally += own;
        for (u32 k = 0; k < a.levels; k++, host_tally += SDF_TALLY_LEVEL) {
            of_level(k)[0] = host_tally[0] = cells[k];
            of_level(k)[1] = host_tally[1] = rows[k];
            of_level(k)[2] = host_tally[2] = split[k];
        }
    }

    // Runs a step, as far as capacity suffices; returns the next one, or the same one to repeat it.
    METHOD u32 next() {
        u32 again = t.step;
        switch (t.step) {
            case NEXT_VISIT:
                if (t.pending == 0) {
                    t.stop = SDF_VISITS_DONE;
                    return again;
                }
                t.level = t.top = 31u - (u32)clz(t.pending & (0u - t.pending));
                t.listed = 0;
                return FLAG_CELLS;
            case FLAG_CELLS:
                if (!room_for(t.want_flags, cells[t.level] + 8, a.room.most_flags)) return again;
                flag_marked();
                return LIST_CELLS;
            case LIST_CELLS:
                return list_marked() ? OPEN_CELLS : again;
            case GO_COARSER:
                t.level -= t.coarse;
                return t.coarse ? FLAG_CELLS : MAKE_CHILDREN;
            case MAKE_CHILDREN:
                if (split[t.level] == 0) return GO_UP;
                t.at = t.level + 1;
                if (!room_for(t.want_cells, cells[t.at] + 8 * split[t.level], known(t.at).most_cells)) return again;
                children();
                return CONSIDER_CELLS;
            case CONSIDER_CELLS:
                if (t.at == a.levels - 1) return GO_UP;
                if ((cells[t.at] - t.first) / grid.threads >= a.wide) {
                    t.stop = SDF_VISITS_TO_CONSIDER;
                    return GO_UP;
                }
                if (t.at == a.depth && t.first == 0) t.stop = SDF_VISITS_TO_AFFORD;
                t.row = rows[t.at];
                return SCREEN_CELLS;
            case SCREEN_CELLS:
                if (!room_for(t.want_flags, cells[t.at] - t.first, a.room.most_flags)) return again;
                screen();
                return LIST_SCREENED;
            case LIST_SCREENED:
                t.piece = 0;
                if (!choose()) return again;
                return t.probing ? PROBE_CENTRES : opens(PEEK_AT_CELLS);
            case PROBE_CENTRES:
                t.asking = min_of(t.probing - t.piece, a.pieces);
                if (!room_for(t.want_queried, t.asking, a.room.most_queried)) return again;
                probe();
                t.answered = LOOK_AT_PROBED;
                return ASK_POINTS;
            case LOOK_AT_PROBED:
                look_at_probed();
                t.piece += t.asking;
                return t.piece < t.probing ? PROBE_CENTRES : LIST_PROBED;
            case LIST_PROBED:
                return choose() ? opens(PEEK_AT_CELLS) : again;
            case PEEK_AT_CELLS:
                if (t.at >= a.depth) return TEST_CELLS;
                peek();
                return LIST_PEEKED;
            case LIST_PEEKED:
                return choose() ? opens(TEST_CELLS) : again;
            case TEST_CELLS:
                if (rows[t.at] > t.row) test();
                return GO_UP;
            case GO_UP:
                if (t.level == t.top) return NEXT_VISIT;
                t.level++;
                return MAKE_CHILDREN;
            case OPEN_CELLS:
                if (t.opening == 0) return t.then;
                if (!room_for(t.want_rows, rows[t.at] + t.opening, known(t.at).most_rows) |
                    !room_for(t.want_chosen, t.opening, a.room.most_chosen))
                    return again;
                open();
                return MAKE_POINTS;
            case MAKE_POINTS:
                t.asking = before(min_of(t.piece + a.pieces, t.opening)) - before(t.piece);
                if (!room_for(t.want_points, t.first_point + t.more, a.most_points) |
                    !room_for(t.want_queried, t.asking, a.room.most_queried))
                    return again;
                make_points();
                t.answered = SIGN_POINTS;
                return ASK_POINTS;
            case ASK_POINTS:
                t.queries += t.asking;
                t.ahead = 0;
                if (t.asking && t.asking / warps() >= a.single) {
                    t.stop = SDF_VISITS_TO_ASK;
                    (t.asking < a.together ? t.single : t.packets) = t.asking;
                } else {
                    t.ahead = t.answered == SIGN_POINTS && winds() && 2 * t.asking <= a.most_ahead * warps();
                    ask();
                }
                return t.answered;
            case SIGN_POINTS:
                if (t.asking && !a.signs.normals) inherit();
                if (t.asking == 0 || !winds() || t.ahead) return KEEP_POINTS;
                if (a.room.many[0] / warps() >= a.most_windings) {
                    t.stop = SDF_VISITS_TO_ASK, t.windings = a.room.many[0];
                } else {
                    wind();
                    grid.meet();
                }
                return KEEP_POINTS;
            default:
                if (t.asking) keep_points();
                t.piece += a.pieces;
                return t.piece < t.opening ? MAKE_POINTS : t.then;
        }
    }
    METHOD u32 warps() const { return grid.threads / SDF_WARP; }
    // The thread's warp, and the warp's index in its block.
    METHOD Together warp() const { return {grid.thread % SDF_WARP}; }
    METHOD u32 place() const { return grid.thread / SDF_WARP % SDF_BLOCK_WARPS; }
    // Whether signs may depend on winding numbers.
    METHOD bool winds() const { return !a.signs.normals && a.signs.tree.triangles > 0; }
    // The points with winding numbers to be summed over all triangles.
    METHOD u32* left() const { return t.ahead ? a.room.queried : a.room.row; }
    METHOD u32 opens(u32 then) {
        t.then = then;
        return OPEN_CELLS;
    }
    // Number of points owned by preceding opening cells.
    METHOD u32 before(u32 cell) const { return cell ? a.room.last[cell - 1] : 0; }

    // Of many cells, few are marked: these are tested eight at once, as are all flags.
    APART void flag_marked() {
        u8* flag = a.room.flag;
        u32 n = cells[t.level], step = n / 8 > grid.threads ? 8 : 1;
        grid.each(n / 8 + 1, [&](u32 i) { store_eight_bytes(flag + 8 * (size_t)i, 0); });
        grid.meet();
        sdf_octree_balance_args balance = {n, own(t.level), above(t.level), flag};
        each(FLAGGED, n / step, [&](u32 i) {
            if (step == 8 && eight_bytes(balance.own.split_request + 8 * (size_t)i) == 0) return;
            for (u32 k = step * i; k < step * i + step; k++) sdf_octree_balance_at(balance, k);
        });
        grid.meet();
    }

    // Lists the cells to split; the ones to open first come last.
    APART bool list_marked() {
        const u8* flag = a.room.flag;
        u32 n = cells[t.level], room = a.room.most_listed - min_of(t.listed, a.room.most_listed);
        u32* list = a.room.list + t.listed;
        const u64 closed_one = (u64)1 << 32, coarse = (u64)1 << 63;
        const auto count = [&](u32 flag) { return flag == 1 ? 1 : flag == 2 ? closed_one : flag == 3 ? coarse : 0; };
        u64 all = grid.scan(
            n / 8 + 1,
            [&](u32 i) {
                u64 sum = 0;
                for (u64 left = eight_bytes(flag + 8 * (size_t)i); left; left >>= 8) sum += count(left & 3);
                return sum;
            },
            [&](u32 i, u64 before, u64 own, u64 found) {
                for (u32 k = 8 * i; own; k++) {
                    u64 one = count(flag[k]);
                    u32 place = one == 1 ? (u32)before : (u32)found + (u32)(before >> 32);
                    if (one && one != coarse && place < room) list[place] = k;
                    before += one, own -= one;
                }
            });
        u32 closed = (u32)(all >> 32) & 0x7fffffffu, found = (u32)all + closed;
        if (!room_for(t.want_listed, t.listed + found, a.room.most_listed)) return false;
        t.coarse = (all & coarse) > 0;
        if (t.level == t.top) t.pending &= ~(1u << t.level);
        split[t.level] = found;
        t.listed += found;
        t.at = t.level, t.list = LISTED_CELLS, t.list_from = t.listed - closed, t.opening = closed;
        t.then = GO_COARSER;
        return true;
    }

    APART void children() {
        u32 count = split[t.level];
        t.listed -= count;
        sdf_octree_children_args children = {count, cells[t.at] / 8, a.room.list + t.listed, own(t.level), own(t.at)};
        each(BORN, count, [&](u32 i) { sdf_octree_children_at(children, i); });
        sdf_octree_link_children_args beside = {27 * count, cells[t.at] / 8, children.cells, own(t.level), own(t.at)};
        each(LINKED, 27 * count, [&](u32 i) { sdf_octree_link_children_at(beside, i); });
        grid.meet();
        t.first = cells[t.at];
        cells[t.at] += 8 * count;
        t.coarsest = min_of(t.coarsest, t.level);
    }

    // Lists the new cells to open and the ones to probe. Returns false if the capacity does not suffice.
    APART bool choose() {
        const u8* flag = a.room.flag;
        u32 first = t.first, room = a.room.most_chosen, *chosen = a.room.chosen, *probed = a.room.probed;
        const u64 probed_one = (u64)1 << 32;
        u64 all = grid.scan(
            cells[t.at] - first, [&](u32 i) { return flag[i] == 2 ? probed_one : (u64)(flag[i] == 1); },
            [&](u32 i, u64 before, u64 own, u64) {
                u32 place = own == 1 ? (u32)before : (u32)(before >> 32);
                if (own && place < room) (own == 1 ? chosen : probed)[place] = first + i;
            });
        t.list = CHOSEN_CELLS, t.list_from = 0;
        t.opening = (u32)all, t.probing = (u32)(all >> 32);
        return room_for(t.want_chosen, max_of(t.opening, t.probing), room);
    }

    APART void screen() {
        u32 count = cells[t.at] - t.first, thin_only = t.at >= a.depth;
        sdf_octree_screen_args screen = {count,    t.first,   own(t.at), above(t.at),
                                         a.points, a.allowed, thin_only, a.room.flag};
        each(SCREENED, count, [&](u32 i) { sdf_octree_screen_at(screen, i); });
        grid.meet();
    }

    APART void probe() {
        const VisitRoom& room = a.room;
        sdf_octree_probe_args probe = {t.asking,   room.probed + t.piece, own(t.at), above(t.at), a.slot,
                                       room.seeds, room.position,         room.seed};
        each(PROBED, t.asking, [&](u32 i) { sdf_octree_probe_at(probe, i); });
        grid.meet();
    }

    APART void look_at_probed() {
        const VisitRoom& room = a.room;
        sdf_octree_probed_args look = {t.asking, t.first,   room.probed + t.piece, own(t.at), above(t.at),
                                       a.points, a.allowed, room.distance,         room.flag};
        each(LOOKED_AT, t.asking, [&](u32 i) { sdf_octree_probed_at(look, i); });
        grid.meet();
    }

    APART void peek() {
        u32 count = cells[t.at] - t.first;
        sdf_octree_peek_args peek = {count, t.first, own(t.at), above(t.at), a.points, a.allowed, a.room.flag};
        each_cell(
            PEEKED, count, [&](u32 i, Neighbours& around) { peek_around(peek, i, around, warp()); },
            [&](u32 i) { sdf_octree_peek_at(peek, i); });
    }

    APART void test() {
        Level of = own(t.at);
        u32 count = rows[t.at] - t.row, thin_only = t.at >= a.depth;
        sdf_octree_test_args test = {count,     t.row,       nullptr,          of,      a.points, a.allowed,
                                     thin_only, a.jump_edge, of.split_request, of.state};
        SDF_SHARED PointErrors of_points[SDF_BLOCK_WARPS];
        each(TESTED, SDF_WARP * count, [&](u32 i) { test_cell(test, i / SDF_WARP, of_points[place()], warp()); });
        grid.meet();
        t.pending |= 1u << t.at;
    }

    // Starts opening cells: determines the points they own.
    APART void open() {
        const VisitRoom& room = a.room;
        const u32* list = opened();
        u32 count = t.opening, first = rows[t.at];
        sdf_octree_opening_args opening = {count, first, list, own(t.at)};
        each(BEGUN, count, [&](u32 i) { sdf_octree_opening_at(opening, i); });
        grid.meet();
        sdf_octree_own_args owned = {count, first, list, own(t.at), above(t.at), room.mask, room.lent, room.last};
        each_cell(
            OWNED, count, [&](u32 i, Neighbours& around) { own_points(owned, i, around, warp()); },
            [&](u32 i) { sdf_octree_own_at(owned, i); });
        t.more = (u32)grid.scan(
            count, [&](u32 i) { return (u64)popcount(room.mask[i]); },
            [&](u32 i, u64 before, u64 own, u64) { room.last[i] = (u32)(before + own); });
        t.first_row = first, t.first_point = t.points, t.piece = 0;
        rows[t.at] += count;
    }

    // Creates a chunk's points.
    APART void make_points() {
        const VisitRoom& room = a.room;
        u32 end = min_of(t.piece + a.pieces, t.opening), older = t.first_point + before(t.piece);
        u32 count = 27 * (end - t.piece);
        sdf_octree_points_args points = {count,      t.first_row, t.piece,       t.first_point, older,     opened(),
                                         own(t.at),  above(t.at), room.mask,     room.lent,     room.last, a.slot,
                                         room.seeds, room.row,    room.position, room.seed};
        each(MADE, count, [&](u32 i) { sdf_octree_points_at(points, i); });
        if (grid.thread == 0) room.many[0] = room.many[1] = 0;
        grid.meet();
        t.points += t.asking;
    }

    // Stores their signed distances.
    APART void keep_points() {
        const VisitRoom& room = a.room;
        u32 count = t.asking, older = t.points - count;
        if (winds() && room.many[1]) sum_up(left(), room.many[1]);
        sdf_octree_measured_args measured = {count,
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
        each(KEPT, count, [&](u32 i) { sdf_octree_measured_at(measured, i); });
        grid.meet();
    }

    // Computes unsigned distances and nearest triangles of the points at room.position; for few points, all winding
    // numbers concurrently, although some signs may follow from other points: threads without a point would wait.
    APART void ask() {
        const VisitRoom& room = a.room;
        u32 count = t.asking;
        sdf_distance_single_args query = {SDF_WARP * count, count,
                                          nullptr,          a.tree.levels,
                                          room.seeds,       room.position,
                                          nullptr,          a.tree.slot_place,
                                          a.tree.record,    a.tree.box,
                                          a.tree.part,      a.tree.level_start,
                                          nullptr,          1,
                                          room.seed,        nullptr,
                                          room.distance,    room.slot,
                                          nullptr,          nullptr};
        each(ANSWERED, SDF_WARP * count, [&](u32 i) { ask_alone(query, i); });
        if (t.ahead) wind();
        grid.meet();
    }

    // Inherits new points' signs from others. Lists the remaining points, unless winding numbers are computed already.
    APART void inherit() {
        const VisitRoom& room = a.room;
        const NewSigns& s = a.signs;
        u32 count = t.asking, older = t.points - count;
        if (s.tree.triangles == 0) {
            grid.each(count, [&](u32 i) { room.inside[i] = 0; });
            grid.meet();
            return;
        }
        float step = 0.5f / (float)(1u << t.at);
        sdf_sign_inherit_args inherit = {
            count,   older,         room.row, own(t.at).points, step,        a.signed_distance, room.distance,
            nullptr, room.position, s.groups, a.clear,          room.before, room.link};
        u32 lane = grid.thread % SDF_WARP;
        for (u32 pass = 0; pass < 2; pass++) {  // one loop, as the code takes long to compile
            each(SIGNED, (count + SDF_WARP - 1) / SDF_WARP * SDF_WARP,
                 [&](u32 i) {  // by whole warps; one thread of each adds
                     if (i < count) sdf_sign_inherit_at(inherit, i);
                     bool asks = pass && !t.ahead && i < count && room.link[i] == 0;
                     u32 all = warp_ballot(asks), place = 0;
                     if (lane == 0 && all) place = atomic_add(room.many, (u32)popcount(all));
                     place = shfl(place, 0) + (u32)popcount(all & ((1u << lane) - 1u));
                     if (asks) room.queried[place] = i;
                 });
            grid.meet();
            inherit.before = room.before;
            inherit.inside = room.inside;
        }
    }

    // Winding numbers of the remaining points, or ahead of all points; lists the points to sum up.
    APART void wind() {
        const VisitRoom& room = a.room;
        const NewSigns& s = a.signs;
        const u32* queried = t.ahead ? nullptr : room.queried;
        sdf_winding_single_args winding = {
            grid.threads, t.asking, room.position, queried, queried ? room.many : nullptr,
            s.tree,       s.caps,   s.steps,       s.step,  s.beta,
            s.lost,       0,        room.winding,  left(),  room.many + 1};
        sdf_winding_single_at(winding, grid.from(WINDING, VISIT_PARTS));
    }

    // Exact winding numbers of a list's points without an inherited sign, by all threads together: half a warp takes a
    // millisecond for 70,000 triangles.
    APART void sum_up(const u32* queried, u32 count) {
        const VisitRoom& room = a.room;
        const WindingTree& tree = a.signs.tree;
        grid.each(count, [&](u32 k) { room.link[k] = 0; });
        grid.meet();
        for (u32 k = 0; k < count; k++) {
            if (room.inside[queried[k]] != SDF_SIGN_UNKNOWN) continue;
            F3 p = load3(room.position + 3 * (size_t)queried[k]);
            double sum = 0.0;
            for (u32 slot = grid.thread; slot < tree.triangles; slot += grid.threads)
                sum += triangle_winding(tree, slot, p, 16);
            u64 all = sum_of_warp(grains(sum), grid.thread % SDF_WARP);
            if (grid.thread % SDF_WARP == 0) atomic_add(room.link + k, all);
        }
        grid.meet();
        grid.each(count, [&](u32 k) { room.winding[queried[k]] = (float)(from_grains(room.link[k]) / SDF_FOUR_PI); });
        grid.meet();
    }
};

SDF_KERNEL(sdf_octree_visit, GRID, i) {
    Visits visits = {a, {i, a.n, a.tally, a.room.sums}};
    visits.run();
}
#endif

#endif
