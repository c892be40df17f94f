// Signs for the new points of an octree that grows: from other points of their cells (see sign/propagate.h).
//
// INTERFACE
//   NewSigns          how a kernel makes the signs of new points by itself
//   sdf_sign_inherit  signs of new points, as far as points with a known sign tell them
#ifndef SDFCLI_SIGN_INHERIT_H
#define SDFCLI_SIGN_INHERIT_H
#include "base/kernel.h"
#include "geometry/lattice.h"
#include "sign/caps.h"
#include "sign/propagate.h"
#include "winding/moments.h"

// By pseudonormals, by winding numbers, or by neither: then nothing is inside.
struct NewSigns {
    const float* normals;  // [triangles, 7, 3] null: by winding numbers
    WindingTree tree;      // 0 triangles: nothing is inside
    WindingTree caps;      // and what follows: as for sdf_winding_lone
    u32 steps;
    const float* step;  // [steps, 2]
    float beta;
    float lost;
    Caps groups;  // as for sdf_sign_inherit
};

// Takes the sign of a new point from another point of its cell: the ball around each that its distance allows is empty
// of surface, so where the two balls meet, nothing lies between. The sign of an open surface changes at its holes too:
// `clear` is how far around a point the caps that close them have no say. A first pass asks older points; a second one,
// given what came of that, asks the new ones as well, and says which are left.
struct sdf_sign_inherit_args {
    u32 n;                         // new points
    u32 first;                     // number of the first
    const u32* point_row;          // [n] their owners' rows
    const u32* points;             // [rows, 27]
    float step;                    // half an edge of the cells
    const float* signed_distance;  // [all] of points
    const float* distance;         // [n] unsigned
    const u8* before;              // [n] what the first pass found: 0, 1, or 2 where not known; null in that
    const float* position;         // [n, 3]
    Caps caps;
    float* clear;  // [all] in and out: of points; null: a closed surface
    u8* inside;    // [n] out: 0, 1, or 2 where not known
    u64* link;     // [n] out: 0 where the sign is not known; may be null
};
SDF_KERNEL(sdf_sign_inherit, LANES, i) {
    if (a.before && a.before[i] != SDF_SIGN_UNKNOWN) {
        a.inside[i] = a.before[i];
        if (a.link) a.link[i] = 1;
        return;
    }
    // Each kind of value is loaded for all points of the cell at once: one after the other they would wait for memory.
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
