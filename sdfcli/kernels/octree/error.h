// Error of a cell's trilinear field with respect to the true distance.
//
// INTERFACE
//   allowed_error              the tolerance at a distance
//   bend, bend_of              the field's bend, predicted by gradients
//   misses_surface             whether the field is wrong at vertices in the cell
//   middle                     the mean of the corners
//   corners_jump, holds_jump   whether the sign jumps in the cell
//   largest_error              an opened cell's maximum error, a CellError, from its PointErrors
#ifndef SDFCLI_OCTREE_ERROR_H
#define SDFCLI_OCTREE_ERROR_H
#include "octree/gradient.h"
#include "octree/sheets.h"
#include "sign/propagate.h"

FN float allowed_error(float distance, float tolerance, float band) {
    float d = abs_of(distance);
    return d > band ? tolerance * (d / band) : tolerance;
}

// Possible deviation of the true distance from the trilinear field between eight corners, estimated from their
// gradients: along an edge of length h on which the slope changes by J, a smooth field bends away by h J / 8, a crease
// by up to h J / 4. The tests' factors for it were found by measurement (docs/internals/judgement.md).
template <class Gradient>
FN float bend(float edge, const Gradient& gradient) {
    float sum = 0.f;
    UNROLL
    for (int axis = 0; axis < 3; axis++) {
        float steepest = 0.f;
        UNROLL
        for (int c = 0; c < 8; c++)
            if (!(c >> axis & 1))
                steepest = max_of(steepest, abs_of(gradient(c | 1 << axis, axis) - gradient(c, axis)));
        sum += steepest;
    }
    return sum * edge * 0.125f;
}

// Whether the field exceeds the tolerance at surface vertices in a cell, where the distance is zero; tests triangles
// with their centroid in the cell. Detects details between a coarse cell's points, such as a nearly flat wall's relief.
template <class Team = Alone>
FN bool misses_surface(const Level& own, const Points& points, float tolerance, u32 cell, const float* corner,
                       const Team& team = Team()) {
    const u32 each = Team::THREADS == 1 ? 4 : 1;  // independent loads
    float scale = (float)(1u << own.level);
    for (int c = 0; c < 8; c++)
        if (abs_of(corner[c]) * scale > 1.74f) return false;  // farther than the cell's diagonal
    u64 key = key_of(own, cell), size = 1ULL << 3 * (SDF_MORTON_BITS - own.level), first = key * size;
    Lattice at = morton_decode(key);
    F3 low = vec((float)at.x, (float)at.y, (float)at.z);
    u32 slot = lower_bound_wide(points.triangle_key, points.triangles, first);
    for (bool ends = false; !ends; slot += each * Team::THREADS) {
        bool misses = false;
        for (u32 k = slot + (u32)team.first(); k < slot + (u32)team.first() + each; k++) {
            ends = !(k < points.triangles && points.triangle_key[k] < first + size);
            if (ends) continue;
            for (int v = 0; v < 3; v++) {
                F3 t = scale * load3(points.triangle + 9 * (size_t)k + 3 * v) - low;
                bool within = min_of(t.x, min_of(t.y, t.z)) >= 0.f && max_of(t.x, max_of(t.y, t.z)) <= 1.f;
                misses |= within && abs_of(trilinear(corner, t)) > tolerance;
            }
        }
        if (team.any(misses)) return true;
        ends = team.any(ends);
    }
    return false;
}

// Mean of a cell's eight corners, to compare with a distance at its centre.
FN float middle(const float* corner) {
    return mean(mean(mean(corner[0], corner[1]), mean(corner[2], corner[3])),
                mean(mean(corner[4], corner[5]), mean(corner[6], corner[7])));
}

// Whether the sign jumps between two of a cell's corners; see holds_jump. Gradients do not show jumps: they are only
// reversed.
FN bool corners_jump(const float* corner, float edge) {
    u32 inside = 0;
    for (int c = 0; c < 8; c++) inside |= (u32)(corner[c] < 0.f) << c;
    if (inside == 0 || inside == 255) return false;
    for (int c = 1; c < 8; c++)
        for (int e = 0; e < c; e++) {
            if ((inside >> c & 1u) == (inside >> e & 1u)) continue;
            float way = edge * sqrtf((float)popcount((u32)(c ^ e)));
            if (empty_between(abs_of(corner[c]), abs_of(corner[e]), way)) return true;
        }
    return false;
}

