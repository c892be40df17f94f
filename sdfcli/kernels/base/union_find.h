// Union-find (Rem's algorithm and successors): a root is linked only below a smaller root, so a set's root is its first
// member, whatever the thread order.
//
// INTERFACE
//   root_of  a node's root
//   join     unites two nodes' sets
#ifndef SDFCLI_BASE_UNION_FIND_H
#define SDFCLI_BASE_UNION_FIND_H
#include "base/portable.h"

// Finds the root with path halving. A parent changed by another thread is still an ancestor.
FN u32 root_of(u32* parent, u32 node) {
    for (u32 above = load_relaxed(parent + node); above != node;) {
        u32 next = load_relaxed(parent + above);
        if (next != above) store_relaxed(parent + node, next);
        node = above;
        above = next;
    }
    return node;
}

// Continues from the parent written by another thread, as a relaxed load may return an older value.
FN void join(u32* parent, u32 one, u32 two) {
    for (;;) {
        one = root_of(parent, one), two = root_of(parent, two);
        if (one == two) return;
        u32 low = min_of(one, two), high = max_of(one, two);
        one = compare_and_swap(parent + high, high, low);
        if (one == high) return;
        two = low;
    }
}

#endif
