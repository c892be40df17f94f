"""USD in a separate process, called by apart.py: meshes that collide, with their scales in the world."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.cook.scene.usd_drawn import is_faceted, split
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.usd import mesh_of, opened
from sdfcli.mesh.formats.usd_layers import MOST_PRIMS

HEAD = (
    "defaultPrim", "metersPerUnit", "upAxis", "kilogramsPerUnit",
    "timeCodesPerSecond", "framesPerSecond", "startTimeCode", "endTimeCode",
)  # fmt: skip
"""Stage metadata, which only the first layer may state."""
PRIMITIVES = ("boundingCube", "boundingSphere")
"""Approximations that take a mesh's size only."""
SHEAR = 1e-5
"""Maximum cosine between axes that count as perpendicular: rotations have float32 components."""
DIGITS = 7
"""Significant digits in a scale. Points are float32: more digits would tell turned instances' equal scales apart."""


@dataclass
class Collider:
    """A mesh that collides.

    path       its prim's.
    instances  paths of the enclosing instances, the outermost first.
    geometry   index into `Contents.sizes`; instances share their prototype's.
    scale      per axis, from its points to metres in the world; all negative if its matrix mirrors it.
    exact      as importers have it: all digits of float32, in the stage's unit.
    faceted    whether it is drawn with vertices of each triangle's own.
    drawn      geometry as it is drawn, with its vertices split by normals; -1: as it is.
    fault      why it cannot be used; None if it can.
    """

    path: str
    instances: list[str] = field(default_factory=list)
    geometry: int = -1
    scale: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0])
    exact: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0])
    faceted: bool = False
    drawn: int = -1
    fault: str | None = None


@dataclass
class Contents:
    """Facts about a scene.

    colliders  ordered as their prims.
    sizes      vertex and face counts by geometry; the arrays are concatenated, and each one's faces count from 0.
    head       metadata of the stage that are set, among HEAD.
    notes      assumptions, a line each.
    """

    colliders: list[Collider]
    sizes: list[tuple[int, int]]
    head: dict[str, str | float]
    notes: list[str]


def read(path: Path, folder: str) -> tuple[Floats, Ints, Contents]:
    """Vertices (v, 3) in prims' frames, triangles (f, 3), and facts about them. folder: holds all layers.

    Raises InputError as `usd.opened` does, and for more than MOST_PRIMS prims.
    """
    from pxr import Gf, Usd, UsdGeom

    stage, layers = opened(path, Path(folder))
    time = Usd.TimeCode.EarliestTime()
    cache, unit = UsdGeom.XformCache(time), UsdGeom.GetStageMetersPerUnit(stage)
    vertices, faces = [np.empty((0, 3))], [np.empty((0, 3), np.int64)]
    colliders: list[Collider] = []
    known: dict[str, tuple[int, int, bool] | str] = {}
    for number, prim in enumerate(Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies())):
        if number > MOST_PRIMS:
            raise InputError(f"more than {MOST_PRIMS:,} prims, of instances within instances")
        if not prim.IsA(UsdGeom.Mesh) or not _collides(prim):
            continue
        above = [prim.GetStage().GetPrimAtPath(each) for each in prim.GetPath().GetPrefixes()[:-1]]
        collider = Collider(str(prim.GetPath()), [str(each.GetPath()) for each in above if each.IsInstance()])
        colliders.append(collider)
        own = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
        name = str(own.GetPath())
        try:
            if any(each.IsA(UsdGeom.PointInstancer) for each in above):
                raise InputError("is copied by a point instancer; make the copies prims of their own")
            matrix = cache.GetLocalToWorldTransform(prim)
            collider.scale = scale_of(np.array(matrix), unit)
            collider.exact = np.array(Gf.Transform(matrix).GetScale(), np.float32).tolist()
            if name not in known:
                known[name] = _add(UsdGeom.Mesh(prim), time, vertices, faces)
            found = known[name]
            if isinstance(found, str):
                raise InputError(found)
            collider.geometry, collider.drawn, collider.faceted = found
        except InputError as error:
            collider.fault = str(error)
    root = layers.root.pseudoRoot
    head = {name: root.GetInfo(name) for name in HEAD if root.HasInfo(name)}
    sizes = list(zip(map(len, vertices[1:]), map(len, faces[1:]), strict=True))
    notes = [] if "metersPerUnit" in head else ["names no metersPerUnit: taken as centimetres, USD's default"]
    return np.concatenate(vertices), np.concatenate(faces), Contents(colliders, sizes, head, notes)


def _add(mesh: Any, time: Any, vertices: list[Floats], faces: list[Ints]) -> tuple[int, int, bool] | str:
    """Adds a mesh's arrays, and those that are drawn if they differ. Returns a collider's `geometry`, `drawn` and
    `faceted`, or the mesh's fault."""
    try:
        points, triangles = mesh_of(mesh, mesh.GetPointsAttr().Get(time), time)
        shown = split(mesh, points, time)
    except InputError as error:
        return str(error)
    number = len(vertices) - 1
    vertices.append(points)
    faces.append(triangles)
    if shown is not None:
        vertices.append(shown[0])
        faces.append(shown[1])
    return number, -1 if shown is None else number + 1, is_faceted(mesh, time)


def _collides(prim: Any) -> bool:
    """Whether a mesh collides by its triangles: it, or the nearest prim above, is an enabled collider, other than
    another shape."""
    from pxr import UsdGeom, UsdPhysics

    owner = prim
    while owner and not owner.HasAPI(UsdPhysics.CollisionAPI):
        owner = owner.GetParent()
    if not owner or (owner != prim and owner.IsA(UsdGeom.Gprim)):
        return False
    values = [each.GetAttribute("physics:approximation").Get() for each in (prim, owner)]
    approximation = next((value for value in values if value is not None), "none")
    return UsdPhysics.CollisionAPI(owner).GetCollisionEnabledAttr().Get() is not False and (
        approximation not in PRIMITIVES
    )


def scale_of(matrix: Floats, unit: float) -> list[float]:
    """The scale per axis in a matrix (4, 4) for row vectors, `scale @ rotation`: negative for all axes if the matrix
    mirrors, as UsdPhysics takes it; times `unit`, in metres.

    Raises InputError for a matrix that shears, or maps to a plane.
    """
    axes = matrix[:3, :3]
    lengths = np.linalg.norm(axes, axis=1)
    if not (np.isfinite(lengths).all() and lengths.all()):
        raise InputError(f"a scale of {' '.join(f'{each:g}' for each in lengths)}; it must be finite and not 0")
    turn = axes / lengths[:, None]
    if np.abs(turn @ turn.T - np.eye(3)).max() > SHEAR:
        raise InputError("is sheared, by a rotation within a scale that differs per axis; apply it to the points")
    sign = -1.0 if np.linalg.det(turn) < 0 else 1.0
    return [float(f"{sign * each * unit:.{DIGITS - 1}e}") for each in lengths]
