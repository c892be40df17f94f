// sdf_sign_inherit on the CPU: a cell's shared data is loaded once, and its 27 points are tested together.
//
// INTERFACE
//   sdf_sign_inherit_lanes  sdf_sign_inherit for the points first .. last - 1
#ifndef SDFCLI_SIGN_INHERIT_SIMD_H
#define SDFCLI_SIGN_INHERIT_SIMD_H
#include "base/simd.h"
#include "sign/inherit.h"

namespace {

#define SDF_CELL_ROOM (2 * SDF_LANES)  // for 27 points

// An opened cell's points, with their known signs.
struct CellSigns {
    u32 row, known, inner;  // bit j: point j
    u32 point[27];
    float away[SDF_CELL_ROOM], room[SDF_CELL_ROOM];
};

FN void load_cell(const sdf_sign_inherit_args& a, u32 row, CellSigns* cell) {
    cell->row = row;
    cell->known = cell->inner = 0;
    for (int j = 0; j < 27; j++) cell->point[j] = a.points[27 * (size_t)row + j];
    for (int j = 0; j < 27; j++) {
        u32 point = cell->point[j], newer = point - a.first;
        if (point < a.first) {
            float d = a.signed_distance[point];
            cell->away[j] = abs_of(d);
            cell->known |= 1u << j;
            cell->inner |= (float_bits(d) >> 31) << j;
        } else if (a.before && newer < a.n) {
            cell->away[j] = a.distance[newer];
            cell->known |= (u32)(a.before[newer] != SDF_SIGN_UNKNOWN) << j;
            cell->inner |= (u32)(a.before[newer] == 1) << j;
        }
    }
    for (int j = 0; j < 27; j++) cell->room[j] = a.clear && cell->known >> j & 1u ? a.clear[cell->point[j]] : 1e30f;
}

// Distances between a cell's 27 points.
struct Ways {
    float length[27][SDF_CELL_ROOM];
};
FN void measure_ways(float step, Ways* ways) {
    float way[13];  // by squared distance
    for (int square = 0; square < 13; square++) way[square] = step * sqrtf((float)square);
    for (int j = 0; j < 27; j++)
        for (int k = 0; k < 27; k++) {
            Offset o = offset_of(j), p = offset_of(k);
            int x = o.x - p.x, y = o.y - p.y, z = o.z - p.z;
            ways->length[j][k] = way[x * x + y * y + z * z];
        }
}

// Mask of sixteen points that determine a point's sign, given their distances to it, if their own is known. The point
// itself is not known.
FN u32 which_tell(const CellSigns& cell, const float* length, u32 first, float distance) {
    FloatV way = load_lanes(length + first);
    return bits((load_lanes(cell.room + first) > way) &
                empty_between(FloatV(distance), load_lanes(cell.away + first), way));
}

struct FoundSign {
    float clear;
    u8 inside;
};
FN FoundSign sign_from(const CellSigns& cell, const float* length, float distance) {
    FoundSign found = {0.f, SDF_SIGN_UNKNOWN};
    u32 told = which_tell(cell, length, 0, distance) | which_tell(cell, length, SDF_LANES, distance) << SDF_LANES;
    for (told &= cell.known; told; told &= told - 1) {
        u32 j = (u32)__builtin_ctz(told);
        float reach = cell.room[j] - length[j];
        if (reach > found.clear) found = {reach, (u8)(cell.inner >> j & 1u)};
    }
    return found;
}

// Radius within which caps do not matter, around up to sixteen points.
FN void clear_around(const sdf_sign_inherit_args& a, const u32* points, u32 count) {
    FloatV clear = caps_room(a.caps, load_points(a.position, count, [points](u32 k) { return points[k]; }));
    for (u32 k = 0; k < count; k++) a.clear[a.first + points[k]] = clear[k];
}

}  // namespace

FN void sdf_sign_inherit_lanes(const sdf_sign_inherit_args& a, u32 first, u32 last) {
    Ways ways = {};
    CellSigns cell = {};
    cell.row = SDF_NONE;
    u32 left[SDF_LANES], waiting = 0;  // points still without a sign after both passes
    int own = 0;
    measure_ways(a.step, &ways);
    for (u32 i = first; i < last; i++) {
        if (a.before && a.before[i] != SDF_SIGN_UNKNOWN) {
            a.inside[i] = a.before[i];
            if (a.link) a.link[i] = 1;
            continue;
        }
        if (a.point_row[i] != cell.row) load_cell(a, a.point_row[i], &cell);
        while (cell.point[own] != a.first + i) own = own < 26 ? own + 1 : 0;  // found in its own row
        FoundSign found = sign_from(cell, ways.length[own], a.distance[i]);
        a.inside[i] = found.inside;
        if (a.link) a.link[i] = found.inside != SDF_SIGN_UNKNOWN;
        if (!a.clear) continue;
        a.clear[a.first + i] = found.clear;
        if (found.inside != SDF_SIGN_UNKNOWN || !a.before) continue;
        left[waiting++] = i;
        if (waiting == SDF_LANES) {
            clear_around(a, left, waiting);
            waiting = 0;
        }
    }
    if (waiting) clear_around(a, left, waiting);
}

#endif
