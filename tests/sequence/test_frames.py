"""Frames and times from the words of a command line."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import trimesh

import sequences
import shapes
from sdfcli.errors import InputError, SdfError, UsageError
from sdfcli.mesh.load import load_mesh
from sdfcli.sequence.frames import find_frames, frame_times, natural, of_json

FRAMES = sequences.bending(shapes.torus(8, 6), 5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with meshes frame8 to frame12, and other files."""
    (tmp_path / "frames").mkdir()
    for number, frame in enumerate(FRAMES, 8):
        trimesh.Trimesh(*frame, process=False).export(tmp_path / "frames" / f"frame{number}.ply")
    for name in (".hidden.ply", "notes.txt"):
        (tmp_path / "frames" / name).write_text("x")
    return tmp_path / "frames"


@pytest.fixture
def array(folder: Path) -> Path:
    path = folder.parent / "walk.npy"
    np.save(path, np.array([vertices for vertices, _ in FRAMES]))
    return path


def test_natural_order() -> None:
    names = ["a", "frame", "frame1", "frame2x", "frame9", "frame10", "frame10b2", "frame10b10", "frame11", "g"]
    mixed = random.Random(1).sample(names, len(names))
    assert sorted(mixed, key=natural) == names


def test_a_folder_and_files(folder: Path) -> None:
    names = [f"{folder}/frame{number}.ply" for number in range(8, 13)]
    found = find_frames([str(folder)], None)
    assert [found[k] for k in range(len(found))] == names
    assert [found.name(k) for k in range(len(found))] == names
    other = [names[3], names[0], names[3]]
    assert [find_frames(other, None)[k] for k in range(3)] == other
    assert len(find_frames([*other, str(folder)], None)) == 8


def test_an_array_with_the_faces_of_a_mesh(folder: Path, array: Path) -> None:
    found = find_frames([str(array)], str(folder / "frame8.ply"))
    assert len(found) == 5
    for k in range(5):
        mesh = load_mesh(found[k])
        assert np.array_equal(mesh.vertices, FRAMES[k][0])
        assert np.array_equal(mesh.faces, FRAMES[k][1])
    build = sequences.sequence_build(found, device="cpu", depth=3, tolerance=0.05)
    assert [frame.motion is None for frame in build] == [True, *[False] * 4]
    with pytest.raises(InputError, match=r"^frame 2: .*walk\.npy: vertex 7 is not finite"):
        damaged(array, (2, 7, 0), np.nan, str(folder / "frame8.ply"))


def damaged(array: Path, place: tuple[int, ...], value: float, mesh: str) -> None:
    content = np.load(array)
    content[place] = value
    np.save(array, content)
    sequences.sequence_build(find_frames([str(array)], mesh), device="cpu")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_types_of_vertices(folder: Path, array: Path, dtype: type) -> None:
    content = (10 * np.load(array)).astype(dtype)
    np.save(array, content)
    mesh = load_mesh(find_frames([str(array)], str(folder / "frame8.ply"))[1])
    assert np.array_equal(mesh.vertices, content[1])


def test_vertices_that_no_face_uses_count(tmp_path: Path) -> None:
    # Readers drop nothing: indices of faces are those of the file.
    (tmp_path / "mesh.obj").write_text("v 9 9 9\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 2 3 4\n")
    np.save(tmp_path / "a.npy", np.arange(24.0).reshape(2, 4, 3) ** 2)
    mesh = find_frames([str(tmp_path / "a.npy")], str(tmp_path / "mesh.obj"))[1]
    assert np.array_equal(load_mesh(mesh).vertices, np.arange(24.0).reshape(2, 4, 3)[1, 1:] ** 2)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 4, 2), (0, 4, 3), (5, 0, 3)])
def test_arrays_of_other_shapes(folder: Path, array: Path, shape: tuple[int, ...]) -> None:
    np.save(array, np.zeros(shape))
    with pytest.raises(InputError, match=r"walk\.npy: frames must be \(t, v, 3\) numbers"):
        find_frames([str(array)], str(folder / "frame8.ply"))


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"text", b"\x93NUMPY\x01\x00\x08\x00}{'\0'}}\n"]
)
def test_files_that_are_no_arrays(folder: Path, array: Path, content: bytes) -> None:
    array.write_bytes(content)
    with pytest.raises(InputError, match=r"walk\.npy: "):
        find_frames([str(array)], str(folder / "frame8.ply"))


