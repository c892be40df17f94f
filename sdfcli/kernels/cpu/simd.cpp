// The CPU's vectorised kernels, compiled once per instruction set SDF_ISA.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need minutes to compile this
#define FN static inline __attribute__((always_inline))              // vectors are never passed through memory
#endif
#include "base/portable.h"

#define JOINED(a, b) a##_##b
#define NAMED(a, b) JOINED(a, b)
#define SDF_ENTRY_SIMD(name)                                                          \
    extern "C" void NAMED(name, SDF_ISA)(const name##_args& a, u32 first, u32 last) { \
        for (u32 i = first; i < last; i++) name##_at(a, i);                           \
    }
#define SDF_ENTRY_LANES(name)                                        \
    FN void name##_lanes(const name##_args& a, u32 first, u32 last); \
    extern "C" void NAMED(name, SDF_ISA)(const name##_args& a, u32 first, u32 last) { name##_lanes(a, first, last); }

#include "cpu/nearest.h"
#include "distance/simd.h"
#include "neighbours/triangles_simd.h"
#include "octree/balance.h"
#include "octree/open.h"
#include "octree/refine.h"
#include "sign/crossing_simd.h"
#include "sign/inherit_simd.h"
#include "sign/link_simd.h"
#include "winding/simd.h"

SDF_ENTRY_LANES(sdf_distance_wide)
SDF_ENTRY_LANES(sdf_nearest_triangles_wide)
