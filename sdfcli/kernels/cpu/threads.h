// CPU threads.
//
// INTERFACE
//   parallel_chunks  calls a function for chunks of 0 .. n - 1 on several threads, denormals flushed to zero
//
// POSIX threads without the C++ library, which wheels would have to ship, and which takes minutes to build where no
// compiler is installed (tools/build_backend.py).
#ifndef SDFCLI_CPU_THREADS_H
#define SDFCLI_CPU_THREADS_H
#include <pthread.h>

#include "base/portable.h"
#include "cpu/denormals.h"

namespace {

// Hook called after each chunk, usually null (see cpu/scratch.h).
void (*after_chunk)() = nullptr;

// A parallel loop: each thread takes the next chunk of 0 .. n - 1.
struct Job {
    u64 next = 0;
    u32 n, chunk;
    void (*call)(const void* run, u32 first, u32 last);
    const void* run;
    int wanted = 0, inside = 0;  // helpers that may still join; helpers at work
    Job* after = nullptr;        // next job in the queue for helpers

    void work() {
        FlushDenormals mode;
        for (;;) {
            u64 first = __atomic_fetch_add(&next, (u64)chunk, __ATOMIC_RELAXED), last = first + chunk;
            if (first >= n) return;
            call(run, (u32)first, (u32)(last < n ? last : n));
            if (void (*look)() = __atomic_load_n(&after_chunk, __ATOMIC_RELAXED)) look();
        }
    }
};

// Threads waiting for jobs: starting a thread takes longer than many kernels, even more on busy cores. A job never
// waits for a helper that has not joined.
class Helpers {
  public:
    void begin() {
        pthread_mutex_init(&lock_, nullptr);
        pthread_cond_init(&came_, nullptr);
        pthread_cond_init(&left_, nullptr);
        jobs_ = nullptr;
        helpers_ = 0;
    }

    void take_part(Job& job, int wanted) {
        pthread_mutex_lock(&lock_);
        job.wanted = wanted;
        while (helpers_ < wanted && start()) helpers_++;  // if no more can start, the existing ones work
        Job** end = &jobs_;
        while (*end) end = &(*end)->after;
        *end = &job;
        pthread_mutex_unlock(&lock_);
        for (int k = 0; k < wanted; k++) pthread_cond_signal(&came_);
        job.work();
        pthread_mutex_lock(&lock_);
        remove(job);
        while (job.inside > 0) pthread_cond_wait(&left_, &lock_);
        pthread_mutex_unlock(&lock_);
    }

  private:
    bool start() {
        pthread_t thread;
        auto run = [](void* self) -> void* { ((Helpers*)self)->help(); };
        return pthread_create(&thread, nullptr, run, this) == 0 && pthread_detach(thread) == 0;
    }

    [[noreturn]] void help() {
        pthread_mutex_lock(&lock_);
        for (;;) {
            while (!jobs_) pthread_cond_wait(&came_, &lock_);
            Job& job = *jobs_;
            job.inside++;
            if (--job.wanted == 0) remove(job);
            pthread_mutex_unlock(&lock_);
            job.work();
            pthread_mutex_lock(&lock_);
            if (--job.inside == 0) pthread_cond_broadcast(&left_);
        }
    }

    void remove(const Job& job) {
        for (Job** place = &jobs_; *place; place = &(*place)->after)
            if (*place == &job) {
                *place = job.after;
                return;
            }
    }

    pthread_mutex_t lock_;
    pthread_cond_t came_, left_;
    Job* jobs_;
    int helpers_;
};

// Helpers wait until the process ends. A forked process has none, and starts afresh.
Helpers helpers;
[[maybe_unused]] const int begun = [] {
    helpers.begin();
#if !defined(_WIN32)
    pthread_atfork(nullptr, nullptr, [] { helpers.begin(); });
#endif
    return 0;
}();

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
        helpers.take_part(job, wanted);
    else
        job.work();
}

}  // namespace

#endif
