"""`sdfcli extract`: a field or a volume in, a mesh out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner, Result

import sdfcli
import shapes
from commands import reports
from sdfcli.cli.app import app
from sdfcli.errors import InputError, UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extract")
    sdfcli.build(shapes.icosphere(4), tolerance=2e-3, device="cpu").save(folder / "ball.h5")
    x, y, z = np.meshgrid(*[np.arange(n) for n in (20, 22, 24)], indexing="ij")
    np.save(folder / "ball.npy", np.sqrt((x - 9.0) ** 2 + (y - 10) ** 2 + (z - 11) ** 2) - 6)
    return folder


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["extract", *(str(word) for word in words), "--device", "cpu"])


def report(*words: object) -> dict[str, Any]:
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.output
    (found,) = reports("extract", result.stdout)
    return found


def ball(volume: float) -> float:
    return float((volume * 3 / 4 / np.pi) ** (1 / 3))


@pytest.mark.parametrize("ending", ["ply", "obj", "stl", "glb", "PLY"])
def test_formats(ending: str, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / f"mesh.{ending}"
    told = report(folder / "ball.h5", "-o", target, "--resolution", 60)
    assert told["output"] == str(target)
    assert told["closed"] is True
    assert told["cells"] == [60, 60, 60]
    assert told["bytes"] == target.stat().st_size
    mesh = trimesh.load_mesh(target)  # vertices at equal positions become one: none may be, but in STL
    assert len(mesh.faces) == told["triangles"]
    assert len(mesh.vertices) == told["vertices"]
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    assert abs(ball(mesh.volume) - 1) < 0.01


def test_the_file_holds_what_was_extracted(folder: Path, tmp_path: Path) -> None:
    report(folder / "ball.h5", "-o", tmp_path / "mesh.ply", "--resolution", 33, "--iso", 0.03)
    surface = sdfcli.isosurface(folder / "ball.h5", resolution=33, iso=0.03, device="cpu")
    mesh = trimesh.load_mesh(tmp_path / "mesh.ply", process=False)
    assert np.array_equal(mesh.faces, surface.faces)
    assert np.array_equal(mesh.vertices, surface.vertices.astype(np.float32))


def test_volumes(folder: Path, tmp_path: Path) -> None:
    told = report(folder / "ball.npy", "-o", tmp_path / "a.stl", "--spacing", 0.5, "--iso", 0.25)
    assert told["cells"] == [19, 21, 23]
    mesh = trimesh.load_mesh(tmp_path / "a.stl")
    assert abs(ball(mesh.volume) / (0.5 * 6.25) - 1) < 0.01
    assert np.allclose(mesh.center_mass, [4.5, 5, 5.5], atol=0.01)
    report(folder / "ball.npy", "-o", tmp_path / "b.ply", "--spacing", "1,2,3")
    assert np.allclose(np.ptp(trimesh.load_mesh(tmp_path / "b.ply").vertices, axis=0), [12, 24, 36], atol=0.01)


def test_far_coordinates_are_kept_in_double(tmp_path: Path) -> None:
    field = sdfcli.build(shapes.moved(shapes.icosphere(3), 1e-3, [1e3, -2e3, 5e2]), tolerance=5e-3, device="cpu")
    field.save(tmp_path / "far.h5")
    for ending in ("ply", "obj"):
        report(tmp_path / "far.h5", "-o", tmp_path / f"far.{ending}", "--resolution", 50)
        mesh = trimesh.load_mesh(tmp_path / f"far.{ending}")
        assert mesh.is_watertight
        radius = np.linalg.norm(mesh.vertices - [1e3, -2e3, 5e2], axis=1)
        assert np.abs(radius / 1e-3 - 1).max() < 0.05
    result = invoke(tmp_path / "far.h5", "-o", tmp_path / "far.stl", "--resolution", 50)
    assert result.exit_code == 0
    assert "single precision" in result.stderr


def test_default_name_and_replacing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert report(folder / "ball.h5", "--resolution", 20)["output"] == "ball_iso.ply"
    before = Path("ball_iso.ply").read_bytes()
    result = invoke(folder / "ball.h5", "--resolution", 30)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert Path("ball_iso.ply").read_bytes() == before
    assert invoke(folder / "ball.h5", "--resolution", 30, "--force").exit_code == 0
    assert Path("ball_iso.ply").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["ball_iso.ply"]


def test_what_people_see(folder: Path, tmp_path: Path) -> None:
    result = invoke(folder / "ball.h5", "-o", tmp_path / "a.ply", "--resolution", 30)
    assert "closed" in result.stdout
    assert "30 x 30 x 30 cells" in result.stdout
    assert result.stderr == ""
    result = invoke(folder / "ball.h5", "-o", tmp_path / "b.ply", "--resolution", 30, "--iso", 0.2)
    assert "open at the border" in result.stdout
    assert "reaches the border" in result.stderr
    result = invoke(folder / "ball.h5", "-o", tmp_path / "c.ply", "--resolution", 30, "--iso", 0.2, "-q")
    assert result.output == ""


def test_a_capped_default_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdfcli.extract.isosurface.MOST_BY_DEFAULT", 24)
    result = invoke(folder / "ball.h5", "-o", tmp_path / "a.ply")
    assert "24 x 24 x 24 cells" in result.stdout
    assert "24 cells along an axis" in result.stderr
    result = invoke(folder / "ball.h5", "-o", tmp_path / "b.ply", "--resolution", 25)
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["ball.h5", "-o", "x.vtk"], 2, ".glb"),
        (["ball.h5", "--resolution", "0"], 2, "--resolution"),
        (["ball.h5", "--resolution", "99999"], 2, "--resolution"),
        (["ball.h5", "--spacing", "1"], 2, "--spacing"),
        (["ball.h5", "--iso", "nan"], 2, "--iso"),
        (["ball.h5", "--iso", "100"], 3, "the field's values go from"),
        (["ball.npy", "--iso", "100"], 3, "the volume's values go from"),
        (["ball.npy", "--spacing", "0"], 2, "--spacing"),
        (["ball.npy", "--spacing", "1,2"], 2, "--spacing"),
        (["ball.npy", "--spacing", "a"], 2, "--spacing"),
        (["ball.npy", "--resolution", "5"], 2, "--resolution"),
        (["missing.h5"], 3, "no such file"),
        (["broken.h5"], 3, "broken.h5"),
        (["broken.npy"], 3, "cannot be read as a volume"),
        (["flat.npy"], 3, "three axes"),
    ],
)
def test_errors(words: list[str], code: int, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in ("broken.h5", "broken.npy"):
        Path(name).write_bytes(b"nothing")
    np.save("flat.npy", np.zeros((4, 4)))
    before = sorted(path.name for path in folder.iterdir())
    result = invoke(*words)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_what_cannot_be_asked_of_a_field() -> None:
    field = sdfcli.build(shapes.icosphere(1), device="cpu", depth=3, tolerance=0.1, sign="none")
    with pytest.raises(UsageError, match=r"--resolution 3\.5: use a whole number"):
        sdfcli.isosurface(field, iso=0.1, resolution=3.5, device="cpu")
    with pytest.raises(InputError, match="it has no signs, so ask for a distance with --iso"):
        sdfcli.isosurface(field, device="cpu")
    with pytest.raises(InputError, match="volume: masked values"):
        sdfcli.isosurface(np.ma.masked_less(np.zeros((4, 4, 4)), 1), device="cpu")
    with pytest.raises(InputError, match="points: masked values"):
        field.sample(np.ma.masked_less(np.zeros((4, 3)), 1))
    with pytest.raises(UsageError, match=r"--depth 3\.5"):
        sdfcli.build(shapes.icosphere(1), depth=3.5)
