"""glTF: each feature of the standard that changes triangles, against the standard's own words and VTK's reader."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shapes
from gltf_files import FACES, TETRAHEDRON, Glb
from sdfcli.errors import DeviceError, InputError, OutOfMemoryError, ReadingNote, SdfError
from sdfcli.mesh.arrays import Floats
from sdfcli.mesh.formats import apart, gltf
from sdfcli.mesh.formats.gltf import read_gltf
from sdfcli.runtime import memory

SOLID = TETRAHEDRON[FACES].astype(float)
"""The triangles of a tetrahedron, seen from outside counter-clockwise."""
HALF = np.sqrt(0.5)


def ordered(triangles: Any) -> Floats:
    """Triangles (f, 3, 3) that start at their least corner, sorted: equal for equal surfaces of one orientation."""
    corner = np.asarray(triangles, np.float64).round(5) + 0.0
    first = [np.lexsort(each.T[::-1])[0] for each in corner]
    rows = np.array([np.roll(each, -k, axis=0).ravel() for each, k in zip(corner, first, strict=True)]).reshape(-1, 9)
    return rows[np.lexsort(rows.T[::-1])]


def read(file: Glb, folder: Path) -> Floats:
    """The triangles (f, 3, 3) of a file that is read without a note."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vertices, faces = read_gltf(file.write(folder / "a.glb"))
    return vertices[faces.astype(np.int64)]


def noted(file: Glb, folder: Path, words: str) -> Floats:
    with pytest.warns(ReadingNote, match=words) as found:
        vertices, faces = read_gltf(file.write(folder / "a.glb"))
    assert len(found) == 1
    assert str(found[0].message).startswith(f"{folder / 'a.glb'}: ")
    return vertices[faces.astype(np.int64)]


def refused(file: Glb, folder: Path, words: str, error: type[SdfError] = InputError) -> None:
    with pytest.raises(error, match=words) as fault:
        read_gltf(file.write(folder / "a.glb"))
    assert "\n" not in str(fault.value)


def same(triangles: Floats, *expected: Any) -> None:
    np.testing.assert_allclose(ordered(triangles), ordered(np.concatenate(expected)), atol=2e-5)


def moved(*by: float) -> Floats:
    return np.add(SOLID, by)


def one(**node: Any) -> Glb:
    file = Glb()
    file.node(mesh=file.mesh(), **node)
    return file


# ---- Primitives ----


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_indices(tmp_path: Path, dtype: str) -> None:
    file = Glb()
    file.node(mesh=file.mesh(dtype=dtype))
    same(read(file, tmp_path), SOLID)


def test_primitives_without_indices(tmp_path: Path) -> None:
    file = Glb()
    file.node(mesh=file.mesh(SOLID.reshape(-1, 3), None))
    same(read(file, tmp_path), SOLID)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("mode", [5, 6])
def test_strips_and_fans(tmp_path: Path, mode: int, indexed: bool) -> None:
    points = shapes.icosphere(1)[0][:7]
    corner = np.array([3, 1, 6, 0, 2, 5]) if indexed else np.arange(7)
    file = Glb()
    file.node(mesh=file.mesh(points, corner if indexed else None, mode=mode))
    # As the standard lists them: p = {v[i], v[i + 1 + i % 2], v[i + 2 - i % 2]}, and {v[i + 1], v[i + 2], v[0]}.
    steps = range(len(corner) - 2)
    strip = [(k, k + 1 + k % 2, k + 2 - k % 2) for k in steps]
    fan = [(k + 1, k + 2, 0) for k in steps]
    same(read(file, tmp_path), points[corner[np.array(strip if mode == 5 else fan)]])


def test_joints_between_strips_are_no_faces(tmp_path: Path) -> None:
    corner = [0, 1, 2, 2, 3, 3, 1, 0]
    file = Glb()
    file.node(mesh=file.mesh(TETRAHEDRON, corner, mode=5))
    same(read(file, tmp_path), TETRAHEDRON[[[0, 1, 2], [3, 0, 1]]])


@pytest.mark.parametrize("mode", [5, 6])
def test_strips_start_again(tmp_path: Path, mode: int) -> None:
    points, end = np.random.default_rng(mode).normal(size=(9, 3)), 255
    runs = [[0, 1, 2, 3, 4], [5, 6, 7], [8, 0], [3, 5, 7, 1]]
    corner = [*runs[0], end, *runs[1], end, end, *runs[2], end, *runs[3]]
    file, apart_ = Glb().needs("KHR_mesh_primitive_restart"), Glb()
    file.node(mesh=file.mesh(points, corner, "u1", mode=mode))
    for run in runs:
        apart_.node(mesh=apart_.mesh(points, run, "u1", mode=mode))
    found = read(file, tmp_path)
    assert len(found) == 3 + 1 + 2
    same(found, read(apart_, tmp_path))
    del file.tree["extensionsUsed"], file.tree["extensionsRequired"]
    refused(file, tmp_path, "names vertex 255 of accessor 0, which has 9")


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_points_and_lines_are_left_out(tmp_path: Path, mode: int) -> None:
    file = one()
    file.node(mesh=file.mesh(mode=mode))
    same(noted(file, tmp_path, "primitives of points or lines left out: 1"), SOLID)


def test_primitives_without_positions_are_left_out(tmp_path: Path) -> None:
    file = one()
    file.tree["meshes"][0]["primitives"].append({"attributes": {"NORMAL": 0}})
    same(noted(file, tmp_path, "primitives without positions left out: 1"), SOLID)


