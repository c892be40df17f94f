"""Large field files: read and checked block by block, where points need them."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import h5py
import numpy as np
import pytest

import field_files
import oracle
import sdfcli
from field_files import field_in_steps
from sdfcli.errors import InputError, OutOfMemoryError
from sdfcli.field import blocks, store, stored
from sdfcli.field.field import Field
from sdfcli.field.hdf5 import StoredList
from sdfcli.octree.causes import Cause

CHUNK, MOST = 64, 40
KINDS = ["distances", "steps", "parts"]
Reads = list[tuple[str, int]]
"""Chunks that have been read: list and number."""


@pytest.fixture(autouse=True)
def small_pieces(fuzz: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are read as large ones, in small blocks and chunks."""
    monkeypatch.setattr(store, "AT_ONCE", 0)
    monkeypatch.setattr(blocks, "MOST_LEAVES", MOST)
    for owner in (store, stored, fuzz):
        monkeypatch.setattr(owner, "CHUNK", CHUNK)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found: Reads = []
    read_into = StoredList.read_into

    def counted(given: StoredList, entries: Any, here: slice) -> None:
        found.append((given.name, here.start // CHUNK))
        read_into(given, entries, here)

    monkeypatch.setattr(StoredList, "read_into", counted)
    return found


def make_field(kind: str = "steps", seed: int = 1, splits: int = 150) -> Field:
    """Not read or encoded yet."""
    return dataclasses.replace(random_field(kind, seed, splits))


@functools.cache
def random_field(kind: str, seed: int, splits: int) -> Field:
    rng = np.random.default_rng(seed)
    if kind == "distances":
        field = oracle.random_field(rng, splits)
    else:
        field = field_in_steps(rng, splits, 0.01, parts={"steps": 1, "parts": 4}[kind])
    domain = dataclasses.replace(field.domain, origin=np.array([0.3, -7.0, 11.1]), length=np.pi)
    return dataclasses.replace(field, domain=domain)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_field().save(tmp_path / "field.h5")


class Pieces:
    """Where blocks and their entries are in a file, by its table."""

    def __init__(self, path: Path) -> None:
        with h5py.File(path) as file:
            table = file["block"][()].reshape(-1, 18).astype(np.int64)
            self.values = next(name for name in ("residual", "distance") if name in file)
            self.parts = "residual_part" in file
            count = len(file[self.values])
        self.leaf_end = np.cumsum(table[:, 1])
        self.leaf_begin = self.leaf_end - table[:, 1]
        own = table[:, 2:].sum(axis=1)
        self.outer = int(count - own.sum())
        self.value_begin = self.outer + np.cumsum(own) - own
        self.value_end = self.value_begin + own

    def of_leaf(self, leaf: Any) -> set[int]:
        return set(np.searchsorted(self.leaf_end, np.ravel(leaf), "right").tolist())

    def chunks(self, wanted: set[int]) -> set[tuple[str, int]]:
        """The chunks that some blocks need."""

        def within(begin: int, end: int) -> range:
            return range(begin // CHUNK, -(-end // CHUNK)) if end > begin else range(0)

        found = {(self.values, k) for k in within(0, self.outer)}
        for block in wanted:
            found |= {("leaf_level", k) for k in within(self.leaf_begin[block], self.leaf_end[block])}
            found |= {(self.values, k) for k in within(self.value_begin[block], self.value_end[block])}
        return found | {("residual_part", k) for name, k in found if self.parts and name == self.values}


def points_around(field: Field, rng: np.random.Generator, count: int = 60) -> Any:
    """Inside and outside, on borders of blocks, and beside them."""
    origin, length = field.domain.origin, field.domain.length
    anywhere = origin + length * rng.uniform(-0.5, 1.5, (count, 3))
    on = origin + length * rng.integers(0, 9, (count, 3)) / 8
    beside = np.nextafter(on, on + rng.choice([-1, 1], on.shape))
    few = origin + length * np.array([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [-1e9, 0.5, 1e9]])
    return np.concatenate((anywhere, on, beside, few))


# ---- Reads ----


@pytest.mark.parametrize("kind", KINDS)
def test_points_read_their_blocks_only(tmp_path: Path, reads: Reads, kind: str) -> None:
    field = make_field(kind)
    path = field.save(tmp_path / "field.h5")
    pieces = Pieces(path)
    assert len(pieces.leaf_end) > 20
    assert pieces.outer > 8
    rng = np.random.default_rng(2)
    points = points_around(field, rng)
    expected = {name: getattr(field, name)(points) for name in ("sample", "gradient", "leaf_at")}
    for name, answer in expected.items():
        for k in rng.permutation(len(points))[:25]:
            found = sdfcli.load(path)
            assert reads == []
            assert getattr(found, name)(points[k]).tobytes() == answer[k].tobytes()
            wanted = pieces.of_leaf(expected["leaf_at"][k])
            assert sorted(reads) == sorted(pieces.chunks(wanted))
            assert len(wanted) == 1
            getattr(found, name)(points[k][None])
            assert len(reads) == len(set(reads))
            reads.clear()


def test_corners_of_blocks_belong_to_them(tmp_path: Path, reads: Reads) -> None:
    field = dataclasses.replace(make_field(), domain=dataclasses.replace(make_field().domain, origin=np.zeros(3)))
    field = dataclasses.replace(field, domain=dataclasses.replace(field.domain, length=1.0))
    path = field.save(tmp_path / "field.h5")
    pieces = Pieces(path)
    for block, leaf in list(enumerate(pieces.leaf_begin))[::5]:
        point = oracle.lattice(field.leaf_key)[leaf] / field_files.FULL
        assert sdfcli.load(path).leaf_at(point) == leaf
        assert set(reads) == pieces.chunks({block})
        reads.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_added_as_points_come(tmp_path: Path, reads: Reads, kind: str) -> None:
    field = make_field(kind)
    path = field.save(tmp_path / "field.h5")
    pieces, found, done = Pieces(path), sdfcli.load(path), set[int]()
    points = points_around(field, np.random.default_rng(3))
    for part in np.array_split(np.random.default_rng(4).permutation(points), 20):
        done |= pieces.of_leaf(field.leaf_at(part))
        assert found.sample(part).tobytes() == field.sample(part).tobytes()
        assert set(reads) == pieces.chunks(done)
        assert len(reads) == len(set(reads))
    field_files.check_same(found, field)
    assert len(reads) == len(set(reads))
    assert found.sample(points).tobytes() == field.sample(points).tobytes()


def test_what_needs_no_values_reads_none(path: Path, reads: Reads) -> None:
    field, found = make_field(), sdfcli.load(path)
    assert (found.leaves, found.corners) == (len(field.leaf_key), len(field.corner_key))
    assert found.content_sha256 == field.content_sha256
    assert found.info == field.info
    assert str(found) == str(field)
    assert found.bounds.tobytes() == field.bounds.tobytes()
    assert found.nearest is None
    assert found.leaf_cause is None
    assert found.sample(np.zeros((0, 3))).shape == (0,)
    assert not {name for name, _ in reads} & {"leaf_level"}
    reads.clear()
    assert found.leaf_level.tobytes() == field.leaf_level.tobytes()
    assert {name for name, _ in reads} == {"leaf_level"}


def test_forms_of_points(path: Path) -> None:
    field, points = make_field(), points_around(make_field(), np.random.default_rng(5))
    for given in (points.astype(np.float32), points.reshape(4, -1, 3), points[::3], points[:1].tolist()):
        found = sdfcli.load(path)
        for name in ("sample", "gradient", "leaf_at"):
            answer = getattr(found, name)(given)
            expected = getattr(field, name)(given)
            assert (answer.dtype, answer.shape) == (expected.dtype, expected.shape)
            assert answer.tobytes() == expected.tobytes()
    low, edge = sdfcli.load(path).cell_at(points)
    assert (low.tobytes(), edge.tobytes()) == tuple(each.tobytes() for each in field.cell_at(points))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_points_that_are_not_finite(path: Path, value: float, axis: int) -> None:
    found = sdfcli.load(path)
    point = found.domain.origin + 0.9 * found.domain.length
    point[axis] = value
    with pytest.raises(InputError, match="finite"):
        found.sample(point)
    inside = found.domain.origin + 0.2 * found.domain.length
    assert found.sample(inside) == make_field().sample(inside)


def test_many_points_decode_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MANY", 10)
    field, found = make_field(), sdfcli.load(path)
    points = found.domain.origin + np.full((11, 3), 0.1) * found.domain.length
    assert found.sample(points).tobytes() == field.sample(points).tobytes()
    path.unlink()
    field_files.check_same(found, field)


def test_lists_that_may_be_there_are_read_when_wanted(tmp_path: Path) -> None:
    field = make_field()
    nearest = np.arange(len(field.corner_key), dtype=np.uint32)
    field = dataclasses.replace(field, nearest=nearest, leaf_cause=np.full(field.leaves, Cause.ERROR, np.uint8))
    path = field.save(tmp_path / "field.h5")
    with h5py.File(path, "r+") as file:
        file["nearest"][5] ^= 1
    found = sdfcli.load(path)
    assert np.array_equal(found.leaf_cause, field.leaf_cause)  # type: ignore[arg-type]
    field_files.check_same(found, field)
    for _ in range(2):
        with pytest.raises(InputError, match="nearest_sha256 does not match its nearest") as caught:
            _ = found.nearest
        assert "\n" not in str(caught.value)


def test_memory_is_checked_by_what_is_decoded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.backend.cpu import CpuBackend

    field, found = make_field(), sdfcli.load(path)
    monkeypatch.setattr(CpuBackend, "memory_free", lambda self: 2 * MOST * stored.LEAF_BYTES)
    inside = found.domain.origin + 0.2 * found.domain.length
    assert found.sample(inside) == field.sample(inside)
    with pytest.raises(OutOfMemoryError, match=r"field\.h5: .* do not fit into memory"):
        _ = found.distance


@pytest.mark.parametrize("chunk", [1, 7, 63, 65, 200, 10**6])
def test_chunks_of_other_lengths(path: Path, chunk: int) -> None:
    """As other programs pack them."""
    field = make_field()
    with h5py.File(path, "r+") as file:
        for name in ("leaf_level", "residual", "block", "chunk_sha256"):
            data = file[name][()]
            del file[name]
            file.create_dataset(name, data=data, chunks=(min(chunk, len(data)),), compression="gzip")
    found, points = sdfcli.load(path), points_around(field, np.random.default_rng(14))
    assert found.sample(points[:2]).tobytes() == field.sample(points[:2]).tobytes()
    field_files.check_same(found, field)


# ---- Threads, copies ----


def test_several_threads_ask_at_the_same_time(tmp_path: Path) -> None:
    field = make_field(splits=400)
    path = field.save(tmp_path / "field.h5")
    points = points_around(field, np.random.default_rng(6), 400)
    expected = field.sample(points)
    for attempt in range(3):
        found, together = sdfcli.load(path), Barrier(4)

        def ask(seed: int, found: Field = found, together: Barrier = together) -> bool:
            order = np.random.default_rng(seed).permutation(len(points))
            together.wait()
            parts = np.array_split(order, 40)
            right = [found.sample(points[part]).tobytes() == expected[part].tobytes() for part in parts]
            return all(right) and found.distance.tobytes() == field.distance.tobytes()

        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(ask, range(4 * attempt, 4 * attempt + 4)))


COPIES: dict[str, Callable[[Field], Field]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda field: pickle.loads(pickle.dumps(field)),
    "replace": dataclasses.replace,
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("asked", [False, True])
def test_copies(path: Path, name: str, asked: bool) -> None:
    field, found = make_field(), sdfcli.load(path)
    points = points_around(field, np.random.default_rng(7))
    if asked:
        found.sample(points[:1])
    copied = COPIES[name](found)
    field_files.check_same(copied, field)
    assert (copied.step, copied.parts) == (field.step, field.parts)
    assert copied.sample(points).tobytes() == field.sample(points).tobytes()
    moved = dataclasses.replace(found, distance=field.distance + 1)
    assert np.array_equal(moved.sample(points), dataclasses.replace(field, distance=field.distance + 1).sample(points))
    halved = dataclasses.replace(found, domain=dataclasses.replace(found.domain, length=1.0))
    assert halved.content_sha256 != found.content_sha256


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", ["nothing", "a point", "all"])
def test_what_is_saved_again_is_the_same(tmp_path: Path, kind: str, asked: str) -> None:
    path = make_field(kind).save(tmp_path / "field.h5")
    found = sdfcli.load(path)
    if asked == "a point":
        found.sample(np.zeros(3))
    elif asked == "all":
        _ = found.corner_key
    assert found.save(tmp_path / "again.h5").read_bytes() == path.read_bytes()


# ---- Files that go, or are in use ----


def test_a_file_that_is_replaced_or_deleted(path: Path, tmp_path: Path) -> None:
    """The field stays that of the file that was opened."""
    field = make_field()
    points = points_around(field, np.random.default_rng(8))
    for change in (
        lambda: make_field(seed=9).save(path, force=True),
        lambda: os.replace(make_field(seed=9).save(tmp_path / "other.h5"), path),
        path.unlink,
    ):
        field.save(path, force=True)
        found = sdfcli.load(path)
        assert found.sample(points[0]) == field.sample(points[0])
        change()
        assert found.sample(points).tobytes() == field.sample(points).tobytes()
        field_files.check_same(found, field)


def test_a_file_that_is_replaced_while_it_is_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, opened = make_field(seed=9).save(tmp_path / "other.h5"), os.open

    def open_other(name: Any, *rest: Any, **more: Any) -> int:
        if str(name) == str(path) and other.exists():
            os.replace(other, path)
        return opened(name, *rest, **more)

    monkeypatch.setattr(os, "open", open_other)
    with pytest.raises(InputError, match="was replaced while it was read"):
        sdfcli.load(path)
    assert not other.exists()
    field_files.check_same(sdfcli.load(path), make_field(seed=9))


def test_a_field_may_replace_its_own_file(path: Path) -> None:
    field, found = make_field(), sdfcli.load(path)
    before = path.read_bytes()
    found.save(path, force=True)
    assert path.read_bytes() == before
    field_files.check_same(found, field)


def test_no_lock_is_left(path: Path) -> None:
    found = sdfcli.load(path)
    found.sample(np.zeros(3))
    code = f"import h5py\nwith h5py.File({str(path)!r}, 'r+') as file: file.attrs['more'] = 1"
    subprocess.run([sys.executable, "-c", code], check=True)
    field_files.check_same(found, make_field())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no list of descriptors")
def test_descriptors_are_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened() -> int:
        gc.collect()
        return sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(path) for fd in os.listdir("/proc/self/fd"))

    found = sdfcli.load(path)
    assert opened() > 0
    found.sample(np.zeros(3))
    assert opened() > 0
    _ = found.distance
    assert opened() == 0
    found = sdfcli.load(path)
    del found
    assert opened() == 0
    monkeypatch.setattr(store, "AT_ONCE", 1 << 20)
    found = sdfcli.load(path)
    assert opened() == 0
    with h5py.File(path, "r+") as file:
        file.attrs["corners"] = 7
    with pytest.raises(InputError):
        sdfcli.load(path)
    assert opened() == 0
    field_files.check_same(found, make_field())


# ---- Damage ----


def stored_bytes(path: Path) -> Iterator[tuple[str, int, int, int]]:
    """List, chunk, and its place and size in the file."""
    with h5py.File(path) as file:
        for name in ("leaf_level", "residual", "block", "chunk_sha256"):
            data = file[name]
            if data.chunks is None:
                yield name, 0, data.id.get_offset(), data.id.get_storage_size()
                continue
            for k in range(data.id.get_num_chunks()):
                chunk = data.id.get_chunk_info(k)
                yield name, chunk.chunk_offset[0] // CHUNK, chunk.byte_offset, chunk.size


def flipped(content: bytes, place: int, bit: int = 0) -> bytes:
    noisy = bytearray(content)
    noisy[place] ^= 1 << bit
    return bytes(noisy)


def check_message(error: BaseException, path: Path) -> None:
    assert str(error).startswith(f"{path}: ")
    assert "\n" not in str(error)


def test_every_byte_counts_where_it_is_needed(path: Path, tmp_path: Path) -> None:
    """Points in other blocks have their values, and errors come again."""
    whole, field, pieces = path.read_bytes(), make_field(), Pieces(path)
    other, rng = tmp_path / "other.h5", np.random.default_rng(10)
    middle = field.domain.origin + field.domain.length * (
        (oracle.lattice(field.leaf_key) + 0.5) / 2.0**oracle.LATTICE_BITS
    )
    leaf = [pieces.leaf_begin[block] for block in range(len(pieces.leaf_end))]
    late = 0
    for name, number, place, size in stored_bytes(path):
        for at in rng.integers(0, size, 2).tolist():
            other.write_bytes(flipped(whole, place + at, int(rng.integers(8))))
            if name in store.UNPACKED:
                with pytest.raises(InputError) as caught:
                    sdfcli.load(other)
                check_message(caught.value, other)
                continue
            found = sdfcli.load(other)
            hit = [block for block in range(len(leaf)) if (name, number) in pieces.chunks({block})]
            for block in hit[:1]:
                for ask in (lambda: found.sample(middle[leaf[block]]), lambda: found.distance):  # noqa: B023
                    for _ in range(2):
                        with pytest.raises(InputError) as caught:
                            ask()
                        check_message(caught.value, other)
                with pytest.raises(InputError):
                    found.save(tmp_path / "again.h5")
                late += 1
            spared = [middle[k] for block, k in enumerate(leaf) if block not in hit]
            if spared:
                assert found.sample(spared).tobytes() == field.sample(spared).tobytes()
    assert late > 30
    assert not (tmp_path / "again.h5").exists()


@pytest.mark.parametrize("name", ["leaf_level", "residual", "residual_part"])
def test_entries_that_fit_the_sums_of_hdf5(tmp_path: Path, name: str) -> None:
    field = make_field("parts")
    path, rng = field.save(tmp_path / "field.h5"), np.random.default_rng(15)
    whole = path.read_bytes()
    with h5py.File(path) as file:
        entries = file[name][()]
    for entry in rng.choice(len(entries), 10, replace=False).tolist():
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            file[name][entry] = entries[entry] ^ 2
        found = sdfcli.load(path)
        with pytest.raises(InputError, match=f"chunk_sha256 does not match its chunk {entry // CHUNK} of {name};"):
            _ = found.distance


def test_every_byte_counts_at_once_where_files_are_small(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "AT_ONCE", 1 << 20)
    whole, rng = path.read_bytes(), np.random.default_rng(11)
    for _, _, place, size in stored_bytes(path):
        for at in rng.choice(size, 3, replace=False):
            path.write_bytes(flipped(whole, place + int(at), int(rng.integers(8))))
            with pytest.raises(InputError) as caught:
                sdfcli.load(path)
            check_message(caught.value, path)


def test_a_file_that_is_cut_off_later(path: Path) -> None:
    found = sdfcli.load(path)
    with open(path, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError) as caught:
        _ = found.distance
    check_message(caught.value, path)


# ---- Hostile files, with right checksums ----


def edited(name: str, edit: Callable[[Any], Any]) -> Callable[[Any], None]:
    """The list becomes edit(its entries); a table has 18 columns."""

    def change(file: Any) -> None:
        old = file[name][()]
        new = np.asarray(edit(old.reshape(-1, 18).astype(np.int64) if name == "block" else old))
        chunks = None if name in store.UNPACKED else (min(CHUNK, len(new)),)
        del file[name]
        file.create_dataset(name, data=new.astype(old.dtype).ravel(), chunks=chunks, fletcher32=bool(chunks))

    return change


def added(*amounts: tuple[int, int, int]) -> Callable[[Any], None]:
    """Amounts are added to rows and columns of the table."""

    def edit(table: Any) -> Any:
        for row, column, amount in amounts:
            table[row, column] += amount
        return table

    return edited("block", edit)


def both(*changes: Callable[[Any], None]) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        for one in changes:
            one(file)

    return change


def whole_number(name: str, edit: Callable[[int], Any]) -> Callable[[Any], None]:
    return lambda file: file.attrs.__setitem__(name, edit(int(file.attrs[name])))


def replaced(file: Any, name: str, edit: Callable[[Any], Any]) -> None:
    old = file[name][()]
    del file[name]
    file[name] = edit(old)


def border(file: Any) -> None:
    """The last block's last point that another one has, too, gets another value."""
    level, values = file["leaf_level"][()], file["residual"][()]
    size = np.uint64(1) << (np.uint64(3) * (np.uint64(oracle.LATTICE_BITS) - level))
    layout = field_files.Layout(np.cumsum(size) - size, level, field_files.at_most(MOST), hanging=False)
    found: dict[Any, list[int]] = {}
    for k, value in enumerate(layout.values):
        found.setdefault(value.point, []).append(k)
    twice = [places for places in found.values() if len(places) > 1]
    values[twice[-1][-1]] ^= 1
    file["residual"][...] = values


def leaves_moved(table: Any) -> Any:
    """Seven leaves of the largest block are the next one's."""
    largest = int(np.argmax(table[:-1, 1]))
    table[largest : largest + 2, 1] += [-7, 7]
    return table


def seven_more(levels: list[int]) -> Callable[[Any], None]:
    """Each leaf is a block; their count is a multiple of seven, which no octree has."""
    assert len(levels) % 7 == 0
    rows = edited("block", lambda _: np.pad(np.array([[level, 1] for level in levels]), ((0, 0), (0, 16))))
    return both(rows, edited("leaf_level", lambda _: np.array(levels)))


HOSTILE: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a block's level": ("leaves do not fill", added((0, 0, 1))),
    "all blocks' levels": ("leaves do not fill", edited("block", lambda a: a + (np.arange(18) == 0))),
    "levels on which no cells are": ("do not hold the leaves", added((0, 0, 17))),
    "huge levels": ("do not hold the leaves", added((3, 0, 2**32 - 300))),
    "a level of 256 more": ("do not hold the leaves", added((3, 0, 256))),
    "leaves that are none": ("do not hold the leaves", added((2, 1, 7))),
    "leaves of another block": ("do not fill", edited("block", leaves_moved)),
    "a leaf of another block": ("do not hold the leaves", added((2, 1, 1), (3, 1, -1))),
    "no leaves": ("do not hold the leaves", edited("block", lambda a: np.vstack((a, 0 * a[:1])))),
    "negative leaves": ("do not hold the leaves", added((2, 1, -(2**31)), (3, 1, 2**31))),
    "leaves that wrap around": ("do not hold the leaves", added((0, 1, 7 * 2**29), (1, 1, 2**32 - 7 * 2**29))),
    "values that are none": ("other values", added((2, 3, 1))),
    "values of another level": ("other values", added((2, 4, 1), (2, 5, -1))),
    "values of another block": ("other values", added((2, 4, 1), (3, 4, -1))),
    "values around blocks": ("other values", added((2, 4, -1))),
    "values of levels without any": ("other values", added((0, 17, 1), (1, 2, 1))),
    "huge values": ("other values", added((2, 4, 2**32 - 1000))),
    "values that wrap around": ("other values", added((2, 4, 2**31), (3, 4, 2**31 - 7))),
    "no values": ("other values", edited("block", lambda a: a * (np.arange(18) < 2))),
    "blocks in another order": ("leaves|values", edited("block", lambda a: a[::-1])),
    "a block less": ("do not hold the leaves", edited("block", lambda a: a[1:])),
    "a block more": ("do not hold the leaves", edited("block", lambda a: np.vstack((a, a[-1:])))),
    "seven blocks": ("do not hold the leaves", seven_more([1] * 7)),
    "fourteen blocks": ("do not hold the leaves", seven_more([2] * 8 + [1] * 6)),
    "a single block": (
        "leaves|values",
        edited("block", lambda a: [[0, a[:, 1].sum(), *a[:, 2:].sum(axis=0)]]),
    ),
    "another size": ("block has an impossible size", lambda file: replaced(file, "block", lambda a: a[:-1])),
    "wide": ("block must be a list", lambda file: replaced(file, "block", lambda a: a.astype(np.uint64))),
    "signed": ("block must be a list", lambda file: replaced(file, "block", lambda a: a.astype(np.int32))),
    "rows": ("block must be a list", lambda file: replaced(file, "block", lambda a: a.reshape(-1, 18))),
    "empty": ("block has an impossible size", lambda file: replaced(file, "block", lambda a: a[:0])),
    "no table": ("block must be a list", lambda file: file.__delitem__("block")),
    "no sums": ("chunk_sha256 must be a list", lambda file: file.__delitem__("chunk_sha256")),
    "sums of others": ("chunk_sha256 must", lambda file: replaced(file, "chunk_sha256", lambda a: a.view(np.int8))),
    "too few sums": ("impossible size", lambda file: replaced(file, "chunk_sha256", lambda a: a[:-3])),
    "a leaf deeper": ("do not fill", edited("leaf_level", lambda a: a + (np.arange(len(a)) == 9))),
    "a leaf at level 255": ("do not fill", edited("leaf_level", lambda a: np.where(np.arange(len(a)) == 9, 255, a))),
    "all leaves at level 0": ("do not fill", edited("leaf_level", lambda a: 0 * a)),
    "all leaves at level 17": ("do not fill", edited("leaf_level", lambda a: 0 * a + 17)),
    "leaves in another order": ("do not fill|values", edited("leaf_level", lambda a: a[::-1])),
    "more values": ("other values", edited("residual", lambda a: np.append(a, a[:5]))),
    "fewer values": ("other values", edited("residual", lambda a: a[:-5])),
    "no corners": ("corners is missing", lambda file: file.attrs.__delitem__("corners")),
    "corners that are text": ("corners must", lambda file: file.attrs.__setitem__("corners", np.bytes_("9"))),
    "corners of a part": ("corners must", whole_number("corners", lambda n: n + 0.5)),
    "a corner more": ("corners are stated", whole_number("corners", lambda n: n + 1)),
    "a corner less": ("corners are stated", whole_number("corners", lambda n: n - 1)),
    "negative corners": ("corners are stated", whole_number("corners", lambda n: -n)),
    "huge corners": ("corners are stated", whole_number("corners", lambda n: 2**62)),
    "a border's other value": ("different distances at a point", border),
    "values beyond float32": ("not finite", lambda file: file.attrs.__setitem__("distance_step", 1e300)),
}


def read_all(path: Path) -> None:
    field = sdfcli.load(path)
    points = points_around(field, np.random.default_rng(1))
    for part in np.array_split(points, 10):
        field.sample(part)
    _ = field.leaf_level, field.distance, field.corner_key


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("at_once", [0, 1 << 20])
def test_hostile_files(
    fuzz: Any, path: Path, name: str, at_once: int, monkeypatch: pytest.MonkeyPatch, fenced: None
) -> None:
    """With kernels that check their arrays' lengths, and write into them alone."""
    monkeypatch.setattr(store, "AT_ONCE", at_once)
    words, change = HOSTILE[name]
    with h5py.File(path, "r+") as file:
        change(file)
        fuzz.seal(file)
    with pytest.raises(InputError, match=words) as caught:
        read_all(path)
    check_message(caught.value, path)
    assert "does not match" not in str(caught.value)


def test_more_values_than_a_block_needs(fuzz: Any, path: Path) -> None:
    """It is refused by itself; the next one, which lacks a value, has not been read."""
    pieces, field = Pieces(path), make_field()
    block = int(np.argmax((pieces.value_end > pieces.value_begin)[:-1] & (pieces.value_end > pieces.value_begin)[1:]))
    with h5py.File(path, "r+") as file:
        table = file["block"][()].reshape(-1, 18)
        last, first = (int(np.flatnonzero(table[row, 2:])[end]) for row, end in ((block, -1), (block + 1, 0)))
        added((block, 2 + last, 1), (block + 1, 2 + first, -1))(file)
        fuzz.seal(file)
    inside = (oracle.lattice(field.leaf_key)[pieces.leaf_begin[block]] + 0.5) / field_files.FULL
    with pytest.raises(InputError, match="other values"):
        sdfcli.load(path).sample(field.domain.origin + field.domain.length * inside)


def test_blocks_that_disagree_are_sampled_as_they_are(fuzz: Any, path: Path) -> None:
    with h5py.File(path, "r+") as file:
        border(file)
        fuzz.seal(file)
    field, found = make_field(), sdfcli.load(path)
    points = points_around(field, np.random.default_rng(12))
    differ = found.sample(points) != field.sample(points)
    assert not differ.all()
    with pytest.raises(InputError, match="different distances"):
        _ = found.distance


@pytest.mark.parametrize("kind", KINDS)
def test_random_tables(fuzz: Any, tmp_path: Path, kind: str) -> None:
    """Refused, or the same field."""
    field = make_field(kind, splits=40)
    path = field.save(tmp_path / "field.h5")
    whole, rng, refused = path.read_bytes(), np.random.default_rng(13), 0
    lists = ["block", "leaf_level"]
    for _ in range(40):
        path.write_bytes(whole)

        def change(old: Any) -> Any:
            new = old.copy()
            for _ in range(rng.integers(1, 4)):
                k, j = rng.integers(0, len(new), 2)
                kind = rng.integers(4)
                if kind == 0:
                    new[k], new[j] = new[j].copy(), new[k].copy()
                elif kind == 1:
                    new[k] = rng.integers(0, 18)
                elif kind == 2:
                    amount = int(rng.choice([1, 7, 56, 1 << 16]))
                    new[k] = max(0, int(new[k]) - amount) if new.dtype != np.uint8 else new[k] ^ 1
                    new[j] = int(new[j]) + amount if new.dtype != np.uint8 else new[j]
                else:
                    new[k] = rng.integers(0, np.iinfo(new.dtype).max)
            return new

        with h5py.File(path, "r+") as file:
            replaced(file, str(rng.choice(lists)), change)
            fuzz.seal(file)
        try:
            read_all(path)
        except InputError as error:
            check_message(error, path)
            refused += 1
        else:
            field_files.check_same(sdfcli.load(path), field)
    assert refused > 20
