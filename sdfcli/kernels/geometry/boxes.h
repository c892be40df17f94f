// Axis-aligned boxes: lower x, y, z, upper x, y, z.
//
// INTERFACE
//   box_distance_sq  lower bound for a point's squared distance to a box
//   Box              a box
//   empty_box, box_of_both  the empty box; two boxes' bounding box
//   triangle_box     a triangle's box, enlarged by a margin
//   boxes_meet       whether two boxes intersect
#ifndef SDFCLI_GEOMETRY_BOXES_H
#define SDFCLI_GEOMETRY_BOXES_H
#include "base/vec.h"

// Every box is enlarged by SDF_BOX_MARGIN and every box distance reduced by one part in 2^20. This exceeds the rounding
// in triangle_distance_sq, so a box is never farther than a triangle in it, and the nearest triangle does not depend on
// the traversal order.
#define SDF_BOX_SHRINK 0.99999904632568359375f

// A lower bound, see above. T may be a vector of floats (base/simd.h).
template <class T>
FN T box_distance_sq(Vec<T> p, const float* box) {
    T x = max_of(max_of(T(box[0]) - p.x, p.x - T(box[3])), T(0.f)),
      y = max_of(max_of(T(box[1]) - p.y, p.y - T(box[4])), T(0.f)),
      z = max_of(max_of(T(box[2]) - p.z, p.z - T(box[5])), T(0.f));
    return (x * x + y * y + z * z) * T(SDF_BOX_SHRINK);
}

struct Box {
    float v[6];
};
FN Box empty_box() {
    Box b = {{3e38f, 3e38f, 3e38f, -3e38f, -3e38f, -3e38f}};
    return b;
}
FN Box box_of_both(const Box& a, const Box& b) {
    Box both;
    for (int k = 0; k < 3; k++) {
        both.v[k] = min_of(a.v[k], b.v[k]);
        both.v[k + 3] = max_of(a.v[k + 3], b.v[k + 3]);
    }
    return both;
}
FN void store_bounds(Box* b, int k, float u, float v, float w) {
    b->v[k] = min_of(u, min_of(v, w)) - SDF_BOX_MARGIN;
    b->v[k + 3] = max_of(u, max_of(v, w)) + SDF_BOX_MARGIN;
}
FN Box triangle_box(const float* t) {
    Box b;
    for (int k = 0; k < 3; k++) store_bounds(&b, k, t[k], t[k + 3], t[k + 6]);
    return b;
}

FN bool boxes_meet(const Box& a, const float* b) {
    return a.v[0] <= b[3] && a.v[3] >= b[0] && a.v[1] <= b[4] && a.v[4] >= b[1] && a.v[2] <= b[5] && a.v[5] >= b[2];
}

#endif
