// The wide query for one instruction set: compiled once for each, under the name SDF_WIDE_RUN.
#include "wide.h"

extern "C" void SDF_WIDE_RUN(const sdf_distance_wide_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) query_packet(a, i, last, i > first);
}
