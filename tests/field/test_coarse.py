"""Octrees cut at a level, and the overviews of large fields in their files."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

import field_files
import oracle
import sdfcli
import shapes
import web
from field_files import field_in_steps
from sdfcli.backend import any_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.field import blocks, coarse, store
from sdfcli.field.coarse import cut, overview_of
from sdfcli.field.field import Field
from sdfcli.field.hdf5 import values_sha256
from sdfcli.field.stated_error import StatedError
from sdfcli.mesh.mesh import Domain
from sdfcli.octree.corners import corner_keys
from sdfcli.runtime import ranges

LARGE, SHARE = 3000, 16


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8), "little"))


@pytest.fixture
def overviews(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small fields have overviews, too."""
    monkeypatch.setattr(coarse, "LARGE", LARGE)
    monkeypatch.setattr(coarse, "SHARE", SHARE)


@functools.cache
def built() -> Field:
    """A field in parts of steps."""
    field = sdfcli.build(shapes.box([0, 0, 0], [1, 0.7, 0.02]), tolerance=1e-2, device="cpu")
    assert field.parts > 1
    assert field.leaves > LARGE
    return field


def cut_slowly(field: Field, finest: int) -> dict[tuple[int, int], list[float]]:
    """Values at the corners of each leaf, by key and level, of an octree cut at a level."""
    level = np.minimum(field.leaf_level, finest).astype(np.int64)
    below = (3 * (20 - level)).astype(np.uint64)
    low, level = np.unique(np.stack((field.leaf_key >> below << below, level.astype(np.uint64))), axis=1)
    size = 2 ** (20 - level.astype(np.int64))
    corner = oracle.lattice(low)[:, None] + size[:, None, None] * np.array(field_files.CORNERS)
    code = field_files.interleaved(corner)
    place = np.searchsorted(field.corner_key, code)
    assert np.array_equal(field.corner_key[place], code)
    return dict(zip(zip(low.tolist(), level.tolist(), strict=True), field.distance[place].tolist(), strict=True))


def leaves_of(field: Field) -> dict[tuple[int, int], list[float]]:
    return cut_slowly(field, 20)


