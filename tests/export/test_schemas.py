"""Samples in the schemas of generators: what their loaders read, exact labels with the stated sign, and outer edges."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import trimesh

import oracle
import sdfcli
import shapes
from commands import reports, run
from sdfcli.errors import InputError, UsageError
from sdfcli.export.outer_edges import OuterEdges, Outside
from sdfcli.export.schemas import SCHEMAS
from sdfcli.mesh.sharp_edges import wedges
from sdfcli.params import SAMPLES

Floats = npt.NDArray[np.float64]
CPU = ["--device", "cpu"]
STAR = shapes.star(np.random.default_rng(5), 2)
WALL = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)


def rng_of_today() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(4), "big"))


def soup_of(rng: np.random.Generator, shape: shapes.Shape, copies: int = 2) -> shapes.Shape:
    """Unshared triangles, each `copies` times, in random order and orientation."""
    corners = rng.permutation(np.repeat(shapes.triangles(shape), copies, axis=0))
    turned = rng.random(len(corners)) < 0.5
    corners[turned] = corners[turned][:, ::-1]
    return corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)


def walled_cube() -> shapes.Shape:
    """A cube with a box, a wall across that meets its sides between their vertices, and one along diagonals."""
    across = np.column_stack((WALL, np.zeros(4))), np.array([[0, 1, 2], [0, 2, 3]])
    diagonal = WALL[:, [0, 0, 1]], np.array([[0, 1, 2], [0, 2, 3]])
    return shapes.joined(shapes.cube(), shapes.moved(shapes.cube(), 0.6), across, diagonal)


def arrays_of(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as read:
        return {name: read[name] for name in read}


def pairs(arrays: dict[str, Any]) -> list[tuple[Floats, Floats]]:
    """Points and labels in a file of any schema."""
    names = [name.removesuffix("_label") for name in arrays if name.endswith("_label")]
    found = [(arrays[f"{name}_points"], arrays[f"{name}_label"]) for name in names]
    rows = [arrays[name] for name in ("rand_points", "sharp_near_surface") if name in arrays]
    found += [(each[:, :3], each[:, 3]) for each in rows]
    return [(points.astype(float), label.astype(float)) for points, label in found]


@pytest.mark.parametrize("schema", ["hunyuan", "dora"])
def test_labels_are_exact_at_the_stored_points(schema: str, tmp_path: Path) -> None:
    """Positive inside, to the precision of the file; for points rounded to half precision, too."""
    rng = rng_of_today()
    shape = shapes.moved(shapes.star(rng, 2), 300.0, rng.normal(size=3) * 1e4, shapes.turn(rng))
    found = sdfcli.samples(shape, schema=schema, count=3000, device="cpu", seed=int(rng.integers(1000)))
    arrays = arrays_of(found.save(tmp_path / "s.npz"))
    size, corners = 1 / found.scale, shapes.triangles(shape)
    facts = json.loads(str(arrays["info"]))["facts"]
    assert facts["label"] == "positive inside"
    total = 0
    for points, label in pairs(arrays):
        at = points * size - found.offset
        inside = oracle.winding(at, corners) > 0.5
        distance = np.where(inside, 1, -1) * oracle.distance(at, corners) / size
        precision = 1e-3 if schema == "hunyuan" else 2e-6
        assert np.abs(label - distance).max() < precision * max(1.0, np.abs(distance).max())
        sure = np.abs(distance) > 1e-5
        assert (np.sign(label[sure]) == np.sign(distance[sure])).all()
        total += len(label)
    assert total == facts["pos"] + facts["neg"]
    labels = np.concatenate([label for _, label in pairs(arrays)])
    assert (labels > 0).sum() <= facts["neg"] <= (labels >= 0).sum()  # the smallest become 0 in half precision


@pytest.mark.parametrize("schema", ["hunyuan", "dora", "triposg"])
def test_the_box(schema: str) -> None:
    """The longest side, centred, as the loader's program has it; uniform samples in the cube around it."""
    half = {"hunyuan": 0.9999, "dora": 1.0, "triposg": 1.0}[schema]
    shape = shapes.moved(shapes.box([0, 0, 0], [1, 2, 5]), 7.0, [100, 0, -50])
    found = sdfcli.samples(shape, schema=schema, count=4000, device="cpu")
    placed = (shape[0] + found.offset) * found.scale
    assert placed.min(axis=0) == pytest.approx(half * np.array([-0.2, -0.4, -1]))
    assert placed.max(axis=0) == pytest.approx(half * np.array([0.2, 0.4, 1]))
    assert np.abs(found.surface).max(axis=0) == pytest.approx(half * np.array([0.2, 0.4, 1]), abs=0.01)
    if SCHEMAS[schema].counts.uniform:
        uniform = found.around[2][0]
        assert 1.0 < np.abs(uniform).max() <= 1.0505
        for axis in range(3):
            counts = np.histogram(uniform[:, axis], 4, (-1.05, 1.05))[0]
            assert counts == pytest.approx(len(uniform) / 4, abs=5 * math.sqrt(len(uniform)))


