// Bounds on the true distance from a sample and the field's error, stated (docs/concepts/accuracy.md) or proven leaf by
// leaf (docs/internals/proof.md).
//
// INTERFACE
//   StatedError, error_in            the field's error, and a leaf's
//   Probe, probe                     a sample
//   lower_bound_of, upper_bound_of   bounds on the true signed distance there
//   value_of                         the field's distance; outside the domain a lower bound for it
//   slack_of                         accepted looseness of the minimum bound, a fraction of the error
//   order_bits, order_of             order-reversing map from numbers to integers, for atomic_max
#ifndef SDFCLI_CONTACT_BOUNDS_H
#define SDFCLI_CONTACT_BOUNDS_H
#include "field/sampler.h"

// |field - true distance| <= near * max(1, |true distance| / band).
struct StatedError {
    double near, band;    // in the mesh's units
    const u8* code;       // [leaves] index of each leaf's proven `near`; null: `near` is that of all leaves
    const double* value;  // [256] by code, at most `near`
};
FN StatedError error_in(const StatedError& error, u32 leaf) {
    StatedError own = error;
    if (error.code) own.near = error.value[error.code[leaf]];
    return own;
}

#define SDF_SQRT3 1.7320508075688774  // a cube's diagonal

// Smallest and largest true distance where the field's value is x >= 0, assuming correct signs where the error exceeds
// the distance. The surface lies in the domain, so no distance exceeds its diagonal, which is the bound where the error
// grows faster than the distance. Both functions increase with x, so the minimum bound belongs to the minimum value.
FN double nearest_true(const StatedError& error, double x) {
    return x <= error.band + error.near ? x - error.near : x * (error.band / (error.band + error.near));
}
FN double farthest_true(const StatedError& error, double x, double length) {
    if (!(error.near < error.band)) return x + SDF_SQRT3 * length;
    return x <= error.band - error.near ? x + error.near : x * (error.band / (error.band - error.near));
}

// A field sample, for bounds.
struct Probe {
    FieldPoint at;
    double clear;  // outside the domain: distance to the mesh's box
    u32 leaf;      // SDF_NONE outside the domain
    u32 cell;      // the leaf; outside the domain that of the nearest point in it
};

// The mesh lies in the domain, at least `padding` (in domain edges) away from its faces.
FN Probe probe(const Sampler& field, double padding, const Way& way) {
    Probe found = {at_point(field, way, nullptr), 0.0, leaf_of(way), leaf_of(way)};
    if (found.at.beyond > 0.0) {
        found.leaf = SDF_NONE;
        double u[3] = {way.unit.x, way.unit.y, way.unit.z}, away[3];
        for (int k = 0; k < 3; k++) away[k] = max_of(max_of(padding - u[k], u[k] - (1.0 - padding)), 0.0);
        D3 out = load3(away);
        found.clear = sqrt(dot(out, out)) * field.domain.length;
    }
    return found;
}

// The domain is convex: an outside point, its nearest point in the domain and any mesh point form a right or obtuse
// angle.
FN double from_outside(double inside, const Probe& probe) {
    if (!(probe.at.beyond > 0.0)) return inside;
    double positive = max_of(inside, 0.0);
    return max_of(sqrt(probe.at.beyond * probe.at.beyond + positive * positive), probe.clear);
}
FN double value_of(const Probe& probe) { return from_outside(probe.at.inside, probe); }
FN double lowest_true(const StatedError& error, double x, double length) {  // for a field value x in the domain
    return x < 0.0 ? -farthest_true(error, -x, length) : nearest_true(error, x);
}
FN double lower_bound_of(const StatedError& error, const Probe& probe, double length) {
    return from_outside(lowest_true(error_in(error, probe.cell), probe.at.inside, length), probe) + 0.0;  // no -0
}
FN double upper_bound_of(const StatedError& error, const Probe& probe, double length) {
    double x = probe.at.inside, beyond = probe.at.beyond;
    StatedError own = error_in(error, probe.cell);
    if (x < 0.0 && !(beyond > 0.0)) return -nearest_true(own, -x);
    // All points outside the domain are outside the mesh, whatever the sign on its face.
    return beyond + min_of(farthest_true(own, abs_of(x), length), SDF_SQRT3 * length);
}

#define SDF_CONTACT_SLACK 0.25  // fraction of the error
// `distance - slack` increases with the distance, however fast the error grows.
FN double slack_of(const StatedError& error, double distance) {
    double growth = min_of(error.near / error.band, 2.0);
    return SDF_CONTACT_SLACK * max_of(error.near, growth * abs_of(distance));
}

// Smaller numbers give larger integers; 0 corresponds to no number.
FN u64 order_bits(double x) {
    u64 bits = double_bits(x);
    return bits >> 63 ? bits : ~bits & 0x7fffffffffffffffULL;
}
FN double order_of(u64 order) { return bits_double(order >> 63 ? order : ~order & 0x7fffffffffffffffULL); }

#endif
