// An octree's growth: cells are split until no test requests more. One state machine, for both executors of
// base/steps.h: on a GPU, separate kernels would need about thirty launches and half a dozen waits for counts per split
// level, most of which split fewer than a hundred cells.
//
// From the coarsest level with requested splits: cells are split, after coarser neighbours (2:1 balance), and their
// children are screened, opened, measured and tested. Where the host has to act first, the launch ends; the next one
// resumes with the step in GrowthState.
//
//   step             for              does                                             then
//   NEXT_LEVEL                        takes the coarsest level with requests           FLAG_CELLS
//   FLAG_CELLS       a level's cells  flags the ones to split, and coarser neighbours  LIST_CELLS
//   LIST_CELLS       flags            lists the cells to split, and to open first      OPEN_CELLS
//   GO_COARSER                        splits coarser neighbours first, if any          FLAG_CELLS, MAKE_CHILDREN
//   MAKE_CHILDREN    listed cells     creates and links their children                 CONSIDER_CELLS
//   CONSIDER_CELLS                    decides who tests the new cells                  SCREEN_CELLS
//   SCREEN_CELLS     new cells        tests them by their corners                      CHOOSE_SCREENED
//   CHOOSE_SCREENED  flags            lists the cells to open and to probe             PROBE_CENTRES, OPEN_CELLS
//   PROBE_CENTRES    cells to probe   places the centres of a chunk of them            QUERY_POINTS
//   TEST_PROBED      a chunk          tests them by the distances there                PROBE_CENTRES, CHOOSE_PROBED
//   CHOOSE_PROBED    flags            lists the cells to open                          OPEN_CELLS
//   PEEK_AT_CELLS    new cells        tests closed ones by opened neighbours' points   CHOOSE_PEEKED
//   CHOOSE_PEEKED    flags            lists the cells to open                          OPEN_CELLS
//   TEST_CELLS       new rows         tests opened cells by their 27 points: requests  GO_UP
//   GO_UP                             back to the level whose neighbours were split    MAKE_CHILDREN, NEXT_LEVEL
//
//   OPEN_CELLS       cells to open    creates rows, finds the points they own          COUNT_POINTS, `then`
//   COUNT_POINTS     cells to open    numbers their points                             MAKE_POINTS
//   MAKE_POINTS      a chunk          creates its points                               QUERY_POINTS
//   QUERY_POINTS     points           distances and nearest triangles                  SIGN_POINTS, TEST_PROBED
//   SIGN_POINTS      points           signs: inherited, or by winding numbers          STORE_POINTS
//   STORE_POINTS     points           stores signed distances                          NEXT_CHUNK
//   NEXT_CHUNK                        goes on with the next chunk                      MAKE_POINTS, `then`
//
// INTERFACE
//   GrowthRoom, GrowthState  memory for a growth; its state between launches
//   sdf_octree_grow          grows until no requests remain, or the host is needed
#ifndef SDFCLI_OCTREE_GROWTH_H
#define SDFCLI_OCTREE_GROWTH_H
#include "base/steps.h"
#include "distance/packet.h"
#include "octree/balance.h"
#include "octree/open.h"
#include "octree/refine.h"
#include "sign/inherit.h"
#include "winding/warp.h"

// Memory for a growth, with capacity for the largest counts so far.
struct GrowthRoom {
    u32 seeds;  // maximum per point
    u32 most_listed;
    u32 most_chosen;
    u32 most_queried;
    u32 most_answered;
    u32 most_flags;
    u64* sums;    // [8192]
    u32* list;    // [most_listed] cells to split, level by level
    u32* chosen;  // [most_chosen] cells to open
    u32* probed;  // [most_chosen]
    u32* mask;    // [most_chosen]
    u32* lent;    // [most_chosen]
    u32* last;    // [most_chosen]
    u8* flag;     // [most_flags] one per cell of a level, and up to eight more
    u32* row;     // [most_queried] this and the following: one entry per point; later the points to sum up, see left()
    float* position;  // [most_queried, 3]
    u32* seed;        // [most_queried, seeds]
    float* distance;  // [most_queried]
    u32* slot;        // [most_answered] this and the following: where kernels answer the queries
    u8* before;       // [most_answered]
    u8* inside;       // [most_answered]
    u64* link;        // [most_answered] later sums
    u32* queried;     // [most_answered] points with a winding number query
    u32* many;        // [2] number of these points, and of points to sum up
    float* winding;   // [most_answered]
};

