// Morton codes for vectors with three to sixteen dimensions (Park 2019, Table 2).
//
// INTERFACE
//   Code, code_below            up to 337 bits, and the comparison
//   Codes, code_at              codes in memory
//   shifted_code                code of a vector shifted along the unit cube's diagonal
#ifndef SDFCLI_NEIGHBOURS_CODE_H
#define SDFCLI_NEIGHBOURS_CODE_H
#include "base/portable.h"

// 64-bit words for all bits of d axes and a tag.
FN constexpr int code_words(int d) { return (SDF_MORTON_BITS * d + 1 + 63) / 64; }

template <int words>
struct Code {
    u64 word[words];  // lowest first
};
template <int words>
FN bool code_below(const Code<words>& x, const Code<words>& y) {
    bool below = false;
    UNROLL
    for (int w = 0; w < words; w++) below = x.word[w] < y.word[w] || (x.word[w] == y.word[w] && below);
    return below;
}

// Stored codes have their lowest words: an array per word, the highest first, or all words of a code together, as in
// the paper's uint4.
struct Codes {
    u32 count;
    u32 words;
    u32 together;     // 1: a code's words are adjacent
    const u64* word;  // [count, words]
};
template <int words>
FN Code<words> code_at(const Codes& codes, u32 i) {
    Code<words> code;
    UNROLL
    for (int w = 0; w < words; w++) {
        u32 row = codes.words - 1 - (u32)w;
        size_t at = codes.together ? codes.words * (size_t)i + row : codes.count * (size_t)row + i;
        code.word[w] = (u32)w < codes.words ? codes.word[at] : 0;
    }
    return code;
}

// Bits in groups of `many`, with a stride of d groups.
FN constexpr u64 spread_mask(int d, int many, int bits) {
    u64 mask = 0;
    for (int j = 0; j < bits; j++) mask |= 1ull << (j / many * many * d + j % many);
    return mask;
}
// Bit j of the lowest `bits`, 4 or 8, moves to bit d j.
template <int d, int bits>
FN u64 spread(u32 value) {
    constexpr u64 fours = spread_mask(d, 4, bits), pairs = spread_mask(d, 2, bits), ones = spread_mask(d, 1, bits);
    u64 x = value;
    if (bits == 8) x = (x | x << 4 * (d - 1)) & fours;
    x = (x | x << 2 * (d - 1)) & pairs;
    return (x | x << (d - 1)) & ones;
}
template <int words>
FN void put_bits(Code<words>* code, int place, u64 bits) {
    code->word[place / 64] |= bits << place % 64;
    if (place % 64 > 0 && place / 64 + 1 < words) code->word[place / 64 + 1] |= bits >> (64 - place % 64);
}

// Unit interval coordinate to one of 2^20 cells: with a shift below 2^20 it fits in 21 bits.
FN u32 shift_cell(float x) {
    float c = x * 1048576.f;
    return c >= 0.f ? c < 1048575.f ? (u32)c : 1048575u : 0u;
}

// The highest `bits` of the 21 per axis: bit j of axis k at d j + k, moved up by one for a tag, 0 for data and 1 for
// queries, so that queries follow data with the same code.
template <int d>
FN Code<code_words(d)> shifted_code(const float* vector, u32 shift, u32 bits, u32 tag) {
    constexpr int group = d <= 8 ? 8 : 4, groups = (SDF_MORTON_BITS + group - 1) / group;  // d groups fit a word
    u64 part[groups] = {};
    UNROLL
    for (int k = 0; k < d; k++) {
        u32 cell = (shift_cell(vector[k]) + shift) >> (SDF_MORTON_BITS - (int)bits);
        UNROLL
        for (int b = 0; b < groups; b++) part[b] |= spread<d, group>(cell >> group * b & ((1u << group) - 1)) << k;
    }
    Code<code_words(d)> code = {{tag}};
    UNROLL
    for (int b = 0; b < groups; b++) put_bits(&code, group * d * b + 1, part[b]);
    return code;
}

#endif
