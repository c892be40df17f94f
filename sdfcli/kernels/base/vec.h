// Three-vectors of float or double.
//
// INTERFACE
//   Vec<T>, F3, D3             a vector; with floats; with doubles
//   vec, load3, load3d         from three numbers; from memory; from three floats, as doubles
//   store3                     to memory
//   + - *, dot, cross          componentwise sum and difference, multiple, dot and cross product
//   length_of                  Euclidean length
//   sqrt_of, abs_of, mean, clamp01   scalars: square root, absolute value, mean, clamped to [0, 1]
#ifndef SDFCLI_BASE_VEC_H
#define SDFCLI_BASE_VEC_H
#include "base/portable.h"

template <class T>
struct Vec {
    T x, y, z;
};
typedef Vec<float> F3;
typedef Vec<double> D3;

template <class T>
FN Vec<T> vec(T x, T y, T z) {
    Vec<T> r = {x, y, z};
    return r;
}
template <class T>
FN Vec<T> load3(const T* p) {
    return vec(p[0], p[1], p[2]);
}
FN D3 load3d(const float* p) { return vec((double)p[0], (double)p[1], (double)p[2]); }
template <class T>
FN void store3(T* p, Vec<T> a) {
    p[0] = a.x;
    p[1] = a.y;
    p[2] = a.z;
}
template <class T>
FN Vec<T> operator+(Vec<T> a, Vec<T> b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class T>
FN Vec<T> operator-(Vec<T> a, Vec<T> b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T>
FN Vec<T> operator*(T s, Vec<T> a) {
    return {s * a.x, s * a.y, s * a.z};
}
template <class T>
FN T dot(Vec<T> a, Vec<T> b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
template <class T>
FN Vec<T> cross(Vec<T> a, Vec<T> b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
FN float sqrt_of(float x) { return sqrtf(x); }
FN double sqrt_of(double x) { return sqrt(x); }
template <class T>
FN T length_of(Vec<T> a) {
    return sqrt_of(dot(a, a));
}
template <class T>
FN T clamp01(T x) {
    return select(x > T(0), select(x < T(1), x, T(1)), T(0));
}

FN float abs_of(float x) { return fabsf(x); }
FN double abs_of(double x) { return fabs(x); }

template <class T>
FN T mean(T a, T b) {
    return T(0.5) * (a + b);
}

#endif