// A level with its capacity in cells and rows; zeros if it has none.
struct GrowthLevel {
    Level own;
    u32 most_cells, most_rows;
};

enum GrowthStep {
    NEXT_LEVEL,  // the host starts with these three
    CONSIDER_CELLS,
    OPEN_CELLS,
    FLAG_CELLS,
    LIST_CELLS,
    GO_COARSER,
    MAKE_CHILDREN,
    SCREEN_CELLS,
    CHOOSE_SCREENED,
    PROBE_CENTRES,
    TEST_PROBED,
    CHOOSE_PROBED,
    PEEK_AT_CELLS,
    CHOOSE_PEEKED,
    TEST_CELLS,
    GO_UP,
    COUNT_POINTS,
    MAKE_POINTS,
    QUERY_POINTS,
    SIGN_POINTS,
    STORE_POINTS,
    NEXT_CHUNK
};
enum GrowthList { LISTED_CELLS, CHOSEN_CELLS };

// State of a growth. The host sets entries by the same names in octree/growth.py.
struct GrowthState {
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
    u32 want_cells, want_rows, want_points, want_listed, want_chosen, want_queried, want_answered, want_flags;
    // State passed between steps.
    u32 level, top;                    // level of the cells being split; finest level of the current split
    u32 listed;                        // entries of the list
    u32 sampled;                       // whether the host has selected cells of the list
    u32 coarse;                        // whether coarser neighbours must be split first
    u32 wide;                          // whether the new cells are so many that the host launches and measures
    u32 row;                           // first row of new cells
    u32 probing;                       // cells to probe
    u32 list, list_from, opening;      // the cells to open, and their count
    u32 single, packets;               // points for other launches to query, a warp for each or for 32
    u32 windings;                      // points whose winding numbers other launches compute
    u32 ahead;                         // whether all points' winding numbers were computed with the distances
    u32 then, answered;                // the steps after opening, and after the answers
    u32 first_row, first_point, more;  // first new row and point; number of new points
    u32 chunk, done;                   // cells in a chunk of new points, and in earlier chunks
    u32 turn;                          // 1 after the first launch with work, 0 after the second, and so on
};
#define SDF_MOST_LEVELS 22
// By level, after the state: cells, rows, and cells to split.
#define SDF_STATE_LEVEL 3u

struct sdf_octree_grow_args {
    u32 n;              // threads: all that run concurrently
    u32 levels;         // of the octree
    u32 depth;          // finest level for the tolerance
    u32 balanced;       // whether coarser neighbours are split first
    u32 sampled;        // whether the host selects cells to split
    u32 measured;       // whether the host measures all points
    u32 launched;       // whether the host launches all kernels
    u32 pieces;         // minimum cells per chunk of new points
    u32 most_pieces;    // maximum cells per chunk that the host measures, where this keeps eight chunks
    u32 wide;           // new cells per thread from which the host launches and measures
    u32 crowd;          // cells per warp from which the host launches kernels that give each one a warp
    u32 single;         // queries per warp from which other launches take over
    u32 most_windings;  // winding numbers per warp from which other launches take over
    u32 together;       // queries from which these launches use packets
    u32 most_ahead;     // maximum points per two warps for computing winding numbers with the distances
    u32 after_answers;  // whether to return at once unless the previous launch ended with queries
    float jump_edge;    // as in sdf_octree_test
    const u64* level;   // [levels, 12] the structs GrowthLevel
    u32* state;         // [41 + 3 * levels] in and out
    u32* host_state;    // [2, 41 + 3 * levels] out: two alternating copies, read by the host
    u8* record;         // [2, 512] out: kernels for the host to launch
    Points points;
    Limits allowed;
    PacketTree tree;
    NewSigns signs;
    GrowthRoom room;
    u32 most_points;
    float* signed_distance;  // [most_points] out, as are slot and clear
    u32* slot;               // [most_points]
    float* gradient;         // [most_points, 3] out; null: recomputed each time
    float* clear;            // [most_points] null: a closed surface
};

