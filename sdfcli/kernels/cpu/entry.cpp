// CPU entry points: a C interface, NAME(args, threads) for each kernel.
#include "cpu/instructions.h"
#include "cpu/threads.h"

#define SDF_CHUNK 1024  // indices per chunk; less work never justifies a thread

#if defined(_WIN32)
#define SDF_EXPORT extern "C" __declspec(dllexport)
#else
#define SDF_EXPORT extern "C"
#endif

// Separate from the lambda below, which would reload `a` for each index.
template <class Args, class At>
static void each(const Args& a, u32 first, u32 last, const At& at) {
    for (u32 i = first; i < last; i++) at(a, i);
}

#define SDF_ENTRY_PLAIN(name)                                                                                      \
    SDF_EXPORT void name(const name##_args* a, int threads) {                                                      \
        parallel_chunks(a->n, SDF_CHUNK, threads, [a](u32 first, u32 last) { each(*a, first, last, name##_at); }); \
    }
#define SDF_ENTRY_LARGE(name)                                                                              \
    SDF_EXPORT void name(const name##_args* a, int threads) {                                              \
        parallel_chunks(a->n, 1, threads, [a](u32 first, u32 last) { each(*a, first, last, name##_at); }); \
    }
#define SDF_ENTRY_CHUNKS(name)                                                                                  \
    FN void name##_chunk(const name##_args& a, u32 first, u32 last);                                            \
    SDF_EXPORT void name(const name##_args* a, int threads) {                                                   \
        parallel_chunks(a->n, SDF_CHUNK, threads, [a](u32 first, u32 last) { name##_chunk(*a, first, last); }); \
    }
// cpu/simd.cpp, compiled for each instruction set. The bits agree, since nothing contracts multiply-add.
#if defined(__x86_64__)
#define SDF_WIDEST(name) (instructions.avx512 ? name##_avx512 : instructions.avx2 ? name##_avx2 : name##_plain)
#else
#define SDF_WIDEST(name) name##_plain
#endif
#define SDF_ENTRY_SIMD(name)                                                                             \
    struct name##_args;                                                                                  \
    extern "C" void name##_plain(const name##_args& a, u32 first, u32 last);                             \
    extern "C" void name##_avx2(const name##_args& a, u32 first, u32 last);                              \
    extern "C" void name##_avx512(const name##_args& a, u32 first, u32 last);                            \
    SDF_EXPORT void name(const name##_args* a, int threads) {                                            \
        auto run = SDF_WIDEST(name);                                                                     \
        u32 n = *(const u32*)a;                                                                          \
        parallel_chunks(n, SDF_CHUNK, threads, [a, run](u32 first, u32 last) { run(*a, first, last); }); \
    }
#define SDF_ENTRY_LANES SDF_ENTRY_SIMD
#define SDF_ENTRY_STEPS(name) \
    SDF_EXPORT void name(const name##_args* a, int threads) { name##_at(*a, (u32)threads); }

#include "base/arrays.h"
#include "base/bytes.h"
#include "base/scan.h"
#include "base/sort.h"
#include "contact/deepest.h"
#include "contact/pieces.h"
#include "contact/spheres.h"
#include "cpu/points.h"
#include "cpu/sample.h"
#include "cpu/scratch.h"
#include "distance/closest.h"
#include "distance/packet.h"
#include "distance/points.h"
#include "distance/rays.h"
#include "distance/stack.h"
#include "distance/traffic.h"
#include "distance/within.h"
#include "field/blocks.h"
#include "field/leaf_corners.h"
#include "field/leaf_tree.h"
#include "field/quantise.h"
#include "field/sample.h"
#include "field/warm_start.h"
#include "flow/buckets.h"
#include "flow/slabs.h"
#include "flow/step.h"
#include "geometry/hilbert.h"
#include "geometry/morton.h"
#include "mesh/edges.h"
#include "mesh/faces.h"
#include "mesh/given.h"
#include "mesh/ply.h"
#include "mesh/text.h"
#include "mesh/weld.h"
#include "neighbours/exact.h"
#include "neighbours/shifted.h"
#include "neighbours/triangles.h"
#include "octree/assemble.h"
#include "octree/balance.h"
#include "octree/cells.h"
#include "octree/open.h"
#include "octree/refine.h"
#include "octree/sheets.h"
#include "sign/caps.h"
#include "sign/corners.h"
#include "sign/crossing.h"
#include "sign/inherit.h"
#include "sign/lattice.h"
#include "sign/link.h"
#include "sign/pseudonormal.h"
#include "sign/weighted_normals.h"
#include "solid/flood.h"
#include "solid/passages.h"
#include "solid/surface.h"
#include "surface/balls.h"
#include "surface/compared.h"
#include "surface/marching_cubes.h"
#include "surface/metaballs.h"
#include "surface/proven.h"
#include "surface/render.h"
#include "surface/sharp.h"
#include "surface/wall_picture.h"
#include "trees/order.h"
#include "trees/packed.h"
#include "trees/radix.h"
#include "trees/wide.h"
#include "trees/wide_order.h"
#include "uniform/grid.h"
#include "uniform/jump_flood.h"
#include "verify/drawn.h"
#include "verify/exact.h"
#include "verify/hausdorff.h"
#include "verify/prove.h"
#include "verify/thickness.h"
#include "verify/walls.h"
#include "winding/moments.h"
#include "winding/thread.h"
#include "winding/warp.h"

#include "cpu/steps.h"
#include "octree/finish.h"
#include "octree/growth.h"
#include "octree/settle.h"
#include "trees/ploc.h"

SDF_ENTRY_LANES(sdf_distance_wide)
SDF_ENTRY_LANES(sdf_nearest_triangles_wide)

SDF_EXPORT void sdf_wide_order(const sdf_wide_order_args* a, int threads) {
    wide_order(*a, [threads](u32 n, const auto& each) {
        parallel_chunks(n, 1, threads, [&each](u32 first, u32) { each(first); });
    });
}
