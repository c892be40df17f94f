"""Genesis: `.gsd` files that it finds in its cache by their key, in place of cooking.

Layout as in `genesis/engine/mesh.py` and `utils/cache.py`, Genesis 1.4: the grid has a fixed node count if the
material says `sdf_min_res=R, sdf_max_res=R`.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from sdfcli.cook.config import CookConfig
from sdfcli.cook.mesh_file import check_signed, predicted_mesh_bytes, welded, write_part
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.plan import Plan, build_parameters, plan_for
from sdfcli.errors import InputError
from sdfcli.export.lattice import PIECE, check_fits
from sdfcli.field.field import Field
from sdfcli.field.stated_error import StatedError
from sdfcli.params import BuildKeywords
from sdfcli.query.mesh_distance import MeshDistance

SCENES = ("urdf",)
"""Meshes in MJCF come from MuJoCo, moved into their inertial frames: keys would differ."""
PRESET = 105
"""Cells along the longest side: with the margins, 127 nodes; Genesis's own maximum is 128."""
MARGIN = 0.1
"""Space on each side, in longest sides, as Genesis has it."""
NODES = 16, 1024
"""Genesis's minimum, and our maximum, along an axis."""
NODE_BYTES = 4 + 12 + 8
SCHEMA = b"v4-sdf-grid"
EPS = float(np.finfo(np.float32).eps)
"""Genesis's smallest number, for `gs.init(precision="32")`: added to cell edges in metres."""
NEAR = 1e-3
"""Distance, in cells, below which the nearest point gives no direction."""
CLASS = b"cgenesis.engine.mesh\nSDFGrid\n"


def parameters(config: CookConfig, part: Part) -> BuildKeywords:
    """Build parameters for an eighth of the tolerance."""
    return build_parameters(_plan(config, part), part)


def predicted_bytes(config: CookConfig, part: Part) -> int:
    """Size: cached file and mesh."""
    return int(_size(part, _plan(config, part)))


