// The CPU's kernels of many lanes, for one instruction set: compiled once for each, under names that begin with
// SDF_WIDE_RUN.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take minutes to compile what that makes
#define FN static inline __attribute__((always_inline))              // vectors are never passed through memory
#endif
#include "distance/simd.h"
#include "octree/balance.h"
#include "octree/refine.h"
#include "sign/inherit.h"
#include "sign/link_simd.h"
#include "winding/simd.h"

#define SDF_WIDE_OCTREE(X) \
    X(octree_screen)       \
    X(octree_peek)         \
    X(octree_test)         \
    X(octree_tighten)      \
    X(sign_inherit)

#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)

extern "C" void SDF_WIDE_RUN(const sdf_distance_wide_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) query_packet(a, i, last, i > first);
}

extern "C" void NAMED(SDF_WIDE_RUN, _winding)(const sdf_winding_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) winding_packet(a, i, last);
}

extern "C" void NAMED(SDF_WIDE_RUN, _link)(const sdf_sign_link_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LINK_BLOCK) link_block(a, i, least(i + SDF_LINK_BLOCK, last));
}

#define SDF_OCTREE_CHUNK(kernel)                                                                        \
    extern "C" void NAMED(SDF_WIDE_RUN, _##kernel)(const sdf_##kernel##_args& a, u32 first, u32 last) { \
        for (u32 i = first; i < last; i++) sdf_##kernel##_at(a, i);                                     \
    }
SDF_WIDE_OCTREE(SDF_OCTREE_CHUNK)
