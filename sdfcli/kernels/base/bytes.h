// Host memory written by several threads: new pages take longer than a copy.
//
// INTERFACE
//   sdf_bytes_copied  copies
//   sdf_bytes_handed  copies for a device to read
//   sdf_bytes_begun   writes to each page
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

// Copies past the caches: a GPU reads 14 GB/s from many cores' caches, 53 GB/s from memory. The stores have arrived
// once the thread has counted its indices as done, which takes a locked instruction.
struct sdf_bytes_handed_args {
    u32 n;             // ceil(size / 256)
    u64 size;          // bytes
    const u8* source;  // [size]
    u8* target;        // [size] out: 16-byte aligned
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
    u8* bytes;  // [size] out: every 1024th is 0
};
SDF_KERNEL(sdf_bytes_begun, PLAIN, i) { a.bytes[(u64)i * SDF_BYTES_APART] = 0; }

#endif
