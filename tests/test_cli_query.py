"""`sdfcli query`: points in, distances out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
from sdfcli.cli.app import app


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
    assert np.allclose([float(line) for line in output.split()], DISTANCES, atol=0.012)


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


def test_outputs(folder: Path) -> None:
    np.save(folder / "in.npy", POINTS)
    for name in ("out.npy", "out.csv"):
        target = folder / name
        assert invoke("query", folder / "ball.h5", folder / "in.npy", "-o", target)[0] == 0
        code, output = invoke("query", folder / "ball.h5", folder / "in.npy", "-o", target)
        assert code == 2
        assert "--force" in output
    assert np.allclose(np.load(folder / "out.npy"), np.loadtxt(folder / "out.csv", skiprows=1), rtol=1e-8)
    assert invoke("query", folder / "ball.h5", folder / "in.npy", "-o", folder / "out.txt")[0] == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2\n", "2 numbers"),
        ("1 2 nan\n", "not finite"),
        ("1 2 3\na b c\n", "cannot be read"),
        ("1 2 3 4\n", "4 numbers"),
    ],
)
def test_bad_points(text: str, says: str, folder: Path) -> None:
    code, output = invoke("query", folder / "ball.h5", "-", given=text)
    assert code == 3
    assert says in output


def test_no_points_give_no_distances(folder: Path) -> None:
    for source in ("ball.h5", "ball.ply"):
        assert invoke("query", folder / source, "-", given="") == (0, "")