struct Growth {
    const sdf_octree_grow_args& a;
    Steps steps;
    GrowthState t;
    u32 cells[SDF_MOST_LEVELS], rows[SDF_MOST_LEVELS], split[SDF_MOST_LEVELS];

    METHOD Growth(const sdf_octree_grow_args& a, const Steps& steps) : a(a), steps(steps) {}

    METHOD u32* of_level(u32 level) const {
        return a.state + sizeof(GrowthState) / sizeof(u32) + SDF_STATE_LEVEL * level;
    }
    METHOD const GrowthLevel& known(u32 level) const { return ((const GrowthLevel*)a.level)[level]; }
    METHOD Level own(u32 level) const { return known(level).own; }
    METHOD Level above(u32 level) const {
        Level none = {};
        return level ? own(level - 1) : none;
    }
    METHOD const u32* opened() const { return (t.list == LISTED_CELLS ? a.room.list : a.room.chosen) + t.list_from; }
    METHOD bool host_measures() const { return a.measured || t.wide; }
    // Whether the capacity suffices; else the launch ends.
    METHOD bool room_for(u32& want, u32 wanted, u32 room) {
        if (wanted <= room) return true;
        want = wanted;
        t.stop = SDF_GROWTH_NO_ROOM;
        return false;
    }
    METHOD GrowthStep stops(u32 reason, GrowthStep step) {
        t.stop = reason;
        return step;
    }

    METHOD void run() {
        t = *(const GrowthState*)a.state;
        if (a.after_answers && t.stop != SDF_GROWTH_TO_ANSWER) return;
        for (u32 k = 0; k < a.levels; k++)
            cells[k] = of_level(k)[0], rows[k] = of_level(k)[1], split[k] = of_level(k)[2];
        steps.meet();  // before one thread overwrites values that others still read
        t.stop = SDF_GROWTH_GOES_ON, t.turn ^= 1, t.single = t.packets = t.windings = 0;
        t.want_cells = t.want_rows = t.want_points = t.want_listed = t.want_chosen = 0;
        t.want_queried = t.want_answered = t.want_flags = 0;
        steps.record = a.record, steps.crowd = a.crowd;
        while (t.stop == SDF_GROWTH_GOES_ON) {
            steps.part = t.step;
            steps.records = a.launched || t.wide;
            t.step = next();
            if (steps.recorded && t.stop == SDF_GROWTH_GOES_ON && needs_kernels(t.step)) t.stop = SDF_GROWTH_TO_LAUNCH;
        }
        if (!steps.leads()) return;
        const u32 own = sizeof t / sizeof(u32);
        u32* host_state = a.host_state + t.turn * (own + SDF_STATE_LEVEL * a.levels);
        for (u32 k = 1; k < own; k++) a.state[k] = host_state[k] = ((const u32*)&t)[k];  // arrivals are counted there
        host_state += own;
        for (u32 k = 0; k < a.levels; k++, host_state += SDF_STATE_LEVEL) {
            of_level(k)[0] = host_state[0] = cells[k];
            of_level(k)[1] = host_state[1] = rows[k];
            of_level(k)[2] = host_state[2] = split[k];
        }
    }

    // Whether a step needs the results of kernels that were left to the host. Others go on, to the next reason to stop.
    METHOD bool needs_kernels(u32 step) const { return step != PROBE_CENTRES && step != QUERY_POINTS; }

