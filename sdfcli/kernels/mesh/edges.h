// The edges of faces with welded vertices, and what hangs together across them.
//
// SIDES. Half-edge 3 f + k of face f runs from its corner k to the next one. A bucket for each vertex holds sides: the
// half-edges of the edges that the vertex owns. Of an edge's two ends the one with fewer corners owns it (of equal ones
// the first), so that the hub of a fan has a small bucket, too. A side is
//     other end << 33 | half-edge << 1 | whether it runs to the owner,
// and buckets are sorted. Half-edges between equal vertices have no side.
//
// STATE of a face: SDF_FACE_TURNED where its corners count in the other order, SDF_FACE_LEFT_OUT where it does not
// count.
//
// SHELLS. Faces across an edge of two faces are joined (base/union_find.h), so that the root of a shell is its first
// face. Degenerate faces are in none.
//
// INTERFACE
//   sdf_side_count, sdf_side_enter, sdf_side_sort  make the buckets
//   sdf_edges                                      counts edges by fault, joins faces, marks faces that may be doubled
//   sdf_faces_listed, sdf_faces_left_out           lists those; leaves some of them out
//   sdf_edges_doubled                              counts and joins anew where some are left out
//   sdf_edges_listed                               lists open edges, and half-edges without a neighbour
//   sdf_edges_alike                                joins faces to neighbours, as they are and turned
//   sdf_shell_roots, sdf_shell_number              from joins to consecutive numbers of shells
#ifndef SDFCLI_MESH_EDGES_H
#define SDFCLI_MESH_EDGES_H
#include "base/kernel.h"
#include "base/search.h"
#include "base/union_find.h"

// Places in the counts of `sdf_edges` and `sdf_shell_number`.
enum MeshCount { OPEN_EDGES, NON_MANIFOLD_EDGES, INCONSISTENT_EDGES, LOOSE_SIDES, MAYBE_DOUBLED, SHELLS };

// Uses of an edge up to which faces that may be doubled are told by their third corners; with more, all of them may be.
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
    const u32* corners;  // [vertices] how often each vertex is a corner
    u32* first;          // [vertices + 1] in and out: 0 before; the lengths of the buckets
    u8* maybe_doubled;   // [n // 3] in and out: 0 before; the faces without sides
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
    u32* first;          // [vertices + 1] in and out: the ends of the buckets; then where they begin
    u64* side;           // [n] out: the sides of each bucket, in any order
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

// The uses of an edge by faces that count: their number, how many more start at the owner than end there, and the first
// two half-edges.
struct EdgeUses {
    u32 many;
    int balance;
    u32 half_edge[2];
    METHOD bool pair() const { return many == 2; }
    METHOD bool alike() const { return many == 2 && balance == 0; }
};

FN u32 half_edge_of(u64 side) { return (u32)(side >> 1); }
FN u32 state_of(const u8* state, u32 face) { return state ? state[face] : 0; }

// The uses of the edge at place k of the sides of a bucket that ends at `end`; k moves to the next edge.
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

// Marks the faces at sides first .. last - 1, which are of one edge, that may have the same corners as another one.
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

// Adds the faults of an edge to counts, `times` once; SDF_NONE takes them away.
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
    const u32* welded;  // [3, faces]; null where no doubled faces are searched
    const u8* state;    // [faces]; null where all faces count as they are
    u32* parent;        // [faces] in and out: of the union-find over faces, each its own before; null: none
    u8* maybe_doubled;  // [faces] in and out: 0 before; of all faces, whether they count or not
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
    u32* list;                // [most, 4] out, in any order: faces that may be doubled, and their corners
    u32* listed;              // [1] in and out: 0 before
};
SDF_KERNEL(sdf_faces_listed, PLAIN, i) {
    if (!a.maybe_doubled[i]) return;
    u32* entry = a.list + 4 * (size_t)atomic_add(a.listed, 1u);
    entry[0] = i;
    for (int k = 0; k < 3; k++) entry[k + 1] = a.welded[3 * (size_t)i + k];
}

// Leaves some of the faces that may be doubled out. Before, each of them hung together with its doubles alone, if at
// all: it is its own root again.
struct sdf_faces_left_out_args {
    u32 n;              // faces that may be doubled
    const u32* list;    // [n, 4] as sdf_faces_listed makes it
    u32 many;           // how many are left out, at most n
    const u32* chosen;  // [many] these
    u8* state;          // [faces] in and out: 0 before
    u32* parent;        // [faces] in and out
};
SDF_KERNEL(sdf_faces_left_out, PLAIN, i) {
    u32 face = a.list[4 * (size_t)i];
    a.parent[face] = face;
    if (i < a.many) a.state[a.chosen[i]] = SDF_FACE_LEFT_OUT;
}

// What sdf_edges does where some of the faces that may be doubled are left out, from the counts and joins of all faces:
// edges of such faces are looked at anew, each by the first of these faces.
struct sdf_edges_doubled_args {
    u32 n;                    // half-edges of faces that may be doubled
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
    const u8* marked;   // [n] as sdf_edges marks them
    const u32* first;   // [n + 1]
    const u64* side;    // [3, faces]
    const u8* state;    // [faces]; null: see sdf_edges
    const u32* welded;  // [faces, 3]
    const u32* shell;   // [faces]
    u64* open_edge;     // [open] out, in any order: low end << 32 | high end
    int* excess;        // [open] out: how many more of its uses run from the low to the high end than back
    u32* loose;         // [loose, 4] out, in any order: half-edges without a neighbour whose orientation agrees; the
                        // vertices from which and to which they run, and their shells
    u32* listed;        // [2] in and out: 0 before
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

// A graph of two nodes for each face: as it is, and turned (plus the number of faces).
struct sdf_edges_alike_args {
    u32 n;  // vertices
    u32 faces;
    const u32* first;  // [n + 1]
    const u64* side;   // [3, faces]
    const u8* state;   // [faces]; null: see sdf_edges
    u32 cracks;
    const u64* crack;  // [cracks] ascending: edges, low end << 32 | high end, across which faces may disagree
    u32* parent;       // [2, faces] in and out: each its own before
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
    u32* parent;        // [n] in and out: then each one's root
    u32* number;        // [n] out: 1 for the root of a shell of faces that count, else 0; null: not wanted
};
SDF_KERNEL(sdf_shell_roots, PLAIN, i) {
    u32 root = i;  // not by root_of, which would replace what another thread has written
    for (u32 above = load_relaxed(a.parent + i); above != root; above = load_relaxed(a.parent + root)) root = above;
    store_relaxed(a.parent + i, root);
    if (a.number) a.number[i] = root == i && in_shell(a.state, a.welded, i);
}

struct sdf_shell_number_args {
    u32 n;              // faces
    const u8* state;    // [n]; null: see sdf_edges
    const u32* welded;  // [n, 3]
    const u32* parent;  // [n] roots
    const u32* number;  // [n] the running sums of sdf_shell_roots'
    u32* shell;         // [n] out: numbers of shells, SDF_NONE for a face that is in none
    u32* counts;        // [6] out: SHELLS
};
SDF_KERNEL(sdf_shell_number, PLAIN, i) {
    a.shell[i] = in_shell(a.state, a.welded, i) ? a.number[a.parent[i]] - 1 : SDF_NONE;
    if (i == a.n - 1) a.counts[SHELLS] = a.number[i];
}

#endif