@pytest.mark.parametrize("kind", ["random", "deep", "steps", "parts"])
def test_cut_at_the_finest_level_that_fits(
    kind: str, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the values of the field, whether it is in memory or in a file of several blocks."""
    monkeypatch.setattr(blocks, "MOST_LEAVES", 40)
    monkeypatch.setattr(store, "AT_ONCE", 0)
    if kind in ("random", "deep"):
        field = oracle.random_field(rng, int(rng.integers(0, 60)), [1e3, -2, 0.1], 3.0, deep=kind == "deep")
    else:
        field = field_in_steps(rng, 40, 0.01, parts=8 if kind == "parts" else 1)
    whole = {finest: cut_slowly(field, finest) for finest in range(17)}
    stored = sdfcli.load(field.save(tmp_path / "a.h5"))
    for most in {1, 8, field.leaves - 1, field.leaves, *rng.integers(1, field.leaves + 1, 3).tolist()} - {0}:
        expected = max((each for each in whole.values() if len(each) <= most), key=len)
        for source in (field, stored):
            found = cut(source, most)
            assert leaves_of(found) == expected
            assert found.leaf_key.tolist() == sorted(key for key, _ in expected)
            assert found.bounds.tolist() == field.bounds.tolist()
        again = sdfcli.load(found.save(tmp_path / "b.h5", force=True))
        field_files.check_same(again, found)
    assert stored._stored is not None
    assert stored._stored._arrays is None  # the corners were not numbered


@pytest.mark.usefixtures("overviews")
def test_a_file_has_an_overview(tmp_path: Path) -> None:
    field = built()
    path = field.save(tmp_path / "a.h5")
    whole, found = sdfcli.load(path), sdfcli.load(path, coarse=True)
    assert whole.content_sha256 == field.content_sha256 == content_sha256(path)
    assert found.leaves <= field.leaves / SHARE
    assert leaves_of(found) == cut_slowly(field, int(found.leaf_level.max()))
    assert len(cut_slowly(field, int(found.leaf_level.max()) + 1)) > field.leaves / SHARE
    field_files.check_same(found, overview_of(field))
    assert found.content_sha256 == overview_of(field).content_sha256
    assert (found.step, found.parts) == (field.step, field.parts)
    # It is the field wherever the octree is not cut, and continuous: leaves that share a corner differ by one level.
    points = field.domain.origin + field.domain.length * np.random.default_rng(1).random((5000, 3))
    same = field.leaf_level[field.leaf_at(points)] <= found.leaf_level.max()
    assert 0.1 < same.mean() < 1
    np.testing.assert_array_equal(found.sample(points)[same], field.sample(points)[same])


def content_sha256(path: Path) -> str:
    with h5py.File(path) as file:
        return str(file.attrs["content_sha256"].decode())


def test_small_fields_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a sequence's frames. As their own overview they are whole."""
    field = built()
    path = field.save(tmp_path / "a.h5")
    with h5py.File(path) as file:
        assert "coarse" not in file
        assert "coarse_sha256" not in file.attrs
    found = sdfcli.load(path, coarse=True)
    field_files.check_same(found, field)
    assert found.info == field.info
    monkeypatch.setattr(coarse, "LARGE", LARGE)
    with store.executor(1) as helpers:
        frame = store.pack(field, helpers, as_frame=True)
    assert (frame.coarse, "coarse_sha256" in frame.attributes) == (None, False)


def test_files_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an earlier version: it is made from the field."""
    field = built()
    paths = field.save(tmp_path / "a.h5"), field_files.save_3(field, tmp_path / "b.h5", 3)
    monkeypatch.setattr(coarse, "LARGE", LARGE)
    for path in paths:
        field_files.check_same(sdfcli.load(path, coarse=True), overview_of(field))


@pytest.mark.usefixtures("overviews")
def test_an_overview_states_no_error(tmp_path: Path) -> None:
    field = sdfcli.build(shapes.icosphere(2), tolerance=2e-3, prove=True, why=True, nearest=True, device="cpu")
    found = sdfcli.load(field.save(tmp_path / "a.h5"), coarse=True)
    assert found.info["overview"] == {"leaves": field.leaves}
    assert found.info["depth"] == found.leaf_level.max() < field.info["depth"]
    assert found.info["mesh"] == field.info["mesh"]
    for name in ("max_error", "rms_error", "proven_error", "certificate", "sheets"):
        assert name in field.info
        assert name not in found.info
    assert (found.nearest, found.leaf_cause, found.leaf_bound) == (None, None, None)
    with pytest.raises(InputError, match="an overview states no error"):
        StatedError.of(found)
    with pytest.raises(InputError, match="an overview states no error"):
        _ = found.max_error
    # A file of its own is an overview, too.
    assert sdfcli.load(found.save(tmp_path / "b.h5")).info == found.info


@pytest.mark.usefixtures("overviews")
@pytest.mark.parametrize(
    "other", [{"device": "cpu", "threads": 2}, pytest.param({"device": "cuda"}, marks=pytest.mark.gpu)]
)
def test_the_same_bytes(other: dict[str, Any], tmp_path: Path) -> None:
    """With any number of threads, on any device, from a field or its file."""
    mesh, files = shapes.icosphere(2), []
    for more in ({"device": "cpu", "threads": 1}, other):
        files.append(sdfcli.build(mesh, tolerance=2e-3, **more).save(tmp_path / f"{len(files)}.h5"))
    again = sdfcli.load(files[0]).save(tmp_path / "again.h5")
    with h5py.File(again) as file:
        assert "coarse" in file
    assert files[0].read_bytes() == files[1].read_bytes() == again.read_bytes()


# ---- Hostile files ----


def resum(file: Any) -> None:
    attributes = {name: value for name, value in file.attrs.items() if name != "attributes_sha256"}
    file.attrs["attributes_sha256"] = np.bytes_(values_sha256(attributes))


def other_domain(file: Any) -> None:
    other = dataclasses.replace(built(), domain=dataclasses.replace(built().domain, length=0.5))
    replaced(file, other)


def replaced(file: Any, field: Field) -> None:
    """The overview is that of another field, with right sums."""
    with store.executor(1) as helpers:
        packed = store.pack(field, helpers, as_frame=True)
    del file["coarse"]
    packed.write(file.create_group("coarse"))
    file.attrs["coarse_sha256"] = packed.attributes["content_sha256"]


def linked(file: Any) -> None:
    file.move("coarse", "other")
    file["coarse"] = h5py.SoftLink("/other")


def outside(file: Any) -> None:
    del file["coarse"]
    file["coarse"] = h5py.ExternalLink("/dev/zero", "/")


def listed(file: Any) -> None:
    del file["coarse"]
    file["coarse"] = np.zeros(8, np.uint8)


def level(file: Any) -> None:
    data = file["coarse/leaf_level"][()]
    data[0] += 1
    file["coarse/leaf_level"][...] = data


HOSTILE: dict[str, tuple[Callable[[Any], object], str]] = {
    "another field": (lambda file: replaced(file, built()), "has more leaves than"),
    "another sum": (lambda file: file.attrs.modify("coarse_sha256", np.bytes_("0" * 64)), "coarse_sha256 does not"),
    "another domain": (other_domain, "the overview has another domain"),
    "no sum": (lambda file: file.attrs.__delitem__("coarse_sha256"), "coarse_sha256"),
    "a link": (linked, "coarse is a link"),
    "a link elsewhere": (outside, "coarse is a link"),
    "no group": (listed, "coarse must be a group"),
    "a level": (level, "does not match"),
    "no levels": (lambda file: file["coarse"].__delitem__("leaf_level"), "leaf_level must be"),
    "no attributes": (lambda file: file["coarse"].attrs.__delitem__("format"), "format is missing"),
    "a sequence": (lambda file: file["coarse"].attrs.__setitem__("format", np.bytes_(store.SEQUENCE)), "frames"),
    "another version": (lambda file: file.attrs.modify("format_version", 5), "format version 5"),
}


@pytest.mark.usefixtures("overviews")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_overviews(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = built().save(tmp_path / "a.h5")
    change, words = HOSTILE[name]
    with h5py.File(path, "r+") as file:
        change(file)
        resum(file)
    monkeypatch.setattr(store, "MOST_COARSE", built().leaves - 1)
    with pytest.raises(InputError, match=words) as caught:
        sdfcli.load(path, coarse=True)
    assert len(str(caught.value).splitlines()) == 1
    if name == "no sum":
        with pytest.raises(InputError, match="coarse_sha256"):
            sdfcli.load(path)


@pytest.mark.usefixtures("overviews")
def test_the_sums_cover_it(tmp_path: Path) -> None:
    path = built().save(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        replaced(file, overview_of(oracle.random_field(np.random.default_rng(1), 30)))
    for given in (False, True):
        with pytest.raises(InputError, match="attributes_sha256"):
            sdfcli.load(path, coarse=given)


@pytest.mark.usefixtures("overviews")
def test_damage_anywhere_in_it(rng: np.random.Generator, tmp_path: Path) -> None:
    """Any byte: an error, or the same overview."""
    path = built().save(tmp_path / "a.h5")
    whole, expected = path.read_bytes(), sdfcli.load(path, coarse=True)
    for place in rng.integers(0, len(whole) // 4, 150):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.integers(8)]) + whole[place + 1 :])
        try:
            found = sdfcli.load(path, coarse=True)
        except InputError:
            continue
        field_files.check_same(found, expected)


# ---- Remote files ----


@functools.cache
def remote_field() -> bytes:
    """The file of a field with random values, of all cells of level 6."""
    backend, rng = any_backend(), np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
    key, level = np.arange(8**6, dtype=np.uint64) << np.uint64(3 * 14), np.full(8**6, 6, np.uint8)
    corner_key = corner_keys(backend, key, level)
    distance = rng.normal(size=len(corner_key)).astype(np.float32)
    field = Field(Domain(np.array([1.0, 2.0, 3.0]), 4.0), key, level, corner_key, distance, {"note": "large"})
    with pytest.MonkeyPatch.context() as patch, store.executor(2) as helpers:
        patch.setattr(coarse, "LARGE", 1 << 17)
        return store.pack(field, helpers).image()


@pytest.fixture
def site() -> Iterator[web.Site]:
    with web.serving() as found:
        yield found


def test_only_the_beginning_is_fetched(site: web.Site, tmp_path: Path) -> None:
    site.content = remote_field()
    assert len(site.content) > 900_000
    (tmp_path / "a.h5").write_bytes(site.content)
    found, expected = sdfcli.load(site.address, coarse=True), sdfcli.load(tmp_path / "a.h5", coarse=True)
    field_files.check_same(found, expected)
    assert found.info == expected.info
    assert site.bytes_sent < 0.1 * len(site.content)
    assert site.sent[0] == (0, ranges.FIRST)
    points: npt.NDArray[np.float64] = np.random.default_rng(2).normal(size=(100, 3))
    np.testing.assert_array_equal(found.sample(points), expected.sample(points))


def test_a_small_field_is_fetched_whole(site: web.Site, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(remote_field())
    with h5py.File(path, "r+") as file:
        del file["coarse"]
        del file.attrs["coarse_sha256"]
        resum(file)
    site.content = path.read_bytes()
    field_files.check_same(sdfcli.load(site.address, coarse=True), sdfcli.load(path))
    assert site.bytes_sent <= len(site.content)
    assert len(site.sent) < 16


def test_a_large_one_without_an_overview(site: web.Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.content = built().save(tmp_path / "a.h5").read_bytes()
    monkeypatch.setattr(coarse, "LARGE", LARGE)
    with pytest.raises(InputError, match="has no overview; download it"):
        sdfcli.load(site.address, coarse=True)


def test_servers_that_send_something_else(site: web.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(words: str) -> None:
        with pytest.raises(InputError, match=words) as caught:
            sdfcli.load(site.address, coarse=True)
        assert str(caught.value).startswith(site.address)
        assert str(caught.value).count(site.address) == 1
        assert len(str(caught.value).splitlines()) == 1

    for content in (b"<html>", os.urandom(300_000), remote_field()[:100_000], b"\x89HDF\r\n\x1a\n" + bytes(200_000)):
        site.content = content
        fails("not an intact field file")
    site.content, site.short = remote_field(), 1
    fails("the server sent 65,535 of 65,536 bytes|cannot be fetched")
    site.short = 0
    monkeypatch.setattr(ranges, "MOST_FETCHED", ranges.FIRST - 1)
    fails("needs more than 0 MB of the file; download it first")
    site.content = b""
    fails("does not send parts|not an intact field")


def test_a_server_without_ranges(site: web.Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request's answer is cut off; there is no second one."""
    site.content, site.ranges = remote_field(), False
    assert sdfcli.load(site.address, coarse=True).leaves == 4096
    monkeypatch.setattr(ranges, "FIRST", ranges.BLOCK)
    with pytest.raises(InputError, match="cannot be fetched: The HTTP server doesn't appear to support range"):
        sdfcli.load(site.address, coarse=True)


def test_addresses_of_other_kinds() -> None:
    for name in ("ftp://127.0.0.1/a.h5", "zip://a.h5::http://127.0.0.1/a.zip"):
        with pytest.raises(UsageError, match="read in parts"):
            sdfcli.load(name, coarse=True)
    with pytest.raises(InputError, match="take addresses"):
        sdfcli.load("http://127.0.0.1/a.h5")


def test_blocks_are_fetched_once(rng: np.random.Generator) -> None:
    """Whatever is read, in any order, and all of it in few requests if it is in order."""
    content = rng.bytes(int(rng.integers(1, 40 * ranges.BLOCK)))
    asked: list[tuple[int, int]] = []

    def fetch(first: int, end: int) -> bytes:
        asked.append((first, end))
        return content[first:end]

    file = ranges.Ranges(fetch, len(content))
    pieces = rng.integers(0, len(content) + 1000, (20, 2)).tolist()

    def work() -> list[bytes]:
        found = [file.piece(size % 30_000, offset) for offset, size in pieces]
        for offset, _ in pieces:
            file.seek(offset)
            found.append(file.read(10) or b"")
            assert file.tell() == offset + len(found[-1])
        return found

    expected = [content[offset : offset + size % 30_000] for offset, size in pieces]
    assert file.read_by(work) == expected + [content[offset : offset + 10] for offset, _ in pieces]
    ends = sorted(asked)
    assert all(end <= first for (_, end), (first, _) in itertools.pairwise(ends))
    asked.clear()
    again = ranges.Ranges(fetch, len(content))
    assert again.read_by(lambda: b"".join(again.piece(1000, k) for k in range(0, len(content), 1000))) == content
    assert len(asked) <= 6


def test_a_swallowed_read_counts() -> None:
    """A library that goes on after a failed read is given the bytes, and asked again."""
    file = ranges.Ranges(lambda first, end: bytes(end - first), 10 * ranges.FIRST)

    def work() -> int:
        try:
            return len(file.piece(100, 5 * ranges.FIRST))
        except OSError:
            return -1

    assert file.read_by(work) == 100
    with pytest.raises(ZeroDivisionError):
        file.read_by(lambda: 1 // 0)
