// Who looks at something of up to 32 parts, such as the points of a cell: a thread, or the threads of a warp, which are
// faster where there are few such things, or much is done with each part. What they do is written once for both:
//
//     for (int j = team.first(); j < 27; j += Team::THREADS) memory.distance[j] = ...;  // each its own parts
//     team.meet();                                                                      // then those of others
//
// INTERFACE
//   Alone, Together  a thread; a warp, all of whose threads do the same (after base/warp.h)
#ifndef SDFCLI_BASE_TEAM_H
#define SDFCLI_BASE_TEAM_H
#include "base/portable.h"

struct Alone {
    static const int THREADS = 1;
    METHOD int first() const { return 0; }
    METHOD void meet() const {}
    METHOD int at(int part) const { return part; }  // of an array of what only a thread knows of its own parts
    // Of parts, as bits, a thread's own; and all that threads have found among their own.
    METHOD u32 own(u32 parts) const { return parts; }
    METHOD u32 all(u32 found) const { return found; }
    METHOD bool any(bool found) const { return found; }
    // Of numbers that are not negative.
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