def test_primitives_share_vertices(tmp_path: Path) -> None:
    file = Glb()
    points = file.accessor(np.concatenate([np.full((1000, 3), 9.0), TETRAHEDRON]))
    for rows in (FACES[:1], FACES[1:]):
        file.node(mesh=file.mesh(points, rows + 1000))
    vertices, faces = read_gltf(file.write(tmp_path / "a.glb"))
    assert len(vertices) == 3 + 4
    same(vertices[faces], SOLID)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"mode": 7}, "a primitive of mode 7"),
        ({"mode": -1}, "mode is -1"),
        ({"mode": "4"}, "mode is '4'"),
        ({"indices": 9}, "names number 9 of accessors, but there are 2"),
        ({"indices": True}, "names number True of accessors"),
        ({"attributes": {"POSITION": 1}}, "accessor 1: 'SCALAR' of type 5123, which cannot be used here"),
        ({"attributes": None}, "something is missing in its JSON, or of a wrong type"),
        ({"targets": [{"POSITION": 1}]}, "weights"),
    ],
)
def test_primitives_that_are_none(tmp_path: Path, entry: dict[str, Any], words: str) -> None:
    file = one(weights=[1.0]) if "targets" in entry else one()
    file.tree["meshes"][0]["primitives"][0].update(entry)
    refused(file, tmp_path, words if "targets" not in entry else "accessor 1: 'SCALAR'")


def test_corners_that_are_no_triangles(tmp_path: Path) -> None:
    file = Glb()
    file.node(mesh=file.mesh(TETRAHEDRON, [0, 1, 2, 3]))
    refused(file, tmp_path, "4 corners, which are no triangles")
    file = Glb()
    file.node(mesh=file.mesh(TETRAHEDRON, [0, 1, 4]))
    refused(file, tmp_path, "names vertex 4 of accessor 0, which has 4")


# ---- Accessors ----

MOST = {"i1": 127, "u1": 255, "i2": 32767, "u2": 65535}


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dtype", MOST)
def test_quantised_positions(tmp_path: Path, dtype: str, normalized: bool) -> None:
    rng, limits = np.random.default_rng(5), np.iinfo(dtype)
    stored = rng.integers(limits.min, limits.max, (4, 3), endpoint=True)
    stored[0], stored[1] = limits.min, limits.max
    file = Glb().needs("KHR_mesh_quantization")
    points = file.accessor(stored, dtype, padded=-3 * limits.bits // 8 % 4, normalized=normalized)
    file.node(mesh=file.mesh(points))
    exact = np.maximum(stored / MOST[dtype], -1.0) if normalized else stored
    vertices, faces = read_gltf(file.write(tmp_path / "a.glb"))
    assert np.array_equal(vertices, exact)
    assert np.array_equal(faces, FACES)


@pytest.mark.parametrize("padded", [0, 4, 20])
def test_interleaved_positions(tmp_path: Path, padded: int) -> None:
    file = Glb()
    file.node(mesh=file.mesh(file.accessor(TETRAHEDRON, padded=padded)))
    same(read(file, tmp_path), SOLID)


@pytest.mark.parametrize("index", ["u1", "u2", "u4"])
@pytest.mark.parametrize("kind", ["replaces", "alone", "in an accessor that is shared"])
def test_sparse_positions(tmp_path: Path, kind: str, index: str) -> None:
    file, lifted = Glb(), TETRAHEDRON.copy()
    if kind == "alone":
        points = file.bare(4, sparse=file.sparse([1, 2, 3], TETRAHEDRON[1:], index=index))
        lifted = TETRAHEDRON
    else:
        lifted[[1, 3]] = [5, 0, 0], [0, 0, 7]
        points = file.accessor(TETRAHEDRON, sparse=file.sparse([1, 3], lifted[[1, 3]], index=index))
    for faces in FACES[:, None] if kind == "in an accessor that is shared" else [FACES]:
        file.node(mesh=file.mesh(points, faces))
    same(read(file, tmp_path), lifted[FACES].astype(float))


def test_sparse_indices(tmp_path: Path) -> None:
    file, wrong = Glb(), FACES.ravel().copy()
    wrong[[2, 7]] = 0
    flat = file.accessor(wrong, "u2", sparse=file.sparse([2, 7], FACES.ravel()[[2, 7]], "u2"))
    file.node(mesh=file.mesh(TETRAHEDRON, flat))
    same(read(file, tmp_path), SOLID)


@pytest.mark.parametrize("places", [[3, 1], [1, 1], [1, 4]])
def test_sparse_rows_that_are_none(tmp_path: Path, places: list[int]) -> None:
    file = Glb()
    file.node(mesh=file.mesh(file.accessor(TETRAHEDRON, sparse=file.sparse(places, TETRAHEDRON[:2]))))
    refused(file, tmp_path, "accessor 0: sparse indices must ascend, and be less than 4")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("accessors[0].count=5", r"accessor 0: 5 rows from byte 0 on, but bufferView 0 has 48 bytes"),
        ("accessors[0].byteOffset=4", r"accessor 0: 4 rows from byte 4 on, but bufferView 0 has 48 bytes"),
        ("accessors[0].byteOffset=-4", "byteOffset is -4"),
        ("accessors[0].count=2.5", "count is 2.5"),
        ("accessors[0].componentType=5130", "accessor 0: 'VEC3' of type 5130"),
        ("accessors[0].componentType=5125", "accessor 0: 'VEC3' of type 5125"),
        ("accessors[0].bufferView=7", "names number 7 of bufferViews"),
        ("accessors[1].componentType=5126", "accessor 1: 'SCALAR' of type 5126"),
        ("bufferViews[0].byteLength=4000", "bufferView 0 ends at byte 4,000 of a buffer of 72"),
        ("bufferViews[0].byteStride=8", "accessor 0: rows of 12 bytes, but bufferView 0 has one every 8"),
        ("bufferViews[1].byteStride=4", "accessor 1: rows of 2 bytes, but bufferView 1 has one every 4"),
        ("bufferViews[0].buffer=1", "names number 1 of buffers"),
    ],
)
def test_accessors_that_lie(tmp_path: Path, change: str, words: str) -> None:
    file = one()
    place, value = change.split("=")
    name, index, key = place.replace("]", "").replace("[", ".").split(".")
    file.tree[name][int(index)][key] = json.loads(value)
    refused(file, tmp_path, words)


