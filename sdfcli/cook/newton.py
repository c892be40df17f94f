"""Newton: files that `mesh.build_sdf(cache_dir=…)` finds by its own key, in place of cooking on a GPU.

In a USD scene the key is that of the call which Newton's importer prepares: the prim's mesh, with its scale as `scale`.

Format version 2, `newton/_src/geometry/_sdf_cache.py`, Newton 1.8.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import check_signed, predicted_mesh_bytes, welded, write_part
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.plan import Plan, build_parameters, plan_for
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
    """Writes `KEY.sdf.npz` and the mesh, `NAME.obj`, from which Newton computes the same key. For a USD scene, whose
    meshes stay, it writes a file by each key that importers may compute: hard links, where the file system has them."""
    check_signed(field, part)
    call, plan, part = config.newton, _plan(config, part), welded(part)
    keys = imported_keys(part, call) or [cache_key(part, call)]
    name, *others = (f"{key}.sdf.npz" for key in keys)
    with open(folder / name, "wb") as file:
        np.savez(file, **cached_arrays(field, plan, call.texture_format))
    for other in others:
        _link(folder / name, folder / other)
    files, mesh = [name, *others], f"{part.name}.obj"
    if not part.imported:
        files.append(write_part(part, folder))
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
        files=files,
        urdf=Element("mesh", filename=mesh),
        mjcf={"type": "mesh", "mesh": part.name},
        mjcf_asset=[Element("mesh", name=part.name, file=mesh)],
        usd=usd,
        usd_schemas=["NewtonSDFCollisionAPI"],
    )


def imported_keys(part: Part, call: NewtonCall) -> list[str]:
    """Keys of a part of a USD scene, as its colliders are drawn or hidden: Newton hashes the scaled vertices, the
    triangles as they are, also where the scale mirrors them, and the scale; lengths are attributes, in float32."""
    keys = []
    for each in part.imported:
        unscaled = replace(part, vertices=each.vertices, faces=each.faces)
        apart = [_with_own_vertices(unscaled)] if each.faceted else []
        for mesh in (unscaled, *apart):
            keys.append(cache_key(_scaled(mesh, each.scale), _as_attributes(call, mesh, each.scale)))
    return list(dict.fromkeys(keys))


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


def _with_own_vertices(part: Part) -> Part:
    return replace(
        part, vertices=part.vertices[part.faces].reshape(-1, 3), faces=np.arange(part.faces.size).reshape(-1, 3)
    )


def _scaled(part: Part, scale: tuple[float, float, float]) -> Part:
    vertices = part.vertices.astype(np.float32) * np.array(scale, np.float32)
    return replace(part, vertices=vertices.astype(np.float64))


def _as_attributes(call: NewtonCall, unscaled: Part, scale: tuple[float, float, float]) -> NewtonCall:
    """A call as Newton's importer makes it, for a mesh and its scale."""

    def stored(length: float) -> float:
        return float(np.float32(length))

    sign = "parity" if is_watertight(unscaled.vertices, unscaled.faces) else "winding"
    voxel = call.target_voxel_size
    return replace(
        call,
        target_voxel_size=None if voxel is None else stored(voxel),
        margin=stored(call.margin),
        narrow_band_range=(stored(call.narrow_band_range[0]), stored(call.narrow_band_range[1])),
        sign_method=sign,
        is_solid=True,
        scale=scale,
    )


def _link(file: Path, other: Path) -> None:
    """Another name for a file, or a copy of it."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copyfile(file, other)


def is_watertight(vertices: npt.NDArray[np.float64], faces: npt.NDArray[np.int64]) -> bool:
    """Newton's test: after rounding, each edge has two triangles. It chooses the sign method in the key."""
    bucket = np.round(vertices.astype(np.float32) * np.float32(BUCKETS)).astype(np.int64)
    order = np.lexsort(bucket.T)
    number = np.empty(len(order), np.int64)
    number[order] = np.append(0, np.cumsum((np.diff(bucket[order], axis=0) != 0).any(axis=1)))
    corner = number[faces]
    after = np.roll(corner, -1, axis=1)
    _, count = np.unique(np.minimum(corner, after) * len(order) + np.maximum(corner, after), return_counts=True)
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
    return 12 * coarse + fine + predicted_mesh_bytes(part)
