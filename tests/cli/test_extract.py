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
    told = report(folder / "ball.h5", "-o", target, "--cells", 60)
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
    report(folder / "ball.h5", "-o", tmp_path / "mesh.ply", "--cells", 33, "--iso", 0.03)
    surface = sdfcli.isosurface(folder / "ball.h5", cells=33, iso=0.03, device="cpu")
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
        report(tmp_path / "far.h5", "-o", tmp_path / f"far.{ending}", "--cells", 50)
        mesh = trimesh.load_mesh(tmp_path / f"far.{ending}")
        assert mesh.is_watertight
        radius = np.linalg.norm(mesh.vertices - [1e3, -2e3, 5e2], axis=1)
        assert np.abs(radius / 1e-3 - 1).max() < 0.05
    result = invoke(tmp_path / "far.h5", "-o", tmp_path / "far.stl", "--cells", 50)
    assert result.exit_code == 0
    assert "single precision" in result.stderr


def test_stages(folder: Path, tmp_path: Path) -> None:
    """They lie within the extraction's seconds, as parts of one device's work."""
    told = report(folder / "ball.npy", "-o", tmp_path / "mesh.ply")
    stages = told["stages"]
    *method, copy = list(stages.values())[1:]
    assert min(method) > 0
    assert sum(method) + stages["source"] + copy <= told["seconds"]["extract"] + 1e-4
    scans = stages["flag_scan"] + stages["count_scan"]
    assert told["scan_share"] == pytest.approx(scans / sum(method), abs=0.02)


def test_default_name_and_replacing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert report(folder / "ball.h5", "--cells", 20)["output"] == "ball_iso.ply"
    before = Path("ball_iso.ply").read_bytes()
    result = invoke(folder / "ball.h5", "--cells", 30)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert Path("ball_iso.ply").read_bytes() == before
    assert invoke(folder / "ball.h5", "--cells", 30, "--force").exit_code == 0
    assert Path("ball_iso.ply").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["ball_iso.ply"]


def test_what_people_see(folder: Path, tmp_path: Path) -> None:
    result = invoke(folder / "ball.h5", "-o", tmp_path / "a.ply", "--cells", 30)
    assert "closed" in result.stdout
    assert "30 x 30 x 30 cells" in result.stdout
    assert result.stderr == ""
    result = invoke(folder / "ball.h5", "-o", tmp_path / "b.ply", "--cells", 30, "--iso", 0.2)
    assert "open at the border" in result.stdout
    assert "reaches the border" in result.stderr
    result = invoke(folder / "ball.h5", "-o", tmp_path / "c.ply", "--cells", 30, "--iso", 0.2, "-q")
    assert result.output == ""


def test_a_capped_default_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdfcli.extract.resolution.MOST_BY_DEFAULT", 8)
    result = invoke(folder / "ball.h5", "-o", tmp_path / "a.ply")
    assert "8 x 8 x 8 cells" in result.stdout
    assert "8 cells along an axis" in result.stderr
    result = invoke(folder / "ball.h5", "-o", tmp_path / "b.ply", "--cells", 25)
    assert result.stderr == ""


def test_the_error_is_reported(folder: Path, tmp_path: Path) -> None:
    shape = shapes.icosphere(4)
    trimesh.Trimesh(*shape, process=False).export(tmp_path / "ball.ply")
    told = report(folder / "ball.h5", "-o", tmp_path / "a.ply")
    mesh = trimesh.load_mesh(tmp_path / "a.ply")
    points = np.concatenate((mesh.vertices, mesh.triangles_center))
    field, index = sdfcli.load(folder / "ball.h5"), sdfcli.MeshDistance(shape, device="cpu")
    assert told["deviation_from"] == "field"
    assert told["deviation"]["max"] == pytest.approx(np.abs(field.sample(points)).max(), rel=1e-3)
    told = report(folder / "ball.h5", "-o", tmp_path / "b.ply", "--mesh", tmp_path / "ball.ply")
    exact = np.abs(index.signed_distance(points))
    assert told["deviation_from"] == "mesh"
    assert told["deviation"]["max"] == pytest.approx(exact.max(), rel=1e-3)
    assert told["deviation"]["rms"] == pytest.approx(np.sqrt(np.mean(exact**2)), rel=1e-3)
    result = invoke(folder / "ball.h5", "-o", tmp_path / "c.ply", "--mesh", tmp_path / "ball.ply")
    assert "of the diagonal) at most; rms" in result.stdout
    assert "), from the mesh" in result.stdout
    assert "not the mesh" in result.stderr  # a .ply file has single precision
    assert "deviation" not in report(folder / "ball.npy", "-o", tmp_path / "d.ply")