@pytest.mark.parametrize("name", ["POSITION", "indices"])
def test_accessors_without_data_are_no_zeros(tmp_path: Path, name: str) -> None:
    file = Glb()
    rows = {"POSITION": (file.bare(4), FACES), "indices": (TETRAHEDRON, file.bare(12, "u2", 1))}[name]
    file.node(mesh=file.mesh(*rows))
    refused(file, tmp_path, r"accessor \d has no data")


# ---- Buffers ----


@pytest.mark.parametrize("kind", ["data", "short", "not base64", "percent", "none"])
def test_embedded_buffers(tmp_path: Path, kind: str) -> None:
    file = one()
    file.write(tmp_path / "a.glb")
    packed = base64.b64encode(bytes(file.data)).decode()
    uri = {
        "data": f"data:application/octet-stream;base64,{packed}",
        "short": f"data:application/gltf-buffer;base64,{packed[:40]}",
        "not base64": "data:application/octet-stream;base64,???",
        "percent": "data:application/octet-stream,%00",
    }.get(kind)
    if uri:
        file.tree["buffers"][0]["uri"] = uri
    path = tmp_path / "a.gltf"
    path.write_text(json.dumps(file.tree))
    if kind == "data":
        vertices, faces = read_gltf(path)
        same(vertices[faces], SOLID)
    else:
        words = {"short": "72 bytes by its own account, but 30", "none": "buffer 0 has no data"}.get(
            kind, "not in base64"
        )
        with pytest.raises(InputError, match=words):
            read_gltf(path)


@pytest.mark.parametrize(
    ("asset", "words"),
    [
        ({}, "version of the asset is 'None'"),
        ({"version": "1.0"}, "'1.0'"),
        ({"version": "2.0", "minVersion": "2.1"}, "minV"),
    ],
)
def test_other_versions(tmp_path: Path, asset: dict[str, str], words: str) -> None:
    file = one()
    file.tree["asset"] = asset
    refused(file, tmp_path, words)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "[]", "1", "null", '{"asset": 1}'])
def test_json_that_is_no_gltf(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.gltf"
    path.write_text(text)
    with pytest.raises(InputError, match="not the JSON of a glTF file"):
        read_gltf(path)


def test_chunks(tmp_path: Path) -> None:
    content = bytearray(one().write(tmp_path / "a.glb").read_bytes())
    path = tmp_path / "b.glb"
    for place, value, words in ((4, b"\1", "version 1; version 2"), (16, b"JSOM", "must be its JSON")):
        changed = content.copy()
        changed[place : place + len(value)] = value
        path.write_bytes(changed)
        with pytest.raises(InputError, match=words):
            read_gltf(path)
    content += b"\4\0\0\0ABCDxxxx"  # a chunk of another kind
    content[8:12] = len(content).to_bytes(4, "little")
    path.write_bytes(content)
    same(np.concatenate([a[b] for a, b in [read_gltf(path)]]), SOLID)


# ---- Nodes ----


def test_nodes_have_matrices_or_parts_of_them(tmp_path: Path) -> None:
    file = one(translation=[1, 2, 3], rotation=[0, 0, HALF, HALF], scale=[2, 3, 4])
    turned = (SOLID * [2, 3, 4])[..., [1, 0, 2]] * [-1, 1, 1] + [1, 2, 3]
    same(read(file, tmp_path), turned)
    full = np.array([[0, -3, 0, 1], [2, 0, 0, 2], [0, 0, 4, 3], [0, 0, 0, 1]])
    same(read(one(matrix=full.T.ravel().tolist()), tmp_path), turned)


def test_nested_nodes(tmp_path: Path) -> None:
    file = Glb()
    low = file.node(False, mesh=file.mesh(), translation=[1, 0, 0])
    mid = file.node(False, children=[low], rotation=[0, 0, HALF, HALF])
    file.node(children=[mid], scale=[2, 2, 2])
    same(read(file, tmp_path), ((moved(1, 0, 0))[..., [1, 0, 2]] * [-1, 1, 1]) * 2)


@pytest.mark.parametrize("axes", [[-1, 1, 1], [-1, -1, 1], [-1, -2, -1]])
def test_mirrored_nodes_keep_their_inside(tmp_path: Path, axes: list[float]) -> None:
    a, b, c = read(one(scale=axes), tmp_path).transpose(1, 0, 2)
    assert (a * np.cross(b, c)).sum() == pytest.approx(abs(np.prod(axes)))


def test_meshes_that_are_scaled_to_nothing(tmp_path: Path) -> None:
    file = one()
    file.node(mesh=0, scale=[0, 0, 0])
    same(noted(file, tmp_path, "scaled to nothing left out: 1"), SOLID)
    file = one()
    file.node(mesh=file.mesh(), scale=[0, 0, 0])  # all copies of a mesh
    same(noted(file, tmp_path, "scaled to nothing left out: 1"), SOLID)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"rotation": [0, 0, 0, 2]}, "a quaternion of length 2, not 1"),
        ({"rotation": [0, 0, 0, 0]}, "a quaternion of length 0, not 1"),
        ({"rotation": [0, 0, 1]}, "the rotation of a node is not 4 numbers"),
        ({"translation": [0, 0, "x"]}, "the translation of a node is not 3 numbers"),
        ({"scale": [1, 1, float("nan")]}, "the scale of a node is not 3 numbers"),
        ({"matrix": [1] * 15}, "the matrix of a node is not 16 numbers"),
        ({"matrix": [1] * 16}, "does not end in 0, 0, 0, 1"),
        ({"matrix": np.eye(4).ravel().tolist(), "scale": [1, 1, 1]}, "node 0 has a matrix, and a translation"),
        ({"children": [0]}, "node 0 is a root of the scene, but below node 0|node 0 is below itself"),
        ({"children": [5]}, "names number 5 of nodes"),
        ({"mesh": 3}, "names number 3 of meshes"),
    ],
)
def test_nodes_that_are_none(tmp_path: Path, node: dict[str, Any], words: str) -> None:
    file = one()
    file.tree["nodes"][0].update(node)
    refused(file, tmp_path, words)


