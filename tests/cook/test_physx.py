"""Files for PhysX, read by the header beside them, compiled against a stub of PhysX's descriptor, and sampled by a
reader written after PhysX's sparse sampler. PhysX itself needs a GPU."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import cook_parts
import shapes
from sdfcli.cook import physx as target
from sdfcli.cook.config import BAND, CookConfig
from sdfcli.cook.sparse_grid import SIZE
from sdfcli.cook.tables import PhysxTable
from sdfcli.errors import InputError, UsageError

POINTS = 100_000
# Names and types of PxSDFDesc; then its values at points, as PhysX decodes and interpolates them.
PROGRAM = r"""
#include <cmath>
#include <cstdio>
#include <cstdint>
#include <vector>
#include <algorithm>
namespace physx {
struct PxVec3 { float x, y, z; PxVec3(float a = 0, float b = 0, float c = 0) : x(a), y(b), z(c) {} };
struct PxDim3 { uint32_t x, y, z; };
struct PxBoundedData { uint32_t stride = 0; const void* data = nullptr; uint32_t count = 0; };
struct PxSdfBitsPerSubgridPixel { enum Enum { e8_BIT_PER_PIXEL = 1, e16_BIT_PER_PIXEL = 2, e32_BIT_PER_PIXEL = 4 }; };
struct PxSDFDesc {
    PxBoundedData sdf; PxDim3 dims{}; PxVec3 meshLower; float spacing = 0; uint32_t subgridSize = 0;
    PxSdfBitsPerSubgridPixel::Enum bitsPerSubgridPixel = PxSdfBitsPerSubgridPixel::e16_BIT_PER_PIXEL;
    PxDim3 sdfSubgrids3DTexBlockDim{}; PxBoundedData sdfSubgrids, sdfStartSlots;
    float subgridsMinSdfValue = 0, subgridsMaxSdfValue = 0;
};
}
#include "physx_sdf.h"
using namespace physx;

float at(const PxSDFDesc& d, const float* p) {
    const bool dense = d.subgridSize == 0;
    const int s = dense ? 1 : d.subgridSize;
    const float shift = dense ? 0.5f : 0.f;
    const float lower[3] = {d.meshLower.x, d.meshLower.y, d.meshLower.z};
    const int dims[3] = {int(d.dims.x), int(d.dims.y), int(d.dims.z)};
    int coarse[3], side[3], cell[3], block[3];
    float f[3];
    for (int k = 0; k < 3; k++) {
        side[k] = dense ? dims[k] : dims[k] / s + 1;   // coarse values
        coarse[k] = side[k] - 1;
        const int cells = dense ? dims[k] - 1 : dims[k];
        f[k] = std::clamp((p[k] - lower[k]) / d.spacing - shift, 0.f, float(cells));
        cell[k] = std::min(int(f[k]), cells - 1);
        block[k] = dense ? cell[k] : std::min(cell[k] / s, coarse[k] - 1);
    }
    const float* values = (const float*)d.sdf.data;
    uint32_t slot = 0xFFFFFFFFu;
    const uint32_t* slots = (const uint32_t*)d.sdfStartSlots.data;
    if (!dense) slot = slots[(block[2] * coarse[1] + block[1]) * coarse[0] + block[0]];
    float total = 0;
    for (int corner = 0; corner < 8; corner++) {
        int i[3]; float w = 1;
        for (int k = 0; k < 3; k++) {
            const int up = corner >> k & 1;
            const bool fine = slot != 0xFFFFFFFFu;
            const float t = fine ? f[k] - cell[k] : f[k] / s - block[k];
            w *= up ? t : 1 - t;
            i[k] = (fine ? int(slot >> 10 * k & 1023) * (s + 1) + cell[k] - block[k] * s : block[k]) + up;
        }
        float v;
        if (slot == 0xFFFFFFFFu) v = values[(i[2] * side[1] + i[1]) * side[0] + i[0]];
        else {
            const size_t n = (size_t(i[2]) * d.sdfSubgrids3DTexBlockDim.y * (s + 1) + i[1])
                * d.sdfSubgrids3DTexBlockDim.x * (s + 1) + i[0];
            const float range = d.subgridsMaxSdfValue - d.subgridsMinSdfValue;
            if (d.bitsPerSubgridPixel == 1) v = ((const uint8_t*)d.sdfSubgrids.data)[n] / 255.f * range;
            else if (d.bitsPerSubgridPixel == 2) v = ((const uint16_t*)d.sdfSubgrids.data)[n] / 65535.f * range;
            else v = ((const float*)d.sdfSubgrids.data)[n];
            if (d.bitsPerSubgridPixel != 4) v += d.subgridsMinSdfValue;
        }
        total += w * v;
    }
    return total;
}