def write(field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
    """Writes `gsd/KEY.gsd`, for `GS_CACHE_FILE_PATH`; the mesh, `NAME.obj`, from which Genesis computes the key; and
    `NAME.json`, arguments for `gs.materials.Rigid` that fix the grid."""
    check_signed(field, part)
    part = welded(part)
    resolution = resolution_of(config, part)
    nodes, cell = grid_of(part, resolution)
    name = f"gsd/{cache_key(part, nodes, cell, config.genesis.version)}.gsd"
    (folder / "gsd").mkdir(exist_ok=True)
    with open(folder / name, "wb") as file:
        file.writelines(pickled(*grid_values(field, part, nodes, cell)))
    material = f"{part.name}.json"
    (folder / material).write_text(json.dumps({"sdf_min_res": resolution, "sdf_max_res": resolution}) + "\n")
    mesh = write_part(part, folder)
    return Cooked(files=[name, mesh, material], urdf=Element("mesh", filename=mesh))


def resolution_of(config: CookConfig, part: Part) -> int:
    """The material's `sdf_min_res` and `sdf_max_res`: nodes along every axis."""
    plan = _plan(config, part)
    count = int(np.ceil((plan.high - plan.low).max() / plan.cell - 1e-6)) + 1
    if not NODES[0] <= count <= NODES[1]:
        raise InputError(f"{part.place}: {count} nodes, and Genesis's grids have {NODES[0]} to {NODES[1]}; use --cells")
    return count


def grid_of(part: Part, resolution: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Node counts (3,) and cell edges (3,): Genesis's grid for a part."""
    side = np.ptp(part.vertices, axis=0)
    size = 2 * MARGIN * side.max() + side
    cell = EPS + size / (resolution - 1)
    return np.ceil(size / cell).astype(np.int64) + 1, cell


def cache_key(part: Part, nodes: npt.NDArray[np.int64], cell: npt.NDArray[np.float64], version: str) -> str:
    """Genesis's name for a grid: SHA-256, with the mesh, the grid's shape, and the versions."""
    found = hashlib.sha256()
    for array in (part.vertices, part.faces, nodes, cell):
        found.update(np.ascontiguousarray(array).tobytes())
    found.update(SCHEMA + version.encode())
    return found.hexdigest()


def grid_values(
    field: Field, part: Part, nodes: npt.NDArray[np.int64], cell: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.int64], float, npt.NDArray[np.float64]]:
    """Distances, unit gradients (…, 3) and nearest vertices at nodes [i, j, k], the largest distance, and the matrix
    from the mesh to node numbers. As in Genesis, distances are exact, gradients are directions from a node's nearest
    point on the mesh, or to it inside, and the nearest face has the nearest vertex. A solid's distances and gradients
    are the field's."""
    check_fits(8 * NODE_BYTES * int(nodes.prod()))
    centre = (part.vertices.min(axis=0) + part.vertices.max(axis=0)) / 2
    size = (nodes - 1) * cell
    value, grad = np.empty(nodes, np.float32), np.empty((*nodes, 3), np.float32)
    vertex = np.empty(nodes, np.int64)
    is_solid, error = "solid" in field.info, StatedError.of(field).near
    mesh = MeshDistance((part.vertices, part.faces), sign="none" if is_solid else field.info["sign"], device="cpu")
    x, y, z = (low + step * np.arange(n) for low, step, n in zip(centre - size / 2, cell, nodes, strict=True))
    layers = max(1, PIECE // int(nodes[1:].prod()))
    for first in range(0, len(x), layers):
        chunk = slice(first, first + layers)
        at = np.stack(np.meshgrid(x[chunk], y, z, indexing="ij"), axis=-1).reshape(-1, 3)
        distance = field.sample(at)
        point, face = mesh.closest(at)
        slope = at - point
        if is_solid:
            close = np.ones(len(at), np.bool_)
        else:
            in_doubt = np.abs(distance) <= 2 * error  # elsewhere the field's sign is the mesh's
            distance = np.copysign(_length(slope), distance)
            distance[in_doubt] = mesh.signed_distance(at[in_doubt])
            close = np.abs(distance) <= NEAR * cell.min()
            slope *= np.copysign(1.0, distance)[:, None]
        value[chunk].reshape(-1)[:] = distance
        slope[close] = field.gradient(at[close])
        length = _length(slope)
        slope /= np.where(length > 0, length, 1)[:, None]
        grad[chunk].reshape(-1, 3)[:] = slope
        corner = part.faces.take(face, axis=0)
        far = np.stack([_length(part.vertices.take(each, axis=0) - at) for each in corner.T])
        vertex[chunk].reshape(-1)[:] = np.take_along_axis(corner.T, far.argmin(axis=0)[None], axis=0)[0]
    matrix = np.diag(np.append((nodes - 1) / size, 1.0))
    matrix[:3, 3] = (nodes - 1) / 2 - matrix.diagonal()[:3] * centre
    return value, grad, vertex, float(value.max()), matrix


def _length(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Lengths (n,) of vectors (n, 3)."""
    found: npt.NDArray[np.float64] = np.sqrt(np.einsum("nk,nk->n", rows, rows))
    return found


def pickled(*values: object) -> tuple[bytes | memoryview, ...]:
    """The pickle, in pieces, of Genesis's named tuple of these values, NumPy arrays and numbers, written without
    importing it."""
    body = pickle.dumps(values, protocol=3)  # without frames: opcodes may be put around it
    return body[:2], CLASS, memoryview(body)[2:-1], b"\x81."  # class, arguments, NEWOBJ, STOP


def _plan(config: CookConfig, part: Part) -> Plan:
    margin = MARGIN * float(np.ptp(part.vertices, axis=0).max())
    return plan_for(replace(config, margin=None), part, PRESET, lambda plan: _size(part, plan), margin=margin)


def _size(part: Part, plan: Plan) -> float:
    nodes = np.ceil((plan.high - plan.low).max() / plan.cell) + 1
    return float(NODE_BYTES * nodes**3 + predicted_mesh_bytes(part))