def test_what_hunyuan_reads(tmp_path: Path) -> None:
    mesh = tmp_path / "star.ply"
    trimesh.Trimesh(*STAR, process=False).export(mesh)
    out = tmp_path / "{name}" / "geo_data" / "{name}_surface.npz"
    done = run("samples", mesh, "-o", out, "--schema", "hunyuan", "--json", *CPU)
    (told,) = reports("samples", done.stdout)
    read = np.load(tmp_path / "star" / "geo_data" / "star_surface.npz")
    for name in ("random_surface", "sharp_surface"):
        assert read[name].shape == (124_928, 6)
        assert read[name].dtype == np.float16
        assert np.linalg.norm(read[name][:, 3:].astype(float), axis=1) == pytest.approx(1, abs=2e-3)
    for name, count in (("vol", 249_856), ("random_near", 249_856), ("sharp_near", 124_928)):
        assert read[f"{name}_points"].shape == (count, 3)
        assert read[f"{name}_label"].shape == (count,)
        assert read[f"{name}_points"].dtype == read[f"{name}_label"].dtype == np.float16
    assert (told["schema"], told["label"], told["sharp"]) == ("hunyuan", "positive inside", 124_928)
    assert told["pos"] + told["neg"] + told["surface"] + told["sharp"] == SAMPLES["hunyuan"]


def test_what_dora_reads(tmp_path: Path) -> None:
    """Its loader takes samples near the surface from the first 400,000 rows, and uniform ones from the others."""
    read = arrays_of(sdfcli.samples(STAR, schema="dora", device="cpu").save(tmp_path / "s.npz"))
    assert read["fps_coarse_surface"].shape == read["fps_sharp_surface"].shape == (32_768, 1, 6)
    assert read["sharp_near_surface"].shape == (131_072, 4)
    assert read["rand_points"].shape == (600_000, 4)
    assert all(array.dtype == np.float32 for name, array in read.items() if name not in ("info", "offset", "scale"))
    label = np.abs(read["rand_points"][:, 3])
    for part, sigma in ((label[:200_000], 0.001), (label[200_000:400_000], 0.005)):
        assert np.mean(part < 2 * sigma) > 0.9
        assert part.mean() == pytest.approx(sigma * math.sqrt(2 / math.pi), rel=0.1)
    assert np.mean(label[400_000:]) > 0.1


def test_what_triposg_reads(tmp_path: Path) -> None:
    """Its loader reads a pickled dictionary, which the guide makes of the file."""
    found = sdfcli.samples(STAR, schema="triposg", device="cpu")
    assert "label" not in found.facts
    np.save(tmp_path / "s.npy", dict(np.load(found.save(tmp_path / "s.npz"))))  # type: ignore[arg-type]
    data = np.load(tmp_path / "s.npy", allow_pickle=True).tolist()
    assert len(data["surface_points"]) >= 204_800
    assert data["surface_points"].shape == data["surface_normals"].shape
    at = data["surface_points"][:500].astype(float) / found.scale - found.offset
    assert oracle.distance(at, shapes.triangles(STAR)).max() < 1e-6


