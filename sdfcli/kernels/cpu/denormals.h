// Flush-to-zero mode for a thread.
//
// INTERFACE
//   FlushDenormals  flushes denormals to zero during its lifetime, as on the GPU
#ifndef SDFCLI_CPU_DENORMALS_H
#define SDFCLI_CPU_DENORMALS_H
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

class FlushDenormals {
#if defined(__x86_64__)
  public:
    FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
    ~FlushDenormals() { _mm_setcsr(before_); }

  private:
    unsigned before_;
#elif defined(__aarch64__)
  public:
    FlushDenormals() {
        asm volatile("mrs %0, fpcr" : "=r"(before_));
        asm volatile("msr fpcr, %0" ::"r"(before_ | 1ull << 24));
    }
    ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(before_)); }

  private:
    unsigned long long before_;
#endif
};

}  // namespace

#endif
