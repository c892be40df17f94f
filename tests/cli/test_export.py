"""`sdfcli export`: what the programs that users have read from each file, compared with the field itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner, Result

import field_files
import sdfcli
import sdfcli.cli.export
import sdfcli.export.lattice
import shapes
from commands import reports
from field_files import content_sha256_3, save_3
from sdfcli.cli.app import app
from sdfcli.export import FORMATS, Format
from sdfcli.export.lattice import make_lattice, values
from sdfcli.field.store import FORMAT_VERSION

RESOLUTION = 23
WINDOW = [-1.0, 0.5, 2.0, 1.5, 1.75, 4.5]  # in the mesh's units, partly outside of the domain; its sides differ


@pytest.fixture(scope="module")
def field() -> sdfcli.Field:
    """No mirror or exchange of axes maps it to itself, and it is not around the origin."""
    rng = np.random.default_rng(5)
    vertices, faces = shapes.star(rng, 2)
    return sdfcli.build((vertices * [1.0, 0.6, 1.4] + [0.5, 1.0, 3.0], faces), tolerance=4e-3, device="cpu")


@pytest.fixture(scope="module")
def file(field: sdfcli.Field, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return field.save(tmp_path_factory.mktemp("export") / "star.h5")


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["export", *(str(word) for word in words)])


def report(*words: object) -> dict[str, Any]:
    result = invoke(*words, "--json")
    assert result.exit_code == 0, result.output
    (found,) = reports("export", result.stdout)
    return found


def grid(file: Path, out: Path, *words: object) -> dict[str, Any]:
    return report(file, out, "--resolution", RESOLUTION, "--window", ",".join(map(str, WINDOW)), *words)


def close(field: sdfcli.Field, points: np.ndarray, distance: np.ndarray, relative: float = 1e-6) -> None:
    """To a few roundings of float32."""
    exact = field.sample(points)
    assert np.abs(exact).max() > 0.5
    np.testing.assert_allclose(distance, exact, rtol=0, atol=relative * np.abs(exact).max())


def test_a_format_is_a_line_of_the_table(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, ".grid", Format("vti.write_vti", "a regular grid", "tests"))
    monkeypatch.setitem(FORMATS, ".tree", Format("vtkhdf.write_vtkhdf", "the octree", "tests", grid=False))
    facts = [grid(file, tmp_path / name) for name in ("a.vti", "a.grid")]
    assert facts[0]["shape"] == facts[1]["shape"]
    assert (tmp_path / "a.vti").read_bytes() == (tmp_path / "a.grid").read_bytes()
    assert report(file, tmp_path / "a.tree")["leaves"] == report(file, tmp_path / "a.vtkhdf")["leaves"]
    for words in (["a.tree", "--resolution", 9], ["a.grid", "--dtype", "float16"]):
        assert invoke(file, tmp_path / str(words[0]), *words[1:], "--force").exit_code == 2
    assert ".grid, .tree" in invoke(file, tmp_path / "a.none").stderr


def test_the_field_tells_axes_apart(field: sdfcli.Field) -> None:
    """Else a file with axes in another order, or mirrored, would pass."""
    centre = field.domain.origin + field.domain.length / 2
    points = np.random.default_rng(1).uniform(-0.4, 0.4, (500, 3)) * field.domain.length
    here = field.sample(centre + points)
    for other in (points[:, [2, 1, 0]], points[:, [1, 0, 2]], points * [-1, 1, 1], points * [1, -1, 1]):
        assert np.abs(field.sample(centre + other) - here).max() > 0.1
    assert np.abs(field.sample(centre + points * [1, 1, -1]) - here).max() > 0.1


def test_lattices(field: sdfcli.Field) -> None:
    whole = make_lattice(field, 11)
    assert whole.shape == (11, 11, 11)
    assert np.allclose(whole.origin + 10 * whole.spacing, field.domain.origin + field.domain.length)
    part = make_lattice(field, RESOLUTION, WINDOW)
    assert part.shape == (RESOLUTION, 12, RESOLUTION)
    assert np.array_equal(part.origin, WINDOW[:3])
    assert make_lattice(field, 4, [0, 0, 0, 3, 1, 0.5]).shape == (4, 2, 2)


@pytest.mark.parametrize("x_fastest", [True, False])
def test_pieces_do_not_show(field: sdfcli.Field, x_fastest: bool) -> None:
    lattice = make_lattice(field, 9, WINDOW)
    whole = np.concatenate(list(values(field, lattice, x_fastest=x_fastest)))
    pieces = list(values(field, lattice, x_fastest=x_fastest, piece=100))
    assert max(map(len, pieces)) == 100
    assert np.array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_vtkhdf(octree: str, field: sdfcli.Field, tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    numpy_support = pytest.importorskip("vtk.util.numpy_support")
    if octree == "bvh":
        field = sdfcli.build(shapes.star(np.random.default_rng(2), 2), octree="bvh", depth=6, device="cpu")
    told = report(field.save(tmp_path / "field.h5"), tmp_path / "field.vtkhdf")
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(tmp_path / "field.vtkhdf"))
    reader.Update()
    octants = reader.GetOutput()
    assert (told["leaves"], told["corners"]) == (len(field.leaf_key), len(field.corner_key))
    kind = numpy_support.vtk_to_numpy(octants.GetCellTypesArray())
    voxels = int((kind == vtk.VTK_VOXEL).sum())
    assert (kind[:voxels] == vtk.VTK_VOXEL).all()
    assert (voxels == len(field.leaf_key)) == (octree == "bvh")  # whose levels are not balanced
    where = numpy_support.vtk_to_numpy(octants.GetPoints().GetData())
    distance = numpy_support.vtk_to_numpy(octants.GetPointData().GetArray("distance"))
    level = numpy_support.vtk_to_numpy(octants.GetCellData().GetArray("level"))
    if octree == "adaptive":  # the other one is not continuous
        close(field, where, distance)
    corner = numpy_support.vtk_to_numpy(octants.GetCells().GetConnectivityArray())[: 8 * voxels].reshape(-1, 8)
    edge = field.domain.length * 0.5 ** level[:voxels].astype(float)
    np.testing.assert_allclose(where[corner[:, 7]] - where[corner[:, 0]], edge[:, None].repeat(3, 1), rtol=1e-12)
    # Between the corners as well, by VTK's search for the cell and its weights.
    rng = np.random.default_rng(3)
    points = where[corner[rng.integers(voxels, size=300), 0]] + rng.uniform(0.01, 0.99, (300, 3)) * edge.min()
    np.testing.assert_allclose(probed(vtk, octants, points, distance), field.sample(points), atol=1e-6)


def probed(vtk: Any, data: Any, points: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """VTK's interpolation at points of what its points have."""
    locator = vtk.vtkStaticCellLocator()
    locator.SetDataSet(data)
    locator.BuildLocator()
    cell, place, weight = vtk.vtkGenericCell(), [0.0] * 3, [0.0] * 8
    result = []
    for point in points:
        assert locator.FindCell(point, 0.0, cell, place, weight) >= 0
        result.append(sum(w * distance[cell.GetPointId(k)] for k, w in enumerate(weight)))
    return np.array(result)


