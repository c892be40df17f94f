// Morton codes for vectors with three to six dimensions (Park 2019, Table 2).
//
// INTERFACE
//   Code, code_below            up to 127 bits, and the comparison
//   Codes, code_at              codes in memory
//   shifted_code                code of a vector shifted along the unit cube's diagonal
#ifndef SDFCLI_NEIGHBOURS_CODE_H
#define SDFCLI_NEIGHBOURS_CODE_H
#include "base/portable.h"

struct Code {
    u64 high, low;
};
FN bool code_below(Code x, Code y) { return x.high < y.high || (x.high == y.high && x.low < y.low); }

// Codes with one word or two: all high words before all low ones, or interleaved pairs, as in the paper's uint4.
struct Codes {
    u32 count;
    u32 words;        // 1 or 2
    u32 together;     // 1: interleaved pairs
    const u64* word;  // [count, words]
};
FN Code code_at(const Codes& codes, u32 i) {
    if (codes.words == 1) return {0, codes.word[i]};
    if (codes.together) return {codes.word[2 * (size_t)i], codes.word[2 * (size_t)i + 1]};
    return {codes.word[i], codes.word[codes.count + (size_t)i]};
}

// Eight bits in groups of `many`, with a stride of d groups.
FN constexpr u64 spread_mask(int d, int many) {
    u64 mask = 0;
    for (int j = 0; j < 8; j++) mask |= 1ull << (j / many * many * d + j % many);
    return mask;
}
template <int d>
FN u64 spread8(u32 byte) {  // bit j of a byte moves to bit d j
    constexpr u64 fours = spread_mask(d, 4), pairs = spread_mask(d, 2), ones = spread_mask(d, 1);
    u64 x = byte;
    x = (x | x << 4 * (d - 1)) & fours;
    x = (x | x << 2 * (d - 1)) & pairs;
    return (x | x << (d - 1)) & ones;
}
template <int place>
FN void put_bits(Code* code, u64 bits) {
    if (place < 64) code->low |= bits << place % 64;
    if (place > 0 && place < 64) code->high |= bits >> (64 - place) % 64;
    if (place >= 64) code->high |= bits << place % 64;
}

// Unit interval coordinate to one of 2^20 cells: with a shift below 2^20 it fits in 21 bits.
FN u32 shift_cell(float x) {
    float c = x * 1048576.f;
    return c >= 0.f ? c < 1048575.f ? (u32)c : 1048575u : 0u;
}

// The highest `bits` of the 21 per axis: bit j of axis k at d j + k, moved up by one for a tag, 0 for data and 1 for
// queries, so that queries follow data with the same code.
template <int d>
FN Code shifted_code(const float* vector, u32 shift, u32 bits, u32 tag) {
    u64 part[3] = {0, 0, 0};
    UNROLL
    for (int k = 0; k < d; k++) {
        u32 cell = (shift_cell(vector[k]) + shift) >> (SDF_MORTON_BITS - (int)bits);
        UNROLL
        for (int b = 0; b < 3; b++) part[b] |= spread8<d>(cell >> 8 * b & 255u) << k;
    }
    Code code = {0, tag};
    put_bits<1>(&code, part[0]);
    put_bits<8 * d + 1>(&code, part[1]);
    put_bits<16 * d + 1>(&code, part[2]);
    return code;
}

#endif
