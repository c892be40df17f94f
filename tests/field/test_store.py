"""Field files: what is written is read again, and hostile files are refused in one line."""

from __future__ import annotations

import dataclasses
import errno
import functools
import json
import os
import shutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import field_files
import oracle
import sdfcli
import shapes
from field_files import content_sha256_3, save_3
from sdfcli.errors import InputError, OutOfMemoryError, UsageError
from sdfcli.field import store
from sdfcli.field.chunks import fletcher32, unpacked
from sdfcli.field.field import Field
from sdfcli.field.hdf5 import values_sha256
from sdfcli.field.store import is_field, load, save
from sdfcli.octree.causes import JUMP, Cause

ARRAYS = ("leaf_key", "leaf_level", "corner_key", "distance")
ATTRIBUTES = ("format", "format_version", "domain_origin", "domain_length", "lattice_bits", "info")
LIMIT = 60
"""Seconds in which a few hundred small files must have been read or refused; it takes one or two."""

Change = Callable[[Any], None]


def make_field(seed: int = 1, splits: int = 6) -> Field:
    return oracle.random_field(np.random.default_rng(seed), splits, [0.5, -2.0, 1e3], 0.75)


@functools.cache
def coded_field() -> Field:
    """A small field whose distances are stored in steps."""
    field = sdfcli.build(shapes.torus(8, 5), device="cpu", depth=4, tolerance=0.02)
    assert field.step is not None
    assert len(set(field.leaf_level.tolist())) > 1
    return field


@functools.cache
def parted_field() -> Field:
    """A small field with distances stored in parts of steps: those around a thin wall."""
    field = sdfcli.build(shapes.box([0, 0, 0], [1, 0.6, 0.02]), device="cpu", tolerance=0.02)
    assert field.parts > 1
    return field


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(make_field(), tmp_path / "field.h5")


@pytest.fixture
def coded(tmp_path: Path) -> Path:
    return save(coded_field(), tmp_path / "coded.h5")


@pytest.fixture
def parted(tmp_path: Path) -> Path:
    return save(parted_field(), tmp_path / "parted.h5")


@pytest.fixture
def saved_1(tmp_path: Path) -> Path:
    return save_3(make_field(), tmp_path / "field_1.h5", 1)


@pytest.fixture
def saved_3(tmp_path: Path) -> Path:
    return save_3(make_field(), tmp_path / "field_3.h5", 3)


@pytest.fixture
def coded_3(tmp_path: Path) -> Path:
    return save_3(coded_field(), tmp_path / "coded_3.h5", 3)


@pytest.fixture(scope="module")
def whole_parted_3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_3(parted_field(), tmp_path_factory.mktemp("parted") / "parted_3.h5", 3)


@pytest.fixture
def parted_3(whole_parted_3: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole_parted_3, tmp_path))


def check_same(found: Field, field: Field) -> None:
    field_files.check_same(found, field)
    assert found.content_sha256 == field.content_sha256


def check_invariants(field: Field) -> None:
    """What everything that uses a field relies on."""
    assert [getattr(field, name).dtype for name in ARRAYS] == [np.uint64, np.uint8, np.uint64, np.float32]
    assert len(field.leaf_key) == len(field.leaf_level) > 0
    assert len(field.corner_key) == len(field.distance)
    assert np.isfinite(field.distance).all()
    assert field.domain.origin.shape == (3,)
    assert np.isfinite(field.domain.origin).all()
    assert 0 < field.domain.length < np.inf
    assert isinstance(field.info, dict)
    assert np.all(field.corner_key[1:] > field.corner_key[:-1])
    end = 0
    corners = set(field.corner_key.tolist())
    for key, level in zip(field.leaf_key.tolist(), field.leaf_level.tolist(), strict=True):
        assert level <= 16
        size = 2 ** (oracle.LATTICE_BITS - level)
        assert key == end, "each leaf begins where the one before ends"
        assert key % size**3 == 0
        end = key + size**3
        x, y, z = oracle.deinterleave(key)
        for i, j, k in np.ndindex(2, 2, 2):
            assert oracle.interleave(x + size * i, y + size * j, z + size * k) in corners
    assert end == 8**oracle.LATTICE_BITS


def check_refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message) > len(f"{path}: ") + 5
    assert "\n" not in message
    return message


# ---- Writing ----


@pytest.mark.parametrize("splits", [0, 1, 50, 500])
def test_round_trip(tmp_path: Path, splits: int) -> None:
    field = make_field(splits, splits)
    path = field.save(tmp_path / "field.h5")
    assert path == tmp_path / "field.h5"
    check_same(sdfcli.load(path), field)
    check_same(load(str(path)), field)
    check_invariants(load(path))


def test_round_trip_of_a_build(tmp_path: Path) -> None:
    field = sdfcli.build(shapes.torus(12, 7), device="cpu", depth=4, tolerance=0.01)
    found = load(field.save(tmp_path / "a name with spaces, and ünïcödé.h5"))
    check_same(found, field)
    check_invariants(found)
    points = np.random.default_rng(1).uniform(-1, 1, (100, 3))
    assert np.array_equal(found.sample(points), field.sample(points))
    assert found.run == {}


