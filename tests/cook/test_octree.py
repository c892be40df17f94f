"""Octrees of fields, their `.oct` files, and the plugin's C++ that reads them: no MuJoCo needed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import sdfcli
import shapes
from conftest import ROOT
from sdfcli.errors import InputError, UsageError
from sdfcli.mujoco.oct_file import HEADER, predicted_size, read_oct, write_oct
from sdfcli.mujoco.octree import Arrays, Octree

PLUGIN = ROOT / "sdfcli" / "mujoco" / "plugin"
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
seeds = st.integers(0, 2**32 - 1)


def random_field(rng: np.random.Generator, splits: int, *place: npt.ArrayLike, deep: bool = False) -> sdfcli.Field:
    """A random field that has an inside: its first value is negative."""
    field = oracle.random_field(rng, splits, *place, deep=deep)
    return dataclasses.replace(field, distance=np.append(-np.abs(field.distance[:1]), field.distance[1:]))


def walked(arrays: Arrays, point: np.ndarray) -> float:
    """The distance at a point of the domain, by MuJoCo's rule: compare with centres, then the corners' coefficients."""
    node = 0
    while arrays.child[node, 0] >= 0:
        upper = point >= arrays.aabb[node, :3]
        node = arrays.child[node, 4 * upper[2] + 2 * upper[1] + upper[0]]
    low, edge = arrays.aabb[node, :3] - arrays.aabb[node, 3:], 2 * arrays.aabb[node, 3:]
    at = (point - low) / edge
    weights = [np.prod([at[k] if c >> k & 1 else 1 - at[k] for k in range(3)]) for c in range(8)]
    return float(np.dot(weights, arrays.coeff[node]))


@settings(max_examples=25, deadline=None)
@given(seed=seeds, splits=st.integers(0, 60), deep=st.booleans())
def test_mujoco_s_rule_gives_the_field(seed: int, splits: int, deep: bool) -> None:
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-6, 6)
    field = random_field(rng, splits, rng.normal(size=3) * size, size, deep=deep)
    octree = Octree.of(field)
    arrays = octree.arrays()
    points = field.domain.origin + size * rng.random((50, 3))
    wanted = oracle.Trilinear(field)(points)[0]
    close = {"rtol": 0, "atol": 1e-9 * float(np.abs(field.distance).max())}
    np.testing.assert_allclose([walked(arrays, each) for each in points], wanted, **close)
    outside = field.domain.origin + size * rng.uniform(-1, 2, (50, 3))
    wanted = oracle.Trilinear(field)(outside)[0]
    np.testing.assert_allclose(octree.sample(outside), wanted, rtol=1e-9, atol=close["atol"])


@settings(max_examples=25, deadline=None)
@given(seed=seeds, splits=st.integers(0, 60))
def test_nodes_are_a_tree(seed: int, splits: int) -> None:
    """Each node but the root is the child of one before it, in its octant."""
    child, aabb, coeff, depth = Octree.of(random_field(np.random.default_rng(seed), splits)).arrays()
    assert len(child) == 8 * splits + 1
    inner = child[:, 0] >= 0
    assert sorted(child[inner].reshape(-1)) == list(range(1, len(child)))
    assert (child[~inner] == -1).all()
    assert not coeff[inner].any()
    for node in np.flatnonzero(inner):
        for octant, each in enumerate(child[node]):
            assert each > node
            assert depth[each] == depth[node] + 1
            side = np.array([octant & 1, octant >> 1 & 1, octant >> 2]) * 2 - 1
            np.testing.assert_array_equal(aabb[each, 3:], aabb[node, 3:] / 2)
            np.testing.assert_allclose(aabb[each, :3], aabb[node, :3] + side * aabb[node, 3:] / 2, atol=1e-12)


def test_a_field_without_an_inside() -> None:
    field = sdfcli.build(ROOT / "sample_meshes" / "bunny.ply", sign="none", depth=4)
    with pytest.raises(InputError, match="has no inside"):
        Octree.of(field)


@pytest.mark.parametrize("splits", [0, 1, 30])
def test_files_hold_all(tmp_path: Path, splits: int) -> None:
    octree = Octree.of(random_field(np.random.default_rng(int.from_bytes(os.urandom(8))), splits, 3.0, 2.0))
    path = tmp_path / "a.oct"
    write_oct(path, octree)
    assert path.stat().st_size == predicted_size(len(octree.value))
    found = read_oct(path)
    for name in ("origin", "length", "split", "value", "box"):
        np.testing.assert_array_equal(getattr(found, name), getattr(octree, name))
    with pytest.raises(UsageError, match="exists"):
        write_oct(path, octree)


def test_the_box_holds_the_solid() -> None:
    rng = np.random.default_rng(int.from_bytes(os.urandom(8)))
    field = random_field(rng, 20)
    octree = Octree.of(field)
    low, high = octree.box
    points = rng.random((20_000, 3))
    solid = points[field.sample(points) <= 0]
    assert len(solid)
    assert ((solid >= low) & (solid <= high)).all()
    low = 0.1 + 0.4 * rng.random(3)
    high = low + rng.uniform(0.1, 0.4, 3)
    box = Octree.of(sdfcli.build(shapes.box(low, high), domain=(0, 0, 0, 1))).box
    np.testing.assert_allclose(box, [low, high], atol=1.1 / 16)  # leaves at flat faces are large


@pytest.fixture(scope="module", params=SANITIZERS)
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin in a program of its own, under sanitizers."""
    program = tmp_path_factory.mktemp("plugin") / request.param
    source = ROOT / "tests" / "cook" / "plugin_alone.cpp"
    words = ["g++", "-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-rdynamic", f"-I{PLUGIN}"]
    words += ["-fno-sanitize-recover=all", f"-fsanitize={SANITIZERS[request.param]}", str(source), "-o", str(program)]
    subprocess.run([*words, "-lpthread", "-ldl"], check=True)
    return program


