"""From files and arrays to checked triangles, and what is wrong with them."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import shapes
from sdfcli.backend import Backend
from sdfcli.errors import InputError
from sdfcli.mesh import load
from sdfcli.mesh.load import load_mesh, make_mesh
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.mesh.topology import twins
from surfaces import volume

warps = backends.warps

CUBE = shapes.cube()


def check_refused(source: Any, *words: str, name: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_mesh(source)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(name if name is not None else f"{source}: ")
    for word in words:
        assert word in message
    return message


def check_usable(mesh: Mesh) -> None:
    """What everything that uses a mesh relies on."""
    assert (mesh.vertices.dtype, mesh.faces.dtype) == (np.float64, np.uint32)
    assert len(mesh.faces) > 0
    assert np.isfinite(mesh.vertices).all()
    assert set(mesh.faces.ravel().tolist()) == set(range(len(mesh.vertices)))
    unit = mesh.unit_triangles
    assert unit.shape == (len(mesh.faces), 9)
    assert unit.min() >= 0
    assert unit.max() <= 1


# ---- Arrays ----


def test_arrays_and_objects() -> None:
    vertices, faces = CUBE
    for source in (
        CUBE,
        (vertices.tolist(), faces.tolist()),
        (vertices.astype(np.float32), faces.astype(np.uint8)),
        trimesh.Trimesh(vertices, faces, process=False),
        make_mesh(vertices, faces),
    ):
        mesh = load_mesh(source)
        check_usable(mesh)
        assert np.array_equal(mesh.vertices, vertices)
        assert np.array_equal(mesh.faces, faces)
    same = make_mesh(vertices, faces)
    assert load_mesh(same) is same


def test_unused_vertices_are_dropped() -> None:
    vertices, faces = CUBE
    more = np.concatenate(([[np.nan, 0, 0]], vertices[:4], [[1e9, np.inf, 0]], vertices[4:], [[7, 7, 7]]))
    mesh = make_mesh(more, np.where(faces < 4, faces + 1, faces + 2))
    check_usable(mesh)
    assert np.array_equal(mesh.vertices, vertices)
    assert np.array_equal(mesh.faces, faces)


def corrupt(place: tuple[int, int], value: float) -> shapes.Shape:
    vertices = CUBE[0].copy()
    vertices[place] = value
    return vertices, CUBE[1]


@pytest.mark.parametrize(
    ("vertices", "faces", "words"),
    [
        (np.zeros((8, 2)), CUBE[1], ["(8, 2)"]),
        (np.zeros(24), CUBE[1], ["(24,)"]),
        (CUBE[0], np.zeros((6, 4), int), ["(6, 4)"]),
        (CUBE[0], CUBE[1].ravel(), ["(36,)"]),
        (CUBE[0], np.zeros((0, 3), int), ["no faces", "8 points"]),
        (CUBE[0][:7], CUBE[1], ["vertex 7", "7 vertices"]),
        (CUBE[0], np.where(CUBE[1] == 5, -1, CUBE[1]), ["vertex -1", "8 vertices"]),
        (np.zeros((0, 3)), CUBE[1], ["0 vertices"]),
        (*corrupt((3, 1), np.nan), ["vertex 3", "not finite"]),
        (*corrupt((0, 0), np.inf), ["vertex 0", "not finite"]),
        (np.ones((8, 3)), CUBE[1], ["extent"]),
        (1e-40 * CUBE[0], CUBE[1], ["extent"]),
        (1e40 * CUBE[0], CUBE[1], ["extent"]),
        (1e-4 * CUBE[0] + 1e12, CUBE[1], ["precision"]),
    ],
)
def test_unusable_arrays(vertices: Any, faces: Any, words: list[str]) -> None:
    check_refused((vertices, faces), *words, name="mesh: ")
    with pytest.raises(InputError, match="some name: "):
        make_mesh(vertices, faces, "some name")


# ---- Files ----


def binary_ply(
    vertices: shapes.Floats,
    faces: Sequence[Sequence[int]],
    coordinate: str = "float",
    index: str = "int",
    extra: bool = False,
    end: bytes = b"",
    order: str = "little",
) -> bytes:
    """A PLY file by hand."""
    mark = "<" if order == "little" else ">"
    more = "property uchar red\nproperty float nx\n" if extra else ""
    head = (
        f"ply\nformat binary_{order}_endian 1.0\ncomment by hand\nelement vertex {len(vertices)}\n"
        f"property {coordinate} x\nproperty {coordinate} y\n{more}property {coordinate} z\n"
        f"element face {len(faces)}\nproperty list uchar {index} vertex_indices\nend_header\n"
    )
    kind = "f" if coordinate == "float" else "d"
    body = b""
    for x, y, z in vertices:
        body += struct.pack(f"{mark}2{kind}", x, y)
        body += struct.pack(f"{mark}Bf", 200, 0.5) if extra else b""
        body += struct.pack(f"{mark}{kind}", z)
    for face in faces:
        body += struct.pack(f"{mark}B{len(face)}{'i' if index == 'int' else 'I'}", len(face), *face)
    return head.encode() + body + end


PLYS = {
    "plain": binary_ply(CUBE[0], CUBE[1].tolist()),
    "double": binary_ply(CUBE[0], CUBE[1].tolist(), coordinate="double"),
    "unsigned": binary_ply(CUBE[0], CUBE[1].tolist(), index="uint"),
    "colours": binary_ply(CUBE[0], CUBE[1].tolist(), extra=True),
    "big-endian": binary_ply(CUBE[0], CUBE[1].tolist(), order="big"),
}


@pytest.mark.parametrize("kind", PLYS)
def test_ply_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cube.PLY"
    path.write_bytes(PLYS[kind])
    mesh = load_mesh(path)
    check_usable(mesh)
    assert np.array_equal(mesh.vertices, CUBE[0])
    assert np.array_equal(mesh.faces, CUBE[1])
    assert mesh.sha256 == load_mesh(CUBE).sha256


def test_ply_files_with_squares(tmp_path: Path) -> None:
    sides = [(0, 4, 6, 2), (1, 3, 7, 5), (0, 1, 5, 4), (2, 6, 7, 3), (0, 2, 3, 1), (4, 5, 7, 6)]
    path = tmp_path / "cube.ply"
    path.write_bytes(binary_ply(CUBE[0], sides))
    mesh = load_mesh(path)
    assert len(mesh.faces) == 12
    assert mesh.health.watertight
    assert np.isclose(volume(mesh), 8)


@pytest.mark.parametrize("suffix", ["stl", "ply", "obj", "off", "glb"])
def test_each_format(tmp_path: Path, suffix: str) -> None:
    shape = shapes.torus(12, 7)
    path = tmp_path / f"torus.{suffix}"
    trimesh.Trimesh(*shape, process=False).export(path)
    mesh = load_mesh(path)
    check_usable(mesh)
    assert mesh.health == (load_mesh(str(path)).health)
    assert mesh.health.triangles == 168
    assert mesh.health.faults == []
    corners = np.sort(mesh.vertices[mesh.faces].reshape(-1, 9), axis=0)
    assert np.allclose(corners, np.sort(shapes.triangles(shape).reshape(-1, 9), axis=0), atol=1e-6)


SUFFIXES = ["stl", "ply", "obj", "off", "glb", "gltf", "3mf", "dae", "txt", "zip", "h5", ""]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", ["empty", "bytes", "text", "zeros"])
def test_files_that_are_no_mesh(tmp_path: Path, suffix: str, content: str) -> None:
    noise = np.random.default_rng(1).bytes(3000)
    path = tmp_path / f"file.{suffix}"
    path.write_bytes(
        {"empty": b"", "bytes": noise, "text": b"a line of text\nand one more\n", "zeros": bytes(200)}[content]
    )
    check_refused(path)


def test_no_file(tmp_path: Path) -> None:
    check_refused(tmp_path / "missing.stl", "no such file")
    check_refused(tmp_path, "folder")
    check_refused(tmp_path / ("x" * 300 + ".stl"))


OBJ = "".join(f"v {x} {y} {z}\n" for x, y, z in CUBE[0]) + "".join(f"f {a} {b} {c}\n" for a, b, c in CUBE[1] + 1)
STL = trimesh.Trimesh(*CUBE, process=False).export(file_type="stl")
POINTS_PLY = (
    b"ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
)

UNUSABLE = {
    "NaN.obj": OBJ.replace("v -1.0", "v nan", 1).encode(),
    "NaN.ply": binary_ply(corrupt((2, 2), np.nan)[0], CUBE[1].tolist()),
    "infinite.stl": STL.replace(struct.pack("<f", 1.0), struct.pack("<f", np.inf)),
    "index.ply": binary_ply(CUBE[0], [[0, 1, 8]]),
    "negative.ply": binary_ply(CUBE[0], [[0, 1, -1]]),
    "large.ply": binary_ply(CUBE[0], [[0, 1, 2**32 - 1]], index="uint"),
    "index.obj": (OBJ + "f 1 2 9\n").encode(),
    "index.off": b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n",
    "points.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\n",
    "points.ply": POINTS_PLY + b"0 0 0\n1 1 1\n",
    "no_faces.ply": binary_ply(CUBE[0], []),
    "no_faces.off": b"OFF\n3 0 0\n0 0 0\n1 0 0\n0 1 0\n",
    "no_faces.stl": bytes(84),
    "one_point.obj": b"v 5 5 5\nf 1 1 1\n",
    "one_point.ply": binary_ply(np.ones((3, 3)), [[0, 1, 2]]),
    "cut.ply": PLYS["plain"][:-5],
    "more.ply": binary_ply(CUBE[0], CUBE[1].tolist(), end=b"more")[:300],
    "huge.ply": PLYS["plain"].replace(b"element vertex 8", b"element vertex 999999999999999"),
    "cut.stl": STL[:100],
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_files_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(UNUSABLE[name])
    check_refused(path)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["stl", "obj", *PLYS]))
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    content = bytearray({"stl": STL, "obj": OBJ.encode(), **PLYS}[kind])
    if rng.random() < 0.3:
        del content[rng.integers(len(content)) :]
    else:
        for place in rng.integers(0, len(content), rng.integers(1, 6)):
            content[place] = rng.integers(256)
    path = tmp_path_factory.getbasetemp() / f"damaged.{kind if kind in ('stl', 'obj') else 'ply'}"
    path.write_bytes(content)
    message = ""
    try:
        mesh = load_mesh(path)
    except InputError as error:
        message = str(error)
    if message:
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
    else:
        check_usable(mesh)


# ---- Welding ----


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), values=st.sampled_from([1, 2, 5, 1000]), count=st.integers(1, 40))
def test_equal_positions_are_one_vertex(seed: int, values: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    vertices = rng.integers(-values, values + 1, (3 * count, 3)) * rng.choice([1.0, -1.0, 0.1])
    vertices[0] = vertices.max() + 1  # some extent
    welded = make_mesh(vertices, np.arange(3 * count).reshape(-1, 3)).position
    place = {}
    for number, vertex in zip(welded.tolist(), (vertices + 0.0).tolist(), strict=True):
        assert place.setdefault(tuple(vertex), number) == number
    assert len(set(place.values())) == len(place)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(sorted(shapes.ANY)))
def test_merged_vertices_leave_triangles_and_health_as_they_are(seed: int, kind: str) -> None:
    vertices, faces = shapes.ANY[kind](np.random.default_rng(seed))
    mesh = make_mesh(vertices[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3))
    merged = mesh.merged()
    places = np.unique(mesh.position)
    if 2 * len(places) >= len(mesh.vertices):
        assert merged is mesh
        return
    assert np.array_equal(merged.vertices, mesh.vertices[places])
    assert np.array_equal(merged.unit_triangles, mesh.unit_triangles)
    assert merged.merged() is merged
    assert merged.health == mesh.health


def test_both_zeros_are_one_position() -> None:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [-0.0, -0.0, 0.0], [0, 1, -0.0], [0, 0, 1]])
    mesh = make_mesh(vertices, np.array([[0, 1, 2], [3, 4, 5]]))
    assert mesh.position.tolist() == [0, 1, 2, 0, 2, 5]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), values=st.integers(1, 8), count=st.integers(1, 60))
def test_twins_have_the_same_vertices(seed: int, values: int, count: int) -> None:
    faces = np.random.default_rng(seed).integers(0, values, (count, 3))
    groups: dict[tuple[int, ...], list[int]] = {}
    for face, vertices in enumerate(faces.tolist()):
        groups.setdefault(tuple(sorted(vertices)), []).append(face)
    found, again = twins(faces)
    parts = np.split(found, np.flatnonzero(~again)[1:])
    expected = [group for group in groups.values() if len(group) > 1]
    assert sorted(part.tolist() for part in parts if len(part)) == sorted(expected)


# ---- Health ----

A, B, C = CUBE[1][0].tolist()
MIDDLE = np.concatenate((CUBE[0], [(CUBE[0][A] + CUBE[0][B]) / 2]))
SOUND = dict.fromkeys(
    ["open_edges", "non_manifold_edges", "inconsistent_edges", "degenerate_faces", "duplicate_faces"], 0
)
HEALTH: dict[str, tuple[shapes.Shape, dict[str, int]]] = {
    "cube": (CUBE, {}),
    "separate triangles": ((shapes.triangles(CUBE).reshape(-1, 3), np.arange(36).reshape(-1, 3)), {}),
    "cube without a side": ((CUBE[0], CUBE[1][2:]), {"open_edges": 4}),
    "cube without a triangle": ((CUBE[0], CUBE[1][1:]), {"open_edges": 3}),
    "one triangle": ((CUBE[0], CUBE[1][:1]), {"open_edges": 3}),
    "a triangle turned": (
        (CUBE[0], np.concatenate((CUBE[1][1:], [[C, B, A]]))),
        {"open_edges": 3, "inconsistent_edges": 3},
    ),
    "a triangle twice": (
        (CUBE[0], np.concatenate((CUBE[1], [[B, C, A]]))),
        {"open_edges": 3, "non_manifold_edges": 3, "duplicate_faces": 1},
    ),
    "a triangle twice, turned": (
        (CUBE[0], np.concatenate((CUBE[1], [[B, A, C]]))),
        {"open_edges": 3, "non_manifold_edges": 3, "duplicate_faces": 1},
    ),
    "a triangle three times": (
        (CUBE[0], np.concatenate((CUBE[1], [[B, A, C], [A, B, C]]))),
        {"non_manifold_edges": 3, "duplicate_faces": 2},
    ),
    "a segment on an edge": (
        (CUBE[0], np.concatenate((CUBE[1], [[A, B, B]]))),
        {"degenerate_faces": 1},
    ),
    "a point": ((CUBE[0], np.concatenate((CUBE[1], [[A, A, A]]))), {"degenerate_faces": 1}),
    "three points in line": (
        (MIDDLE, np.concatenate((CUBE[1], [[A, 8, B]]))),
        {"open_edges": 3, "non_manifold_edges": 1, "degenerate_faces": 1},
    ),
    "a sliver": (
        (MIDDLE + 1e-10 * (np.arange(9) == 8)[:, None], np.concatenate((CUBE[1], [[A, 8, B]]))),
        {"open_edges": 3, "non_manifold_edges": 1, "degenerate_faces": 1},
    ),
    "two cubes at an edge": (
        shapes.joined(CUBE, shapes.moved(CUBE, offset=[2, 2, 0])),
        {"non_manifold_edges": 1},
    ),
    "two cubes at a corner": (shapes.joined(CUBE, shapes.moved(CUBE, offset=2)), {}),
    "cube twice": (shapes.joined(CUBE, CUBE), {"non_manifold_edges": 18, "duplicate_faces": 12}),
    "inside out": (shapes.inside_out(CUBE), {}),
}


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("name", HEALTH)
def test_health(name: str, scale: float) -> None:
    (vertices, faces), faults = HEALTH[name]
    mesh = make_mesh(scale * vertices, faces)
    found = asdict(mesh.health)
    assert 1 <= found.pop("shells") <= len(faces)
    assert found == {**SOUND, **faults, "triangles": len(faces), "vertices": len(mesh.vertices)}
    assert mesh.health.watertight == ("open_edges" not in faults)
    assert len(mesh.open_edges.ends) == faults.get("open_edges", 0)
    # An edge that is used twice in one direction is open, and counts as that: it makes no fault of its own.
    assert len(mesh.health.faults) == len(set(faults) - {"inconsistent_edges"})


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=20))
def test_counts_of_any_faces(rows: list[tuple[int, int, int]]) -> None:
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [3, 1, 0], [0.3, 0.2, 0.9]])
    rows.append((0, 1, 2))
    mesh = make_mesh(vertices, np.array(rows))
    uses: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        for start, end in zip(row, (*row[1:], row[0]), strict=True):
            if len(set(row)) == 3:  # others take no part
                uses.setdefault((min(start, end), max(start, end)), []).append(1 if start < end else -1)
    assert mesh.health.open_edges == sum(sum(edge) != 0 for edge in uses.values())
    assert mesh.health.non_manifold_edges == sum(len(edge) > 2 for edge in uses.values())
    assert mesh.health.inconsistent_edges == sum(len(edge) == 2 and sum(edge) != 0 for edge in uses.values())
    assert mesh.health.duplicate_faces == len(rows) - len({tuple(sorted(row)) for row in rows})
    assert mesh.health.degenerate_faces == sum(len(set(row)) < 3 for row in rows)


def test_words_for_faults() -> None:
    mesh = make_mesh(CUBE[0], np.concatenate((CUBE[1][2:], [[7, 7, 7]])))
    assert mesh.health.faults == ["4 open edges", "1 degenerate face"]
    many = make_mesh(*shapes.soup(np.random.default_rng(1), 500, 0.1))
    assert many.health.faults == ["1,500 open edges"]


# ---- Derived quantities ----


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1))
def test_the_domain_is_a_padded_cube(kind: str, seed: int) -> None:
    mesh = make_mesh(*shapes.ANY[kind](np.random.default_rng(seed)))
    check_usable(mesh)
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    longest = (high - low).max()
    blur = 1e-15 * np.abs(mesh.vertices).max()
    assert np.isclose(mesh.domain.length, 1.05 * longest, rtol=1e-12)
    assert np.all(np.abs(mesh.domain.origin + mesh.domain.length / 2 - (low + high) / 2) <= 4 * blur + 1e-15 * longest)
    assert np.isclose(mesh.diagonal, np.linalg.norm(high - low), rtol=1e-12)
    unit = mesh.unit_triangles
    assert min(unit.min(), 1 - unit.max()) >= 0.0238 - 4 * blur / longest


@pytest.mark.parametrize("offset", [[0, 0, 0], [500_000, 5_200_000, 300], [-1e7, 1e7, 1e7]])
def test_unit_coordinates_keep_their_accuracy_far_from_the_origin(offset: list[float]) -> None:
    # Coordinates of a survey: a few metres of detail, millions of metres from the origin. float32 would keep half a
    # metre of it.
    rng = np.random.default_rng(3)
    vertices = np.round(20 * shapes.star(rng, 1)[0] * 2**20) / 2**20
    mesh = make_mesh(vertices + offset, shapes.star(rng, 1)[1])
    unit = mesh.unit_triangles.reshape(-1, 3)
    for found, vertex in zip(unit, mesh.vertices[mesh.faces].reshape(-1, 3), strict=True):
        for k in range(3):
            exact = (Fraction(vertex[k]) - Fraction(mesh.domain.origin[k])) / Fraction(mesh.domain.length)
            assert abs(found[k] - exact) <= 3 * Fraction(2) ** -53
    # What float64 held of the vertices is there: differences of them, to an ulp of the offset.
    home = make_mesh(vertices, mesh.faces)
    sides = unit - unit[0]
    expected = home.unit_triangles.reshape(-1, 3) - home.unit_triangles.reshape(-1, 3)[0]
    assert np.abs(sides - expected).max() <= 4 * np.spacing(np.abs(offset).max()) / home.domain.length + 1e-15


def test_the_hash_is_that_of_the_mesh() -> None:
    mesh = make_mesh(*CUBE)
    assert mesh.sha256 == make_mesh(CUBE[0].tolist(), CUBE[1].astype(np.uint16)).sha256
    others = [
        make_mesh(*shapes.inside_out(CUBE)),
        make_mesh(*shapes.moved(CUBE, offset=1e-15)),
        make_mesh(CUBE[0], CUBE[1][::-1]),
        make_mesh(CUBE[0], CUBE[1][1:]),
    ]
    assert len({mesh.sha256, *(other.sha256 for other in others)}) == 5


def test_arrays_that_say_other_than_they_mean() -> None:
    vertices, faces = shapes.cube()
    assert np.array_equal(make_mesh(vertices, np.asarray(faces, float)).faces, faces)
    with pytest.raises(InputError, match="whole numbers"):
        make_mesh(vertices, np.asarray(faces) + 0.5)
    with pytest.raises(InputError, match="a tuple of 3"):
        load_mesh((vertices, faces, faces))
    with pytest.raises(InputError, match="vertices: masked values"):
        make_mesh(np.ma.masked_greater(vertices, 0.5), faces)
    with pytest.raises(InputError, match="faces: masked values"):
        make_mesh(vertices, np.ma.masked_equal(faces, 3))
    assert len(make_mesh(np.ma.array(vertices), faces).faces) == 12


def plainly(points: shapes.Floats, faces: Any) -> tuple[shapes.Floats, Any] | str:
    """The vertices that are used and the faces, by plain NumPy; or what is said of arrays that cannot be used."""
    wrong = np.argwhere((faces < 0) | (faces >= len(points)))
    if len(wrong):
        return f"mesh: face {wrong[0, 0]} names vertex {faces[tuple(wrong[0])]}, but there are {len(points)} vertices"
    used = np.unique(faces)
    bad = used[~np.isfinite(points[used]).all(axis=1)]
    if len(bad):
        return f"mesh: vertex {bad[0]} is not finite ({len(bad)} such vertices)"
    return points[used], np.searchsorted(used, faces)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["i1", "u1", "<i2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"]),
    st.integers(3, 120),
    st.sampled_from([1, 2, 40, 5000]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0, np.nan, np.inf, -np.inf]),
)
def test_arrays_of_all_kinds(
    warps: Backend, seed: int, kind: str, vertices: int, faces: int, astray: bool, sliced: bool, value: float
) -> None:
    """Numbers of any width and order of bytes, also where a face names what is not there, or a vertex is not finite."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(vertices, 3))
    if value:
        points[rng.integers(vertices, size=2), rng.integers(3, size=2)] = value
    numbers = rng.integers(0, rng.integers(3, vertices + 1), (faces, 3))
    numbers[0] = 0, 1, 2
    if astray:
        numbers[rng.integers(faces), rng.integers(3)] = rng.choice([vertices, 126] if "u" in kind else [-1, vertices])
    given = numbers.astype(kind)
    expected = plainly(points, numbers)
    if sliced:
        given = np.repeat(given, 2, axis=0)[::2]
    for backend in (None, warps):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load, "MANY_FACES", 20)
            if isinstance(expected, str):
                with pytest.raises(InputError, match=re.escape(expected)):
                    make_mesh(points, given, backend=backend)
                continue
            mesh = make_mesh(points, given, backend=backend)
        assert np.array_equal(mesh.vertices, expected[0])
        assert np.array_equal(mesh.faces, expected[1])
        assert np.array_equal(mesh.bounds, [expected[0].min(axis=0), expected[0].max(axis=0)])
        check_usable(mesh)
        if backend:
            home = Domain.around(np.add(mesh.bounds, [[-1], [1]]))
            on_device = mesh.placed(home, 1.0).on(backend).on_device
            assert np.array_equal(backend.to_host(on_device.vertex), expected[0])
            assert np.array_equal(backend.to_host(on_device.face), expected[1])
