// A query's k nearest neighbours during the search, sorted by distance, then by index.
//
// INTERFACE
//   NeighbourList  at most `room` neighbours, without duplicates
#ifndef SDFCLI_NEIGHBOURS_LIST_H
#define SDFCLI_NEIGHBOURS_LIST_H
#include "base/portable.h"

// A set: the contents depend neither on insertion order nor on repetition. All loops have fixed trip counts, so a GPU
// keeps the list in registers.
template <class T, int room>
struct NeighbourList {
    T distance_sq[room];
    u32 number[room];

    // Holds k neighbours in the last k entries. Nothing is closer than the entries before them.
    METHOD void start(u32 k) {
        UNROLL
        for (int j = 0; j < room; j++) {
            distance_sq[j] = j + (int)k < room ? T(-1) : T(SDF_UNKNOWN * SDF_UNKNOWN);
            number[j] = SDF_NONE;
        }
    }
    METHOD void load(u32 k, const T* from_distance_sq, const u32* from_number) {
        UNROLL
        for (int j = 0; j < room; j++) {
            if (j + (int)k < room) continue;
            distance_sq[j] = from_distance_sq[j + (int)k - room];
            number[j] = from_number[j + (int)k - room];
        }
    }
    METHOD void store(u32 k, T* to_distance_sq, u32* to_number) const {
        UNROLL
        for (int j = 0; j < room; j++) {
            if (j + (int)k < room) continue;
            to_distance_sq[j + (int)k - room] = distance_sq[j];
            to_number[j + (int)k - room] = number[j];
        }
    }
    // The k-th neighbour's squared distance, which limits the search; infinite while fewer exist.
    METHOD T reach() const { return distance_sq[room - 1]; }

    METHOD void offer(T d, u32 x) {
        if (d > reach() || (d == reach() && x >= number[room - 1])) return;
        UNROLL
        for (int j = 0; j < room; j++) {
            if (d == distance_sq[j] && x == number[j]) return;
            bool before = d < distance_sq[j] || (d == distance_sq[j] && x < number[j]);
            T further = select(before, distance_sq[j], d);
            u32 other = select(before, number[j], x);
            distance_sq[j] = select(before, d, distance_sq[j]);
            number[j] = select(before, x, number[j]);
            d = further;
            x = other;
        }
    }
};

#endif
