#version 300 es
// The mean of the rays' light over the background, by the square root, as in `sdfcli render`.
precision highp float;

uniform sampler2D sum;
uniform vec2 size;        // of the canvas, in pixels
uniform float rays;       // per pixel
uniform vec3 top, below;  // background, linear

layout(location = 0) out vec4 colour;

void main() {
    vec2 place = gl_FragCoord.xy / size;
    vec4 light = texture(sum, place) / rays;
    vec3 shown = sqrt(clamp(light.rgb + (1.0 - light.a) * mix(below, top, place.y), 0.0, 1.0));
    float noise = fract(52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));  // hides banding
    colour = vec4(shown + (noise - 0.5) / 255.0, 1.0);
}