    // Runs a step, as far as capacity suffices; returns the next one, or the same one to repeat it.
    METHOD GrowthStep next() {
        const GrowthStep again = (GrowthStep)t.step, then = (GrowthStep)t.then;
        switch (t.step) {
            case NEXT_LEVEL:
                if (t.pending == 0) return stops(SDF_GROWTH_DONE, again);
                t.level = t.top = 31u - (u32)clz(t.pending & (0u - t.pending));
                t.listed = 0;
                return FLAG_CELLS;
            case FLAG_CELLS:
                if (!room_for(t.want_flags, cells[t.level] + 8, a.room.most_flags)) return again;
                flag_cells();
                return LIST_CELLS;
            case LIST_CELLS:
                return list_cells() ? OPEN_CELLS : again;
            case GO_COARSER:
                t.level -= t.coarse;
                t.sampled = 0;
                return t.coarse ? FLAG_CELLS : MAKE_CHILDREN;
            case MAKE_CHILDREN:
                if (split[t.level] == 0) return GO_UP;
                if (a.sampled && !t.sampled) return stops(SDF_GROWTH_TO_SAMPLE, again);
                t.at = t.level + 1;
                if (!room_for(t.want_cells, cells[t.at] + 8 * split[t.level], known(t.at).most_cells)) return again;
                make_children();
                return CONSIDER_CELLS;
            case CONSIDER_CELLS:
                if (t.at == a.levels - 1) return GO_UP;
                t.wide = is_wide(cells[t.at] - t.first);
                t.row = rows[t.at];
                return t.at == a.depth && t.first == 0 ? stops(SDF_GROWTH_TO_AFFORD, SCREEN_CELLS) : SCREEN_CELLS;
            case SCREEN_CELLS:
                if (!room_for(t.want_flags, cells[t.at] - t.first, a.room.most_flags)) return again;
                screen();
                return CHOOSE_SCREENED;
            case CHOOSE_SCREENED:
                if (!choose()) return again;
                t.done = 0, t.chunk = chunk_of(t.probing);
                return t.probing ? PROBE_CENTRES : opens(PEEK_AT_CELLS);
            case PROBE_CENTRES:
                t.asking = min_of(t.probing - t.done, t.chunk);
                if (!room_for(t.want_queried, t.asking, a.room.most_queried)) return again;
                probe();
                t.answered = TEST_PROBED;
                return QUERY_POINTS;
            case TEST_PROBED:
                test_probed();
                t.done += t.asking;
                return t.done < t.probing ? PROBE_CENTRES : CHOOSE_PROBED;
            case CHOOSE_PROBED:
                return choose() ? opens(PEEK_AT_CELLS) : again;
            case PEEK_AT_CELLS:
                if (t.at >= a.depth) return TEST_CELLS;
                peek();
                return CHOOSE_PEEKED;
            case CHOOSE_PEEKED:
                return choose() ? opens(TEST_CELLS) : again;
            case TEST_CELLS:
                if (rows[t.at] > t.row) test();
                return GO_UP;
            case GO_UP:
                t.wide = 0;
                if (t.level == t.top) return NEXT_LEVEL;
                t.level++;
                return MAKE_CHILDREN;
            case OPEN_CELLS:
                if (t.opening == 0) return then;
                if (!room_for(t.want_rows, rows[t.at] + t.opening, known(t.at).most_rows) |
                    !room_for(t.want_chosen, t.opening, a.room.most_chosen))
                    return again;
                open();
                return COUNT_POINTS;
            case COUNT_POINTS:
                count_points();
                return MAKE_POINTS;
            case MAKE_POINTS:
                t.asking = before(min_of(t.done + t.chunk, t.opening)) - before(t.done);
                if (!room_for(t.want_points, t.first_point + t.more, a.most_points) |
                    !room_for(t.want_queried, t.asking, a.room.most_queried))
                    return again;
                make_points();
                t.answered = SIGN_POINTS;
                return QUERY_POINTS;
            case QUERY_POINTS:
                if (host_measures()) {
                    if (t.answered == TEST_PROBED) return stops(SDF_GROWTH_TO_PROBE, TEST_PROBED);
                    return t.asking ? stops(SDF_GROWTH_TO_MEASURE, NEXT_CHUNK) : NEXT_CHUNK;
                }
                if (!room_for(t.want_answered, t.asking, a.room.most_answered)) return again;
                t.queries += t.asking;
                return query_points();
            case SIGN_POINTS:
                return sign_points();
            case STORE_POINTS:
                if (t.asking) store_points();
                return NEXT_CHUNK;
            default:
                t.done += t.chunk;
                return t.done < t.opening ? MAKE_POINTS : then;
        }
    }
    METHOD GrowthStep opens(GrowthStep then) {
        t.then = then;
        return OPEN_CELLS;
    }
    // Cells per chunk of new points, for `count` cells: keeps temporary memory a fraction of stored data.
    METHOD u32 chunk_of(u32 count) const {
        return host_measures() ? max_of(a.pieces, min_of(a.most_pieces, count / SDF_PIECES)) : a.pieces;
    }
    // Number of points owned by preceding opening cells.
    METHOD u32 before(u32 cell) const { return cell ? a.room.last[cell - 1] : 0; }

