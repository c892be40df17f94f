// A step of the explicit MPS method (Oochi et al. 2010; Koshizuka et al. 2014; steps (i) to (viii) of Tomioka et al.
// 2025). Buckets stay as at the step's start: particles move by less than the buckets' margin over the reach.
//
// INTERFACE
//   Fluid              fluid constants
//   sdf_flow_force     (ii), (iii): viscosity and gravity, then provisional velocities and positions
//   sdf_flow_collide   (iv): particles that come too close bounce off
//   sdf_flow_pressure  (v), (viii): pressure from the number density
//   sdf_flow_gradient  (vi), (vii): the pressure's gradient, then the step's velocities and positions
#ifndef SDFCLI_FLOW_STEP_H
#define SDFCLI_FLOW_STEP_H
#include "flow/wall.h"

struct Fluid {
    float reach;       // radius of influence
    float least_sq;    // squared distance below which two particles coincide and are ignored
    float contact_sq;  // squared distance below which two particles bounce
    float bounce;      // (1 + restitution) / 2, for equal masses
    float viscous;     // 2 d nu / (n0 lambda), in d dimensions
    float slope;       // d / (rho n0)
    float stiffness;   // c^2 rho / n0
    float density;     // n0, the number density at rest
    float step;        // in seconds
    float gx, gy, gz;  // gravity
};

// Calls visit(place, r, squared length of r, length) for all other particles within the reach; r: the vector to them.
template <class Visit>
FN void each_neighbour(const Particles& all, const Fluid& fluid, const float* position, u32 i, const Visit& visit) {
    float reach_sq = fluid.reach * fluid.reach;
    each_near(all, position, i, [&](u32 p, F3 r) {
        float r_sq = dot(r, r);
        if (r_sq < reach_sq && r_sq >= fluid.least_sq && p != i) visit(p, r, r_sq, sqrtf(r_sq));
    });
}
FN float weight(const Fluid& fluid, float r) { return fluid.reach / r - 1.f; }

struct sdf_flow_force_args {
    u32 n;  // places
    Particles all;
    Fluid fluid;
    Wall wall;
    const float* position;  // [n, 3]
    const float* velocity;  // [n, 3]
    float* new_position;    // [n, 3] out
    float* new_velocity;    // [n, 3] out
};
SDF_KERNEL(sdf_flow_force, PLAIN, i) {
    if (a.all.kind[i] == SDF_GONE) return;
    F3 p = load3(a.position + 3 * (size_t)i), u = load3(a.velocity + 3 * (size_t)i);
    if (a.all.kind[i] == SDF_FLUID) {
        F3 sum = {0.f, 0.f, 0.f};
        each_neighbour(a.all, a.fluid, a.position, i, [&](u32 j, F3, float, float r) {
            sum = sum + weight(a.fluid, r) * (load3(a.velocity + 3 * (size_t)j) - u);
        });
        sum = sum - wall_at(a.wall, p) * u;  // the wall is at rest
        u = u + a.fluid.step * (a.fluid.viscous * sum + vec(a.fluid.gx, a.fluid.gy, a.fluid.gz));
        p = p + a.fluid.step * u;
    }
    store3(a.new_position + 3 * (size_t)i, p);
    store3(a.new_velocity + 3 * (size_t)i, u);
}

struct sdf_flow_collide_args {
    u32 n;  // places
    Particles all;
    Fluid fluid;
    const float* position;  // [n, 3]
    const float* velocity;  // [n, 3]
    float* new_velocity;    // [n, 3] out
};
SDF_KERNEL(sdf_flow_collide, PLAIN, i) {
    if (a.all.kind[i] == SDF_GONE) return;
    F3 u = load3(a.velocity + 3 * (size_t)i), after = u;
    if (a.all.kind[i] == SDF_FLUID)
        each_neighbour(a.all, a.fluid, a.position, i, [&](u32 j, F3 r, float r_sq, float) {
            if (!(r_sq < a.fluid.contact_sq)) return;
            float towards = dot(u - load3(a.velocity + 3 * (size_t)j), r);
            if (towards > 0.f) after = after - (a.fluid.bounce * towards / r_sq) * r;
        });
    store3(a.new_velocity + 3 * (size_t)i, after);
}

