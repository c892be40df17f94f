// Warp-wide operations. All 32 threads take part in each.
//
// INTERFACE
//   SDF_WARP, SDF_BLOCK_WARPS, SDF_SHARED         threads per warp; warps per thread block; shared memory
//   warp_sync, warp_ballot, shfl_xor, shfl, reduce_min, reduce_max  votes, shuffles, minimum and maximum
//   shared_least, shared_add                      atomics on shared memory
//   fused, rough_inverse_sqrt                     for bounds on distances
#ifndef SDFCLI_BASE_WARP_H
#define SDFCLI_BASE_WARP_H
#include "base/portable.h"

#ifdef __CUDACC_RTC__
#define SDF_SHARED __shared__
FN void warp_sync() { __syncwarp(); }
FN u32 warp_ballot(bool vote) { return __ballot_sync(~0u, vote); }
FN u32 shfl_xor(u32 x, u32 distance) { return __shfl_xor_sync(~0u, x, distance); }
FN u32 shfl(u32 x, u32 thread) { return __shfl_sync(~0u, x, (int)thread); }
#if __CUDA_ARCH__ >= 800
FN u32 reduce_min(u32 x) { return __reduce_min_sync(~0u, x); }
FN u32 reduce_max(u32 x) { return __reduce_max_sync(~0u, x); }
#else
FN u32 reduce_min(u32 x) {
    for (u32 k = 1; k < SDF_WARP; k *= 2) x = min_of(x, shfl_xor(x, k));
    return x;
}
FN u32 reduce_max(u32 x) { return ~reduce_min(~x); }
#endif
FN void shared_least(u32* p, u32 x) { atomicMin(p, x); }
FN void shared_add(u32* p, u32 x) { atomicAdd(p, x); }
FN void shared_add(u64* p, u64 x) { atomicAdd(p, x); }
// For distance bounds only: the fastest rounding.
FN float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FN float rough_inverse_sqrt(float x) { return rsqrtf(x); }
#endif

#ifdef SDF_SHARED
FN u64 shfl(u64 x, u32 thread) { return (u64)shfl((u32)(x >> 32), thread) << 32 | shfl((u32)x, thread); }
#endif

#endif
