"""`sdfcli compare`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh
from PIL import Image
from typer.testing import CliRunner

import shapes
from sdfcli.cli.app import app
from sdfcli.cli.compare import bounds_text

FEW = ["--samples", "500", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sphere, a larger one, and an open sheet."""
    folder = tmp_path_factory.mktemp("compared")
    for name, shape in (
        ("ball", shapes.icosphere(3)),
        ("larger", shapes.moved(shapes.icosphere(3), 1.25)),
        ("sheet", shapes.sheet(np.random.default_rng(0), 9)),
    ):
        trimesh.Trimesh(*shape, process=False).export(folder / f"{name}.ply")
    trimesh.Trimesh(*shapes.icosphere(2), process=False).export(folder / "ball.glb")
    return folder


def invoke(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


def test_the_distance_is_printed(folder: Path) -> None:
    ball, larger = folder / "ball.ply", folder / "larger.ply"
    code, out, err = invoke("compare", ball, larger, *FEW)
    assert (code, err) == (0, "")
    title, header, there, back, blank, far, near, sampled = out.splitlines()
    assert title == f"{ball}, {larger}: Hausdorff distance 0.25 to 0.250001"
    assert header.split() == ["distances", "largest", "mean", "rms", "outside", "inside"]
    assert there.startswith("ball.ply to larger.ply  ")
    assert there.split()[-2] == "0"
    assert back.split()[-1] == "0"
    assert blank == ""
    assert far.startswith("farthest in ball.ply")
    assert near.startswith("farthest in larger.ply")
    assert "at 500 points; standard errors up to " in sampled


@pytest.mark.parametrize(("most", "code"), [("0.3", 0), ("0.2", 6)])
def test_the_maximum_distance_decides(folder: Path, most: str, code: int) -> None:
    ball, larger = folder / "ball.ply", folder / "larger.ply"
    words = ["compare", ball, larger, "--max-distance", most, *FEW]
    verdict, side = ("passed", "within") if code == 0 else ("FAILED", "above")
    told = f"Hausdorff distance 0.25 to 0.250001, {side} the maximum distance {most}"
    found, out, err = invoke(*words)
    assert found == code
    assert out.splitlines()[0] == f"{ball}, {larger}: {verdict}, {told}"
    assert err == (f"sdfcli: {ball}, {larger}: {told}\n" if code else "")
    assert invoke(*words, "--quiet")[:2] == (code, "")
    found, out, _ = invoke(*words, "--json")
    assert found == code
    report = json.loads(out.splitlines()[0])
    assert report["passed"] == (code == 0)
    assert report["decided"]
    assert report["max_distance"] == float(most)
    assert report["lower"] <= report["upper"] == pytest.approx(0.25, rel=1e-6)


def test_equal_meshes_pass_zero(folder: Path) -> None:
    code, out, _ = invoke("compare", folder / "ball.ply", folder / "ball.ply", "--max-distance", "0", *FEW)
    assert code == 0
    assert "passed, Hausdorff distance 0, within the maximum distance 0" in out


def test_an_undecided_comparison_fails(folder: Path) -> None:
    ball, larger = folder / "ball.ply", folder / "larger.ply"
    code, out, _ = invoke("compare", ball, larger, "--json", *FEW)
    assert code == 0
    most = json.loads(out)["lower"] * (1 + 1e-10)
    code, out, err = invoke("compare", ball, larger, "--max-distance", repr(most), *FEW)
    assert code == 6
    assert "too close to the maximum distance 0.25 to decide" in err


def test_a_mesh_without_an_inside_gives_no_signs(folder: Path) -> None:
    code, out, err = invoke("compare", folder / "ball.ply", folder / "sheet.ply", "--sign", "none", "--json", *FEW)
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["a_to_b"]["outside"] is report["a_to_b"]["inside"] is None


def test_coordinates_are_scaled_and_converted(folder: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.ply"
    trimesh.Trimesh(*shapes.moved(shapes.icosphere(3), 0.001), process=False).export(small)
    code, out, _ = invoke("compare", folder / "ball.ply", small, "--scale", "1000", "--json", *FEW)
    assert code == 0
    assert json.loads(out)["upper"] < 1e-5
    code, out, _ = invoke("compare", folder / "ball.glb", folder / "ball.glb", "--units", "mm", "--json", *FEW)
    assert code == 0
    assert json.loads(out)["diagonal"] > 2000
    assert json.loads(out)["upper"] == 0
    code, _, err = invoke("compare", folder / "ball.ply", small, "--units", "mm", *FEW)
    assert code == 2
    assert "--units mm: the file names no unit" in err


def test_two_known_units_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.errors import InputError
    from sdfcli.mesh.load import load_mesh
    from sdfcli.quality.comparison import check_same_units

    one, other = (load_mesh(folder / "ball.glb") for _ in range(2))
    monkeypatch.setitem(other.__dict__, "units", "mm")
    with pytest.raises(InputError, match="a is in m, b in mm: convert by --units m"):
        check_same_units(one, other, "a", "b")


def test_a_picture(folder: Path, tmp_path: Path) -> None:
    ball, larger, picture = folder / "ball.ply", folder / "larger.ply", tmp_path / "both.png"
    words = ["compare", ball, larger, "--picture", picture, "--size", "96", *FEW]
    code, out, _ = invoke(*words)
    assert code == 0
    assert out.splitlines()[-1].split() == ["picture", str(picture)]
    pixels = np.asarray(Image.open(picture)).astype(int)
    panels = pixels[40:110, 20:95], pixels[40:110, 125:195]
    red, blue = ((part[..., 0] - part[..., 2]) for part in panels)
    assert np.median(red) < -20  # the ball is inside
    assert np.median(blue) > 20
    code, _, err = invoke(*words)
    assert code == 2
    assert "exists" in err
    assert invoke(*words, "--force")[0] == 0
    assert invoke("compare", ball, larger, "--picture", tmp_path / "both.txt", *FEW)[0] == 2
    assert invoke("compare", ball, larger, "--picture", tmp_path / "b.png", "--size", "1", *FEW)[0] == 2


def test_equal_meshes_have_a_picture(folder: Path, tmp_path: Path) -> None:
    words = ["--picture", tmp_path / "same.png", "--size", "64", "--sign", "none", *FEW]
    assert invoke("compare", folder / "sheet.ply", folder / "sheet.ply", *words)[0] == 0


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((0.0, 0.0), "0"),
        ((0.0, 0.25), "0 to 0.25"),
        ((0.12341, 0.123494), "0.12341 to 0.1235"),
        ((0.100001, 0.100894), "0.1 to 0.1009"),
        ((1.23450001, 1.23450009), "1.2345 to 1.23451"),
        ((0.25, 0.25), "0.25"),
        ((99999.0, 101001.0), "99990 to 101100"),
    ],
)
def test_bounds_are_rounded_apart(bounds: tuple[float, float], text: str) -> None:
    assert bounds_text(*bounds) == text


def test_missing_and_broken_files(folder: Path, tmp_path: Path) -> None:
    code, _, err = invoke("compare", folder / "ball.ply", tmp_path / "none.ply", *FEW)
    assert (code, err) == (3, f"sdfcli: {tmp_path / 'none.ply'}: no such file\n")
    (tmp_path / "empty.obj").write_text("v 0 0 0\n")
    code, _, err = invoke("compare", folder / "ball.ply", tmp_path / "empty.obj", *FEW)
    assert code == 3
    assert "no faces" in err
