// Wall and gap widths at surface points: the opposite surface, found with balls that touch the surface there.
//
// A ball's centre lies on a point's normal, on either side, one radius away. Its numbers are in the mesh's units, with
// NumPy's rounding.
//
// INTERFACE
//   sdf_ball_centres  the balls' centres
//   sdf_ball_classified   classifies a ball by the surface nearest to its centre
//   sdf_ball_middles  midpoints between a ball's point and the opposite surface
#ifndef SDFCLI_VERIFY_THICKNESS_H
#define SDFCLI_VERIFY_THICKNESS_H
#include "distance/points.h"
#include "geometry/triangle.h"

// Several rounds over the same balls, concatenated: each round halves the radius.
struct TouchingBalls {
    const double* point;   // [samples, 3] on the surface, in the mesh's units
    const double* normal;  // [samples, 3] at the points: a unit vector, or 0
    const u32* ball;       // [balls] sample k behind the surface is ball k, in front of it ball samples + k
    u32 samples, balls;
    u32 halvings;   // number of halvings of the radius in the first round
    double widest;  // radius before halving
    Domain domain;
    double far;  // see QueryPoints
};

struct TouchingBall {
    D3 point, normal, way;  // way: from the point to the centre
    double radius;
};
FN TouchingBall ball_at(const TouchingBalls& a, u32 i) {
    u32 ball = a.ball[i % a.balls];
    size_t sample = ball % a.samples;
    D3 normal = load3(a.normal + 3 * sample);
    return {load3(a.point + 3 * sample), normal, ball < a.samples ? -1.0 * normal : normal,
            a.widest / (double)(1u << (a.halvings + i / a.balls))};
}
FN D3 centre_of(const TouchingBall& b) { return b.point + b.radius * b.way; }

FN double store_in_cube(const TouchingBalls& a, D3 p, float* out) {
    double scale;
    D3 u = into_cube(a.domain, a.far, p, &scale);
    out[0] = (float)u.x;
    out[1] = (float)u.y;
    out[2] = (float)u.z;
    return scale;
}

struct sdf_ball_centres_args {
    u32 n;  // rounds x balls
    TouchingBalls balls;
    float* centre;  // [n, 3] out: in the unit cube
};
SDF_KERNEL(sdf_ball_centres, PLAIN, i) {
    store_in_cube(a.balls, centre_of(ball_at(a.balls, i)), a.centre + 3 * (size_t)i);
}

// Whether the cosine of the angle between a normal and a triangle's is below `least`: SDF_BALL_FULL if so, 0 if not, or
// SDF_BALL_DOUBTFUL if the corners' rounding leaves it open. Corners are off by 2^-25 per coordinate, the triangle's
// normal hence by less than 1.1e-7 (|u| + |v|), and its direction by less than twice this over its length.
FN u32 turned_away(const float* triangle, D3 normal, double least) {
    D3 corner = load3d(triangle), u = load3d(triangle + 3) - corner, v = load3d(triangle + 6) - corner, n = cross(u, v);
    double length = sqrt_of(dot(n, n)), cosine = dot(n, normal);
    double off = 4e-7 * (sqrt_of(dot(u, u)) + sqrt_of(dot(v, v)) + 1e-6);
    if (cosine + off < least * length) return SDF_BALL_FULL;
    return cosine - off > least * length ? 0 : SDF_BALL_DOUBTFUL;
}

struct sdf_ball_classified_args {
    u32 n;  // rounds x balls
    TouchingBalls balls;
    double opposed;          // the nearest surface is opposite the point if their directions' cosine is below
    double empty;            // an empty ball's minimum distance from the centre to the surface, in radii
    const float* centre;     // [n, 3] in the unit cube
    const u32* slot;         // [n] triangle nearest to the centre
    const float* triangle;   // [triangles, 9]
    const u32* triangle_id;  // [triangles]
    u8* verdict;             // [n] out: SDF_BALL_*
    u32* face;               // [n] out: id of this triangle
    double* width;           // [n] out: from the point to the nearest surface, along the normal
};
SDF_KERNEL(sdf_ball_classified, PLAIN, i) {
    TouchingBall ball = ball_at(a.balls, i);
    const Domain& domain = a.balls.domain;
    const float* t = a.triangle + 9 * (size_t)a.slot[i];
    D3 q = nearest_on_triangle(load3d(a.centre + 3 * (size_t)i), load3d(t), load3d(t + 3), load3d(t + 6)).point;
    D3 there = domain.length * q + vec(domain.x, domain.y, domain.z), to = there - centre_of(ball);
    double distance = sqrt_of(dot(to, to));
    double onward = (to.x * ball.way.x + to.z * ball.way.z) + to.y * ball.way.y;  // NumPy's order
    u32 verdict = -onward < a.opposed * distance && distance < ball.radius ? SDF_BALL_OPPOSED : 0;
    verdict |= distance < a.empty * ball.radius ? SDF_BALL_FULL : turned_away(t, ball.normal, a.opposed);
    a.verdict[i] = (u8)verdict;
    a.face[i] = a.triangle_id[a.slot[i]];
    a.width[i] = ball.radius + onward;
}

struct sdf_ball_middles_args {
    u32 n;
    TouchingBalls balls;
    const u32* chosen;    // [n] indices into rounds x balls
    const double* width;  // [rounds x balls]
    float* middle;        // [n, 3] out: in the unit cube
    double* scale;        // [n] out: scale factor for distances from there
};
SDF_KERNEL(sdf_ball_middles, PLAIN, i) {
    TouchingBall ball = ball_at(a.balls, a.chosen[i]);
    D3 middle = ball.point + (0.5 * a.width[a.chosen[i]]) * ball.way;
    a.scale[i] = store_in_cube(a.balls, middle, a.middle + 3 * (size_t)i);
}

#endif
