"""What usd-core says of the meshes of scenes, for test_scene_usd.py: run as a program, since pxr and VTK crash in one
process.

Prints JSON, for each path given: colliders by path with points in the world and the collision scale of UsdPhysics,
attributes of the physics, the schemas, and the stage's unit and axis.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def facts(path: str) -> dict[str, Any]:
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.Open(path)
    assert not stage.GetCompositionErrors()
    cache, found = UsdGeom.XformCache(), {}
    for prim in Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies()):
        if not prim.IsA(UsdGeom.Mesh):
            continue
        matrix = cache.GetLocalToWorldTransform(prim)
        scale = matrix.GetOrthonormalized(False)  # for rotation alone
        points = UsdGeom.Mesh(prim).GetPointsAttr().Get() or []
        own = [each for each in prim.GetAttributes() if each.GetName().split(":")[0] in ("physics", "physx", "newton")]
        found[str(prim.GetPath())] = {
            "points": [list(matrix.Transform(point)) for point in points],
            "rotation": [list(row)[:3] for row in scale][:3],
            "place": list(matrix.ExtractTranslation()),
            "attributes": {each.GetName(): str(each.Get()) for each in own if each.HasAuthoredValue()},
            "schemas": list(prim.GetPrimTypeInfo().GetAppliedAPISchemas()),
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = UsdPhysics.LoadUsdPhysicsFromRange(stage, ["/"]).get(UsdPhysics.ObjectType.MeshShape, ([], []))
    for place, shape in zip(*shapes, strict=True):
        found[str(place)]["scale"] = list(shape.meshScale)
    return {
        "unit": UsdGeom.GetStageMetersPerUnit(stage),
        "axis": str(UsdGeom.GetStageUpAxis(stage)),
        "default": str(stage.GetDefaultPrim().GetPath()) if stage.GetDefaultPrim() else None,
        "meshes": found,
    }


print(json.dumps([facts(path) for path in sys.argv[1:]]))
