// One warp of a GPU on a CPU: 32 fibres that meet wherever the threads of a warp do something together. For tests of
// the WARP kernels where there is no GPU. A thread that does not come to a meeting, or to another one than the rest,
// ends the process.
#if !defined(__x86_64__) || !defined(__linux__)
#include <ucontext.h>
#endif
#include <cstdio>
#include <cstdlib>

#include "base/portable.h"

#if defined(__x86_64__) && defined(__linux__)
// swapcontext enters the operating system, for the mask of signals, and takes thirty times as long.
using Fibre = void*;  // its stack pointer, with the registers on the stack that a callee must keep
extern "C" void switch_fibre(Fibre* from, const Fibre* to);
asm(R"(
    .text
switch_fibre:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov (%rsi), %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");
FN void make_fibre(Fibre* fibre, char* stack, int size, void (*entry)()) {
    void** top = (void**)(stack + size) - 8;  // a function begins 8 bytes off a multiple of 16
    top[6] = (void*)entry;
    *fibre = top;
}
#else
using Fibre = ucontext_t;
FN void switch_fibre(Fibre* from, const Fibre* to) { swapcontext(from, to); }
FN void make_fibre(Fibre* fibre, char* stack, int size, void (*entry)()) {
    getcontext(fibre);
    fibre->uc_stack.ss_sp = stack;
    fibre->uc_stack.ss_size = size;
    makecontext(fibre, entry, 0);
}
#endif

namespace {
const int kThreads = 32, kStack = 1 << 16;
Fibre fibre[kThreads], scheduler;
alignas(16) char stack[kThreads][kStack];
int now, meetings[kThreads];
bool done[kThreads];
struct Word {
    const char* what;
    u32 value;
} said[2][kThreads];
void (*job)(int);

// Says something, lets all others speak, and returns what was said.
const Word* meet(const char* what, u32 value) {
    Word* words = said[meetings[now]++ % 2];
    words[now] = {what, value};
    int self = now;
    switch_fibre(&fibre[self], &scheduler);
    for (int k = 0; k < kThreads; k++)
        if (meetings[k] < meetings[self] || words[k].what != what) {
            fprintf(stderr, "thread %d is at %s, thread %d is not\n", self, what, k);
            abort();
        }
    return words;
}
void start() {
    job(now);
    done[now] = true;
    switch_fibre(&fibre[now], &scheduler);
}
void run_warp(void (*kernel)(int)) {
#if defined(__x86_64__)
    unsigned mode = _mm_getcsr();  // fibres take it over
    _mm_setcsr(mode | 0x8040u);    // denormals are flushed to zero, as on the GPU
#endif
    job = kernel;
    for (int k = 0; k < kThreads; k++) {
        meetings[k] = 0, done[k] = false;
        make_fibre(&fibre[k], stack[k], kStack, start);
    }
    for (bool more = true; more;) {
        more = false;
        int way = rand() % 3, shift = rand() % kThreads;
        for (int k = 0; k < kThreads; k++) {
            now = way == 0 ? k : way == 1 ? kThreads - 1 - k : (k * 13 + shift) % kThreads;
            if (!done[now]) {
                switch_fibre(&scheduler, &fibre[now]);
                more = true;
            }
        }
    }
#if defined(__x86_64__)
    _mm_setcsr(mode);
#endif
}
}  // namespace

#define SDF_SHARED static
FN void warp_sync() { meet("sync", 0); }
FN u32 warp_ballot(bool vote) {
    const Word* words = meet("ballot", vote);
    u32 all = 0;
    for (int k = 0; k < kThreads; k++) all |= words[k].value << k;
    return all;
}
FN u32 shfl_xor(u32 x, u32 distance) {
    int other = now ^ (int)distance;
    return meet("exchange", x)[other].value;
}
FN u32 shfl(u32 x, u32 thread) { return meet("get", x)[thread].value; }
FN u32 reduce_min(u32 x) {
    const Word* words = meet("least", x);
    for (int k = 0; k < kThreads; k++) x = words[k].value < x ? words[k].value : x;
    return x;
}
FN u32 reduce_max(u32 x) { return ~reduce_min(~x); }
FN void shared_least(u32* p, u32 x) { *p = x < *p ? x : *p; }
FN void shared_add(u32* p, u32 x) { *p += x; }
FN float fused(float a, float b, float c) { return a * b + c; }
FN float rough_inverse_sqrt(float x) { return 1.f / sqrtf(x); }
FN void shared_add(u64* p, u64 x) { *p += x; }
FN float bits_float(u32 bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define SDF_ENTRY_WARP(name)                                                \
    extern "C" void name(const name##_args* a) {                            \
        static const name##_args* arguments;                                \
        static u32 first;                                                   \
        arguments = a;                                                      \
        for (first = 0; first < a->n; first += kThreads)                    \
            run_warp([](int k) { name##_at(*arguments, first + (u32)k); }); \
    }

#define SDF_ENTRY_GRID(name)                                   \
    extern "C" void name(const name##_args* a) {               \
        static name##_args arguments;                          \
        arguments = *a;                                        \
        arguments.n = kThreads;                                \
        run_warp([](int k) { name##_at(arguments, (u32)k); }); \
    }
FN void meet_all(u32*, u32) { meet("all", 0); }

#include "base/radix_sort.h"
#include "base/scan.h"
#include "base/sort.h"
#include "distance/packet.h"
#include "geometry/hilbert.h"
#include "neighbours/warp.h"
#include "octree/finish.h"
#include "octree/settle.h"
#include "octree/visit.h"
#include "sign/corners.h"
#include "sign/lattice.h"
#include "winding/warp.h"
