"""Fields into compiled models: in place of MuJoCo's own octrees, also in MuJoCo Warp."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.introspect import structs

from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.mujoco.oct_file import read_oct
from sdfcli.mujoco.octree import Arrays, Octree

FIELDS = Mapping[str | int, Field | str | PathLike[str]]
"""Fields, or `.oct` files, by name or number of their mesh."""
BLOCKS = ("oct_depth", "oct_child", "oct_aabb", "oct_coeff")
"""The octrees' arrays, as they follow each other in a model."""
HEADER = 20
"""Bytes of a binary model before its sizes."""
ALIGNMENT = 64
"""Bytes to which arrays are aligned in a model's buffer."""
VERTICES = 2000
"""Vertices at which a field is compared with its mesh."""
AWAY = 0.01
"""Distance of vertices outside a field's surface that means another frame or mesh, as a share of the diagonal."""


def put(model: mujoco.MjModel, fields: FIELDS) -> mujoco.MjModel:
    """A model in which fields are the octrees of meshes: geoms of type `sdf` with these meshes collide by them.

    Args:
        model: a compiled model; it stays as it is.
        fields: a field or an `.oct` file for each mesh, by name or number. Its frame is the mesh's in the model, to
            which MuJoCo moves meshes from files: build it from `mesh_of`. Meshes of scenes that `sdfcli cook --for
            mujoco-warp` writes stay in the frame of their field.

    Raises:
        UsageError: no such mesh; or a version of MuJoCo that stores models in another way.
        InputError: a field in another frame, or without an inside; a damaged file.
    """
    merged = _Merged(model, fields)
    content, start, before, sizes = _layout(model)
    stored = [np.ascontiguousarray(merged.arrays[name], getattr(model, name).dtype) for name in BLOCKS]
    grown = sum(
        _aligned(new.nbytes) - _aligned(getattr(model, name).nbytes) for name, new in zip(BLOCKS, stored, strict=True)
    )
    sizes["noct"] = len(stored[0])
    sizes["nbuffer"] += grown
    head = content[:HEADER] + np.array(list(sizes.values()), np.int64).tobytes()
    parts = [head, content[len(head) : start], *(each.tobytes() for each in stored), content[start + before :]]
    made = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": b"".join(parts)})
    made.mesh_octadr[:], made.mesh_octnum[:] = merged.first, merged.count
    if not all(np.array_equal(getattr(made, name), new) for name, new in zip(BLOCKS, stored, strict=True)):
        raise _unknown_layout()
    return made


def put_warp(warp_model: Any, model: mujoco.MjModel, fields: FIELDS) -> None:
    """Replaces the octrees of a `mujoco_warp.Model` by fields, as `put` does; in its precision, float32.

    Args:
        warp_model: the model, from `mujoco_warp.put_model(model)`; changed in place, for all its worlds.
        model: the MjModel that it was made from.
        fields: a field or an `.oct` file for each mesh, by name or number; see `put`.

    Raises:
        UsageError, InputError: as `put`.
    """
    import warp as wp

    merged = _Merged(model, fields)
    device = warp_model.oct_child.device
    for name in ("oct_child", "oct_aabb", "oct_coeff"):
        kind = getattr(warp_model, name).dtype
        array = merged.arrays[name]
        array = array.reshape(-1, 2, 3) if name == "oct_aabb" else array
        setattr(warp_model, name, wp.array(array, dtype=kind, device=device))
    warp_model.mesh_octadr = wp.array(merged.first, dtype=int, device=device)
    warp_model.noct = len(merged.arrays["oct_child"])


