// The CPU's entry points: a plain C interface, NAME(args, threads) for each kernel.
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "kernels.h"
#include "wide_octree.h"
#include "wide_order.h"

namespace {

const u32 kChunk = 1024;  // indices a thread takes at a time; less work than this never pays for a thread

// Denormals are flushed to zero, as on the GPU, while a kernel runs on this thread.
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

// What several threads do together: whoever comes takes the next chunk of 0 .. n - 1.
struct Job {
    std::atomic<u64> next{0};
    u32 n, chunk;
    void (*call)(const void* run, u32 first, u32 last);
    const void* run;
    int wanted = 0, inside = 0;  // helpers that may still come, and that are here

    void work() {
        FlushDenormals mode;
        for (;;) {
            u64 first = next.fetch_add(chunk, std::memory_order_relaxed), last = first + chunk;
            if (first >= n) return;
            call(run, (u32)first, (u32)(last < n ? last : n));
        }
    }
};

// Threads that wait for jobs: to start one takes longer than many a kernel does, and longer still where cores are busy.
// Nobody waits for a helper that has not come.
class Helpers {
  public:
    void take_part(Job& job, int wanted) {
        {
            std::lock_guard<std::mutex> guard(lock_);
            job.wanted = wanted;
            try {
                for (; helpers_ < wanted; helpers_++) std::thread(&Helpers::help, this).detach();
            } catch (const std::system_error&) {  // no more of them may be started: those that there are do the work
            }
            jobs_.push_back(&job);
        }
        for (int k = 0; k < wanted; k++) came_.notify_one();
        job.work();
        std::unique_lock<std::mutex> guard(lock_);
        jobs_.remove(&job);
        left_.wait(guard, [&job] { return job.inside == 0; });
    }

  private:
    void help() {
        std::unique_lock<std::mutex> guard(lock_);
        for (;;) {
            came_.wait(guard, [this] { return !jobs_.empty(); });
            Job* job = jobs_.front();
            job->inside++;
            if (--job->wanted == 0) jobs_.pop_front();
            guard.unlock();
            job->work();
            guard.lock();
            if (--job->inside == 0) left_.notify_all();
        }
    }

    std::mutex lock_;
    std::condition_variable came_, left_;
    std::list<Job*> jobs_;
    int helpers_ = 0;
};

// Never freed: helpers wait until the process ends. A process that is forked has none of them, and begins anew.
Helpers* helpers = new Helpers;
[[maybe_unused]] const int forked = pthread_atfork(nullptr, nullptr, [] { helpers = new Helpers; });

// Calls run(first, last) for chunks of 0 .. n - 1.
template <class Run>
void parallel_chunks(u32 n, u32 chunk, int threads, const Run& run) {
    u64 chunks = ((u64)n + chunk - 1) / chunk;
    Job job;
    job.n = n, job.chunk = chunk;
    job.call = [](const void* what, u32 first, u32 last) { (*(const Run*)what)(first, last); };
    job.run = &run;
    int wanted = (int)((u64)threads < chunks ? (u64)threads : chunks) - 1;
    if (wanted > 0)
        helpers->take_part(job, wanted);
    else
        job.work();
}

template <class Args, class At>
void each(const Args& a, u32 first, u32 last, const At& at) {
    for (u32 i = first; i < last; i++) at(a, i);
}

// What is read next on the way to a leaf.
void prefetch_next(const sdf_field_sample_args& a, const Way& way) {
    if (at_leaf(way)) __builtin_prefetch(a.leaf_level + leaf_of(way));
    const void* values = a.leaf_value + 8 * (size_t)leaf_of(way);
    const void* entries = a.child + 8 * (size_t)way.entry;
    __builtin_prefetch(at_leaf(way) ? values : entries);
}

// Sampling waits for memory. So points go down the tree side by side, and what each reads in its next step is on its
// way while the others take theirs.
template <class At>
void each(const sdf_field_sample_args& a, u32 first, u32 last, const At&) {
    const u32 many = 64;
    Way way[many];
    u32 open[many];  // those that have not come to their leaf
    for (; first < last; first += many) {
        u32 count = last - first < many ? last - first : many;
        for (u32 k = 0; k < count; k++) {
            start_way(a, first + k, way[k]);
            open[k] = k;
            __builtin_prefetch(top_entry(a, way[k]));
        }
        for (u32 k = 0; k < count; k++) way[k].entry = *top_entry(a, way[k]);
        for (u32 left = count, still; left; left = still) {
            still = 0;
            for (u32 j = 0; j < left; j++) {
                u32 k = open[j];
                prefetch_next(a, way[k]);
                open[still] = k;
                still += at_leaf(way[k]) ? 0 : 1;
            }
            for (u32 j = 0; j < still; j++) step_down(a, way[open[j]]);
        }
        for (u32 k = 0; k < count; k++) store_sample(a, first + k, way[k]);
    }
}

}  // namespace