@pytest.mark.parametrize("unit", [0.01, 1.0, 1e4])
def test_lengths_are_fractions_of_any_unit(tmp_path: Path, unit: float) -> None:
    field = sdfcli.build(shapes.torus(8, 5), device="cpu", depth=2, tolerance=0.1, unit=unit, domain=(-9, -9, -9, 18))
    field.save(tmp_path / "a.h5")
    assert load(tmp_path / "a.h5").info == field.info


def test_nearest_triangles(tmp_path: Path) -> None:
    field = make_field(3)
    nearest = np.random.default_rng(1).integers(0, 2**32, len(field.corner_key), dtype=np.uint32)
    path = dataclasses.replace(field, nearest=nearest).save(tmp_path / "field.h5")
    found = load(path)
    check_same(found, field)
    assert found.nearest is not None
    assert np.array_equal(found.nearest, nearest)
    assert load(field.save(tmp_path / "without.h5")).nearest is None
    for name, change in (
        ("shorter", lambda a: a[1:]),
        ("signed", lambda a: a.astype(np.int32)),
        ("none", lambda a: a[:0]),
    ):
        with h5py.File(shutil.copy(path, tmp_path / name), "r+") as file:
            replaced("nearest", change)(file)
        check_refused(tmp_path / name)


def test_causes(tmp_path: Path) -> None:
    field = make_field(3)
    causes = np.random.default_rng(1).choice([*Cause, *(JUMP | cause for cause in Cause)], len(field.leaf_key))
    path = dataclasses.replace(field, leaf_cause=causes.astype(np.uint8)).save(tmp_path / "field.h5")
    found = load(path)
    check_same(found, field)
    assert found.leaf_cause is not None
    assert np.array_equal(found.leaf_cause, causes)
    assert not found.leaf_cause.flags.writeable
    assert found.save(tmp_path / "again.h5").read_bytes() == path.read_bytes()
    assert load(field.save(tmp_path / "without.h5")).leaf_cause is None
    with h5py.File(path, "r+") as file:
        replaced("leaf_cause", lambda a: a.astype(np.uint16))(file)
    check_refused(path)


def test_hostile_causes(tmp_path: Path) -> None:
    """Their checksums are right: lengths and values are looked at."""
    field = make_field(3)
    whole = np.full(len(field.leaf_key), Cause.ERROR, np.uint8)
    for cause in (whole[1:], np.append(whole, whole[:1])):
        path = dataclasses.replace(field, leaf_cause=cause).save(tmp_path / "a.h5", True)
        assert "differ in length" in check_refused(path)
    for byte in (max(Cause) + 1, JUMP - 1, JUMP + max(Cause) + 1, 0xFF):
        path = dataclasses.replace(field, leaf_cause=np.append(whole[1:], np.uint8(byte))).save(tmp_path / "a.h5", True)
        assert "unknown cause" in check_refused(path)


def test_extreme_values(tmp_path: Path) -> None:
    field = make_field()
    distance = field.distance.copy()
    distance[:6] = [0, -0.0, 3.4e38, -3.4e38, 1e-45, -1e-38]
    field = dataclasses.replace(field, distance=distance)
    field.info["text"] = 'quotes " and \\ and ünïcödé and \n'
    check_same(load(field.save(tmp_path / "field.h5")), field)


def test_equal_fields_give_equal_files(tmp_path: Path) -> None:
    one, two = (make_field().save(tmp_path / name) for name in ("one.h5", "two.h5"))
    assert one.read_bytes() == two.read_bytes()
    other = make_field(2).save(tmp_path / "other.h5")
    assert other.read_bytes() != one.read_bytes()


