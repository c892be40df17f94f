// Pictures of a field's level set, with one ray per pixel, and more where colours change; optionally with a mesh and
// dots.
//
// A ray moves from leaf to leaf, and by sphere tracing (Hart 1996) across many at once where the field allows. Along a
// ray a leaf's trilinear field is a cubic, whose first root is found between its extrema (Marmitt et al. 2004). So
// every part of the level set in a leaf with corners on both sides is found, however thin.
//
// INTERFACE
//   sdf_render         pixel colours, depths and normals
//   sdf_render_beside  the same with a mesh and dots
#ifndef SDFCLI_SURFACE_RENDER_H
#define SDFCLI_SURFACE_RENDER_H
#include "base/kernel.h"
#include "field/leaf_tree.h"
#include "surface/cast.h"
#include "surface/shade.h"

#define SDF_RENDER_PROBES 5      // samples for ambient occlusion
#define SDF_RENDER_CLEAR 1e-9    // step beyond a leaf's boundary, in domain edges; the finest leaves have 1e-5
#define SDF_RENDER_GRAZING 0.05  // minimum cosine between a ray and a normal

// Surface colours: the field's, the mesh's, the mesh inside the field, dots inside and outside.
#define SDF_RENDER_CLAY vec(0.78, 0.66, 0.53)
#define SDF_RENDER_MESH vec(0.25, 0.45, 0.75)
#define SDF_RENDER_INSIDE vec(0.80, 0.25, 0.35)
#define SDF_RENDER_DEEP vec(1.0, 0.03, 0.02)
#define SDF_RENDER_NEAR vec(1.0, 0.55, 0.0)

// Transparency of a surface in front: for the mesh inside and behind, and for dots. Light in the mesh's shadow.
#define SDF_RENDER_INSIDE_PART 0.5
#define SDF_RENDER_BEHIND_PART 0.2
#define SDF_RENDER_DOT_PART 0.5
#define SDF_RENDER_SHADOW 0.4

struct Leaf {
    D3 low;
    double size;
    double v[8];  // at the corners, relative to the level, in domain edges
};

struct sdf_render_args {
    u32 n;      // pixels, row by row
    u32 first;  // number of earlier pixels, from the top
    u32 width;
    u32 height;
    Leaves leaves;
    double length;          // domain edge in the mesh's units
    double iso;             // the level, in the mesh's units
    double error;           // the field's, near the surface
    double slack;           // the field's, relative to the distance
    double error_at_level;  // the field's, at the level
    double reach;           // radius of ambient occlusion
    double smoothing;       // minimum step for normals, to both sides
    double pixel_size;      // size of a pixel at distance 1
    const double* camera;   // [4, 3] the eye, then unit vectors: right, up, forward
    const u8* rough;        // [height, width, 3] with one ray per pixel; null: renders this picture
    const u8* rough_cover;  // [height, width] its `cover`; null without that
    u8* pixel;              // [height, width, 3] out: red, green, blue
    u8* hit;                // [height, width] out: 1 where a surface is, else 0; may be null
    u8* cover;       // [height, width] out: share of rays with a hit, of 255, whose mean is the pixel; may be null
    double* depth;   // [height, width] out: from the eye, negative for none; may be null
    double* normal;  // [height, width, 3] out; may be null
    Shapes mesh;     // a second surface
    Shapes dots;     // balls, the deepest first
    u32 deep;        // number of balls inside
    double blur;     // surfaces closer than this, by the field's error, count as one
};
FN Leaf load_leaf(const sdf_render_args& a, D3 p) {
    const double full = (double)(1u << SDF_LATTICE_BITS);
    double u[3] = {p.x * full, p.y * full, p.z * full};
    u32 cell[3];
    for (int k = 0; k < 3; k++) cell[k] = u[k] < full - 1.0 ? (u32)max_of(u[k], 0.0) : (1u << SDF_LATTICE_BITS) - 1u;
    Lattice at = {cell[0], cell[1], cell[2]};
    u32 number = find_leaf(a.leaves, morton_encode(at));
    Lattice low = morton_decode(a.leaves.leaf_key[number]);
    Leaf leaf;
    leaf.low = vec(low.x / full, low.y / full, low.z / full);
    leaf.size = 1.0 / (double)(1u << a.leaves.leaf_level[number]);
    for (int c = 0; c < 8; c++)
        leaf.v[c] = ((double)a.leaves.value[a.leaves.leaf_corner[8 * (size_t)number + c]] - a.iso) / a.length;
    return leaf;
}