def test_nodes_are_trees(tmp_path: Path) -> None:
    file = one()
    for _ in range(2):
        file.node(False, children=[1 if len(file.tree["nodes"]) > 1 else 2])
    refused(file, tmp_path, "node 1 is below itself")
    file = one()
    file.tree["scenes"][0]["nodes"] = [file.node(False, children=[0]), file.node(False, children=[0])]
    refused(file, tmp_path, "node 0 is below two nodes, 1 and 2")
    file = one()
    file.node(children=[0])
    refused(file, tmp_path, "node 0 is a root of the scene, but below node 1")
    file = one()
    file.tree["scenes"][0]["nodes"] = [0, 0]
    refused(file, tmp_path, "the scene names a root twice")


def test_long_chains_of_nodes(tmp_path: Path) -> None:
    file, many = Glb(), 20_000
    file.mesh()
    file.tree["nodes"] = [{"children": [k + 1], "translation": [0, 0, 1]} for k in range(many)] + [{"mesh": 0}]
    file.tree["scenes"][0]["nodes"] = [0]
    same(read(file, tmp_path), moved(0, 0, many))


# ---- Scenes ----


def test_the_first_scene_is_read(tmp_path: Path) -> None:
    file = one()
    file.node(False, mesh=0, translation=[5, 0, 0])
    file.tree["scenes"].append({"nodes": [1]})
    same(noted(file, tmp_path, "scene 0 of 2 is read"), SOLID)
    file.tree["scene"] = 1
    same(noted(file, tmp_path, "scene 1 of 2 is read"), moved(5, 0, 0))
    del file.tree["scene"]
    same(noted(file, tmp_path, "scene 0 of 2 is read"), SOLID)
    file.tree["scene"] = 2
    refused(file, tmp_path, "names number 2 of scenes")


def test_files_without_scenes(tmp_path: Path) -> None:
    file = one(translation=[0, 0, 1])
    file.node(children=[0])
    del file.tree["scene"], file.tree["scenes"]
    same(read(file, tmp_path), moved(0, 0, 1))


def test_meshes_that_no_node_shows(tmp_path: Path) -> None:
    file = one()
    file.mesh()
    same(noted(file, tmp_path, "1 of 2 meshes are not shown in the scene"), SOLID)


def test_hidden_nodes(tmp_path: Path) -> None:
    file, hide = one().needs("KHR_node_visibility"), {"KHR_node_visibility": {"visible": False}}
    low = file.node(False, mesh=0, extensions={"KHR_node_visibility": {"visible": True}})
    file.node(mesh=0, children=[low], extensions=hide)
    same(noted(file, tmp_path, "hidden nodes .KHR_node_visibility., with all below them, left out: 1"), SOLID)


def test_levels_of_detail(tmp_path: Path) -> None:
    file = one(extensions={"MSFT_lod": {"ids": [1, 2]}}).needs("MSFT_lod", required=False)
    file.node(mesh=0, translation=[9, 0, 0])
    file.node(False, mesh=0)
    same(noted(file, tmp_path, "coarser levels of detail .MSFT_lod. left out: 1"), SOLID)


def test_animations_are_noted(tmp_path: Path) -> None:
    file = one().needs("KHR_interactivity", required=False)
    file.tree["animations"] = [{"channels": [], "samplers": []}]
    same(noted(file, tmp_path, "read at rest, without animations, KHR_interactivity"), SOLID)


# ---- Extensions ----


