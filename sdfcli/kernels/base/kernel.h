// Declaration of kernels.
//
//     struct NAME_args {          // the arguments, parsed by backend/arguments.py
//         u32 n;                  // first: index count
//         const float* points;    // [n, 3] an array: its length, then its meaning
//         Level own, above;       // a group: another struct, declared once for several kernels
//     };
//     SDF_KERNEL(NAME, KIND, i) { ... a.points[3 * i] ... }
//
// The body runs for each index i = 0 .. n - 1, in any order, with the arguments `a`. A length is a product of integers,
// Python expressions in the same struct's numbers, and free words. Arrays of a struct that share a free word have equal
// lengths.
//
// KIND
//   PLAIN   GPU: one thread per index; CPU: threads take chunks of indices
//   LARGE   the same for few, long items: CPU threads take single indices
//   SIMD    the same as PLAIN, compiled for each CPU instruction set: loops that the compiler vectorises
//   LANES   CPU: NAME_lanes(a, first, last), vectorised by hand, for each instruction set (cpu/simd.cpp)
//   CHUNKS  CPU: NAME_chunk(a, first, last) (cpu/)
//   WARP    GPU only, whole warps (base/warp.h), in blocks of a fixed size, which share memory
//   SHUFFLE GPU only, whole warps that share no memory, in blocks of any size
//   GRID    GPU only, n threads or as many as are resident together, whichever is fewer (base/grid.h)
//   STEPS   GPU: as GRID; CPU: one thread, which shares its loops with all others (base/steps.h)
//
// SDF_ENTRY_<KIND> defines how a kernel is called from outside: see base/launch.h, cpu/entry.cpp, cpu/simd.cpp and the
// tests.
#ifndef SDFCLI_BASE_KERNEL_H
#define SDFCLI_BASE_KERNEL_H
#include "base/portable.h"

#define SDF_KERNEL(name, kind, index)                   \
    FN void name##_at(const name##_args& a, u32 index); \
    SDF_ENTRY_##kind(name) FN void name##_at(const name##_args& a, u32 index)

#ifndef SDF_ENTRY_PLAIN
#define SDF_ENTRY_PLAIN(name)
#endif
#ifndef SDF_ENTRY_LARGE
#define SDF_ENTRY_LARGE(name)
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
#ifndef SDF_ENTRY_SHUFFLE
#define SDF_ENTRY_SHUFFLE(name)
#endif
#ifndef SDF_ENTRY_STEPS
#define SDF_ENTRY_STEPS(name)
#endif
#ifndef SDF_ENTRY_GRID
#define SDF_ENTRY_GRID(name)
#endif

#endif
