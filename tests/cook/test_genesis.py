"""Files for Genesis. Its package is not imported (test_in_genesis.py does): where it is installed, the functions that
compute keys and load files are taken from its source and run; the sampler is written after it."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import json
import marshal
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import cook_parts
import oracle
from sdfcli.cook import genesis as target
from sdfcli.cook.config import BAND, CookConfig
from sdfcli.cook.mesh_file import welded
from sdfcli.errors import InputError

POINTS = 100_000


@pytest.fixture
def rng() -> np.random.Generator:
    return cook_parts.random()


@pytest.fixture(autouse=True)
def genesis(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the name that pickles refer to, with the class of Genesis's source."""
    module = ModuleType("genesis.engine.mesh")
    grid: Any = NamedTuple(
        "SDFGrid",
        [(name, Any) for name in ("value", "grad", "closest_verts_idx", "max_value", "T_mesh_to_sdf")],
    )
    grid.__module__ = module.__name__
    vars(module)["SDFGrid"] = grid
    for name in ("genesis", "genesis.engine"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def functions(file: str, names: set[str], **known: Any) -> dict[str, Any]:
    """Functions and classes of a file of the installed Genesis, compiled without importing it."""
    found = importlib.util.find_spec("pip")  # its neighbours are the installed packages
    folders = [Path(each) for each in sys.path] + ([Path(found.origin).parents[1]] if found and found.origin else [])
    path = next((each / "genesis" / file for each in folders if (each / "genesis" / file).is_file()), None)
    if path is None:
        pytest.skip("needs the source of genesis-world: `pip install --no-deps genesis-world`")
    tree = ast.parse(path.read_text())
    chosen = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name in names]
    assert {each.name for each in chosen} == names
    for each in chosen:
        each.decorator_list = []
        each.returns = None
        for argument in each.args.args:
            argument.annotation = None
    exec(compile(ast.Module(body=list(chosen), type_ignores=[]), str(path), "exec"), known)
    return known


def cooked(rng: np.random.Generator, folder: Path) -> tuple[Any, Any, Any, Any]:
    """A part, its configuration, its field and what was written."""
    part = cook_parts.some_part(rng)
    if rng.random() < 0.5:  # a vertex without faces, which trimesh drops
        part = dataclasses.replace(part, vertices=np.concatenate((part.vertices, 1.1 * part.vertices[:1])))
    config = CookConfig(cells=int(rng.integers(30, 60)))
    field = cook_parts.field_of(target, part, config)
    return part, config, field, target.write(field, part, config, folder)


def interpolated(grid: Any, points: cook_parts.Floats) -> cook_parts.Floats:
    """Trilinear between nodes, as `sdf_func_true_sdf` of Genesis."""
    at = points @ grid.T_mesh_to_sdf[:3, :3].T + grid.T_mesh_to_sdf[:3, 3]
    base = np.minimum(np.floor(at).astype(int), np.array(grid.value.shape) - 2)
    total = np.zeros(len(points))
    for offset in np.ndindex(2, 2, 2):
        weight = (1 - np.abs(at - base - offset)).prod(axis=1)
        total += weight * grid.value[tuple((base + offset).T)]
    return total


def test_distances(rng: np.random.Generator, tmp_path: Path) -> None:
    """At 10^5 points within the band, the grid gives the exact distance within the tolerance, which is a cell,
    and at nodes the exact one."""
    part, config, field, written = cooked(rng, tmp_path)
    grid = pickle.loads((tmp_path / written.files[0]).read_bytes())
    tolerance = cook_parts.longest(part) / config.cells
    band = min(BAND * tolerance, 0.099 * cook_parts.longest(part))  # the grid ends there
    points = cook_parts.near_points(part, band, POINTS, rng)
    answer = interpolated(grid, points)
    assert np.abs(answer - field.sample(points)).max() <= cook_parts.FROM_FIELD * tolerance
    assert np.abs(answer - cook_parts.exact(part, points)).max() <= tolerance
    node = rng.integers(grid.value.shape, size=(1000, 3))
    back = np.linalg.inv(grid.T_mesh_to_sdf)
    at = node @ back[:3, :3].T + back[:3, 3]
    node_value = grid.value[tuple(node.T)]
    rounding = 4 * np.finfo(np.float32).eps * cook_parts.longest(part)
    np.testing.assert_allclose(node_value, cook_parts.exact(part, at), rtol=0, atol=rounding)
    assert (np.abs(node_value - field.sample(at)) <= tolerance / 4 * np.maximum(np.abs(node_value) / band, 1)).all()
    assert grid.max_value == grid.value.max()
    assert grid.value.dtype == grid.grad.dtype == np.float32


