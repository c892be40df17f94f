"""What usd-core says of scenes, for test_usd.py: run as a program, since pxr and VTK crash in one process.

It prints, for each scene of a folder and for copies that are packed and flattened, JSON with the bounds of its meshes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def copies(path: Path) -> list[Path]:
    """A scene, and the same as .usdc, as .usdz and flattened."""
    from pxr import Sdf, Usd, UsdUtils

    packed, zipped, flat = (path.with_suffix(suffix) for suffix in (".usdc", ".usdz", ".flat.usda"))
    Sdf.Layer.FindOrOpen(str(path)).Export(str(packed))
    UsdUtils.CreateNewUsdzPackage(str(path), str(zipped))
    Usd.Stage.Open(str(path)).Flatten().Export(str(flat))
    return [path, packed, zipped, flat]


def bounds(path: Path) -> list[list[float]]:
    """The corners of the box around all meshes that are shown at the first time, by usd-core."""
    from pxr import Gf, Usd, UsdGeom, UsdSkel

    stage = Usd.Stage.Open(str(path))
    while instances := [prim for prim in stage.Traverse() if prim.IsInstance()]:
        for prim in instances:
            prim.SetInstanceable(False)  # else their skeletons cannot be applied
    start = stage.GetStartTimeCode()
    UsdSkel.BakeSkinning(stage.Traverse(), Gf.Interval(start, start))
    time = Usd.TimeCode(start)
    cache = UsdGeom.BBoxCache(time, ["default", "render"], False)
    found = Gf.Range3d()
    prims = iter(Usd.PrimRange(stage.GetPseudoRoot()))
    for prim in prims:
        if prim.IsA(UsdGeom.PointInstancer):
            prims.PruneChildren()
        elif not prim.IsA(UsdGeom.Mesh) or not effective(prim, time):
            continue
        found.UnionWith(cache.ComputeWorldBound(prim).ComputeAlignedRange())
    return [list(found.GetMin()), list(found.GetMax())]


def effective(prim: Any, time: Any) -> bool:
    from pxr import UsdGeom

    shown = UsdGeom.Imageable(prim)
    return bool(shown.ComputeEffectiveVisibility(shown.ComputePurpose(), time) != "invisible")


def main() -> None:
    """Prints the bounds of all scenes of a folder whose names do not start with `_`."""
    scenes = [path for path in sorted(Path(sys.argv[1]).glob("*.usda")) if not path.name.startswith("_")]
    print(json.dumps({str(copy): bounds(copy) for path in scenes for copy in copies(path)}))


if __name__ == "__main__":
    main()
