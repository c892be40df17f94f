#version 300 es
// Pictures of a field's level set and of a plane through it, in the domain's unit cube; as kernels/surface/render.h.
//
// A ray moves from leaf to leaf, and by sphere tracing (Hart 1996) across many at once where the stated error allows.
// Along a ray a leaf's trilinear field is a cubic, whose first root is found between its extrema (Marmitt et al. 2004).
precision highp float;
precision highp int;

uniform highp usampler2D tree;     // children, see octree.js
uniform highp sampler2D corners;   // two texels per leaf
uniform sampler2D colours;         // 511 x 1, from blue through white to red
uniform int depth;                 // finest level
uniform float iso, scale;          // level in mesh units; 1 / domain edge
uniform float error, slack;        // the field's, near the surface and relative to the distance, in domain edges
uniform float reach, smoothing;    // ambient occlusion range; least step for normals
uniform vec3 eye, right, up, forward;
uniform float pixel;               // edge of a pixel at distance 1
uniform vec2 middle, jitter;       // the axis, and this ray's place in its pixel, in pixels
uniform int axis;                  // of the plane, -1 for none
uniform float at, veil;            // its position; opacity outside the surface
uniform float largest, spacing;    // distance in full colour; between contour lines, in domain edges
uniform bool cells;
uniform float ink;                 // line width in pixels

const vec3 CLAY = vec3(0.78, 0.66, 0.53), INK = vec3(0.098, 0.110, 0.129), NONE = vec3(0.0);
const int PROBES = 5, STEPS = 2048, WIDTH = 2048;
const float FAR = 1e9, TINY = 1e-12;
const uint LEAF = 0x80000000u;

struct Leaf {
    ivec3 low;  // in finest cells
    int size;
    vec4 v[2];  // at the corners, relative to the level, in domain edges
};

uint entry(uint i) { return texelFetch(tree, ivec2(i % uint(WIDTH), i / uint(WIDTH)), 0).r; }
vec4 values(uint i) { return (texelFetch(corners, ivec2(i % uint(WIDTH), i / uint(WIDTH)), 0) - iso) * scale; }

Leaf leaf_of(ivec3 cell) {
    uint found = entry(0u);
    int k = depth;
    while (found < LEAF) {
        ivec3 o = cell >> --k & 1;
        found = entry(1u + 8u * found + uint(o.x + 2 * o.y + 4 * o.z));
    }
    uint number = found - LEAF;
    return Leaf(cell >> k << k, 1 << k, vec4[2](values(2u * number), values(2u * number + 1u)));
}
ivec3 cell_of(vec3 p) {
    float full = float(1 << depth);
    return ivec3(clamp(floor(p * full), 0.0, full - 1.0));
}
float trilinear(vec4 v[2], vec3 t) {
    vec4 z = mix(v[0], v[1], t.z);
    vec2 y = mix(z.xy, z.zw, t.y);
    return mix(y.x, y.y, t.x);
}
vec3 slope(vec4 v[2], vec3 t) {  // per leaf edge
    vec4 z = mix(v[0], v[1], t.z), dz = v[1] - v[0];
    vec2 y = mix(z.xy, z.zw, t.y), dy = z.zw - z.xy, dzy = mix(dz.xy, dz.zw, t.y);
    return vec3(y.y - y.x, mix(dy.x, dy.y, t.x), mix(dzy.x, dzy.y, t.x));
}
vec3 inside_of(Leaf leaf, vec3 p) {
    return clamp((p * float(1 << depth) - vec3(leaf.low)) / float(leaf.size), 0.0, 1.0);
}
float value_at(vec3 p) {
    vec3 inside = clamp(p, 0.0, 1.0);
    Leaf leaf = leaf_of(cell_of(inside));
    return trilinear(leaf.v, inside_of(leaf, inside)) + length(p - inside);
}

float cubic(vec4 c, float s) { return ((c.w * s + c.z) * s + c.y) * s + c.x; }

// First s in [0, 1] where a cubic, positive at 0, is not positive; 2 for none. value: at 0, 1/3, 2/3 and 1.
float first_root(vec4 value) {
    vec4 c = vec4(value.x, dot(value, vec4(-5.5, 9.0, -4.5, 1.0)), dot(value, vec4(9.0, -22.5, 18.0, -4.5)),
                  4.5 * (value.w - value.x + 3.0 * (value.y - value.z)));
    vec3 ends = vec3(2.0, 2.0, 1.0);
    float inner = c.z * c.z - 3.0 * c.w * c.y;
    if (inner > 0.0) {
        float q = c.z > 0.0 ? -(c.z + sqrt(inner)) : sqrt(inner) - c.z;
        float one = abs(c.w) > TINY * abs(q) ? q / (3.0 * c.w) : 2.0, other = q != 0.0 ? c.y / q : 2.0;
        ends.xy = vec2(min(one, other), max(one, other));
    }
    float low = 0.0;
    for (int k = 0; k < 3; k++) {
        float high = ends[k];
        if (!(high > low && high <= 1.0)) continue;
        float there = k == 2 ? value.w : cubic(c, high);
        if (there <= 0.0) {
            for (int round = 0; round < 20; round++) {
                float half_way = 0.5 * (low + high);
                if (cubic(c, half_way) > 0.0) low = half_way;
                else high = half_way;
            }
            return high;
        }
        low = high;
    }
    return 2.0;
}

