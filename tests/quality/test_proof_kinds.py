"""Proofs by kind of field: the table in docs/internals/proof.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import oracle
import sdfcli
import shapes
from sdfcli.cli.app import app
from sdfcli.errors import InputError
from sdfcli.field.proven import proven_error


def test_an_octree_of_the_thesis_is_bounded() -> None:
    """Above its tolerance, which it does not follow, but by no more than its bounds."""
    shape, rng = shapes.torus(16, 9), np.random.default_rng(0)
    field = sdfcli.build(shape, octree="bvh", depth=5, tolerance=1e-3, prove=True, device="cpu")
    certificate = field.info["certificate"]
    assert (certificate["limit"], certificate["more_leaves"]) == ("octree", 0)
    assert certificate["above_tolerance"] > 0
    points, corner = rng.uniform(*field.bounds, (3000, 3)), shapes.triangles(shape)
    away = oracle.distance(points, corner)
    exact = np.where(oracle.winding(points, corner) > 0.5, -away, away)
    assert (np.abs(field.sample(points) - exact) <= field.bound(points)).all()


@pytest.mark.parametrize("shape", [shapes.torus(16, 9), shapes.sheet(np.random.default_rng(0), 5)])
def test_unsigned_fields_are_proven_everywhere(shape: shapes.Shape) -> None:
    field = sdfcli.build(shape, sign="none", tolerance=1e-2, prove=True, device="cpu")
    found = sdfcli.verify(field, shape, samples=30, prove=True, device="cpu")
    assert found.proof is not None
    assert (found.proof.closed, found.proof.surface) == (True, None)
    assert proven_error(field) is not None


def test_frames_of_a_sequence(tmp_path: Path) -> None:
    """They are not proven by the build, whose summary says so; `verify` proves one."""
    shape = shapes.torus(16, 9)
    for number in range(2):
        trimesh.Trimesh(*shapes.moved(shape, 1 + 0.1 * number), process=False).export(tmp_path / f"f{number}.ply")
    file, runner = str(tmp_path / "s.h5"), CliRunner()
    frames = [str(tmp_path / f"f{number}.ply") for number in range(2)]
    built = runner.invoke(app, ["sequence", *frames, "-o", file, "--tolerance", "0.01", "--device", "cpu", "-j", "1"])
    assert built.exit_code == 0, built.output
    assert "proof      none: errors are measured; verify --frame N --prove" in built.output
    words = ["verify", file, "--mesh", frames[1], "--samples", "30", "--prove", "--device", "cpu"]
    proof = runner.invoke(app, [*words, "--frame", "1"])
    assert proof.exit_code == 0, proof.output
    assert "proof: 100.00 %" in proof.output
    sequence = sdfcli.load_sequence(file)
    for field in (sequence.at(1), sequence.at_time(0.02)):
        with pytest.raises(InputError, match="no proven bounds"):
            field.bound(np.zeros(3))
