// Vectors of sixteen floats or eight doubles: one AVX-512 register if the compiler targets it, else several smaller
// registers. The same operations in the same order, hence the same bits.
//
// INTERFACE
//   load_lanes, store_lanes   from and to memory; load_points gathers points; most_lane is a FloatV's largest lane
//   FloatV    + - * /, comparisons, min_of, max_of, select, sqrt_of; FloatV(s) broadcasts s; w[k] is one lane
//   WideInts  <, select; as many u32
//   Mask      a comparison's result: &, |, bits() with lane k in bit k, and the inverse mask_of(bits)
//   Doubles   + - * /, <, >, &, select, sqrt_of; double_mask_of(bits); halves(w) are the first and the last eight
//             lanes of a FloatV; half_of(xyz, half) the same for vectors in memory
//
// Everything is in an anonymous namespace: this header is compiled several times, for different instruction sets.
// Compilers split vectors larger than a register, some lane by lane; hence arrays of registers.
#ifndef SDFCLI_BASE_SIMD_H
#define SDFCLI_BASE_SIMD_H
#include "base/vec.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define SDF_REGISTER 64
#elif defined(__AVX__)
#define SDF_REGISTER 32
#else
#define SDF_REGISTER 16
#endif
#define SDF_PARTS (4 * SDF_LANES / SDF_REGISTER)
#define SDF_PART_LANES (SDF_REGISTER / 4)