def test_the_error_from_a_scaled_mesh(tmp_path: Path) -> None:
    ball = trimesh.creation.icosphere(3)
    ball.export(tmp_path / "ball.ply")
    sdfcli.build(tmp_path / "ball.ply", scale=1000, tolerance=5e-3).save(tmp_path / "ball.h5")
    told = report(tmp_path / "ball.h5", "-o", tmp_path / "a.ply", "--mesh", tmp_path / "ball.ply")
    assert 0 < told["deviation"]["max"] < 20


def test_closed_holes_are_told(tmp_path: Path) -> None:
    vertices, faces = shapes.icosphere(3)
    mesh = trimesh.Trimesh(vertices, faces[20:], process=False)
    mesh.export(tmp_path / "open.off")
    sdfcli.build(tmp_path / "open.off", tolerance=5e-3, device="cpu").save(tmp_path / "open.h5")
    result = invoke(tmp_path / "open.h5", "-o", tmp_path / "a.ply", "--mesh", tmp_path / "open.off")
    assert result.exit_code == 0
    assert "closes the mesh's holes" in result.stderr


@pytest.mark.parametrize("ending", ["npz", "vti"])
def test_volumes_with_a_place(ending: str, folder: Path, tmp_path: Path) -> None:
    grid, window = tmp_path / f"grid.{ending}", "-1.2,-1.3,-1.1,1.3,1.2,1.4"
    field = sdfcli.load(folder / "ball.h5")
    export = ["export", folder / "ball.h5", grid, "--resolution", 60, "--window", window]
    assert CliRunner().invoke(app, list(map(str, export))).exit_code == 0
    told = report(grid, "-o", tmp_path / "a.ply")
    assert told["closed"] is True
    assert told["cells"] == [59, 59, 59]
    mesh = trimesh.load_mesh(tmp_path / "a.ply")
    assert mesh.is_watertight
    assert mesh.volume > 0
    assert np.abs(field.sample(mesh.vertices)).max() < 3e-3
    assert np.linalg.norm(mesh.vertices, axis=1) == pytest.approx(1, abs=1e-2)
    for words in (["--spacing", 1], ["--cells", 9], ["--mesh", folder / "ball.h5"]):
        result = invoke(grid, "-o", tmp_path / "b.ply", *words)
        assert result.exit_code == 2
        assert words[0] in result.stderr
        assert not (tmp_path / "b.ply").exists()


