// Rays, light and colours for pictures. Colours are linear light, red, green, blue. A camera is [4, 3]: the eye, then
// unit vectors: right, up, forward.
//
// INTERFACE
//   unit, mix   normalised vector; interpolation between two colours
//   ray_way     direction of the ray through a picture position
//   key_light   direction of the main light
//   shade       light reflected by a surface
//   background  colour where nothing is hit
//   store_rgb, load_rgb  a colour to a pixel, and back
//   contrast    colour difference between a pixel and its neighbours
#ifndef SDFCLI_SURFACE_SHADE_H
#define SDFCLI_SURFACE_SHADE_H
#include "base/kernel.h"
#include "base/vec.h"

#define SDF_SHADE_RAYS 3       // rays per pixel where colours change, before squaring
#define SDF_SHADE_CONTRAST 10  // colour difference between neighbouring pixels that counts as a change

FN D3 unit(D3 v) {
    double length = sqrt(dot(v, v));
    return length > 0.0 ? (1.0 / length) * v : vec(0.0, 0.0, 0.0);
}

FN D3 mix(D3 one, D3 other, double part) { return (1.0 - part) * one + part * other; }

// x, y: from the picture's centre, to the right and down, in pixels; pixel_size: size of a pixel at distance 1.
FN D3 ray_way(const double* camera, double pixel_size, double x, double y) {
    return unit(load3(camera + 9) + (pixel_size * x) * load3(camera + 3) - (pixel_size * y) * load3(camera + 6));
}

FN D3 key_light(const double* camera) {
    return unit(-0.70 * load3(camera + 3) + 0.80 * load3(camera + 6) - 0.55 * load3(camera + 9));
}

// Light reflected by a surface with a given colour, linear red, green, blue; lights move with the camera.
FN D3 shade(const double* camera, D3 way, D3 normal, D3 colour, double open, double lit) {
    D3 right = load3(camera + 3), up = load3(camera + 6);
    D3 key = key_light(camera), fill = unit(0.95 * right - 0.05 * up - 0.45 * load3(camera + 9));
    double away = dot(normal, -1.0 * way);
    double facing = clamp01((dot(normal, key) + 0.3) / 1.3), side = clamp01(dot(normal, fill));
    double sky = 0.5 + 0.5 * dot(normal, up);
    double shine = clamp01(dot(normal, unit(key - way)));
    for (int k = 0; k < 5; k++) shine *= shine;  // to the 32nd power
    double rim = 1.0 - clamp01(away);
    rim = rim * rim * rim;
    double warm = 0.95 * facing * (0.4 + 0.6 * facing) * (0.30 + 0.70 * open) * lit;
    double cool = (0.10 + 0.24 * sky) * open * open;
    D3 light = warm * vec(1.0, 0.93, 0.82) + cool * vec(0.72, 0.86, 1.0) + (0.20 * side * open) * vec(0.90, 0.92, 1.0);
    D3 given = vec(colour.x * light.x, colour.y * light.y, colour.z * light.z);
    double gloss = 0.10 * shine * open * lit + 0.10 * rim * open;
    return given + vec(gloss, gloss, gloss);
}

// fall: vertical position in the picture from the top, 0 to 1.
FN D3 background(double fall) { return vec(0.955 - 0.13 * fall, 0.962 - 0.12 * fall, 0.975 - 0.11 * fall); }

// Gamma 2: the square root is identical on every device.
FN void store_rgb(u8* pixel, D3 colour) {
    double parts[3] = {colour.x, colour.y, colour.z};
    for (int k = 0; k < 3; k++) pixel[k] = (u8)(int)(255.0 * sqrt(clamp01(parts[k])) + 0.5);
}
FN D3 load_rgb(const u8* pixel) {
    D3 shown = vec(pixel[0] / 255.0, pixel[1] / 255.0, pixel[2] / 255.0);
    return vec(shown.x * shown.x, shown.y * shown.y, shown.z * shown.z);
}

// Largest colour difference between a pixel and its four neighbours.
// Args: with the picture with one ray per pixel, `rough`, its width and its height.
template <class Args>
FN int contrast(const Args& a, u32 column, u32 row) {
    const u8* here = a.rough + 3 * ((size_t)row * a.width + column);
    size_t line = 3 * (size_t)a.width;
    const u8* there[4] = {column > 0 ? here - 3 : here, column + 1 < a.width ? here + 3 : here,
                          row > 0 ? here - line : here, row + 1 < a.height ? here + line : here};
    int change = 0;
    for (int side = 0; side < 4; side++)
        for (int k = 0; k < 3; k++)
            change = max_of(change, max_of((int)here[k] - there[side][k], (int)there[side][k] - here[k]));
    return change;
}

#endif
