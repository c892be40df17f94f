"""`sdfcli query`: points in, distances out."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import oracle
import sdfcli
import shapes
from commands import reports
from sdfcli.backend.cpu import CpuBackend
from sdfcli.cli.app import app
from sdfcli.params import FORMS
from sdfcli.query.point_files import open_points


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("query")
    trimesh.creation.icosphere(subdivisions=4).export(folder / "ball.ply")
    sdfcli.build(folder / "ball.ply", tolerance=2e-3, device="cpu").save(folder / "ball.h5")
    return folder


POINTS = np.array([[0.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.5, 0.5, 0.5], [0.3, -0.9, 0.1]])
DISTANCES = np.linalg.norm(POINTS, axis=1) - 1


def invoke(*words: object, given: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words], input=given)
    return result.exit_code, result.output


def lines(points: np.ndarray, separator: str = " ") -> str:
    return "\n".join(separator.join(f"{x:.17g}" for x in point) for point in points) + "\n"


@pytest.mark.parametrize("source", ["ball.h5", "ball.ply"])
@pytest.mark.parametrize("kind", ["npy", "csv", "named.csv", "xyz", "ply", "-"])
def test_every_kind_of_points(source: str, kind: str, folder: Path) -> None:
    path = folder / f"points.{kind}"
    given = None
    if kind == "npy":
        np.save(path, POINTS)
    elif kind == "csv":
        path.write_text(lines(POINTS, ","))
    elif kind == "named.csv":
        path.write_text("x,y,z\n" + lines(POINTS, ", "))
    elif kind == "xyz":
        path.write_text("# a comment\n\n" + lines(POINTS))
    elif kind == "ply":
        trimesh.PointCloud(POINTS).export(path)
    else:
        path, given = Path("-"), lines(POINTS)
    code, output = invoke("query", folder / source, path, given=given)
    assert code == 0, output
    if kind == "named.csv":
        name, _, output = output.partition("\n")
        assert name == "distance"
    assert np.allclose([float(line) for line in output.split()], DISTANCES, atol=0.012)


@pytest.mark.parametrize("source", ["ball.h5", "ball.ply"])
def test_points_on_the_command_line(source: str, folder: Path) -> None:
    points = np.array([[0.5, -0.25, 1e-3], [-0.5, 0.25, 0], [-0.125, -1, -1.5]])
    words = ["0.5,-.25,1e-3", "-0.5,0.25,0", "-.125,-1,-1.5"]
    code, output = invoke("query", folder / source, *words, "-q")
    assert code == 0, output
    assert output == invoke("query", folder / source, "-", "-q", given=lines(points))[1]
    code, output = invoke("query", folder / source, "--gradient", words[1], "-q", words[0])
    assert (code, len(output.splitlines()[1].split())) == (0, 4)
    assert invoke("query", folder / source, "--", *words)[0] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["0,0"], "0,0: use three finite numbers X,Y,Z"),
        (["0,0,0,0"], "0,0,0,0: use three"),
        (["0,,0,0"], "0,,0,0: use three"),
        (["1,2,x"], "1,2,x: use three"),
        (["1,2,nan"], "1,2,nan: use three"),
        (["0,0,0", "points.npy"], "points.npy: use points X,Y,Z, or a single file"),
        (["points.npy", "points.npy"], "points.npy: use points X,Y,Z, or a single file"),
        (["0,0,0", "-"], "-: use points X,Y,Z, or a single file"),
        (["-1"], "no such option"),
        (["-x,0,0"], "no such option"),
    ],
)
def test_words_that_are_no_points(words: list[str], says: str, folder: Path) -> None:
    code, output = invoke("query", folder / "ball.h5", *words)
    assert (code, says.lower() in output.lower()) == (2, True), output


def test_a_file_named_like_a_point(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    Path("0,0,0").write_text("0 0 0.5\n")
    try:
        _, typed = invoke("query", "ball.h5", "0,0,0")
        code, read = invoke("query", "ball.h5", "./0,0,0")
    finally:
        Path("0,0,0").unlink()
    assert code == 0, read
    assert [float(typed), float(read)] == sdfcli.load("ball.h5").sample([[0, 0, 0], [0, 0, 0.5]]).tolist()


@pytest.mark.parametrize("option", [[], ["--coordinates"]])
def test_coordinates(option: list[str], folder: Path) -> None:
    np.save(folder / "in.npy", POINTS)
    words, count = ["query", folder / "ball.h5", folder / "in.npy", *option, "--force"], 3 * len(option)
    expected = np.column_stack([POINTS, sdfcli.load(folder / "ball.h5").sample(POINTS)])
    _, output = invoke(*words[:-1])
    assert np.array_equal(np.loadtxt(output.splitlines(), ndmin=2), expected[:, 3 - count :])
    _, output = invoke(*words[:-1], "--json")
    rows = reports("query", output)
    assert [[row[name] for name in ("x", "y", "z", "distance")[3 - count :]] for row in rows] == expected[
        :, 3 - count :
    ].tolist()
    for ending in ("npy", "csv", "ply"):
        target = folder / f"placed.{ending}"
        assert invoke(*words, "-o", target)[0] == 0
        if ending == "npy":
            assert np.array_equal(np.load(target).reshape(len(POINTS), -1), expected[:, 3 - count :])
        elif ending == "csv":
            assert np.array_equal(np.loadtxt(target, delimiter=",", skiprows=1), expected)
        else:
            assert target.read_bytes().count(b"property double x") == 1


def test_points_outside_the_domain(folder: Path) -> None:
    field = sdfcli.load(folder / "ball.h5")
    low, length = field.domain.origin, field.domain.length
    points = np.array([low, low + length, low + length / 2, low - 1e-6, low + np.array([0, 0, 1.001 * length])])
    code, output = invoke("query", folder / "ball.h5", "-", "--outside", given=lines(points))
    *rows, said = output.splitlines()
    assert [row.split()[1] for row in rows] == ["0", "0", "0", "1", "1"]
    assert said == "note: 2 of 5 points are outside the field's domain; distances there are upper bounds"
    assert invoke("query", folder / "ball.h5", "-", given=lines(points))[1].splitlines()[-1] == said
    assert "note" not in invoke("query", folder / "ball.h5", "-", "-q", given=lines(points))[1]
    assert "note" not in invoke("query", folder / "ball.h5", "-", given=lines(points[:3]))[1]
    _, output = invoke("query", folder / "ball.h5", "-", "--outside", "--json", "-q", given=lines(points))
    assert [row["outside"] for row in reports("query", output)] == [0, 0, 0, 1, 1]
    code, output = invoke("query", folder / "ball.ply", "-", "--outside", given=lines(points))
    assert (code, "--outside: a mesh has no domain" in output) == (2, True)


def test_a_mesh_is_exact(folder: Path) -> None:
    code, output = invoke("query", folder / "ball.ply", "-", given=lines(POINTS))
    assert code == 0
    exact = sdfcli.MeshDistance(folder / "ball.ply", device="cpu").signed_distance(POINTS)
    assert np.allclose([float(line) for line in output.split()], exact, rtol=1e-8)


@pytest.mark.parametrize("source", ["ball.h5", "ball.ply"])
def test_gradients_point_outwards(source: str, folder: Path) -> None:
    code, output = invoke("query", folder / source, "-", "--gradient", given=lines(POINTS[1:]))
    assert code == 0
    table = np.array([[float(word) for word in line.split()] for line in output.splitlines()])
    assert table.shape == (3, 4)
    outwards = POINTS[1:] / np.linalg.norm(POINTS[1:], axis=1, keepdims=True)
    directions = table[:, 1:] / np.linalg.norm(table[:, 1:], axis=1, keepdims=True)
    assert np.all(np.einsum("ij,ij->i", directions, outwards) > 0.99)


@pytest.mark.parametrize(("words", "answers"), [([], {"result"}), (["--gradient"], {"result", "gradient"})])
def test_a_field_is_walked_once(
    words: list[str], answers: set[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    run = CpuBackend.run

    def counted(self: CpuBackend, kernel: str, n: int, **arguments: object) -> None:
        if kernel == "sdf_field_sample":
            asked.append({name for name in ("result", "gradient", "leaf_of") if arguments[name] is not None})
        run(self, kernel, n, **arguments)

    monkeypatch.setattr(CpuBackend, "run", counted)
    assert invoke("query", folder / "ball.h5", "-", *words, given=lines(POINTS))[0] == 0
    assert asked == [answers]


@pytest.mark.parametrize("named", [True, False])
def test_csv_in_csv_out(named: bool, folder: Path) -> None:
    given = ("x,y,z\n" if named else "") + lines(POINTS, ",")
    code, output = invoke("query", folder / "ball.h5", "-", "--gradient", given=given)
    assert code == 0
    rows = output.splitlines()
    if named:
        assert rows.pop(0) == "distance,gx,gy,gz"
    table = np.array([[float(word) for word in row.split(",")] for row in rows])
    field = sdfcli.load(folder / "ball.h5")
    assert np.allclose(table, np.column_stack([field.sample(POINTS), field.gradient(POINTS)]), rtol=1e-8)


def test_outputs(folder: Path) -> None:
    np.save(folder / "in.npy", POINTS)
    for name in ("out.npy", "out.csv", "out.ply"):
        target = folder / name
        assert invoke("query", folder / "ball.h5", folder / "in.npy", "-o", target)[0] == 0
        code, output = invoke("query", folder / "ball.h5", folder / "in.npy", "-o", target)
        assert code == 2
        assert "--force" in output
    expected = sdfcli.load(folder / "ball.h5").sample(POINTS)
    assert np.array_equal(np.load(folder / "out.npy"), expected)
    assert (folder / "out.csv").read_text().startswith("x,y,z,distance\n")
    table = np.loadtxt(folder / "out.csv", skiprows=1, delimiter=",")
    assert np.array_equal(table, np.column_stack([POINTS, expected]))
    cloud = trimesh.load(folder / "out.ply")
    assert np.array_equal(cloud.vertices, POINTS)
    rows = cloud.metadata["_ply_raw"]["vertex"]["data"]
    assert np.array_equal(rows["distance"], expected)
    assert invoke("query", folder / "ball.h5", folder / "in.npy", "-o", folder / "out.txt")[0] == 2


@pytest.mark.parametrize("ending", ["npy", "csv", "ply"])
def test_nearest(ending: str, folder: Path) -> None:
    """The nearest point is as far as the nearest triangle is, and lies on the triangle that is named."""
    rng = np.random.default_rng(1)
    points = rng.normal(size=(500, 3))
    np.save(folder / "many.npy", points)
    target = folder / f"nearest.{ending}"
    words = ["--nearest", "--gradient", "-o", target, "--force"]
    assert invoke("query", folder / "ball.ply", folder / "many.npy", *words)[0] == 0
    if ending == "npy":
        table = np.load(target)
    elif ending == "csv":
        assert target.read_text().startswith("x,y,z,distance,gx,gy,gz,nearest_x,nearest_y,nearest_z,triangle\n")
        table = np.loadtxt(target, delimiter=",", skiprows=1)[:, 3:]
    else:
        rows = trimesh.load(target).metadata["_ply_raw"]["vertex"]["data"]
        table = np.array([list(row) for row in rows])[:, 3:]
    assert table.shape == (500, 8)
    distance, gradient, nearest, triangle = table[:, 0], table[:, 1:4], table[:, 4:7], table[:, 7].astype(int)
    mesh = trimesh.load(folder / "ball.ply", process=False)
    exact = oracle.distance(points, mesh.triangles)
    assert np.allclose(np.abs(distance), exact, atol=1e-6)
    assert np.allclose(np.linalg.norm(points - nearest, axis=1), exact, atol=1e-6)
    assert np.allclose(points - distance[:, None] * gradient, nearest, atol=1e-6)
    on_it = trimesh.triangles.closest_point(mesh.triangles[triangle], nearest)
    assert np.allclose(on_it, nearest, atol=1e-6)


@pytest.mark.parametrize("approximate", [None, *FORMS])
@pytest.mark.parametrize("ending", ["npy", "csv", "ply"])
def test_several_nearest_triangles(ending: str, approximate: str | None, folder: Path) -> None:
    points = np.random.default_rng(1).normal(size=(200, 3))
    np.save(folder / "several.npy", points)
    words = ["--nearest", "-k", 3, *(["--approximate", approximate] if approximate else [])]
    asked = ["query", folder / "ball.ply", folder / "several.npy", *words]
    assert invoke(*asked, "-o", folder / f"out.{ending}", "--force")[0] == 0
    target = folder / f"out.{ending}"
    names = ["distance", "triangle_1", "distance_1", "triangle_2", "distance_2", "triangle_3", "distance_3"]
    if ending == "npy":
        table = np.load(target)
    elif ending == "csv":
        assert target.read_text().startswith(",".join(["x", "y", "z", *names]) + "\n")
        table = np.loadtxt(target, delimiter=",", skiprows=1)[:, 3:]
    else:
        rows = trimesh.load(target).metadata["_ply_raw"]["vertex"]["data"]
        assert list(rows.dtype.names)[3:] == names
        table = np.array([list(row) for row in rows])[:, 3:]
    index = sdfcli.MeshDistance(folder / "ball.ply", device="cpu")
    distances, faces = index.nearest_triangles(points, 3, approximate)
    assert np.array_equal(table[:, 0], index.signed_distance(points))
    assert np.array_equal(table[:, 1::2], faces)
    assert np.array_equal(table[:, 2::2], distances)
    if approximate is None:
        assert np.array_equal(table[:, 2], np.abs(table[:, 0]))


def test_several_nearest_triangles_and_gradients(folder: Path) -> None:
    words = ["query", folder / "ball.ply", "-", "--gradient"]
    plain = invoke(*words, given=lines(POINTS))[1].splitlines()
    several = invoke(*words, "--nearest", "-k", 2, given=lines(POINTS))[1].splitlines()
    assert [line.split()[:4] for line in several] == [line.split() for line in plain]
    assert {len(line.split()) for line in several} == {8}


def test_fewer_triangles_than_are_asked_for(tmp_path: Path) -> None:
    trimesh.Trimesh(np.eye(3), [[0, 1, 2]]).export(tmp_path / "one.ply")
    asked = ["query", str(tmp_path / "one.ply"), "-", "--nearest", "-k", "3"]
    done = CliRunner().invoke(app, asked, input="2 0 0\n")
    assert np.allclose([float(word) for word in done.stdout.split()], [1, 0, 1, -1, np.inf, -1, np.inf])
    done = CliRunner().invoke(app, [*asked, "--json"], input="2 0 0\n")
    found = json.loads(done.stdout)
    assert found == {
        "schema_version": 1,
        "distance": found["distance"],
        "nearest_triangles": [0],
        "nearest_distances": [abs(found["distance"])],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-k 3", "-k 3: is for --nearest; add it"),
        ("--nearest -k 0", "-k 0: use 1 to 32"),
        ("--nearest -k 33", "-k 33: use 1 to 32"),
        ("--nearest --approximate ball", "--approximate ball: is for several nearest triangles; add -k or --within"),
        ("--nearest -k 3 --approximate box", "--approximate box: use minmax, size, ball"),
    ],
)
@pytest.mark.parametrize("source", ["ball.ply", "ball.h5"])
def test_impossible_numbers_of_triangles(source: str, words: str, message: str, folder: Path) -> None:
    done = CliRunner().invoke(app, ["query", str(folder / source), "-", *words.split()], input="0 0 0\n")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"sdfcli: {message}\n")


def test_a_field_knows_no_nearest_points(folder: Path) -> None:
    for words in ([], ["-k", 8], ["-k", 8, "--approximate", "size"]):
        code, output = invoke("query", folder / "ball.h5", "-", "--nearest", *words, given="0 0 0\n")
        assert code == 2
        assert "query the mesh" in output


@pytest.mark.parametrize("source", ["-", "long.npy", "long.csv"])
@pytest.mark.parametrize("ending", ["npy", "csv", "ply"])
def test_chunks_do_not_show(source: str, ending: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(2).normal(size=(103, 3))
    np.save(folder / "long.npy", points)
    (folder / "long.csv").write_text(lines(points, ","))
    given, path = (lines(points), "-") if source == "-" else (None, folder / source)
    for chunk, name in ((1000, "whole"), (10, "parts")):
        monkeypatch.setattr("sdfcli.query.point_files.CHUNK", chunk)
        words = ["--gradient", "-o", folder / f"{name}.{ending}", "--force"]
        assert invoke("query", folder / "ball.h5", path, *words, given=given)[0] == 0
    assert (folder / f"whole.{ending}").read_bytes() == (folder / f"parts.{ending}").read_bytes()


def test_text_is_read_as_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream without an end."""
    taken = itertools.count()
    monkeypatch.setattr("sys.stdin", (f"{next(taken)},0,0\n" for _ in itertools.count()))
    monkeypatch.setattr("sdfcli.query.point_files.CHUNK", 50)
    with open_points("-") as stream:
        first, second = next(stream.chunks), next(stream.chunks)
    assert np.array_equal(np.concatenate((first, second))[:, 0], np.arange(100))
    assert next(taken) == 100


