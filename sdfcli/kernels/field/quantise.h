// Distances as whole numbers of steps from what coarser corners foretell of them.
//
// INTERFACE
//   whole_steps          a value as a number of steps from a base
//   CornerLevel          the corners of one level
//   foretold             what is foretold of a corner
//   sdf_corner_quantise  the corners of one level, in Morton order
//   sdf_corner_restore   from numbers of steps to distances
//   sdf_octree_round     the points of an octree that grew
#ifndef SDFCLI_FIELD_QUANTISE_H
#define SDFCLI_FIELD_QUANTISE_H
#include "base/kernel.h"
#include "geometry/lattice.h"

// A value as a whole number of steps from a base. It keeps its sign, and changes by half a step at most, or by less
// than one where that would turn the sign.
FN int whole_steps(float value, double base, double step) {
    const double most_steps = 1073741824.0;
    bool negative = value < 0.f;
    double steps = min_of(max_of(((double)value - base) / step, -most_steps), most_steps);
    steps = (double)(int)(steps < 0.0 ? steps - 0.5 : steps + 0.5);
    if ((base + steps * step < 0.0) != negative) steps += negative ? -1.0 : 1.0;
    return (int)steps;
}

struct CornerLevel {
    u32 corners;            // all of them
    u32 level;              // that of the corners at hand, after those of all coarser levels
    const u32* corner;      // [many] their numbers
    const u64* corner_key;  // [corners] sorted
    double step;
    float* value;  // [corners] in and out
};

// What is foretold of a corner: the mean of those half a cell of the level above away, along the axes on which it lies
// in the middle of such a cell; first along x, then y, then z. In float64, the same on every device and in any reader.
FN double foretold(const CornerLevel& own, u32 corner) {
    if (own.level == 0) return 0.0;
    // Each axis of a Morton code is stepped along by itself: the bits of the others are set for the carry to pass, or
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

struct sdf_corner_quantise_args {
    u32 n;  // corners of the level
    CornerLevel own;
    const u8* hanging;  // [corners] 1 where a corner takes the mean of those around it
    int* residual;      // [n] out: in steps
};
SDF_KERNEL(sdf_corner_quantise, PLAIN, i) {
    u32 corner = a.own.corner[i];
    double base = foretold(a.own, corner);
    int steps = a.hanging[corner] ? 0 : whole_steps(a.own.value[corner], base, a.own.step);
    a.own.value[corner] = (float)(base + (double)steps * a.own.step);
    a.residual[i] = steps;
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

// What sdf_corner_quantise does, for an opened cell's points: its corners, which foretell them, need not be looked for.
struct sdf_octree_round_args {
    u32 n;               // rows of a level
    const u32* points;   // [n, 27]
    const float* value;  // [points]
    const u8* hanging;   // [points]
    const u32* fine;     // [points] bits, see sdf_octree_sheet_points; may be null
    int parts;           // steps to which values are rounded where there are no bits
    double step;
    float* rounded;  // [points] in and out
    int* steps;      // [points] out
};
SDF_KERNEL(sdf_octree_round, PLAIN, i) {
    const u32* points = a.points + 27 * (size_t)i;
    double corner[8], base[27];
    for (int c = 0; c < 8; c++) corner[c] = (double)a.rounded[points[corner_point(c)]];
    interpolate(corner, base);
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        u32 point = points[j];
        int parts = a.parts;  // those of a step that are rounded to
        if (a.fine) parts >>= 31 - clz(a.fine[point] | 1u);
        int steps = a.hanging[point] ? 0 : parts * whole_steps(a.value[point], base[j], parts * a.step);
        store_relaxed(a.rounded + point, (float)(base[j] + (double)steps * a.step));
        store_relaxed(a.steps + point, steps);
    }
}

#endif
