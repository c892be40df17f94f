// sdf_sign_link on the CPU: sixteen neighbours per step.
//
// INTERFACE
//   sdf_sign_link_lanes  sdf_sign_link for the points first .. last - 1
#ifndef SDFCLI_SIGN_LINK_SIMD_H
#define SDFCLI_SIGN_LINK_SIMD_H
#include "base/simd.h"
#include "sign/link.h"

namespace {

#define SDF_LINK_BLOCK 1024
#define SDF_LINK_ROOM (SDF_LINK_BLOCK + 2 * SDF_LINK_REACH)

struct Stretch {
    float x[SDF_LINK_ROOM], y[SDF_LINK_ROOM], z[SDF_LINK_ROOM], distance[SDF_LINK_ROOM];
};

// Mask of sixteen neighbours from which a point can inherit.
FN u32 farther_neighbours(const Stretch& s, u32 first, const Vec<FloatV>& p, const FloatV& own) {
    FloatV distance = load_lanes(s.distance + first);
    Mask farther = distance > own;
    Vec<FloatV> way = Vec<FloatV>{load_lanes(s.x + first), load_lanes(s.y + first), load_lanes(s.z + first)} - p;
    return bits(farther & empty_between(own + distance, way));
}

FN u32 link_of(const Stretch& s, u32 i, u32 at) {
    Vec<FloatV> p = {FloatV(s.x[at]), FloatV(s.y[at]), FloatV(s.z[at])};
    FloatV own(s.distance[at]);
    for (u32 from = 0; from < SDF_LINK_REACH; from += SDF_LANES) {
        u32 before = farther_neighbours(s, at - from - SDF_LANES, p, own);
        if (before) return i - from - 1 - (u32)clz(before << 16);
        u32 behind = farther_neighbours(s, at + from + 1, p, own);
        if (behind) return i + from + 1 + (u32)__builtin_ctz(behind);
    }
    return i;
}

// The points first .. last - 1, at most SDF_LINK_BLOCK.
FN void link_block(const sdf_sign_link_args& a, u32 first, u32 last) {
    Stretch s;
    for (u32 k = 0; k < last - first + 2 * SDF_LINK_REACH; k++) {
        u32 j = first + k - SDF_LINK_REACH;  // wraps around below 0, hence beyond the end
        F3 p = load3(a.points + 3 * (size_t)(j < a.n ? j : first));
        s.x[k] = p.x;
        s.y[k] = p.y;
        s.z[k] = p.z;
        s.distance[k] = j < a.n ? a.distance[j] : -SDF_UNKNOWN;
    }
    for (u32 i = first; i < last; i++) a.link[i] = link_of(s, i, i - first + SDF_LINK_REACH);
}

}  // namespace

FN void sdf_sign_link_lanes(const sdf_sign_link_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LINK_BLOCK) link_block(a, i, min_of(i + SDF_LINK_BLOCK, last));
}

#endif
