// Exchange of particles between devices, each of which computes a slab of buckets.
//
// INTERFACE
//   sdf_flow_leave  after a step: drops copies, and sends own particles to where they are needed in the next one
//   sdf_flow_land   stores received particles
#ifndef SDFCLI_FLOW_SLABS_H
#define SDFCLI_FLOW_SLABS_H
#include "flow/buckets.h"

#define SDF_PARCEL 8  // words per particle: position, velocity, number, kind; a parcel begins with a word: its count

struct sdf_flow_leave_args {
    u32 n;  // places
    BucketGrid grid;
    Slab slab;
    u32 halo;               // layers beyond the slab of which a device has copies
    u32 first, last;        // the other device's layers
    u32 room;               // particles that fit into the parcel
    u32 drops;              // whether to drop what is not needed here
    const float* position;  // [n, 3]
    const float* velocity;  // [n, 3]
    const u32* number;      // [n]
    const u32* own;         // [n] each particle's bucket in the step
    u8* kind;               // [n] in and out
    u32* parcel;            // [1 + 8 * room] in and out: 0 at first; what the other device needs
};
FN bool within(u32 layer, u32 first, u32 last, u32 halo) { return layer + halo >= first && layer < last + halo; }
SDF_KERNEL(sdf_flow_leave, PLAIN, i) {
    u8 kind = a.kind[i];
    if (kind == SDF_GONE) return;
    if (!owned(a.slab, a.own[i])) {  // its owner sends it again
        if (a.drops) a.kind[i] = SDF_GONE;
        return;
    }
    const float *at = a.position + 3 * (size_t)i, *speed = a.velocity + 3 * (size_t)i;
    u32 layer = layer_of(a.slab, bucket_of(a.grid, load3(at)));
    if (within(layer, a.first, a.last, a.halo)) {
        u32 k = atomic_add(a.parcel, 1u);
        if (k < a.room) {
            u32* word = a.parcel + 1 + SDF_PARCEL * (size_t)k;
            for (int c = 0; c < 3; c++) word[c] = float_bits(at[c]), word[3 + c] = float_bits(speed[c]);
            word[6] = a.number[i];
            word[7] = kind;
        }
    }
    if (a.drops && !within(layer, a.slab.first, a.slab.last, a.halo)) a.kind[i] = SDF_GONE;
}

struct sdf_flow_land_args {
    u32 n;     // room of the parcel
    u32 base;  // first place for it
    u32 free;  // first place for any parcel
    u32 buckets;
    const u32* end;     // [buckets] before the step
    const u32* parcel;  // [1 + 8 * n]
    float* position;    // [places, 3] in and out
    float* velocity;    // [places, 3] in and out
    u32* number;        // [places] in and out
    u8* kind;           // [places] in and out
    u64* lacking;       // [1] in and out: maximum number of particles without a place
};
SDF_KERNEL(sdf_flow_land, PLAIN, k) {
    u32 count = a.parcel[0], there = a.end[a.buckets - 1];
    if (k == 0 && count > a.n) atomic_max(a.lacking, (u64)(count - a.n));
    if (k == 0 && there > a.free) atomic_max(a.lacking, (u64)(there - a.free));
    u32 i = a.base + k;
    const u32* word = a.parcel + 1 + SDF_PARCEL * (size_t)k;
    if (k >= count) {
        a.kind[i] = SDF_GONE;
        return;
    }
    for (int c = 0; c < 3; c++) {
        a.position[3 * (size_t)i + c] = bits_float(word[c]);
        a.velocity[3 * (size_t)i + c] = bits_float(word[3 + c]);
    }
    a.number[i] = word[6];
    a.kind[i] = (u8)word[7];
}

#endif