def run(program: Path, *words: str | Path) -> list[str]:
    # Without address space randomisation, which the thread sanitizer does not support everywhere.
    command = (
        ["setarch", "-R"]
        if subprocess.run(["setarch", "-R", "true"], check=False, capture_output=True).returncode == 0
        else []
    )
    found = subprocess.run([*command, str(program), *map(str, words)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-4000:]
    assert not found.stderr
    return found.stdout.splitlines()


def test_threads(alone: Path, tmp_path: Path) -> None:
    """Instances come and go in eight threads; at the end nothing is left."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8)))
    paths = [tmp_path / f"{k}.oct" for k in range(3)]
    for path in paths:
        write_oct(path, Octree.of(random_field(rng, 20)))
    assert run(alone, "--threads", *paths, paths[0]) == []


def test_damaged_files(alone: Path, tmp_path: Path) -> None:
    """C++ and Python take the same files, without a crash, and see the same distances in them."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8)))
    paths = []
    for k in range(300):
        write_oct(tmp_path / "whole.oct", Octree.of(random_field(rng, int(rng.integers(0, 12)))), force=True)
        content = bytearray((tmp_path / "whole.oct").read_bytes())
        at = int(rng.integers(0, len(content)))
        nodes = int.from_bytes(content[16:24], "little")
        for _ in range(rng.integers(0, 4)):
            kind = rng.integers(0, 5)
            if kind == 0:
                content[rng.integers(0, len(content))] = rng.integers(0, 256)
            elif kind == 1:
                content[rng.integers(8, HEADER.size)] = rng.integers(0, 256)
            elif kind == 2:
                content[HEADER.size + rng.integers(0, nodes)] ^= 1
            elif kind == 3:  # two flags change places
                i, j = HEADER.size + rng.integers(0, nodes, 2)
                content[i], content[j] = content[j], content[i]
            elif len(content) > at + HEADER.size:
                content[at:] = content[at + 1 :] if rng.random() < 0.5 else content[at:] + b"\0"
        paths.append(tmp_path / f"{k}.oct")
        paths[-1].write_bytes(content)
    lines = run(alone, *paths)
    assert len(lines) == len(paths)
    verdicts = set()
    for path, line in zip(paths, lines, strict=True):
        good = line.startswith("good ")
        verdicts.add(good)
        if not good:
            assert line.startswith(f"sdfcli.field: {path}: ")
            with pytest.raises(InputError, match=r"not an \.oct file|damaged|version"):
                read_oct(path)
            continue
        numbers = np.array(line.split()[1:], np.float64).reshape(-1, 4)
        octree = read_oct(path)
        scale = float(np.abs(octree.value).max()) + octree.length
        np.testing.assert_allclose(numbers[:, 3], octree.sample(numbers[:, :3]), rtol=0, atol=1e-12 * scale)
    assert verdicts == {True, False}


@pytest.mark.parametrize("words", ["missing.oct", "."])
def test_files_that_cannot_be_read(tmp_path: Path, words: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_oct(tmp_path / words)
