// Constants that several headers share.
#ifndef SDFCLI_BASE_CONSTANTS_H
#define SDFCLI_BASE_CONSTANTS_H

constexpr unsigned SDF_NONE = 0xffffffffu;     // "no such cell, point or triangle"
constexpr unsigned SDF_OUTSIDE = 0xfffffffeu;  // a neighbour position outside of the domain

// No distance is as large as SDF_UNKNOWN, and no bound of a box as large as SDF_NO_BOX.
constexpr float SDF_UNKNOWN = 3.4e38f;
constexpr float SDF_NO_BOX = 3.402823466e38f;

constexpr int SDF_LANES = 16;  // floats that the CPU takes together (base/simd.h)

#endif
