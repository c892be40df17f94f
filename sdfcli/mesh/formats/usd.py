"""USD reader based on usd-core: all meshes, including instances, placed as in the scene.

Each prototype is traversed once, regardless of its instance count: a mesh has a list of matrices, and is copied for
each only at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.lines import check_range
from sdfcli.mesh.formats.notes import Told
from sdfcli.mesh.formats.polygons import Polygons, triangulated
from sdfcli.mesh.formats.units import unit_name
from sdfcli.mesh.formats.usd_layers import MOST_PRIMS, Layers
from sdfcli.runtime.memory import require

DRAWN = ("default", "render")
"""Purposes visible in a final render; the others are proxies and guides."""
BYTES = 200
"""Working bytes per triangle and per vertex."""
MANY = 10_000
"""Minimum triangles in a mesh for a memory check in advance; the total is checked at the end."""
MOST_NESTED = 100
"""Maximum nesting depth of instances."""
MOST_COPIES = 10_000_000
"""Maximum mesh count, with each mesh counted once per instance."""

Part = tuple[Floats, Ints]
Skin = dict[str, tuple[Any, Any, Floats]]
"""Skinned meshes below a SkelRoot, by path: a mesh query, a skeleton query, and the skeleton's matrix."""
HOME = np.eye(4)


def read(path: Path) -> tuple[Floats, Ints, Told]:
    """Vertices (v, 3) in the scene's unit, triangles (f, 3), and facts about the file. Called by apart.py.

    Raises InputError for references to files that are missing or outside the folder, references to missing prims, and
    value clips.
    """
    from pxr import UsdGeom

    stage, _ = opened(path, path.parent)
    scene = _Scene(stage)
    vertices, faces = scene.mesh()
    size = UsdGeom.GetStageMetersPerUnit(stage)
    return vertices, faces, Told(scene.notes(), unit_name(size))


def opened(path: Path, folder: Path) -> tuple[Any, Layers]:
    """A scene's stage, and its layers, to be kept while the stage is used. folder: holds all layers.

    Raises InputError as `read` does.
    """
    from pxr import Tf, Usd

    try:
        layers = Layers(path, folder)
        stage = Usd.Stage.Open(layers.root, None)
    except Tf.ErrorException as error:
        inner = re.search(r" : '(.*)'\s*$", str(error), re.DOTALL)
        raise InputError(" ".join((inner[1] if inner else str(error)).split())) from error
    layers.check(stage.GetUsedLayers())
    if faults := stage.GetCompositionErrors():
        told = re.sub(r",@anon:[^@]*@", "", str(faults[0]).replace(f"{path.parent}/", ""))
        raise InputError(" ".join(told.split()))
    return stage, layers


class _State(NamedTuple):
    """State inherited by a prim.

    purpose      its purpose, unless it has its own.
    inheritable  whether prims below inherit the purpose, too.
    hidden       whether it, or a prim above it, is invisible.
    rendered     whether meshes with the purpose "render" are visible.
    """

    purpose: str = "default"
    inheritable: bool = False
    hidden: bool = False
    rendered: bool = True


class _Content:
    """Visible content in a frame. Meshes, keyed by path and whether they are fixed: fixed meshes reset transforms above
    them, and lie in the world frame. Contents of other frames, once per matrix (k, 4, 4), applied to row vectors.
    Counts of skipped content."""

    def __init__(self) -> None:
        self.copies: Counter[tuple[str, bool]] = Counter()
        self.left_out: Counter[str] = Counter()
        self._meshes: list[tuple[tuple[str, bool], Floats]] = []
        self._others: list[tuple[_Content, Floats, bool]] = []

    def place(self, mesh: str, matrix: Floats, fixed: bool) -> None:
        """Adds a mesh instance."""
        self.copies[mesh, fixed] += 1
        self._meshes.append(((mesh, fixed), matrix[None]))

    def add(self, other: _Content, matrices: Floats, fixed: bool) -> None:
        """Adds another frame's content, once per matrix."""
        for (mesh, own), count in other.copies.items():
            self.copies[mesh, own or fixed] += count * len(matrices)
        for name, count in other.left_out.items():
            self.left_out[name] += count * len(matrices)
        self._others.append((other, matrices, fixed))

    @cached_property
    def places(self) -> dict[tuple[str, bool], Floats]:
        """Instance matrices (k, 4, 4) per mesh."""
        found: dict[tuple[str, bool], list[Floats]] = {}
        for key, matrix in self._meshes:
            found.setdefault(key, []).append(matrix)
        for other, matrices, fixed in self._others:
            for (mesh, own), inner in other.places.items():
                # A fixed mesh is placed there once per instance.
                outer = np.broadcast_to(HOME, matrices.shape) if own else matrices
                moved = (inner[None] @ outer[:, None]).reshape(-1, 4, 4)
                found.setdefault((mesh, own or fixed), []).append(moved)
        return {key: np.concatenate(places) for key, places in found.items()}


