// Nearest points on given nearest triangles.
//
// INTERFACE
//   sdf_closest       nearest points in the unit cube, in float64
//   sdf_closest_face  the same from the mesh's own coordinates, with all that depends on the face
#ifndef SDFCLI_DISTANCE_CLOSEST_H
#define SDFCLI_DISTANCE_CLOSEST_H
#include "base/kernel.h"
#include "geometry/triangle.h"

// The nearest point on a point's nearest triangle.
struct sdf_closest_args {
    u32 n;
    const float* points;    // [n, 3]
    const u32* slot;        // [n]
    const float* triangle;  // [triangles, 9]
    double* nearest;        // [n, 3] out
};
SDF_KERNEL(sdf_closest, PLAIN, i) {
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    D3 point = load3d(a.points + 3 * (size_t)i);
    store3(a.nearest + 3 * (size_t)i, nearest_on_triangle(point, load3d(t), load3d(t + 3), load3d(t + 6)).point);
}

// A vector's length, without overflow of its square.
FN double safe_length(D3 r) {
    double most = max_of(max_of(abs_of(r.x), abs_of(r.y)), abs_of(r.z));
    return most > 0.0 ? most * length_of((1.0 / most) * r) : 0.0;
}
FN D3 face_corner(const double* vertex, const u32* face, u32 k) { return load3(vertex + 3 * (size_t)face[k]); }
// A face's unit normal; 0 without area.
FN D3 face_normal(const double* vertex, const u32* face) {
    D3 a = face_corner(vertex, face, 0);
    D3 normal = cross(face_corner(vertex, face, 1) - a, face_corner(vertex, face, 2) - a);
    double area = safe_length(normal);
    return area > 0.0 ? (1.0 / area) * normal : vec(0.0, 0.0, 0.0);
}

// Distances are exact to float64 rounding, given the face, which was found in float32. Outputs may be null, and are in
// the points' original order.
struct sdf_closest_face_args {
    u32 n;
    const u32* order;        // [n] indices of points
    const double* points;    // [n, 3] in the mesh's units; null: `single` is used
    const float* single;     // [n, 3]
    const u32* slot;         // [n] nearest triangles
    const u32* triangle_id;  // [triangles]
    const double* vertex;    // [vertices, 3] in the mesh's units
    const u32* face;         // [triangles, 3] as given, for the weights
    const u32* oriented;     // [triangles, 3] for the normals
    const u8* inside;        // [n] in the order of slots; null: unsigned distances
    double* distance;        // [n] out
    double* gradient;        // [n, 3] out: of the distance; on the surface, the normal, or 0 for unsigned distances
    double* nearest;         // [n, 3] out
    double* weight;          // [n, 2] out: of the face's second and third corner
    double* normal;          // [n, 3] out: the face's unit normal; 0 for faces without area
    u32* face_of;            // [n] out
};
SDF_KERNEL(sdf_closest_face, PLAIN, i) {
    u32 at = a.order[i], id = a.triangle_id[a.slot[i]];
    D3 p = a.points ? load3(a.points + 3 * (size_t)at) : load3d(a.single + 3 * (size_t)at);
    const u32* face = a.face + 3 * (size_t)id;
    Nearest<double> q = nearest_on_triangle(p, face_corner(a.vertex, face, 0), face_corner(a.vertex, face, 1),
                                            face_corner(a.vertex, face, 2));
    D3 normal = face_normal(a.vertex, a.oriented + 3 * (size_t)id), r = p - q.point;
    double distance = safe_length(r), sign = a.inside && a.inside[i] ? -1.0 : 1.0;
    if (a.distance) a.distance[at] = sign * distance;
    D3 way = a.inside ? sign * normal : vec(0.0, 0.0, 0.0);  // from the surface
    if (distance > 0.0) way = (1.0 / distance) * r;
    // Beside a face r is rounded, its direction most of all.
    if (distance > 0.0 && q.feature == FACE) way = dot(r, normal) < 0.0 ? -1.0 * normal : normal;
    if (a.gradient) store3(a.gradient + 3 * (size_t)at, sign * way);
    if (a.nearest) store3(a.nearest + 3 * (size_t)at, q.point);
    if (a.weight) {
        a.weight[2 * (size_t)at] = q.v;
        a.weight[2 * (size_t)at + 1] = q.w;
    }
    if (a.normal) store3(a.normal + 3 * (size_t)at, normal);
    if (a.face_of) a.face_of[at] = id;
}

#endif
