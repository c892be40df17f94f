// Level-by-level work after an octree's growth, in one launch for each kernel.
//
// INTERFACE
//   sdf_octree_ranks   sdf_octree_held and sdf_octree_rank on all levels
//   sdf_octree_rounds  the root's corners, and sdf_octree_round on all levels
#ifndef SDFCLI_OCTREE_FINISH_H
#define SDFCLI_OCTREE_FINISH_H
#include "base/steps.h"
#include "field/quantise.h"
#include "octree/assemble.h"

struct sdf_octree_ranks_args {
    u32 n;      // threads: all that run concurrently
    u32 cells;  // on all levels
    AllLevels octree;
    u32* rank;      // [cells] out: number of leaves before each along the Morton curve
    u32* arrivals;  // [1] 0 at first
};
SDF_KERNEL(sdf_octree_ranks, STEPS, i) {
    Steps steps = steps_of(i, a.n, a.arrivals, nullptr);
    const LevelEntry* level = (const LevelEntry*)a.octree.level + 1;
    auto families = [&](u32 k) { return number_on(a.octree, k, &LevelEntry::cells, a.cells) / 8; };
    steps.each(a.cells, [&](u32 cell) { a.rank[cell] = 1; });
    steps.meet();
    for (u32 k = a.octree.levels - 1; k > 0; k--) {
        u32* rank = a.rank + level[k].cells;
        sdf_octree_held_args held = {
            .n = families(k), .parent = level[k].own.parent, .held = rank, .above_held = a.rank + level[k - 1].cells};
        SDF_EACH(steps, sdf_octree_held, held);
        steps.meet();
    }
    if (steps.leads()) a.rank[0] = 0;
    steps.meet();
    for (u32 k = 1; k < a.octree.levels; k++) {
        u32* rank = a.rank + level[k].cells;
        sdf_octree_rank_args ranked = {
            .n = families(k), .parent = level[k].own.parent, .above_rank = a.rank + level[k - 1].cells, .rank = rank};
        SDF_EACH(steps, sdf_octree_rank, ranked);
        steps.meet();
    }
}

struct sdf_octree_rounds_args {
    u32 n;     // threads: all that run concurrently
    u32 rows;  // on all levels
    AllLevels octree;
    const float* value;  // [points] and the rest as in sdf_octree_round
    const u8* hanging;   // [points]
    const u32* fine;     // [points] may be null
    int parts;
    double step;
    float* rounded;  // [points] out
    u32* arrivals;   // [1] 0 at first
};
SDF_KERNEL(sdf_octree_rounds, STEPS, i) {
    Steps steps = steps_of(i, a.n, a.arrivals, nullptr);
    const LevelEntry* level = (const LevelEntry*)a.octree.level + 1;
    steps.each(8, [&](u32 corner) {  // the root's, without predictions
        int steps = a.hanging[corner] ? 0 : whole_steps(a.value[corner], 0.0, a.step);
        a.rounded[corner] = (float)((double)steps * a.step);
    });
    steps.meet();
    for (u32 k = 0; k < a.octree.levels; k++) {
        u32 rows = number_on(a.octree, k, &LevelEntry::rows, a.rows);
        sdf_octree_round_args round = {.n = rows,
                                       .points = level[k].own.points,
                                       .value = a.value,
                                       .hanging = a.hanging,
                                       .fine = a.fine,
                                       .parts = a.parts,
                                       .step = a.step,
                                       .rounded = a.rounded};
        SDF_EACH(steps, sdf_octree_round, round);
        steps.meet();
    }
}
#endif
