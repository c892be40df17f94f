// Warps of a GPU on a CPU: 32 fibres each, which meet wherever the threads of a warp do something together. For tests
// of the WARP and GRID kernels where there is no GPU. A thread that does not come to a meeting, or to another one than
// the rest, ends the process. A grid is one block, whose warps take turns at random between two meetings of all.
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
const int kWarp = SDF_WARP, kWarps = SDF_BLOCK_WARPS, kThreads = kWarp * kWarps;
const int kStack = (1 << 16) + 320;  // no power of two, as the same place on all stacks must fit into a cache together
Fibre fibre[kThreads], scheduler;
alignas(16) char stack[kThreads][kStack];
int now, meetings[kThreads];
bool done[kThreads];
int left[kWarps];    // threads that have not ended
bool waits[kWarps];  // for the other warps
struct Word {
    const char* what;
    u32 value;
} said[2][kThreads];
void (*job)(int);

// Says something, lets all others of the warp speak, and returns what was said.
const Word* meet(const char* what, u32 value) {
    int self = now, first = now - now % kWarp;
    Word* words = said[meetings[self]++ % 2];
    words[self] = {what, value};
    switch_fibre(&fibre[self], &scheduler);
    for (int k = first; k < first + kWarp; k++)
        if (meetings[k] < meetings[self] || words[k].what != what) {
            fprintf(stderr, "thread %d is at %s, thread %d is not\n", self, what, k);
            abort();
        }
    return words + first;
}
void start() {
    job(now);
    done[now] = true;
    left[now / kWarp]--;
    switch_fibre(&fibre[now], &scheduler);
}
// Lets each thread of a warp go on to the next meeting, or to the end.
void step(int warp) {
    int way = rand() % 3, shift = rand() % kWarp;
    for (int k = 0; k < kWarp; k++) {
        int lane = way == 0 ? k : way == 1 ? kWarp - 1 - k : (k * 13 + shift) % kWarp;
        now = kWarp * warp + lane;
        if (!done[now]) switch_fibre(&scheduler, &fibre[now]);
    }
}
void run(int warps, void (*kernel)(int)) {
#if defined(__x86_64__)
    unsigned mode = _mm_getcsr();  // fibres take it over
    _mm_setcsr(mode | 0x8040u);    // denormals are flushed to zero, as on the GPU
#endif
    job = kernel;
    for (int k = 0; k < kWarp * warps; k++) {
        meetings[k] = 0, done[k] = false;
        make_fibre(&fibre[k], stack[k], kStack, start);
    }
    for (int w = 0; w < warps; w++) left[w] = kWarp, waits[w] = false;
    for (int warp = 0;;) {
        int running = 0, waiting = 0;
        for (int w = 0; w < warps; w++) running += left[w] && !waits[w], waiting += waits[w];
        if (running) {
            if (rand() % 8 == 0) warp = rand() % warps;
            while (!left[warp] || waits[warp]) warp = rand() % warps;
            step(warp);
        } else if (waiting == warps) {
            for (int w = 0; w < warps; w++) waits[w] = false;
        } else if (waiting) {
            fprintf(stderr, "%d warps of %d wait for those that have ended\n", waiting, warps);
            abort();
        } else {
            break;
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
    for (int k = 0; k < kWarp; k++) all |= words[k].value << k;
    return all;
}
FN u32 shfl_xor(u32 x, u32 distance) {
    int other = now % kWarp ^ (int)distance;
    return meet("exchange", x)[other].value;
}
FN u32 shfl(u32 x, u32 thread) { return meet("get", x)[thread].value; }
FN u32 reduce_min(u32 x) {
    const Word* words = meet("least", x);
    for (int k = 0; k < kWarp; k++) x = words[k].value < x ? words[k].value : x;
    return x;
}
FN u32 reduce_max(u32 x) { return ~reduce_min(~x); }
FN void shared_least(u32* p, u32 x) { *p = x < *p ? x : *p; }
FN void shared_add(u32* p, u32 x) { *p += x; }
FN void shared_add(u64* p, u64 x) { *p += x; }
FN float fused(float a, float b, float c) { return fmaf(a, b, c); }
// As far off as CUDA allows: by two units in the last place, up or down.
FN float rough_inverse_sqrt(float x) {
    u32 root = float_bits(1.f / sqrtf(x));
    if (root >= 0x7f800000u) return bits_float(root);
    return bits_float(popcount(float_bits(x)) % 2 ? root + 2 : root - 2);
}

#define SDF_ENTRY_WARP(name)                                                                                        \
    extern "C" void name(const name##_args* a) {                                                                    \
        static const name##_args* arguments;                                                                        \
        static u32 first;                                                                                           \
        arguments = a;                                                                                              \
        for (first = 0; first < a->n; first += kWarp) run(1, [](int k) { name##_at(*arguments, first + (u32)k); }); \
    }
#define SDF_ENTRY_SHUFFLE SDF_ENTRY_WARP

#define SDF_ENTRY_GRID(name)                                      \
    extern "C" void name(const name##_args* a) {                  \
        static name##_args arguments;                             \
        arguments = *a;                                           \
        arguments.n = kThreads;                                   \
        run(kWarps, [](int k) { name##_at(arguments, (u32)k); }); \
    }
#define SDF_ENTRY_STEPS SDF_ENTRY_GRID
FN void meet_all(u32*, u32) {
    waits[now / kWarp] = true;
    meet("all", 0);
}

#include "base/radix_sort.h"
#include "base/scan.h"
#include "base/sort.h"
#include "distance/packet.h"
#include "geometry/hilbert.h"
#include "neighbours/warp.h"
#include "octree/finish.h"
#include "octree/settle.h"
#include "octree/growth.h"
#include "sign/corners.h"
#include "sign/lattice.h"
#include "trees/ploc.h"
#include "winding/warp.h"
