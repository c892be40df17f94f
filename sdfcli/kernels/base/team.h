// A team processes an item with up to 32 parts, such as a cell's points. It is a single thread, or a warp, which is
// faster for few items or much work per part. The code is written once for both:
//
//     for (int j = team.first(); j < 27; j += Team::THREADS) memory.distance[j] = ...;  // own parts
//     team.meet();                                                                      // then the others'
//
// INTERFACE
//   Alone, Together  a thread; a warp whose threads run the same code (after base/warp.h)
#ifndef SDFCLI_BASE_TEAM_H
#define SDFCLI_BASE_TEAM_H
#include "base/portable.h"

struct Alone {
    static const int THREADS = 1;
    METHOD int first() const { return 0; }
    METHOD void meet() const {}
    METHOD int at(int part) const { return part; }  // index of an own part in a per-thread array
    // Parts are bits: a thread's own parts; the union over all threads.
    METHOD u32 own(u32 parts) const { return parts; }
    METHOD u32 all(u32 found) const { return found; }
    METHOD bool any(bool found) const { return found; }
    // For non-negative numbers.
    METHOD float least(float x) const { return x; }
    METHOD float most(float x) const { return x; }
};

#ifdef SDF_SHARED
struct Together {
    static const int THREADS = SDF_WARP;
    u32 lane;
    METHOD int first() const { return (int)lane; }
    METHOD void meet() const { warp_sync(); }
    METHOD int at(int) const { return 0; }
    METHOD u32 own(u32 parts) const { return parts & 1u << lane; }
    METHOD u32 all(u32 found) const { return warp_ballot(found >> lane & 1u); }
    METHOD bool any(bool found) const { return warp_ballot(found) > 0; }
    METHOD float least(float x) const { return bits_float(reduce_min(float_bits(x))); }
    METHOD float most(float x) const { return bits_float(reduce_max(float_bits(x))); }
};
#endif

#endif