FN double leaf_value(const Leaf& leaf, D3 p) { return trilinear(leaf.v, (1.0 / leaf.size) * (p - leaf.low)); }

// The field relative to the level, in domain edges; outside as in sdf_field_sample.
FN double value_above(const sdf_render_args& a, D3 p) {
    D3 inside = vec(clamp01(p.x), clamp01(p.y), clamp01(p.z)), beyond = p - inside;
    return leaf_value(load_leaf(a, inside), inside) + sqrt(dot(beyond, beyond));
}

// First s in [0, 1] where a cubic, positive at 0, is not positive; 2 for none. value: at 0, 1/3, 2/3 and 1.
FN double first_root(const double* value) {
    double c0 = value[0], c1 = -5.5 * value[0] + 9.0 * value[1] - 4.5 * value[2] + value[3];
    double c2 = 9.0 * value[0] - 22.5 * value[1] + 18.0 * value[2] - 4.5 * value[3];
    double c3 = 4.5 * (value[3] - value[0] + 3.0 * (value[1] - value[2]));
    double split[3] = {2.0, 2.0, 1.0};  // sorted extrema, and the end
    double inner = c2 * c2 - 3.0 * c3 * c1;
    if (inner > 0.0) {
        double q = c2 > 0.0 ? -(c2 + sqrt(inner)) : sqrt(inner) - c2;
        double one = q / (3.0 * c3), other = c1 / q;  // the first is not finite for a parabola, and skipped
        split[0] = min_of(one, other);
        split[1] = max_of(one, other);
    }
    double low = 0.0;
    for (int k = 0; k < 3; k++) {
        double high = split[k];
        if (!(high > low && high <= 1.0)) continue;
        if (!(((c3 * high + c2) * high + c1) * high + c0 > 0.0)) {
            for (int round = 0; round < 40; round++) {
                double middle = 0.5 * (low + high);
                if (((c3 * middle + c2) * middle + c1) * middle + c0 > 0.0)
                    low = middle;
                else
                    high = middle;
            }
            return high;
        }
        low = high;
    }
    return 2.0;
}

// Lower bound for the distance from a point with this value to the level set: the field's error is `error`, or `slack`
// times the distance if larger; error_at_level is the error at the level.
FN double clear_radius(const sdf_render_args& a, double above) {
    double distance = above + a.iso / a.length;
    double error = max_of(a.error, a.slack * select(distance < 0.0, -distance, distance));
    return above - error - a.error_at_level;
}

struct Seen {
    double t;  // along the ray, in domain edges; negative for a miss
    double leaf_size;
};