def test_pickles_are_not_loaded(folder: Path, array: Path) -> None:
    np.save(array, np.array([[[{}]]]), allow_pickle=True)
    with pytest.raises(InputError, match=r"walk\.npy: "):
        find_frames([str(array)], str(folder / "frame8.ply"))


def test_another_number_of_vertices(folder: Path, array: Path, tmp_path: Path) -> None:
    trimesh.Trimesh(*shapes.cube(), process=False).export(tmp_path / "cube.ply")
    with pytest.raises(InputError) as caught:
        load_mesh(find_frames([str(array)], str(tmp_path / "cube.ply"))[0])
    assert f"{len(FRAMES[0][0])} vertices a frame, but {tmp_path / 'cube.ply'}" in str(caught.value)
    assert str(caught.value).endswith("has 8")


def test_words_that_do_not_fit_together(folder: Path, array: Path, tmp_path: Path) -> None:
    mesh = str(folder / "frame8.ply")
    (tmp_path / "empty").mkdir()
    for named, faces, words in (
        ([str(array)], None, "with --faces MESH"),
        ([str(array), mesh], mesh, "name it alone"),
        ([mesh], mesh, "needs one .npy file"),
        ([str(tmp_path / "empty")], None, "no meshes"),
        ([], None, "0 frames"),
    ):
        with pytest.raises(UsageError, match=words):
            find_frames(named, faces)


def test_frames_travel_as_json(folder: Path, array: Path) -> None:
    for found in (find_frames([str(folder)], None), find_frames([str(array)], str(folder / "frame8.ply"))):
        again = of_json(found.as_json())
        assert (len(again), again.name(2), again.inputs) == (len(found), found.name(2), found.inputs)
        assert load_mesh(again[2]).sha256 == load_mesh(found[2]).sha256


# ---- Times ----


def test_a_constant_rate() -> None:
    assert frame_times(4, 2.0, None).tolist() == [0, 0.5, 1, 1.5]
    for rate in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(UsageError, match="--fps"):
            frame_times(4, rate, None)


@pytest.mark.parametrize(
    "text",
    [
        "0\n0.5\n2e0\n",
        "# times\n0\n\n0.5 # half\n2",
        "\ufefft\n0\n0.5\n2\n",
        "frame,time\n7,0\n8,0.5\n9,2\n",
        '"Time";x\n0;1\n.5;1\n2;1\n',
    ],
)
def test_times_in_a_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "times.txt").write_text(text, encoding="utf-8")
    assert frame_times(3, None, str(tmp_path / "times.txt")).tolist() == [0, 0.5, 2]


def test_times_in_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "times.npy", np.array([0, 1, 3], np.int16))
    assert frame_times(3, None, str(tmp_path / "times.npy")).tolist() == [0, 1, 3]
    np.save(tmp_path / "times.npy", np.zeros((3, 1)))
    with pytest.raises(InputError, match="a list of numbers"):
        frame_times(3, None, str(tmp_path / "times.npy"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0\n1\n", "2 times for 3 frames"),
        ("", "0 times for 3 frames"),
        ("0\n1\n1\n", "time 2 is 1; times must be finite and increase"),
        ("0\nnan\n1\n", "time 1 is nan"),
        ("0\n1\ninf\n", "time 2 is inf"),
        ("0\n1\nx\n", "line 3: a time is needed, not 'x'"),
        ("0 1\n1 2\n2 3\n", "line 1: one time a line is needed"),
        ("a b\n1 2\n2 3\n3 4\n", "a table needs a column named time"),
        ("a time\n1\n", "line 2: a time is needed"),
    ],
)
def test_times_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "times.txt").write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        frame_times(3, None, str(tmp_path / "times.txt"))
    assert str(caught.value).startswith(str(tmp_path / "times.txt"))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x93NUMPY"])
def test_times_that_are_no_text(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "times").write_bytes(content)
    for name in ("times", "missing", "."):
        with pytest.raises(SdfError):
            frame_times(3, None, str(tmp_path / name))
