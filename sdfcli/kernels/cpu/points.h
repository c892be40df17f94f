// New octree points on the CPU: each cell is looked up once for all its points.
//
// INTERFACE
//   sdf_octree_points_chunk  sdf_octree_points for the points first .. last - 1
#ifndef SDFCLI_CPU_POINTS_H
#define SDFCLI_CPU_POINTS_H
#include "octree/open.h"

FN void sdf_octree_points_chunk(const sdf_octree_points_args& a, u32 first, u32 last) {
    for (u32 start = first - first % 27; start < last; start += 27) {  // cells may extend into other chunks
        u32 place = a.piece + start / 27, cell = a.cells[place], corner[8];
        Lattice at = morton_decode(key_of(a.own, cell));
        corners_of(a.own, a.above, cell, corner);
        UNROLL
        for (u32 j = 0; j < 27; j++)
            if (start + j >= first && start + j < last)
                make_point(a, place, (int)j, [&] { return at; }, [&](int c) { return corner[c]; });
        if (start + SDF_CENTRE >= first && start + SDF_CENTRE < last) a.own.state[cell] = OPENED;
    }
}

#endif