def test_extensions_that_are_not_known(tmp_path: Path) -> None:
    file = one().needs("KHR_texture_transform", "ACME_folded_space", required=False)
    same(noted(file, tmp_path, "read without extensions that are not known here: 'ACME_folded_space'"), SOLID)
    file.needs("KHR_texture_transform", "ACME_folded_space", "KHR_accessor_float64")
    refused(file, tmp_path, "needs extensions of glTF that are not read: 'ACME_folded_space', 'KHR_accessor_float64'$")


def test_extensions_that_leave_triangles_alone(tmp_path: Path) -> None:
    names = ["KHR_materials_variants", "KHR_texture_transform", "KHR_lights_punctual", "KHR_animation_pointer"]
    same(read(one().needs(*names, "KHR_xmp_json_ld", "EXT_structural_metadata"), tmp_path), SOLID)


@pytest.mark.parametrize("name", ["EXT_meshopt_compression", "KHR_meshopt_compression"])
def test_meshopt_is_refused_by_name(tmp_path: Path, name: str) -> None:
    file = one().needs(name, required=False)
    packed = {"buffer": 0, "byteOffset": 0, "byteLength": 8, "byteStride": 12, "mode": "ATTRIBUTES", "count": 4}
    file.tree["bufferViews"][0]["extensions"] = {name: packed}
    same(read(file, tmp_path), SOLID)  # the fallback has data
    file.needs(name)
    refused(file, tmp_path, f"bufferView 0 is compressed by {name}")
    file.needs(name, required=False)
    del file.tree["extensionsRequired"]
    file.tree["buffers"].append({"byteLength": 48, "extensions": {name: {"fallback": True}}})
    file.tree["bufferViews"][0].update(buffer=1, byteOffset=0)
    refused(file, tmp_path, f"bufferView 0 is compressed by {name}")


# ---- Instances ----


def instanced(**attributes: int) -> dict[str, Any]:
    return {"EXT_mesh_gpu_instancing": {"attributes": attributes}}


def test_instances(tmp_path: Path) -> None:
    file = Glb().needs("EXT_mesh_gpu_instancing", "KHR_mesh_quantization")
    move, scale = file.accessor([[0, 0, 0], [5, 0, 0]]), file.accessor([[1, 1, 1], [2, 2, -2]])
    turn = file.accessor([[0, 0, 0, 127], [0, 0, 90, 90]], "i1", normalized=True)
    ids = file.accessor([[0], [1]])
    mesh = file.mesh()
    file.node(mesh=mesh, scale=[3, 3, 3], extensions=instanced(TRANSLATION=move, ROTATION=turn, SCALE=scale, _ID=ids))
    second = ((SOLID * [2, 2, -2])[..., [1, 0, 2]] * [-1, 1, 1] + [5, 0, 0])[:, ::-1]
    same(read(file, tmp_path), 3 * SOLID, 3 * second)
    file.tree["nodes"][0]["extensions"] = instanced(_ID=ids)
    same(read(file, tmp_path), 3 * SOLID, 3 * SOLID)


def test_instances_that_are_none(tmp_path: Path) -> None:
    file = Glb().needs("EXT_mesh_gpu_instancing")
    move, scale = file.accessor([[0, 0, 0], [5, 0, 0]]), file.accessor([[1, 1, 1]])
    turn = file.accessor([[0, 0, 0, 1], [0, 0, 0, 0.5]])
    node = file.node(mesh=file.mesh(), extensions=instanced(TRANSLATION=move, SCALE=scale))
    refused(file, tmp_path, "EXT_mesh_gpu_instancing of different counts, 1, 2")
    for extensions, words in (
        (instanced(ROTATION=turn), "a quaternion of length 0.5"),
        (instanced(), "missing in its JSON"),
        ({"EXT_mesh_gpu_instancing": {}}, "missing in its JSON"),
    ):
        file.tree["nodes"][node]["extensions"] = extensions
        refused(file, tmp_path, words)


def test_what_a_scene_makes_is_counted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Glb().needs("EXT_mesh_gpu_instancing")
    mesh, move = file.mesh(), file.bare(9_000)
    for _ in range(2_000):
        file.node(mesh=mesh, extensions=instanced(TRANSLATION=move))
    monkeypatch.setattr(memory, "free_memory", lambda: 1 << 30)
    monkeypatch.setattr(gltf, "at", lambda *_: pytest.fail("it is made"))
    refused(file, tmp_path, "reading it takes about", OutOfMemoryError)


def test_shapes_by_weights_are_counted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Glb()
    file.mesh(targets=[{"POSITION": 0}])
    file.tree["meshes"][0]["primitives"] *= 10
    for k in range(10):
        file.node(mesh=0, weights=[k])
    monkeypatch.setattr(gltf, "MOST_SHAPES", 50)
    refused(file, tmp_path, "100 primitives by skins and weights of morph targets; at most 60 are read")


# ---- Morph targets ----


def test_morph_targets(tmp_path: Path) -> None:
    file = Glb()
    lift, spread = np.array([0, 0, 3.0]), np.random.default_rng(1).normal(size=(4, 3))
    first = file.bare(4, sparse=file.sparse([3], [lift]))
    second, still = file.accessor(spread), file.bare(4)
    third = file.accessor([[127, 0, 0]] * 4, "i1", padded=1, normalized=True)
    targets = [{"POSITION": first}, {"POSITION": second}, {"NORMAL": 0}, {"POSITION": still}, {"POSITION": third}]
    file.mesh(targets=targets)
    base = TETRAHEDRON.astype(float)
    file.node(mesh=0)
    same(read(file, tmp_path), SOLID)  # all weights are 0
    file.tree["meshes"][0]["weights"] = [1, 0, 0, 1, 0]
    lifted = base.copy()
    lifted[3] += lift
    same(read(file, tmp_path), lifted[FACES])
    file.node(mesh=0, weights=[0, 0.5, 1, 1, 2])
    same(read(file, tmp_path), lifted[FACES], (base + 0.5 * spread + [2, 0, 0])[FACES])
    file.tree["nodes"][1]["weights"] = [1]
    refused(file, tmp_path, "1 weights for 5 morph targets")


