// The second half of a scan over several parts: what lies before a part is added to each of its elements.
//
// INTERFACE
//   sdf_scan_add, sdf_scan_add_wide  add a base to 32-bit and to 64-bit elements
#ifndef SDFCLI_BASE_SCAN_H
#define SDFCLI_BASE_SCAN_H
#include "args.h"
#include "base/portable.h"

// Four elements a thread, n apart, so that neighbouring threads touch neighbouring elements.
template <class Args>
FN void add_base(const Args& a, u32 i) {
    for (int k = 0; k < 4; k++) {
        u64 at = i + k * (u64)a.n;
        if (at < a.count) a.values[at] += a.base;
    }
}

FN void sdf_scan_add_at(const sdf_scan_add_args& a, u32 i) { add_base(a, i); }
FN void sdf_scan_add_wide_at(const sdf_scan_add_wide_args& a, u32 i) { add_base(a, i); }

#endif
