// Steps between kernels that array modules offer, too, each by a kernel that is compiled where it is first used.
//
// INTERFACE
//   sdf_taken    rows of an array by their numbers
//   sdf_placed   where each number lies in a list
//   sdf_spaced   numbers in equal steps through a list
//   sdf_scaled   numbers times a factor
//   sdf_above    which numbers are above a level
//   sdf_negated  numbers with the other sign where that is chosen
#ifndef SDFCLI_BASE_ARRAYS_H
#define SDFCLI_BASE_ARRAYS_H
#include "base/kernel.h"

struct sdf_taken_args {
    u32 n;              // rows to take
    u32 words;          // of a row
    const u32* source;  // [rows, words]
    const u32* number;  // [n] of the rows
    u32* taken;         // [n, words] out
};
SDF_KERNEL(sdf_taken, PLAIN, i) {
    const u32* row = a.source + (size_t)a.words * a.number[i];
    for (u32 k = 0; k < a.words; k++) a.taken[(size_t)a.words * i + k] = row[k];
}

struct sdf_placed_args {
    u32 n;
    const u32* number;  // [n] each at most once
    u32* place;         // [numbers] out, of those in the list
};
SDF_KERNEL(sdf_placed, PLAIN, i) { a.place[a.number[i]] = i; }

struct sdf_spaced_args {
    u32 n;
    u32 every;
    const u32* number;  // [numbers] null: each place's own
    u32* spaced;        // [n] out: the first one, that `every` further on, and so on
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
