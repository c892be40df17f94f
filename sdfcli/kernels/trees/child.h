// Tree node children: an inner node's index, or a marked leaf.
//
// INTERFACE
//   make_leaf, is_leaf, leaf_index  encodes a leaf as a child; tests for a leaf; its index
#ifndef SDFCLI_TREES_CHILD_H
#define SDFCLI_TREES_CHILD_H
#include "base/portable.h"

#define make_leaf(index) (SDF_LEAF | (index))
#define is_leaf(child) ((child) & SDF_LEAF)
#define leaf_index(child) ((child) & ~SDF_LEAF)

#endif
