"""Blocks of field files, against plain Python: the order of the values and their code, and the same bits everywhere."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import field_files
import oracle
import sdfcli
import shapes
from field_files import Cell, Layout, at_most, field_in_steps, save_4
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import InputError
from sdfcli.field import blocks, store
from sdfcli.field.blocks import Blocks, Decoder, Values
from sdfcli.field.encoding import encode_field
from sdfcli.field.field import Field

backend = backends.backend

CUTS = [1, 8, 64, 1 << 21]
SUBTREES = [1, 8, 50, 1 << 13]
"""Leaves that a thread encodes at a time."""


def random_field(kind: str, seed: int, splits: int, deep: bool) -> Field:
    rng = np.random.default_rng(seed)
    if kind == "distances":
        return oracle.random_field(rng, splits, [0.5, -2.0, 1e3], 0.75, deep)
    return field_in_steps(rng, splits, 0.01, deep, parts={"steps": 1, "parts": 4}[kind])


@functools.cache
def build(kind: str) -> Field:
    if kind == "parts":
        field = sdfcli.build(shapes.box([0, 0, 0], [1, 0.9, 0.1]), device="cpu", depth=5, tolerance=0.05)
        assert field.parts > 1
    elif kind == "bvh":
        field = sdfcli.build(shapes.torus(8, 5), device="cpu", octree="bvh", depth=4)
        assert field.step is None
    else:
        field = sdfcli.build(shapes.ANY[kind](np.random.default_rng(2)), device="cpu", depth=4, tolerance=0.02)
    return field


def built(kind: str) -> Field:
    """Not encoded yet."""
    return dataclasses.replace(build(kind))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


def check(field: Field, most: int, path: Path, together: int = 8) -> None:
    """The file is as told, and its field the same, read whole or when needed. together: leaves encoded by a thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MOST_LEAVES", most)
        patch.setattr(blocks, "SUBTREE_LEAVES", together)
        field.save(path, force=True)
        field_files.check_file(path, field, most)
        for at_once in (store.AT_ONCE, 0):
            patch.setattr(store, "AT_ONCE", at_once)
            found = sdfcli.load(path)
            assert (found.leaves, found.corners) == (len(field.leaf_key), len(field.corner_key))
            field_files.check_same(found, field)
            assert (found.step, found.parts) == (field.step, field.parts)
            assert found.content_sha256 == dataclasses.replace(found).content_sha256 == field.content_sha256


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from(["distances", "steps", "parts"]),
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([0, 1, 5, 30]),
    deep=st.booleans(),
    most=st.sampled_from(CUTS),
    together=st.sampled_from(CUTS),
)
def test_order_and_code(folder: Path, kind: str, seed: int, splits: int, deep: bool, most: int, together: int) -> None:
    check(random_field(kind, seed, splits, deep), most, folder / "field.h5", together)


@pytest.mark.parametrize("most", CUTS)
@pytest.mark.parametrize("kind", ["star", "sheet", "parts", "bvh"])
def test_builds(tmp_path: Path, kind: str, most: int) -> None:
    check(built(kind), most, tmp_path / "field.h5")


def any_cut(seed: int) -> Callable[[Cell, int], bool]:
    chance = np.random.default_rng(seed)
    return lambda cell, leaves: bool(chance.random() < 0.4)


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(["distances", "steps", "parts"]),
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([1, 5, 30]),
    packed=st.booleans(),
)
def test_files_in_other_blocks(folder: Path, kind: str, seed: int, splits: int, packed: bool) -> None:
    """Other programs may cut where they want to."""
    field = random_field(kind, seed, splits, deep=False)
    nearest = np.arange(len(field.corner_key), dtype=np.uint32)
    path = save_4(dataclasses.replace(field, nearest=nearest), folder / "other.h5", any_cut(seed), packed)
    found = sdfcli.load(path)
    field_files.check_same(found, field)
    assert np.array_equal(found.nearest, nearest)  # type: ignore[arg-type]
    again = sdfcli.load(found.save(folder / "again.h5", force=True))
    assert again.content_sha256 == dataclasses.replace(field).content_sha256


