// Binary search in sorted keys.
//
// INTERFACE
//   lower_bound       first index whose key is not less than the given one
//   lower_bound_wide  the same, in fewer steps with more loads
//   lower_bound_near  the same, for a key probably near an index
//   lower_bound_from  the same, for a key probably after an index
#ifndef SDFCLI_BASE_SEARCH_H
#define SDFCLI_BASE_SEARCH_H
#include "base/portable.h"

template <class Key>
FN u32 lower_bound(const Key* keys, u32 n, Key key) {
    u32 low = 0;
    while (n > 0) {
        u32 half = n / 2;
        if (keys[low + half] < key) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

// Compares seven keys per step: a third of the memory latency, where few threads run.
FN u32 lower_bound_wide(const u64* keys, u32 n, u64 key) {
    u32 low = 0, less;
    while (n > 7) {
        u32 part = n / 8;
        less = 0;
        UNROLL
        for (u32 k = 1; k < 8; k++) less += keys[low + k * part - 1] < key;
        low += less * part;
        n = less < 7 ? part - 1 : n - 7 * part;
    }
    less = 0;
    UNROLL
    for (u32 k = 0; k < 7; k++) less += k < n && keys[low + k] < key;
    return low + less;
}

// Steps away from index `from` double.
FN u32 lower_bound_near(const u64* keys, u32 n, u64 key, u32 from) {
    u32 step = 1;
    if (keys[from] < key) {
        while (step < n - from && keys[from + step] < key) {
            from += step;
            step *= 2;
        }
        return from + 1 + lower_bound(keys + from + 1, min_of(step, n - from) - 1, key);
    }
    while (step <= from && keys[from - step] >= key) {
        from -= step;
        step *= 2;
    }
    u32 low = step <= from ? from - step + 1 : 0;
    return low + lower_bound(keys + low, from - low, key);
}

// First index >= `first` whose key is not less, probably near.
FN u32 lower_bound_from(const u64* keys, u32 n, u32 first, u64 key) {
    u32 step = 1;
    while (step <= n - first && keys[first + step - 1] < key) {
        first += step;
        step *= 2;
    }
    return first + lower_bound(keys + first, min_of(step - 1, n - first), key);
}

#endif
