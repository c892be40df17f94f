"""`sdfcli verify` and `sdfcli info`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
from sdfcli.cli.app import app

SAMPLES = ["--samples", "20000", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mesh, its field, and one of another tolerance and without signs."""
    folder = tmp_path_factory.mktemp("fields")
    trimesh.creation.torus(1.0, 0.4).export(folder / "torus.ply")
    sdfcli.build(folder / "torus.ply", tolerance=2e-3, device="cpu").save(folder / "torus.h5")
    sdfcli.build(folder / "torus.ply", tolerance=2e-3, sign="none", device="cpu").save(folder / "unsigned.h5")
    trimesh.creation.torus(1.1, 0.4).export(folder / "other.ply")
    return folder


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


def test_a_field_holds_what_it_promises(folder: Path) -> None:
    code, output = invoke("verify", folder / "torus.h5", "--mesh", folder / "torus.ply", "--json", *SAMPLES)
    assert code == 0, output
    report = json.loads(output)
    assert report["passed"] is True
    assert report["same_mesh"] is True
    assert 0 < report["max_error"] <= report["tolerance"] == 2e-3
    assert sum(region["samples"] for region in report["regions"].values()) == 20000
    assert all(region["jumps"] == 0 for region in report["regions"].values())


def test_unsigned_fields_are_compared_without_signs(folder: Path) -> None:
    code, output = invoke("verify", folder / "unsigned.h5", "--mesh", folder / "torus.ply", *SAMPLES)
    assert code == 0, output
    assert output.splitlines()[0].startswith(f"{folder / 'unsigned.h5'}: passed, error 0.00")


def test_the_sign_is_that_of_the_faces_that_count(tmp_path: Path) -> None:
    # Every face from both sides: the winding number of all is 0 everywhere.
    torus = trimesh.creation.torus(1.0, 0.4)
    doubled = trimesh.Trimesh(torus.vertices, [*torus.faces, *torus.faces[:, ::-1]], process=False)
    doubled.export(tmp_path / "doubled.ply")
    sdfcli.build(tmp_path / "doubled.ply", tolerance=2e-3, device="cpu").save(tmp_path / "doubled.h5")
    code, output = invoke("verify", tmp_path / "doubled.h5", "--mesh", tmp_path / "doubled.ply", *SAMPLES)
    assert code == 0, output


def test_a_tighter_tolerance_fails(folder: Path) -> None:
    code, output = invoke(
        "verify", folder / "torus.h5", "--mesh", folder / "torus.ply", "--tolerance", "1e-5", *SAMPLES
    )
    assert code == 6
    assert output.startswith(f"{folder / 'torus.h5'}: FAILED, error 0.00")
    assert output.splitlines()[0].endswith("above the tolerance 4e-05 (1e-05 of the diagonal)")


@pytest.mark.parametrize("command", ["info", "extract", "slice", "render", "export"])
def test_a_mesh_is_not_a_field(folder: Path, command: str) -> None:
    mesh = folder / "torus.ply"
    code, output = invoke(command, mesh, *(["x.vtkhdf"] if command == "export" else []))
    assert code == 3
    assert output == f"sdfcli: {mesh}: is a mesh, not a field; build its field: sdfcli build {mesh}\n"


@pytest.mark.parametrize("command", ["build", "check", "bench"])
def test_a_field_is_not_a_mesh(folder: Path, command: str) -> None:
    field = folder / "torus.h5"
    code, output = invoke(command, field)
    assert code in (2, 3)
    assert output.startswith(f"sdfcli: {field}: is a field, not a mesh; `sdfcli info` describes it")


def test_another_mesh_fails(folder: Path) -> None:
    code, output = invoke("verify", folder / "torus.h5", "--mesh", folder / "other.ply", "--json", *SAMPLES)
    assert code == 6
    assert json.loads(output.splitlines()[0])["same_mesh"] is False


def test_a_field_with_one_wrong_value_fails(folder: Path) -> None:
    field = sdfcli.load(folder / "torus.h5")
    field = replace(field, distance=field.distance + np.float32(0.02))
    field.save(folder / "shifted.h5", force=True)
    code, _ = invoke("verify", folder / "shifted.h5", "--mesh", folder / "torus.ply", *SAMPLES)
    assert code == 6


@pytest.mark.parametrize(
    "told",
    [
        lambda info: {},
        lambda info: {**info, "mesh": {}},
        lambda info: {**info, "parameters": {"tolerance": 1e-3}},
        lambda info: {name: value for name, value in info.items() if name != "sign"},
    ],
)
def test_a_field_that_does_not_say_how_it_was_built(
    folder: Path, told: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    field = sdfcli.load(folder / "torus.h5")
    replace(field, info=told(field.info)).save(folder / "own.h5", force=True)
    code, output = invoke("verify", folder / "own.h5", "--mesh", folder / "torus.ply", *SAMPLES)
    assert code == 3
    assert "the field does not say how it was built" in output
    code, output = invoke("info", folder / "own.h5")
    assert code == 0, output


def test_info_tells_everything(folder: Path) -> None:
    code, output = invoke("info", folder / "torus.h5", "--json")
    assert code == 0
    facts = json.loads(output)
    field = sdfcli.load(folder / "torus.h5")
    assert facts["leaves"] == len(field.leaf_key)
    assert facts["content_sha256"] == field.content_sha256
    assert facts["parameters"]["tolerance"] == 2e-3
    assert facts["sign"] == "pseudonormal"
    code, output = invoke("info", folder / "torus.h5")
    assert code == 0
    assert "pseudonormal" in output


def test_info_of_something_else(folder: Path) -> None:
    code, output = invoke("info", folder / "torus.ply")
    assert code == 3
    assert "torus.ply" in output


@pytest.mark.parametrize("tolerance", ["nan", "-1", "0", "inf"])
def test_a_tolerance_that_is_none(tolerance: str) -> None:
    words = ["verify", "field.h5", "--mesh", "mesh.ply", f"--tolerance={tolerance}"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert done.stderr == f"sdfcli: --tolerance {float(tolerance)}: use a fraction of the diagonal between 0 and 1\n"