class _Scene:
    """Contents of a scene, at its first time."""

    def __init__(self, stage: Any) -> None:
        from pxr import Usd, UsdGeom, UsdSkel

        self._stage = stage
        self._time = Usd.TimeCode.EarliestTime()
        self._cache = UsdGeom.XformCache(self._time)
        self._skeletons = UsdSkel.Cache()
        self._meshes: dict[str, Part] = {}
        self._frames: dict[tuple[str, _State], _Content] = {}
        self._moving = self._smooth = self._posed = False
        self._prims = 0
        self._content = self._frame(stage.GetPseudoRoot(), _State(), Usd.PrimDefaultPredicate)

    def mesh(self) -> Part:
        """All meshes combined."""
        copies = self._content.copies
        if copies.total() > MOST_COPIES:
            raise InputError(f"more than {MOST_COPIES:,} meshes, each counted once for each instance")
        sizes = {name: sum(map(len, self._meshes[name])) for name, _ in copies}
        number = sum(count * (sizes[name] + 2) for (name, _), count in copies.items())
        require(BYTES * number, "reading it")
        vertices, faces, before = [np.empty((0, 3))], [np.empty((0, 3), np.int64)], 0
        for (name, _), matrices in self._content.places.items():
            points, triangles = self._meshes[name]
            starts = before + len(points) * np.arange(len(matrices))
            mirrored = np.linalg.det(matrices[:, :3, :3]) < 0
            turned = np.where(mirrored[:, None, None], triangles[None, :, ::-1], triangles)
            vertices.append((points @ matrices[:, :3, :3] + matrices[:, 3:, :3]).reshape(-1, 3))
            faces.append((turned + starts[:, None, None]).reshape(-1, 3))
            before += len(points) * len(matrices)
        return np.concatenate(vertices), np.concatenate(faces)

    def notes(self) -> list[str]:
        """Skipped and converted content."""
        others = ", ".join(f"{count:,} {name}" for name, count in sorted(self._content.left_out.items()))
        return [
            *(["moves: read at its first time"] if self._moving else []),
            *(["skeletons and blend shapes: read in the pose of the first time"] if self._posed else []),
            *(["subdivision surfaces: read as the meshes that they are made from"] if self._smooth else []),
            *([f"not read: {others}; only meshes that are shown are"] if others else []),
        ]

    def _frame(self, root: Any, state: _State, predicate: Any, depth: int = 0) -> _Content:
        """Visible content at and below a prim, in its own frame. state: its parent's."""
        from pxr import Usd, UsdGeom, UsdSkel

        if depth > MOST_NESTED:
            raise InputError("instances within instances, too many")
        content = _Content()
        waiting: list[tuple[Any, Floats, bool, _State, Skin | None]] = [(root, HOME, False, state, None)]
        while waiting:
            prim, matrix, fixed, state, skin = waiting.pop()
            self._prims += 1
            if self._prims > MOST_PRIMS:
                raise InputError(f"more than {MOST_PRIMS:,} prims, of instances within instances")
            state = self._inherited(prim, state)
            if skin is None and prim.IsA(UsdSkel.Root):
                skin = self._skin(prim, matrix)
            if prim.IsA(UsdGeom.PointInstancer):
                self._instances(UsdGeom.PointInstancer(prim), content, (matrix, fixed, state), depth)
                continue
            self._own(prim, content, (matrix, fixed, state), skin)
            if prim.IsInstance() and not skin:
                inner = self._kept(prim.GetPrototype(), state, predicate, depth)
                content.add(inner, matrix[None], fixed)
                continue
            children = prim.GetFilteredChildren(Usd.TraverseInstanceProxies(predicate) if skin else predicate)
            for child in reversed(children):
                waiting.append((child, *self._placed(child, matrix, fixed), state, skin))
        return content

    def _kept(self, root: Any, state: _State, predicate: Any, depth: int) -> _Content:
        """`_frame`, cached by prototype and state."""
        key = str(root.GetPath()), state
        if key not in self._frames:
            self._frames[key] = self._frame(root, state, predicate, depth + 1)
        return self._frames[key]

    def _placed(self, prim: Any, above: Floats, fixed: bool) -> tuple[Floats, bool]:
        """A prim's matrix into the frame, and whether the prim is fixed. above: its parent's matrix."""
        from pxr import UsdGeom

        if not prim.IsA(UsdGeom.Xformable):
            return above, fixed
        local, resets = self._cache.GetLocalTransformation(prim)
        moved = UsdGeom.Xformable(prim)
        if len(moved.GetOrderedXformOps()) < len(moved.GetXformOpOrderAttr().Get() or ()) - resets:
            raise InputError(f"{str(prim.GetPath())[:80]!a}: its xformOpOrder names what is not there")
        self._moving |= moved.TransformMightBeTimeVarying()
        return (_matrix(local), True) if resets else (_matrix(local) @ above, fixed)

    def _inherited(self, prim: Any, above: _State) -> _State:
        from pxr import UsdGeom

        if not prim.IsA(UsdGeom.Imageable):
            return above
        shown = UsdGeom.Imageable(prim)
        purpose = shown.ComputePurposeInfo(UsdGeom.Imageable.PurposeInfo(above.purpose, above.inheritable))
        visible = shown.GetVisibilityAttr()
        self._moving |= visible.ValueMightBeTimeVarying()
        hidden = above.hidden or visible.Get(self._time) == "invisible"
        rendered = above.rendered
        if prim.HasAPI(UsdGeom.VisibilityAPI):
            own = UsdGeom.VisibilityAPI(prim).GetRenderVisibilityAttr().Get()
            rendered = rendered if own == "inherited" else own == "visible"
        return _State(str(purpose.purpose), bool(purpose.isInheritable), hidden, rendered)

    def _own(self, prim: Any, content: _Content, place: tuple[Floats, bool, _State], skin: Skin | None) -> None:
        """Adds a prim's own geometry."""
        from pxr import Tf, UsdGeom

        matrix, fixed, state = place
        kind = str(prim.GetTypeName())
        unknown = bool(kind) and prim.GetPrimTypeInfo().GetSchemaType() == Tf.Type.Unknown
        if not (prim.IsA(UsdGeom.Gprim) or unknown):
            return
        if state.hidden or (state.purpose == "render" and not state.rendered):
            content.left_out[f"invisible {kind}"] += 1
        elif state.purpose not in DRAWN:
            content.left_out[f"{kind} of purpose {state.purpose}"] += 1
        elif not prim.IsA(UsdGeom.Mesh):
            content.left_out[kind] += 1
        else:
            bound = skin.get(str(prim.GetPath())) if skin else None
            name = f"{prim.GetPath()}{' in its pose' if bound else ''}"
            if name not in self._meshes:
                self._meshes[name] = self._mesh(UsdGeom.Mesh(prim), bound)
            content.place(name, bound[2] if bound and bound[0].HasJointInfluences() else matrix, fixed)

    def _instances(self, instancer: Any, content: _Content, place: tuple[Floats, bool, _State], depth: int) -> None:
        """Adds an instancer's prototypes, once per visible instance."""
        from pxr import Usd

        matrix, fixed, state = place
        prototypes = instancer.GetPrototypesRel().GetForwardedTargets()
        index = np.asarray(instancer.GetProtoIndicesAttr().Get(self._time) or [], np.int64)
        mask = instancer.ComputeMaskAtTime(self._time)
        places = instancer.ComputeInstanceTransformsAtTime(
            self._time, self._time, instancer.IncludeProtoXform, instancer.IgnoreMask
        )
        self._moving |= any(each.ValueMightBeTimeVarying() for each in _motions(instancer))
        name = f"{str(instancer.GetPath())[:80]!a}"
        if len(places) != len(index) or (len(index) and not 0 <= index.min() <= index.max() < len(prototypes)):
            raise InputError(f"{name}: instances without a place, or without a prototype")
        shown = np.asarray(mask, bool) if mask else np.ones(len(index), bool)
        matrices = np.array(places, np.float64).reshape(-1, 4, 4) @ matrix
        predicate = Usd.PrimIsActive & Usd.PrimIsLoaded & Usd.PrimHasDefiningSpecifier
        for number, target in enumerate(prototypes):
            chosen = shown & (index == number)
            if not chosen.any():
                continue
            prototype = self._stage.GetPrimAtPath(target)
            if not prototype:
                raise InputError(f"{name}: its prototype {str(target)[:80]!a} is not there")
            inner = self._kept(prototype, self._above(prototype, instancer.GetPrim(), state), predicate, depth)
            if any(own for _, own in inner.copies):
                raise InputError(f"{name}: its prototype {str(target)[:80]!a} resets the transform above it")
            content.add(inner, matrices[chosen], fixed)

    def _above(self, prototype: Any, instancer: Any, state: _State) -> _State:
        """State inherited by an instancer's prototype, from the prims between the instancer and the prototype."""
        above: list[Any] = []
        prim = prototype.GetParent()
        while prim and prim != instancer:
            above.append(prim)
            prim = prim.GetParent()
        for prim in reversed(above):
            state = self._inherited(prim, state)
        return state

    def _skin(self, root: Any, matrix: Floats) -> Skin | None:
        """Skinned meshes below a SkelRoot; None without any."""
        from pxr import Usd, UsdSkel

        everything = Usd.TraverseInstanceProxies(Usd.PrimIsActive & Usd.PrimIsLoaded & Usd.PrimHasDefiningSpecifier)
        skeletons = UsdSkel.Root(root)
        self._skeletons.Populate(skeletons, everything)
        home = np.linalg.inv(_matrix(self._cache.GetLocalToWorldTransform(root)))
        meshes: Skin = {}
        for binding in self._skeletons.ComputeSkelBindings(skeletons, everything):
            skeleton = self._skeletons.GetSkelQuery(binding.GetSkeleton())
            place = _matrix(self._cache.GetLocalToWorldTransform(binding.GetSkeleton().GetPrim())) @ home @ matrix
            for target in binding.GetSkinningTargets():
                meshes[str(target.GetPrim().GetPath())] = target, skeleton, place
        return meshes or None

    def _mesh(self, mesh: Any, bound: tuple[Any, Any, Floats] | None) -> Part:
        attributes = (mesh.GetPointsAttr(), mesh.GetFaceVertexCountsAttr(), mesh.GetFaceVertexIndicesAttr())
        self._moving |= any(attribute.ValueMightBeTimeVarying() for attribute in attributes)
        self._smooth |= mesh.GetSubdivisionSchemeAttr().Get() != "none"
        points = mesh.GetPointsAttr().Get(self._time)
        if bound is not None and points:
            points = self._skinned(str(mesh.GetPath())[:80], points, *bound[:2])
        return mesh_of(mesh, points, self._time)

    def _skinned(self, name: str, points: Any, target: Any, skeleton: Any) -> Any:
        """A mesh's points in the pose at the first time: in its skeleton's frame if joints move them, otherwise in the
        mesh's."""
        from pxr import UsdSkel, Vt

        points, animation, right = Vt.Vec3fArray(points), skeleton.GetAnimQuery(), True
        if animation and target.HasBlendShapes():
            shapes = UsdSkel.BlendShapeQuery(UsdSkel.BindingAPI(target.GetPrim()))
            weights = target.GetBlendShapeMapper().Remap(animation.ComputeBlendShapeWeights(self._time))
            parts = shapes.ComputeSubShapeWeights(weights)
            right = shapes.ComputeDeformedPoints(
                *parts, shapes.ComputeBlendShapePointIndices(), shapes.ComputeSubShapePointOffsets(), points
            )
            self._moving |= animation.BlendShapeWeightsMightBeTimeVarying()
        if target.HasJointInfluences():
            joints = skeleton.ComputeSkinningTransforms(self._time)
            right = right and bool(joints) and target.ComputeSkinnedPoints(joints, points, self._time)
            self._moving |= bool(animation) and animation.JointTransformsMightBeTimeVarying()
        if not right:
            raise InputError(f"{name!a}: its skeleton, or its blend shapes, do not fit it")
        self._posed = True
        return points


