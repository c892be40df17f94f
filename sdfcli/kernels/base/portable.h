// Portability layer for two compilers: NVRTC (through CuPy) and a plain C++ compiler.
//
// INTERFACE
//   FN, METHOD    qualifiers for every device-side function and member function
//   APART         qualifier for a member compiled separately: large code compiles faster in parts
//   u32, u64, u8  fixed-width integers (NVRTC has no <stdint.h> by default)
//   clz, popcount                      leading zeros and set bits
//   float_bits, double_bits            a number as an integer
//   bits_float, bits_double            and back
//   load_row, store_row                aligned rows of floats
//   fetch_add_acq_rel, load_coherent   a counter for arriving threads, and loads after it
//   store_relaxed, load_relaxed        racing stores of equal values
//   atomic_or, atomic_add, atomic_min, atomic_max, compare_and_swap   on memory shared by threads
//   store_past_caches                  16 aligned bytes, for another device to read
//   eight_bytes, store_eight_bytes     one aligned access
//   eight_below                        eight comparisons as bits
//   select, min_of, max_of             by comparison, unlike fminf
//   UNROLL                             unrolls a loop, so that its arrays stay in registers; CPU: up to 27 iterations
//
// Both sides give the same bits: neither contracts multiply-add (--fmad=false, -ffp-contract=off), both flush denormals
// (CuPy compiles with -ftz=true, CPU threads set MXCSR), and the only math library function in a build is sqrt, which
// is correctly rounded everywhere (verification uses others: verify/exact.h). min_of is `a < b ? a : b`: fminf differs
// for signed zeros.
#ifndef SDFCLI_BASE_PORTABLE_H
#define SDFCLI_BASE_PORTABLE_H
#include "base/constants.h"

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned char u8;

