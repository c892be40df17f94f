// sdf_octree_measured on the CPU.
//
// INTERFACE
//   sdf_octree_measured_lanes  sdf_octree_measured for the points first .. last - 1
#ifndef SDFCLI_OCTREE_MEASURED_SIMD_H
#define SDFCLI_OCTREE_MEASURED_SIMD_H
#include "geometry/nearest_simd.h"
#include "octree/grow.h"

FN void sdf_octree_measured_lanes(const sdf_octree_measured_args& a, u32 first, u32 last) {
    each_nearest(a.position, a.slot, a.triangle, first, last,
                 [&a](u32 i, D3 way, Feature feature) { store_measured(a, i, way, feature); });
}

#endif