@pytest.mark.parametrize("sign", ["auto", "flood"])
def test_points_on_the_edges_of_a_cube(sign: str) -> None:
    """Uniform by length, with the mean of both sides' normals; on the solid's surface, which rounds them."""
    rng = rng_of_today()
    turn, scale = shapes.turn(rng), 10.0 ** rng.uniform(-6, 6)
    shape = shapes.moved(soup_of(rng, walled_cube()) if sign == "flood" else shapes.cube(), scale, [0, 0, 0], turn)
    found = sdfcli.samples(shape, schema="dora", count=50_000, sign=sign, device="cpu")
    assert found.facts["sharp_edges"] == 12
    at = (found.sharp.astype(float) / found.scale - found.offset) @ turn / scale
    way = found.sharp_normals.astype(float) @ turn
    off = found.facts["solid"]["thickness"] / scale if sign == "flood" else 1e-5
    assert np.abs(np.sort(np.abs(at), axis=1)[:, 1:] - 1).max() < off
    assert np.sort(np.abs(way), axis=1) == pytest.approx(np.tile([0, 0.5**0.5, 0.5**0.5], (len(way), 1)), abs=1e-5)
    assert (np.sum(at * way, axis=1) > 1.3).all()
    along = np.argmin(np.abs(way), axis=1)
    edge = 4 * along + (at[np.arange(len(at)), along - 1] > 0) + 2 * (at[np.arange(len(at)), along - 2] > 0)
    assert np.bincount(edge, minlength=12) == pytest.approx(len(at) / 12, abs=6 * math.sqrt(len(at) / 12))
    place = np.take_along_axis(at, along[:, None], axis=1)
    assert np.histogram(place, 8, (-1, 1))[0] == pytest.approx(len(at) / 8, abs=6 * math.sqrt(len(at) / 8))
    if sign == "flood":
        assert found.facts["solid"]["volume"] / scale**3 == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize("sign", ["auto", "flood"])
def test_hidden_edges_have_no_samples(sign: str) -> None:
    """Of two boxes that overlap, where they overlap; of a corner turned inwards, none."""
    other = np.array([0.7, 0.6, 0.5])
    two = shapes.joined(shapes.cube(), shapes.moved(shapes.cube(), 1.0, other))
    found = sdfcli.samples(two, schema="dora", count=20_000, sign=sign, device="cpu")
    at = found.sharp.astype(float) / found.scale - found.offset
    for center in (np.zeros(3), other):
        assert not (np.abs(at - center) < 0.97).all(axis=1).any()
    longest = np.abs(at).max(axis=1)
    assert ((longest > 0.97) & (longest < 1.03)).mean() > 0.3
    assert found.facts["sharp_edges"] == 24  # those that are partly hidden, too


def test_edges_of_random_shapes_that_overlap() -> None:
    """The seen length is the length of the wedges with an open middle, by winding numbers; no sample's normal leads
    inside."""
    rng = rng_of_today()
    shape = shapes.overlapping(rng, 1)
    corners, index = shapes.triangles(shape), sdfcli.MeshDistance(shape, device="cpu")
    found = wedges(index.mesh, 15.0)
    length = np.linalg.norm(found.end - found.start, axis=1)
    share = rng.random((len(length), 20, 1))
    points = found.start[:, None] * (1 - share) + found.end[:, None] * share
    tests = (points + 1e-4 * found.way[:, None]).reshape(-1, 3)
    is_open = (oracle.winding(tests, corners) < 0.5).reshape(-1, 20).mean(axis=1)
    edges = OuterEdges.of(index.mesh, 15.0, Outside.of_mesh(index))
    seen = np.linalg.norm(edges.pieces.end - edges.pieces.start, axis=1).sum()
    assert 0.1 < is_open.mean() < 0.5
    assert seen == pytest.approx((length * is_open).sum(), rel=0.02)
    drawn = sdfcli.samples(index, schema="dora", count=20_000)
    at = drawn.sharp.astype(float) / drawn.scale - drawn.offset + 1e-4 * drawn.sharp_normals
    assert np.mean(oracle.winding(at, corners) > 0.5) < 0.02  # but for the ends of partly hidden pieces


@pytest.mark.parametrize("sign", ["auto", "flood"])
def test_concave_edges(sign: str) -> None:
    """A step: the inner corner is an edge like the outer ones."""
    low, high = shapes.triangles(shapes.box([0, 0, 0], [2, 1, 1])), shapes.triangles(shapes.box([0, 1, 0], [1, 2, 1]))
    sides = np.concatenate((low, high))
    shared = (sides[:, :, 1] == 1).all(axis=1) & (sides[:, :, 0] <= 1).all(axis=1)
    top = np.array([[[1, 1, 0], [2, 1, 1], [2, 1, 0]], [[1, 1, 0], [1, 1, 1], [2, 1, 1]]], float)
    kept = sides[~(shared | (sides[:, :, 1] == 1).all(axis=1))]
    corners = np.concatenate((kept, top))
    step = corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3)
    found = sdfcli.samples(step, schema="dora", count=30_000, sign=sign, device="cpu")
    at = found.sharp.astype(float) / found.scale - found.offset
    near = (np.linalg.norm(at[:, :2] - 1, axis=1) < 0.02) & (np.abs(at[:, 2] - 0.5) < 0.4)
    assert near.sum() == pytest.approx(0.8 * len(at) / 22, rel=0.35)  # of a total length of 22
    assert found.sharp_normals[near] == pytest.approx(np.tile([0.5**0.5, 0.5**0.5, 0], (near.sum(), 1)), abs=1e-5)


