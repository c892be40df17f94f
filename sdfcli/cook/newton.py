"""Newton: files that `mesh.build_sdf(cache_dir=…)` finds by its own key, in place of cooking on a GPU.

Format version 2, `newton/_src/geometry/_sdf_cache.py`, Newton 1.8.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import check_signed, welded, write_part
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.plan import Plan, build_parameters, plan_for
from sdfcli.cook.scene.base import scaled
from sdfcli.cook.sparse_grid import SIZE, VALUES, packed, predicted_blocks, quantised, sides_for, sparse_grid
from sdfcli.cook.tables import NewtonCall
from sdfcli.field.field import Field
from sdfcli.params import BuildKeywords

SCENES = ("urdf", "mjcf", "usd")
PRESET = 256
"""Cells along the longest side."""
KIND, VERSION, NEWTON = "newton.texture_sdf", 2, "1.8.0"
DEFAULT_RESOLUTION = 64
EMPTY, LINEAR = 0xFFFFFFFF, 0xFFFFFFFE
"""Slots for blocks without fine values: outside the band, and where the coarse grid's values are exact enough."""
BUCKETS = 1e7
"""Newton's test for watertight meshes rounds coordinates to 1e-7 m."""


def parameters(config: CookConfig, part: Part) -> BuildKeywords:
    """Build parameters for an eighth of the tolerance."""
    return build_parameters(_plan(config, part), part)