def test_npy_is_mapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 2.4 TB, nearly all of it a hole."""
    monkeypatch.setattr("sdfcli.query.point_files.CHUNK", 50)
    with open(folder / "huge.npy", "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**11, 3)}
        np.lib.format.write_array_header_1_0(file, header)
        try:
            file.truncate(file.tell() + 24 * 10**11)
        except OSError:
            pytest.skip("the file system holds no such files")
    with open_points(str(folder / "huge.npy")) as stream:
        assert np.array_equal(next(stream.chunks), np.zeros((50, 3)))
    (folder / "huge.npy").unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_points(folder: Path) -> None:
    script = "import sys; from sdfcli.cli.app import app; app(sys.argv[1:], standalone_mode=False);"
    # Not ru_maxrss, which begins with this process's memory.
    script += "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    peaks = []
    for count in (1_000_000, 6_000_000):
        np.save(folder / "zeros.npy", np.zeros((count, 3)))
        words = ["query", folder / "ball.h5", folder / "zeros.npy", "-o", folder / "peak.npy", "--force"]
        peaks.append(int(subprocess.check_output([sys.executable, "-c", script, *words])))
    assert peaks[1] - peaks[0] < 30_000  # kB: the points alone are 120 MB more, and the answers 40


def test_a_reader_that_has_enough(folder: Path) -> None:
    np.save(folder / "zeros.npy", np.zeros((200_000, 3)))
    command = [sys.executable, "-m", "sdfcli", "query", folder / "ball.h5", folder / "zeros.npy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("x,y,z", "012"),
        ("z,y,x", "210"),
        ("Y,Z,X", "120"),
        ("id,x,y,z", "-012"),
        ("z,a,y,b,x", "2-1-0"),
        ("px py pz", "012"),
        ("Points:2,Points:0,Points:1", "201"),
        ('"X","Z","Y"', "021"),
        ("n x y z", "-012"),
        ("nx ny nz x y z", "---012"),
        ("Normals:0,Normals:1,Normals:2,Points:0,Points:1,Points:2", "---012"),
    ],
)
def test_columns_are_put_in_order_by_their_names(names: str, columns: str, folder: Path) -> None:
    rows = [[9.0 if column == "-" else point[int(column)] for column in columns] for point in POINTS]
    separator = "," if "," in names else " "
    code, output = invoke("query", folder / "ball.ply", "-", given=f"{names}\n" + lines(np.array(rows), separator))
    assert code == 0, output
    assert np.allclose([float(line) for line in output.split()[1:]], DISTANCES, atol=0.012)


@pytest.mark.parametrize("names", ["a,b,c", "x,y,t", "lat,lon,height", "x,y,z,x", "r,g,b,a", "vx,vy,vz,px,py,pz"])
def test_columns_of_other_names_are_refused(names: str, folder: Path) -> None:
    row = ",".join("0" * len(names.split(",")))
    code, output = invoke("query", folder / "ball.ply", "-", given=f"{names}\n{row}\n")
    assert (code, len(output.splitlines())) == (3, 1)
    assert "standard input: line 1: which columns are the coordinates?" in output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2\n", "line 1: three finite numbers"),
        ("x y z\n\n# comment\n1 2 nan\n", "line 4: three finite numbers"),
        ("1 2 3\na b c\n", "line 2: three finite numbers"),
        ("1 2 3 4\n", "not '1 2 3 4'"),
        ("1 2 3\n1 2 3 4\n", "line 2"),
        ("solid ball\n", "line 1"),
        ("id,x,y,z\n1,2,3,4\n2,3,4\n", "line 3: 4 numbers, with finite coordinates, are needed, not '2,3,4'"),
        ("x,y,z,t\n1,2,nan,4\n", "line 2: 4 numbers"),
        ("x,y,z\n1,2,1_0\n", "line 2: three finite numbers are needed, not '1,2,1_0'"),
    ],
)
def test_bad_points(text: str, says: str, folder: Path) -> None:
    code, output = invoke("query", folder / "ball.h5", "-", "-o", folder / "never.csv", given=text)
    assert code == 3
    assert says in output
    assert not (folder / "never.csv").exists()


def test_what_is_no_text(folder: Path) -> None:
    (folder / "array.csv").write_bytes(b"\x93NUMPY\x01\x00")
    code, output = invoke("query", folder / "ball.h5", folder / "array.csv")
    assert code == 3
    assert "is not text" in output


def test_marks_of_editors(folder: Path) -> None:
    (folder / "marked.csv").write_text("\ufeff0,0,0\r\n0,0,0.5 # half\r\n", encoding="utf-8")
    code, output = invoke("query", folder / "ball.h5", folder / "marked.csv")
    assert code == 0
    assert len(output.split()) == 2


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (np.zeros((4, 2)), "(n, 3)"),
        (np.zeros((4, 3), complex), "(n, 3) numbers"),
        (np.array([[0, 0, 0], [np.inf, 0, 0.0]]), "point 1 is not finite"),
    ],
)
def test_bad_arrays(points: np.ndarray, says: str, folder: Path) -> None:
    np.save(folder / "bad.npy", points)
    code, output = invoke("query", folder / "ball.h5", folder / "bad.npy")
    assert code == 3
    assert says in output


def test_no_points_give_no_distances(folder: Path) -> None:
    for source in ("ball.h5", "ball.ply"):
        assert invoke("query", folder / source, "-", given="") == (0, "")
        for ending in ("npy", "csv", "ply"):
            target = folder / f"none.{ending}"
            assert invoke("query", folder / source, "-", "-o", target, "--force", given="")[0] == 0
        assert np.load(folder / "none.npy").shape == (0,)


def test_text_gives_back_every_bit(tmp_path: Path, folder: Path) -> None:
    points = np.random.default_rng(5).uniform(-1, 1, (200, 3))
    np.save(tmp_path / "points.npy", points)
    field = sdfcli.load(folder / "ball.h5")
    expected = np.column_stack([field.sample(points), field.gradient(points)])
    words = ["query", str(folder / "ball.h5"), str(tmp_path / "points.npy"), "--gradient"]
    printed = CliRunner().invoke(app, words).stdout
    assert np.array_equal(np.loadtxt(io.StringIO(printed)), expected)
    assert CliRunner().invoke(app, [*words, "-o", str(tmp_path / "a.csv")]).exit_code == 0
    table = np.loadtxt(tmp_path / "a.csv", delimiter=",", skiprows=1)
    assert np.array_equal(table, np.column_stack([points, expected]))
    lines = CliRunner().invoke(app, [*words, "--json"]).stdout.splitlines()
    assert [list(json.loads(line)) for line in lines[:1]] == [["schema_version", "distance", "gx", "gy", "gz"]]
    assert np.array_equal([list(json.loads(line).values())[1:] for line in lines], expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sign", "none"], "--sign none: a field has its signs already; query the mesh instead"),
        (["--threads", "0"], "--threads 0: use 1 or more"),
        (["--device", "gpu"], "--device gpu: use auto, cpu, cuda or cuda:N"),
    ],
)
def test_options_are_not_passed_over_with_a_field(folder: Path, words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["query", str(folder / "ball.h5"), "-", *words], input="0 0 0\n")
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"sdfcli: {message}\n")


def test_a_field_is_asked_with_the_threads_that_are_named(folder: Path) -> None:
    done, plain = (
        CliRunner().invoke(app, ["query", str(folder / "ball.h5"), "-", *words], input="0.1 0.2 0.3\n")
        for words in (["--device", "cpu", "--threads", "1", "--quiet"], [])
    )
    assert (done.exit_code, done.stdout) == (0, plain.stdout)


CUBE = shapes.cube()
SCENES = {
    "glb": lambda path: trimesh.Scene([trimesh.Trimesh(*CUBE, process=False)]).export(path),
    "3mf": lambda path: trimesh.Trimesh(*CUBE, process=False).export(path),
    "obj": lambda path: path.write_text(
        "mtllib away.mtl\n"
        + "".join("v {} {} {}\n".format(*vertex) for vertex in CUBE[0])
        + "".join(f"usemtl m{k % 2}\nf {a} {b} {c}\n" for k, (a, b, c) in enumerate(np.asarray(CUBE[1]) + 1))
    ),
}


@pytest.mark.parametrize("ending", SCENES)
def test_the_vertices_of_scenes_are_points(ending: str, folder: Path) -> None:
    SCENES[ending](folder / f"cube.{ending}")
    if ending == "obj":
        os.mkfifo(folder / "away.mtl")  # to open it would take for ever
    code, output = invoke("query", folder / "ball.h5", folder / f"cube.{ending}")
    assert code == 0, output
    assert len(output.split()) == 8
    assert np.allclose([float(line) for line in output.split()], 3**0.5 - 1, atol=0.02)


def test_scenes_of_points_are_looked_at_before_they_are_unpacked(folder: Path) -> None:
    with zipfile.ZipFile(folder / "bomb.3mf", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("3D/3dmodel.model", bytes(30_000_000))
    code, output = invoke("query", folder / "ball.h5", folder / "bomb.3mf")
    assert code == 3
    assert "unpacks to" in output


@pytest.mark.parametrize("name", ["pipe", "pipe.csv", "pipe.ply"])
def test_points_from_a_pipe(name: str, folder: Path) -> None:
    pipe = folder / name
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"echo 0 0 0 > '{pipe}'"]):
        code, output = invoke("query", folder / "ball.h5", pipe)
    pipe.unlink()
    assert code == 0, output
    assert np.isclose(float(output), -1, atol=0.02)


def test_points_of_standard_input_by_its_name(folder: Path) -> None:
    (folder / "one").write_text("0 0 0\n")
    asked = f"'{sys.executable}' -m sdfcli query '{folder / 'ball.h5'}' /dev/stdin"
    for line in (f"echo 0 0 0 | {asked}", f"{asked} < '{folder / 'one'}'"):
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
        assert np.isclose(float(done.stdout), -1, atol=0.02)


def test_quoted_numbers_are_numbers(folder: Path) -> None:
    code, output = invoke("query", folder / "ball.h5", "-", given='"0","0","0"\n')
    assert code == 0
    assert np.isclose(float(output), -1, atol=0.02)
    code, output = invoke("query", folder / "ball.h5", "-", given='"x","y","z"\n"0","0","0"\n')
    assert code == 0
    assert output.splitlines()[0] == "distance"
    for almost in ("0x1 0x2 0x3\n", "1,5;2,5;3,5\n", "1. 2e 3e\n"):
        code, output = invoke("query", folder / "ball.h5", "-", given=almost)
        assert code == 3
        assert "line 1: three finite numbers" in output


def test_files_that_hold_no_points(folder: Path) -> None:
    (folder / "points.pcd").write_text("0 0 0\n")
    code, output = invoke("query", folder / "ball.h5", folder / "points.pcd")
    assert code == 3
    assert "unknown point format" in output


def within(folder: Path, radius: float) -> list[list[tuple[int, float]]]:
    """Each of POINTS' triangles within the radius with their distances, from all triangles in float64."""
    mesh = trimesh.load(folder / "ball.ply", process=False)
    assert isinstance(mesh, trimesh.Trimesh)
    away = oracle.distances(POINTS, mesh.vertices[mesh.faces])
    return [sorted(((j, d) for j, d in enumerate(row) if d <= radius), key=lambda pair: pair[1]) for row in away]


