// Kernels that the CPU runs in lanes, one index after the other: what the lanes are compared with.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/portable.h"

namespace {
#if defined(__x86_64__)
unsigned flush_denormals() {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);
    return before;
}
void restore(unsigned before) { _mm_setcsr(before); }
#else
unsigned flush_denormals() { return 0; }
void restore(unsigned) {}
#endif
}  // namespace

#define SDF_ENTRY_SIMD(name)                             \
    extern "C" void name(const name##_args* a) {         \
        unsigned before = flush_denormals();             \
        for (u32 i = 0; i < a->n; i++) name##_at(*a, i); \
        restore(before);                                 \
    }
#define SDF_ENTRY_LANES SDF_ENTRY_SIMD

#include "octree/balance.h"
#include "octree/refine.h"
#include "sign/inherit.h"
#include "sign/link.h"
#include "winding/thread.h"