def mesh_of(mesh: Any, points: Any, time: Any) -> Part:
    """Vertices (v, 3) and triangles (f, 3) of a `UsdGeom.Mesh` at a time, in its own frame, with its holes left out.
    points: its points, posed. Raises InputError for damaged faces."""
    count, corner = (each.Get(time) for each in (mesh.GetFaceVertexCountsAttr(), mesh.GetFaceVertexIndicesAttr()))
    name = str(mesh.GetPath())[:80]
    vertices = np.asarray(points if points is not None else [], np.float64).reshape(-1, 3)
    polygons = Polygons(np.asarray(corner or [], np.int64), np.asarray(count or [], np.int64))
    if polygons.count.sum() != len(polygons.corner) or (polygons.count < 3).any():
        raise InputError(f"{name!a}: faces need three corners or more, and as many as their counts say")
    check_range(polygons, len(vertices), lambda face: f"{name!a}: face {face}", polygons.corner)
    holes = np.asarray(mesh.GetHoleIndicesAttr().Get(time) or [], np.int64)
    solid = np.ones(len(polygons.count), bool)
    solid[holes[(holes >= 0) & (holes < len(solid))]] = False
    if not solid.all():
        polygons = Polygons(polygons.corner[np.repeat(solid, polygons.count)], polygons.count[solid])
    if (triangles := int((polygons.count - 2).sum())) > MANY:
        require(BYTES * triangles, "reading it")
    faces = triangulated(vertices, polygons) if len(polygons.count) else np.empty((0, 3), np.int64)
    if mesh.GetOrientationAttr().Get() == "leftHanded":
        faces = faces[:, ::-1]
    return vertices, faces


def _motions(instancer: Any) -> Iterator[Any]:
    """An instancer's attributes that may move it."""
    yield from (instancer.GetPositionsAttr(), instancer.GetOrientationsAttr(), instancer.GetScalesAttr())
    yield from (instancer.GetProtoIndicesAttr(), instancer.GetInvisibleIdsAttr())


def _matrix(matrix: Any) -> Floats:
    return np.array(matrix, np.float64)