struct sdf_flow_pressure_args {
    u32 n;  // places
    Particles all;
    Fluid fluid;
    Wall wall;
    const float* position;  // [n, 3]
    float* pressure;        // [n] out
};
SDF_KERNEL(sdf_flow_pressure, PLAIN, i) {
    if (a.all.kind[i] == SDF_GONE) return;
    float density = 0.f;
    each_neighbour(a.all, a.fluid, a.position, i, [&](u32 j, F3, float, float r) {
        if (a.all.kind[j] != SDF_GONE) density += weight(a.fluid, r);
    });
    density += wall_at(a.wall, load3(a.position + 3 * (size_t)i));
    a.pressure[i] = a.fluid.stiffness * max_of(density - a.fluid.density, 0.f);
}

// Tangent plane of a particle's nearest wall. The wall acts on the pressure's gradient as the images that the plane has
// of the particle and its neighbours, with the same pressures (Mitsume, Yoshimura, Murotani, Yamada 2015).
struct Mirror {
    F3 normal;       // away from the wall
    float distance;  // of the particle from the plane; the reach or more: no images
};
// Share of the gradient's sum: image of a particle at r from this one, with a pressure `above` the minimum.
FN F3 image(const Mirror& mirror, const Fluid& fluid, float above, F3 r, float r_sq) {
    float height = dot(r, mirror.normal) + mirror.distance;
    float square = r_sq + 4.f * mirror.distance * height;  // the image's squared distance
    if (!(height > 0.f && square < fluid.reach * fluid.reach && square >= fluid.least_sq)) return {0.f, 0.f, 0.f};
    return (above * weight(fluid, sqrtf(square)) / square) * (r - (2.f * height) * mirror.normal);
}

struct sdf_flow_gradient_args {
    u32 n;  // places
    Particles all;
    Fluid fluid;
    float low_x, low_y, low_z;  // the domain; particles outside it are removed
    float high_x, high_y, high_z;
    const float* position;  // [n, 3]
    const float* velocity;  // [n, 3]
    const float* pressure;  // [n]
    const float* nearest;   // [n, 4] each particle's nearest wall, from sdf_flow_push; null: no walls
    float* new_position;    // [n, 3] out
    float* new_velocity;    // [n, 3] out
    u8* new_kind;           // [n] in and out: kind as in `all`
    float farthest;         // maximum displacement per step that the bucket width allows
    u32* fast;              // [1] in and out: count of larger displacements
};
SDF_KERNEL(sdf_flow_gradient, PLAIN, i) {
    u8 kind = a.all.kind[i];
    if (kind == SDF_GONE) return;
    F3 p = load3(a.position + 3 * (size_t)i), u = load3(a.velocity + 3 * (size_t)i);
    if (kind == SDF_FLUID) {
        float own = a.pressure[i], least = own;
        each_neighbour(a.all, a.fluid, a.position, i,
                       [&](u32 j, F3, float, float) { least = min_of(least, a.pressure[j]); });
        Mirror mirror = {{0.f, 0.f, 0.f}, a.fluid.reach};
        if (a.nearest) mirror = {load3(a.nearest + 4 * (size_t)i), a.nearest[4 * (size_t)i + 3]};
        bool mirrored = mirror.distance < a.fluid.reach;
        F3 sum = {0.f, 0.f, 0.f};
        if (mirrored) sum = image(mirror, a.fluid, own - least, sum, 0.f);
        each_neighbour(a.all, a.fluid, a.position, i, [&](u32 j, F3 r, float r_sq, float length) {
            float above = a.pressure[j] - least;
            sum = sum + (above * weight(a.fluid, length) / r_sq) * r;
            if (mirrored) sum = sum + image(mirror, a.fluid, above, r, r_sq);
        });
        F3 step = (-a.fluid.step * a.fluid.slope) * sum;
        u = u + step;
        p = p + a.fluid.step * step;
        bool inside =
            p.x >= a.low_x && p.x < a.high_x && p.y >= a.low_y && p.y < a.high_y && p.z >= a.low_z && p.z < a.high_z;
        if (!inside) a.new_kind[i] = SDF_GONE;
        bool slow = a.fluid.step * sqrtf(dot(u, u)) <= a.farthest;
        if (!slow && owned(a.all.slab, a.all.own[i])) atomic_add(a.fast, 1u);
    }
    store3(a.new_position + 3 * (size_t)i, p);
    store3(a.new_velocity + 3 * (size_t)i, u);
}

#endif