FN Seen trace(const sdf_render_args& a, D3 eye, D3 way) {
    Seen seen = {-1.0, 0.0};
    double from[3] = {eye.x, eye.y, eye.z}, along[3] = {way.x, way.y, way.z};
    double t = 0.0, end = 1e30;
    for (int k = 0; k < 3; k++) {  // the ray's part in the domain
        if (along[k] == 0.0) {
            if (from[k] < 0.0 || from[k] > 1.0) return seen;
            continue;
        }
        double one = (0.0 - from[k]) / along[k], other = (1.0 - from[k]) / along[k];
        t = max_of(t, min_of(one, other));
        end = min_of(end, max_of(one, other));
    }
    double walked = t;  // traversed leaf by leaf up to here
    while (t < end) {
        D3 p = eye + t * way;
        Leaf leaf = load_leaf(a, p);
        double value[4], out = end;
        value[0] = leaf_value(leaf, p);
        if (!(value[0] > 0.0)) {
            if (t > walked) {  // the field's error exceeds the stated one: return, leaf by leaf
                t = walked;
                continue;
            }
            seen.t = t;
            seen.leaf_size = leaf.size;
            return seen;
        }
        double low[3] = {leaf.low.x, leaf.low.y, leaf.low.z};
        bool below = false;
        // Slightly beyond the face, to reach another leaf, for rays along a face, too.
        for (int k = 0; k < 3; k++) {
            double face = low[k] + select(along[k] > 0.0, leaf.size + SDF_RENDER_CLEAR, -SDF_RENDER_CLEAR);
            if (along[k] != 0.0) out = min_of(out, (face - from[k]) / along[k]);
        }
        out = max_of(out, t);
        for (int c = 0; c < 8; c++) below = below || !(leaf.v[c] > 0.0);
        if (below) {
            for (int k = 1; k < 4; k++) value[k] = leaf_value(leaf, eye + (t + k / 3.0 * (out - t)) * way);
            double s = first_root(value);
            if (s <= 1.0) {
                seen.t = t + s * (out - t);
                seen.leaf_size = leaf.size;
                return seen;
            }
        }
        walked = out;
        t = max_of(out, t + clear_radius(a, value[0]));
    }
    return seen;
}

// Central difference over a leaf's size: shows less of the octree than a leaf's gradient.
FN D3 smooth_normal(const sdf_render_args& a, D3 p, double step) {
    D3 x = vec(step, 0.0, 0.0), y = vec(0.0, step, 0.0), z = vec(0.0, 0.0, step);
    return unit(vec(value_above(a, p + x) - value_above(a, p - x), value_above(a, p + y) - value_above(a, p - y),
                    value_above(a, p + z) - value_above(a, p - z)));
}

// Openness of the space above a point, 0 to 1: distances smaller than the offset along the normal indicate nearby
// surfaces (Evans 2006).
FN double openness(const sdf_render_args& a, D3 p, D3 normal) {
    double sum = 0.0, weights = 0.0;
    for (int k = 1; k <= SDF_RENDER_PROBES; k++) {
        double height = a.reach * k / SDF_RENDER_PROBES, weight = 1.0 / k;
        sum += weight * clamp01(value_above(a, p + height * normal) / height);
        weights += weight;
    }
    return sum / weights;
}

// A ray's result: the front surface, its ray parameter, negative for none, linear light, and whether anything is hit.
struct Look {
    double t;
    D3 normal, light;
    bool hit;
};

// Fraction of the main light reaching a point on the field's surface past the mesh: reduced in its shadow, which fades
// where the surface itself turns away.
FN double lit_part(const sdf_render_args& a, D3 p, D3 normal) {
    D3 key = key_light(a.camera), from = p + (2.0 * a.blur + SDF_RENDER_CLEAR) * normal;
    Met met = nearest_triangle(a.mesh, from, key);
    if (met.t == SDF_CAST_FAR || value_above(a, from + met.t * key) < 0.0) return 1.0;
    return 1.0 - (1.0 - SDF_RENDER_SHADOW) * clamp01(4.0 * dot(normal, key));
}

template <bool kBeside>
FN Look look_at_field(const sdf_render_args& a, D3 eye, D3 way, double fall) {
    Seen seen = trace(a, eye, way);
    Look look = {seen.t, vec(0.0, 0.0, 0.0), background(fall), seen.t >= 0.0};
    if (seen.t < 0.0) return look;
    D3 p = eye + seen.t * way;
    look.normal = smooth_normal(a, p, max_of(a.smoothing, max_of(0.5 * seen.leaf_size, 0.5 * a.pixel_size * seen.t)));
    double lit = kBeside ? lit_part(a, p, look.normal) : 1.0;
    look.light = shade(a.camera, way, look.normal, SDF_RENDER_CLAY, openness(a, p, look.normal), lit);
    return look;
}