def test_two_threads_write_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both_open, write = threading.Barrier(2, timeout=LIMIT), store.PackedField.write

    def write_together(field: store.PackedField, group: Any) -> None:
        both_open.wait()
        write(field, group)

    monkeypatch.setattr(store.PackedField, "write", write_together)
    fields = [make_field(seed) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        paths = list(threads.map(lambda k: save(fields[k], tmp_path / f"{k}.h5"), range(2)))
    assert [load(path).content_sha256 for path in paths] == [field.content_sha256 for field in fields]


def test_the_file_describes_itself(saved: Path) -> None:
    field = make_field()
    with h5py.File(saved) as file:
        words = {name: value.decode() if isinstance(value, bytes) else value for name, value in file.attrs.items()}
        assert words["format"] == "sdfcli-adf"
        assert words["format_version"] == 4
        assert words["lattice_bits"] == oracle.LATTICE_BITS
        assert words["tool_version"] == sdfcli.__version__
        assert words["content_sha256"] == field.content_sha256
        assert json.loads(words["info"]) == field.info
        assert words["corners"] == len(field.corner_key)
        assert set(file) == {"leaf_level", "distance", *store.UNPACKED}


def test_a_build_describes_itself(coded: Path) -> None:
    with h5py.File(coded) as file:
        assert set(file) == {"leaf_level", "residual", *store.UNPACKED}
        assert file.attrs["distance_step"] == coded_field().step
        assert file["residual"].dtype in (np.uint8, np.uint16)


def test_a_build_with_parts_of_steps_describes_itself(parted: Path, tmp_path: Path) -> None:
    field = parted_field()
    with h5py.File(parted) as file:
        assert set(file) == {"leaf_level", "residual", "residual_part", *store.UNPACKED}
        assert file.attrs["distance_parts"] == field.parts
        assert field.step is not None
        assert file.attrs["distance_step"] == field.step * field.parts
        assert len(file["residual"]) == len(file["residual_part"]) < len(field.distance)
    found = load(parted)
    check_same(found, field)
    check_invariants(found)
    assert (found.step, found.parts) == (field.step, field.parts)
    assert save(found, tmp_path / "again.h5").read_bytes() == parted.read_bytes()


@pytest.mark.parametrize("make", [make_field, coded_field, parted_field])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_earlier_versions(tmp_path: Path, make: Callable[[], Field], version: int) -> None:
    field = make()
    nearest = np.arange(len(field.corner_key), dtype=np.uint32)
    causes = np.full(len(field.leaf_key), Cause.ERROR, np.uint8)
    field = dataclasses.replace(field, nearest=nearest, leaf_cause=causes)
    found = load(save_3(field, tmp_path / "old.h5", version))
    field_files.check_same(found, field)
    assert found.content_sha256 == content_sha256_3(field)
    if version > 1:
        assert (found.step, found.parts) == (field.step, field.parts)
        assert np.array_equal(found.nearest, nearest)  # type: ignore[arg-type]
        assert np.array_equal(found.leaf_cause, causes)  # type: ignore[arg-type]
    again = load(found.save(tmp_path / "again.h5"))
    check_same(again, dataclasses.replace(found))
    if version > 1:
        assert again.save(tmp_path / "more.h5").read_bytes() == field.save(tmp_path / "new.h5").read_bytes()


@pytest.mark.parametrize("change", [lambda d: np.nextafter(d, np.float32(9)), lambda d: d * 0 + np.float32(3e38)])
def test_distances_that_are_no_steps(tmp_path: Path, change: Change) -> None:
    field = coded_field()
    field = dataclasses.replace(field, distance=change(field.distance))
    path = field.save(tmp_path / "field.h5")
    check_same(load(path), field)
    with h5py.File(path) as file:
        assert set(file) == {"leaf_level", "distance", *store.UNPACKED}


def test_nothing_is_overwritten_unless_forced(saved: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(UsageError, match=r"field\.h5: exists"):
        save(make_field(2), saved)
    assert saved.read_bytes() == before
    save(make_field(2), saved, force=True)
    check_same(load(saved), make_field(2))
    assert os.listdir(saved.parent) == ["field.h5"]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "field.h5"

    def meanwhile(_: int) -> None:
        path.write_text("someone else's")

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(UsageError, match="exists"):
        save(make_field(), path)
    assert path.read_text() == "someone else's"
    assert os.listdir(tmp_path) == ["field.h5"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(OSError(errno.EPERM, "no links")))
    check_same(load(save(make_field(), tmp_path / "field.h5")), make_field())
    assert os.listdir(tmp_path) == ["field.h5"]


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("owner", "name"), [(h5py, "File"), (h5py.Group, "create_dataset"), (os, "fsync"), (os, "replace")]
)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing_behind(
    saved: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    before = saved.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing(error))
        with pytest.raises(UsageError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
            save(make_field(2), saved, force=True)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{saved}: cannot be written: No space left on device"
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == ["field.h5"]


@pytest.mark.parametrize("force", [False, True])
def test_names_that_cannot_be_written(tmp_path: Path, force: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "file").touch()
    for path in (folder, tmp_path / "file" / "field.h5", tmp_path / ("x" * 300 + ".h5")):
        with pytest.raises(UsageError, match=path.name[:40]):
            save(make_field(), path, force)
        assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
        assert os.listdir(folder) == []


def test_missing_folders_are_created(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "field.h5"
    save(make_field(), path)
    assert os.listdir(path.parent) == ["field.h5"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written"):
        save(make_field(), tmp_path / "field.h5")
    tmp_path.chmod(0o700)
    assert os.listdir(tmp_path) == []


# ---- Files that are no field ----


def test_no_file(tmp_path: Path) -> None:
    assert "no such file" in check_refused(tmp_path / "nothing.h5")
    assert "folder" in check_refused(tmp_path)
    check_refused(tmp_path / ("x" * 300))


@pytest.mark.parametrize("content", [b"", b"\n", b"solid\nendsolid\n", b"\x89HDF\r\n\x1a\n", bytes(4096)])
def test_other_content(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.h5"
    path.write_bytes(content)
    check_refused(path)


def test_is_field(saved: Path, tmp_path: Path) -> None:
    assert is_field(saved)
    (tmp_path / "other").write_text("other")
    assert not is_field(tmp_path / "other")
    assert not is_field(tmp_path / "missing")
    assert not is_field(tmp_path)


def test_another_hdf5_file(tmp_path: Path) -> None:
    path = tmp_path / "other.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.arange(3)
    check_refused(path)


# ---- Files that were a field ----


def attribute(name: str, value: Any) -> Change:
    def change(file: Any) -> None:
        file.attrs[name] = value

    return change


def no_attribute(name: str) -> Change:
    def change(file: Any) -> None:
        del file.attrs[name]

    return change


def replaced(name: str, value: Callable[[Any], Any], **options: Any) -> Change:
    """The dataset `name` becomes value(its array)."""

    def change(file: Any) -> None:
        old = file[name][()]
        del file[name]
        file.create_dataset(name, data=value(old), **options)

    return change


def edited(name: str, place: Any, value: Any) -> Change:
    """One entry of the array becomes another, or value(the old one)."""

    def edit(array: Any) -> Any:
        array = array.copy()
        array[place] = value(array[place]) if callable(value) else value
        return array

    return replaced(name, edit)


def several(*changes: Change) -> Change:
    def change(file: Any) -> None:
        for one in changes:
            one(file)

    return change


def huge(name: str, dtype: Any, shape: Any) -> Change:
    """A dataset of any size, without content."""

    def change(file: Any) -> None:
        del file[name]
        file.create_dataset(
            name, shape=shape, dtype=dtype, chunks=(1024,) * len(np.atleast_1d(shape)), compression="gzip"
        )

    return change


def virtual(file: Any) -> None:
    array = file["distance"][()]
    del file["distance"]
    file["elsewhere"] = array
    layout = h5py.VirtualLayout(array.shape, np.float32)
    layout[:] = h5py.VirtualSource(".", "elsewhere", array.shape)
    file.create_virtual_dataset("distance", layout)


def external(file: Any) -> None:
    array = file["distance"][()]
    del file["distance"]
    Path(file.filename + ".raw").write_bytes(array.tobytes())
    file.create_dataset("distance", array.shape, np.float32, external=[(file.filename + ".raw", 0, array.nbytes)])


def linked(file: Any) -> None:
    """A dataset that lies in another file."""
    array = file["distance"][()]
    del file["distance"]
    other = Path(file.filename).with_name("other.h5")
    with h5py.File(other, "w") as more:
        more["distance"] = array
    file["distance"] = h5py.ExternalLink(other.name, "distance")


def linked_within(file: Any) -> None:
    file.move("distance", "elsewhere")
    file["distance"] = h5py.SoftLink("/elsewhere")


def linked_through(file: Any) -> None:
    """A path that leaves the file in its first part."""
    with h5py.File(Path(file.filename).with_name("other.h5"), "w") as more:
        more["group/distance"] = file["distance"][()]
    del file["distance"]
    file["away"] = h5py.ExternalLink("other.h5", "/group")
    file["distance"] = h5py.SoftLink("/away/distance")


def dangling(file: Any) -> None:
    del file["distance"]
    file["distance"] = h5py.SoftLink("/nowhere")


def circular(file: Any) -> None:
    del file["distance"]
    file["distance"] = h5py.SoftLink("/distance")


def group(file: Any) -> None:
    del file["distance"]
    file.create_group("distance")


def missing(file: Any) -> None:
    del file["leaf_level"]


def empty(file: Any) -> None:
    del file["distance"]
    file["distance"] = h5py.Empty("f4")


CHANGES: dict[str, Change] = {
    **{f"no {name}": no_attribute(name) for name in ATTRIBUTES},
    "other format": attribute("format", "other"),
    "format is a number": attribute("format", 1),
    "format is empty": attribute("format", h5py.Empty("S4")),
    "newer version": attribute("format_version", 5),
    "version 0": attribute("format_version", 0),
    "version is a word": attribute("format_version", "one"),
    "version is a list": attribute("format_version", [1, 1]),
    "version is empty": attribute("format_version", h5py.Empty("i4")),
    "version is huge": attribute("format_version", np.uint64(2**63 + 1)),
    "other lattice": attribute("lattice_bits", 21),
    "origin is short": attribute("domain_origin", [0.0, 0.0]),
    "origin is one number": attribute("domain_origin", 0.0),
    "origin is square": attribute("domain_origin", np.zeros((3, 3))),
    "origin is not finite": attribute("domain_origin", [0.0, np.nan, 0.0]),
    "origin is text": attribute("domain_origin", "origin"),
    "length is 0": attribute("domain_length", 0.0),
    "length is negative": attribute("domain_length", -1.0),
    "length is not finite": attribute("domain_length", np.inf),
    "length is NaN": attribute("domain_length", np.nan),
    "length is text": attribute("domain_length", "long"),
    "length is a list": attribute("domain_length", [1.0, 2.0]),
    "length is complex": attribute("domain_length", 1 + 2j),
    "length is tiny": attribute("domain_length", 1e-300),
    "length is huge": attribute("domain_length", 1e300),
    "origin is complex": attribute("domain_origin", [1j, 0.0, 0.0]),
    "origin is far away": attribute("domain_origin", [1e300, 0.0, 0.0]),
    "format is a list": attribute("format", [b"sdfcli-adf"]),
    "version is real": attribute("format_version", 2.5),
    "info is not JSON": attribute("info", "{"),
    "info is a list": attribute("info", "[]"),
    "info is deep": attribute("info", "[" * 50_000),
    "info is not text": attribute("info", b"\xff\xfe"),
    "info is a number": attribute("info", 1.5),
    "no leaf levels": missing,
    "a group": group,
    "a null dataset": empty,
    "a scalar": replaced("distance", lambda a: a[0]),
    "two dimensions": replaced("distance", lambda a: a[:, None]),
    "float64": replaced("distance", lambda a: a.astype(np.float64)),
    "float16": replaced("distance", lambda a: a.astype(np.float16)),
    "big-endian": replaced("distance", lambda a: a.astype(">f4")),
    "wide levels": replaced("leaf_level", lambda a: a.astype(np.uint16)),
    "text": replaced("distance", lambda a: [str(x) for x in a]),
    "records": replaced("distance", lambda a: a.view([("x", "f4")])),
    "shorter levels": replaced("leaf_level", lambda a: a[:-1]),
    "more distances": replaced("distance", lambda a: np.append(a, a[:1])),
    "huge distances": huge("distance", np.float32, 2**31),
    "more than all memory": huge("distance", np.float32, 2**60),
    "huge square": huge("distance", np.float32, (2**20, 2**20)),
    "virtual": virtual,
    "external": external,
    "linked": linked,
    "linked within the file": linked_within,
    "linked through a group": linked_through,
    "dangling": dangling,
    "circular": circular,
    "distance is NaN": edited("distance", 3, np.nan),
    "distance is infinite": edited("distance", -1, -np.inf),
    "level too deep": edited("leaf_level", 0, 17),
    "level 255": edited("leaf_level", -1, 255),
    "level off by one": edited("leaf_level", 0, lambda level: level + 1),
    "level less by one": edited("leaf_level", 0, lambda level: level - 1),
}

CHANGES_1: dict[str, Change] = {
    **CHANGES,
    "no entries": replaced("leaf_key", lambda a: a[:0]),
    "signed keys": replaced("leaf_key", lambda a: a.astype(np.int64)),
    "small keys": replaced("corner_key", lambda a: a.astype(np.uint32)),
    "huge leaves": several(huge("leaf_key", np.uint64, 2**32 - 20), huge("leaf_level", np.uint8, 2**32 - 20)),
    "first leaf is not at 0": edited("leaf_key", 0, 1),
    "last leaf beyond the end": edited("leaf_key", -1, 8**20),
    "leaf far beyond the end": edited("leaf_key", -1, 2**64 - 1),
    "leaves swapped": replaced("leaf_key", lambda a: a[[1, 0, *range(2, len(a))]]),
    "leaves reversed": several(replaced("leaf_key", lambda a: a[::-1]), replaced("leaf_level", lambda a: a[::-1])),
    "leaf twice": several(
        replaced("leaf_key", lambda a: np.append(a[:1], a)), replaced("leaf_level", lambda a: np.append(a[:1], a))
    ),
    "leaf missing": several(
        replaced("leaf_key", lambda a: np.delete(a, 3)), replaced("leaf_level", lambda a: np.delete(a, 3))
    ),
    "last leaf missing": several(replaced("leaf_key", lambda a: a[:-1]), replaced("leaf_level", lambda a: a[:-1])),
    "corners swapped": replaced("corner_key", lambda a: a[[1, 0, *range(2, len(a))]]),
    "corner twice": edited("corner_key", 1, 0),
    "corner moved": edited("corner_key", -1, 2**64 - 1),
    "first corner missing": several(replaced("corner_key", lambda a: a[1:]), replaced("distance", lambda a: a[1:])),
    "corner missing": several(
        replaced("corner_key", lambda a: np.delete(a, 9)), replaced("distance", lambda a: np.delete(a, 9))
    ),
    "last corner missing": several(replaced("corner_key", lambda a: a[:-1]), replaced("distance", lambda a: a[:-1])),
}


def check_refused_sealed(fuzz: Any, path: Path, change: Change) -> str:
    """A change must be refused for what it is, also where the checksums fit it."""
    with h5py.File(path, "r+") as file:
        change(file)
        fuzz.seal(file)
    message = check_refused(path)
    assert "does not match" not in message
    return message


@pytest.mark.parametrize("name", CHANGES_1)
def test_changed_files_of_version_1(fuzz: Any, saved_1: Path, name: str) -> None:
    check_refused_sealed(fuzz, saved_1, CHANGES_1[name])


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", ["saved", "saved_3"])
def test_changed_files(fuzz: Any, request: pytest.FixtureRequest, kind: str, name: str) -> None:
    check_refused_sealed(fuzz, request.getfixturevalue(kind), CHANGES[name])


CODED_CHANGES: dict[str, Change] = {
    "no step": no_attribute("distance_step"),
    "step is 0": attribute("distance_step", 0.0),
    "step is negative": attribute("distance_step", -1.0),
    "step is NaN": attribute("distance_step", np.nan),
    "step is infinite": attribute("distance_step", np.inf),
    "step is text": attribute("distance_step", "fine"),
    "step is a list": attribute("distance_step", [1.0, 2.0]),
    "steps beyond float32": attribute("distance_step", 1e300),
    "no residuals": replaced("residual", lambda a: a[:0]),
    "fewer residuals": replaced("residual", lambda a: a[:-1]),
    "more residuals": replaced("residual", lambda a: np.append(a, a[:1])),
    "fewer residuals than leaves": replaced("residual", lambda a: a[:5]),
    "signed residuals": replaced("residual", lambda a: a.astype(np.int16)),
    "wide residuals": replaced("residual", lambda a: a.astype(np.uint64)),
    "real residuals": replaced("residual", lambda a: a.astype(np.float32)),
    "two dimensions": replaced("residual", lambda a: a[:, None]),
    "huge residuals": huge("residual", np.uint8, 2**31),
    "huge both": several(huge("residual", np.uint8, 2**31), huge("leaf_level", np.uint8, 2**31 - 1)),
    "no levels": replaced("leaf_level", lambda a: a[:0]),
    "wide levels": replaced("leaf_level", lambda a: a.astype(np.uint16)),
    "level 255": edited("leaf_level", 0, 255),
    "level less by one": edited("leaf_level", -1, lambda level: level - 1),
    "leaf missing": replaced("leaf_level", lambda a: a[1:]),
    "leaf twice": replaced("leaf_level", lambda a: np.append(a, a[-1:])),
    "levels shifted": replaced("leaf_level", lambda a: np.roll(a, 1)),
    "levels sorted": replaced("leaf_level", np.sort),
    "a single leaf": replaced("leaf_level", lambda a: np.zeros(1, np.uint8)),
}


@pytest.mark.parametrize("name", CODED_CHANGES)
@pytest.mark.parametrize("kind", ["coded", "coded_3"])
def test_changed_files_of_steps(fuzz: Any, request: pytest.FixtureRequest, kind: str, name: str) -> None:
    check_refused_sealed(fuzz, request.getfixturevalue(kind), CODED_CHANGES[name])


PARTED_CHANGES: dict[str, Change] = {
    "no parts": no_attribute("distance_parts"),
    "parts of 0": attribute("distance_parts", 0),
    "one part": attribute("distance_parts", 1),
    "three parts": attribute("distance_parts", 3),
    "too many parts": attribute("distance_parts", 256),
    "negative parts": attribute("distance_parts", -2),
    "real parts": attribute("distance_parts", 2.5),
    "parts are text": attribute("distance_parts", "two"),
    "parts are a list": attribute("distance_parts", [2, 2]),
    "no entries": replaced("residual_part", lambda a: a[:0]),
    "fewer": replaced("residual_part", lambda a: a[:-1]),
    "more": replaced("residual_part", lambda a: np.append(a, a[:1])),
    "signed": replaced("residual_part", lambda a: a.astype(np.int8)),
    "wide": replaced("residual_part", lambda a: a.astype(np.uint16)),
    "real": replaced("residual_part", lambda a: a.astype(np.float32)),
    "two dimensions": replaced("residual_part", lambda a: a[:, None]),
    "huge": huge("residual_part", np.uint8, 2**31),
}
PARTED_CHANGES_3: dict[str, Change] = {
    **PARTED_CHANGES,
    "residuals beyond 32 bits": replaced("residual", lambda a: a.astype(np.uint32) + np.uint32(2**31)),
    "residuals at the end": replaced("residual", lambda a: np.full(len(a), 2**32 - 1, np.uint32)),
}


@pytest.mark.parametrize("name", PARTED_CHANGES)
def test_changed_files_of_parts(fuzz: Any, parted: Path, name: str) -> None:
    check_refused_sealed(fuzz, parted, PARTED_CHANGES[name])


@pytest.mark.parametrize("name", PARTED_CHANGES_3)
def test_changed_files_of_parts_of_version_3(fuzz: Any, parted_3: Path, name: str) -> None:
    check_refused_sealed(fuzz, parted_3, PARTED_CHANGES_3[name])


def test_levels_that_would_fill_all_memory(fuzz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A few bytes are enough for millions of equal levels; what follows from these takes far more.
    from sdfcli.backend.cpu import CpuBackend

    path = save(make_field(), tmp_path / "field.h5")
    lists = {"leaf_level": np.full(8**6, 6, np.uint8), "distance": np.zeros(65**3, np.float32)}
    with h5py.File(path, "r+") as file:
        for name, data in lists.items():
            del file[name]
            file.create_dataset(name, data=data, chunks=(1 << 16,), compression=9)
        on_level = [(2 ** (level + 1) + 1) ** 3 - (2**level + 1) ** 3 for level in range(6)]
        replaced("block", lambda _: np.array([0, 8**6, *on_level, *10 * [0]], np.uint32))(file)
        file.attrs["corners"] = 65**3
        fuzz.seal(file)
    assert len(load(path).leaf_key) == 8**6
    monkeypatch.setattr(CpuBackend, "memory_free", lambda self: 10**7)
    with pytest.raises(OutOfMemoryError, match="do not fit into memory"):
        load(path)


def test_harmless_changes(fuzz: Any, saved: Path, saved_1: Path) -> None:
    # Other packing, and more than is asked for, as other programs may write it.
    for path, names in ((saved, ("leaf_level", "distance", *store.UNPACKED)), (saved_1, ARRAYS)):
        with h5py.File(path, "r+") as file:
            file.attrs["more"] = np.bytes_("more")
            fuzz.seal(file)
            file.create_group("more")
            for name in names:
                replaced(name, lambda array: array)(file)
        field_files.check_same(load(path), make_field())


# ---- Files of noise ----

READER = """
import sys
from sdfcli.errors import InputError
from sdfcli.field.store import load
for path in sys.stdin.read().splitlines():
    print("?", path, sep="\\t", flush=True)
    try:
        load(path)
    except InputError as error:
        print("refused", path, repr(str(error)), sep="\\t", flush=True)
    else:
        print("read", path, sep="\\t", flush=True)
"""


def read_all(paths: list[Path]) -> list[Path]:
    """Has another process read the files: HDF5 may crash, or never return. Returns those that were read."""
    lines = "".join(f"{path}\n" for path in paths)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", READER], input=lines, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        last = (error.stdout or b"").decode().splitlines()[-1]
        pytest.fail(f"load() does not return: {last.split(chr(9))[1]}", pytrace=False)
    answers = [line.split("\t") for line in ended.stdout.splitlines()]
    assert ended.returncode == 0, (answers[-1:], ended.stderr[-2000:])
    answers = [answer for answer in answers if answer[0] != "?"]
    assert [Path(answer[1]) for answer in answers] == paths
    for word, path, *message in answers:
        if word == "refused":
            assert path in message[0]
            assert "\\n" not in message[0]
    return [Path(path) for word, path, *_ in answers if word == "read"]


def damaged(rng: np.random.Generator, content: bytes) -> bytes:
    """Cut off, or with some bits or bytes changed, or a block of them."""
    noisy = bytearray(content)
    kind = rng.integers(0, 4)
    if kind == 0:
        return content[: rng.integers(len(content))]
    if kind == 1:
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            noisy[place] ^= 1 << rng.integers(8)
    elif kind == 2:
        for place in rng.integers(0, len(content), rng.integers(1, 30)):
            noisy[place] = rng.integers(256)
    else:
        place, length = rng.integers(len(content)), rng.integers(1, 64)
        noisy[place : place + length] = rng.bytes(length) if rng.random() < 0.5 else bytes([255]) * length
    return bytes(noisy)


@pytest.mark.parametrize("kind", ["saved", "coded", "saved_1", "coded_3"])
def test_noise(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(7)
    paths = [tmp_path / f"{k}.h5" for k in range(120)]
    content = request.getfixturevalue(kind).read_bytes()
    for path in paths:
        path.write_bytes(damaged(rng, content))
    read = read_all(paths)
    assert len(read) < len(paths)
    for path in read:
        check_invariants(load(path))


def test_noise_in_a_heap_of_texts(saved: Path, tmp_path: Path) -> None:
    # HDF5 keeps texts of variable length in a heap, and never comes back from some that are broken.
    with h5py.File(saved, "r+") as file:
        for name, value in list(file.attrs.items()):
            if isinstance(value, bytes | str):
                text = value.decode() if isinstance(value, bytes) else value
                file.attrs.create(name, text, dtype=h5py.string_dtype())
    content = saved.read_bytes()
    heap = content.index(b"GCOL")
    paths = []
    for place in range(heap + 4, heap + 84):
        for value in (0, 1, 2, 255):
            noisy = bytearray(content)
            noisy[place] = value
            paths.append(tmp_path / f"{place}-{value}.h5")
            paths[-1].write_bytes(noisy)
    for path in read_all(paths):
        check_invariants(load(path))


@pytest.mark.parametrize("content", [b"x", b"abc", b"abcdefg"])
@pytest.mark.parametrize(
    ("kind", "name"), [*(("saved_1", name) for name in ARRAYS), ("coded", "residual"), ("saved", "distance")]
)
def test_chunks_shorter_than_their_checksum(
    request: pytest.FixtureRequest, kind: str, name: str, content: bytes
) -> None:
    saved = request.getfixturevalue(kind)
    # HDF5 computes the checksum of what comes before its last four bytes, whether or not there are so many.
    with h5py.File(saved, "r+") as file:
        file[name].id.write_direct_chunk((0,), content)
    code = f"import sdfcli\ntry:\n    sdfcli.load({str(saved)!r})\nexcept sdfcli.errors.InputError as e:\n    print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "it crashed"
    assert name in done.stdout


def summed(data: bytes) -> bytes:
    return data + fletcher32(data).to_bytes(4, "little")


def chunk_contents(raw: bytes) -> dict[str, bytes]:
    """Chunks that fit their checksum, but not their dataset of so many bytes."""
    whole = zlib.compress(raw)
    return {
        "empty": summed(zlib.compress(b"")),
        "a byte": summed(zlib.compress(raw[:1])),
        "a byte less": summed(zlib.compress(raw[:-1])),
        "a byte more": summed(zlib.compress(raw + b"x")),
        "very much": summed(zlib.compress(bytes(1 << 24))),
        "a cut stream": summed(whole[:-6]),
        "a stream and more": summed(whole + b"x"),
        "another sum of zlib": summed(whole[:-1] + bytes([whole[-1] ^ 1])),
        "noise": summed(bytes(range(200))),
        "nothing but a sum": summed(b""),
        "another sum": whole + b"abcd",
    }


def test_chunks_that_unpack_to_another_size(coded_3: Path, saved: Path, parted: Path, tmp_path: Path) -> None:
    """HDF5 reads beyond the end of what a chunk unpacks to."""
    paths = []
    for source in (coded_3, saved, parted):
        for name in set(read_names(source)) - set(store.UNPACKED):
            with h5py.File(source, "r") as file:
                raw = bytes(file[name].chunks[0] * file[name].dtype.itemsize)
            for kind, content in chunk_contents(raw).items():
                paths.append(tmp_path / f"{source.stem}-{name}-{kind}.h5")
                paths[-1].write_bytes(source.read_bytes())
                with h5py.File(paths[-1], "r+") as file:
                    file[name].id.write_direct_chunk((0,), content)
            paths.append(tmp_path / f"{source.stem}-{name}-skipped.h5")
            paths[-1].write_bytes(source.read_bytes())
            with h5py.File(paths[-1], "r+") as file:
                file[name].id.write_direct_chunk((0,), raw, filter_mask=7)
    assert read_all(paths) == []


def read_names(path: Path) -> list[str]:
    with h5py.File(path, "r") as file:
        return list(file)


def test_chunks_longer_than_their_dataset(saved: Path) -> None:
    """A file of 4 MB may have a chunk that unpacks to 4 GB."""
    with h5py.File(saved, "r+") as file:
        levels = file["leaf_level"][()]
        del file["leaf_level"]
        packing = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        file.create_dataset("leaf_level", data=levels, chunks=(1 << 20,), maxshape=(None,), **packing)
    assert "leaf_level has chunks that are longer" in check_refused(saved)


@pytest.mark.parametrize("kind", ["saved", "coded_3"])
def test_chunks_beyond_their_dataset(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    content = request.getfixturevalue(kind).read_bytes()
    path, places, at = tmp_path / "other.h5", list[int](), -1
    while (at := content.find(b"TREE\x01", at + 1)) >= 0:  # an index of chunks; from byte 32 on, the first one's place
        places.append(at + 32)
    assert places
    for at in places:
        for place in (1 << 60, 2**64 - 1, *(length << 40 for length in range(20, 400, 19))):
            noisy = bytearray(content)
            noisy[at : at + 8] = place.to_bytes(8, "little")
            path.write_bytes(noisy)
            check_refused(path)


def test_a_chunk_that_is_missing(saved: Path) -> None:
    with h5py.File(saved, "r+") as file:
        length, kind, options = len(file["leaf_level"]), file["leaf_level"].dtype, file["leaf_level"].chunks
        del file["leaf_level"]
        packing = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        file.create_dataset("leaf_level", length, kind, chunks=options, **packing)
    assert "leaf_level" in check_refused(saved)


@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(min_size=8, max_size=400),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    filters=st.lists(st.sampled_from([1, 3]), unique=True),
    shuffled=st.booleans(),
)
def test_chunks_are_unpacked_as_by_hdf5(data: bytes, itemsize: int, filters: list[int], shuffled: bool) -> None:
    """Whatever the order of the filters."""
    entries = np.frombuffer(data[: len(data) // itemsize * itemsize], f"u{itemsize}")
    codes = [2] * shuffled + filters
    with h5py.File("unpacked", "w", driver="core", backing_store=False) as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((len(entries),))
        for code in codes:
            plist.set_filter(code, values=(6,) if code == 1 else ())
        space = h5py.h5s.create_simple((len(entries),))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(entries.dtype), space, plist))
        dataset[...] = entries
        _, chunk = dataset.id.read_direct_chunk((0,))
    assert unpacked(chunk, codes, itemsize, entries.nbytes).tobytes() == entries.tobytes()


def test_a_dataset_that_is_called_otherwise(tmp_path: Path) -> None:
    """Nothing that is said to be there may be passed over."""
    path = tmp_path / "field.h5"
    sdfcli.build(shapes.octahedron(), depth=3, tolerance=0.05, device="cpu", nearest=True, why=True, prove=True).save(
        path
    )
    whole = path.read_bytes()
    for name in read_names(path):
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            file.move(name, "other")
        assert name not in store.OPTIONAL or f"{name}_sha256" in check_refused(path)
        check_refused(path)
    for name in store.OPTIONAL:
        path.write_bytes(whole)
        with h5py.File(path, "r+") as file:
            del file.attrs[f"{name}_sha256"]
            attributes = {each: value for each, value in file.attrs.items() if each != "attributes_sha256"}
            file.attrs["attributes_sha256"] = np.bytes_(values_sha256(attributes))
        assert f"{name}_sha256" in check_refused(path)


def test_filters_with_other_parameters(saved: Path) -> None:
    with h5py.File(saved, "r+") as file:
        data = file["leaf_level"][()]
        del file["leaf_level"]
        file.create_dataset("leaf_level", data=data, chunks=(len(data),), compression="lzf")
    assert "packed" in check_refused(saved)
