// Kernels that the CPU runs in lanes, one index after the other: what the lanes are compared with.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "args.h"
#include "sign_link.h"
#include "wide_octree.h"
#include "winding.h"

#define ALONE(name)                                      \
    extern "C" void name(const name##_args* a) {         \
        unsigned before = flush_denormals();             \
        for (u32 i = 0; i < a->n; i++) name##_at(*a, i); \
        restore(before);                                 \
    }

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

ALONE(sdf_winding)
ALONE(sdf_sign_link)
#define ALONE_OCTREE(kernel) ALONE(sdf_##kernel)
SDF_WIDE_OCTREE(ALONE_OCTREE)