// Draws the mesh over the result; where it lies behind, it shines through.
FN void look_at_mesh(const sdf_render_args& a, D3 eye, D3 way, Look* look) {
    Met met = nearest_triangle(a.mesh, eye, way);
    if (met.t == SDF_CAST_FAR) return;
    look->hit = true;
    D3 p = eye + met.t * way, normal = unit(met.normal);
    if (dot(normal, way) > 0.0) normal = -1.0 * normal;
    bool inside = value_above(a, p) < -a.blur;
    D3 light = shade(a.camera, way, normal, inside ? SDF_RENDER_INSIDE : SDF_RENDER_MESH,
                     inside ? 1.0 : openness(a, p, normal), 1.0);
    double between = (met.t - look->t) * max_of(-dot(way, normal), SDF_RENDER_GRAZING);
    if (look->t < 0.0 || between <= a.blur) {
        look->t = met.t;
        look->normal = normal;
        look->light = light;
    } else {
        look->light = mix(look->light, light, inside ? SDF_RENDER_INSIDE_PART : SDF_RENDER_BEHIND_PART);
    }
}

// Draws dots on top, fainter where they lie behind.
FN void look_at_dots(const sdf_render_args& a, D3 eye, D3 way, Look* look) {
    Met met = nearest_ball(a.dots, eye, way);
    if (met.t == SDF_CAST_FAR) return;
    D3 light = shade(a.camera, way, met.normal, met.id < a.deep ? SDF_RENDER_DEEP : SDF_RENDER_NEAR, 1.0, 1.0);
    bool hidden = look->t >= 0.0 && met.t > look->t;
    look->hit = true;
    look->light = mix(look->light, light, hidden ? SDF_RENDER_DOT_PART : 1.0);
}

template <bool kBeside>  // separate kernels, so that pictures without a mesh take no longer
FN void render_pixel(const sdf_render_args& a, u32 place) {
    u32 i = a.first + place, column = i % a.width, row = i / a.width, rays = 1;
    if (a.rough) {
        if (contrast(a, column, row) < SDF_SHADE_CONTRAST) {
            for (int k = 0; k < 3; k++) a.pixel[3 * (size_t)i + k] = a.rough[3 * (size_t)i + k];
            if (a.cover) a.cover[i] = a.rough_cover[i];
            return;
        }
        rays = SDF_SHADE_RAYS;
    }
    D3 eye = load3(a.camera);
    D3 sum = vec(0.0, 0.0, 0.0), missed = sum;
    u32 hits = 0;
    for (u32 ray = 0; ray < rays * rays; ray++) {
        double x = column + (ray % rays + 0.5) / rays - 0.5 * a.width;
        double y = row + (ray / rays + 0.5) / rays - 0.5 * a.height;
        D3 way = ray_way(a.camera, a.pixel_size, x, y);
        Look look = look_at_field<kBeside>(a, eye, way, row / (double)a.height);
        if (kBeside) {
            look_at_mesh(a, eye, way, &look);
            look_at_dots(a, eye, way, &look);
        }
        bool counts = !a.cover || look.hit;
        D3* part = counts ? &sum : &missed;
        *part = *part + look.light;
        hits += counts;
        if (a.hit) a.hit[i] = look.t >= 0.0;
        if (a.depth) a.depth[i] = look.t;
        double parts[3] = {look.normal.x, look.normal.y, look.normal.z};
        for (int k = 0; a.normal && k < 3; k++) a.normal[3 * (size_t)i + k] = parts[k];
    }
    if (a.cover) a.cover[i] = (u8)((255 * hits + rays * rays / 2) / (rays * rays));
    double all = hits ? hits : rays * rays;
    if (!hits) sum = missed;
    store_rgb(a.pixel + 3 * (size_t)i, vec(sum.x / all, sum.y / all, sum.z / all));
}

SDF_KERNEL(sdf_render, PLAIN, place) { render_pixel<false>(a, place); }
using sdf_render_beside_args = sdf_render_args;
SDF_KERNEL(sdf_render_beside, PLAIN, place) { render_pixel<true>(a, place); }

#endif
