// Bytes of the host, written by several threads, as new pages of memory take longer than a copy.
//
// INTERFACE
//   sdf_bytes_copied  a copy
//   sdf_bytes_handed  a copy that another device reads
//   sdf_bytes_begun   a write to each page
#ifndef SDFCLI_BASE_BYTES_H
#define SDFCLI_BASE_BYTES_H
#include "base/kernel.h"

struct sdf_bytes_copied_args {
    u32 n;             // ceil(size / 256)
    u64 size;          // bytes
    const u8* source;  // [size]
    u8* target;        // [size] out
};
SDF_KERNEL(sdf_bytes_copied, PLAIN, i) {
    u64 first = (u64)i * SDF_BYTES_PIECE, rest = a.size - first;
    if (rest >= SDF_BYTES_PIECE)
        memcpy(a.target + first, a.source + first, SDF_BYTES_PIECE);
    else
        memcpy(a.target + first, a.source + first, rest);
}

// The same past the caches: from those of many cores a GPU reads 14 GB/s, from memory 53. The stores are there once the
// thread has counted its indices as done, which takes a locked instruction.
struct sdf_bytes_handed_args {
    u32 n;             // ceil(size / 256)
    u64 size;          // bytes
    const u8* source;  // [size]
    u8* target;        // [size] out: aligned by 16 bytes
};
SDF_KERNEL(sdf_bytes_handed, PLAIN, i) {
    u64 first = (u64)i * SDF_BYTES_PIECE, rest = a.size - first;
    if (rest >= SDF_BYTES_PIECE)
        for (u32 k = 0; k < SDF_BYTES_PIECE; k += 16) store_past_caches(a.target + first + k, a.source + first + k);
    else
        memcpy(a.target + first, a.source + first, rest);
}

struct sdf_bytes_begun_args {
    u32 n;      // ceil(size / 1024)
    u64 size;   // bytes
    u8* bytes;  // [size] out: some are 0
};
SDF_KERNEL(sdf_bytes_begun, PLAIN, i) { a.bytes[(u64)i * SDF_BYTES_APART] = 0; }

#endif