def test_vti(field: sdfcli.Field, file: Path, tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    numpy_support = pytest.importorskip("vtk.util.numpy_support")
    told = grid(file, tmp_path / "grid.vti")
    reader = vtk.vtkXMLImageDataReader()
    reader.SetFileName(str(tmp_path / "grid.vti"))
    reader.Update()
    image = reader.GetOutput()
    assert list(image.GetDimensions()) == told["shape"] == [23, 12, 23]
    distance = numpy_support.vtk_to_numpy(image.GetPointData().GetScalars())
    where = np.array([image.GetPoint(k) for k in range(image.GetNumberOfPoints())])
    assert np.allclose(where.min(axis=0), WINDOW[:3])
    close(field, where, distance)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npz(dtype: str, field: sdfcli.Field, file: Path, tmp_path: Path) -> None:
    grid(file, tmp_path / "grid.npz", "--dtype", dtype)
    with np.load(tmp_path / "grid.npz") as read:
        assert set(read) == {"distance", "origin", "spacing"}
        assert read["distance"].dtype == dtype
        assert read["distance"].shape == (23, 12, 23)
        index = np.indices(read["distance"].shape).reshape(3, -1).T
        where = read["origin"] + read["spacing"] * index
        close(field, where, read["distance"].ravel(), 1e-6 if dtype == "float32" else 2**-11)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_raw(dtype: str, field: sdfcli.Field, file: Path, tmp_path: Path) -> None:
    """Read as an engine does: from what the header says."""
    grid(file, tmp_path / "grid.raw", "--dtype", dtype)
    header = json.loads((tmp_path / "grid.raw.json").read_text())
    assert header["axes"] == ["x", "y", "z"]
    assert header["order"].startswith("x fastest")
    assert header["sign"] == "negative inside"
    data = (tmp_path / header["file"]).read_bytes()
    nx, ny, nz = header["shape"]
    distance = np.frombuffer(data, np.dtype(header["dtype"]).newbyteorder("<"))
    assert len(distance) == nx * ny * nz
    assert (header["min"], header["max"]) == (distance.min(), distance.max())
    i, j, k = (np.arange(len(distance)) // n % m for n, m in ((1, nx), (nx, ny), (nx * ny, nz)))
    where = np.array(header["origin"]) + np.array(header["spacing"]) * np.stack((i, j, k), axis=1)
    close(field, where, distance, 1e-6 if dtype == "float32" else 2**-11)


def test_half_precision_where_it_does_not_do(tmp_path: Path) -> None:
    for name, scale, says in (("huge", 1e6, "65504"), ("tiny", 1e-4, "too coarse")):
        ball = sdfcli.build(shapes.moved(shapes.icosphere(2), scale), tolerance=2e-2, device="cpu")
        source = ball.save(tmp_path / f"{name}.h5")
        result = invoke(source, tmp_path / f"{name}.raw", "--dtype", "float16")
        assert result.exit_code in (2, 3)
        assert says in result.stderr
        assert "--dtype float32" in result.stderr
        assert not list(tmp_path.glob(f"{name}.raw*"))
        assert invoke(source, tmp_path / f"{name}.raw", "--resolution", 5).exit_code == 0


@pytest.mark.parametrize("ending", ["nvdb", "vdb"])
def test_a_narrow_band(ending: str, field: sdfcli.Field, file: Path, tmp_path: Path) -> None:
    """The same bytes by the command and from Python; its facts are reported."""
    out = tmp_path / f"a.{ending}"
    found = report(file, out, "--resolution", 31, "--half-width", 2.5)
    lattice = make_lattice(field, 31)
    near = np.abs(np.concatenate(list(values(field, lattice, x_fastest=True)))) < np.float32(2.5 * lattice.spacing)
    assert (found["half_width"], found["active_voxels"]) == (2.5, near.sum())
    field.export(tmp_path / f"b.{ending}", resolution=31, half_width=2.5)
    assert out.read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert invoke(file, tmp_path / f"c.{ending}", "--resolution", 31, "--half-width", 3.5).exit_code == 0
    assert (tmp_path / f"c.{ending}").stat().st_size > out.stat().st_size


def test_bands_that_cannot_be(file: Path, tmp_path: Path) -> None:
    far = ",".join(map(str, [20, 20, 20, 21, 21, 21]))
    for name, words, code, says in (
        ("a.vdb", ["--half-width", 1], 2, "--half-width"),
        ("a.npz", ["--half-width", 3], 2, "narrow bands, in a .vdb or .nvdb file"),
        ("a.nvdb", ["--dtype", "float16"], 2, ".npz, .raw, .zarr.zip, .vdb"),
        ("a.vdb", ["--window", far], 3, "no surface within 3 voxels"),
    ):
        result = invoke(file, tmp_path / name, *words)
        assert (result.exit_code, says in result.stderr) == (code, True), result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["nvdb", "vdb"])
def test_what_does_not_fit_into_memory(
    ending: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdfcli.export.lattice, "free_memory", lambda: 1 << 20)
    result = invoke(file, tmp_path / f"a.{ending}", "--resolution", 200)
    assert result.exit_code == 5
    assert "--resolution" in result.stderr
    assert not list(tmp_path.iterdir())


def test_samples_come_from_the_mesh(file: Path, tmp_path: Path) -> None:
    result = invoke(file, tmp_path / "s.npz", "--samples", 10)
    assert result.exit_code == 2
    assert "sdfcli samples MESH" in result.stderr


def test_an_unsigned_grid(tmp_path: Path) -> None:
    sheet = shapes.sheet(np.random.default_rng(4), 4)
    source = sdfcli.build(sheet, sign="none", tolerance=2e-2, device="cpu").save(tmp_path / "sheet.h5")
    trimesh.Trimesh(*sheet, process=False).export(tmp_path / "sheet.ply")
    for given in (source, tmp_path / "sheet.ply"):
        result = invoke(given, tmp_path / "s.raw", "--resolution", 5, "--force")
        assert result.exit_code == 0
        assert ("without signs" in result.stderr) == (given != source)
        assert json.loads((tmp_path / "s.raw.json").read_text())["sign"] == "none"


@pytest.mark.parametrize("ending", ["npz", "vti", "raw"])
def test_a_grid_of_a_mesh_is_exact(ending: str, tmp_path: Path) -> None:
    vertices, faces = shapes.star(np.random.default_rng(5), 2)
    mesh = trimesh.Trimesh(vertices * [1.0, 0.6, 1.4] + [0.5, 1.0, 3.0], faces, process=False)
    mesh.export(tmp_path / "star.ply")
    told = report(tmp_path / "star.ply", "-o", tmp_path / f"a.{ending}", "--resolution", 13)
    index = np.indices(told["shape"]).reshape(3, -1).T
    points = np.array(told["origin"]) + told["spacing"] * index
    exact = sdfcli.MeshDistance(tmp_path / "star.ply", device="cpu").signed_distance(points)
    assert (exact < 0).any()
    if ending == "npz":
        found = np.load(tmp_path / "a.npz")["distance"].ravel()
    else:
        data = (tmp_path / f"a.{ending}").read_bytes()
        mark = b'encoding="raw">\n   _'
        start = data.index(mark) + len(mark) + 8 if ending == "vti" else 0
        flat = np.frombuffer(data, "<f4", len(points), start)
        found = flat.reshape(told["shape"][::-1]).transpose().ravel()
    assert np.array_equal(found, exact.astype(np.float32))
    whole = sdfcli.build(tmp_path / "star.ply", tolerance=4e-3, device="cpu").domain
    assert told["origin"] == whole.origin.tolist()
    assert invoke(tmp_path / "star.ply", tmp_path / "a.vtkhdf").exit_code == 3


def test_many_files(file: Path, tmp_path: Path) -> None:
    for name in ("a.h5", "b.h5", "c.h5"):
        (tmp_path / name).write_bytes(file.read_bytes() if name != "b.h5" else b"broken")
    files = [tmp_path / name for name in ("a.h5", "b.h5", "c.h5")]
    grids = tmp_path / "grids" / "{name}_8.raw"
    result = invoke(*files, "-o", grids, "--resolution", 8)
    assert result.exit_code == 3
    assert "b.h5: not an intact field file" in result.stderr
    assert "[3/3]" in result.stderr
    assert sorted(path.name for path in (tmp_path / "grids").iterdir()) == [
        f"{name}_8.raw{more}" for name in "ac" for more in ("", ".json")
    ]
    assert json.loads((tmp_path / "grids" / "c_8.raw.json").read_text())["file"] == "c_8.raw"
    result = invoke(*files, "-o", grids, "--resolution", 9)  # nothing is started if a target is there
    assert result.exit_code == 2
    assert "[1/3]" not in result.stderr
    told = invoke(files[0], files[2], "-o", grids, "--resolution", 9, "--force", "--json")
    assert [Path(each["output"]).name for each in reports("export", told.stdout)] == ["a_8.raw", "c_8.raw"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["x/a.h5", "y/a.h5", "-o", "{name}.npz"], "would both be written to"),
        (["a.h5", "b.h5", "-o", "all.npz"], "{name}"),
        (["a.h5", "b.h5", "c.npz"], "name the output"),
        (["a.h5"], "name the output"),
        (["a.h5", "b.h5"], "use -o b.h5"),
        (["a.h5", "b.ply"], ".vtkhdf"),
    ],
)
def test_outputs_that_are_not_clear(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*words)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_nothing_is_replaced(file: Path, tmp_path: Path) -> None:
    for name in ("a.npz", "a.raw.json"):
        (tmp_path / name).write_text("mine")
    for out in ("a.npz", "a.raw"):
        result = invoke(file, tmp_path / out, "--resolution", 4)
        assert result.exit_code == 2
        assert "--force" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "a.raw.json"]
    assert invoke(file, tmp_path / "a.raw", "--resolution", 4, "--force").exit_code == 0