// Bend of the field between a cell's corners, as a fraction of the allowed error.
FN float bend_of(const Level& own, const Points& points, const Limits& allowed, u32 cell, const u32* point) {
    float gradient[24], nearest = 3.402823466e38f;
    for (int c = 0; c < 8; c++) nearest = min_of(nearest, abs_of(points.distance[point[c]]));
    corner_gradients(own, points, cell, point, gradient);
    float bent = bend(1.f / (float)(1u << own.level), [&](int c, int axis) { return gradient[3 * c + axis]; });
    return bent / allowed_error(nearest, allowed.tolerance, allowed.band);
}

// Whether two of a cell's points have different signs although their distances exclude a surface between them: the sign
// jumps, as where a winding number closes an open surface's hole. No octree can resolve a jump.
template <class Team>
FN bool holds_jump(const float* distance, float half, const Team& team) {
    const u32 all = (1u << 27) - 1;
    float way[13];  // by squared length, in half edges
    u32 inside = 0;
    bool jumps = false;
    for (int j = team.first(); j < 27; j += Team::THREADS) inside |= (u32)(distance[j] < 0.f) << j;
    inside = team.all(inside);
    if (inside == 0 || inside == all) return false;
    for (int square = 0; square < 13; square++) way[square] = half * sqrtf((float)square);
    for (u32 in = team.own(inside); in && !jumps; in &= in - 1) {
        int j = 31 - clz(in & (0u - in));
        Offset o = offset_of(j);
        float d = abs_of(distance[j]);
        for (u32 out = ~inside & all; out && !jumps; out &= out - 1) {
            int k = 31 - clz(out & (0u - out));
            Offset p = offset_of(k);
            int x = o.x - p.x, y = o.y - p.y, z = o.z - p.z;
            jumps = empty_between(d, abs_of(distance[k]), way[x * x + y * y + z * z]);
        }
    }
    return team.any(jumps);
}

// Share of an octant's bend added to the errors at its corners.
#define SDF_BETWEEN 0.5f

// Maximum error of an opened cell's field: for each octant, the error at its points plus SDF_BETWEEN times the bend
// predicted by the gradients. tolerance: error relative to the allowed error; sheet: relative to the error allowed by
// the thinnest sheet in the cell; width: its thickness; at_point: whether the tolerance is exceeded without the bend.
struct CellError {
    float tolerance, sheet, width;
    bool at_point;
};
// A team's data on a cell's 27 points. distance: in.
struct PointErrors {
    float distance[27], error[27], gradient[81];
};
// value: the field at the cell's corners.
template <class Team>
FN CellError largest_error(const Level& own, const Points& points, const Limits& allowed, u32 cell, const u32* point,
                           const float* value, PointErrors& m, const Team& team) {
    float between[27], corner[8], largest = 0.f, half = 0.5f / (float)(1u << own.level);
    CellError found = {0.f, 0.f, 0.f, false};
    if (Team::THREADS == 1) interpolate(value, between);
    UNROLL
    for (int j = team.first(); j < 27; j += Team::THREADS)
        m.error[j] = abs_of((Team::THREADS == 1 ? between[j] : interpolated(value, j)) - m.distance[j]);
    load_gradients<27>(
        points, own, cell, point, [&](Lattice at, int j) { return point_of(own.level, at, offset_of(j)); }, team,
        m.gradient);
    team.meet();
    UNROLL
    for (int octant = team.first(); octant < 8; octant += Team::THREADS) {
        int first = octant_point(octant);
        float worst = 0.f, nearest = 3.402823466e38f;
        for (int c = 0; c < 8; c++) {
            int j = first + octant_point(c);
            worst = max_of(worst, m.error[j]);
            nearest = min_of(nearest, abs_of(m.distance[j]));
        }
        float limit = allowed_error(nearest, allowed.tolerance, allowed.band);
        found.at_point |= worst > limit;
        worst +=
            SDF_BETWEEN * bend(half, [&](int c, int axis) { return m.gradient[3 * (first + octant_point(c)) + axis]; });
        found.tolerance = max_of(found.tolerance, worst / limit);
        largest = max_of(largest, worst);
    }
    found.tolerance = team.most(found.tolerance);
    found.at_point = team.any(found.at_point);
    for (int c = 0; c < 8; c++) corner[c] = m.distance[corner_point(c)];
    found.width = sheet_width(
        allowed, corner, 2.f * half, [&](int c) { return load3(m.gradient + 3 * corner_point(c)); }, false, team);
    found.sheet = team.most(largest) / (SDF_SHEET_SHARE * found.width);
    return found;
}

#endif
