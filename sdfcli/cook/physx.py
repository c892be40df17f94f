"""PhysX: files that fill a PxSDFDesc, dense or sparse, and USD attributes by which Isaac cooks the same cells itself.

Layouts as in PhysX 5 (`include/cooking/PxSDFDesc.h`, `geomutils/src/cooking/GuCookingSDF.cpp`): in a sparse grid,
`meshLower` is the first value's position; in a dense one, half a spacing below it, as the GPU samples it.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import check_signed
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.plan import Plan, build_parameters, plan_for
from sdfcli.cook.sparse_grid import SIZE, VALUES, packed, predicted_blocks, quantised, sides_for, sparse_grid
from sdfcli.export.lattice import Lattice, check_memory, volume
from sdfcli.field.field import Field
from sdfcli.params import BuildKeywords

SCENES = ("usd",)
PRESET = 256
"""Cells along the longest side; a dense grid has DENSE."""
DENSE = 64
HEADER = "physx_sdf.h"
MAGIC, VERSION = b"SDFPHYSX", 1
HEAD = struct.Struct("<8s4I4f4I2fI4x3Q")
"""See physx_sdf.h, which reads it."""
EMPTY = 0xFFFFFFFF
FORMATS = {8: np.uint8, 16: np.uint16, 32: np.float32}


def parameters(config: CookConfig, part: Part) -> BuildKeywords:
    """Build parameters for an eighth of the tolerance."""
    return build_parameters(_plan(config, part), part)


def predicted_bytes(config: CookConfig, part: Part) -> int:
    """File size."""
    return int(_size(config, part, _plan(config, part)))


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `NAME.pxsdf`, and the C++ header that reads it."""
    check_signed(field, part)
    plan, name = _plan(config, part), f"{part.name}.pxsdf"
    (folder / name).write_bytes(_dense(field, plan) if config.physx.dense else _sparse(field, plan, config.physx.bits))
    (folder / HEADER).write_bytes(Path(__file__).with_name(HEADER).read_bytes())
    side = plan.high - plan.low
    longest, diagonal = float(np.ptp(part.vertices, axis=0).max()), part.diagonal
    usd = {
        "physics:approximation": ("token", "sdf"),
        "physxSDFMeshCollision:sdfResolution": ("int", int(np.ceil(longest / plan.cell - 1e-6))),
        "physxSDFMeshCollision:sdfSubgridResolution": ("int", 0 if config.physx.dense else SIZE),
        "physxSDFMeshCollision:sdfBitsPerSubgridPixel": ("token", f"BitsPerPixel{config.physx.bits}"),
        "physxSDFMeshCollision:sdfNarrowBandThickness": ("float", min(plan.band / diagonal, 1.0)),
        "physxSDFMeshCollision:sdfMargin": ("float", float(side.max() - longest) / 2 / diagonal),
    }
    return Cooked(files=[name, HEADER], usd=usd, usd_schemas=["PhysicsMeshCollisionAPI", "PhysxSDFMeshCollisionAPI"])


def _sparse(field: Field, plan: Plan, bits: int) -> bytes:
    grid = sparse_grid(field, plan)
    slots = np.full(grid.blocks, EMPTY, np.uint32)
    value, low, span = quantised(grid.value, FORMATS[bits])
    texture, sides = np.zeros(0, value.dtype), (0, 0, 0)
    if len(grid.block):
        sides = sides_for(len(grid.block))
        texture, slots[tuple(grid.block.T)] = packed(value, sides)
    return _file(
        [SIZE * n for n in grid.blocks], grid.origin, grid.cell, bits, sides, low, span, grid.coarse, texture, slots
    )


def _dense(field: Field, plan: Plan) -> bytes:
    x, y, z = (int(n) + 1 for n in plan.cells())
    cell = float(np.float32(plan.cell))
    lower = (plan.low - cell / 2).astype(np.float32).astype(np.float64)
    lattice = Lattice(lower + cell / 2, cell, (x, y, z))
    check_memory(lattice, 16)
    value = volume(field, lattice)
    return _file([x, y, z], lower, cell, 0, (0, 0, 0), 0.0, 1.0, value, np.zeros(0, np.uint8), np.zeros(0, np.uint32))


def _file(
    dims: list[int],
    lower: npt.NDArray[np.float64],
    spacing: float,
    bits: int,
    sides: tuple[int, int, int],
    low: float,
    span: float,
    coarse: npt.NDArray[np.float32],
    texture: npt.NDArray[Any],
    slots: npt.NDArray[np.uint32],
) -> bytes:
    """bits: 0 for a dense grid. coarse, slots: [i, j, k]; in the file x is fastest."""
    counts = coarse.size, texture.nbytes, slots.size
    subgrid = SIZE if bits else 0
    head = HEAD.pack(MAGIC, VERSION, *dims, *lower, spacing, subgrid, *sides, low, low + span, bits // 8, *counts)
    arrays = coarse.transpose(), slots.transpose(), texture
    return head + b"".join(np.ascontiguousarray(each, each.dtype.newbyteorder("<")).tobytes() for each in arrays)


def _plan(config: CookConfig, part: Part) -> Plan:
    preset = DENSE if config.physx.dense else PRESET
    return plan_for(config, part, preset, lambda plan: _size(config, part, plan))


def _size(config: CookConfig, part: Part, plan: Plan) -> float:
    if config.physx.dense:
        return HEAD.size + 4 * float((plan.cells() + 1).prod())
    coarse = float((plan.cells(SIZE) // SIZE + 1).prod())
    return HEAD.size + 8 * coarse + VALUES * config.physx.bits / 8 * predicted_blocks(plan, part)
