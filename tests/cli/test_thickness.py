"""`sdfcli thickness`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image
from typer.testing import CliRunner, Result

import shapes
from commands import reports
from sdfcli.cli.app import app


@pytest.fixture
def plate(tmp_path: Path) -> Path:
    """A plate of 10 x 10 x 2."""
    path = tmp_path / "plate.ply"
    trimesh.Trimesh(*shapes.box([0, 0, 0], [10, 10, 2]), process=False).export(path)
    return path


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["thickness", *(str(word) for word in words), "--device", "cpu"])


def report(*words: object, code: int = 0) -> dict[str, Any]:
    result = invoke(*words, "--json")
    assert result.exit_code == code, result.output
    return reports("thickness", result.stdout)[0]


def test_report(plate: Path) -> None:
    found = report(plate, "--samples", 5000)
    assert found["input"] == str(plate)
    assert found["thinnest"]["thickness"] == pytest.approx(2)
    assert found["thinnest"]["opposite"] == pytest.approx(2)
    assert len(found["thinnest"]["point"]) == 3
    assert (found["triangles"], found["vertices"], found["opposed"], found["encloses"]) == (12, 8, 1.0, True)
    assert [each["share"] for each in found["quantiles"]] == [0.01, 0.05, 0.5]
    assert all(each["thickness"] == pytest.approx(2) for each in found["quantiles"])
    bins = found["histogram"]
    assert bins[0]["low"] == 2
    assert bins[-1]["high"] is None
    assert [each["high"] for each in bins[:-1]] == [each["low"] for each in bins[1:]]
    assert sum(each["share"] for each in bins) == pytest.approx(1)
    assert bins[0]["share"] == pytest.approx(200 / 280)
    assert (found["limit"], found["below"], found["passed"]) == (None, None, None)
    assert not {"output", "picture"} & set(found)


def test_text(plate: Path) -> None:
    lines = invoke(plate, "--samples", 5000).output.splitlines()
    assert lines[0] == str(plate)
    rows = {line[: line.index("  ")]: line for line in lines[1:]}
    assert "12 triangles, 8 vertices" in rows["mesh"]
    assert "2, 2 along the normal, at " in rows["thinnest"]
    assert "71.43% ####" in next(line for name, line in rows.items() if name.startswith("2 to"))
    assert "5,1" in rows["time"] or "points" in rows["time"]
    assert invoke(plate, "-q").output == ""


def test_gate(plate: Path) -> None:
    """A wall as thick as required passes, whatever float32 makes of it."""
    for least in (1.9, 2):
        passed = report(plate, "--min", least)
        assert (passed["limit"], passed["below"], passed["passed"]) == (least, 0.0, True)
    failed = report(plate, "--min", 2.1, code=6)
    assert (failed["passed"], failed["below"]) == (False, pytest.approx(200 / 280))
    result = invoke(plate, "--min", 2.1)
    assert result.exit_code == 6
    assert result.output.startswith(f"{plate}: FAILED\n")
    assert "71.43% of the surface is thinner than 2.1; 2 at the thinnest, at " in result.output
    assert invoke(plate, "--min", 1, "-q").output == ""
    assert report(plate, "--min", 2.1, "--allow", 0.72)["passed"]
    assert not report(plate, "--min", 2.1, "--allow", 0.71, code=6)["passed"]


def test_a_gate_needs_an_inside(tmp_path: Path) -> None:
    path = tmp_path / "sheet.ply"
    trimesh.Trimesh(*shapes.sheet(np.random.default_rng(0), 9), process=False).export(path)
    found = report(path, "--min", 1e-9, code=6)
    assert (found["encloses"], found["passed"]) == (False, False)
    assert any("no inside" in note for note in found["notes"])
    assert "no inside" in invoke(path).output


def test_nothing_opposes(tmp_path: Path) -> None:
    path = tmp_path / "four.ply"
    trimesh.Trimesh(*shapes.tetrahedron(), process=False).export(path)
    found = report(path, "--min", 1)
    assert (found["thinnest"], found["histogram"], found["quantiles"], found["opposed"]) == (None, [], [], 0.0)
    assert found["passed"]
    assert "no walls" in invoke(path).output


@pytest.mark.parametrize("ending", [".ply", ".vtp"])
def test_files(plate: Path, tmp_path: Path, ending: str) -> None:
    output, picture = tmp_path / f"new/map{ending}", tmp_path / "new/map.png"
    words = (plate, "-o", output, "--picture", picture, "--size", "120x90", "--at", "vertices")
    found = report(*words)
    assert (found["output"], found["picture"]) == (str(output), str(picture))
    with Image.open(picture) as image:
        assert image.height == 90
        assert image.width > 120
    assert output.stat().st_size > 0
    before = output.read_bytes()
    again = invoke(*words)
    assert again.exit_code == 2
    assert "use --force" in again.output
    assert output.read_bytes() == before
    report(*words, "--force")
    assert output.read_bytes() == before
    text = invoke(*words, "--force").output
    assert f"{picture}\n" in text
    assert f"{output}\n" in text


def test_files_are_written_though_the_gate_fails(plate: Path, tmp_path: Path) -> None:
    report(plate, "-o", tmp_path / "map.vtp", "--min", 5, code=6)
    assert (tmp_path / "map.vtp").is_file()


def test_units(plate: Path) -> None:
    found = report(plate, "--scale", 0.001, "--min", 0.002)
    assert found["thinnest"]["thickness"] == pytest.approx(0.002)
    assert found["passed"]


REFUSED = [
    ("--min 0", "--min 0: use a positive length"),
    ("--min nan", "--min nan"),
    ("--allow 0.1", "--allow is for --min"),
    ("--min 1 --allow 2", "--allow 2: use a share"),
    ("--at edges", "--at edges: use faces or vertices"),
    ("--samples 1000000000", "--samples 1000000000"),
    ("-o map.stl", ".vtp, .ply"),
    ("--picture map.gif", ".png, .jpg"),
    ("--size 0", "--size 0x0"),
    ("--view above", "--view above"),
    ("--up x", "--up x"),
    ("--units mm", "name"),
    ("--scale 2 --units mm", "use one of them"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_is_refused(plate: Path, tmp_path: Path, words: str, message: str) -> None:
    result = invoke(plate, *(str(tmp_path / word) if word.startswith("map.") else word for word in words.split()))
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert sorted(tmp_path.iterdir()) == [plate]


def test_bad_meshes(tmp_path: Path, plate: Path) -> None:
    assert invoke(tmp_path / "missing.stl").exit_code == 3
    assert invoke(plate, "-o", plate).exit_code == 2  # its input
    assert math.isfinite(report(plate)["thinnest"]["thickness"])
