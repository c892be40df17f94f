// Exact sums of products of doubles (Shewchuk 1997, Adaptive Precision Floating-Point Arithmetic).
//
// Exact unless a product's last bits are below 1e-308.
//
// INTERFACE
//   ExactDouble, ExactVec  exact differences
//   exact_triple_sign      a triple product's sign
#ifndef SDFCLI_GEOMETRY_EXPANSION_H
#define SDFCLI_GEOMETRY_EXPANSION_H
#include "base/vec.h"

struct ExactDouble {  // high + low, low the rounding error of high
    double high, low;
};
FN ExactDouble two_sum(double a, double b) {
    double sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}
FN ExactDouble two_product(double a, double b) {
    double product = a * b;
    return {product, fma(a, b, -product)};
}

struct Expansion {
    double term[192];  // by size, without common bits; none is 0
    u32 terms;
};
// Apart, as rays need it seldom and its code is long.
APART void grow(Expansion& sum, double value) {
    u32 kept = 0;
    for (u32 k = 0; k < sum.terms; k++) {
        ExactDouble two = two_sum(value, sum.term[k]);
        value = two.high;
        if (two.low != 0.0) sum.term[kept++] = two.low;
    }
    if (value != 0.0) sum.term[kept++] = value;
    sum.terms = kept;
}
APART void add_product(Expansion& sum, ExactDouble a, ExactDouble b, ExactDouble c) {
    for (u32 k = 0; k < 8; k++) {
        double x = k & 1 ? a.low : a.high, y = k & 2 ? b.low : b.high, z = k & 4 ? c.low : c.high;
        if (x == 0.0 || y == 0.0 || z == 0.0) continue;
        ExactDouble xy = two_product(x, y), high = two_product(xy.high, z), low = two_product(xy.low, z);
        grow(sum, low.low);
        grow(sum, low.high);
        grow(sum, high.low);
        grow(sum, high.high);
    }
}

struct ExactVec {
    ExactDouble x, y, z;
};
FN ExactVec exact_difference(D3 a, D3 b) { return {two_sum(a.x, -b.x), two_sum(a.y, -b.y), two_sum(a.z, -b.z)}; }
FN ExactVec exactly(D3 a) { return {{a.x, 0.0}, {a.y, 0.0}, {a.z, 0.0}}; }
FN ExactDouble operator-(ExactDouble a) { return {-a.high, -a.low}; }

// Sign of the triple product a . (b x c).
APART int exact_triple_sign(const ExactVec& a, const ExactVec& b, const ExactVec& c) {
    Expansion sum;
    sum.terms = 0;
    add_product(sum, a.x, b.y, c.z);
    add_product(sum, -a.x, b.z, c.y);
    add_product(sum, a.y, b.z, c.x);
    add_product(sum, -a.y, b.x, c.z);
    add_product(sum, a.z, b.x, c.y);
    add_product(sum, -a.z, b.y, c.x);
    if (sum.terms == 0) return 0;
    return sum.term[sum.terms - 1] > 0.0 ? 1 : -1;
}

#endif
