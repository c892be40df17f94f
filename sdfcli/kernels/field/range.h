// Range of the trilinear field on a triangle in one leaf.
//
// INTERFACE
//   range_in_leaf   bounds on the field, by Bezier coefficients
#ifndef SDFCLI_FIELD_RANGE_H
#define SDFCLI_FIELD_RANGE_H
#include "field/sampler.h"

struct FieldRange {
    double low, high;
};

// Corners p (3) in units of the leaf, 0 to 1. The field is trilinear in the leaf, so a cubic on the triangle, and
// bounded by its smallest and largest Bezier coefficients (ten). A coefficient stands for three corners, and is the
// mean over their orders of the value with x from one corner, y from the next and z from the last (its blossom; Farin
// 1986).
FN FieldRange range_in_leaf(const double* v, const D3* t) {
    FieldRange range = {1e300, -1e300};
    for (int i = 0; i < 3; i++)
        for (int j = i; j < 3; j++)
            for (int k = j; k < 3; k++) {
                double sum = trilinear(v, vec(t[i].x, t[j].y, t[k].z)) + trilinear(v, vec(t[j].x, t[k].y, t[i].z)) +
                             trilinear(v, vec(t[k].x, t[i].y, t[j].z)) + trilinear(v, vec(t[i].x, t[k].y, t[j].z)) +
                             trilinear(v, vec(t[k].x, t[j].y, t[i].z)) + trilinear(v, vec(t[j].x, t[i].y, t[k].z));
                range.low = min_of(range.low, sum / 6.0);
                range.high = max_of(range.high, sum / 6.0);
            }
    return range;
}

#endif