@pytest.mark.parametrize("coordinates", [False, True])
def test_triangles_within_a_radius(folder: Path, tmp_path: Path, coordinates: bool) -> None:
    """In text, in .npy, in .csv with the points, and in JSON: the same rows."""
    np.save(tmp_path / "points.npy", POINTS)
    words = ["query", folder / "ball.ply", tmp_path / "points.npy", "--within", 0.15]
    words += ["--coordinates"] if coordinates else []
    expected = within(folder, 0.15)
    assert [len(row) > 0 for row in expected] == [False, True, True, True]
    code, printed = invoke(*words)
    assert code == 0
    rows = np.array([[float(x) for x in line.split()] for line in printed.splitlines()])
    assert np.array_equal(rows[:, 0], np.repeat(np.arange(4), [len(row) for row in expected]))
    if coordinates:
        assert np.array_equal(rows[:, 1:4], POINTS[rows[:, 0].astype(int)])
    for k, row in enumerate(expected):
        own = rows[rows[:, 0] == k]
        assert dict(row) == pytest.approx({int(j): d for j, d in own[:, -2:]}, abs=1e-6)
        assert (np.diff(own[:, -1]) >= 0).all()
    assert invoke(*words, "-o", tmp_path / "rows.npy", "--quiet") == (0, "")
    assert np.array_equal(np.load(tmp_path / "rows.npy"), rows)
    code, printed = invoke(*words, "-o", tmp_path / "rows.csv", "--json")
    assert reports("query", printed)[0]["pairs"] == len(rows)
    assert reports("query", printed)[0]["columns"] == ["point", "x", "y", "z", "triangle", "distance"]
    table = np.loadtxt(tmp_path / "rows.csv", delimiter=",", skiprows=1)
    assert np.array_equal(table[:, [0, -2, -1]], rows[:, [0, -2, -1]])
    assert np.array_equal(table[:, 1:4], POINTS[table[:, 0].astype(int)])
    code, printed = invoke(*words, "--json")
    for k, report in enumerate(reports("query", printed)):
        assert report["nearest_triangles"] == rows[rows[:, 0] == k, -2].tolist()
        assert report["nearest_distances"] == rows[rows[:, 0] == k, -1].tolist()
        assert ("x" in report) == coordinates
    assert k == 3