// Lower bound on the distance from a point with this value to the level set.
float clear_radius(float above) {
    float level = iso * scale;
    return above - max(error, slack * abs(above + level)) - max(error, slack * abs(level));
}

// A direction without zeros, for divisions.
vec3 slanted(vec3 way) { return mix(way, vec3(TINY), lessThan(abs(way), vec3(TINY))); }
ivec3 pick(ivec3 a, ivec3 b, bvec3 second) {
    return ivec3(second.x ? b.x : a.x, second.y ? b.y : a.y, second.z ? b.z : a.z);
}

// The first place on a ray between t and end where the field is at most the level; negative for none. size: the leaf's.
float trace(vec3 way, float t, float end, out float size) {
    float full = float(1 << depth), walked = t;
    vec3 go = slanted(way), over = 1.0 / go;
    ivec3 cell = cell_of(eye + t * way), reached = cell;  // reached: where the walk leaf by leaf ended
    size = 0.0;
    for (int k = 0; k < STEPS && t < end; k++) {
        Leaf leaf = leaf_of(cell);
        size = float(leaf.size) / full;
        vec3 low = vec3(leaf.low) / full;
        vec3 faces = (low + mix(vec3(0.0), vec3(size), greaterThan(go, vec3(0.0))) - eye) * over;
        float leave = min(min(faces.x, faces.y), faces.z), stop = max(min(leave, end), t);
        vec3 a = inside_of(leaf, eye + t * way), b = inside_of(leaf, eye + stop * way);
        float here = trilinear(leaf.v, a);
        if (here <= 0.0) {
            if (t <= walked) return t;
            t = walked;  // the field's error exceeds the stated one: return, leaf by leaf
            cell = reached;
            continue;
        }
        if (any(lessThanEqual(min(leaf.v[0], leaf.v[1]), vec4(0.0)))) {
            float s = first_root(vec4(here, trilinear(leaf.v, mix(a, b, 1.0 / 3.0)),
                                      trilinear(leaf.v, mix(a, b, 2.0 / 3.0)), trilinear(leaf.v, b)));
            if (s <= 1.0) return mix(t, stop, s);
        }
        // The next cell is beyond the face, whatever the rounding.
        ivec3 beyond = clamp(cell_of(eye + stop * way), leaf.low, leaf.low + leaf.size - 1);
        ivec3 outer = pick(leaf.low - 1, leaf.low + leaf.size, greaterThan(go, vec3(0.0)));
        reached = pick(beyond, outer, lessThanEqual(faces, vec3(leave)));
        float far = t + clear_radius(here);
        walked = stop;
        t = max(stop, far);
        if (far > stop) cell = cell_of(eye + t * way);
        else cell = reached;
        if (any(lessThan(cell, ivec3(0))) || any(greaterThanEqual(cell, ivec3(1 << depth)))) break;
    }
    return -1.0;
}

vec3 normal_at(vec3 p, float h) {
    vec2 e = vec2(h, 0.0);
    vec3 n = vec3(value_at(p + e.xyy) - value_at(p - e.xyy), value_at(p + e.yxy) - value_at(p - e.yxy),
                  value_at(p + e.yyx) - value_at(p - e.yyx));
    return dot(n, n) > 0.0 ? normalize(n) : -forward;
}

// Openness of the space above a point, 0 to 1 (Evans 2006).
float openness(vec3 p, vec3 normal) {
    float sum = 0.0, weights = 0.0;
    for (int k = 1; k <= PROBES; k++) {
        float height = reach * float(k) / float(PROBES), weight = 1.0 / float(k);
        sum += weight * clamp(value_at(p + height * normal) / height, 0.0, 1.0);
        weights += weight;
    }
    return sum / weights;
}

// Linear light; lamps move with the camera.
vec3 shade(vec3 way, vec3 normal, float open) {
    vec3 key = normalize(-0.70 * right + 0.80 * up - 0.55 * forward);
    vec3 fill = normalize(0.95 * right - 0.05 * up - 0.45 * forward);
    float facing = clamp((dot(normal, key) + 0.3) / 1.3, 0.0, 1.0), side = clamp(dot(normal, fill), 0.0, 1.0);
    float sky = 0.5 + 0.5 * dot(normal, up), rim = pow(1.0 - clamp(-dot(normal, way), 0.0, 1.0), 3.0);
    float shine = pow(clamp(dot(normal, normalize(key - way)), 0.0, 1.0), 32.0);
    float warm = 0.95 * facing * (0.4 + 0.6 * facing) * (0.30 + 0.70 * open), cool = (0.10 + 0.24 * sky) * open * open;
    vec3 light = warm * vec3(1.0, 0.93, 0.82) + cool * vec3(0.72, 0.86, 1.0) + 0.20 * side * open * vec3(0.90, 0.92, 1.0);
    return CLAY * light + (0.10 * shine + 0.10 * rim) * open;
}

