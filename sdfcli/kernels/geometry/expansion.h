// Exact sums of products of doubles (Shewchuk 1997, Adaptive Precision Floating-Point Arithmetic).
//
// Exact unless a product's last bits are below 1e-308.
//
// INTERFACE
//   Pair           an exact difference
//   Expansion      an exact sum: add, sign
#ifndef SDFCLI_GEOMETRY_EXPANSION_H
#define SDFCLI_GEOMETRY_EXPANSION_H
#include "base/vec.h"

struct Pair {  // high + low, low the rounding error of high
    double high, low;
};
FN Pair two_sum(double a, double b) {
    double sum = a + b, part = sum - a;
    return {sum, (a - (sum - part)) + (b - part)};
}
FN Pair two_product(double a, double b) {
    double product = a * b;
    return {product, fma(a, b, -product)};
}

template <u32 kMost>
struct Expansion {
    double term[kMost];  // by size, without common bits; none is 0
    u32 terms = 0;

    METHOD void add(double value) {
        u32 kept = 0;
        for (u32 k = 0; k < terms; k++) {
            Pair sum = two_sum(value, term[k]);
            value = sum.high;
            if (sum.low != 0.0) term[kept++] = sum.low;
        }
        if (value != 0.0) term[kept++] = value;
        terms = kept;
    }
    METHOD void add_product(double a, double b, double c) {
        Pair ab = two_product(a, b), high = two_product(ab.high, c), low = two_product(ab.low, c);
        add(low.low);
        add(low.high);
        add(high.low);
        add(high.high);
    }
    METHOD void add_product(Pair a, Pair b, Pair c) {
        const double* parts[3] = {&a.high, &b.high, &c.high};
        for (u32 k = 0; k < 8; k++) {
            double x = parts[0][k & 1], y = parts[1][k >> 1 & 1], z = parts[2][k >> 2];
            if (x != 0.0 && y != 0.0 && z != 0.0) add_product(x, y, z);
        }
    }
    METHOD int sign() const { return terms == 0 ? 0 : term[terms - 1] > 0.0 ? 1 : -1; }
};

struct PairVec {
    Pair x, y, z;
};
FN PairVec exact_difference(D3 a, D3 b) { return {two_sum(a.x, -b.x), two_sum(a.y, -b.y), two_sum(a.z, -b.z)}; }
FN PairVec exactly(D3 a) { return {{a.x, 0.0}, {a.y, 0.0}, {a.z, 0.0}}; }
FN Pair operator-(Pair a) { return {-a.high, -a.low}; }

// Sign of the triple product a . (b x c).
FN int exact_triple_sign(const PairVec& a, const PairVec& b, const PairVec& c) {
    Expansion<192> sum;
    sum.add_product(a.x, b.y, c.z);
    sum.add_product(-a.x, b.z, c.y);
    sum.add_product(a.y, b.z, c.x);
    sum.add_product(-a.y, b.x, c.z);
    sum.add_product(a.z, b.x, c.y);
    sum.add_product(-a.z, b.y, c.x);
    return sum.sign();
}

#endif