def test_hanging_points_are_not_stored(tmp_path: Path) -> None:
    field = built("star")
    layout = Layout(field.leaf_key, field.leaf_level, at_most(1 << 21), hanging=True)
    assert len(layout.values) == len(field.corner_key)
    with h5py.File(field.save(tmp_path / "field.h5")) as file:
        assert len(file["residual"]) < 0.9 * len(field.corner_key)


@pytest.mark.parametrize("most", [64, 1 << 21])
def test_hanging_points_with_other_values(tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not lost: all values are then stored as distances."""
    monkeypatch.setattr(blocks, "MOST_LEAVES", most)
    field = field_in_steps(np.random.default_rng(3), 30, 0.01)
    rows = (field.leaf_key, field.leaf_level, at_most(most))
    stored = {value.point for value in Layout(*rows, hanging=False).values}
    points = [tuple(point) for point in oracle.lattice(field.corner_key).tolist()]
    hanging = [k for k, point in enumerate(points) if point not in stored]
    assert hanging
    for k in (hanging[0], hanging[-1]):
        distance = field.distance.copy()
        distance[k] = np.nextafter(distance[k], np.float32(9))
        other = dataclasses.replace(field, distance=distance)
        path = other.save(tmp_path / "field.h5", force=True)
        field_files.check_file(path, other, most)
        field_files.check_same(sdfcli.load(path), other)
        assert sdfcli.load(path).step is None


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_steps_that_rounding_hides(tmp_path: Path, value: float) -> None:
    """10^7 steps are rounded to 1, the nearest number of steps to 1 is another, and that is rounded to less."""
    step = (1 + 5.5e-8) / 1e7
    field = oracle.random_field(np.random.default_rng(1), 1)
    distance = np.zeros(len(field.distance), np.float32)
    distance[(oracle.lattice(field.corner_key) == field_files.FULL // 2).all(axis=1)] = value
    check(dataclasses.replace(field, distance=distance, step=step), 64, tmp_path / "field.h5")
    assert 10**7 in np.abs(field_files.steps_in(tmp_path / "field.h5")[0])


# ---- The same bits ----


def encoded(backend: Backend, field: Field, step: float | None) -> tuple[Blocks, Any, bool]:
    corner, value = field._leaf_values(backend)
    level = backend.from_host(field.leaf_level)
    made, steps, exact = blocks.encode(backend, backend.from_host(field.leaf_key), level, corner, value, step)
    return made, np.concatenate([backend.to_host(each) for each in steps]), exact


def decoded(backend: Backend, field: Field, pieces: int) -> bytes:
    """The leaves' values and the tree around, from the encoded field, block by block; 0 pieces: split cell by split
    cell."""
    code = encode_field(field)
    stored, *part = [code.lists[name] for name in ("residual", "residual_part", "distance") if name in code.lists]
    parts = backend.from_host(part[0]) if part else None
    values = Values(backend.from_host(stored), parts, code.parts, code.step)
    decoder = Decoder(backend, code.blocks, values, backend.from_host(code.lists["leaf_level"]))
    if pieces == 0:
        decoder.decode_all()
    order = np.random.default_rng(pieces).permutation(len(code.blocks)).astype(np.uint32)
    for which in np.array_split(order, pieces) if pieces else ():
        if len(which):
            decoder.decode(which)
    arrays = (decoder.leaf_value, decoder.child, decoder.top)
    return b"".join(backend.to_host(array).tobytes() for array in arrays)


@pytest.mark.parametrize("most", [1, 64, 1 << 21])
@pytest.mark.parametrize("kind", ["star", "parts", "bvh"])
def test_the_same_bits(backend: Backend, kind: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device, with any number of threads and subtrees, in any order of the blocks."""
    monkeypatch.setattr(blocks, "MOST_LEAVES", most)
    field = built(kind)
    one = CpuBackend(1)
    expected = encoded(one, field, field.step)
    assert expected[2]
    values = decoded(one, field, 1)
    assert np.frombuffer(values, np.float32, 8 * field.leaves).tobytes() == leaf_values(field).tobytes()
    for other, subtrees in zip((CpuBackend(2), CpuBackend(5), backend, one), SUBTREES, strict=True):
        monkeypatch.setattr(blocks, "SUBTREE_LEAVES", subtrees)
        monkeypatch.setattr(blocks, "CELLS_TOGETHER", 3 * subtrees)
        found = encoded(other, field, field.step)
        assert found[0].table.tobytes() == expected[0].table.tobytes()
        assert (found[0].outer, found[1].tobytes()) == (expected[0].outer, expected[1].tobytes())
        assert {decoded(other, field, pieces) for pieces in (0, 1, 3)} == {values}


def leaf_values(field: Field) -> Any:
    """Values (n, 8) at the leaves' corners."""
    size = 2 ** (oracle.LATTICE_BITS - field.leaf_level.astype(np.int64))
    at = oracle.lattice(field.leaf_key)[:, None] + size[:, None, None] * np.array(field_files.CORNERS)
    return field.distance[np.searchsorted(field.corner_key, field_files.interleaved(at))]


@pytest.mark.parametrize("kind", ["star", "parts", "bvh"])
def test_loaded_fields_are_encoded_as_built_ones(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the values at the leaves' corners, or from those of corners; and files are the same."""
    monkeypatch.setattr(blocks, "MOST_LEAVES", 64)
    field = built(kind)
    path = field.save(tmp_path / "field.h5")
    for at_once in (store.AT_ONCE, 0):
        monkeypatch.setattr(store, "AT_ONCE", at_once)
        found = sdfcli.load(path)
        assert found.save(tmp_path / "again.h5", force=True).read_bytes() == path.read_bytes()
        copied = dataclasses.replace(found)
        assert copied.save(tmp_path / "again.h5", force=True).read_bytes() == path.read_bytes()


BROKEN: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "none": lambda key, level: (key[:0], level[:0]),
    "a level less": lambda key, level: (key, level[:-1]),
    "the last one is missing": lambda key, level: (key[:-1], level[:-1]),
    "the first one is missing": lambda key, level: (key[1:], level[1:]),
    "seven are missing": lambda key, level: (key[:-7], level[:-7]),
    "twice": lambda key, level: (np.repeat(key, 8), np.repeat(level, 8)),
    "another order": lambda key, level: (key[::-1].copy(), level[::-1].copy()),
    "levels of others": lambda key, level: (key, level[::-1].copy()),
    "level 17": lambda key, level: (key, np.full_like(level, 17)),
    "level 255": lambda key, level: (key, np.full_like(level, 255)),
    "a level more": lambda key, level: (key, level + (np.arange(len(level)) == len(level) // 2)),
    "apart": lambda key, level: (key + np.uint64(8) * (key > 0), level),
    "beyond": lambda key, level: (key + np.uint64(field_files.FULL) ** np.uint64(3), level),
    "sixteen domains": lambda key, level: (np.arange(17, dtype=np.uint64) << np.uint64(60), np.zeros(17, np.uint8)),
}


@pytest.mark.parametrize("most", [1, 20, 1 << 21])
@pytest.mark.parametrize("name", BROKEN)
def test_leaves_that_do_not_fill_the_domain(
    name: str, most: int, fenced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels would write beyond their arrays."""
    field = random_field("distances", 1, 30, False)
    key, level = BROKEN[name](field.leaf_key, field.leaf_level)
    broken = dataclasses.replace(field, leaf_key=key, leaf_level=level.astype(np.uint8))
    monkeypatch.setattr(blocks, "MOST_LEAVES", most)
    for together in (1, 10, 1 << 20):
        monkeypatch.setattr(blocks, "CHECKED_TOGETHER", together)
        blocks.check_leaves(field.leaf_key, field.leaf_level)
        with pytest.raises(InputError, match="the leaves do not fill the domain"):
            encode_field(broken)
    encode_field(field)
