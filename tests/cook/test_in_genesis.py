"""Files in Genesis itself, which finds them by their keys and asks its own function for distances. Nightly: it compiles
its kernels for minutes. Needs `pip install torch genesis-world`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cook_parts
from sdfcli.cook import genesis as target
from sdfcli.cook.config import BAND, CookConfig

POINTS = 100_000


@pytest.mark.nightly
def test_distances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Genesis computes nothing for the part, and gives the exact distance within the tolerance, which is a cell."""
    gs = pytest.importorskip("genesis", reason="Genesis is not installed: `pip install torch genesis-world`")
    import quadrants as qd
    from genesis.utils import array_class, sdf

    rng = cook_parts.random()
    part, config = cook_parts.some_part(rng), CookConfig(cells=int(rng.integers(30, 100)))
    field = cook_parts.field_of(target, part, config)
    written = target.write(field, part, config, tmp_path)
    monkeypatch.setenv("GS_CACHE_FILE_PATH", str(tmp_path))
    if not gs._initialized:
        gs.init(backend=gs.cpu, precision="32", logging_level="error")
    world = gs.Scene(show_viewer=False)
    morph = gs.morphs.Mesh(file=str(tmp_path / "part.obj"), convexify=False, watertighten=None, fixed=True)
    material = gs.materials.Rigid(**json.loads((tmp_path / "part.json").read_text()))
    world.add_entity(morph, material=material)
    world.add_entity(gs.morphs.Sphere(radius=0.01, pos=(1000, 0, 0)))  # else there is nothing to collide
    before = (tmp_path / written.files[0]).stat().st_mtime_ns
    world.build()
    assert len([*tmp_path.glob("gsd/*")]) == 2  # the ball's is Genesis's
    assert (tmp_path / written.files[0]).stat().st_mtime_ns == before

    def asked(points: Any, found: Any, state: Any, info: Any, collider: Any) -> None:
        for i in range(points.shape[0]):
            at = qd.Vector([points[i, 0], points[i, 1], points[i, 2]])
            found[i] = sdf.sdf_func_world(0, 0, at, state.geoms, info.geoms, collider.sdf)

    array, kinds = qd.types.ndarray(), (array_class.DynState, array_class.DynInfo, array_class.ColliderInfo)
    asked.__annotations__ = dict(zip(asked.__annotations__, (array, array, *kinds), strict=False))
    tolerance = cook_parts.longest(part) / config.cells
    band = min(BAND * tolerance, 0.099 * cook_parts.longest(part))  # the grid ends there
    points = cook_parts.near_points(part, band, POINTS, rng).astype(np.float32)
    found = np.zeros(POINTS, np.float32)
    solver = world.sim.rigid_solver
    qd.kernel(asked)(points, found, solver.dyn_state, solver.dyn_info, solver.collider.collider_info)
    exact = cook_parts.exact(part, points.astype(np.float64))
    assert np.abs(found - exact).max() <= tolerance
    assert np.abs(found - field.sample(points)).max() <= cook_parts.FROM_FIELD * tolerance