def test_points_of_all_chunks_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("query", folder / "ball.ply", "-", "--within", "0.3")
    whole = invoke(*words, given=lines(np.tile(POINTS, (3, 1))))
    monkeypatch.setattr("sdfcli.query.point_files.CHUNK", 5)
    assert invoke(*words, given=lines(np.tile(POINTS, (3, 1)))) == whole
    assert {line.split()[0] for line in whole[1].splitlines()} == set(map(str, range(12))) - {"0", "4", "8"}


def test_some_triangles_within_a_radius(folder: Path) -> None:
    words = ("query", folder / "ball.ply", "1,0.2,0", "--within", "0.5")
    every, some = (invoke(*words, *more)[1].splitlines() for more in ((), ("--approximate", "ball")))
    assert len(some) == 32 < len(every)
    assert set(some) <= set(every)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ball.h5 0,0,0 --within 1", "fields store no triangles"),
        ("ball.ply 0,0,0 --within -1", "--within -1.0: use 0 or a positive number"),
        ("ball.ply 0,0,0 --within nan", "--within nan"),
        ("ball.ply 0,0,0 --within 1 --nearest", "--within: not with"),
        ("ball.ply 0,0,0 --within 1 --nearest -k 3", "not with -k 3"),
        ("ball.ply 0,0,0 --within 1 --gradient", "--within: not with"),
        ("ball.ply 0,0,0 --within 1 --approximate best", "--approximate best: use"),
        ("ball.ply 0,0,0 --within 1 -o rows.ply", ".npy"),
    ],
)
def test_wrong_radii(words: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    code, printed = invoke("query", *words.split())
    assert code == 2
    assert message in printed