int main(int, char** names) {
    sdfcli::PhysxSdf sdf;
    PxSDFDesc d;
    if (!sdf.read(names[1], d)) return 3;
    std::vector<float> answer;
    float p[3];
    FILE* in = std::fopen(names[2], "rb");
    while (std::fread(p, 4, 3, in) == 3) answer.push_back(at(d, p));
    std::fclose(in);
    std::fwrite(answer.data(), 4, answer.size(), stdout);
}
"""


@pytest.fixture
def rng() -> np.random.Generator:
    return cook_parts.random()


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled with the sanitizers of addresses and undefined behaviour."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("reader")
    (folder / "main.cpp").write_text(PROGRAM)
    header = Path(target.__file__).parent
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    subprocess.run(["g++", *flags, "-I", header, "main.cpp", "-o", "reader"], cwd=folder, check=True)
    return folder / "reader"


def answers(reader: Path, file: Path, points: cook_parts.Floats) -> cook_parts.Floats:
    """What the program finds at points."""
    given = file.with_suffix(".points")
    given.write_bytes(points.astype("<f4").tobytes())
    found = subprocess.run([reader, file, given], check=True, capture_output=True)
    return np.frombuffer(found.stdout, "<f4").astype(np.float64)


@pytest.mark.parametrize(
    "table", [PhysxTable(bits=8), PhysxTable(bits=16), PhysxTable(bits=32), PhysxTable(dense=True)]
)
def test_distances(table: PhysxTable, reader: Path, rng: np.random.Generator, tmp_path: Path) -> None:
    """At 10^5 points within the band, the descriptor gives the field's and the exact distance within the tolerance, and
    at nodes the field's; eight bits add half a step of theirs."""
    part = cook_parts.some_part(rng)
    config = CookConfig(tolerance=cook_parts.longest(part) / rng.uniform(40, 90), physx=table)
    assert config.tolerance is not None
    field = cook_parts.field_of(target, part, config)
    written = target.write(field, part, config, tmp_path)
    points = cook_parts.near_points(part, BAND * config.tolerance, POINTS, rng)
    file = tmp_path / written.files[0]
    *lower, cell = struct.unpack_from("<4f", file.read_bytes(), 24)
    low, high = struct.unpack_from("<2f", file.read_bytes(), 56)
    assert table.dense or table.bits == 32 or high - low < 2 * (BAND + 1 + np.sqrt(3) * SIZE) * config.tolerance
    slack = (high - low) / 510 * (table.bits == 8) + 2e-6 * np.abs(part.vertices).max()
    first = np.array(lower) + (cell / 2 if table.dense else 0)
    nodes = cook_parts.near_nodes(part, first, cell, 2 * config.tolerance, 1000, rng)
    assert np.abs(answers(reader, file, nodes) - field.sample(nodes)).max() <= 0.02 * config.tolerance + slack
    answer = answers(reader, file, points)
    assert np.abs(answer - field.sample(points)).max() <= cook_parts.FROM_FIELD * config.tolerance + slack
    assert np.abs(answer - cook_parts.exact(part, points)).max() <= config.tolerance + slack


@pytest.mark.parametrize("dense", [False, True])
def test_damaged(dense: bool, reader: Path, rng: np.random.Generator, tmp_path: Path) -> None:
    """The header refuses files that are cut, too long, or whose counts contradict each other."""
    part, config = cook_parts.some_part(rng), CookConfig(cells=20, physx=PhysxTable(dense=dense))
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    good = (tmp_path / written.files[0]).read_bytes()
    (tmp_path / "points").write_bytes(b"")
    bad = [good[: int(rng.integers(len(good)))], good + b"\0", b"", good[:7] + b"x" + good[8:]]
    for place in (8, 12, 16, 20, 72, 80, 88):  # version, dims, counts
        wrong = bytearray(good)
        wrong[place : place + 4] = rng.integers(2**31, 2**32, dtype="<u4").tobytes()
        bad.append(bytes(wrong))
    for each in bad:
        (tmp_path / "bad").write_bytes(each)
        found = subprocess.run([reader, tmp_path / "bad", tmp_path / "points"], capture_output=True, check=False)
        assert found.returncode == 3, found.stderr.decode()


def test_usd(rng: np.random.Generator, tmp_path: Path) -> None:
    """Isaac's attributes ask for the same cell: the longest side by the resolution; lengths by the diagonal."""
    part = cook_parts.some_part(rng)
    longest = cook_parts.longest(part)
    config = CookConfig(tolerance=longest / 64, margin=0.1 * longest)
    usd = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path).usd
    values = {name.split(":")[1]: value for name, (_, value) in usd.items()}
    assert values["sdfResolution"] == 64
    assert values["sdfMargin"] * part.diagonal == pytest.approx(0.1 * longest)
    assert values["sdfNarrowBandThickness"] * part.diagonal == pytest.approx(BAND * longest / 64)
    assert values["sdfBitsPerSubgridPixel"] == "BitsPerPixel16"
    assert values["approximation"] == "sdf"


@pytest.mark.parametrize("dense", [False, True])
def test_size(dense: bool, rng: np.random.Generator, tmp_path: Path) -> None:
    """The prediction is within a factor of 2; a limit coarsens the preset."""
    part = cook_parts.some_part(rng)
    config = CookConfig(cells=60, physx=PhysxTable(dense=dense))
    written = target.write(cook_parts.field_of(target, part, config), part, config, tmp_path)
    size = (tmp_path / written.files[0]).stat().st_size
    assert size / 2 <= target.predicted_bytes(config, part) <= 2 * size
    assert target.predicted_bytes(CookConfig(max_bytes=size, physx=config.physx), part) <= size


def test_far_away(rng: np.random.Generator, tmp_path: Path) -> None:
    """A part so far from its frame's origin that float32 positions would be cells apart is refused."""
    vertices, faces = shapes.star(rng, 1)
    part = cook_parts.part_of((vertices + 1e6, faces))
    field = cook_parts.field_of(target, part, CookConfig(cells=16))
    with pytest.raises(InputError, match="too far for float32"):
        target.write(field, part, CookConfig(), tmp_path)


def test_usage() -> None:
    with pytest.raises(UsageError, match=r"physx\.bits 12: use 8, 16 or 32"):
        PhysxTable(bits=12)
