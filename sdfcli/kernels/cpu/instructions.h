// The instruction sets of this CPU for many lanes.
//
// INTERFACE
//   instructions  which of those for which cpu/simd.cpp is compiled the CPU has, and the system keeps registers of
//
// Not __builtin_cpu_supports: what Zig links for it says that there are none.
#ifndef SDFCLI_CPU_INSTRUCTIONS_H
#define SDFCLI_CPU_INSTRUCTIONS_H
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace {

struct Instructions {
    bool avx2 = false, avx512 = false;

#if defined(__x86_64__)
    Instructions() {
        unsigned a, b, c, d, kept, more;
        if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
        asm volatile("xgetbv" : "=a"(kept), "=d"(more) : "c"(0));
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
        avx2 = (kept & 0x06) == 0x06 && (b & bit_AVX2);
        avx512 = (kept & 0xe6) == 0xe6 && (b & bit_AVX512F);
    }
#endif
};
const Instructions instructions;

}  // namespace

#endif