def test_a_shape_without_sharp_edges(tmp_path: Path) -> None:
    """A ball has no arrays of them, but the others."""
    found = sdfcli.samples(shapes.icosphere(4), schema="hunyuan", count=5000, device="cpu")
    assert (found.facts["sharp"], found.facts["sharp_edges"]) == (0, 0)
    arrays = arrays_of(found.save(tmp_path / "s.npz"))
    assert arrays["sharp_surface"].shape == (0, 6)
    assert arrays["sharp_near_points"].shape == (0, 3)
    assert len(arrays["vol_points"]) > 1000
    sharper = sdfcli.samples(shapes.icosphere(4), schema="hunyuan", count=5000, angle=1, device="cpu")
    assert sharper.facts["sharp_edges"] > 1000


def test_soups_from_the_command_line(tmp_path: Path) -> None:
    """One command, from a folder of soups to samples; Python's bytes, and skipped when they are there."""
    mesh = tmp_path / "soups" / "a.stl"
    mesh.parent.mkdir()
    trimesh.Trimesh(*soup_of(rng_of_today(), shapes.tetrahedron()), process=False).export(mesh)
    words = ["--schema", "hunyuan", "--sign", "flood", "--count", 4000, "--json", *CPU]
    (told,) = reports("samples", run("samples", mesh.parent, "-o", tmp_path / "train", *words).stdout)
    assert (told["sharp_edges"], told["solid"]["leak"], told["label"]) == (6, None, "positive inside")
    found = sdfcli.samples(mesh, schema="hunyuan", sign="flood", count=4000, device="cpu", threads=1)
    assert found.save(tmp_path / "a.npz").read_bytes() == (tmp_path / "train" / "a.npz").read_bytes()
    again = run("samples", mesh.parent, "-o", tmp_path / "train", "--skip-existing", *words)
    assert [each["status"] for each in reports("samples", again.stdout)] == ["skipped"]
    other = run("samples", mesh, "-o", tmp_path / "a.npz", "--skip-existing", *words, "--gap", 0.03)
    assert other.returncode == UsageError.exit_code
    assert "gap 0.005, asked for 0.03" in other.stderr


def test_a_flooded_sheet_has_an_inside() -> None:
    sheet = shapes.sheet(np.random.default_rng(4), 4)
    with pytest.raises(InputError, match="no signs"):
        sdfcli.samples(sheet, schema="hunyuan", count=10, device="cpu")
    assert sdfcli.samples(sheet, schema="dora", count=5000, sign="flood", device="cpu").facts["neg"] > 0
    assert sdfcli.samples(sheet, count=5000, sign="flood", device="cpu").inside.any()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"schema": "nerf"}, "--schema nerf: use deepsdf, hunyuan, dora, triposg"),
        ({"schema": "hunyuan", "sigma": 0.1}, "--sigma: is for --schema deepsdf; hunyuan has its own"),
        ({"schema": "dora", "normalized": True}, "--normalized: is for --schema deepsdf"),
        ({"angle": 30}, "--angle 30: is for --schema hunyuan and dora"),
        ({"schema": "triposg", "angle": 30}, "--angle 30: is for"),
        ({"schema": "dora", "angle": 0.5}, "--angle 0.5: use degrees"),
        ({"schema": "dora", "angle": "x"}, "--angle x: use degrees"),
        ({"gap": 0.01}, "--gap 0.01: is for solids; add --sign flood"),
        ({"sign": "flood", "gap": 3}, "--gap 3: use a fraction"),
    ],
)
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        sdfcli.samples(shapes.cube(), device="cpu", **options)


def test_counts_in_proportion() -> None:
    for schema in ("hunyuan", "dora", "triposg"):
        for count in (1, 10, 999, 50_000):
            found = SCHEMAS[schema].counts.scaled(count)
            assert abs(sum(found) - count) <= 3
            assert found.surface == pytest.approx(SCHEMAS[schema].counts.surface * count / SAMPLES[schema], abs=0.5)
        assert sum(SCHEMAS[schema].counts) == SAMPLES[schema]
