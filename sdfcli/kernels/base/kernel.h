// How kernels are declared.
//
//     struct NAME_args {          // the arguments, read by backend/arguments.py
//         u32 n;                  // first: how many indices there are
//         const float* points;    // [n, 3] an array: its length, then what it is
//         Level own, above;       // a group: another struct, declared once for several kernels
//     };
//     SDF_KERNEL(NAME, KIND, i) { ... a.points[3 * i] ... }
//
// The body runs for each index i of 0 .. n - 1, with the arguments `a`, in any order. A length is a product of whole
// numbers: in Python's terms, of numbers of the same struct, or of other words. Arrays of a struct whose lengths share
// such a word are equally long.
//
// KIND
//   PLAIN   on a GPU a thread an index; the CPU's threads take chunks of indices
//   SIMD    the same, compiled for the CPU once for each instruction set: loops that the compiler turns into lanes
//   LANES   the CPU has NAME_lanes(a, first, last), written in lanes, once for each instruction set (cpu/simd.cpp)
//   CHUNKS  the CPU has NAME_chunk(a, first, last) (cpu/)
//   WARP    on a GPU alone, by whole warps (base/warp.h)
//   GRID    on a GPU alone, by n threads, or as many as it runs at a time if these are fewer (base/grid.h)
//
// Whoever compiles kernels defines SDF_ENTRY_<KIND>, how one is called from outside: base/launch.h, cpu/entry.cpp and
// cpu/simd.cpp, and tests.
#ifndef SDFCLI_BASE_KERNEL_H
#define SDFCLI_BASE_KERNEL_H
#include "base/portable.h"

#define SDF_KERNEL(name, kind, index)                   \
    FN void name##_at(const name##_args& a, u32 index); \
    SDF_ENTRY_##kind(name) FN void name##_at(const name##_args& a, u32 index)

#ifndef SDF_ENTRY_PLAIN
#define SDF_ENTRY_PLAIN(name)
#endif
#ifndef SDF_ENTRY_SIMD
#define SDF_ENTRY_SIMD(name)
#endif
#ifndef SDF_ENTRY_LANES
#define SDF_ENTRY_LANES(name)
#endif
#ifndef SDF_ENTRY_CHUNKS
#define SDF_ENTRY_CHUNKS(name)
#endif
#ifndef SDF_ENTRY_WARP
#define SDF_ENTRY_WARP(name)
#endif
#ifndef SDF_ENTRY_GRID
#define SDF_ENTRY_GRID(name)
#endif

#endif
