// A field's cube, lattice positions, and trilinear interpolation.
//
// INTERFACE
//   Domain     a field's cube, in the mesh's units
//   to_unit    a position in the unit cube, with the same rounding as Domain.to_unit (mesh/mesh.py)
//   Lattice    a lattice position
//   trilinear  trilinear interpolation between a cell's corners
#ifndef SDFCLI_GEOMETRY_DOMAIN_H
#define SDFCLI_GEOMETRY_DOMAIN_H
#include "base/vec.h"

struct Domain {
    double x, y, z;  // origin, in the mesh's units
    double length;   // edge, in the mesh's units
};

FN D3 to_unit(Domain domain, const double* p) {
    return vec((p[0] - domain.x) / domain.length, (p[1] - domain.y) / domain.length, (p[2] - domain.z) / domain.length);
}

struct Lattice {
    u32 x, y, z;
};

// v: corner values, x fastest; t in [0, 1]^3.
template <class T>
FN T trilinear(const T* v, Vec<T> t) {
    T x00 = v[0] + t.x * (v[1] - v[0]), x10 = v[2] + t.x * (v[3] - v[2]);
    T x01 = v[4] + t.x * (v[5] - v[4]), x11 = v[6] + t.x * (v[7] - v[6]);
    T y0 = x00 + t.y * (x10 - x00), y1 = x01 + t.y * (x11 - x01);
    return y0 + t.z * (y1 - y0);
}

#endif
