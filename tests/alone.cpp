// Kernels that the CPU runs in lanes or by chunks, one index after the other: what those are compared with.
#include "base/portable.h"
#include "cpu/denormals.h"
#include "cpu/instructions.h"

#define SDF_ENTRY_SIMD(name)                             \
    extern "C" void name(const name##_args* a) {         \
        FlushDenormals mode;                             \
        for (u32 i = 0; i < a->n; i++) name##_at(*a, i); \
    }
#define SDF_ENTRY_LANES SDF_ENTRY_SIMD
#define SDF_ENTRY_CHUNKS SDF_ENTRY_SIMD

#include "octree/balance.h"
#include "octree/open.h"
#include "octree/refine.h"
#include "sign/crossing.h"
#include "sign/inherit.h"
#include "sign/link.h"
#include "winding/thread.h"

extern "C" int has_avx2() { return instructions.avx2; }
extern "C" int has_avx512() { return instructions.avx512; }