def test_the_output_by_place_or_by_option(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["a.npz"], ["-o", "b.npz"], ["--output", "c.npz"]):
        assert invoke(file, *words, "--resolution", 4).exit_code == 0
    a, b, c = (dict(np.load(name)) for name in ("a.npz", "b.npz", "c.npz"))
    for name in a:
        assert (a[name] == b[name]).all()
        assert (a[name] == c[name]).all()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a.stl"], ".vtkhdf"),
        (["a.npz", "--resolution", "0"], "--resolution"),
        (["a.npz", "--resolution", "1"], "--resolution"),
        (["a.npz", "--resolution", "99999"], "--resolution"),
        (["a.npz", "--window", "0,0,0,1,1"], "six comma-separated numbers"),
        (["a.npz", "--window", "0,0,0,1,1,x"], "six comma-separated numbers"),
        (["a.npz", "--window", "0,0,0,1,0,1"], "--window"),
        (["a.npz", "--window", "0,0,0,1,inf,1"], "--window"),
        (["a.vtkhdf", "--window", "0,0,0,1,1,1"], "for grids"),
        (["a.vti", "--dtype", "float16"], "--dtype"),
        (["a.raw", "--dtype", "float64"], "--dtype"),
        ([], "name the output"),
        (["a.npz", "-o", "b.npz"], "2 files need a name with {name}"),
    ],
)
def test_errors(words: list[str], says: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(file, *words)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def small(kind: str) -> sdfcli.Field:
    if kind == "parts":
        field = sdfcli.build(shapes.box([0, 0, 0], [1, 0.6, 0.02]), device="cpu", tolerance=0.02)
        assert field.parts > 1
        return field
    return sdfcli.build(
        shapes.torus(8, 5), device="cpu", depth=4, tolerance=0.02, nearest=True, why=kind == "adaptive", octree=kind
    )


@pytest.mark.parametrize(
    ("version", "kind"), [(1, "adaptive"), (2, "adaptive"), (3, "adaptive"), (3, "bvh"), (3, "parts")]
)
def test_files_of_earlier_versions_are_rewritten(version: int, kind: str, tmp_path: Path) -> None:
    field, new = small(kind), tmp_path / "new" / "a.h5"
    old = save_3(field, tmp_path / "old.h5", version)
    assert sdfcli.load(old).content_sha256 == content_sha256_3(field)
    told = report(old, "-o", new)
    assert told["output"] == str(new)
    assert (told["leaves"], told["corners"], told["bytes"]) == (field.leaves, field.corners, new.stat().st_size)
    found = sdfcli.load(new)
    with h5py.File(new) as file:
        assert file.attrs["format_version"] == FORMAT_VERSION
        assert file.attrs["content_sha256"].decode() == told["content_sha256"] == found.content_sha256
    field_files.check_same(found, field)
    if version > 1:  # a file of version 1 has no steps
        assert np.array_equal(found.nearest, field.nearest)
        assert np.array_equal(found.leaf_cause, field.leaf_cause)
        assert new.read_bytes() == field.save(tmp_path / "same.h5").read_bytes()


def test_info_names_the_version(tmp_path: Path) -> None:
    field = small("adaptive")
    for path, version in ((save_3(field, tmp_path / "old.h5", 3), 3), (field.save(tmp_path / "new.h5"), 4)):
        done = CliRunner().invoke(app, ["info", str(path)])
        (row,) = [line for line in done.stdout.splitlines() if line.startswith("format ")]
        assert f"version {version}" in row
        assert (f"sdfcli export {path} -o NEW.h5" in " ".join(done.stdout.split())) == (version < FORMAT_VERSION)
        done = CliRunner().invoke(app, ["info", str(path), "--json"])
        assert json.loads(done.stdout)["format_version"] == version


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new sequence of four frames; with the last one its faces change."""
    folder = tmp_path_factory.mktemp("moving")
    frames = [shapes.moved(shapes.torus(8, 5), offset=[0.1 * k, 0, 0]) for k in range(3)] + [shapes.icosphere(1)]
    names = [f"{k}.ply" for k in range(4)]
    for name, shape in zip(names, frames, strict=True):
        trimesh.Trimesh(*shape, process=False).export(folder / name)
    (folder / "times").write_text("0\n0.5\n2\n3\n")
    meshes, times = [str(folder / name) for name in names], str(folder / "times")
    words = ["sequence", *meshes, "-o", str(folder / "new.h5"), "--times", times, "--depth", "4"]
    done = CliRunner().invoke(app, [*words, "--tolerance", "0.02", "--device", "cpu"])
    assert done.exit_code == 0, done.output
    return folder / "new.h5"


def sequence_3(new: Path, path: Path) -> Path:
    """A sequence's file with fields of version 3: a new one's frames."""
    frames = sdfcli.load_sequence(new)
    digest = hashlib.sha256(np.array([*frames.domain.origin, frames.domain.length]).tobytes())
    with h5py.File(new) as one, h5py.File(path, "w") as file:
        for name in ("time", "motion"):
            file[name] = one[name][()]
            digest.update(one[name][()].tobytes())
        for name in one["frame"]:
            alone, frame = path.with_suffix(".frame"), file.create_group(f"frame/{name}")
            with h5py.File(save_3(frames.at(int(name)), alone, 3)) as field:
                for each in field:
                    field.copy(each, frame)
                for each, value in field.attrs.items():
                    frame.attrs[each] = value
            alone.unlink()
            digest.update(bytes.fromhex(frame.attrs["content_sha256"].decode()))
        attributes = dict(one.attrs) | {"content_sha256": np.bytes_(digest.hexdigest())}
        del attributes["attributes_sha256"]
        attributes["attributes_sha256"] = np.bytes_(field_files.attributes_sha256(attributes))
        for each, value in attributes.items():
            file.attrs[each] = value
    return path


def test_sequences_of_earlier_versions_are_rewritten(moving: Path, tmp_path: Path) -> None:
    old, out = sequence_3(moving, tmp_path / "old.h5"), tmp_path / "out.h5"
    for path, version in ((old, 3), (moving, FORMAT_VERSION)):
        shown = CliRunner().invoke(app, ["info", str(path)]).stdout
        assert f"fields of version {version}" in shown
        assert (f"sdfcli export {path} -o NEW.h5" in " ".join(shown.split())) == (version < FORMAT_VERSION)
        told = json.loads(CliRunner().invoke(app, ["info", str(path), "--json"]).stdout)
        assert told["format_version"] == version
    told = report(old, "-o", out)
    assert out.read_bytes() == moving.read_bytes()
    found = sdfcli.load_sequence(out)
    fields = [found.at(k) for k in range(len(found))]
    assert told["content_sha256"] == found.content_sha256 != sdfcli.load_sequence(old).content_sha256
    assert (told["frames"], told["leaves"]) == (4, sum(field.leaves for field in fields))
    assert told["corners"] == sum(field.corners for field in fields)
    assert np.isnan(found.motion).tolist() == [True, False, False, True]
    one = report(old, "--frame", 1, "-o", tmp_path / "one.h5")
    assert one["content_sha256"] == fields[1].content_sha256 == sdfcli.load(tmp_path / "one.h5").content_sha256


def test_a_damaged_frame_is_not_rewritten(moving: Path, tmp_path: Path) -> None:
    old, out = sequence_3(moving, tmp_path / "old.h5"), tmp_path / "out.h5"
    with h5py.File(old, "r+") as file:
        file["frame/000002/residual"][40] += 1
    done = invoke(old, "-o", out)
    assert done.exit_code == 3
    assert "frame 2: not an intact field" in done.stderr
    assert list(tmp_path.iterdir()) == [old]


def test_rewriting_replaces_nothing(file: Path, moving: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken.h5"
    taken.write_text("mine")
    for source in (file, moving):
        done = invoke(source, "-o", taken)
        assert done.exit_code == 2
        assert "--force" in done.stderr
        assert taken.read_text() == "mine"
        copy = tmp_path / source.name
        copy.write_bytes(source.read_bytes())
        for words in ([copy, "-o", copy], [copy, copy]):
            assert invoke(*words, "--force").exit_code == 2
        assert copy.read_bytes() == source.read_bytes()
        done = invoke(source, taken, "--force")
        assert done.exit_code == 2
        assert f"use -o {taken}" in done.stderr
    assert taken.read_text() == "mine"
    assert invoke(file, "-o", taken, "--force").exit_code == 0
    assert taken.read_bytes() == file.read_bytes()
    assert invoke(file, "-o", tmp_path / "b.h5", "--resolution", 8).exit_code == 2


def test_a_folder_of_meshes(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_bytes(b"")
    done = invoke(tmp_path, "-o", tmp_path / "{name}.npz")
    assert done.exit_code == 2
    assert "a folder of meshes; name them one by one, or by a pattern as" in done.output
    assert f"'{tmp_path}/*.obj'" in done.output