float line(float away, float width) { return clamp(0.5 * width + 0.5 - away, 0.0, 1.0); }

// Coverage of leaf borders around a point with these coordinates in its leaf; fainter for small leaves.
float borders(vec3 inside, vec3 across, float size, float footprint) {
    vec3 away = min(inside, 1.0 - inside) * size / (footprint * max(across, vec3(0.05)));
    float nearest = min(min(across.x > 0.1 ? away.x : FAR, across.y > 0.1 ? away.y : FAR), across.z > 0.1 ? away.z : FAR);
    return line(nearest, 0.5) * clamp(size / footprint / 24.0, 0.0, 0.45);
}

// A point of the plane: display colour, and opacity.
vec4 paint(vec3 p, float footprint) {
    Leaf leaf = leaf_of(cell_of(p));
    vec3 inside = inside_of(leaf, p), across = vec3(equal(ivec3(0, 1, 2), ivec3(axis)));
    float size = float(leaf.size) / float(1 << depth), above = trilinear(leaf.v, inside), value = above + iso * scale;
    float share = sign(value) * sqrt(min(abs(value) / largest, 1.0));
    vec3 colour = texelFetch(colours, ivec2(int(floor(255.0 * share + 0.5)) + 255, 0), 0).rgb;
    vec3 way = slope(leaf.v, inside) / size * (1.0 - across);
    float steep = footprint * max(length(way), 0.05), number = floor(value / spacing + 0.5);
    if (cells) colour = mix(colour, INK, borders(inside, 1.0 - across, size, footprint));
    float contour = number == 0.0 ? 0.0 : 0.35 * line(abs(value - number * spacing) / steep, ink);
    float outline = line(abs(value) / steep, 2.0 * ink), level = line(abs(above) / steep, 2.0 * ink);
    colour = mix(mix(colour, INK, contour), NONE, outline);
    colour = mix(colour, vec3(0.55, 0.33, 0.10), iso == 0.0 ? 0.0 : level);
    vec3 edge = mix(min(p, 1.0 - p), vec3(FAR), across);
    float frame = line(min(min(edge.x, edge.y), edge.z) / footprint, 2.0 * ink);
    return vec4(mix(colour, INK, 0.6 * frame), max(above < 0.0 ? 1.0 : veil, max(max(outline, 0.6 * frame), contour)));
}

#ifdef PROBE
layout(location = 0) out uvec4 found;  // bits of the ray parameter and of the value; leaf size; 0 none, 1 level, 2 plane
#else
layout(location = 0) out vec4 light;   // linear, times the opacity
#endif

void main() {
    vec2 q = pixel * (gl_FragCoord.xy + jitter - middle);
    vec3 way = normalize(forward + q.x * right + q.y * up);
    vec3 over = 1.0 / slanted(way);
    vec3 one = -eye * over, other = (1.0 - eye) * over, near = min(one, other), leave = max(one, other);
    float t = max(max(max(near.x, near.y), near.z), 0.0), end = min(min(leave.x, leave.y), leave.z);
    bool cut = false;
    if (axis >= 0) {  // nothing on the eye's side of the plane
        float s = (at - eye[axis]) * over[axis];
        cut = s > t;
        t = s >= 0.0 ? max(t, s) : FAR;
    }
    vec4 plane = vec4(0.0);
    if (cut && t < end) plane = paint(clamp(eye + t * way, 0.0, 1.0), pixel * t);
#ifdef PROBE
    found = uvec4(0u);
    if (cut && t < end) {
        found = uvec4(floatBitsToUint(t), floatBitsToUint(value_at(eye + t * way)), 0u, 2u);
    } else {
        float size, hit = t < end ? trace(way, t, end, size) : -1.0;
        if (hit >= 0.0) found = uvec4(floatBitsToUint(hit), floatBitsToUint(value_at(eye + hit * way)), 0u, 1u);
    }
    if (found.w > 0u) {
        vec3 p = clamp(eye + uintBitsToFloat(found.x) * way, 0.0, 1.0);
        found.z = uint(leaf_of(cell_of(p)).size);
    }
#else
    light = vec4(plane.rgb * plane.rgb, 1.0) * plane.a;
    if (t < end && plane.a < 1.0) {
        float size, hit = trace(way, t, end, size);
        if (hit >= 0.0) {
            vec3 p = eye + hit * way;
            vec3 normal = normal_at(p, max(smoothing, max(0.5 * size, 0.5 * pixel * hit)));
            vec3 colour = shade(way, normal, openness(p, normal));
            if (cells) {
                Leaf leaf = leaf_of(cell_of(p));
                vec3 across = sqrt(max(1.0 - normal * normal, 0.0));
                float part = borders(inside_of(leaf, p), across, float(leaf.size) / float(1 << depth), pixel * hit);
                colour = mix(colour, INK * INK, part);
            }
            light += (1.0 - plane.a) * vec4(colour, 1.0);
        }
    }
#endif
}
