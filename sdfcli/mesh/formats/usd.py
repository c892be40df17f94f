"""Reader of USD scenes by usd-core: all meshes, instances included, where the scene places them.

Layers refer to other files: only files in the folder of the scene, or below, are opened.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.lines import check_range
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.runtime.memory import require

UNITS = {1.0: "metre", 0.01: "centimetre", 0.001: "millimeter", 0.0254: "inch", 0.3048: "foot", 1e-6: "micrometre"}
DRAWN = ("default", "render")
"""Purposes of what is seen in a final picture; others are stand-ins and guides."""
BYTES = 200
"""Minimum working bytes per triangle."""
MOST_NESTED = 16
"""Maximum depth of instancers within the prototypes of instancers."""

Part = tuple[Floats, Ints]


def read(path: Path) -> tuple[Floats, Ints, str, list[str]]:
    """Vertices (v, 3) in the scene's unit, triangles (f, 3), the unit, and notes. For apart.py.

    Raises InputError for references to files that are not there, or not in the folder, and for value clips.
    """
    from pxr import Tf, Usd, UsdGeom

    try:
        layer = _opened(str(path))
    except Tf.ErrorException as error:
        told = re.search(r" : '(.*)'\s*$", str(error), re.DOTALL)
        raise InputError(" ".join((told[1] if told else str(error)).split())) from error
    _check_layers(layer, path.parent.resolve())
    stage = Usd.Stage.Open(layer)
    scene = _Scene()
    parts = list(scene.parts(stage.GetPseudoRoot(), np.eye(4)))
    vertices, faces, before = [np.empty((0, 3))], [np.empty((0, 3), np.int64)], 0
    for points, triangles in parts:
        vertices.append(points)
        faces.append(triangles + before)
        before += len(points)
    size = UsdGeom.GetStageMetersPerUnit(stage)
    unit = next((name for known, name in UNITS.items() if abs(size / known - 1) < 1e-6), f"{size:g} metres")
    return np.concatenate(vertices), np.concatenate(faces), unit, scene.notes()


def _opened(place: str) -> Any:
    from pxr import Sdf

    layer = Sdf.Layer.FindOrOpen(place)
    if layer is None:
        raise InputError(f"{Path(place).name[:80]!a} is not a layer of USD")
    return layer


def _check_layers(root: Any, folder: Path) -> None:
    """Raises InputError for a layer that refers to what is no file in the folder, or below."""
    from pxr import Sdf

    seen, waiting = {root.identifier}, [root]
    while waiting:
        layer = waiting.pop()
        layer.Traverse(Sdf.Path.absoluteRootPath, lambda path, layer=layer: _refuse_clips(layer, path))
        for name in layer.GetCompositionAssetDependencies():
            place = Sdf.ComputeAssetPathRelativeToLayer(layer, name)
            file = Path(place.partition("[")[0])
            if not (file.is_absolute() and file.resolve().is_relative_to(folder) and file.is_file()):
                raise InputError(f"names {name[:80]!a}, which is no file in its folder")
            if place not in seen:
                seen.add(place)
                waiting.append(_opened(place))


def _refuse_clips(layer: Any, path: Any) -> None:
    prim = layer.GetPrimAtPath(path) if path.IsPrimPath() else None
    if prim is not None and prim.HasInfo("clips"):
        raise InputError(f"{str(path)[:80]!a} has value clips, which other files hold: flatten the scene (usdcat -f)")


class _Scene:
    """What is found in a scene, at its first time."""

    def __init__(self) -> None:
        from pxr import Usd, UsdGeom

        self._time = Usd.TimeCode.EarliestTime()
        self._cache = UsdGeom.XformCache(self._time)
        self._left_out: Counter[str] = Counter()
        self._moving = self._smooth = False
        self._triangles = 0

    def parts(self, root: Any, matrix: Floats, depth: int = 0) -> Iterator[Part]:
        """The meshes at and below a prim. matrix: (4, 4), to be applied to rows, from the frame of `root`."""
        from pxr import Usd, UsdGeom

        if depth > MOST_NESTED:
            raise InputError("instancers within instancers, too many")
        home = np.linalg.inv(_matrix(self._cache.GetLocalToWorldTransform(root))) if depth else np.eye(4)
        prims = iter(Usd.PrimRange(root, Usd.TraverseInstanceProxies(Usd.PrimDefaultPredicate)))
        for prim in prims:
            if not prim.IsA(UsdGeom.Imageable):
                continue
            shown = UsdGeom.Imageable(prim)
            if shown.ComputeVisibility(self._time) == "invisible" or shown.ComputePurpose() not in DRAWN:
                continue
            own = _matrix(self._cache.GetLocalToWorldTransform(prim)) @ home @ matrix
            if prim.IsA(UsdGeom.PointInstancer):
                prims.PruneChildren()
                yield from self._instances(UsdGeom.PointInstancer(prim), own, depth)
            elif prim.IsA(UsdGeom.Mesh):
                yield self._mesh(UsdGeom.Mesh(prim), own)
            elif prim.IsA(UsdGeom.Gprim):
                self._left_out[prim.GetTypeName()] += 1
            if prim.IsA(UsdGeom.Xformable) and UsdGeom.Xformable(prim).TransformMightBeTimeVarying():
                self._moving = True

    def _instances(self, instancer: Any, matrix: Floats, depth: int) -> Iterator[Part]:
        """The prototypes of an instancer, once for each instance that is shown."""
        prototypes = instancer.GetPrototypesRel().GetForwardedTargets()
        index = np.asarray(instancer.GetProtoIndicesAttr().Get(self._time) or [], np.int64)
        mask = instancer.ComputeMaskAtTime(self._time)
        places = instancer.ComputeInstanceTransformsAtTime(
            self._time, self._time, instancer.IncludeProtoXform, instancer.IgnoreMask
        )
        self._moving |= instancer.GetPositionsAttr().ValueMightBeTimeVarying()
        if len(places) != len(index) or (len(index) and not 0 <= index.min() <= index.max() < len(prototypes)):
            raise InputError(f"{str(instancer.GetPath())[:80]!a}: instances without a place, or without a prototype")
        for number, target in enumerate(prototypes):
            chosen = [k for k in np.flatnonzero(index == number).tolist() if not mask or mask[k]]
            before = self._triangles
            prototype = instancer.GetPrim().GetStage().GetPrimAtPath(target)
            parts = list(self.parts(prototype, np.eye(4), depth + 1)) if chosen and prototype else []
            self._triangles = before
            self._add(len(chosen) * sum(len(faces) for _, faces in parts))
            for k in chosen:
                for points, faces in parts:
                    yield _moved(points, faces, _matrix(places[k]) @ matrix)

    def _mesh(self, mesh: Any, matrix: Floats) -> Part:
        attributes = (mesh.GetPointsAttr(), mesh.GetFaceVertexCountsAttr(), mesh.GetFaceVertexIndicesAttr())
        points, count, corner = (attribute.Get(self._time) for attribute in attributes)
        self._moving |= any(attribute.ValueMightBeTimeVarying() for attribute in attributes)
        self._smooth |= mesh.GetSubdivisionSchemeAttr().Get() != "none"
        vertices = np.asarray(points if points is not None else [], np.float64).reshape(-1, 3)
        polygons = Polygons(np.asarray(corner or [], np.int64), np.asarray(count or [], np.int64))
        name = str(mesh.GetPath())[:80]
        if polygons.count.sum() != len(polygons.corner) or (polygons.count < 3).any():
            raise InputError(f"{name!a}: faces need three corners or more, and as many as their counts say")
        check_range(polygons, len(vertices), lambda face: f"{name!a}: face {face}", polygons.corner)
        holes = np.asarray(mesh.GetHoleIndicesAttr().Get(self._time) or [], np.int64)
        solid = np.ones(len(polygons.count), bool)
        solid[holes[(holes >= 0) & (holes < len(solid))]] = False
        if not solid.all():
            polygons = Polygons(polygons.corner[np.repeat(solid, polygons.count)], polygons.count[solid])
        self._add(int((polygons.count - 2).sum()))
        faces = triangulated(vertices, polygons) if len(polygons.count) else np.empty((0, 3), np.int64)
        if mesh.GetOrientationAttr().Get() == "leftHanded":
            faces = faces[:, ::-1]
        return _moved(vertices, faces, matrix)

    def _add(self, triangles: int) -> None:
        self._triangles += triangles
        require(BYTES * self._triangles, "reading it")

    def notes(self) -> list[str]:
        """What was not read as it is."""
        others = ", ".join(f"{count} {name}" for name, count in sorted(self._left_out.items()))
        return [
            *(["moves: read at its first time"] if self._moving else []),
            *(["subdivision surfaces: read as the meshes that they are made from"] if self._smooth else []),
            *([f"not read: {others}; only meshes are"] if others else []),
        ]


def _matrix(matrix: Any) -> Floats:
    return np.array(matrix, np.float64)


def _moved(points: Floats, faces: Ints, matrix: Floats) -> Part:
    """A mesh under an affine map; a mirrored one is turned inside out again."""
    turned = faces[:, ::-1] if np.linalg.det(matrix[:3, :3]) < 0 else faces
    return points @ matrix[:3, :3] + matrix[3, :3], turned
