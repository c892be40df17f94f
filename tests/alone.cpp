// Winding numbers point by point: the walk that those in lanes are compared with.
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "winding.h"

extern "C" void winding_alone(const sdf_winding_args* a) {
#if defined(__x86_64__)
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);  // denormals are flushed to zero, as in the library
#endif
    for (u32 i = 0; i < a->n; i++) sdf_winding_at(*a, i);
#if defined(__x86_64__)
    _mm_setcsr(before);
#endif
}
