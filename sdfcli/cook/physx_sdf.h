// Reads files of `sdfcli cook --for physx` into a PxSDFDesc of PhysX 5. Include PhysX's PxPhysicsAPI.h first:
//
//     sdfcli::PhysxSdf sdf;
//     physx::PxSDFDesc descriptor;
//     if (!sdf.read("part.pxsdf", descriptor)) { ... }
//     mesh_descriptor.sdfDesc = &descriptor;  // then cook the mesh, while `sdf` lives
//
// The file, little-endian: a head of 96 bytes, then float32 values of the dense or coarse grid, uint32 start slots, and
// the texture of the fine blocks; x is fastest in all of them. A fine value is minimum + n / (2^bits - 1) * (maximum -
// minimum), or n itself with 32 bits. Lengths are in metres.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

namespace sdfcli {

struct PhysxSdfHead {
    char magic[8];           // "SDFPHYSX"
    uint32_t version;        // 1
    uint32_t dims[3];        // dense: values along x, y, z; sparse: fine cells
    float lower[3];          // of a sparse grid: its first value's position; dense: half a spacing below it
    float spacing;           // edge of a fine cell, or distance of dense values
    uint32_t subgrid;        // fine cells along a block's edge; 0: dense
    uint32_t texture[3];     // blocks along the texture's sides
    float minimum, maximum;  // of fine values
    uint32_t bytes;          // per fine value: 1, 2, 4
    uint64_t values, texture_bytes, slots;
};
static_assert(sizeof(PhysxSdfHead) == 96, "the head of the file");

class PhysxSdf {
  public:
    // Whether the file could be read. The descriptor points into this object's memory.
    bool read(const char* path, physx::PxSDFDesc& descriptor) {
        std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "rb"), std::fclose);
        PhysxSdfHead head;
        if (!file || std::fread(&head, sizeof head, 1, file.get()) != 1 || !fits(head)) return false;
        const uint64_t size = 4 * head.values + 4 * head.slots + head.texture_bytes;
        data.reset(new uint32_t[(size + 3) / 4]);
        if (std::fread(data.get(), 1, size, file.get()) != size || std::fgetc(file.get()) != EOF) return false;
        descriptor.dims = {head.dims[0], head.dims[1], head.dims[2]};
        descriptor.meshLower = physx::PxVec3(head.lower[0], head.lower[1], head.lower[2]);
        descriptor.spacing = head.spacing;
        descriptor.subgridSize = head.subgrid;
        place(descriptor.sdf, data.get(), 4, head.values);
        if (head.subgrid == 0) return true;
        descriptor.bitsPerSubgridPixel = physx::PxSdfBitsPerSubgridPixel::Enum(head.bytes);
        descriptor.sdfSubgrids3DTexBlockDim = {head.texture[0], head.texture[1], head.texture[2]};
        descriptor.subgridsMinSdfValue = head.minimum;
        descriptor.subgridsMaxSdfValue = head.maximum;
        place(descriptor.sdfStartSlots, data.get() + head.values, 4, head.slots);
        place(descriptor.sdfSubgrids, data.get() + head.values + head.slots, 1, head.texture_bytes);
        return true;
    }

  private:
    std::unique_ptr<uint32_t[]> data;

    template <class Bounded>
    static void place(Bounded& array, const void* at, uint32_t stride, uint64_t count) {
        array.data = at;
        array.stride = stride;
        array.count = uint32_t(count);
    }

    // Whether the counts follow from the other numbers, and are small enough for uint32.
    static bool fits(const PhysxSdfHead& h) {
        if (std::memcmp(h.magic, "SDFPHYSX", 8) != 0 || h.version != 1) return false;
        const uint64_t most = 1 << 20;
        for (int k = 0; k < 3; k++)
            if (h.dims[k] < 1 || h.dims[k] > most || h.texture[k] > 1024) return false;
        const uint32_t step = h.subgrid ? h.subgrid : 1, more = h.subgrid ? 1 : 0;
        if (step > 64) return false;
        const uint64_t x = h.dims[0] / step, y = h.dims[1] / step, z = h.dims[2] / step, side = h.subgrid + 1;
        const uint64_t texture = uint64_t(h.texture[0]) * h.texture[1] * h.texture[2] * side * side * side;
        if ((x + more) * (y + more) * (z + more) != h.values || h.values >> 32) return false;
        if (h.subgrid == 0) return h.slots == 0 && h.texture_bytes == 0;
        if (h.bytes != 1 && h.bytes != 2 && h.bytes != 4) return false;
        return x * y * z == h.slots && texture * h.bytes == h.texture_bytes && !(h.texture_bytes >> 32);
    }
};

}  // namespace sdfcli
