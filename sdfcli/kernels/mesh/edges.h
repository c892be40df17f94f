// Edges of faces with welded vertices, and connectivity across them.
//
// SIDES. Half-edge 3 f + k in face f runs from its corner k to the next one. Each vertex has a bucket of sides: the
// half-edges on the edges that the vertex owns. An edge's owner is the end with fewer corners (in a tie the first), so
// a fan's hub has a small bucket, too. A side is
//     other end << 33 | half-edge << 1 | 1 if it runs to the owner,
// and buckets are sorted. Half-edges between equal vertices have no side.
//
// STATE of a face: SDF_FACE_TURNED if its orientation is reversed, SDF_FACE_LEFT_OUT if it is ignored.
//
// SHELLS. Faces across an edge with two faces are joined (base/union_find.h), so a shell's root is its first face.
// Degenerate faces belong to no shell.
//
// INTERFACE
//   sdf_side_count, sdf_side_enter, sdf_side_sort  build the buckets
//   sdf_edges                                      counts edges by fault, joins faces, marks possible duplicates
//   sdf_faces_listed, sdf_faces_left_out           lists possible duplicates; leaves some out
//   sdf_edges_doubled                              updates counts and joins after some are left out
//   sdf_edges_listed                               lists open edges, and half-edges without a neighbour
//   sdf_edges_alike                                joins faces to neighbours, in both orientations
//   sdf_shell_roots, sdf_shell_number              from joins to consecutive shell numbers
#ifndef SDFCLI_MESH_EDGES_H
#define SDFCLI_MESH_EDGES_H
#include "base/kernel.h"
#include "base/search.h"
#include "base/union_find.h"

// Indices into the counts of `sdf_edges` and `sdf_shell_number`.
enum MeshCount { OPEN_EDGES, NON_MANIFOLD_EDGES, INCONSISTENT_EDGES, LOOSE_SIDES, MAYBE_DOUBLED, SHELLS };

// Maximum number of an edge's uses for which possible duplicates are found by third corners; with more, all uses are
// possible duplicates.
#define SDF_MOST_COMPARED 8

FN u32 next_corner(u32 half_edge) { return half_edge % 3 == 2 ? half_edge - 2 : half_edge + 1; }

FN bool is_degenerate(const u32* welded, u32 face) {
    const u32* corner = welded + 3 * (size_t)face;
    return corner[0] == corner[1] || corner[1] == corner[2] || corner[2] == corner[0];
}

// ---- Sides ----

FN bool owned_by_start(const u32* corners, u32 start, u32 end) {
    u32 from = corners[start], to = corners[end];
    return from < to || (from == to && start < end);
}

struct sdf_side_count_args {
    u32 n;               // half-edges, 3 x faces
    const u32* welded;   // [n]
    const u32* corners;  // [vertices] number of corners at each vertex
    u32* first;          // [vertices + 1] in and out: 0 before; bucket lengths
    u8* maybe_doubled;   // [n // 3] in and out: 0 before; faces without sides
    u32* counts;         // [6] in and out: MAYBE_DOUBLED
};
SDF_KERNEL(sdf_side_count, PLAIN, i) {
    if (!is_degenerate(a.welded, i / 3)) {
        u32 start = a.welded[i], end = a.welded[next_corner(i)];
        atomic_add(a.first + (owned_by_start(a.corners, start, end) ? start : end), 1u);
    } else if (i % 3 == 0) {
        a.maybe_doubled[i / 3] = 1;
        atomic_add(a.counts + MAYBE_DOUBLED, 1u);
    }
}

struct sdf_side_enter_args {
    u32 n;
    const u32* welded;   // [n]
    const u32* corners;  // [vertices]
    u32* first;          // [vertices + 1] in and out: bucket ends; then bucket starts
    u64* side;           // [n] out: each bucket's sides, in any order
};
SDF_KERNEL(sdf_side_enter, PLAIN, i) {
    if (is_degenerate(a.welded, i / 3)) return;
    u32 start = a.welded[i], end = a.welded[next_corner(i)];
    bool to_owner = !owned_by_start(a.corners, start, end);
    u32 place = atomic_add(a.first + (to_owner ? end : start), SDF_NONE) - 1;  // adds -1
    a.side[place] = (u64)(to_owner ? start : end) << 33 | (u64)i << 1 | to_owner;
}

template <class T>
FN void sift_down(T* heap, u32 n, u32 at) {
    T moved = heap[at];
    for (u32 child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child] < heap[child + 1]) child++;
        if (heap[child] <= moved) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

