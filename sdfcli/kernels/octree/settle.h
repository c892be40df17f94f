// Hanging corners on all levels in one launch, instead of one launch per level with host time in between.
//
// INTERFACE
//   sdf_octree_settle  sdf_octree_constrain, level by level, then sdf_octree_tighten
#ifndef SDFCLI_OCTREE_SETTLE_H
#define SDFCLI_OCTREE_SETTLE_H
#include "base/grid.h"
#include "octree/balance.h"

#ifdef SDF_SHARED

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
SDF_KERNEL(sdf_octree_settle, GRID, i) {
    Grid grid = {i, a.n, a.arrivals, nullptr};
    grid.each(a.newer, [&](u32 k) {
        a.value[a.older + k] = a.points.distance[a.older + k];
        a.hanging[a.older + k] = 0;
    });
    grid.meet();
    const LevelEntry* level = (const LevelEntry*)a.octree.level + 1;
    u32 levels = a.octree.levels;
    for (u32 k = a.coarsest; k + 1 < levels; k++) {
        const LevelEntry *own = level + k, *below = own + 1;
        u32 cells = number_on(a.octree, k + 1, &LevelEntry::cells, a.cells);
        if (cells == 0) break;  // finer levels have none, either
        sdf_octree_constrain_args constrain = {
            cells / 8,         own->own, own[-1].own, below->own, k + 2 < levels ? below[1].own.stale : nullptr,
            a.points.distance, a.value,  a.hanging};
        grid.each(constrain.n, [&](u32 family) { sdf_octree_constrain_at(constrain, family); });
        grid.meet();
    }
    u32 first = a.coarsest + 1 < levels ? level[a.coarsest + 1].cells : a.cells;
    sdf_octree_tighten_args tighten = {a.cells - first, first,   a.octree,  a.points,
                                       a.allowed,       a.value, a.hanging, a.any};
    u32 step = tighten.n / 8 > grid.threads ? 8 : 1;  // of many families, few are renewed
    grid.each(tighten.n / step, [&](u32 i) {
        if (step == 8) {
            CellOfAll of = cell_of(a.octree, first + 8 * i);
            if (of.own.stale[of.cell >> 3] != RENEWED) return;
        }
        for (u32 cell = step * i; cell < step * i + step; cell++) sdf_octree_tighten_at(tighten, cell);
    });
}
#endif

#endif