def test_nodes(rng: np.random.Generator, tmp_path: Path) -> None:
    """Gradients and nearest vertices of nodes, beside those of the exact nearest points."""
    part, config, _, written = cooked(rng, tmp_path)
    part = welded(part)
    grid = pickle.loads((tmp_path / written.files[0]).read_bytes())
    node = rng.integers(grid.value.shape, size=(2000, 3))
    back = np.linalg.inv(grid.T_mesh_to_sdf)
    at = node @ back[:3, :3].T + back[:3, 3]
    triangles = part.vertices[part.faces]
    distance = oracle.distances(at, triangles)
    nearest = distance.min(axis=1)
    chosen = part.vertices[grid.closest_verts_idx[tuple(node.T)]]
    # The vertex is one of a face at the least distance.
    of_face = (chosen[:, None, None] == triangles).all(axis=3).any(axis=2)
    size = cook_parts.longest(part)
    assert np.where(of_face, distance, np.inf).min(axis=1) == pytest.approx(nearest, abs=1e-5 * size)
    # A step against the gradient, or along it inside, ends on the surface.
    value, slope = grid.value[tuple(node.T)], grid.grad[tuple(node.T)]
    np.testing.assert_allclose(np.linalg.norm(slope, axis=1), 1, atol=1e-6)
    landed = at - np.sign(value)[:, None] * nearest[:, None] * slope
    off = nearest > 0.01 * size / config.cells
    assert oracle.distance(landed[off], triangles).max() < 1e-5 * size


def test_found_by_genesis(rng: np.random.Generator, tmp_path: Path, genesis: ModuleType) -> None:
    """Genesis's own `_get_sdf_grid` finds the file for the mesh read from the file beside it, and cooks nothing."""
    trimesh = pytest.importorskip("trimesh")
    _, config, _, written = cooked(rng, tmp_path)
    gs: Any = SimpleNamespace(
        __version__=config.genesis.version,
        EPS=float(np.finfo(np.float32).eps),
        np_int=np.int32,
        logger=SimpleNamespace(debug=lambda text: None, info=pytest.fail, warning=pytest.fail, timer=pytest.fail),
    )
    keys = functions(
        "utils/cache.py",
        {"get_cache_dir", "get_gsd_cache_dir", "get_gsd_path", "get_hashkey"},
        gs=gs, os=os, sys=sys, hashlib=hashlib, marshal=marshal, OrderedDict=OrderedDict, Path=Path,
    )  # fmt: skip
    loader = functions(
        "engine/mesh.py", {"_get_sdf_grid"}, gs=gs, np=np, os=os, pickle=pickle, get_gsd_path=keys["get_gsd_path"]
    )
    (tmp_path / "elsewhere").mkdir()
    scene = trimesh.load(tmp_path / written.files[1], force="scene", process=False)
    (mesh,) = scene.geometry.values()
    material = json.loads((tmp_path / written.files[2]).read_text())
    resolution = material["sdf_min_res"]
    assert material == {"sdf_min_res": resolution, "sdf_max_res": resolution}
    verts = mesh.vertices.view(np.ndarray)
    size = 0.2 * np.ptp(verts, axis=0).max() + np.ptp(verts, axis=0)  # as SignedDistanceFieldDescription does
    cell = gs.EPS + np.clip(0.005, size / (resolution - 1), size / max(resolution - 1, 2))
    grid_of = SimpleNamespace(
        n_nodes=tuple((np.ceil(size / cell).astype(int) + 1).tolist()), cell_size=tuple(cell.tolist()), has_grad=True
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GS_CACHE_FILE_PATH", str(tmp_path))
        found = loader["_get_sdf_grid"](mesh.vertices, mesh.faces, mesh, grid_of, "")
    assert isinstance(found, vars(genesis)["SDFGrid"])
    assert found.value.shape == grid_of.n_nodes
    # the matrix that Genesis computes
    centre = (verts.max(axis=0) + verts.min(axis=0)) / 2
    np.testing.assert_allclose(
        found.T_mesh_to_sdf @ [*(centre + cell), 1], [*(np.array(grid_of.n_nodes) - 1) / 2 + 1, 1], rtol=1e-9
    )


def test_pickle_has_arrays_only(rng: np.random.Generator, tmp_path: Path) -> None:
    """A file refers to nothing but Genesis's class and NumPy's arrays."""
    import pickletools

    *_, written = cooked(rng, tmp_path)
    names = {
        argument for code, argument, _ in pickletools.genops((tmp_path / written.files[0]).read_bytes())
        if code.name == "GLOBAL"
    }  # fmt: skip
    allowed = {"_reconstruct", "ndarray", "dtype", "encode"}
    assert "genesis.engine.mesh SDFGrid" in names
    assert {name.split()[1] for name in names - {"genesis.engine.mesh SDFGrid"}} <= allowed


def test_size(rng: np.random.Generator, tmp_path: Path) -> None:
    """The prediction is within a factor of 2; a limit coarsens the preset; Genesis has no fewer than 16 nodes."""
    part, config, _, written = cooked(rng, tmp_path)
    size = cook_parts.size_of(written.files, tmp_path)
    assert size / 2 <= target.predicted_bytes(config, part) <= 2 * size
    assert target.predicted_bytes(CookConfig(max_bytes=size), part) <= size
    with pytest.raises(InputError, match="use a larger --max-bytes"):
        target.parameters(CookConfig(max_bytes=1000), part)