template <class T>
FN void sort_few(T* values, u32 n) {
    if (n <= 32) {
        for (u32 i = 1; i < n; i++) {
            T moved = values[i];
            u32 at = i;
            for (; at > 0 && values[at - 1] > moved; at--) values[at] = values[at - 1];
            values[at] = moved;
        }
        return;
    }
    for (u32 at = n / 2; at-- > 0;) sift_down(values, n, at);
    for (u32 last = n - 1; last > 0; last--) {
        T largest = values[0];
        values[0] = values[last];
        values[last] = largest;
        sift_down(values, last, 0);
    }
}

struct sdf_side_sort_args {
    u32 n;             // vertices
    const u32* first;  // [n + 1]
    u64* side;         // [sides] in and out
};
SDF_KERNEL(sdf_side_sort, PLAIN, i) { sort_few(a.side + a.first[i], a.first[i + 1] - a.first[i]); }

// ---- Edges ----

// An edge's uses by faces that count: their number, the number starting at the owner less the number ending there, and
// the first two half-edges.
struct EdgeUses {
    u32 many;
    int balance;
    u32 half_edge[2];
    METHOD bool pair() const { return many == 2; }
    METHOD bool alike() const { return many == 2 && balance == 0; }
};

FN u32 half_edge_of(u64 side) { return (u32)(side >> 1); }
FN u32 state_of(const u8* state, u32 face) { return state ? state[face] : 0; }

// Uses of the edge at index k of a bucket's sides, which end at `end`; k moves to the next edge.
FN EdgeUses uses_at(const u64* side, const u8* state, u32& k, u32 end) {
    EdgeUses uses = {0, 0, {0, 0}};
    u64 other = side[k] >> 33;
    for (; k < end && side[k] >> 33 == other; k++) {
        u32 half_edge = half_edge_of(side[k]);
        u32 own = state_of(state, half_edge / 3);
        if (own & SDF_FACE_LEFT_OUT) continue;
        if (uses.many < 2) uses.half_edge[uses.many] = half_edge;
        uses.many++;
        uses.balance += ((side[k] & 1) ^ (own & SDF_FACE_TURNED)) ? -1 : 1;
    }
    return uses;
}

// Marks faces at one edge's sides first .. last - 1 that may have the same corners as another face.
FN u32 mark_doubled(const u64* side, u32 first, u32 last, const u32* welded, u8* maybe_doubled) {
    u32 found = 0;
    for (u32 k = first; k < last; k++) {
        u32 own = half_edge_of(side[k]);
        bool may_be = last - first > SDF_MOST_COMPARED;
        for (u32 other = first; other < last && !may_be; other++) {
            u32 half_edge = half_edge_of(side[other]);
            may_be = half_edge / 3 != own / 3 &&
                     welded[next_corner(next_corner(half_edge))] == welded[next_corner(next_corner(own))];
        }
        if (may_be) store_relaxed(maybe_doubled + own / 3, (u8)1);
        found += may_be;
    }
    return found;
}

// ---- Shells ----

// Adds an edge's faults to the counts, `times` times; SDF_NONE subtracts them.
FN void count_edge(u32* count, const EdgeUses& uses, u32 times) {
    count[OPEN_EDGES] += times * (uses.balance != 0);
    count[NON_MANIFOLD_EDGES] += times * (uses.many > 2);
    count[INCONSISTENT_EDGES] += times * (uses.pair() && !uses.alike());
    count[LOOSE_SIDES] += times * (uses.alike() ? 0 : uses.many);
}
FN void add_counts(u32* counts, const u32* count, int many) {
    for (int k = 0; k < many; k++)
        if (count[k]) atomic_add(counts + k, count[k]);
}

struct sdf_edges_args {
    u32 n;              // vertices
    const u32* first;   // [n + 1]
    const u64* side;    // [3, faces]
    const u32* welded;  // [3, faces]; null: duplicates are not searched
    const u8* state;    // [faces]; null: all faces count as they are
    u32* parent;        // [faces] in and out: union-find over faces, initially each its own; null: none
    u8* maybe_doubled;  // [faces] in and out: 0 before; for all faces, including ignored ones
    u8* marked;         // [n] out: whether the vertex owns an edge with loose sides
    u32* counts;        // [6] in and out: 0 before; see MeshCount
};
SDF_KERNEL(sdf_edges, PLAIN, i) {
    u32 count[5] = {0, 0, 0, 0, 0};
    for (u32 k = a.first[i], end = a.first[i + 1]; k < end;) {
        u32 begin = k;
        EdgeUses uses = uses_at(a.side, a.state, k, end);
        count_edge(count, uses, 1);
        if (a.parent && uses.pair()) join(a.parent, uses.half_edge[0] / 3, uses.half_edge[1] / 3);
        if (a.welded && k - begin > 1)
            count[MAYBE_DOUBLED] += mark_doubled(a.side, begin, k, a.welded, a.maybe_doubled);
    }
    a.marked[i] = count[LOOSE_SIDES] > 0;
    add_counts(a.counts, count, 5);
}

