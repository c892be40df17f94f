// Rows of a binary PLY file with lists of varying length.
//
// INTERFACE
//   sdf_ply_rows   position of each row's list
//   sdf_ply_lists  the lists' numbers
#ifndef SDFCLI_MESH_PLY_H
#define SDFCLI_MESH_PLY_H
#include "base/kernel.h"

// An integer of |bytes| bytes, signed if `bytes` is negative.
FN long long ply_whole(const u8* at, int bytes, bool swapped) {
    int size = bytes < 0 ? -bytes : bytes;
    u64 value = 0;
    for (int k = 0; k < size; k++) value |= (u64)at[swapped ? size - 1 - k : k] << (8 * k);
    if (bytes < 0 && value >> (8 * size - 1)) return (long long)value - (long long)(1ULL << (8 * size));
    return (long long)value;
}

struct sdf_ply_rows_args {
    u32 n;        // 1: sequential, as a row starts where the previous one ends
    u32 swapped;  // whether numbers are big-endian
    u32 columns, chosen;
    u64 rows, bytes, start;
    const u8* data;     // [bytes]
    const int* length;  // [columns] bytes of a list's length, negative: signed; 0 for scalar columns
    const int* item;    // [columns] bytes per number
    u64* at;            // [rows] out: position of the chosen column's list
    u64* count;         // [rows] out: its length
    u64* end;           // [2] out: first incomplete row, or `rows`; end of the preceding rows
};
SDF_KERNEL(sdf_ply_rows, PLAIN, i) {
    u64 at = a.start, row = 0, whole = a.start;
    for (; row < a.rows; row++, whole = at) {
        u32 column = 0;
        for (; column < a.columns; column++) {
            long long size = 1;
            u64 length = (u64)(a.length[column] < 0 ? -a.length[column] : a.length[column]);
            if (length > a.bytes - at) break;
            if (length) size = ply_whole(a.data + at, a.length[column], a.swapped);
            at += length;
            if (size < 0 || (u64)size > (a.bytes - at) / (u64)a.item[column]) break;
            if (column == a.chosen) a.at[row] = at, a.count[row] = (u64)size;
            at += (u64)size * (u64)a.item[column];
        }
        if (column < a.columns) break;
    }
    a.end[i] = row, a.end[i + 1] = whole;
}

struct sdf_ply_lists_args {
    u32 n;  // lists
    u32 swapped;
    int item;  // bytes per number, negative: signed
    u64 bytes;
    const u8* data;     // [bytes]
    const u64* at;      // [n]
    const u64* end;     // [n] each list's end in `number`
    long long* number;  // [numbers] out
};
SDF_KERNEL(sdf_ply_lists, PLAIN, i) {
    const u8* at = a.data + a.at[i];
    int size = a.item < 0 ? -a.item : a.item;
    for (u64 k = i ? a.end[i - 1] : 0; k < a.end[i]; k++, at += size) a.number[k] = ply_whole(at, a.item, a.swapped);
}

#endif
