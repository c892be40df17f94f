// Threads of the CPU.
//
// INTERFACE
//   parallel_chunks  calls a function for chunks of 0 .. n - 1 on several threads, denormals flushed to zero
#ifndef SDFCLI_CPU_THREADS_H
#define SDFCLI_CPU_THREADS_H
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

#include "base/portable.h"

namespace {

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

// What a thread does after each chunk; mostly nothing (see cpu/scratch.h).
std::atomic<void (*)()> after_chunk{nullptr};

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
            if (void (*look)() = after_chunk.load(std::memory_order_relaxed)) look();
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

}  // namespace

#endif
