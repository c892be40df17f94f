// GPU entry points for the kernels in the header that follows (backend/cuda/kernels.py places this text before it).
#undef SDF_ENTRY_PLAIN
#undef SDF_ENTRY_LARGE
#undef SDF_ENTRY_SIMD
#undef SDF_ENTRY_LANES
#undef SDF_ENTRY_CHUNKS
#undef SDF_ENTRY_WARP
#undef SDF_ENTRY_SHUFFLE
#undef SDF_ENTRY_GRID
#undef SDF_ENTRY_STEPS

#define SDF_ENTRY_PLAIN(name)                          \
    extern "C" __global__ void name(name##_args a) {   \
        u32 i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i < a.n) name##_at(a, i);                  \
    }
#define SDF_ENTRY_LARGE SDF_ENTRY_PLAIN
#define SDF_ENTRY_SIMD SDF_ENTRY_PLAIN
#define SDF_ENTRY_LANES SDF_ENTRY_PLAIN
#define SDF_ENTRY_CHUNKS SDF_ENTRY_PLAIN
#define SDF_ENTRY_SHUFFLE SDF_ENTRY_PLAIN
// At most 64 registers: more would lower occupancy, and hide less latency.
#define SDF_ENTRY_WARP(name)                                                                    \
    extern "C" __global__ void __launch_bounds__(32 * SDF_BLOCK_WARPS, 8) name(name##_args a) { \
        u32 i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
        if (i < a.n) name##_at(a, i);                                                           \
    }
#define SDF_ENTRY_GRID(name)                                                                    \
    extern "C" __global__ void __launch_bounds__(32 * SDF_BLOCK_WARPS, 2) name(name##_args a) { \
        name##_at(a, blockIdx.x * blockDim.x + threadIdx.x);                                    \
    }
#define SDF_ENTRY_STEPS SDF_ENTRY_GRID
