// The second half of a scan over several parts: what lies before a part is added to each of its elements.
//
// INTERFACE
//   sdf_scan_add, sdf_scan_add_wide  add a base to 32-bit and to 64-bit elements
#ifndef SDFCLI_BASE_SCAN_H
#define SDFCLI_BASE_SCAN_H
#include "base/kernel.h"
#include "base/portable.h"

// Four elements a thread, n apart, so that neighbouring threads touch neighbouring elements.
template <class T>
FN void add_base(T* values, u64 count, u64 base, u32 n, u32 i) {
    for (int k = 0; k < 4; k++) {
        u64 at = i + k * (u64)n;
        if (at < count) values[at] += base;
    }
}

struct sdf_scan_add_args {
    u32 n;  // threads: count / 4, rounded up
    u64 count;
    u64 base;
    u32* values;  // [count] in and out
};
SDF_KERNEL(sdf_scan_add, PLAIN, i) { add_base(a.values, a.count, a.base, a.n, i); }
struct sdf_scan_add_wide_args {
    u32 n;  // threads: count / 4, rounded up
    u64 count;
    u64 base;
    u64* values;  // [count] in and out
};
SDF_KERNEL(sdf_scan_add_wide, PLAIN, i) { add_base(a.values, a.count, a.base, a.n, i); }

#endif
