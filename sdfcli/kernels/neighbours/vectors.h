// Vectors with three to six, eight, twelve or sixteen dimensions; others are padded with zeros.
//
// INTERFACE
//   Dimension, with_dimension  the dimension as a compile-time constant
//   vector_distance_sq         squared distance between two vectors
#ifndef SDFCLI_NEIGHBOURS_VECTORS_H
#define SDFCLI_NEIGHBOURS_VECTORS_H
#include "base/portable.h"

template <int d>
struct Dimension {
    static constexpr int value = d;
};
template <class Body>
FN void with_dimension(u32 dimension, const Body& body) {
    if (dimension == 3) body(Dimension<3>());
    if (dimension == 4) body(Dimension<4>());
    if (dimension == 5) body(Dimension<5>());
    if (dimension == 6) body(Dimension<6>());
    if (dimension == 8) body(Dimension<8>());
    if (dimension == 12) body(Dimension<12>());
    if (dimension == 16) body(Dimension<16>());
}

// Squares are added axis by axis: the same bits everywhere.
template <class T, int d>
FN T vector_distance_sq(const T* p, const T* q) {
    T sum = T(0);
    UNROLL
    for (int k = 0; k < d; k++) {
        T off = p[k] - q[k];
        sum += off * off;
    }
    return sum;
}
#endif
