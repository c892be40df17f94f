// Eight floats in the lanes of a vector: AVX2 where the compiler was told so, else the compiler's own vectors. The same
// operations in the same order, so the same bits.
//
// INTERFACE
//   Wide     + - * /, comparisons, least, most, select; Wide(s) has s in every lane; v[k] is one lane
//   Mask     the outcome of a comparison: &, and bits(), lane k in bit k
//
// Everything is in an anonymous namespace: this header is compiled several times, for different instruction sets.
#ifndef SDFCLI_LANES_H
#define SDFCLI_LANES_H
#include "portable.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define SDF_LANES 8

namespace {

using ::least;
using ::most;
using ::select;

#if defined(__AVX2__)
typedef __m256 Lanes;
struct Mask {
    __m256 v;
};
FN u32 bits(Mask m) { return (u32)_mm256_movemask_ps(m.v); }
#else
typedef float Lanes __attribute__((vector_size(4 * SDF_LANES)));
typedef int IntLanes __attribute__((vector_size(4 * SDF_LANES)));
struct Mask {
    IntLanes v;
};
FN u32 bits(Mask m) {
    u32 b = 0;
    for (int k = 0; k < SDF_LANES; k++) b |= (u32)(m.v[k] & 1) << k;
    return b;
}
#endif

struct Wide {
    Lanes v;
    Wide() {}
    Wide(Lanes lanes) : v(lanes) {}
    Wide(float s) {
        for (int k = 0; k < SDF_LANES; k++) v[k] = s;
    }
};

FN Wide load_lanes(const float* p) {
    Wide w;
    for (int k = 0; k < SDF_LANES; k++) w.v[k] = p[k];
    return w;
}
FN Wide operator+(Wide a, Wide b) { return a.v + b.v; }
FN Wide operator-(Wide a, Wide b) { return a.v - b.v; }
FN Wide operator*(Wide a, Wide b) { return a.v * b.v; }
FN Wide operator/(Wide a, Wide b) { return a.v / b.v; }

#if defined(__AVX2__)
FN Mask operator<(Wide a, Wide b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
FN Mask operator>(Wide a, Wide b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
FN Mask operator<=(Wide a, Wide b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
FN Mask operator>=(Wide a, Wide b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
FN Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.v, b.v)}; }
FN Wide select(Mask m, Wide a, Wide b) { return _mm256_blendv_ps(b.v, a.v, m.v); }
FN Wide least(Wide a, Wide b) { return _mm256_min_ps(a.v, b.v); }  // a < b ? a : b, also for NaN and zeros
FN Wide most(Wide a, Wide b) { return _mm256_max_ps(a.v, b.v); }
#else
FN Mask operator<(Wide a, Wide b) { return {a.v < b.v}; }
FN Mask operator>(Wide a, Wide b) { return {a.v > b.v}; }
FN Mask operator<=(Wide a, Wide b) { return {a.v <= b.v}; }
FN Mask operator>=(Wide a, Wide b) { return {a.v >= b.v}; }
FN Mask operator&(Mask a, Mask b) { return {a.v & b.v}; }
FN Wide select(Mask m, Wide a, Wide b) { return m.v ? a.v : b.v; }
#endif

}  // namespace

#endif
