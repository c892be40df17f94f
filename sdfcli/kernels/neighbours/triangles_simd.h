// The CPU's k nearest triangles: sixteen consecutive points traverse the wide tree together, as in distance/simd.h,
// each with a list. Results equal sdf_nearest_triangles's to the last bit.
//
// INTERFACE
//   sdf_nearest_triangles_wide_lanes  k nearest triangles for consecutive points
#ifndef SDFCLI_NEIGHBOURS_TRIANGLES_SIMD_H
#define SDFCLI_NEIGHBOURS_TRIANGLES_SIMD_H
#include "distance/simd.h"

struct sdf_nearest_triangles_wide_args {
    u32 n;  // queries
    u32 triangles;
    u32 levels;              // node levels above the blocks
    u32 k;                   // 1 to 32
    const float* points;     // [n, 3]
    const float* triangle;   // [triangles, 9] by slot
    const float* block;      // [ceil(triangles / 16), 7, 16]
    const u32* block_slot;   // [triangles]
    const float* wide_box;   // [nodes, 6, 16]
    const u32* level_start;  // [levels] first node of each level
    const u32* triangle_id;  // [triangles]
    const u32* slot_of;      // [triangles] slots by triangle id
    float* distance;         // [n, k] out: sorted; infinite where fewer exist
    u32* face;               // [n, k] out: triangle ids, SDF_NONE where fewer exist
};

namespace {

// A neighbour as one sortable number: its squared distance's bits, which are monotonic, then its triangle id.
typedef long long ListKey;
FN ListKey list_key(float distance_sq, u32 id) { return (ListKey)((u64)float_bits(distance_sq) << 32 | id); }
FN float distance_sq_of(ListKey key) { return bits_float((u32)((u64)key >> 32)); }

// Each point's nearest triangles so far. The traversal offers each triangle at most once per point.
template <int room>
struct ListPacket : Packet {
    ListKey key[SDF_LANES][room + 1];  // sorted: k neighbours at the end, after entries smaller than any

    METHOD void start(u32 k) {
        for (u32 i = 0; i < SDF_LANES; i++)
            for (u32 j = 0; j <= room; j++)
                key[i][j] = j + k <= room ? -1 : list_key(SDF_UNKNOWN * SDF_UNKNOWN, SDF_NONE);
    }
    METHOD void offer(u32 point, float d, u32, u32 id) {
        ListKey x = list_key(d, id), next[room], *own = key[point];
        for (int j = 0; j < room; j++) next[j] = max_of(own[j], min_of(x, own[j + 1]));
        for (int j = 0; j < room; j++) own[j + 1] = next[j];
        best.set(point, min_of(best[point], distance_sq_of(own[room])));
    }
    METHOD void offer_to_all(const FloatV& d, u32 slot, u32 id) {
        for (u32 left = bits(d <= best); left; left &= left - 1) {
            u32 point = (u32)__builtin_ctz(left);
            offer(point, d[point], slot, id);
        }
    }
};

// Initial radii: a point's k-th nearest triangle is no farther than the farthest of any k triangles, or of all where
// fewer exist, such as those nearest to the preceding point.
FN void limit_radii(const sdf_nearest_triangles_wide_args& a, const u32* face, Packet* q) {
    FloatV farthest(0.f);
    for (u32 j = 0; j < a.k && face[j] != SDF_NONE; j++) {
        const float* t = a.triangle + 9 * (size_t)a.slot_of[face[j]];
        farthest =
            max_of(farthest, triangle_distance_sq(q->p, one_vector(t, 1), one_vector(t + 3, 1), one_vector(t + 6, 1)));
    }
    q->best = farthest;
    q->farthest = most_lane(farthest);
}

// The points first .. first + 15 below `last`.
template <int room>
FN void list_packet(const sdf_nearest_triangles_wide_args& a, u32 first, u32 last, bool follows) {
    ListPacket<room> q;
    u32 count = q.load(a.points, first, last);
    float* distance = a.distance + a.k * (size_t)first;
    u32* face = a.face + a.k * (size_t)first;
    q.start(a.k);
    if (follows) limit_radii(a, face - a.k, &q);
    search_wide_tree(a, &q);
    for (u32 i = 0; i < count; i++)
        for (u32 j = 0; j < a.k; j++) {
            ListKey own = q.key[i][room + 1 - a.k + j];
            distance[a.k * i + j] = sqrtf(distance_sq_of(own));
            face[a.k * i + j] = (u32)own;
        }
}
template <int room>
FN void list_packets(const sdf_nearest_triangles_wide_args& a, u32 first, u32 last) {
    for (u32 i = first; i < last; i += SDF_LANES) list_packet<room>(a, i, last, i > first);
}

}  // namespace

// The points first .. last - 1.
FN void sdf_nearest_triangles_wide_lanes(const sdf_nearest_triangles_wide_args& a, u32 first, u32 last) {
    if (a.k <= 8)
        list_packets<8>(a, first, last);
    else if (a.k <= 16)
        list_packets<16>(a, first, last);
    else
        list_packets<32>(a, first, last);
}

#endif
