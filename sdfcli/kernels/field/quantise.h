// Distances as whole numbers of steps from what coarser corners foretell of them.
//
// INTERFACE
//   whole_steps          a value as a number of steps from a base
//   foretold             what is foretold of a corner
//   sdf_corner_quantise  the corners of one level, in Morton order
//   sdf_corner_restore   from numbers of steps to distances
//   sdf_octree_round     the points of an octree that grew
#ifndef SDFCLI_FIELD_QUANTISE_H
#define SDFCLI_FIELD_QUANTISE_H
#include "geometry/lattice.h"

// A value as a whole number of steps from a base. It keeps its sign, and changes by half a step at most, or by less
// than one where that would turn the sign.
FN int whole_steps(float value, double base, double step) {
    const double most_steps = 1073741824.0;
    bool negative = value < 0.f;
    double steps = least(most(((double)value - base) / step, -most_steps), most_steps);
    steps = (double)(int)(steps < 0.0 ? steps - 0.5 : steps + 0.5);
    if ((base + steps * step < 0.0) != negative) steps += negative ? -1.0 : 1.0;
    return (int)steps;
}

// What is foretold of a corner: the mean of those half a cell of the level above away, along the axes on which it lies
// in the middle of such a cell; first along x, then y, then z. In float64, the same on every device and in any reader.
template <class Args>
FN double foretold(const Args& a, u32 corner) {
    if (a.level == 0) return 0.0;
    // Each axis of a Morton code is stepped along by itself: the bits of the others are set for the carry to pass, or
    // clear.
    const u64 axes = 0x1249249249249249ULL;
    u64 key = a.corner_key[corner], step = 1ULL << 3 * (SDF_LATTICE_BITS - a.level), low = 0, high = 0;
    u32 odd = 0;
    for (int k = 0; k < 3; k++) {
        u64 axis = axes << k, own = key & axis, by = step << k;
        bool between = (own & by) != 0;
        odd |= (u32)between << k;
        low |= between ? own - by : own;
        high |= between ? ((own | ~axis) + by) & axis : own;
    }
    double v[8];
    for (u32 c = 0; c < 8; c++) {
        if (c & ~odd) {
            v[c] = v[c & odd];
            continue;
        }
        u64 mask = (c & 1 ? axes : 0) | (c & 2 ? axes << 1 : 0) | (c & 4 ? axes << 2 : 0);
        u32 place = lower_bound_near(a.corner_key, a.corners, (low & ~mask) | (high & mask), corner);
        v[c] = (double)a.value[place < a.corners ? place : 0];
    }
    for (int k = 4; k; k >>= 1)
        for (int c = 0; c < k; c++) v[c] = 0.5 * (v[2 * c] + v[2 * c + 1]);
    return v[0];
}
FN void sdf_corner_quantise_at(const sdf_corner_quantise_args& a, u32 i) {
    u32 corner = a.corner[i];
    double base = foretold(a, corner);
    int steps = a.hanging[corner] ? 0 : whole_steps(a.value[corner], base, a.step);
    a.value[corner] = (float)(base + (double)steps * a.step);
    a.residual[i] = steps;
}
FN void sdf_corner_restore_at(const sdf_corner_restore_args& a, u32 i) {
    u32 corner = a.corner[i];
    a.value[corner] = (float)(foretold(a, corner) + (double)a.residual[i] * a.step);
}

// What sdf_corner_quantise does, for an opened cell's points: its corners, which foretell them, need not be looked for.
FN void sdf_octree_round_at(const sdf_octree_round_args& a, u32 i) {
    const u32* points = a.points + 27 * (size_t)i;
    double corner[8], base[27];
    for (int c = 0; c < 8; c++) corner[c] = (double)a.rounded[points[corner_point(c)]];
    interpolate(corner, base);
    for (int j = 0; j < 27; j++) {
        if (is_corner(j)) continue;
        u32 point = points[j];
        int parts = a.parts;  // those of a step that are rounded to
        if (a.fine) parts >>= 31 - leading_zeros(a.fine[point] | 1u);
        int steps = a.hanging[point] ? 0 : parts * whole_steps(a.value[point], base[j], parts * a.step);
        store_shared(a.rounded + point, (float)(base[j] + (double)steps * a.step));
        store_shared(a.steps + point, steps);
    }
}

#endif
