// Merging vertices at equal positions, by a hash table with open addressing.
//
// INTERFACE
//   sdf_weld_enter  enters every position, with its first vertex
//   sdf_weld_find   the first vertex at each vertex's position
//   sdf_weld_faces  faces with welded vertices, corner counts per vertex, and each face as a set of its own
//
// A position's table slot depends on the thread order; the stored vertex does not.
#ifndef SDFCLI_MESH_WELD_H
#define SDFCLI_MESH_WELD_H
#include "base/kernel.h"

// A coordinate as an integer: equal for -0 and 0. Denormals remain distinct, which comparing doubles would flush.
FN u64 position_bits(double x) {
    u64 bits = double_bits(x);
    return bits << 1 ? bits : 0;
}

FN u64 mixed(u64 x) {
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ULL;
    return x ^ x >> 32;
}

FN u32 position_hash(const double* p) {
    u64 hash = 0;
    for (int k = 0; k < 3; k++) hash = mixed(hash ^ position_bits(p[k]));
    return (u32)hash;
}

FN bool same_position(const double* p, const double* q) {
    return position_bits(p[0]) == position_bits(q[0]) && position_bits(p[1]) == position_bits(q[1]) &&
           position_bits(p[2]) == position_bits(q[2]);
}

struct sdf_weld_enter_args {
    u32 n;                 // vertices
    u32 mask;              // table size, a power of two above n, less one
    const double* vertex;  // [n, 3]
    u32* table;            // [mask + 1] in and out: SDF_NONE before
};
SDF_KERNEL(sdf_weld_enter, PLAIN, i) {
    const double* own = a.vertex + 3 * (size_t)i;
    for (u32 at = position_hash(own) & a.mask;; at = (at + 1) & a.mask) {
        u32 there = load_relaxed(a.table + at);
        if (there == SDF_NONE) there = compare_and_swap(a.table + at, SDF_NONE, i);
        if (there == SDF_NONE) return;
        if (!same_position(own, a.vertex + 3 * (size_t)there)) continue;
        if (i < there) atomic_min(a.table + at, i);
        return;
    }
}

struct sdf_weld_find_args {
    u32 n;
    u32 mask;
    const double* vertex;  // [n, 3]
    const u32* table;      // [mask + 1]
    u32* position;         // [n] out
};
SDF_KERNEL(sdf_weld_find, PLAIN, i) {
    const double* own = a.vertex + 3 * (size_t)i;
    u32 at = position_hash(own) & a.mask;
    while (!same_position(own, a.vertex + 3 * (size_t)a.table[at])) at = (at + 1) & a.mask;
    a.position[i] = a.table[at];
}

struct sdf_weld_faces_args {
    u32 n;                // corners, 3 x faces
    const u32* face;      // [n]
    const u32* position;  // [vertices]
    u32* welded;          // [n] out
    u32* corners;         // [vertices] in and out: 0 before
    u32* parent;          // [n // 3] out: each face's index; null: not needed
};
SDF_KERNEL(sdf_weld_faces, PLAIN, i) {
    if (a.parent && i % 3 == 0) a.parent[i / 3] = i / 3;
    u32 vertex = a.position[a.face[i]];
    a.welded[i] = vertex;
    atomic_add(a.corners + vertex, 1u);
}

#endif