def test_morph_targets_of_another_size(tmp_path: Path) -> None:
    file = Glb()
    file.node(mesh=file.mesh(targets=[{"POSITION": file.accessor(TETRAHEDRON[:3])}]), weights=[1])
    refused(file, tmp_path, "a morph target of 3 vertices, not 4")


def test_many_morph_targets(tmp_path: Path) -> None:
    file = Glb()
    file.node(mesh=file.mesh(targets=[{"POSITION": 0}] * 300), weights=[1] * 300)
    refused(file, tmp_path, "300 morph targets with a weight; at most 256 are read")


# ---- Skins ----


def skinned(joints: Any, weights: Any, dtype: str = "f4", **node: Any) -> Glb:
    """A tetrahedron whose vertices hang on two joints: one where it stands, one that is twice as large, at x = 10."""
    file = Glb()
    named = {}
    for k in range(0, np.shape(joints)[1], 4):
        named[f"JOINTS_{k // 4}"] = file.accessor(np.array(joints)[:, k : k + 4], "u1")
        kind = {"normalized": True} if dtype != "f4" else {}
        named[f"WEIGHTS_{k // 4}"] = file.accessor(np.array(weights)[:, k : k + 4], dtype, **kind)
    bound = np.stack([np.eye(4), np.eye(4)])
    bound[1, :3, 3] = 0, 0, 1
    file.tree["skins"] = [
        {"joints": [1, 2], "inverseBindMatrices": file.accessor(bound.transpose(0, 2, 1).reshape(2, 16))}
    ]
    file.node(mesh=file.mesh(attributes=named), skin=0, **node)
    file.node(children=[2])
    file.node(False, translation=[10, 0, 0], scale=[2, 2, 2])
    return file


RIGID = [[0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]]
SHARES = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.2, 0.8, 0, 0]]


def by_hand(joints: Any, weights: Any) -> Floats:
    placed = np.stack([TETRAHEDRON, 2 * np.add(TETRAHEDRON, [0, 0, 1]) + [10, 0, 0]])
    found = np.zeros((4, 3))
    for vertex in range(4):
        for joint, weight in zip(joints[vertex], weights[vertex], strict=True):
            found[vertex] += weight * placed[joint, vertex]
    return found[FACES]


def test_skins(tmp_path: Path) -> None:
    same(read(skinned(RIGID, SHARES), tmp_path), by_hand(RIGID, SHARES))
    # The transform of a node that has a skin does not count.
    same(read(skinned(RIGID, SHARES, translation=[7, 7, 7], scale=[-1, 1, 1]), tmp_path), by_hand(RIGID, SHARES))


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_weights_in_integers(tmp_path: Path, dtype: str) -> None:
    most = MOST[dtype]
    weights = np.array([[most, 0, 0, 0], [most - 50, 50, 0, 0], [most, 0, 0, 0], [55, most - 55, 0, 0]])
    same(read(skinned(RIGID, weights, dtype), tmp_path), by_hand(RIGID, weights / most))


def test_more_than_four_joints(tmp_path: Path) -> None:
    joints, weights = np.tile([0, 1], (4, 4)), np.random.default_rng(3).dirichlet(np.ones(8), 4)
    same(read(skinned(joints, weights), tmp_path), by_hand(joints, weights))


def test_skins_without_matrices_and_mirrored_ones(tmp_path: Path) -> None:
    file = skinned([[0, 0, 0, 0]] * 4, [[1, 0, 0, 0]] * 4)
    del file.tree["skins"][0]["inverseBindMatrices"]
    file.tree["nodes"][1]["scale"] = [-1, 1, 1]
    same(read(file, tmp_path), (SOLID * [-1, 1, 1])[:, ::-1])


def test_morphed_skins(tmp_path: Path) -> None:
    file = skinned(RIGID, SHARES)
    still = [[0, 0, 0, 0]] * 4
    file.tree["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": file.accessor(np.ones((4, 3)))}]
    file.tree["nodes"][0]["weights"] = [0.5]
    lone = skinned(still, [[1, 0, 0, 0]] * 4)
    lone.tree["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": lone.accessor(np.ones((4, 3)))}]
    lone.tree["nodes"][0]["weights"] = [0.5]
    same(read(lone, tmp_path), SOLID + 0.5)
    ratio = 1 + np.array(SHARES)[:, 1] * (np.array(RIGID)[:, 1] == 1) + (np.array(RIGID)[:, 0] == 1)
    same(read(file, tmp_path), by_hand(RIGID, SHARES) + (0.5 * ratio)[FACES][..., None])


