// Children of a tree's nodes: the number of an inner node, or a marked leaf.
//
// INTERFACE
//   make_leaf, is_leaf, leaf_index  a leaf's number as a child; whether a child is a leaf; which one
#ifndef SDFCLI_TREES_CHILD_H
#define SDFCLI_TREES_CHILD_H
#include "base/portable.h"

#define make_leaf(index) (SDF_LEAF | (index))
#define is_leaf(child) ((child) & SDF_LEAF)
#define leaf_index(child) ((child) & ~SDF_LEAF)

#endif
