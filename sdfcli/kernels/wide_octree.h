// The octree's kernels whose loops over 27 points the compiler turns into lanes: the CPU has them once for each
// instruction set.
#ifndef SDFCLI_WIDE_OCTREE_H
#define SDFCLI_WIDE_OCTREE_H
#include "octree.h"

#define SDF_WIDE_OCTREE(X) \
    X(octree_screen)       \
    X(octree_peek)         \
    X(octree_test)         \
    X(octree_tighten)      \
    X(sign_inherit)

#endif
