// The CPU's entry points: a plain C interface, NAME(args, threads) for each kernel.
#include "cpu/sample.h"
#include "cpu/threads.h"
#include "kernels.h"
#include "trees/wide_order.h"

#define SDF_WIDE_OCTREE(X) \
    X(octree_screen)       \
    X(octree_peek)         \
    X(octree_test)         \
    X(octree_tighten)      \
    X(sign_inherit)

namespace {

const u32 kChunk = 1024;  // indices a thread takes at a time; less work than this never pays for a thread

template <class Args, class At>
void each(const Args& a, u32 first, u32 last, const At& at) {
    for (u32 i = first; i < last; i++) at(a, i);
}

template <class At>
void each(const sdf_field_sample_args& a, u32 first, u32 last, const At&) {
    sample_points(a, first, last);
}

}  // namespace

// simd.cpp, once for each instruction set. The bits are the same, since nothing contracts multiply-add.
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