// wide.cpp, once for each instruction set. The bits are the same, since nothing contracts multiply-add.
#define SDF_WIDE_KERNELS(name)                                                      \
    extern "C" void name(const sdf_distance_wide_args& a, u32 first, u32 last);     \
    extern "C" void name##_winding(const sdf_winding_args& a, u32 first, u32 last); \
    extern "C" void name##_link(const sdf_sign_link_args& a, u32 first, u32 last);
#define SDF_OCTREE_CHUNKS(kernel)                                                               \
    extern "C" void sdf_wide_plain_##kernel(const sdf_##kernel##_args& a, u32 first, u32 last); \
    extern "C" void sdf_wide_avx2_##kernel(const sdf_##kernel##_args& a, u32 first, u32 last);  \
    extern "C" void sdf_wide_avx512_##kernel(const sdf_##kernel##_args& a, u32 first, u32 last);
SDF_WIDE_OCTREE(SDF_OCTREE_CHUNKS)
SDF_WIDE_KERNELS(sdf_wide_plain)
#if defined(__x86_64__)
SDF_WIDE_KERNELS(sdf_wide_avx2)
SDF_WIDE_KERNELS(sdf_wide_avx512)
#define SDF_WIDEST(suffix)                                       \
    (__builtin_cpu_supports("avx512f") ? sdf_wide_avx512##suffix \
     : __builtin_cpu_supports("avx2")  ? sdf_wide_avx2##suffix   \
                                       : sdf_wide_plain##suffix)
#else
#define SDF_WIDEST(suffix) sdf_wide_plain##suffix
#endif

extern "C" void sdf_distance_wide(const sdf_distance_wide_args* a, int threads) {
    auto run = SDF_WIDEST();
    parallel_chunks(a->n, kChunk, threads, [a, run](u32 first, u32 last) { run(*a, first, last); });
}

namespace {

template <class At>
void each(const sdf_winding_args& a, u32 first, u32 last, const At&) {
    SDF_WIDEST(_winding)(a, first, last);
}
template <class At>
void each(const sdf_sign_link_args& a, u32 first, u32 last, const At&) {
    SDF_WIDEST(_link)(a, first, last);
}
#define SDF_OCTREE_EACH(kernel)                                               \
    template <class At>                                                       \
    void each(const sdf_##kernel##_args& a, u32 first, u32 last, const At&) { \
        SDF_WIDEST(_##kernel)(a, first, last);                                \
    }
SDF_WIDE_OCTREE(SDF_OCTREE_EACH)

}  // namespace

extern "C" void sdf_wide_order(const sdf_wide_order_args* a, int threads) {
    wide_order(*a, [threads](u32 n, const auto& each) {
        parallel_chunks(n, 1, threads, [&each](u32 first, u32) { each(first); });
    });
}

#define SDF_CPU_ENTRY(name)                                                                                     \
    extern "C" void name(const name##_args* a, int threads) {                                                   \
        parallel_chunks(a->n, kChunk, threads, [a](u32 first, u32 last) { each(*a, first, last, name##_at); }); \
    }
SDF_KERNELS(SDF_CPU_ENTRY)
