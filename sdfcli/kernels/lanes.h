// Sixteen floats in the lanes of vectors: one AVX-512 register where the compiler was told so, else the compiler's own
// vectors, which it splits into registers. The same operations in the same order, so the same bits.
//
// INTERFACE
//   Wide      + - * /, comparisons, least, most, select; Wide(s) has s in every lane; v[k] is one lane
//   WideInts  <, select; as many u32
//   Mask      the outcome of a comparison: &, |, and bits(), lane k in bit k
//
// Everything is in an anonymous namespace: this header is compiled several times, for different instruction sets.
#ifndef SDFCLI_LANES_H
#define SDFCLI_LANES_H
#include "bvh.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SDF_LANES SDF_WIDE

namespace {

using ::least;
using ::most;
using ::select;

typedef float Lanes __attribute__((vector_size(4 * SDF_LANES)));
struct Wide {
    Lanes v;
    Wide() {}
    Wide(Lanes lanes) : v(lanes) {}
    Wide(float s) : v(s - Lanes{}) {}  // s - 0 is s, also for -0
};

typedef u32 IntLanes __attribute__((vector_size(4 * SDF_LANES)));
struct WideInts {
    IntLanes v;
    WideInts() {}
    WideInts(IntLanes lanes) : v(lanes) {}
    WideInts(u32 s) : v(s - IntLanes{}) {}
};

FN Wide load_lanes(const float* p) {
    Wide w;
    __builtin_memcpy(&w.v, p, sizeof w.v);
    return w;
}
template <class Lanes, class T>
FN void store_lanes(const Lanes& lanes, T* p) {
    __builtin_memcpy(p, &lanes.v, sizeof lanes.v);
}
FN Wide operator+(Wide a, Wide b) { return a.v + b.v; }
FN Wide operator-(Wide a, Wide b) { return a.v - b.v; }
FN Wide operator*(Wide a, Wide b) { return a.v * b.v; }
FN Wide operator/(Wide a, Wide b) { return a.v / b.v; }

#if defined(__AVX512F__)
struct Mask {
    __mmask16 v;
};
FN u32 bits(Mask m) { return m.v; }
FN Mask operator<(Wide a, Wide b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
FN Mask operator>(Wide a, Wide b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
FN Mask operator<=(Wide a, Wide b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
FN Mask operator>=(Wide a, Wide b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
FN Mask operator<(WideInts a, WideInts b) { return {_mm512_cmplt_epu32_mask((__m512i)a.v, (__m512i)b.v)}; }
FN Mask operator&(Mask a, Mask b) { return {(__mmask16)(a.v & b.v)}; }
FN Mask operator|(Mask a, Mask b) { return {(__mmask16)(a.v | b.v)}; }
FN WideInts select(Mask m, WideInts a, WideInts b) {
    return IntLanes(_mm512_mask_blend_epi32(m.v, (__m512i)b.v, (__m512i)a.v));
}
FN Wide select(Mask m, Wide a, Wide b) { return Lanes(_mm512_mask_blend_ps(m.v, b.v, a.v)); }
FN Wide least(Wide a, Wide b) { return Lanes(_mm512_min_ps(a.v, b.v)); }  // a < b ? a : b, also for NaN and zeros
FN Wide most(Wide a, Wide b) { return Lanes(_mm512_max_ps(a.v, b.v)); }
#else
typedef int MaskLanes __attribute__((vector_size(4 * SDF_LANES)));
struct Mask {
    MaskLanes v;  // -1 or 0
};
FN u32 bits(Mask m) {
    u32 b = 0;
#if defined(__x86_64__)
    __m128 part[SDF_LANES / 4];
    __builtin_memcpy(part, &m.v, sizeof part);
    for (int k = 0; k < SDF_LANES / 4; k++) b |= (u32)_mm_movemask_ps(part[k]) << 4 * k;
#else
    for (int k = 0; k < SDF_LANES; k++) b |= (u32)(m.v[k] & 1) << k;
#endif
    return b;
}
FN Mask operator<(Wide a, Wide b) { return {a.v < b.v}; }
FN Mask operator>(Wide a, Wide b) { return {a.v > b.v}; }
FN Mask operator<=(Wide a, Wide b) { return {a.v <= b.v}; }
FN Mask operator>=(Wide a, Wide b) { return {a.v >= b.v}; }
FN Mask operator<(WideInts a, WideInts b) { return {a.v < b.v}; }
FN Mask operator&(Mask a, Mask b) { return {a.v & b.v}; }
FN Mask operator|(Mask a, Mask b) { return {a.v | b.v}; }
FN Wide select(Mask m, Wide a, Wide b) { return m.v ? a.v : b.v; }
FN WideInts select(Mask m, WideInts a, WideInts b) { return m.v ? a.v : b.v; }
#endif

FN float most_lane(Wide w) {
    float x = w.v[0];
    for (int k = 1; k < SDF_LANES; k++) x = most(x, w.v[k]);
    return x;
}

}  // namespace

#endif