@pytest.mark.parametrize(
    ("joints", "weights", "words"),
    [
        ([[2, 0, 0, 0]] * 4, [[1, 0, 0, 0]] * 4, "names joint 2 of a skin with 2"),
        ([[0, 0, 0, 0]] * 4, [[0, 0, 0, 0]] * 4, "weights of a skinned vertex add up to 0, not 1"),
        ([[0, 0, 0, 0]] * 4, [[2, 0, 0, 0]] * 4, "weights of a skinned vertex add up to 2, not 1"),
        ([[0, 0, 0, 0]] * 3, [[1, 0, 0, 0]] * 3, "joints of 3 vertices, not 4"),
    ],
)
def test_skins_that_are_none(tmp_path: Path, joints: Any, weights: Any, words: str) -> None:
    refused(skinned(joints, weights), tmp_path, words)


def test_skins_that_lack_something(tmp_path: Path) -> None:
    file = skinned(RIGID, SHARES)
    whole = copy.deepcopy(file.tree)
    for change, words in (
        (lambda tree: tree["meshes"][0]["primitives"][0]["attributes"].pop("JOINTS_0"), "with 0 sets of joints"),
        (
            lambda tree: tree["meshes"][0]["primitives"][0]["attributes"].pop("WEIGHTS_0"),
            "names number None of accessors",
        ),
        (lambda tree: tree["skins"][0]["joints"].append(9), "names number 9 of nodes"),
        (lambda tree: tree["skins"][0]["joints"].append(1), "skin 0: 2 matrices for 3 joints"),
        (lambda tree: tree["nodes"][0].update(skin=1), "names number 1 of skins"),
        (lambda tree: tree["nodes"][0].update(extensions=instanced(TRANSLATION=0)), "has a skin and EXT_mesh_gpu_inst"),
    ):
        file.tree = copy.deepcopy(whole)
        change(file.tree)
        refused(file, tmp_path, words)


# ---- Draco ----

DRACO = "KHR_draco_mesh_compression"


def packed(faces: Any = FACES, mode: int = 4, **stated: int) -> Glb:
    library = pytest.importorskip("DracoPy")
    data = library.encode(TETRAHEDRON.astype(np.float32), np.asarray(faces, np.uint32), quantization_bits=14)
    file = Glb().needs(DRACO)
    unique = library.decode(data).attributes[0]["unique_id"]
    extension = {DRACO: {"bufferView": file.view(data), "attributes": {"POSITION": unique}}}
    points, corner = file.bare(stated.get("vertices", 4)), file.bare(stated.get("corners", 12), "u2", 1)
    file.node(mesh=file.mesh(points, corner, extensions=extension, mode=mode), translation=[3, 0, 0])
    file.node(mesh=0)
    return file


def test_draco(tmp_path: Path) -> None:
    vertices, faces = read_gltf(packed().write(tmp_path / "a.glb"))
    expected = np.concatenate([ordered(SOLID), ordered(moved(3, 0, 0))])
    found = ordered(vertices[faces].round(3))
    np.testing.assert_allclose(found, expected[np.lexsort(expected.T[::-1])], atol=2e-3)


def test_notes_of_draco_are_told(tmp_path: Path) -> None:
    file = packed()
    file.node(mesh=file.mesh(mode=1))
    assert len(noted(file, tmp_path, "primitives of points or lines left out: 1")) == 8


def test_draco_is_not_needed_where_there_is_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = one().needs(DRACO, required=False)
    extension = {"bufferView": file.view(b"nothing"), "attributes": {"POSITION": 0}}
    file.tree["meshes"][0]["primitives"][0]["extensions"] = {DRACO: extension}
    monkeypatch.setattr(apart, "LIBRARIES", dict.fromkeys(apart.LIBRARIES, "no_such_library"))
    same(read(file, tmp_path), SOLID)
    file.needs(DRACO)
    refused(file, tmp_path, r"KHR_draco_mesh_compression.*pip install 'sdfcli\[draco\]'", DeviceError)


def test_draco_that_lies(tmp_path: Path) -> None:
    refused(packed(corners=15), tmp_path, f"{DRACO}: 12 corners are decoded, but the file states 15")
    refused(packed(vertices=5), tmp_path, r"accessor 0: 5 rows of 3 by its own account, but decoded are \(4, 3\)")
    file = packed()
    file.data[0:5] = b"OCARD"
    refused(file, tmp_path, f"{DRACO}: ")
    file = packed()
    file.tree["meshes"][0]["primitives"][0]["extensions"][DRACO]["attributes"] = {"POSITION": 77}
    refused(file, tmp_path, f"{DRACO}: ")
    file.tree["meshes"][0]["primitives"][0]["extensions"][DRACO]["attributes"] = {}
    refused(file, tmp_path, "accessor 0 has no data")


# ---- Against VTK, and any damage ----


def by_vtk(path: Path) -> Floats:
    """The triangles (f, 3, 3) that VTK's reader finds."""
    vtk = pytest.importorskip("vtk")
    to_numpy = pytest.importorskip("vtk.util.numpy_support").vtk_to_numpy
    reader = vtk.vtkGLTFReader()
    reader.SetFileName(str(path))
    reader.Update()
    parts = [np.empty((0, 3, 3))]
    each = reader.GetOutput().NewIterator()
    each.InitTraversal()
    while not each.IsDoneWithTraversal():
        flat = vtk.vtkTriangleFilter()  # of strips, too
        flat.SetInputData(each.GetCurrentDataObject())
        flat.Update()
        found = flat.GetOutput()
        if found.GetNumberOfPolys():
            points = to_numpy(found.GetPoints().GetData())
            parts.append(points[to_numpy(found.GetPolys().GetConnectivityArray()).reshape(-1, 3)])
        each.GoToNextItem()
    return np.concatenate(parts)


