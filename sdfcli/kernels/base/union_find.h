// Union-find (Rem's and later algorithms): roots only ever hang below smaller ones, so that the root of a set is its
// first member, whatever the order of threads.
//
// INTERFACE
//   root_of  the root of a node
//   join     makes the sets of two nodes one
#ifndef SDFCLI_BASE_UNION_FIND_H
#define SDFCLI_BASE_UNION_FIND_H
#include "base/portable.h"

// The root of a node, with paths halved. A parent that another thread has changed meanwhile is an ancestor, too.
FN u32 root_of(u32* parent, u32 node) {
    for (u32 above = load_relaxed(parent + node); above != node;) {
        u32 next = load_relaxed(parent + above);
        if (next != above) store_relaxed(parent + node, next);
        node = above;
        above = next;
    }
    return node;
}

// Goes on from the parent that another thread has written: a load may see what was there before.
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
