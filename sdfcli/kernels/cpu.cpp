// The CPU's entry points: a plain C interface, NAME(args, threads) for each kernel.
#include <xmmintrin.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kernels.h"

namespace {

const u32 kChunk = 1024;  // indices a thread takes at a time; less work than this never pays for a thread

// Flush-to-zero and denormals-are-zero, as on the GPU, while a kernel runs on this thread.
class FlushDenormals {
  public:
    FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
    ~FlushDenormals() { _mm_setcsr(before_); }

  private:
    unsigned before_;
};

template <class Body>
void parallel_for(u32 n, int threads, const Body& body) {
    std::atomic<u64> next(0);
    auto work = [&] {
        FlushDenormals mode;
        for (;;) {
            u64 first = next.fetch_add(kChunk, std::memory_order_relaxed), last = first + kChunk;
            if (first >= n) return;
            for (u64 i = first; i < (last < n ? last : n); i++) body((u32)i);
        }
    };
    u64 chunks = ((u64)n + kChunk - 1) / kChunk;
    std::vector<std::thread> helpers;
    for (u64 t = 1; t < (u64)threads && t < chunks; t++) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace

#define SDF_CPU_ENTRY(name)                                                     \
    extern "C" void name(const name##_args* a, int threads) {                   \
        parallel_for(a->n, threads, [a](u32 i) { name##_at(*a, i); });          \
    }
SDF_KERNELS(SDF_CPU_ENTRY)
