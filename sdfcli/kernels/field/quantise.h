// Quantised distances: integer residuals in steps, against a prediction from coarser corners.
//
// INTERFACE
//   whole_steps          a value as a number of steps from a base
//   CornerLevel          corners of one level
//   foretold             a corner's prediction
//   sdf_corner_restore   residuals to distances: one level's corners, in Morton order
//   sdf_octree_round     the points of a grown octree
#ifndef SDFCLI_FIELD_QUANTISE_H
#define SDFCLI_FIELD_QUANTISE_H
#include "base/kernel.h"
#include "geometry/lattice.h"

// A value as an integer number of steps from a base. The sign is preserved; the change is at most half a step, or less
// than one step where rounding would flip the sign.
FN int whole_steps(float value, double base, double step) {
    const double most_steps = 1073741824.0;
    bool negative = value < 0.f;
    double steps = min_of(max_of(((double)value - base) / step, -most_steps), most_steps);
    steps = (double)(int)(steps < 0.0 ? steps - 0.5 : steps + 0.5);
    if ((base + steps * step < 0.0) != negative) steps += negative ? -1.0 : 1.0;
    return (int)steps;
}

struct CornerLevel {
    u32 corners;            // total
    u32 level;              // these corners' level, after all coarser levels
    const u32* corner;      // [many] their indices
    const u64* corner_key;  // [corners] sorted
    double step;
    float* value;  // [corners] in and out
};

// A corner's prediction: along each axis on which it lies midway in a cell on the level above, the mean of the corners
// half that cell away; first along x, then y, then z. In float64, identical on every device and in any reader.
FN double foretold(const CornerLevel& own, u32 corner) {
    if (own.level == 0) return 0.0;
    // A Morton code's axes are stepped separately: the other axes' bits are all set, so that the carry passes, or
    // clear.
    const u64 axes = 0x1249249249249249ULL;
    u64 key = own.corner_key[corner], step = 1ULL << 3 * (SDF_LATTICE_BITS - own.level), low = 0, high = 0;
    u32 odd = 0;
    for (int k = 0; k < 3; k++) {
        u64 axis = axes << k, at = key & axis, by = step << k;
        bool between = (at & by) != 0;
        odd |= (u32)between << k;
        low |= between ? at - by : at;
        high |= between ? ((at | ~axis) + by) & axis : at;
    }
    double v[8];
    for (u32 c = 0; c < 8; c++) {
        if (c & ~odd) {
            v[c] = v[c & odd];
            continue;
        }
        u64 mask = (c & 1 ? axes : 0) | (c & 2 ? axes << 1 : 0) | (c & 4 ? axes << 2 : 0);
        u32 place = lower_bound_near(own.corner_key, own.corners, (low & ~mask) | (high & mask), corner);
        v[c] = (double)own.value[place < own.corners ? place : 0];
    }
    for (int k = 4; k; k >>= 1)
        for (int c = 0; c < k; c++) v[c] = 0.5 * (v[2 * c] + v[2 * c + 1]);
    return v[0];
}

struct sdf_corner_restore_args {
    u32 n;  // corners of the level
    CornerLevel own;
    const int* residual;  // [n] in steps
};
SDF_KERNEL(sdf_corner_restore, PLAIN, i) {
    u32 corner = a.own.corner[i];
    a.own.value[corner] = (float)(foretold(a.own, corner) + (double)a.residual[i] * a.own.step);
}

// Rounds an opened cell's points to whole numbers of steps from the interpolation of the cell's corners.
struct sdf_octree_round_args {
    u32 n;               // rows on a level
    const u32* points;   // [n, 27]
    const float* value;  // [points]
    const u8* hanging;   // [points]
    const u32* fine;     // [points] bits, see sdf_octree_sheet_points; may be null
    int parts;           // rounding unit in steps where `fine` has no bits
    double step;
    float* rounded;  // [points] in and out
};
SDF_KERNEL(sdf_octree_round, PLAIN, i) {
    const u32* points = a.points + 27 * (size_t)i;
    double corner[8], base[27];
    for (int c = 0; c < 8; c++) corner[c] = (double)a.rounded[points[corner_point(c)]];
    interpolate(corner, base);
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        u32 point = points[j];
        int parts = a.parts;  // rounding unit in steps
        if (a.fine) parts >>= 31 - clz(a.fine[point] | 1u);
        int steps = a.hanging[point] ? 0 : parts * whole_steps(a.value[point], base[j], parts * a.step);
        store_relaxed(a.rounded + point, (float)(base[j] + (double)steps * a.step));
    }
}

#endif
