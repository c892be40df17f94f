"""Files of sequences: what is written is read again, and hostile files are refused in one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import field_files
import sdfcli
import sequences
import shapes
from sdfcli.errors import InputError, UsageError
from sdfcli.field import store
from sdfcli.field.hdf5 import attributes_sha256
from sdfcli.mesh.mesh import Domain
from sdfcli.sequence.file import content_sha256, is_sequence, load_sequence

SMALL = {"depth": 3, "tolerance": 0.05}
TIMES = [0.0, 0.5, 0.75, 2.0]
FRAMES = [*sequences.bending(shapes.cube(), 3), shapes.octahedron()]

Change = Callable[[Any], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sequences.write(tmp_path_factory.mktemp("sequence") / "original.h5", FRAMES, TIMES, **SMALL)


@pytest.fixture
def saved(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "anim.h5"))


def test_round_trip(saved: Path) -> None:
    found = sdfcli.load_sequence(saved)
    assert len(found) == 4
    assert found.times.tolist() == TIMES
    step = np.linalg.norm(FRAMES[1][0] - FRAMES[0][0], axis=1).max()
    assert found.motion[1] == pytest.approx(step)
    assert np.isnan(found.motion).tolist() == [True, False, False, True]
    fields = list(sdfcli.build_sequence(FRAMES, device="cpu", **SMALL))
    for index, field in enumerate(fields):
        read = found.at(index)
        assert read.content_sha256 == field.content_sha256
        assert read.info == field.info
        assert read.nearest is None
        assert read.domain.length == found.domain.length
    assert found.info["parameters"] == fields[0].info["parameters"]
    assert found.info["signs"] == {"pseudonormal": 4}
    assert found.info["max_error"] == max(field.info["max_error"] for field in fields)


def test_a_frame_is_a_field_file(saved: Path, tmp_path: Path) -> None:
    field = load_sequence(saved).at(2)
    with h5py.File(saved) as file, h5py.File(field.save(tmp_path / "field.h5")) as alone:
        group = file["frame/000002"]
        assert set(group) == set(alone)
        assert set(group.attrs) == set(alone.attrs)
        assert all(np.array_equal(group[name][()], alone[name][()]) for name in alone)
        assert all(np.array_equal(group.attrs[name], alone.attrs[name]) for name in alone.attrs)


def test_frames_of_earlier_versions(saved: Path) -> None:
    fields = [load_sequence(saved).at(k) for k in range(4)]
    with h5py.File(saved, "r+") as file:
        for k in (0, 1, 3):
            del file[f"frame/{k:06}"]
            field_files.write_3(fields[k], file.create_group(f"frame/{k:06}"), 3 if k else 2)
        hashes = [file[f"frame/{k:06}"].attrs["content_sha256"].decode() for k in range(4)]
        domain = fields[0].domain
        content = content_sha256(domain, file["time"][()], file["motion"][()], hashes)
        file.attrs["content_sha256"] = np.bytes_(content)
        file.attrs["attributes_sha256"] = np.bytes_(attributes_sha256(file, "attributes_sha256"))
    found = load_sequence(saved)
    assert found.content_sha256 == content
    for k, field in enumerate(fields):
        field_files.check_same(found.at(k), field)
        assert found.at(k).content_sha256 == hashes[k]
    points = fields[0].domain.origin + fields[0].domain.length * np.random.default_rng(1).random((50, 3))
    assert np.isfinite(found.at_time(0.3).sample(points)).all()


def test_large_frames_are_read_when_needed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors name the file and the frame; a frame is that of the file that was opened."""
    fields = [load_sequence(saved).at(k) for k in range(4)]
    for field in fields:
        _ = field.distance
    monkeypatch.setattr(store, "AT_ONCE", 0)
    with h5py.File(saved, "r+") as file:
        chunk = file["frame/000001/residual"].id.get_chunk_info(0)
    content = bytearray(saved.read_bytes())
    content[chunk.byte_offset + chunk.size // 2] ^= 1
    saved.write_bytes(content)
    found = load_sequence(saved)
    points = fields[0].domain.origin + fields[0].domain.length * np.random.default_rng(1).random((50, 3))
    damaged, sound = found.at(1), found.at(2)
    for _ in range(2):
        with pytest.raises(InputError, match="residual") as caught:
            damaged.sample(points)
        assert str(caught.value).startswith(f"{saved}: frame 1: ")
        assert "\n" not in str(caught.value)
    saved.unlink()
    assert sound.sample(points).tobytes() == fields[2].sample(points).tobytes()
    field_files.check_same(sound, fields[2])


def test_the_file_describes_itself(saved: Path) -> None:
    with h5py.File(saved) as file:
        assert file.attrs["format"] == b"sdfcli-adf-sequence"
        assert file.attrs["format_version"] == 1
        assert file.attrs["frames"] == 4
        assert set(file) == {"frame", "time", "motion"}
        assert sorted(file["frame"]) == ["000000", "000001", "000002", "000003"]


def test_equal_sequences_give_equal_files(saved: Path, tmp_path: Path) -> None:
    again = sequences.write(tmp_path / "again.h5", FRAMES, TIMES, cold=True, **SMALL)
    assert again.read_bytes() == saved.read_bytes()
    assert sequences.write(tmp_path / "b.h5", FRAMES, [0, 1, 2, 3], **SMALL).read_bytes() != saved.read_bytes()


def test_a_sequence_where_a_field_is_wanted(saved: Path) -> None:
    with pytest.raises(InputError) as caught:
        sdfcli.load(saved)
    assert str(caught.value) == (
        f"{saved}: is a sequence of 4 frames; choose one with --frame N (in Python: sdfcli.load_sequence)"
    )


def test_a_field_where_a_sequence_is_wanted(saved: Path, tmp_path: Path) -> None:
    path = load_sequence(saved).at(0).save(tmp_path / "field.h5")
    with pytest.raises(InputError) as caught:
        load_sequence(path)
    assert str(caught.value) == f"{path}: is a field, not a sequence"
    assert is_sequence(saved)
    assert not is_sequence(path)
    (tmp_path / "other").write_text("other")
    assert not is_sequence(tmp_path / "other")
    assert not is_sequence(tmp_path / "missing")


def test_frames_that_are_not_there(saved: Path) -> None:
    found = load_sequence(saved)
    assert found.at(-1).content_sha256 == found.at(3).content_sha256
    for index in (4, -5):
        with pytest.raises(UsageError, match=f"frame {index}: the sequence has frames 0 to 3"):
            found.at(index)


# ---- Damaged and hostile files ----


def seal(file: Any) -> None:
    """Makes the checksums right, as far as the file can be read: what a hostile writer would do."""
    try:
        origin, length = file.attrs["domain_origin"], file.attrs["domain_length"]
        domain = Domain(origin, float(length))
        names = [f"{index:06d}" for index in range(min(9, int(file.attrs["frames"])))]
        hashes = [file["frame"][name].attrs["content_sha256"].decode() for name in names]
        root = content_sha256(domain, file["time"][()], file["motion"][()], hashes)
        file.attrs["content_sha256"] = np.bytes_(root)
    except (KeyError, TypeError, ValueError, AttributeError, OSError):
        pass
    file.attrs["attributes_sha256"] = np.bytes_(attributes_sha256(file, "attributes_sha256"))


def attribute(name: str, value: Any) -> Change:
    def change(file: Any) -> None:
        file.attrs[name] = value

    return change


def dataset(name: str, value: Any, **options: Any) -> Change:
    def change(file: Any) -> None:
        del file[name]
        file.create_dataset(name, data=value, **options)

    return change


def link(name: str, target: Any) -> Change:
    def change(file: Any) -> None:
        file.move(name, "elsewhere")
        file[name] = target

    return change


def renamed(file: Any) -> None:
    file.move("frame/000003", "frame/3")


def one_more(file: Any) -> None:
    file["frame/more"] = file["frame/000000"]


def one_less(file: Any) -> None:
    del file["frame/000003"]


def no_group(file: Any) -> None:
    del file["frame/000003"]
    file["frame/000003"] = np.arange(3)


def external(file: Any) -> None:
    file.move("frame/000003", "elsewhere")
    file["frame/000003"] = h5py.ExternalLink("pipe", "/frame/000003")


CHANGES: dict[str, tuple[Change, str]] = {
    "newer version": (attribute("format_version", 2), "format version 2; this sdfcli reads version 1"),
    "other format": (attribute("format", "x"), "format must be a text|format is of variable length"),
    "no frames": (attribute("frames", 0), "the number of frames"),
    "fewer frames": (attribute("frames", 3), "the number of frames"),
    "many frames": (attribute("frames", 2**40), "the number of frames"),
    "frames are a text": (attribute("frames", np.bytes_("4")), "frames must be a whole number"),
    "length is nan": (attribute("domain_length", np.nan), "domain_length must be a finite number"),
    "info is a list": (attribute("info", np.bytes_("[]")), "info must be a JSON object"),
    "info says nonsense": (attribute("info", np.bytes_('{"max_error": "x"}')), "max_error must be"),
    "times decrease": (dataset("time", [0.0, 1.0, 0.5, 2.0]), "time must be finite and increase"),
    "times repeat": (dataset("time", [0.0, 1.0, 1.0, 2.0]), "time must be finite and increase"),
    "a time is nan": (dataset("time", [0.0, 1.0, np.nan, 2.0]), "time must be finite and increase"),
    "few times": (dataset("time", [0.0, 1.0, 2.0]), "the number of frames"),
    "times of integers": (dataset("time", [0, 1, 2, 3]), "time must be a list of float64"),
    "times of other files": (dataset("time", None, shape=4, dtype="f8", external=[("pipe", 0, 32)]), "other files"),
    "a motion is negative": (dataset("motion", [np.nan, -1.0, 0.0, 0.0]), "motion must be distances"),
    "a motion is infinite": (dataset("motion", [np.nan, np.inf, 0.0, 0.0]), "motion must be distances"),
    "many motions": (dataset("motion", np.zeros(5)), "the number of frames"),
    "frame is a soft link": (link("frame", h5py.SoftLink("/elsewhere")), "frame is a link"),
    "frame is an external link": (link("frame", h5py.ExternalLink("pipe", "/frame")), "frame is a link"),
    "frame 3 is a soft link": (link("frame/000003", h5py.SoftLink("/elsewhere")), "000003 is a link"),
    "frame 3 is an external link": (external, "000003 is a link"),
    "frame 3 has another name": (renamed, "000003 is missing"),
    "frame 3 is a dataset": (no_group, "000003 must be a group"),
    "one more": (one_more, "the number of frames"),
    "one less": (one_less, "the number of frames"),
    "frame is a dataset": (dataset("frame", np.arange(4)), "frame must be a group"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_hostile_files(saved: Path, name: str) -> None:
    os.mkfifo(saved.with_name("pipe"))  # who opens it, waits
    change, words = CHANGES[name]
    with h5py.File(saved, "r+") as file:
        change(file)
        if name != "other format":  # of variable length, which has no sum
            seal(file)
    with pytest.raises(InputError, match=words) as caught:
        load_sequence(saved)
    message = str(caught.value)
    assert message.startswith(f"{saved}: ")
    assert "\n" not in message


@pytest.mark.parametrize("part", ["attribute", "time", "frame"])
def test_checksums_are_compared(saved: Path, part: str) -> None:
    with h5py.File(saved, "r+") as file:
        if part == "attribute":
            file.attrs["units"] = np.bytes_("mm")
        elif part == "time":
            file["time"][1] = 0.25
        else:
            file["frame"].move("000000", "x")
            file["frame"].move("000001", "000000")
            file["frame"].move("x", "000001")
    with pytest.raises(InputError, match="damaged or changed"):
        load_sequence(saved)


def frame_of_another_domain(file: Any) -> None:
    group = file["frame/000001"]
    group.attrs["domain_length"] = 7.0
    group.attrs["attributes_sha256"] = np.bytes_(attributes_sha256(group, "attributes_sha256"))


def frame_with_other_values(file: Any) -> None:
    data = file["frame/000001/leaf_level"][()]
    del file["frame/000001/leaf_level"]
    file["frame/000001/leaf_level"] = data[::-1]


def frame_with_a_link(file: Any) -> None:
    file.move("frame/000001/leaf_level", "elsewhere")
    file["frame/000001/leaf_level"] = h5py.ExternalLink("pipe", "/x")


def frame_with_a_damaged_chunk(file: Any) -> None:
    chunk = file["frame/000001/leaf_level"].id
    chunk.write_direct_chunk((0,), bytes(chunk.get_chunk_info(0).size))


@pytest.mark.parametrize(
    "change", [frame_of_another_domain, frame_with_other_values, frame_with_a_link, frame_with_a_damaged_chunk]
)
def test_damage_within_a_frame_is_found_when_it_is_read(saved: Path, change: Change) -> None:
    os.mkfifo(saved.with_name("pipe"))
    with h5py.File(saved, "r+") as file:
        change(file)
    found = load_sequence(saved)
    found.at(0)
    with pytest.raises(InputError, match="frame 1: ") as caught:
        found.at(1)
    assert str(caught.value).startswith(f"{saved}: frame 1: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_replaced_while_it_is_read(saved: Path, tmp_path: Path) -> None:
    found = load_sequence(saved)
    other = sequences.write(tmp_path / "other.h5", FRAMES[::-1], TIMES, **SMALL)
    os.replace(other, saved)
    with pytest.raises(InputError, match="frame 0: another field"):
        found.at(0)
    saved.unlink()
    with pytest.raises(InputError, match=r"anim\.h5"):
        found.at(2)


def test_the_metadata_of_all_frames(saved: Path) -> None:
    with h5py.File(saved) as file:
        info = json.loads(file.attrs["info"])
    assert set(info) == {"parameters", "max_error", "signs", "verdicts"}
    assert sum(info["verdicts"].values()) == 4
