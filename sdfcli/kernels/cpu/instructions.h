// SIMD instruction sets supported by this CPU.
//
// INTERFACE
//   instructions  which sets in cpu/simd.cpp are supported, with registers saved by the operating system
//
// __builtin_cpu_supports is not used: Zig's runtime for it reports none.
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
