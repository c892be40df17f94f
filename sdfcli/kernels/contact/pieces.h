// Connected components of a field's interior.
//
// INTERFACE
//   sdf_pieces_join  joins each leaf's inside corners; sdf_shell_roots (mesh/edges.h) then gives the components
#ifndef SDFCLI_CONTACT_PIECES_H
#define SDFCLI_CONTACT_PIECES_H
#include "base/kernel.h"
#include "base/union_find.h"

struct sdf_pieces_join_args {
    u32 n;                   // leaves
    const u32* leaf_corner;  // [n, 8]
    const float* value;      // [corners] signed distances
    u32* parent;             // [corners] in and out: initially each its own
};
SDF_KERNEL(sdf_pieces_join, PLAIN, i) {
    const u32* corner = a.leaf_corner + 8 * (size_t)i;
    u32 first = SDF_NONE;
    for (int k = 0; k < 8; k++) {
        if (a.value[corner[k]] >= 0.f) continue;
        if (first == SDF_NONE)
            first = corner[k];
        else
            join(a.parent, first, corner[k]);
    }
}

#endif
