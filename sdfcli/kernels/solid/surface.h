// Vertices of the flood's surface, moved back to the mesh.
//
// INTERFACE
//   sdf_moved_back  shortens vertices' ways from their nearest points
#ifndef SDFCLI_SOLID_SURFACE_H
#define SDFCLI_SOLID_SURFACE_H
#include "base/kernel.h"
#include "base/vec.h"

struct sdf_moved_back_args {
    u32 n;
    double radius;          // the ball's
    double thickness;       // distance from the mesh of a vertex that was `radius` away
    double slope;           // relative growth of the new distance with the old one
    double wall;            // old distance from which the new one grows as fast
    const double* nearest;  // [n, 3] nearest point on the mesh
    const double* vertex;   // [n, 3]
    double* moved;          // [n, 3] out
};
SDF_KERNEL(sdf_moved_back, PLAIN, i) {
    D3 nearest = load3(a.nearest + 3 * (size_t)i), away = load3(a.vertex + 3 * (size_t)i) - nearest;
    double way = length_of(away);
    double there = a.thickness * (1 + a.slope * (way / a.radius - 1)) + max_of(way - a.wall, 0.0);
    store3(a.moved + 3 * (size_t)i, nearest + (way > 0.0 ? there / way : 0.0) * away);
}

#endif