    APART void flag_cells() {
        u32 n = cells[t.level];
        u8* flag = a.room.flag;
        steps.each(n / 8 + 1, [&](u32 i) { store_eight_bytes(flag + 8 * (size_t)i, 0); });
        steps.meet();
        sdf_octree_balance_args balance = {
            .n = n, .own = own(t.level), .above = a.balanced ? above(t.level) : Level{}, .flag = flag};
        SDF_EACH_MARKED(steps, sdf_octree_balance, balance,
                        [&](u32 k) { return eight_bytes(balance.own.split_request + 8 * (size_t)k) == 0; });
        steps.meet();
    }

    // Lists the cells to split; the ones to open first come last.
    APART bool list_cells() {
        const u8* flag = a.room.flag;
        u32 n = cells[t.level], room = a.room.most_listed - min_of(t.listed, a.room.most_listed);
        u32* list = a.room.list + t.listed;
        const u64 closed_one = (u64)1 << 32, coarse = (u64)1 << 63;
        const auto count = [&](u32 flag) { return flag == 1 ? 1 : flag == 2 ? closed_one : flag == 3 ? coarse : 0; };
        u64 all = steps.scan(
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

    APART void make_children() {
        u32 count = split[t.level], first = cells[t.at] / 8;
        t.listed -= count;
        sdf_octree_children_args children = {
            .n = count, .first = first, .cells = a.room.list + t.listed, .own = own(t.level), .below = own(t.at)};
        SDF_EACH(steps, sdf_octree_children, children);
        steps.part++;
        sdf_octree_link_children_args link = {
            .n = 27 * count, .first = first, .cells = children.cells, .own = children.own, .below = children.below};
        SDF_EACH(steps, sdf_octree_link_children, link);
        steps.meet();
        t.first = cells[t.at];
        cells[t.at] += 8 * count;
        t.coarsest = min_of(t.coarsest, t.level);
    }

    // Lists the new cells to open and the ones to probe. Returns false if the capacity does not suffice.
    APART bool choose() {
        const u8* flag = a.room.flag;
        u32 first = t.first, room = a.room.most_chosen, *chosen = a.room.chosen, *probed = a.room.probed;
        const u64 probed_one = (u64)1 << 32;
        u64 all = steps.scan(
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
        sdf_octree_screen_args screen = {.n = cells[t.at] - t.first,
                                         .first = t.first,
                                         .own = own(t.at),
                                         .above = above(t.at),
                                         .points = a.points,
                                         .allowed = a.allowed,
                                         .thin_only = t.at >= a.depth,
                                         .verdict = a.room.flag};
        SDF_EACH(steps, sdf_octree_screen, screen);
        steps.meet();
    }

    APART void probe() {
        sdf_octree_probe_args probe = {.n = t.asking,
                                       .cells = a.room.probed + t.done,
                                       .own = own(t.at),
                                       .above = above(t.at),
                                       .slot = a.slot,
                                       .seeds = a.room.seeds,
                                       .position = a.room.position,
                                       .seed = a.room.seed};
        SDF_EACH(steps, sdf_octree_probe, probe);
        steps.meet();
    }

    APART void test_probed() {
        sdf_octree_probed_args probed = {.n = t.asking,
                                         .first = t.first,
                                         .cells = a.room.probed + t.done,
                                         .own = own(t.at),
                                         .above = above(t.at),
                                         .points = a.points,
                                         .allowed = a.allowed,
                                         .centre = a.room.distance,
                                         .verdict = a.room.flag};
        SDF_EACH(steps, sdf_octree_probed, probed);
        steps.meet();
    }

    APART void peek() {
        sdf_octree_peek_args peek = {.n = cells[t.at] - t.first,
                                     .first = t.first,
                                     .own = own(t.at),
                                     .above = above(t.at),
                                     .points = a.points,
                                     .allowed = a.allowed,
                                     .verdict = a.room.flag};
        SDF_EACH_TEAM(steps, sdf_octree_peek, peek, Neighbours, peek_around);
        steps.meet();
    }

    APART void test() {
        Level of = own(t.at);
        sdf_octree_test_args test = {.n = rows[t.at] - t.row,
                                     .first = t.row,
                                     .rows = nullptr,
                                     .own = of,
                                     .points = a.points,
                                     .allowed = a.allowed,
                                     .thin_only = t.at >= a.depth,
                                     .jump_edge = a.jump_edge,
                                     .split_request = of.split_request,
                                     .state = of.state};
        SDF_EACH_TEAM(steps, sdf_octree_test, test, PointErrors, test_cell);
        steps.meet();
        t.pending |= 1u << t.at;
    }

    // Starts opening cells: determines the points they own.
    APART void open() {
        u32 first = rows[t.at];
        const u32* list = opened();
        sdf_octree_opening_args opening = {.n = t.opening, .first = first, .cells = list, .own = own(t.at)};
        SDF_EACH(steps, sdf_octree_opening, opening);
        steps.meet();
        sdf_octree_own_args owned = {.n = t.opening,
                                     .first = first,
                                     .cells = list,
                                     .own = opening.own,
                                     .above = above(t.at),
                                     .mask = a.room.mask,
                                     .lent = a.room.lent,
                                     .count = a.room.last};
        SDF_EACH_TEAM(steps, sdf_octree_own, owned, Neighbours, own_points);
        steps.meet();
        t.first_row = first, t.first_point = t.points, t.done = 0, t.chunk = chunk_of(t.opening);
        rows[t.at] += t.opening;
    }

    APART void count_points() {
        const u32* mask = a.room.mask;
        u32* last = a.room.last;
        t.more = (u32)steps.scan(
            t.opening, [&](u32 i) { return (u64)popcount(mask[i]); },
            [&](u32 i, u64 before, u64 own, u64) { last[i] = (u32)(before + own); });
    }

    // Creates a chunk's points.
    APART void make_points() {
        const GrowthRoom& room = a.room;
        u32 end = min_of(t.done + t.chunk, t.opening);
        sdf_octree_points_args points = {.n = 27 * (end - t.done),
                                         .first = t.first_row,
                                         .piece = t.done,
                                         .first_point = t.first_point,
                                         .piece_point = t.first_point + before(t.done),
                                         .cells = opened(),
                                         .own = own(t.at),
                                         .above = above(t.at),
                                         .mask = room.mask,
                                         .lent = room.lent,
                                         .last = room.last,
                                         .slot = a.slot,
                                         .seeds = room.seeds,
                                         .point_row = room.row,
                                         .position = room.position,
                                         .seed = room.seed};
        SDF_EACH(steps, sdf_octree_points, points);
        if (steps.leads()) room.many[0] = room.many[1] = 0;
        steps.meet();
        t.points += t.asking;
    }

#ifdef SDF_SHARED  // a GPU's kernels answer the queries, unless they are many

    METHOD bool is_wide(u32 count) const { return count / steps.threads() >= a.wide; }
    // Whether signs may depend on winding numbers.
    METHOD bool winds() const { return !a.signs.normals && a.signs.tree.triangles > 0; }
    // The points with winding numbers to be summed over all triangles.
    METHOD u32* left() const { return t.ahead ? a.room.queried : a.room.row; }

    METHOD GrowthStep query_points() {
        t.ahead = 0;
        if (t.asking && t.asking / steps.warps() >= a.single) {
            (t.asking < a.together ? t.single : t.packets) = t.asking;
            return stops(SDF_GROWTH_TO_ANSWER, (GrowthStep)t.answered);
        }
        t.ahead = t.answered == SIGN_POINTS && winds() && 2 * t.asking <= a.most_ahead * steps.warps();
        query();
        return (GrowthStep)t.answered;
    }

    METHOD GrowthStep sign_points() {
        if (t.asking && !a.signs.normals) inherit();
        if (t.asking == 0 || !winds() || t.ahead) return STORE_POINTS;
        if (a.room.many[0] / steps.warps() >= a.most_windings) {
            t.windings = a.room.many[0];
            return stops(SDF_GROWTH_TO_ANSWER, STORE_POINTS);
        }
        wind();
        steps.meet();
        return STORE_POINTS;
    }

    // Computes unsigned distances and nearest triangles of the points at room.position; for few points, all winding
    // numbers concurrently, by otherwise idle threads, although some signs may follow from other points.
    APART void query() {
        const GrowthRoom& room = a.room;
        sdf_distance_single_args query = {.n = SDF_WARP * t.asking,
                                          .queries = t.asking,
                                          .many = nullptr,
                                          .levels = a.tree.levels,
                                          .seeds = room.seeds,
                                          .points = room.position,
                                          .order = nullptr,
                                          .slot_place = a.tree.slot_place,
                                          .record = a.tree.record,
                                          .box = a.tree.box,
                                          .part = a.tree.part,
                                          .level_start = a.tree.level_start,
                                          .sample_slot = nullptr,
                                          .every = 1,
                                          .seed = room.seed,
                                          .seed_slot = nullptr,
                                          .distance = room.distance,
                                          .slot = room.slot,
                                          .boxes = nullptr,
                                          .tests = nullptr};
        steps.each(query.n, [&](u32 i) { ask_alone(query, i); });
        if (t.ahead) wind();
        steps.meet();
    }

    // Inherits new points' signs from others. Lists the remaining points, unless winding numbers are computed already.
    APART void inherit() {
        const GrowthRoom& room = a.room;
        const NewSigns& s = a.signs;
        u32 count = t.asking;
        if (s.tree.triangles == 0) {
            steps.each(count, [&](u32 i) { room.inside[i] = 0; });
            steps.meet();
            return;
        }
        sdf_sign_inherit_args inherit = {.n = count,
                                         .first = t.points - count,
                                         .point_row = room.row,
                                         .points = own(t.at).points,
                                         .step = 0.5f / (float)(1u << t.at),
                                         .signed_distance = a.signed_distance,
                                         .distance = room.distance,
                                         .before = nullptr,
                                         .position = room.position,
                                         .caps = s.groups,
                                         .clear = a.clear,
                                         .inside = room.before,
                                         .link = room.link};
        u32 lane = (u32)steps.warp().lane;
        for (u32 pass = 0; pass < 2; pass++) {  // one loop, as the code takes long to compile
            steps.each((count + SDF_WARP - 1) / SDF_WARP * SDF_WARP,
                       [&](u32 i) {  // whole warps; one thread of each adds
                           if (i < count) sdf_sign_inherit_at(inherit, i);
                           bool asks = pass && !t.ahead && i < count && room.link[i] == 0;
                           u32 all = warp_ballot(asks), place = 0;
                           if (lane == 0 && all) place = atomic_add(room.many, (u32)popcount(all));
                           place = shfl(place, 0) + (u32)popcount(all & ((1u << lane) - 1u));
                           if (asks) room.queried[place] = i;
                       });
            steps.meet();
            inherit.before = room.before;
            inherit.inside = room.inside;
        }
    }

    // Winding numbers of the remaining points, or ahead of all points; lists the points to sum up. By other threads
    // than the distances, as both may be computed at a time.
    APART void wind() {
        const GrowthRoom& room = a.room;
        const NewSigns& s = a.signs;
        const u32* queried = t.ahead ? nullptr : room.queried;
        sdf_winding_single_args winding = {.n = steps.threads(),
                                           .count = t.asking,
                                           .points = room.position,
                                           .queried = queried,
                                           .many = queried ? room.many : nullptr,
                                           .tree = s.tree,
                                           .caps = s.caps,
                                           .steps = s.steps,
                                           .step = s.step,
                                           .beta = s.beta,
                                           .lost = s.lost,
                                           .closed = 0,
                                           .winding = room.winding,
                                           .left = left(),
                                           .many_left = room.many + 1};
        sdf_winding_single_at(winding, steps.grid.from((steps.part + SDF_PARTS / 2) % SDF_PARTS, SDF_PARTS));
    }

    // Exact winding numbers of a list's points without an inherited sign, by all threads together: half a warp takes a
    // millisecond for 70,000 triangles.
    APART void sum_up(const u32* queried, u32 count) {
        const GrowthRoom& room = a.room;
        const WindingTree& tree = a.signs.tree;
        steps.each(count, [&](u32 k) { room.link[k] = 0; });
        steps.meet();
        for (u32 k = 0; k < count; k++) {
            if (room.inside[queried[k]] != SDF_SIGN_UNKNOWN) continue;
            F3 p = load3(room.position + 3 * (size_t)queried[k]);
            double sum = 0.0;
            for (u32 slot = steps.grid.thread; slot < tree.triangles; slot += steps.threads())
                sum += triangle_winding(tree, slot, p, 16);
            u64 all = sum_of_warp(grains(sum), steps.warp().lane);
            if (steps.warp().lane == 0) atomic_add(room.link + k, all);
        }
        steps.meet();
        steps.each(count, [&](u32 k) { room.winding[queried[k]] = (float)(from_grains(room.link[k]) / SDF_FOUR_PI); });
        steps.meet();
    }

    // Stores a chunk's signed distances.
    APART void store_points() {
        const GrowthRoom& room = a.room;
        u32 count = t.asking, older = t.points - count;
        if (winds() && room.many[1]) sum_up(left(), room.many[1]);
        sdf_octree_measured_args measured = {.n = count,
                                             .position = room.position,
                                             .slot = room.slot,
                                             .distance = room.distance,
                                             .inside = room.inside,
                                             .winding = room.winding,
                                             .normals = a.signs.normals,
                                             .triangle = a.points.triangle,
                                             .nearest = a.slot + older,
                                             .signed_distance = a.signed_distance + older,
                                             .gradient = a.gradient ? a.gradient + 3 * (size_t)older : nullptr};
        SDF_EACH(steps, sdf_octree_measured, measured);
        steps.meet();
    }

#else  // a CPU's host measures all points

    METHOD bool is_wide(u32) const { return false; }
    METHOD GrowthStep query_points() { return NEXT_CHUNK; }
    METHOD GrowthStep sign_points() { return NEXT_CHUNK; }
    METHOD void store_points() {}
#endif
};

SDF_KERNEL(sdf_octree_grow, STEPS, i) {
    Growth growth(a, steps_of(i, a.n, a.state, a.room.sums));
    growth.run();
}

#endif
