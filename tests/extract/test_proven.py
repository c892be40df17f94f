"""Proven distances between extracted surfaces and meshes, against brute force and certified Hausdorff distances."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.cli.app import app
from sdfcli.errors import InputError
from sdfcli.extract import proven as module
from sdfcli.extract.proven import NONE, _bounds, proven_distance
from sdfcli.field.field import Field, lattice_position
from sdfcli.field.proven import UNBOUNDED, leaf_errors

backend = backends.backend

ROOT = Path(__file__).resolve().parents[2]


def two_cubes() -> shapes.Shape:
    """A cube, and a small one beside it."""
    vertices, faces = shapes.cube()
    small = 0.04 * vertices + [2.0, 0.05, 0.05]
    return np.concatenate((vertices, small)), np.concatenate((faces, faces + len(vertices)))


SOLIDS = {
    "torus": shapes.torus(16, 9),
    "ball": shapes.icosphere(2),
    "cubes": two_cubes(),
    "star": shapes.star(np.random.default_rng(1), 1),
}


@cache
def built(name: str) -> Field:
    return sdfcli.build(SOLIDS[name], tolerance=0.01, prove=True, device="cpu")


def signed(name: str, points: np.ndarray) -> np.ndarray:
    corner = shapes.triangles(SOLIDS[name])
    away = oracle.distance(points, corner)
    return np.asarray(np.where(oracle.winding(points, corner) > 0.5, -away, away))


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(SOLIDS)),
    cells=st.sampled_from([5, 9, 16, 37, 64]),
    iso=st.sampled_from([0.0, 0.0, 0.03, -0.05]),
    seed=st.integers(0, 2**32 - 1),
    attack=st.booleans(),
)
def test_no_point_exceeds_its_triangles_bound(
    backend: Backend, name: str, cells: int, iso: float, seed: int, attack: bool
) -> None:
    """At random points of triangles; with noise, whose size the bounds have, the field is as wrong as it may be."""
    field, rng = built(name), np.random.default_rng(seed)
    if attack:
        noise = rng.uniform(-0.5, 0.5, field.corners).astype(np.float32) * np.float32(
            field.info["parameters"]["tolerance"] * field.unit
        )
        field = replace(field, distance=field.distance + noise, leaf_bound=np.full(field.leaves, 136, np.uint8))
    try:
        surface = sdfcli.isosurface(field, cells=cells, iso=iso, device="cpu")
    except InputError:
        return
    found = proven_distance(surface, field, iso, backend)
    assert found is not None
    with backend.active():
        bound = _bounds(surface, field, iso, backend)
    assert found.error == bound.max() < NONE
    assert not len(found.unbounded)
    chosen = rng.integers(0, len(bound), 1500)
    chosen[:300] = np.argsort(bound)[-300:][rng.integers(0, min(300, len(bound)), 300)]
    corner = surface.vertices[surface.faces[chosen]]
    points = (rng.dirichlet([1.0, 1.0, 1.0], len(chosen))[:, :, None] * corner).sum(axis=1)
    wrong = np.abs(signed(name, points) - iso)
    assert (wrong <= bound[chosen] + 1e-12).all()
    # Never below the field's own deviation there, with its bound: each point's interval counts.
    own = np.abs(field.sample(points) - iso) + leaf_errors(field)[field.leaf_bound[field.leaf_at(points)]]  # type: ignore[index]
    assert (own <= bound[chosen] + 1e-9).all()
    if iso == 0.0:
        mesh = sdfcli.MeshDistance((surface.vertices, surface.faces.astype(np.int64)), sign="none", device="cpu")
        on = trimesh.Trimesh(*SOLIDS[name], process=False).sample(2000, seed=seed % 1000)
        assert found.reverse is not None
        assert mesh.distance(np.asarray(on)).max() <= found.reverse
    else:
        assert found.reverse is None


@pytest.mark.parametrize("name", ["torus.obj", "bracket.stl"])
@pytest.mark.parametrize("cells", [None, 40])
def test_the_certified_hausdorff_distance_is_below(name: str, cells: int | None) -> None:
    mesh = ROOT / "sample_meshes" / name
    field = _sample(name)
    surface = sdfcli.isosurface(field, cells=cells, device="cpu")
    assert surface.proven is not None
    assert surface.proven.reverse is not None
    found = sdfcli.compare((surface.vertices, surface.faces.astype(np.int64)), mesh, device="cpu")
    assert found.a_to_b.upper <= surface.proven.error <= 2.5 * found.a_to_b.lower
    assert found.b_to_a.upper <= surface.proven.reverse


@cache
def _sample(name: str) -> Field:
    return sdfcli.build(ROOT / "sample_meshes" / name, tolerance=4e-3, prove=True, device="cpu")


def test_a_field_that_lost_a_part() -> None:
    """A grid too coarse for the small cube: the mesh is far from the surface there, and the leaves are named."""
    field = built("cubes")
    coarse, fine = (sdfcli.isosurface(field, cells=cells, device="cpu").proven for cells in (7, 128))
    assert coarse is not None
    assert fine is not None
    assert coarse.reverse is not None
    assert fine.reverse is not None
    assert len(fine.lost) == 0
    assert fine.reverse < 0.2
    assert coarse.reverse > 0.9
    assert len(coarse.lost) > 0
    assert np.linalg.norm(coarse.lost_at - np.array([2.0, 0.05, 0.05])) < 0.3
    # Where the field has no surface either: only values up to the bound tell.
    corner = field.domain.origin + field.domain.length * lattice_position(field.corner_key)
    there = np.linalg.norm(corner - [2.0, 0.05, 0.05], axis=1) < 0.5
    above = np.where(there, np.maximum(field.distance, np.float32(1e-4)), field.distance)
    gone = replace(field, distance=above, leaf_bound=np.full(field.leaves, 136, np.uint8))
    surface = sdfcli.isosurface(gone, cells=7, device="cpu")
    found = proven_distance(surface, gone, 0.0, select_backend("cpu"))
    assert found is not None
    assert found.reverse is not None
    assert found.reverse > 0.9


def test_fields_without_all_bounds() -> None:
    """At open holes triangles have no bound; other levels need all leaves' bounds."""
    field = built("torus")
    assert sdfcli.isosurface(replace(field, leaf_bound=None), cells=20, device="cpu").proven is None
    code = np.array(field.leaf_bound)
    code[field.leaf_at(np.array([[1.0, 0.0, 0.0]]))] = UNBOUNDED
    code[: len(code) // 2] = UNBOUNDED
    some = replace(field, leaf_bound=code)
    found, whole = (sdfcli.isosurface(each, cells=20, device="cpu").proven for each in (some, field))
    assert found is not None
    assert whole is not None
    assert len(found.unbounded) > 0
    assert found.error <= whole.error
    assert sdfcli.isosurface(some, cells=20, iso=0.02, device="cpu").proven is None
    none = sdfcli.isosurface(replace(field, leaf_bound=np.full_like(code, UNBOUNDED)), cells=20, device="cpu").proven
    assert none is not None
    assert none.error == np.inf


def test_the_command_states_it(tmp_path: Path) -> None:
    file = str(built("cubes").save(tmp_path / "cubes.h5"))
    out, runner = str(tmp_path / "out.stl"), CliRunner()
    words = ["extract", file, "-o", out, "--force"]
    (report,) = map(json.loads, runner.invoke(app, [*words, "--cells", "7", "--json"]).stdout.splitlines())
    written = trimesh.load(out)
    found = sdfcli.compare((written.vertices, written.faces), SOLIDS["cubes"], device="cpu")
    assert found.a_to_b.upper <= report["proven_error"]
    assert found.b_to_a.upper <= report["proven_reverse"]
    assert report["lost_leaves"] > 0
    assert len(report["lost_at"]) == 3
    text = runner.invoke(app, [*words, "--cells", "7"]).stdout
    assert "proven   within " in text
    assert f"lost at {report['lost_leaves']:,} leaves" in text
    shell = runner.invoke(app, [*words, "--iso", "0.05"]).stdout
    assert "of the distance 0.05" in shell
    assert "surface," not in shell.split("proven")[1]


def test_batches(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    field = built("star")
    surface = sdfcli.isosurface(field, cells=20, device="cpu")
    whole = proven_distance(surface, field, 0.0, backend)
    monkeypatch.setattr(module, "CHUNK", 1000)
    part = proven_distance(surface, field, 0.0, backend)
    assert whole is not None
    assert part is not None
    assert (whole.error, whole.reverse, whole.lost.tolist()) == (part.error, part.reverse, part.lost.tolist())
    monkeypatch.setattr(module, "MOST_CELLS", 10)
    coarse = proven_distance(surface, field, 0.0, backend)
    assert coarse is not None
    assert coarse.reverse >= whole.reverse  # type: ignore[operator]
