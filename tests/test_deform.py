"""tools/deform.py writes a smooth motion that ends where it began."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from conftest import tool
from sdfcli.mesh.load import load_mesh
from sdfcli.sequence.frames import FrameArray

TORUS = Path(__file__).resolve().parents[1] / "sample_meshes" / "torus.obj"


@pytest.mark.parametrize("motion", ["bend", "twist", "breathing"])
def test_an_array_of_frames(motion: str, tmp_path: Path) -> None:
    deform, mesh = tool("deform"), load_mesh(TORUS)
    deform.main([str(TORUS), str(tmp_path / "out.npy"), "--frames", "24", "--motion", motion, "--amount", "0.1"])
    frames = np.load(tmp_path / "out.npy")
    assert frames.dtype == np.float32
    assert frames.shape == (24, *mesh.vertices.shape)
    assert np.allclose(frames[0], mesh.vertices, atol=1e-6)
    widest = np.linalg.norm(frames - mesh.vertices, axis=2).max(axis=1) / mesh.diagonal
    assert widest.max() == pytest.approx(0.1, rel=1e-4)
    steps = np.linalg.norm(frames - np.roll(frames, 1, axis=0), axis=2).max(axis=1) / mesh.diagonal
    assert steps.max() < 1.01 * 2 * np.pi * 0.1 / 24  # the last to the first, too


def test_a_folder_of_meshes(tmp_path: Path) -> None:
    deform, rest = tool("deform"), load_mesh(TORUS)
    deform.main([str(TORUS), str(tmp_path / "out"), "--frames", "12", "--motion", "twist"])
    paths = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in paths] == [f"frame{number:02}.ply" for number in range(12)]
    meshes = [load_mesh(path) for path in paths]
    assert all(np.array_equal(mesh.faces, rest.faces) for mesh in meshes)
    assert np.allclose(meshes[0].vertices, rest.vertices, atol=1e-6)
    assert not np.allclose(meshes[3].vertices, rest.vertices, atol=1e-3)


@pytest.mark.parametrize("words", [["--frames", "0"], ["--motion", "jump"]])
def test_bad_words(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        tool("deform").main([str(TORUS), str(tmp_path / "out.npy"), *words])
    assert ended.value.code == 2
    assert not list(tmp_path.iterdir())


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "out.npy").write_text("mine")
    with pytest.raises(SystemExit):
        tool("deform").main([str(TORUS), str(tmp_path / "out.npy")])
    assert (tmp_path / "out.npy").read_text() == "mine"


def test_an_array_has_the_vertices_that_no_face_uses(tmp_path: Path) -> None:
    text = "v 9 9 9\n" + TORUS.read_text()
    (tmp_path / "mesh.obj").write_text(re.sub(r"(?m)^f (.*)$", lambda f: "f " + shifted(f[1]), text))
    tool("deform").main([str(tmp_path / "mesh.obj"), str(tmp_path / "out.npy"), "--frames", "2"])
    frames = FrameArray(str(tmp_path / "out.npy"), str(tmp_path / "mesh.obj"))
    assert len(np.load(tmp_path / "out.npy")[0]) == len(load_mesh(TORUS).vertices) + 1
    assert np.array_equal(frames[0].faces, load_mesh(tmp_path / "mesh.obj").faces)


def shifted(corners: str) -> str:
    """The corners of a face, each named by a number one higher."""
    return " ".join(str(int(corner.partition("/")[0]) + 1) for corner in corners.split())
