// Signs for a growing octree's new points, from other points in their cells (see sign/propagate.h).
//
// INTERFACE
//   NewSigns          data for kernels that compute new points' signs themselves
//   sdf_sign_inherit  new points' signs, where points with a known sign determine them
#ifndef SDFCLI_SIGN_INHERIT_H
#define SDFCLI_SIGN_INHERIT_H
#include "base/kernel.h"
#include "geometry/lattice.h"
#include "sign/caps.h"
#include "sign/propagate.h"
#include "winding/moments.h"

// From pseudonormals, from winding numbers, or neither: then nothing is inside.
struct NewSigns {
    const float* normals;  // [triangles, 7, 3] null: winding numbers are used
    WindingTree tree;      // 0 triangles: nothing is inside
    WindingTree caps;      // this and the following: as in sdf_winding_single
    u32 steps;
    const float* step;  // [steps, 2]
    float beta;
    float lost;
    Caps groups;  // as in sdf_sign_inherit
};

// A new point inherits the sign of another point in its cell: each point's distance gives a ball without surface, so
// where two balls meet, no surface lies in between. An open surface's sign also changes at its holes: `clear` is the
// radius around a point within which the closing caps do not matter. The first pass uses older points; the second,
// given the first's result, uses new points as well, and reports the remaining ones.
struct sdf_sign_inherit_args {
    u32 n;                         // new points
    u32 first;                     // index of the first
    const u32* point_row;          // [n] their owners' rows
    const u32* points;             // [rows, 27]
    float step;                    // half a cell edge
    const float* signed_distance;  // [all] per point
    const float* distance;         // [n] unsigned
    const u8* before;              // [n] result of the first pass: 0, 1, or 2 if unknown; null in the first pass
    const float* position;         // [n, 3]
    Caps caps;
    float* clear;  // [all] in and out: per point; null: a closed surface
    u8* inside;    // [n] out: 0, 1, or 2 if unknown
    u64* link;     // [n] out: 0 if the sign is unknown; may be null
};
SDF_KERNEL(sdf_sign_inherit, LANES, i) {
    if (a.before && a.before[i] != SDF_SIGN_UNKNOWN) {
        a.inside[i] = a.before[i];
        if (a.link) a.link[i] = 1;
        return;
    }
    // Each kind of value is loaded for all the cell's points at once: sequential loads would wait for memory.
    const u32* points = a.points + 27 * (size_t)a.point_row[i];
    u32 point[27], known = 0, inner = 0;
    float away[27], room[27];
    int own = 0;
    UNROLL
    for (int j = 0; j < 27; j++) point[j] = points[j];
    UNROLL
    for (int j = 0; j < 27; j++) {
        own = point[j] == a.first + i ? j : own;
        u32 newer = point[j] - a.first;
        if (point[j] < a.first) {
            float d = a.signed_distance[point[j]];
            away[j] = abs_of(d);
            known |= 1u << j;
            inner |= (float_bits(d) >> 31) << j;
        } else if (a.before && newer < a.n) {
            away[j] = a.distance[newer];
            known |= (u32)(a.before[newer] != SDF_SIGN_UNKNOWN) << j;
            inner |= (u32)(a.before[newer] == 1) << j;
        }
    }
    UNROLL
    for (int j = 0; j < 27; j++) room[j] = a.clear && known >> j & 1u ? a.clear[point[j]] : 1e30f;
    Offset at = offset_of(own);
    float d = a.distance[i], clear = 0.f;
    u8 inside = SDF_SIGN_UNKNOWN;
    UNROLL
    for (int j = 0; j < 27; j++) {
        if (j == own || !(known >> j & 1u)) continue;
        Offset o = offset_of(j);
        int x = o.x - at.x, y = o.y - at.y, z = o.z - at.z;
        float length = a.step * sqrtf((float)(x * x + y * y + z * z));
        float reach = room[j] - length;
        if (empty_between(d, away[j], length) && reach > clear) {
            clear = reach;
            inside = (u8)(inner >> j & 1u);
        }
    }
    a.inside[i] = inside;
    if (a.link) a.link[i] = inside != SDF_SIGN_UNKNOWN;
    if (!a.clear) return;
    if (inside == SDF_SIGN_UNKNOWN && a.before) clear = caps_room(a.caps, load3(a.position + 3 * (size_t)i));
    a.clear[a.first + i] = clear;
}

#endif