struct sdf_faces_listed_args {
    u32 n;                    // faces
    const u8* maybe_doubled;  // [n]
    const u32* welded;        // [n, 3]
    u32* list;                // [most, 4] out, in any order: possible duplicates, and their corners
    u32* listed;              // [1] in and out: 0 before
};
SDF_KERNEL(sdf_faces_listed, PLAIN, i) {
    if (!a.maybe_doubled[i]) return;
    u32* entry = a.list + 4 * (size_t)atomic_add(a.listed, 1u);
    entry[0] = i;
    for (int k = 0; k < 3; k++) entry[k + 1] = a.welded[3 * (size_t)i + k];
}

// Leaves out some possible duplicates. Before, each was connected to its duplicates at most: it becomes its own root
// again.
struct sdf_faces_left_out_args {
    u32 n;              // possible duplicates
    const u32* list;    // [n, 4] from sdf_faces_listed
    u32 many;           // number of left out faces, at most n
    const u32* chosen;  // [many] left out faces
    u8* state;          // [faces] in and out: 0 before
    u32* parent;        // [faces] in and out
};
SDF_KERNEL(sdf_faces_left_out, PLAIN, i) {
    u32 face = a.list[4 * (size_t)i];
    a.parent[face] = face;
    if (i < a.many) a.state[a.chosen[i]] = SDF_FACE_LEFT_OUT;
}

// Updates the counts and joins from sdf_edges after some possible duplicates are left out: recomputes these faces'
// edges, each by its first such face.
struct sdf_edges_doubled_args {
    u32 n;                    // half-edges of possible duplicates
    const u32* list;          // [n // 3, 4] these faces, and their corners
    const u32* welded;        // [3, faces]
    const u32* corners;       // [vertices]
    const u32* first;         // [vertices + 1]
    const u64* side;          // [3, faces]
    const u8* maybe_doubled;  // [faces]
    const u8* state;          // [faces]
    u32* parent;              // [faces] in and out
    u8* marked;               // [vertices] in and out
    u32* counts;              // [6] in and out
};
SDF_KERNEL(sdf_edges_doubled, PLAIN, i) {
    u32 half_edge = 3 * a.list[4 * (size_t)(i / 3)] + i % 3, start = a.welded[half_edge],
        end = a.welded[next_corner(half_edge)];
    if (is_degenerate(a.welded, half_edge / 3)) return;
    bool from_owner = owned_by_start(a.corners, start, end);
    u32 owner = from_owner ? start : end, other = from_owner ? end : start, last = a.first[owner + 1];
    u32 begin = a.first[owner];
    begin += lower_bound(a.side + begin, last - begin, (u64)other << 33);
    u32 k = begin;
    while (!a.maybe_doubled[half_edge_of(a.side[k]) / 3]) k++;
    if (half_edge_of(a.side[k]) != half_edge) return;
    u32 count[4] = {0, 0, 0, 0};
    count_edge(count, uses_at(a.side, (const u8*)0, k = begin, last), SDF_NONE);
    EdgeUses uses = uses_at(a.side, a.state, k = begin, last);
    count_edge(count, uses, 1);
    if (uses.pair()) join(a.parent, uses.half_edge[0] / 3, uses.half_edge[1] / 3);
    if (!uses.alike()) store_relaxed(a.marked + owner, (u8)1);
    add_counts(a.counts, count, 4);
}