def mesh_of(model: mujoco.MjModel, mesh: str | int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Vertices (v, 3) float64 and faces (f, 3) int64 of a model's mesh, in its frame in the model: the source of a
    field for `put`. Raises UsageError for an unknown mesh."""
    number = _mesh_number(model, mesh)
    vertex, face = int(model.mesh_vertadr[number]), int(model.mesh_faceadr[number])
    vertices = model.mesh_vert[vertex : vertex + int(model.mesh_vertnum[number])]
    faces = model.mesh_face[face : face + int(model.mesh_facenum[number])]
    return np.array(vertices, np.float64), np.array(faces, np.int64)


class _Merged:
    """The octrees of all meshes: those given, and the others' as they are.

    first, count  (nmesh,) int32: each mesh's root, or -1, and its node count.
    arrays        by name in BLOCKS.
    """

    def __init__(self, model: mujoco.MjModel, fields: FIELDS) -> None:
        given = {_mesh_number(model, mesh): _arrays_of(model, mesh, source) for mesh, source in fields.items()}
        self.first = np.array(model.mesh_octadr)
        self.count = np.array(model.mesh_octnum)
        own = Arrays(
            model.oct_child.reshape(-1, 8),
            model.oct_aabb.reshape(-1, 6),
            model.oct_coeff.reshape(-1, 8),
            model.oct_depth,
        )
        parts: list[Any] = []
        at = 0
        for mesh in range(model.nmesh):
            if mesh in given:
                part = given[mesh]
            elif self.first[mesh] >= 0:
                nodes = slice(self.first[mesh], self.first[mesh] + self.count[mesh])
                part = Arrays(own.child[nodes], own.aabb[nodes], own.coeff[nodes], own.depth[nodes])
            else:
                continue
            self.first[mesh], self.count[mesh] = at, len(part.depth)
            at += len(part.depth)
            parts.append(part)
        joined: list[npt.NDArray[Any]] = [np.concatenate(each) for each in zip(*parts, strict=True)] or list(own)
        names = ("oct_child", "oct_aabb", "oct_coeff", "oct_depth")
        self.arrays: dict[str, npt.NDArray[Any]] = dict(zip(names, joined, strict=True))


def _mesh_number(model: mujoco.MjModel, mesh: str | int) -> int:
    number = mesh if isinstance(mesh, int) else mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_MESH, mesh)
    if not 0 <= number < model.nmesh:
        names = ", ".join(model.mesh(each).name for each in range(model.nmesh)) or "none"
        raise UsageError(f"mesh {mesh}: not in the model, whose meshes are: {names}")
    return number


def _arrays_of(model: mujoco.MjModel, mesh: str | int, source: Field | str | PathLike[str]) -> Arrays:
    """A mesh's octree. Raises InputError if a tenth of the mesh's vertices lies outside its surface."""
    octree = Octree.of(source) if isinstance(source, Field) else read_oct(Path(source))
    vertices = mesh_of(model, mesh)[0]
    diagonal = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    away = float(np.quantile(octree.sample(vertices[:: 1 + len(vertices) // VERTICES]), 0.9))
    if away > AWAY * diagonal:
        raise InputError(
            f"mesh {mesh}: vertices are {away:.3g} outside the field's surface: MuJoCo moves meshes from files; build "
            "the field from sdfcli.mujoco.mesh_of(model, mesh), or use the scene of `sdfcli cook --for mujoco-warp`"
        )
    return octree.arrays()


def _layout(model: mujoco.MjModel) -> tuple[bytes, int, int, dict[str, int]]:
    """A model's bytes; where its octrees start in them, and their length; its sizes by name. Raises UsageError for a
    version of MuJoCo with another layout."""
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    content = buffer.tobytes()
    names = [each.name for each in structs.STRUCTS["mjModel"].fields]
    if not {"noct", "nbuffer", *BLOCKS} <= set(names):
        raise _unknown_layout()
    known = names[: names.index("nbuffer") + 1]
    numbers = np.frombuffer(content, np.int64, len(known), HEADER)
    sizes = dict(zip(known, map(int, numbers), strict=True))
    old = b"".join(np.ascontiguousarray(getattr(model, name)).tobytes() for name in BLOCKS)
    after = [getattr(model, name, None) for name in names[names.index(BLOCKS[-1]) + 1 :]]
    following = [each.tobytes() for each in after if isinstance(each, np.ndarray)]
    text = sizes["ntextdata"] + sizes["nnames"] + sizes["npaths"]
    start = len(content) - sum(map(len, following)) - text - len(old)
    next_arrays = b"".join(following[:8])
    if (
        any(sizes[name] != getattr(model, name) for name in ("nq", "nv", "ngeom", "nmesh", "noct", "nbuffer"))
        or content[start : start + len(old)] != old
        or content[start + len(old) : start + len(old) + len(next_arrays)] != next_arrays
    ):
        raise _unknown_layout()
    return content, start, len(old), sizes


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _unknown_layout() -> UsageError:
    return UsageError(
        f"MuJoCo {mujoco.mj_versionString()} stores models in a way that this sdfcli does not know; it knows 4.0; use "
        "the plugin: `sdfcli cook --for mujoco`"
    )
