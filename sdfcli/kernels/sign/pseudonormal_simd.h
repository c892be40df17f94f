// sdf_pseudonormal on the CPU.
//
// INTERFACE
//   sdf_pseudonormal_lanes  sdf_pseudonormal for the points first .. last - 1
#ifndef SDFCLI_SIGN_PSEUDONORMAL_SIMD_H
#define SDFCLI_SIGN_PSEUDONORMAL_SIMD_H
#include "geometry/nearest_simd.h"
#include "sign/pseudonormal.h"

FN void sdf_pseudonormal_lanes(const sdf_pseudonormal_args& a, u32 first, u32 last) {
    each_nearest(a.points, a.slot, a.triangle, first, last,
                 [&a](u32 i, D3 way, Feature feature) { store_side(a, i, way, feature); });
}

#endif
