// Kernels that the CPU runs in lanes or by chunks, one index after the other: what those are compared with. And an
// octree's growth by them, or by the lanes of one build of the library, which has been loaded before.
#include "base/portable.h"
#include "cpu/denormals.h"
#include "cpu/instructions.h"
#include "cpu/threads.h"

#define SDF_CHUNK 1024

extern "C" int lanes;
int lanes = 0;  // 0: none, 1: plain, 2: avx2, 3: avx512

#define SDF_ENTRY_SIMD(name)                                                                                \
    extern "C" __attribute__((weak)) void name##_plain(const name##_args& a, u32 first, u32 last);          \
    extern "C" __attribute__((weak)) void name##_avx2(const name##_args& a, u32 first, u32 last);           \
    extern "C" __attribute__((weak)) void name##_avx512(const name##_args& a, u32 first, u32 last);         \
    extern "C" void name(const name##_args* a, int) {                                                       \
        FlushDenormals mode;                                                                                \
        for (u32 i = 0; lanes == 0 && i < a->n; i++) name##_at(*a, i);                                      \
        if (lanes > 0) (lanes == 1 ? name##_plain : lanes == 2 ? name##_avx2 : name##_avx512)(*a, 0, a->n); \
    }
#define SDF_ENTRY_LANES SDF_ENTRY_SIMD
#define SDF_ENTRY_PLAIN(name)                            \
    extern "C" void name(const name##_args* a, int) {    \
        FlushDenormals mode;                             \
        for (u32 i = 0; i < a->n; i++) name##_at(*a, i); \
    }
#define SDF_ENTRY_LARGE SDF_ENTRY_PLAIN
#define SDF_ENTRY_CHUNKS SDF_ENTRY_PLAIN
#define SDF_ENTRY_STEPS(name) \
    extern "C" void name(const name##_args* a, int threads) { name##_at(*a, (u32)threads); }

#include "octree/balance.h"
#include "octree/open.h"
#include "octree/refine.h"
#include "sign/crossing.h"
#include "sign/inherit.h"
#include "sign/link.h"
#include "winding/thread.h"

#include "cpu/steps.h"
#include "octree/growth.h"
#include "octree/settle.h"

extern "C" int has_avx2() { return instructions.avx2; }
extern "C" int has_avx512() { return instructions.avx512; }
