// Array operations between kernels, which array modules offer, too. Here each is a kernel, compiled on first use.
//
// INTERFACE
//   sdf_taken    gathers an array's rows by index
//   sdf_placed   inverts a list of indices
//   sdf_spaced   every k-th number of a list
//   sdf_scaled   multiplies by a factor
//   sdf_above    flags numbers above a level
//   sdf_negated  negates flagged numbers
#ifndef SDFCLI_BASE_ARRAYS_H
#define SDFCLI_BASE_ARRAYS_H
#include "base/kernel.h"

struct sdf_taken_args {
    u32 n;              // rows to gather
    u32 words;          // per row
    const u32* source;  // [rows, words]
    const u32* number;  // [n] row indices
    u32* taken;         // [n, words] out
};
SDF_KERNEL(sdf_taken, PLAIN, i) {
    const u32* row = a.source + (size_t)a.words * a.number[i];
    for (u32 k = 0; k < a.words; k++) a.taken[(size_t)a.words * i + k] = row[k];
}

struct sdf_placed_args {
    u32 n;
    const u32* number;  // [n] distinct
    u32* place;         // [numbers] out: index in the list; entries not listed are left alone
};
SDF_KERNEL(sdf_placed, PLAIN, i) { a.place[a.number[i]] = i; }

struct sdf_spaced_args {
    u32 n;
    u32 every;
    const u32* number;  // [numbers] null: 0, 1, 2, ...
    u32* spaced;        // [n] out: entries 0, every, 2 every, ...
};
SDF_KERNEL(sdf_spaced, PLAIN, i) { a.spaced[i] = a.number ? a.number[(size_t)i * a.every] : i * a.every; }

struct sdf_scaled_args {
    u32 n;
    float factor;
    float* values;  // [n] in and out
};
SDF_KERNEL(sdf_scaled, PLAIN, i) { a.values[i] *= a.factor; }

struct sdf_above_args {
    u32 n;
    float level;
    const float* values;  // [n]
    u8* above;            // [n] out: 0, 1
};
SDF_KERNEL(sdf_above, PLAIN, i) { a.above[i] = a.values[i] > a.level; }

struct sdf_negated_args {
    u32 n;
    const u8* chosen;  // [n] 0, 1
    float* values;     // [n] in and out
};
SDF_KERNEL(sdf_negated, PLAIN, i) {
    if (a.chosen[i]) a.values[i] = -a.values[i];
}

#endif
