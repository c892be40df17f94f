// Approximate nearest neighbours by shifted sorting (Chan 1997; Li et al. 2012; Park 2019): close vectors are close
// together along a Morton curve, or along one of a few curves shifted along the cube's diagonal.
//
// INTERFACE
//   sdf_shift_codes   codes for vectors along one curve
//   sdf_shift_merged  each query's position among the data, from one sort of both
//   sdf_shift_search  the same by binary search in the sorted data
//   sdf_shift_best, sdf_shift_best_many  the nearest among the 2 k data around this position; _many for k above 8
#ifndef SDFCLI_NEIGHBOURS_SHIFTED_H
#define SDFCLI_NEIGHBOURS_SHIFTED_H
#include "base/kernel.h"
#include "neighbours/code.h"
#include "neighbours/list.h"
#include "neighbours/vectors.h"

struct sdf_shift_codes_args {
    u32 n;
    u32 dimension;        // see with_dimension
    u32 words;            // words per code, its lowest
    u32 bits;             // bits per axis
    u32 shift;            // in cells
    u32 tag;              // 0 for data, 1 for queries
    const float* vector;  // [n, dimension] in the unit cube; other vectors are clamped
    u64* code;            // [words, n] out: highest words first
};
SDF_KERNEL(sdf_shift_codes, PLAIN, i) {
    with_dimension(a.dimension, [&](auto d) {
        constexpr int size = decltype(d)::value;
        auto code = shifted_code<size>(a.vector + size * (size_t)i, a.shift, a.bits, a.tag);
        for (int w = 0; w < code_words(size); w++)
            if ((u32)w < a.words) a.code[(a.words - 1 - (u32)w) * (size_t)a.n + i] = code.word[w];
    });
}

struct sdf_shift_merged_args {
    u32 n;  // data and queries
    u32 data;
    const long long* order;  // [n] entry at each position: data, or queries from `data` on
    const u32* before;       // [n] data up to each position
    u32* number;             // [data] out: the data in this order
    u32* place;              // [n - data] out: data before each query
};
SDF_KERNEL(sdf_shift_merged, PLAIN, i) {
    u32 entry = (u32)a.order[i];
    if (entry < a.data)
        a.number[a.before[i] - 1] = entry;
    else
        a.place[entry - a.data] = a.before[i];
}

struct sdf_shift_search_args {
    u32 n;  // queries
    u32 dimension;
    u32 bits;
    u32 shift;
    const float* query;  // [n, dimension]
    Codes codes;         // of the data, sorted
    u32* place;          // [n] out: data before the query
};
SDF_KERNEL(sdf_shift_search, PLAIN, i) {
    with_dimension(a.dimension, [&](auto d) {
        constexpr int size = decltype(d)::value;
        auto own = shifted_code<size>(a.query + size * (size_t)i, a.shift, a.bits, 1u);
        u32 low = 0;
        for (u32 n = a.codes.count; n > 0;) {
            u32 half = n / 2;
            if (code_below(code_at<code_words(size)>(a.codes, low + half), own)) {
                low += half + 1;
                n -= half + 1;
            } else {
                n = half;
            }
        }
        a.place[i] = low;
    });
}

struct sdf_shift_best_args {
    u32 n;  // queries
    u32 data;
    u32 dimension;
    u32 k;                // 1 to 8; up to 32 for sdf_shift_best_many
    u32 more;             // 1: improves the results from earlier shifts
    const float* query;   // [n, dimension]
    const float* vector;  // [data, dimension]
    const u32* number;    // [data] the data in curve order
    const u32* place;     // [n] each query's position in it
    float* distance_sq;   // [n, k] in and out: sorted, squared; infinite where fewer exist
    u32* nearest;         // [n, k] in and out: data indices, SDF_NONE where fewer exist
};
// First index of a window of 2 k data, k on each side of a position, moved inwards at the ends.
FN u32 window_start(u32 place, u32 k, u32 data) {
    u32 first = place > k ? place - k : 0;
    return min_of(first, data > 2 * k ? data - 2 * k : 0);
}
template <int room>
FN void shift_best(const sdf_shift_best_args& a, u32 i) {
    with_dimension(a.dimension, [&](auto d) {
        constexpr int size = decltype(d)::value;
        NeighbourList<float, room> list;
        list.start(a.k);
        float* distance_sq = a.distance_sq + a.k * (size_t)i;
        u32* nearest = a.nearest + a.k * (size_t)i;
        if (a.more) list.load(a.k, distance_sq, nearest);
        float query[size];
        for (int k = 0; k < size; k++) query[k] = a.query[size * (size_t)i + k];
        u32 first = window_start(a.place[i], a.k, a.data), last = min_of(first + 2 * a.k, a.data);
        for (u32 slot = first; slot < last; slot++) {
            u32 number = a.number[slot];
            list.offer(vector_distance_sq<float, size>(a.vector + size * (size_t)number, query), number);
        }
        list.store(a.k, distance_sq, nearest);
    });
}
SDF_KERNEL(sdf_shift_best, PLAIN, i) { shift_best<8>(a, i); }
using sdf_shift_best_many_args = sdf_shift_best_args;
SDF_KERNEL(sdf_shift_best_many, PLAIN, i) { shift_best<32>(a, i); }

#endif