def predicted_bytes(config: CookConfig, part: Part) -> int:
    """Size: cached file and mesh."""
    return int(_size(config, part, _plan(config, part)))


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `KEY.sdf.npz` and the mesh, `NAME.obj`, from which Newton computes the same key; in USD, from the prim."""
    check_signed(field, part)
    call, plan = config.newton, _plan(config, part)
    if part.scale is None:
        part = welded(part)
    name = f"{cache_key(*as_loaded(part, call))}.sdf.npz"
    with open(folder / name, "wb") as file:
        np.savez(file, **cached_arrays(field, plan, call.texture_format))
    mesh = write_part(part, folder)
    inner, outer = call.narrow_band_range
    usd = {
        "newton:sdfNarrowBandInner": ("float", inner),
        "newton:sdfNarrowBandOuter": ("float", outer),
        "newton:sdfTextureFormat": ("token", call.texture_format),
        "newton:sdfPadding": ("float", call.margin),
    }
    if call.target_voxel_size is None:
        usd["newton:sdfMaxResolution"] = ("int", call.max_resolution or DEFAULT_RESOLUTION)
    else:
        usd["newton:sdfTargetVoxelSize"] = ("float", call.target_voxel_size)
    return Cooked(
        files=[name, mesh],
        urdf=Element("mesh", filename=mesh),
        mjcf={"type": "mesh", "mesh": part.name},
        mjcf_asset=[Element("mesh", name=part.name, file=mesh)],
        usd=usd,
        usd_schemas=["NewtonSDFCollisionAPI"],
    )


def as_loaded(part: Part, call: NewtonCall) -> tuple[Part, NewtonCall]:
    """A part as Newton has it, and the call for it: for a prim in USD its points, and its scale, in float32."""
    if part.scale is None or part.scale == (1, 1, 1):
        return part, call
    vertices, faces = scaled((part.vertices, part.faces), [1 / each for each in part.scale])
    x, y, z = (float(np.float32(each)) for each in part.scale)
    return replace(part, vertices=vertices, faces=faces), call if call.scale else replace(call, scale=(x, y, z))


def cache_key(part: Part, call: NewtonCall) -> str:
    """Newton's name for a part cooked by a call: BLAKE2b over JSON, with SHA-256 for float32 vertices, int32 faces."""

    def digest(array: npt.NDArray[Any], dtype: str) -> str:
        return hashlib.sha256(np.ascontiguousarray(array, dtype).tobytes()).hexdigest()

    resolution = call.max_resolution
    if resolution is None and call.target_voxel_size is None:
        resolution = DEFAULT_RESOLUTION
    sign = call.sign_method
    if sign == "auto":
        sign = "parity" if is_watertight(part.vertices, part.faces) else "winding"
    text = {
        "kind": KIND,
        "cache_format_version": VERSION,
        "mesh": {
            "vertices_sha256": digest(part.vertices, "<f4"),
            "indices_sha256": digest(part.faces, "<i4"),
            "num_vertices": len(part.vertices),
            "num_triangles": len(part.faces),
            "is_solid": call.is_solid,
        },
        "build_params": {
            "narrow_band_range": [float(each) for each in call.narrow_band_range],
            "target_voxel_size": None if call.target_voxel_size is None else float(call.target_voxel_size),
            "max_resolution": resolution,
            "margin": float(call.margin),
            "texture_format": call.texture_format,
            "sign_method_resolved": sign,
            "winding_threshold_sign": 1,
            "scale": None if call.scale is None else [float(each) for each in call.scale],
        },
    }
    encoded = json.dumps(text, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def is_watertight(vertices: npt.NDArray[np.float64], faces: npt.NDArray[np.int64]) -> bool:
    """Newton's test: after rounding, each edge has two triangles. It chooses the sign method in the key."""
    bucket = np.round(vertices.astype(np.float32) * np.float32(BUCKETS)).astype(np.int64)
    _, number = np.unique(bucket, axis=0, return_inverse=True)
    corner = number.reshape(-1)[faces]
    edges = np.sort(np.stack((corner, np.roll(corner, -1, axis=1)), axis=2).reshape(-1, 2), axis=1)
    _, count = np.unique(edges, axis=0, return_counts=True)
    return bool((count == 2).all())


def cached_arrays(field: Field, plan: Plan, texture_format: str) -> dict[str, Any]:
    """A cached file's arrays, by name."""
    grid = sparse_grid(field, plan)
    count = len(grid.block)
    width, height, depth = grid.blocks
    slots = np.full(grid.blocks, EMPTY, np.uint32)
    slots[tuple(grid.linear.T)] = LINEAR
    if count:
        value, low, span = quantised(grid.value, texture_format)
        side = sides_for(count)[0]
        texture, slots[tuple(grid.block.T)] = packed(value, (side, side, side))
    else:
        texture, low, span = np.zeros((1, 1, 1), np.float32), 0.0, 1.0
    return {
        "__cache_format_version__": np.array(VERSION, np.int32),
        "__kind__": np.array(KIND),
        "__newton_version__": np.array(NEWTON),
        "__created_utc__": np.array(""),
        "coarse_sdf": np.ascontiguousarray(grid.coarse.transpose(2, 1, 0)),
        "subgrid_data": texture,
        "subgrid_start_slots": slots,
        "subgrid_required": (slots < LINEAR).transpose(2, 1, 0).reshape(-1).astype(np.int32),
        "coarse_dims": np.array((width, height, depth), np.int32),
        "subgrid_tex_size": np.array(len(texture), np.int32),
        "num_subgrids": np.array(count, np.int32),
        "subgrid_size": np.array(SIZE, np.int32),
        "quantization_mode": np.array(np.dtype(texture_format).itemsize, np.int32),
        "subgrids_min_sdf_value": np.array(low, np.float32),
        "subgrids_sdf_value_range": np.array(span, np.float32),
        "min_extents": grid.origin,
        "max_extents": grid.origin + SIZE * grid.cell * np.array(grid.blocks),
        "cell_size": np.full(3, grid.cell),
    }


def _plan(config: CookConfig, part: Part) -> Plan:
    return plan_for(config, part, PRESET, lambda plan: _size(config, part, plan))


def _size(config: CookConfig, part: Part, plan: Plan) -> float:
    coarse = float((plan.cells(SIZE) // SIZE + 1).prod())
    fine = VALUES * np.dtype(config.newton.texture_format).itemsize * predicted_blocks(plan, part)
    return 12 * coarse + fine + 60 * len(part.vertices) + 20 * len(part.faces)
