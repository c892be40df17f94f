// Exact nearest neighbours in float64: traverses an implicit tree of boxes over vectors in curve order, starting from
// known neighbours, so that the search radius is nearly final from the start.
//
// INTERFACE
//   sdf_neighbour_boxes  one level's boxes
//   sdf_neighbours, sdf_neighbours_many  the k nearest; _many for k above 8
//   sdf_neighbours_within                all within a radius
#ifndef SDFCLI_NEIGHBOURS_EXACT_H
#define SDFCLI_NEIGHBOURS_EXACT_H
#include "base/kernel.h"
#include "neighbours/list.h"
#include "neighbours/vectors.h"

struct sdf_neighbour_boxes_args {
    u32 n;  // nodes
    u32 dimension;
    u32 below;            // vectors, or nodes on the level below
    u32 together;         // children per node
    const double* lower;  // [below, dimension] minimum coordinates
    const double* upper;  // [below, dimension] maximum coordinates
    double* least;        // [n, dimension] out
    double* most;         // [n, dimension] out
};
SDF_KERNEL(sdf_neighbour_boxes, PLAIN, i) {
    u32 first = i * a.together, last = min_of(first + a.together, a.below);
    for (u32 k = 0; k < a.dimension; k++) {
        size_t out = a.dimension * (size_t)i + k;
        double least = a.lower[a.dimension * (size_t)first + k], most = a.upper[a.dimension * (size_t)first + k];
        for (u32 j = first + 1; j < last; j++) {
            least = min_of(least, a.lower[a.dimension * (size_t)j + k]);
            most = max_of(most, a.upper[a.dimension * (size_t)j + k]);
        }
        a.least[out] = least;
        a.most[out] = most;
    }
}

struct sdf_neighbours_args {
    u32 n;  // queries
    u32 data;
    u32 dimension;
    u32 k;                 // 1 to 8; up to 32 for sdf_neighbours_many
    u32 known;             // initial neighbours per query
    u32 levels;            // node levels; 0: only known neighbours are measured
    u32 leaf;              // vectors per leaf
    const double* query;   // [n, dimension]
    const double* vector;  // [data, dimension] in curve order
    const u32* number;     // [data] index of each vector
    const u32* slot;       // [data] position in curve order by index
    const u32* count;      // [levels] nodes per level, from the leaves up
    const u32* first;      // [levels + 1] first node of each level
    const double* least;   // [nodes, dimension] boxes
    const double* most;    // [nodes, dimension]
    const u32* start;      // [n, known] indices; SDF_NONE where fewer exist
    double* distance;      // [n, k] out: sorted; infinite where fewer exist
    u32* nearest;          // [n, k] out: indices, SDF_NONE where fewer exist
};
// A lower bound that never exceeds, by rounding, a vector's distance in the box: the same operations on smaller
// numbers.
template <int d>
FN double vector_box_distance_sq(const double* p, const double* least, const double* most) {
    double sum = 0;
    UNROLL
    for (int k = 0; k < d; k++) {
        double off = max_of(max_of(least[k] - p[k], p[k] - most[k]), 0.);
        sum += off * off;
    }
    return sum;
}
// Visits the leaves whose boxes are near: calls test(slot) for their vectors. near: takes a box's squared distance.
template <int size, class Args, class Near, class Test>
FN void walk_vectors(const Args& a, const double* query, const Near& near, const Test& test) {
    for (u32 node = 0, level = a.levels; level > 0 && node < a.count[level - 1];) {
        size_t box = size * (size_t)(a.first[level - 1] + node);
        if (near(vector_box_distance_sq<size>(query, a.least + box, a.most + box))) {
            if (level > 1) {
                level--;
                node *= SDF_VECTORS_ABREAST;
                continue;
            }
            u32 last = min_of((node + 1) * a.leaf, a.data);
            for (u32 slot = node * a.leaf; slot < last; slot++) test(slot);
        }
        for (node++; level < a.levels && node % SDF_VECTORS_ABREAST == 0; level++) node /= SDF_VECTORS_ABREAST;
    }
}
template <int room>
FN void nearest_neighbours(const sdf_neighbours_args& a, u32 i) {
    with_dimension(a.dimension, [&](auto d) {
        constexpr int size = decltype(d)::value;
        NeighbourList<double, room> list;
        list.start(a.k);
        double query[size];
        for (int k = 0; k < size; k++) query[k] = a.query[size * (size_t)i + k];
        for (u32 j = 0; j < a.known; j++) {
            u32 number = a.start[a.known * (size_t)i + j];
            if (number == SDF_NONE) break;
            list.offer(vector_distance_sq<double, size>(a.vector + size * (size_t)a.slot[number], query), number);
        }
        auto near = [&](double box_sq) { return box_sq <= list.reach(); };
        walk_vectors<size>(a, query, near, [&](u32 slot) {
            list.offer(vector_distance_sq<double, size>(a.vector + size * (size_t)slot, query), a.number[slot]);
        });
        list.store(a.k, a.distance + a.k * (size_t)i, a.nearest + a.k * (size_t)i);
        for (u32 j = 0; j < a.k; j++) a.distance[a.k * (size_t)i + j] = sqrt(a.distance[a.k * (size_t)i + j]);
    });
}
SDF_KERNEL(sdf_neighbours, PLAIN, i) { nearest_neighbours<8>(a, i); }
using sdf_neighbours_many_args = sdf_neighbours_args;
SDF_KERNEL(sdf_neighbours_many, PLAIN, i) { nearest_neighbours<32>(a, i); }

struct sdf_neighbours_within_args {
    u32 n;  // queries
    u32 data;
    u32 dimension;
    u32 levels;  // as above, to `most`
    u32 leaf;
    double radius;         // inclusive
    const double* query;   // [n, dimension]
    const double* vector;  // [data, dimension] in curve order
    const u32* number;     // [data]
    const u32* count;      // [levels]
    const u32* first;      // [levels + 1]
    const double* least;   // [nodes, dimension]
    const double* most;    // [nodes, dimension]
    const u64* start;      // [n] each query's first entry in the list; null: only count
    u32* within;           // [n] out: counts
    double* distance;      // [found] out, in traversal order; null: only count
    u32* nearest;          // [found] out: indices; null: only count
};
SDF_KERNEL(sdf_neighbours_within, PLAIN, i) {
    with_dimension(a.dimension, [&](auto d) {
        constexpr int size = decltype(d)::value;
        const double* query = a.query + size * (size_t)i;
        u32 found = 0;
        // The square root is monotonic: no box is farther than its vectors.
        auto near = [&](double box_sq) { return sqrt(box_sq) <= a.radius; };
        walk_vectors<size>(a, query, near, [&](u32 slot) {
            double distance = sqrt(vector_distance_sq<double, size>(a.vector + size * (size_t)slot, query));
            if (distance > a.radius) return;
            if (a.start) {
                a.distance[a.start[i] + found] = distance;
                a.nearest[a.start[i] + found] = a.number[slot];
            }
            found++;
        });
        a.within[i] = found;
    });
}

#endif
