// The octree's lattice: cells and their points.
//
// Lattice coordinates have SDF_LATTICE_BITS bits, so the unit cube spans [0, 2^20] and a point's float32 position is
// exact. A cell has 3 x 3 x 3 points, its children's corners, numbered x + 3 y + 9 z. A cell is one number: the Morton
// code of its lowest corner on the lattice, then its level in the lowest bits. In ascending order a cell immediately
// precedes its descendants: depth first.
//
// INTERFACE
//   Offset, offset_of, index_of            a cell's point: its coordinates from 0 to 2, and its index
//   is_corner, corner_point, octant_point  which points are corners of the cell, and of an octant
//   lies_between                           whether a corner contributes to a point's interpolated value
//   cell_of, cell_level, cell_key, cell_size, point_at  a cell as a number, its parts, its points' positions
//   store_position                         a lattice position in the unit cube
//   interpolate, interpolated              trilinear interpolation at the 27 points, and at one point
#ifndef SDFCLI_GEOMETRY_LATTICE_H
#define SDFCLI_GEOMETRY_LATTICE_H
#include "geometry/morton.h"

struct Offset {
    int x, y, z;
};
FN Offset offset_of(int j) {  // index 0 .. 26 to three coordinates 0 .. 2
    Offset o = {j % 3, (j / 3) % 3, j / 9};
    return o;
}
FN int index_of(int x, int y, int z) { return x + 3 * y + 9 * z; }
FN bool is_corner(int j) { return j % 3 != 1 && (j / 3) % 3 != 1 && j / 9 != 1; }
FN int corner_point(int c) { return index_of(2 * (c & 1), 2 * (c >> 1 & 1), 2 * (c >> 2)); }
FN int octant_point(int c) { return index_of(c & 1, c >> 1 & 1, c >> 2); }  // an octant's corner, relative to its first
// Whether corner c has a nonzero weight in the interpolated value at point o.
FN bool lies_between(Offset o, int c) {
    return (o.x == 1 || o.x == 2 * (c & 1)) && (o.y == 1 || o.y == 2 * (c >> 1 & 1)) &&
           (o.z == 1 || o.z == 2 * (c >> 2));
}

// A split cell's code ends in three zeros, so the highest of the five level bits may overlap the code's lowest.
FN u64 cell_of(u64 key, u32 level) { return key << 4 | level; }
FN u32 cell_level(u64 cell) { return (u32)cell & 31u; }
FN u64 cell_key(u64 cell) { return cell >> 5 << 1; }
FN u64 cell_size(u32 level) { return 1ull << 3 * (SDF_LATTICE_BITS - level); }

FN Lattice point_at(u64 cell, int point) {
    Lattice at = morton_decode(cell_key(cell));
    u32 half = 1u << (SDF_LATTICE_BITS - 1 - cell_level(cell));
    Offset o = offset_of(point);
    Lattice p = {at.x + (u32)o.x * half, at.y + (u32)o.y * half, at.z + (u32)o.z * half};
    return p;
}

FN void store_position(float* position, Lattice p) {  // in the unit cube, exact
    const float unit = 1.f / (1u << SDF_LATTICE_BITS);
    position[0] = (float)p.x * unit;
    position[1] = (float)p.y * unit;
    position[2] = (float)p.z * unit;
}

// Interpolates a cell's eight corners at its 27 points: means along x, then y, then z.
template <class T>
FN void interpolate(const T* corner, T* value) {
    UNROLL
    for (int c = 0; c < 8; c++) value[corner_point(c)] = corner[c];
    for (int y = 0; y < 3; y += 2)
        for (int z = 0; z < 3; z += 2)
            value[index_of(1, y, z)] = mean(value[index_of(0, y, z)], value[index_of(2, y, z)]);
    for (int z = 0; z < 3; z += 2)
        for (int x = 0; x < 3; x++) value[index_of(x, 1, z)] = mean(value[index_of(x, 0, z)], value[index_of(x, 2, z)]);
    UNROLL
    for (int j = 0; j < 9; j++) value[j + 9] = mean(value[j], value[j + 18]);
}
FN float interpolated(const float* corner, int j) {
    Offset o = offset_of(j);
    float along[4];  // x, then y, then z
    for (int k = 0; k < 4; k++) along[k] = o.x == 1 ? mean(corner[2 * k], corner[2 * k + 1]) : corner[2 * k + o.x / 2];
    for (int k = 0; k < 2; k++) along[k] = o.y == 1 ? mean(along[2 * k], along[2 * k + 1]) : along[2 * k + o.y / 2];
    return o.z == 1 ? mean(along[0], along[1]) : along[o.z / 2];
}

#endif
