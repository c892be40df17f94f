// Hanging corners on all levels in one launch, instead of one launch per level with host time in between.
//
// INTERFACE
//   sdf_octree_settle  sdf_octree_constrain, level by level, then sdf_octree_tighten
#ifndef SDFCLI_OCTREE_SETTLE_H
#define SDFCLI_OCTREE_SETTLE_H
#include "base/steps.h"
#include "octree/balance.h"

// Coarse levels first, as hanging corners interpolate a coarser cell's values. Only stale families (octree/open.h) are
// updated: all in the first round, later the ones near splits.
struct sdf_octree_settle_args {
    u32 n;         // threads: all that run concurrently
    u32 coarsest;  // coarsest level with new splits
    u32 cells;     // on all levels
    u32 older;     // points with a value
    u32 newer;     // points without a value yet
    AllLevels octree;
    Points points;
    Limits allowed;
    float* value;   // [older + newer] in and out
    u8* hanging;    // [older + newer] in and out
    u8* any;        // [levels] in and out: 1 for a level with requests
    u32* arrivals;  // [1] 0 at first
};
SDF_KERNEL(sdf_octree_settle, STEPS, i) {
    Steps steps = steps_of(i, a.n, a.arrivals, nullptr);
    steps.each(a.newer, [&](u32 k) {
        a.value[a.older + k] = a.points.distance[a.older + k];
        a.hanging[a.older + k] = 0;
    });
    steps.meet();
    const LevelEntry* level = (const LevelEntry*)a.octree.level + 1;
    u32 levels = a.octree.levels;
    for (u32 k = a.coarsest; k + 1 < levels; k++) {
        const LevelEntry *own = level + k, *below = own + 1;
        u32 cells = number_on(a.octree, k + 1, &LevelEntry::cells, a.cells);
        if (cells == 0) break;  // finer levels have none, either
        sdf_octree_constrain_args constrain = {.n = cells / 8,
                                               .own = own->own,
                                               .above = own[-1].own,
                                               .below = below->own,
                                               .stale_below = k + 2 < levels ? below[1].own.stale : nullptr,
                                               .distance = a.points.distance,
                                               .value = a.value,
                                               .hanging = a.hanging};
        SDF_EACH(steps, sdf_octree_constrain, constrain);
        steps.meet();
    }
    // Only renewed families are tested: earlier rounds met the others' requests.
    u32 first = a.coarsest + 1 < levels ? level[a.coarsest + 1].cells : a.cells;
    sdf_octree_tighten_args tighten = {.n = a.cells - first,
                                       .first = first,
                                       .octree = a.octree,
                                       .points = a.points,
                                       .allowed = a.allowed,
                                       .value = a.value,
                                       .hanging = a.hanging,
                                       .any = a.any};
    SDF_EACH_MARKED(steps, sdf_octree_tighten, tighten, [&](u32 family) {
        CellOfAll of = cell_of(a.octree, first + 8 * family);
        return of.own.stale[of.cell >> 3] != RENEWED;
    });
}

#endif