@pytest.mark.parametrize("mode", ["text", "inline", "raw", "base64"])
@pytest.mark.parametrize("kind", [np.float64, np.int16])
def test_images_of_vtk(mode: str, kind: Any, tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    numpy_support = pytest.importorskip("vtk.util.numpy_support")
    k, j, i = np.meshgrid(*[np.arange(n) for n in (24, 22, 20)], indexing="ij")
    values = (100 * (np.sqrt((i - 9.0) ** 2 + (j - 10) ** 2 + (k - 11) ** 2) - 6)).astype(kind)
    image = vtk.vtkImageData()
    image.SetExtent(3, 22, 1, 22, 2, 25)
    image.SetOrigin(5, 6, 7)
    image.SetSpacing(0.5, 0.25, 2)
    array = numpy_support.numpy_to_vtk(values.ravel())
    array.SetName("density")
    image.GetPointData().SetScalars(array)
    writer = vtk.vtkXMLImageDataWriter()
    writer.SetFileName(str(tmp_path / "image.vti"))
    writer.SetInputData(image)
    writer.SetDataMode({"text": 0, "inline": 1}.get(mode, 2))
    writer.SetEncodeAppendedData(mode == "base64")
    writer.SetCompressor(None if mode == "raw" else vtk.vtkZLibDataCompressor())
    assert writer.Write() == 1
    surface = sdfcli.isosurface(tmp_path / "image.vti", device="cpu")
    expected = sdfcli.isosurface(np.ascontiguousarray(values.transpose()), spacing=(0.5, 0.25, 2), device="cpu")
    assert np.array_equal(surface.faces, expected.faces)
    np.testing.assert_allclose(surface.vertices, expected.vertices + np.array([5, 6, 7]) + [1.5, 0.25, 4], rtol=1e-12)


def test_images_that_do_not_fit(tmp_path: Path) -> None:
    good = (
        '<VTKFile type="ImageData" byte_order="LittleEndian"><ImageData WholeExtent="0 1 0 1 0 1" Origin="0 0 0" '
        'Spacing="1 1 1"><Piece Extent="0 1 0 1 0 1"><PointData Scalars="d"><DataArray type="Float32" Name="d" '
        'format="ascii">-1 1 1 1 1 1 1 1</DataArray></PointData></Piece></ImageData></VTKFile>'
    )
    path = tmp_path / "a.vti"
    path.write_text(good)
    assert len(sdfcli.isosurface(path, device="cpu").faces) == 1
    for old, new, says in (
        ("-1 1 ", "-1 ", "7 values for 2 x 2 x 2 points"),
        ('Spacing="1 1 1"', 'Spacing="1 1"', "Spacing must be 3 numbers"),
        ('Spacing="1 1 1"', 'Spacing="1 nan 1"', "Spacing must be 3 numbers"),
        ('Spacing="1 1 1"', 'Spacing="1 0 1"', "above 0"),
        ('Origin="0 0 0"', 'Origin="0 0 0" Direction="0 1 0 1 0 0 0 0 1"', "axes are turned"),
        ('Name="d"', 'Name="e"', "no scalars"),
        ('Piece Extent="0 1 0', 'Piece Extent="0 -1 0', "impossible extent"),
        ('Piece Extent="0 1 0', 'Piece Extent="0 1.5 0', "impossible extent"),
        ('type="ImageData"', 'type="PolyData"', "ImageData"),
        ("</Piece>", '</Piece><Piece Extent="0 1 0 1 0 1"/>', "one piece"),
        ("</VTKFile>", "", "XML"),
    ):
        assert old in good
        path.write_text(good.replace(old, new))
        with pytest.raises((InputError, UsageError), match=says):
            sdfcli.isosurface(path, device="cpu")


def test_archives_that_do_not_fit(tmp_path: Path) -> None:
    path, values = tmp_path / "a.npz", np.full((3, 3, 3), 1.0)
    values[1, 1, 1] = -1
    np.savez(path, distance=values)
    assert sdfcli.isosurface(path, device="cpu").vertices.mean(axis=0) == pytest.approx(1)
    for arrays, says in (
        ({"values": values}, "no array `distance`"),
        ({"distance": values, "origin": np.array([np.nan, 0, 0])}, "origin"),
        ({"distance": values, "spacing": np.array([1.0, 2.0])}, "spacing"),
        ({"distance": values, "spacing": np.array("a")}, "spacing"),
        ({"distance": np.array([{}], object)}, "cannot be read as a volume"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(InputError, match=says):
            sdfcli.isosurface(path, device="cpu")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="cannot be read as a volume"):
        sdfcli.isosurface(path, device="cpu")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["ball.h5", "-o", "x.vtk"], 2, ".glb"),
        (["ball.h5", "--cells", "0"], 2, "--cells"),
        (["ball.h5", "--cells", "99999"], 2, "--cells"),
        (["ball.h5", "--spacing", "1"], 2, "--spacing"),
        (["ball.h5", "--iso", "nan"], 2, "--iso"),
        (["ball.h5", "--iso", "100"], 3, "the field's values go from"),
        (["ball.npy", "--iso", "100"], 3, "the volume's values go from"),
        (["ball.npy", "--spacing", "0"], 2, "--spacing"),
        (["ball.npy", "--spacing", "1,2"], 2, "--spacing"),
        (["ball.npy", "--spacing", "a"], 2, "--spacing"),
        (["ball.npy", "--cells", "5"], 2, "--cells"),
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
    with pytest.raises(UsageError, match=r"--cells 3\.5: use a whole number"):
        sdfcli.isosurface(field, iso=0.1, cells=3.5, device="cpu")
    with pytest.raises(InputError, match="it has no signs, so ask for a distance with --iso"):
        sdfcli.isosurface(field, device="cpu")
    with pytest.raises(InputError, match="volume: masked values"):
        sdfcli.isosurface(np.ma.masked_less(np.zeros((4, 4, 4)), 1), device="cpu")
    with pytest.raises(InputError, match="points: masked values"):
        field.sample(np.ma.masked_less(np.zeros((4, 3)), 1))
    with pytest.raises(UsageError, match=r"--depth 3\.5"):
        sdfcli.build(shapes.icosphere(1), depth=3.5)


def test_a_grid_too_coarse_for_the_surface(folder: Path) -> None:
    result = invoke(folder / "ball.h5", "-o", folder / "coarse.ply", "--cells", 1)
    assert result.exit_code == 3
    assert "no surface at 0 at the nodes of 1 cells along an axis: use more --cells" in result.stderr


def test_sharp(tmp_path: Path) -> None:
    trimesh.Trimesh(*shapes.cube()).export(tmp_path / "cube.ply")
    sdfcli.build(tmp_path / "cube.ply", tolerance=2e-3).save(tmp_path / "cube.h5")
    words = (
        tmp_path / "cube.h5",
        "--mesh",
        tmp_path / "cube.ply",
        "--cells",
        20,
        "--sharp",
        "-o",
        tmp_path / "sharp.ply",
    )
    told = report(*words)
    assert told["closed"] is True
    assert told["sharp_parts"]["corners"] == 8
    assert told["sharp_parts"]["edges"] > 12 * 10
    assert told["sharp_parts"]["folded"] == 0
    assert told["deviation"]["max"] < 1e-6
    result = invoke(*words, "--force")
    assert f"{told['sharp_parts']['edges']} vertices on edges, 8 at corners" in " ".join(result.output.split())
    result = invoke(tmp_path / "cube.h5", "--sharp", "-o", tmp_path / "other.ply")
    assert result.exit_code == 2
    assert "needs --mesh" in result.output
