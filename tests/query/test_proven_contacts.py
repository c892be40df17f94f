"""Contacts with fields whose error is proven: intervals by leaf, against dense points and brute force."""

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
from sdfcli.backend import Backend
from sdfcli.cli.app import app
from sdfcli.cli.wording import rounded_down
from sdfcli.field.field import Field
from sdfcli.field.proven import UNBOUNDED, leaf_errors, proven_error
from sdfcli.field.stated_error import StatedError

backend = backends.backend

SAMPLES = np.array([(i, j, 12 - i - j) for i in range(13) for j in range(13 - i)]) / 12
"""Weights of a triangle's corners, 91 points of it."""

SOLIDS = {"torus": shapes.torus(16, 9), "cube": shapes.cube(), "sheet": shapes.sheet(np.random.default_rng(0), 5)}


@cache
def built(name: str) -> Field:
    return sdfcli.build(SOLIDS[name], tolerance=0.01, band=0.05, prove=True, device="cpu")


def pose_of(rng: np.random.Generator, reach: float, scale: float) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = scale * shapes.turn(rng), rng.uniform(-reach, reach, 3)
    return pose


def points_of(shape: shapes.Shape, pose: np.ndarray) -> np.ndarray:
    return np.asarray((SAMPLES @ (shapes.triangles(shape) @ pose[:3, :3].T + pose[:3, 3])).reshape(-1, 3))


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(SOLIDS)),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.02, 0.1, 0.5]),
    worse=st.booleans(),
)
def test_intervals_hold(backend: Backend, name: str, seed: int, scale: float, worse: bool) -> None:
    """The true least distance lies between them, whichever the bounds of leaves; and each leaf's bound counts."""
    rng, field, solid = np.random.default_rng(seed), built(name), SOLIDS[name]
    if worse:  # any larger bounds hold, too
        code = field.leaf_bound + rng.integers(0, 30, field.leaves).astype(np.uint8)  # type: ignore[operator]
        field = replace(field, leaf_bound=code)
    shape = shapes.cube()
    poses = np.array([pose_of(rng, 1.2, scale) for _ in range(3)])
    found = sdfcli.contacts(field, shape, poses, device=backend.name)
    corner = shapes.triangles(solid)
    for i, pose in enumerate(poses):
        points = points_of(shape, pose)
        away = oracle.distance(points, corner)
        least = (np.where(oracle.winding(points, corner) > 0.5, -away, away) if name != "sheet" else away).min()
        spacing = scale * np.sqrt(8) / 12
        if not found.proven[i]:  # around the solid
            assert found.low[i] < 0
            continue
        assert found.low[i] <= least + 1e-9
        assert found.high[i] >= least - spacing
        assert found.verdict[i] == (0 if found.low[i] > 0 else 2 if found.high[i] < 0 else 1)
        inside = ((points >= field.bounds[0]) & (points <= field.bounds[1])).all(axis=1)
        below = field.sample(points[inside]) - leaf_errors(field)[field.leaf_bound[field.leaf_at(points[inside])]]  # type: ignore[index]
        assert found.low[i] <= max(below.min(initial=np.inf), 0.0) + 1e-9 * field.unit
        assert name != "sheet" or found.low[i] >= 0


def test_intervals_are_narrower_than_stated_ones() -> None:
    field, rng = built("torus"), np.random.default_rng(5)
    poses = np.array([pose_of(rng, 1.2, 0.05) for _ in range(200)])
    proven = sdfcli.contacts(field, shapes.cube(), poses, device="cpu")
    stated = sdfcli.contacts(replace(field, leaf_bound=None), shapes.cube(), poses, device="cpu")
    assert proven.proven.all()
    assert not stated.proven.any()
    inside = ~(proven.outside_domain | stated.outside_domain)
    assert np.median((proven.high - proven.low)[inside]) < 0.9 * np.median((stated.high - stated.low)[inside])
    assert (proven.verdict == 1).sum() <= (stated.verdict == 1).sum()


def test_a_field_is_proven_everywhere_or_as_stated() -> None:
    field = built("cube")
    error = proven_error(field)
    assert error is not None
    assert error.proven
    assert field.info["proven_error"] * field.unit <= error.near <= 1.07 * field.info["proven_error"] * field.unit
    code = np.array(field.leaf_bound)
    code[3] = UNBOUNDED
    opened = {**field.info, "certificate": {**field.info["certificate"], "closed": False}}
    large = np.full_like(code, 200)  # not below the band
    for other in (
        replace(field, leaf_bound=code),
        replace(field, info=opened),
        replace(field, leaf_bound=large),
        replace(field, leaf_bound=None),
    ):
        assert proven_error(other) is None
        found = sdfcli.contacts(other, shapes.cube(), np.eye(4), device="cpu")
        assert not found.proven.any()
        whole = sdfcli.contacts(replace(field, leaf_bound=None), shapes.cube(), np.eye(4), device="cpu")
        assert (found.low, found.high) == (whole.low, whole.high)


def test_the_command_prints_intervals(tmp_path: Path) -> None:
    field, unit = built("cube"), built("cube").unit
    file, mesh = str(field.save(tmp_path / "cube.h5")), str(tmp_path / "tool.ply")
    trimesh.Trimesh(*shapes.cube(), process=False).export(mesh)
    runner = CliRunner()
    for move, words in ((2.2, "clearance at least"), (1.7, "depth between"), (2.0, "undecided: clearance at most")):
        place = ["--at", f"{move},0,0"]
        line, last = map(json.loads, runner.invoke(app, ["collide", file, mesh, *place, "--json"]).stdout.splitlines())
        assert line["proven"]
        assert last["proven_error"] == proven_error(field).near  # type: ignore[union-attr]
        assert last["stated_error"] == StatedError.of(field).near
        assert line["low"] <= move - 2 <= line["high"]
        assert line["high"] - line["low"] < 3 * 0.01 * unit
        (row,) = (
            row for row in runner.invoke(app, ["collide", file, mesh, *place]).output.splitlines() if words in row
        )
        assert row.startswith("proven")
        assert words != "clearance at least" or float(row.split()[-1]) <= line["low"]
    path = ["--path", "--at", "3,0,0", "--at", "2.5,0,0"]
    assert "clear all the way" in runner.invoke(app, ["collide", file, mesh, *path]).output
    assert runner.invoke(app, ["collide", file, mesh, "--at", "2.2,0,0", "--min", "0.1"]).exit_code == 0
    assert runner.invoke(app, ["collide", file, mesh, "--at", "2.2,0,0", "--min", "0.2"]).exit_code == 6


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.1, 0.1), (0.12349, 0.123), (1.0009, 1.0), (9.999, 9.9), (2e-7, 2e-7)]
)
def test_clearances_are_rounded_down_in_text(value: float, rounded: float) -> None:
    assert rounded_down(value) == rounded
