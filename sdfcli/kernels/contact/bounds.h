// What a sample says of the true distance, by the field's stated error (docs/concepts/accuracy.md).
//
// INTERFACE
//   StatedError                      the error that a field states
//   Probe, probe                     a sample
//   lower_bound_of, upper_bound_of   bounds of the true signed distance there
//   value_of                         the distance by the field, outside of the domain a lower bound of it
//   slack_of                         how loose the least bound may stay: a part of the error
//   order_bits, order_of             numbers as integers in the opposite order, for atomic_max
#ifndef SDFCLI_CONTACT_BOUNDS_H
#define SDFCLI_CONTACT_BOUNDS_H
#include "field/sampler.h"

// |field - true distance| <= near * max(1, |true distance| / band).
struct StatedError {
    double near, band;  // in the mesh's units
};

#define SDF_SQRT3 1.7320508075688774  // the diagonal of a cube

// The true distances nearest to 0 and farthest from it where the field says x >= 0, if signs are right where errors are
// larger than distances. The surface lies in the domain, so none is larger than its diagonal; errors that grow faster
// than the distance say no more. Both grow with x: the least bound is that of the least value.
FN double nearest_true(const StatedError& error, double x) {
    return x <= error.band + error.near ? x - error.near : x * (error.band / (error.band + error.near));
}
FN double farthest_true(const StatedError& error, double x, double length) {
    if (!(error.near < error.band)) return x + SDF_SQRT3 * length;
    return x <= error.band - error.near ? x + error.near : x * (error.band / (error.band - error.near));
}

// A sample of a field, for bounds.
struct Probe {
    FieldPoint at;
    double clear;  // outside of the domain: the distance to the box in which the field's mesh lies
    u32 leaf;      // SDF_NONE outside of the domain
};

// The mesh lies in the domain, and `padding` (in edges of the domain) away from its faces.
FN Probe probe(const Sampler& field, double padding, const Way& way) {
    Probe found = {at_point(field, way, nullptr), 0.0, leaf_of(way)};
    if (found.at.beyond > 0.0) {
        found.leaf = SDF_NONE;
        double u[3] = {way.unit.x, way.unit.y, way.unit.z}, away[3];
        for (int k = 0; k < 3; k++) away[k] = max_of(max_of(padding - u[k], u[k] - (1.0 - padding)), 0.0);
        D3 out = load3(away);
        found.clear = sqrt(dot(out, out)) * field.domain.length;
    }
    return found;
}

// The domain is convex: a point outside of it, the nearest point of the domain and any point of the mesh make a right
// or an obtuse angle.
FN double from_outside(double inside, const Probe& probe) {
    if (!(probe.at.beyond > 0.0)) return inside;
    double positive = max_of(inside, 0.0);
    return max_of(sqrt(probe.at.beyond * probe.at.beyond + positive * positive), probe.clear);
}
FN double value_of(const Probe& probe) { return from_outside(probe.at.inside, probe); }
FN double lowest_true(const StatedError& error, double x, double length) {  // where the field says x, in the domain
    return x < 0.0 ? -farthest_true(error, -x, length) : nearest_true(error, x);
}
FN double lower_bound_of(const StatedError& error, const Probe& probe, double length) {
    return from_outside(lowest_true(error, probe.at.inside, length), probe) + 0.0;  // no -0
}
FN double upper_bound_of(const StatedError& error, const Probe& probe, double length) {
    double x = probe.at.inside, beyond = probe.at.beyond;
    if (x < 0.0 && !(beyond > 0.0)) return -nearest_true(error, -x);
    // Outside there is no inside, whatever the sign at the domain's face.
    return beyond + min_of(farthest_true(error, abs_of(x), length), SDF_SQRT3 * length);
}

#define SDF_CONTACT_SLACK 0.25  // of the error
// A distance less this much grows with the distance, however fast the error does.
FN double slack_of(const StatedError& error, double distance) {
    double growth = min_of(error.near / error.band, 2.0);
    return SDF_CONTACT_SLACK * max_of(error.near, growth * abs_of(distance));
}

// The larger, the smaller the number is; 0 is that of no number.
FN u64 order_bits(double x) {
    u64 bits = double_bits(x);
    return bits >> 63 ? bits : ~bits & 0x7fffffffffffffffULL;
}
FN double order_of(u64 order) { return bits_double(order >> 63 ? order : ~order & 0x7fffffffffffffffULL); }

#endif