def quaternion(rng: np.random.Generator) -> list[float]:
    found = rng.normal(size=4)
    return list(found / np.linalg.norm(found))


def random_scene(rng: np.random.Generator) -> Glb:
    """A scene of meshes of all kinds of primitives, on nested nodes."""
    file = Glb()
    for _ in range(rng.integers(1, 4)):
        count, mode = int(rng.integers(4, 12)), int(rng.choice([4, 5, 6]))
        points = rng.normal(size=(count, 3))
        entry: dict[str, Any] = {}
        if rng.random() < 0.4:
            places = np.sort(rng.choice(count, 2, replace=False)).tolist()
            entry["sparse"] = file.sparse(places, rng.normal(size=(2, 3)), index=str(rng.choice(["u1", "u2", "u4"])))
        position = file.accessor(points, padded=int(rng.choice([0, 4, 12])), **entry)
        corner = np.array([rng.permutation(count)[:3] for _ in range(5)]) if mode == 4 else rng.permutation(count)
        more: dict[str, Any] = {}
        if rng.random() < 0.4:
            more["targets"] = [{"POSITION": file.accessor(rng.normal(size=(count, 3)))} for _ in range(2)]
        mesh = file.mesh(position, corner, str(rng.choice(["u1", "u2", "u4"])), mode=mode, **more)
        if more:
            file.tree["meshes"][mesh]["weights"] = rng.normal(size=2).tolist()
    for _ in range(rng.integers(1, 8)):
        parts = {
            "translation": rng.normal(size=3).tolist(),
            "rotation": quaternion(rng),
            "scale": rng.uniform(0.5, 2, 3).tolist(),
        }
        node: dict[str, Any] = {name: value for name, value in parts.items() if rng.random() < 0.6}
        if not node:
            matrix = np.eye(4)
            matrix[:3, :3], matrix[:3, 3] = shapes.turn(rng) * rng.uniform(0.5, 2, 3), rng.normal(size=3)
            node = {"matrix": matrix.T.ravel().tolist()}
        if rng.random() < 0.8:
            node["mesh"] = int(rng.integers(len(file.tree["meshes"])))
        roots = file.tree["scenes"][0]["nodes"]
        if roots and rng.random() < 0.5:
            node["children"] = [roots.pop(int(rng.integers(len(roots))))]
        file.node(**node)
    return file


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_scenes_are_those_of_vtk(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = random_scene(np.random.default_rng(seed)).write(Path(folder, "a.glb"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vertices, faces = read_gltf(path)
        found, expected = vertices[faces], by_vtk(path)
    alike(found, expected)


def alike(triangles: Floats, others: Floats) -> None:
    """Asserts that two lists of triangles, in any order, are those of one surface: along some directions, sorted
    positions and normals agree."""
    for corner in np.random.default_rng(0).normal(size=(3, 3)):
        for mine, other in zip(along(triangles, corner), along(others, corner), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4 * (1 + np.abs(triangles).max(initial=0) ** 2))


def along(triangles: Floats, axis: Floats) -> tuple[Floats, Floats, Floats]:
    a, b, c = triangles.astype(np.float64).transpose(1, 0, 2)
    return tuple(np.sort(each @ axis) for each in (a + b + c, np.cross(b - a, c - a), np.concatenate([a, b, c])))


@pytest.mark.parametrize("seed", range(5))
def test_skins_are_those_of_vtk(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    file = skinned(rng.integers(0, 2, (4, 4)), rng.dirichlet(np.ones(4), 4), translation=[3, 4, 5])
    file.tree["nodes"][1]["rotation"], file.tree["nodes"][2]["rotation"] = quaternion(rng), quaternion(rng)
    found = read(file, tmp_path)
    alike(found, by_vtk(tmp_path / "a.glb"))


VALUES = [None, True, -1, 0, 1, 3, 2.5, 1e300, 2**40, 10**400, "", "x", [], [0], {}, {"a": 0}, [[1]], [None]]


def places_of(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, value in entries for found in [(*path, key), *places_of(value, (*path, key))]]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_damage_ends_in_a_line(data: st.DataObject) -> None:
    file = (
        skinned(RIGID, SHARES)
        if data.draw(st.booleans())
        else random_scene(np.random.default_rng(data.draw(st.integers(0, 50))))
    )
    file.tree["nodes"].append({"mesh": 0, "extensions": instanced(TRANSLATION=0)})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.write(Path(folder, "a.glb"))
        place = data.draw(st.sampled_from(places_of(file.tree)))
        entry = file.tree
        for key in place[:-1]:
            entry = entry[key]
        entry[place[-1]] = data.draw(st.sampled_from(VALUES))
        path = Path(folder, "a.gltf")
        if (
            isinstance(file.tree["buffers"], list)
            and file.tree["buffers"]
            and isinstance(file.tree["buffers"][0], dict)
        ):
            packed_ = base64.b64encode(bytes(file.data)).decode()
            file.tree["buffers"][0].setdefault("uri", f"data:application/octet-stream;base64,{packed_}")
        path.write_text(json.dumps(file.tree))
        with contextlib.suppress(SdfError):
            vertices, faces = read_gltf(path)
            assert not len(faces) or int(faces.max()) < len(vertices)