#ifdef __CUDACC_RTC__
#define FN __device__ __forceinline__
#define METHOD __device__ __forceinline__
#define APART __device__ __noinline__
#define UNROLL _Pragma("unroll")
FN int clz(u32 x) { return __clz((int)x); }
FN int clz(u64 x) { return __clzll((long long)x); }
FN int popcount(u32 x) { return __popc(x); }
FN u32 float_bits(float x) { return __float_as_uint(x); }
FN float bits_float(u32 bits) { return __uint_as_float(bits); }
FN u64 double_bits(double x) { return (u64)__double_as_longlong(x); }
FN double bits_double(u64 bits) { return __longlong_as_double((long long)bits); }
// Increments a counter and returns its previous value. Earlier writes are visible to threads that arrive later.
FN u32 fetch_add_acq_rel(u32* counter) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}
// Rows of `many` floats are aligned to four floats if many = 4 k, to two if many = 4 k + 2.
template <int many>
FN void load_row(const float* row, float* x) {
    for (int k = 0; k < many; k += 4) {
        float4 part = *(const float4*)(row + k);
        x[k] = part.x, x[k + 1] = part.y, x[k + 2] = part.z, x[k + 3] = part.w;
    }
}
// Reads a row that another thread of the launch may have written before it arrived at a counter.
template <int many>
FN void load_coherent(const float* row, float* x) {
    for (int k = 0; k < many; k += many % 4 ? 2 : 4) {
        if (many % 4) {
            float2 part = __ldcg((const float2*)(row + k));
            x[k] = part.x, x[k + 1] = part.y;
        } else {
            float4 part = __ldcg((const float4*)(row + k));
            x[k] = part.x, x[k + 1] = part.y, x[k + 2] = part.z, x[k + 3] = part.w;
        }
    }
}
template <int many>
FN void store_row(float* row, const float* x) {
    for (int k = 0; k < many; k += many % 4 ? 2 : 4) {
        if (many % 4)
            *(float2*)(row + k) = make_float2(x[k], x[k + 1]);
        else
            *(float4*)(row + k) = make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
    }
}
// A store that several threads may execute concurrently with the same value.
template <class T>
FN void store_relaxed(T* p, T x) {
    *p = x;
}
// Reads the value before or after such a store.
template <class T>
FN T load_relaxed(const T* p) {
    return *p;
}
FN void atomic_or(u32* p, u32 bits) { atomicOr(p, bits); }
// Returns the previous value.
FN u32 atomic_add(u32* p, u32 x) { return atomicAdd(p, x); }
FN u64 atomic_add(u64* p, u64 x) { return atomicAdd(p, x); }
// Replaces a number if the new one is smaller.
FN void atomic_min(u32* p, u32 x) { atomicMin(p, x); }
// Replaces a number if it equals `expected`; returns the previous value.
FN u32 compare_and_swap(u32* p, u32 expected, u32 x) { return atomicCAS(p, expected, x); }
// Replaces a number if the new one is larger.
FN void atomic_max(u64* p, u64 x) { atomicMax(p, x); }
FN void store_past_caches(u8* to, const u8* from) { memcpy(to, from, 16); }
FN u64 eight_bytes(const u8* p) { return *(const u64*)p; }
FN void store_eight_bytes(u8* p, u64 bytes) { *(u64*)p = bytes; }
// Bit k: p[k] < level.
FN u32 eight_below(const float* p, float level) {
    u32 bits = 0;
    for (int k = 0; k < 8; k++) bits |= (u32)(p[k] < level) << k;
    return bits;
}
#else
#include <math.h>
#include <stddef.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#ifndef FN
#define FN static inline
#endif
#define METHOD inline
#define APART inline
#define UNROLL _Pragma("GCC unroll 27")
FN int clz(u32 x) { return x ? __builtin_clz(x) : 32; }
FN int clz(u64 x) { return x ? __builtin_clzll(x) : 64; }
FN int popcount(u32 x) { return __builtin_popcount(x); }
FN u32 float_bits(float x) {
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
FN float bits_float(u32 bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
FN u64 double_bits(double x) {
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
FN double bits_double(u64 bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
FN u32 fetch_add_acq_rel(u32* counter) { return __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL); }
template <int many>
FN void load_row(const float* row, float* x) {
    memcpy(x, row, many * sizeof(float));
}
template <int many>
FN void load_coherent(const float* row, float* x) {
    memcpy(x, row, many * sizeof(float));
}
template <int many>
FN void store_row(float* row, const float* x) {
    memcpy(row, x, many * sizeof(float));
}
template <class T>
FN void store_relaxed(T* p, T x) {
    __atomic_store(p, &x, __ATOMIC_RELAXED);
}
template <class T>
FN T load_relaxed(const T* p) {
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
FN void atomic_or(u32* p, u32 bits) { __atomic_fetch_or(p, bits, __ATOMIC_RELAXED); }
FN u32 atomic_add(u32* p, u32 x) { return __atomic_fetch_add(p, x, __ATOMIC_RELAXED); }
FN u64 atomic_add(u64* p, u64 x) { return __atomic_fetch_add(p, x, __ATOMIC_RELAXED); }
FN void atomic_min(u32* p, u32 x) {
    u32 before = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (x < before && !__atomic_compare_exchange_n(p, &before, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
FN u32 compare_and_swap(u32* p, u32 expected, u32 x) {
    __atomic_compare_exchange_n(p, &expected, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
FN void atomic_max(u64* p, u64 x) {
    u64 before = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (before < x && !__atomic_compare_exchange_n(p, &before, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
FN void store_past_caches(u8* to, const u8* from) {
#if defined(__SSE2__)
    _mm_stream_si128((__m128i*)to, _mm_loadu_si128((const __m128i*)from));
#else
    memcpy(to, from, 16);
#endif
}
FN u64 eight_bytes(const u8* p) {
    u64 bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}
FN void store_eight_bytes(u8* p, u64 bytes) { memcpy(p, &bytes, sizeof bytes); }
FN u32 eight_below(const float* p, float level) {
#if defined(__SSE2__)
    __m128 all = _mm_set1_ps(level);
    u32 low = (u32)_mm_movemask_ps(_mm_cmplt_ps(_mm_loadu_ps(p), all));
    return low | (u32)_mm_movemask_ps(_mm_cmplt_ps(_mm_loadu_ps(p + 4), all)) << 4;
#else
    u32 bits = 0;
    for (int k = 0; k < 8; k++) bits |= (u32)(p[k] < level) << k;
    return bits;
#endif
}
#endif

template <class T>
FN T select(bool condition, T yes, T no) {
    return condition ? yes : no;
}
template <class T>
FN T min_of(T a, T b) {
    return select(a < b, a, b);
}
template <class T>
FN T max_of(T a, T b) {
    return select(a > b, a, b);
}

#endif
