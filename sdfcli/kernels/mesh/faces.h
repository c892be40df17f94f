// Faces in the unit cube of their mesh's domain.
//
// INTERFACE
//   sdf_face_sums   degenerate faces, and each shell's area and volume
//   sdf_face_areas  each face's area
//   sdf_area_sums   their prefix sums
#ifndef SDFCLI_MESH_FACES_H
#define SDFCLI_MESH_FACES_H
#include "base/kernel.h"
#include "base/vec.h"
#include "geometry/domain.h"

// Shell sums are integers, hence independent of order: in units of 2^-28, and of 2^-60 for the remainder. Twice an area
// and six times a volume in the unit cube are below 4, so sums over 2^31 faces stay below 2^63.
struct ExactSum {
    long long coarse, fine;
    METHOD void add(double value) {
        double scaled = value * 268435456.0;
        long long whole = (long long)scaled;
        coarse += whole;
        fine += (long long)((scaled - (double)whole) * 4294967296.0);
    }
    METHOD void add_to(u64* sum) {
        atomic_add(sum, (u64)coarse);
        atomic_add(sum + 1, (u64)fine);
        coarse = fine = 0;
    }
};

struct sdf_face_sums_args {
    u32 n;  // runs of SDF_FACE_RUN faces
    u32 faces;
    Domain domain;
    double flat;           // a degenerate face's maximum squared height, as a fraction of its longest side's square
    const double* vertex;  // [vertices, 3]
    const u32* face;       // [faces, 3]
    const u32* shell;      // [faces] SDF_NONE: no shell; null: sums are not needed
    u64* sums;             // [shells, 4] in and out: 0 before; area and volume as ExactSum, times 2 and 6
    u32* degenerate;       // [1] in and out: 0 before
};
SDF_KERNEL(sdf_face_sums, PLAIN, i) {
    ExactSum area = {0, 0}, volume = {0, 0};
    u32 bad = 0, open = SDF_NONE, first = i * SDF_FACE_RUN, last = min_of(a.faces, first + SDF_FACE_RUN);
    for (u32 f = first; f < last; f++) {
        const u32* corner = a.face + 3 * (size_t)f;
        D3 p = to_unit(a.domain, a.vertex + 3 * (size_t)corner[0]);
        D3 q = to_unit(a.domain, a.vertex + 3 * (size_t)corner[1]);
        D3 r = to_unit(a.domain, a.vertex + 3 * (size_t)corner[2]);
        D3 normal = cross(q - p, r - p);
        double square = dot(normal, normal),
               longest = max_of(dot(q - p, q - p), max_of(dot(r - q, r - q), dot(p - r, p - r)));
        bad += square <= a.flat * longest;
        u32 shell = a.shell ? a.shell[f] : SDF_NONE;
        if (shell != open && open != SDF_NONE)
            area.add_to(a.sums + 4 * (size_t)open), volume.add_to(a.sums + 4 * (size_t)open + 2);
        open = shell;
        if (shell == SDF_NONE) continue;
        area.add(sqrt_of(square));
        volume.add(dot(p - vec(0.5, 0.5, 0.5), normal));
    }
    if (open != SDF_NONE) area.add_to(a.sums + 4 * (size_t)open), volume.add_to(a.sums + 4 * (size_t)open + 2);
    if (bad) atomic_add(a.degenerate, bad);
}

struct sdf_face_areas_args {
    u32 n;  // faces
    Domain domain;
    const double* vertex;  // [vertices, 3]
    const u32* face;       // [n, 3]
    double* area;          // [n] out: times 2
};
SDF_KERNEL(sdf_face_areas, PLAIN, i) {
    const u32* corner = a.face + 3 * (size_t)i;
    D3 p = to_unit(a.domain, a.vertex + 3 * (size_t)corner[0]);
    D3 normal = cross(to_unit(a.domain, a.vertex + 3 * (size_t)corner[1]) - p,
                      to_unit(a.domain, a.vertex + 3 * (size_t)corner[2]) - p);
    a.area[i] = sqrt_of(dot(normal, normal));
}

// Sequential prefix sums, as in NumPy, which would hold Python's lock meanwhile.
struct sdf_area_sums_args {
    u32 n;  // 1
    u32 faces;
    double* area;  // [faces] in and out
};
SDF_KERNEL(sdf_area_sums, PLAIN, i) {
    double sum = (double)i;
    for (u32 face = 0; face < a.faces; face++) a.area[face] = sum += a.area[face];
}

#endif