struct sdf_edges_listed_args {
    u32 n;              // vertices
    const u8* marked;   // [n] from sdf_edges
    const u32* first;   // [n + 1]
    const u64* side;    // [3, faces]
    const u8* state;    // [faces]; null: see sdf_edges
    const u32* welded;  // [faces, 3]
    const u32* shell;   // [faces]
    u64* open_edge;     // [open] out, in any order: low end << 32 | high end
    int* excess;        // [open] out: number of its uses from the low to the high end less the number back
    u32* loose;   // [loose, 4] out, in any order: half-edges without a consistently oriented neighbour; their start
                  // and end vertices, and shells
    u32* listed;  // [2] in and out: 0 before
};
SDF_KERNEL(sdf_edges_listed, PLAIN, i) {
    if (!a.marked[i]) return;
    for (u32 k = a.first[i], end = a.first[i + 1]; k < end;) {
        u32 begin = k, other = (u32)(a.side[k] >> 33);
        EdgeUses uses = uses_at(a.side, a.state, k, end);
        if (uses.balance != 0) {
            u32 place = atomic_add(a.listed, 1u);
            a.open_edge[place] = (u64)min_of(i, other) << 32 | max_of(i, other);
            a.excess[place] = i < other ? uses.balance : -uses.balance;
        }
        for (u32 at = begin; at < k && !uses.alike(); at++) {
            u32 half_edge = half_edge_of(a.side[at]), face = half_edge / 3, state = state_of(a.state, face);
            if (state & SDF_FACE_LEFT_OUT) continue;
            u32* loose = a.loose + 4 * (size_t)atomic_add(a.listed + 1, 1u);
            u32 start = a.welded[half_edge], end = a.welded[next_corner(half_edge)];
            bool turned = state & SDF_FACE_TURNED;
            loose[0] = half_edge;
            loose[1] = turned ? end : start;
            loose[2] = turned ? start : end;
            loose[3] = a.shell[face];
        }
    }
}

// A graph with two nodes per face: as it is, and reversed (index plus the face count).
struct sdf_edges_alike_args {
    u32 n;  // vertices
    u32 faces;
    const u32* first;  // [n + 1]
    const u64* side;   // [3, faces]
    const u8* state;   // [faces]; null: see sdf_edges
    u32 cracks;
    const u64* crack;  // [cracks] ascending: edges, low end << 32 | high end, across which faces may disagree
    u32* parent;       // [2, faces] in and out: initially each its own
};
SDF_KERNEL(sdf_edges_alike, PLAIN, i) {
    for (u32 k = a.first[i], end = a.first[i + 1]; k < end;) {
        u32 other = (u32)(a.side[k] >> 33);
        EdgeUses uses = uses_at(a.side, a.state, k, end);
        if (!uses.pair()) continue;
        u64 edge = (u64)min_of(i, other) << 32 | max_of(i, other);
        u32 place = uses.alike() ? a.cracks : lower_bound(a.crack, a.cracks, edge);
        if (place < a.cracks && a.crack[place] == edge) continue;
        u32 one = uses.half_edge[0] / 3, two = uses.half_edge[1] / 3;
        join(a.parent, one, uses.alike() ? two : two + a.faces);
        join(a.parent, one + a.faces, uses.alike() ? two + a.faces : two);
    }
}

FN bool in_shell(const u8* state, const u32* welded, u32 face) {
    return !(state_of(state, face) & SDF_FACE_LEFT_OUT) && !is_degenerate(welded, face);
}

struct sdf_shell_roots_args {
    u32 n;              // nodes
    const u8* state;    // [n]; null: see sdf_edges
    const u32* welded;  // [n, 3]; null where `number` is
    u32* parent;        // [n] in and out: then each node's root
    u32* number;        // [n] out: 1 for the root of a shell with faces that count, else 0; null: not needed
};
SDF_KERNEL(sdf_shell_roots, PLAIN, i) {
    u32 root = i;  // without root_of, which would overwrite other threads' results
    for (u32 above = load_relaxed(a.parent + i); above != root; above = load_relaxed(a.parent + root)) root = above;
    store_relaxed(a.parent + i, root);
    if (a.number) a.number[i] = root == i && in_shell(a.state, a.welded, i);
}

struct sdf_shell_number_args {
    u32 n;              // faces
    const u8* state;    // [n]; null: see sdf_edges
    const u32* welded;  // [n, 3]
    const u32* parent;  // [n] roots
    const u32* number;  // [n] inclusive prefix sums of sdf_shell_roots' numbers
    u32* shell;         // [n] out: shell numbers, SDF_NONE for a face outside all shells
    u32* counts;        // [6] out: SHELLS
};
SDF_KERNEL(sdf_shell_number, PLAIN, i) {
    a.shell[i] = in_shell(a.state, a.welded, i) ? a.number[a.parent[i]] - 1 : SDF_NONE;
    if (i == a.n - 1) a.counts[SHELLS] = a.number[i];
}

#endif
