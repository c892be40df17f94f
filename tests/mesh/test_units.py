"""Meshes scaled as they are read: by a factor, or from the unit that their file names to another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import shapes
from sdfcli.cli.app import app
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.formats import threemf
from sdfcli.mesh.load import load_mesh
from sdfcli.params import UNITS, BuildParams

QUICK: dict[str, Any] = {"device": "cpu", "tolerance": 1e-2}
WORDS = ["--tolerance", "1e-2", "--device", "cpu"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ball = trimesh.Trimesh(*shapes.icosphere(3), process=False)
    for ending in ("ply", "glb", "3mf"):
        ball.export(tmp_path / f"ball.{ending}")
    return tmp_path


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*(str(word) for word in words)])
    return result.exit_code, result.output


def test_a_factor_is_that_of_the_vertices(folder: Path) -> None:
    mesh = load_mesh(folder / "ball.ply")
    given = sdfcli.build((0.001 * mesh.vertices, mesh.faces), **QUICK)
    for source in (folder / "ball.ply", mesh, (mesh.vertices, mesh.faces)):
        scaled = sdfcli.build(source, scale=0.001, **QUICK)
        assert scaled.info["parameters"].pop("scale") == 0.001
        assert scaled.info == given.info
        assert np.array_equal(scaled.distance, given.distance)
    assert "scale" not in given.info["parameters"]


def test_other_lengths_are_scaled_ones(folder: Path) -> None:
    place = (-2.0, -2.0, -2.0, 4.0)
    field = sdfcli.build(folder / "ball.ply", scale=0.5, domain=place, unit=1.0, **QUICK)
    assert (field.domain.length, field.unit) == (4, 1)
    assert abs(field.sample([[1, 0, 0]])[0] - 0.5) < 0.02
    with pytest.raises(UsageError, match="the mesh leaves the domain: it reaches from -10,"):
        sdfcli.build(folder / "ball.ply", scale=10.0, domain=place, **QUICK)


@pytest.mark.parametrize(
    ("ending", "unit", "factor"),
    [
        ("3mf", "mm", 1.0),
        ("3mf", "m", 0.001),
        ("3mf", "in", 1 / 25.4),
        ("3mf", "um", 1000.0),
        ("glb", "mm", 1000.0),
        ("glb", "cm", 100.0),
        ("glb", "ft", 1 / 0.3048),
    ],
)
def test_units_of_files(ending: str, unit: str, factor: float, folder: Path) -> None:
    path = folder / f"ball.{ending}"
    found = load_mesh(path, units=unit).vertices
    assert np.allclose(found, factor * load_mesh(path).vertices, rtol=1e-15)
    assert sdfcli.build(path, units=unit, **QUICK).info["parameters"]["units"] == unit


def test_units_are_whole_micrometres() -> None:
    assert {name: size * 1e-6 for name, size in UNITS.items()} == pytest.approx(
        {"um": 1e-6, "mm": 1e-3, "cm": 1e-2, "m": 1, "in": 0.0254, "ft": 0.3048}
    )


def test_files_and_arrays_without_a_unit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"ball.ply: --units m: the file names no unit; use --scale"):
        load_mesh(folder / "ball.ply", units="m")
    with pytest.raises(UsageError, match="--units m: arrays name no unit"):
        sdfcli.build(shapes.icosphere(1), units="m")
    monkeypatch.setitem(threemf.UNITS, "millimeter", "0.5 m")
    with pytest.raises(InputError, match=r"ball.3mf: its unit, 0.5 m, is not known to --units; use --scale"):
        load_mesh(folder / "ball.3mf", units="m")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scale": 0.0}, "--scale 0"),
        ({"scale": -1.0}, "--scale -1"),
        ({"scale": float("nan")}, "--scale nan"),
        ({"scale": float("inf")}, "--scale inf"),
        ({"units": "km"}, "--units km: use um, mm, cm, m, in, ft"),
        ({"units": "m", "scale": 1.0}, "--scale and --units both"),
    ],
)
def test_bad_values(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        BuildParams(**options)


@pytest.mark.parametrize("option", [["--scale", "0.001"], ["--units", "m"]])
def test_commands(option: list[str], folder: Path) -> None:
    """What is built is verified, skipped and described at its scale."""
    mesh, field = folder / "ball.3mf", folder / "ball.h5"
    assert invoke("build", mesh, "-o", field, *WORDS, *option)[0] == 0
    assert abs(sdfcli.load(field).domain.length - 0.0021) < 1e-4
    code, output = invoke("verify", field, "--mesh", mesh, "--samples", 3000)
    assert (code, "not the mesh" in output) == (0, False), output
    assert "skipped" in invoke("build", mesh, "-o", field, *WORDS, *option, "--skip-existing")[1]
    assert invoke("build", mesh, "-o", field, *WORDS, "--skip-existing")[0] == 2
    told = json.loads(invoke("info", field, "--json")[1])["parameters"]
    assert (told.get("scale"), told.get("units")) == ((None, "m") if option[0] == "--units" else (0.001, None))
    assert f"\n{option[0][2:]:14}  {option[1]}" in invoke("info", field)[1]
    assert invoke("build", mesh, "--dry-run", *WORDS, *option)[0] == 0


def test_sequences(folder: Path) -> None:
    mesh, target = folder / "ball.glb", folder / "a.h5"
    for jobs in (1, 2):
        words = ["sequence", mesh, mesh, "-o", target, *WORDS, "--units", "mm", "--jobs", jobs, "--force", "-q"]
        assert invoke(*words) == (0, "")
        moving = sdfcli.load_sequence(target)
        assert abs(moving.domain.length - 2100) < 1
        assert moving.at(1).info["parameters"]["units"] == "mm"
    assert invoke("verify", target, "--frame", 1, "--mesh", mesh, "--samples", 3000)[0] == 0


@pytest.mark.parametrize(("ending", "unit"), [("glb", "m"), ("3mf", "mm"), ("ply", None)])
def test_fields_keep_the_unit(ending: str, unit: str | None, folder: Path) -> None:
    path = folder / f"ball.{ending}"
    field = sdfcli.build(path, **QUICK)
    assert field.units == load_mesh(path).units == unit
    assert sdfcli.load(field.save(folder / "a.h5")).units == unit
    assert ("units" in field.info["mesh"]) == (unit is not None)
    assert (f"in {unit}, as are all lengths" if unit else "in the mesh's units") in invoke("info", folder / "a.h5")[1]
    if unit:
        assert sdfcli.build(path, units="cm", **QUICK).units == "cm"
    assert sdfcli.build(path, scale=2.0, **QUICK).units is None  # may be a conversion, or another size
    assert sdfcli.build((load_mesh(path).vertices, load_mesh(path).faces), **QUICK).units is None


def test_between_frames_of_one_unit(folder: Path) -> None:
    invoke("sequence", folder / "ball.glb", folder / "ball.glb", "-o", folder / "s.h5", "--fps", 1, *WORDS)
    sequence = sdfcli.load_sequence(folder / "s.h5")
    assert sequence.at(0).units == sequence.at_time(0.5).units == "m"


def test_frames_in_different_units(folder: Path) -> None:
    words = ["sequence", folder / "ball.glb", folder / "ball.3mf", "-o", folder / "s.h5", "--fps", 1, *WORDS]
    code, output = invoke(*words)
    assert (code, output.splitlines()[-1]) == (
        3,
        "sdfcli: frame 1: in mm, the frame before in m; convert all, by --units",
    )
    assert not (folder / "s.h5").exists()
    code, output = invoke(*words, "--units", "mm", "--force")  # the first frame may be stored already
    assert code == 0, output


def test_a_field_is_verified_in_its_unit(folder: Path) -> None:
    sdfcli.build(folder / "ball.3mf", **QUICK).save(folder / "a.h5")
    code, output = invoke("verify", folder / "a.h5", "--mesh", folder / "ball.glb")
    assert (code, "is in m, the field in mm" in output) == (3, True)


def test_water_flows_in_metres(folder: Path) -> None:
    water: dict[str, Any] = {"fill": (-0.8, -0.8, -0.8, 0.8, 0.8, 0.8), "spacing": 0.35, "inside": True}
    field = sdfcli.build(folder / "ball.3mf", **QUICK)
    with pytest.raises(InputError, match="the field is in mm, but water flows in metres; build the field with --units"):
        next(sdfcli.flow(field, **water))
    metres = sdfcli.build(folder / "ball.glb", **QUICK)
    assert len(next(sdfcli.flow(metres, **water))) > 8