namespace {

using ::max_of;
using ::min_of;
using ::select;
using ::sqrt_of;

typedef float FloatPart __attribute__((vector_size(SDF_REGISTER)));
typedef u32 IntPart __attribute__((vector_size(SDF_REGISTER)));
typedef int MaskPart __attribute__((vector_size(SDF_REGISTER)));
typedef double DoublePart __attribute__((vector_size(SDF_REGISTER)));
typedef long long DoubleMaskPart __attribute__((vector_size(SDF_REGISTER)));

template <class Part, class T>
struct Lanes {
    static const u32 kOfPart = SDF_REGISTER / sizeof(T);
    Part part[SDF_PARTS];
    Lanes() {}
    Lanes(T s) {
        for (Part& p : part) p = s - Part{};  // s - 0 is s, also for -0
    }
    METHOD T operator[](u32 k) const { return part[k / kOfPart][k % kOfPart]; }
    METHOD void set(u32 k, T x) { part[k / kOfPart][k % kOfPart] = x; }
};
typedef Lanes<FloatPart, float> FloatV;
typedef Lanes<IntPart, u32> WideInts;
typedef Lanes<DoublePart, double> Doubles;

#define SDF_EACH_PART(Result, expression)                         \
    Result r;                                                     \
    for (int k = 0; k < SDF_PARTS; k++) r.part[k] = (expression); \
    return r
#define SDF_OPERATOR(Result, Operand, op) \
    FN Result operator op(const Operand& a, const Operand& b) { SDF_EACH_PART(Result, a.part[k] op b.part[k]); }
SDF_OPERATOR(FloatV, FloatV, +)
SDF_OPERATOR(FloatV, FloatV, -)
SDF_OPERATOR(FloatV, FloatV, *)
SDF_OPERATOR(FloatV, FloatV, /)
FN FloatV sqrt_of(FloatV w) {
    for (FloatPart& p : w.part)
        for (int k = 0; k < SDF_PART_LANES; k++) p[k] = sqrtf(p[k]);
    return w;
}
FN FloatV load_lanes(const float* p) {
    FloatV w;  // register by register: copying the whole array would go through memory
    for (int k = 0; k < SDF_PARTS; k++) __builtin_memcpy(&w.part[k], p + SDF_PART_LANES * k, SDF_REGISTER);
    return w;
}
template <class Part, class T>
FN void store_lanes(const Lanes<Part, T>& lanes, T* p) {
    for (int k = 0; k < SDF_PARTS; k++) __builtin_memcpy(p + Lanes<Part, T>::kOfPart * k, &lanes.part[k], SDF_REGISTER);
}

#if defined(__AVX512F__)
struct Mask {
    __mmask16 v;
};
FN u32 bits(Mask m) { return m.v; }
FN Mask mask_of(u32 bits) { return {(__mmask16)bits}; }
FN Mask operator<(const FloatV& a, const FloatV& b) { return {_mm512_cmp_ps_mask(a.part[0], b.part[0], _CMP_LT_OQ)}; }
FN Mask operator>(const FloatV& a, const FloatV& b) { return {_mm512_cmp_ps_mask(a.part[0], b.part[0], _CMP_GT_OQ)}; }
FN Mask operator<=(const FloatV& a, const FloatV& b) { return {_mm512_cmp_ps_mask(a.part[0], b.part[0], _CMP_LE_OQ)}; }
FN Mask operator>=(const FloatV& a, const FloatV& b) { return {_mm512_cmp_ps_mask(a.part[0], b.part[0], _CMP_GE_OQ)}; }
FN Mask operator<(const WideInts& a, const WideInts& b) {
    return {_mm512_cmplt_epu32_mask((__m512i)a.part[0], (__m512i)b.part[0])};
}
FN Mask operator&(Mask a, Mask b) { return {(__mmask16)(a.v & b.v)}; }
FN Mask operator|(Mask a, Mask b) { return {(__mmask16)(a.v | b.v)}; }
FN WideInts select(Mask m, const WideInts& a, const WideInts& b) {
    SDF_EACH_PART(WideInts, (IntPart)_mm512_mask_blend_epi32(m.v, (__m512i)b.part[k], (__m512i)a.part[k]));
}
FN FloatV select(Mask m, const FloatV& a, const FloatV& b) {
    SDF_EACH_PART(FloatV, _mm512_mask_blend_ps(m.v, b.part[k], a.part[k]));
}
// a < b ? a : b, also for NaN and zeros
FN FloatV min_of(const FloatV& a, const FloatV& b) { SDF_EACH_PART(FloatV, _mm512_min_ps(a.part[k], b.part[k])); }
FN FloatV max_of(const FloatV& a, const FloatV& b) { SDF_EACH_PART(FloatV, _mm512_max_ps(a.part[k], b.part[k])); }
#else
struct Mask {
    MaskPart part[SDF_PARTS];  // -1 or 0
};
FN u32 bits(const Mask& m) {
    u32 b = 0;
#if defined(__AVX__)
    for (int k = 0; k < SDF_PARTS; k++) b |= (u32)_mm256_movemask_ps((__m256)m.part[k]) << SDF_PART_LANES * k;
#elif defined(__x86_64__)
    for (int k = 0; k < SDF_PARTS; k++) b |= (u32)_mm_movemask_ps((__m128)m.part[k]) << SDF_PART_LANES * k;
#else  // NEON lacks movemask: each lane collects its bits from all registers, then lanes are joined
    IntPart lane, joined = {};
    for (int j = 0; j < SDF_PART_LANES; j++) lane[j] = 1u << j;
    for (int k = 0; k < SDF_PARTS; k++) joined |= (IntPart)m.part[k] & lane << SDF_PART_LANES * k;
    for (int j = 0; j < SDF_PART_LANES; j++) b |= joined[j];
#endif
    return b;
}
FN Mask mask_of(u32 bits) {
    IntPart lane;
    for (int k = 0; k < SDF_PART_LANES; k++) lane[k] = 1u << k;
    SDF_EACH_PART(Mask, ((bits >> SDF_PART_LANES * k) & lane) != 0u);
}
SDF_OPERATOR(Mask, FloatV, <)
SDF_OPERATOR(Mask, FloatV, >)
SDF_OPERATOR(Mask, FloatV, <=)
SDF_OPERATOR(Mask, FloatV, >=)
SDF_OPERATOR(Mask, WideInts, <)
SDF_OPERATOR(Mask, Mask, &)
SDF_OPERATOR(Mask, Mask, |)
FN FloatV select(const Mask& m, const FloatV& a, const FloatV& b) {
    SDF_EACH_PART(FloatV, m.part[k] ? a.part[k] : b.part[k]);
}
FN WideInts select(const Mask& m, const WideInts& a, const WideInts& b) {
    SDF_EACH_PART(WideInts, m.part[k] ? a.part[k] : b.part[k]);
}
#endif

FN float most_lane(const FloatV& w) {
    float x = w[0];
    for (int k = 1; k < SDF_LANES; k++) x = max_of(x, w[k]);
    return x;
}

struct DoubleMask {
    DoubleMaskPart part[SDF_PARTS];
};
SDF_OPERATOR(Doubles, Doubles, +)
SDF_OPERATOR(Doubles, Doubles, -)
SDF_OPERATOR(Doubles, Doubles, *)
SDF_OPERATOR(Doubles, Doubles, /)
SDF_OPERATOR(DoubleMask, Doubles, <)
SDF_OPERATOR(DoubleMask, Doubles, >)
SDF_OPERATOR(DoubleMask, DoubleMask, &)
FN DoubleMask double_mask_of(u32 bits) {
    DoubleMaskPart lane;
    for (int k = 0; k < SDF_PART_LANES / 2; k++) lane[k] = 1ll << k;
    SDF_EACH_PART(DoubleMask, ((long long)(bits >> SDF_PART_LANES / 2 * k) & lane) != 0);
}
FN Doubles select(const DoubleMask& m, const Doubles& a, const Doubles& b) {
    SDF_EACH_PART(Doubles, m.part[k] ? a.part[k] : b.part[k]);
}
FN Vec<Doubles> select(const DoubleMask& m, const Vec<Doubles>& a, const Vec<Doubles>& b) {
    return {select(m, a.x, b.x), select(m, a.y, b.y), select(m, a.z, b.z)};
}
FN Doubles sqrt_of(Doubles w) {
    for (DoublePart& p : w.part)
        for (int k = 0; k < SDF_PART_LANES / 2; k++) p[k] = sqrt(p[k]);
    return w;
}

struct Halves {
    Doubles first, last;
};
FN Doubles load_doubles(const float* from) {  // eight floats
#if defined(__AVX512F__)
    SDF_EACH_PART(Doubles, _mm512_cvtps_pd(_mm256_loadu_ps(from + 8 * k)));
#elif defined(__AVX__)
    SDF_EACH_PART(Doubles, _mm256_cvtps_pd(_mm_loadu_ps(from + 4 * k)));
#else
    SDF_EACH_PART(Doubles, (DoublePart{(double)from[2 * k], (double)from[2 * k + 1]}));
#endif
}
#if defined(__AVX512F__)
FN Halves halves(const FloatV& w) {
    Halves h;
    __m256 last = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(w.part[0]), 1));
    h.first.part[0] = _mm512_cvtps_pd(_mm512_castps512_ps256(w.part[0]));
    h.last.part[0] = _mm512_cvtps_pd(last);
    return h;
}
#else
FN Halves halves(const FloatV& w) {
    float lane[SDF_LANES];
    store_lanes(w, lane);
    return {load_doubles(lane), load_doubles(lane + SDF_LANES / 2)};
}
#endif

// Gathers sixteen points from [.., 3] by index place(k); the last of fewer fills the remaining lanes.
template <class Place>
FN Vec<FloatV> load_points(const float* points, u32 count, const Place& place) {
    Vec<FloatV> p;
    for (u32 k = 0; k < SDF_LANES; k++) {
        F3 own = load3(points + 3 * (size_t)place(min_of(k, count - 1)));
        p.x.set(k, own.x);
        p.y.set(k, own.y);
        p.z.set(k, own.z);
    }
    return p;
}

// The first or last eight of sixteen vectors in memory, as doubles.
FN Vec<Doubles> half_of(const float (*xyz)[SDF_LANES], int half) {
    int first = half * SDF_LANES / 2;
    return {load_doubles(xyz[0] + first), load_doubles(xyz[1] + first), load_doubles(xyz[2] + first)};
}

}  // namespace

#endif
