// All kernels. SDF_KERNELS(X) is the one list of them: the CPU and the GPU entry points come from it.
#ifndef SDFCLI_KERNELS_H
#define SDFCLI_KERNELS_H
#include "args.h"
#include "crossing.h"
#include "distance.h"
#include "exact.h"
#include "octree.h"
#include "pseudonormal.h"
#include "sample.h"
#include "winding.h"

#define SDF_KERNELS(X)       \
    X(sdf_morton)            \
    X(sdf_hilbert)           \
    X(sdf_bvh_build)         \
    X(sdf_bvh_refit)         \
    X(sdf_wide_build)        \
    X(sdf_distance_cct)      \
    X(sdf_closest)           \
    X(sdf_winding_moments)   \
    X(sdf_winding)           \
    X(sdf_pseudonormal)      \
    X(sdf_crossing)          \
    X(sdf_octree_children)   \
    X(sdf_octree_neighbours) \
    X(sdf_octree_own)        \
    X(sdf_octree_points)     \
    X(sdf_octree_share)      \
    X(sdf_gradient)          \
    X(sdf_octree_screen)     \
    X(sdf_octree_peek)       \
    X(sdf_octree_test)       \
    X(sdf_octree_density)    \
    X(sdf_octree_constrain)  \
    X(sdf_octree_tighten)    \
    X(sdf_sign_inherit)      \
    X(sdf_field_corners)     \
    X(sdf_field_sample)      \
    X(sdf_exact_distance)    \
    X(sdf_exact_winding)

#ifdef __CUDACC_RTC__
#define SDF_GPU_ENTRY(name)                                    \
    extern "C" __global__ void name(name##_args a) {           \
        u32 i = blockIdx.x * blockDim.x + threadIdx.x;         \
        if (i < a.n) name##_at(a, i);                          \
    }
SDF_KERNELS(SDF_GPU_ENTRY)
#endif

#endif
