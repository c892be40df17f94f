"""Parts of a sequence: what is done is found again, what is damaged, foreign or other is not."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sequences
import shapes
from sdfcli.errors import UsageError
from sdfcli.field.chunks import fletcher32
from sdfcli.runtime.parts import folder_of, kept_frames, parts_folder
from sdfcli.sequence.build import Frame, SequenceBuild
from sdfcli.sequence.file import load_sequence
from sdfcli.sequence.frames import frame_times
from sdfcli.sequence.parts import Parts, part_key
from sdfcli.sequence.save import save_sequence

SMALL = {"depth": 3, "tolerance": 0.05, "device": "cpu"}
FRAMES = [*sequences.bending(shapes.cube(), 3), shapes.octahedron()]
TIMES = frame_times(len(FRAMES), 24, None)


def save(path: Path, build: SequenceBuild | None = None, resume: bool = False, force: bool = False) -> list[Any]:
    rows: list[Any] = []
    with parts_folder(path, resume, force) as folder:
        save_sequence(build or sequences.sequence_build(FRAMES, **SMALL), TIMES, path, folder, force, rows.append)
    return rows


class StopsAt:
    """Frames of which one cannot be read."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __len__(self) -> int:
        return len(FRAMES)

    def __getitem__(self, index: int) -> Any:
        if index == self.index:
            raise KeyboardInterrupt
        return FRAMES[index]


def interrupted(path: Path, index: int) -> Path:
    """The folder of the parts of a sequence whose frame `index` was interrupted."""
    whole = sequences.sequence_build(FRAMES, **SMALL)
    stopped = sequences.sequence_build(StopsAt(index), **{**whole.params.__dict__, "device": "cpu"})
    with pytest.raises(KeyboardInterrupt):
        save(path, stopped)
    assert not path.exists()
    return folder_of(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    save(path)
    return path.read_bytes()


def test_the_file_is_there_and_the_parts_are_gone(tmp_path: Path, whole: bytes) -> None:
    rows = save(tmp_path / "anim.h5")
    assert os.listdir(tmp_path) == ["anim.h5"]
    assert (tmp_path / "anim.h5").read_bytes() == whole
    found = load_sequence(tmp_path / "anim.h5")
    assert [row["content_sha256"] for row in rows] == [found.at(k).content_sha256 for k in range(4)]
    assert [row["coherent"] for row in rows] == [False, True, True, False]
    assert [row["motion"] is None for row in rows] == [True, False, False, True]
    assert [row["index"] for row in rows] == [0, 1, 2, 3]
    for row, field in zip(rows, map(found.at, range(4)), strict=True):
        assert (row["leaves"], row["corners"]) == (len(field.leaf_key), len(field.corner_key))
        assert row["max_error"] == field.info["max_error"]
        assert row["seconds"]["total"] > 0
        json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("index", [0, 1, 3])
def test_an_interrupted_run_goes_on(tmp_path: Path, whole: bytes, index: int) -> None:
    path = tmp_path / "anim.h5"
    folder = interrupted(path, index)
    assert sorted(os.listdir(folder)) == [f"{k:06d}.part" for k in range(index)] if index else not folder.exists()
    assert kept_frames(path) == index
    rows = save(path, resume=True)
    assert [row["seconds"] is None for row in rows] == [k < index for k in range(4)]
    assert path.read_bytes() == whole
    assert os.listdir(tmp_path) == ["anim.h5"]


def test_parts_of_an_interrupted_run_are_named(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "anim.h5"
    folder = interrupted(path, 2)
    before = sorted(os.listdir(folder))
    with pytest.raises(UsageError) as caught:
        save(path)
    assert str(caught.value) == (
        f"{path}: .anim.h5.frames holds 2 frames of an interrupted run; use --resume to go on with them, or --force to "
        "begin anew"
    )
    assert sorted(os.listdir(folder)) == before
    assert all(row["seconds"] for row in save(path, force=True))
    assert path.read_bytes() == whole


def other_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def missing(path: Path) -> None:
    path.unlink()


def swapped(path: Path) -> None:
    other = path.with_name("000000.part").read_bytes()
    path.write_bytes(other)


def sealed(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """A change of a part's head, with the right checksum."""

    def damage(path: Path) -> None:
        _, text, chunks = path.read_bytes().split(b"\n", 2)
        head = json.loads(text)
        change(head)
        content = json.dumps(head).encode() + b"\n" + chunks
        path.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)

    return damage


def other_info(**entries: Any) -> Callable[[Any], None]:
    """Another entry of what a part's field says of itself."""

    def change(head: Any) -> None:
        info = json.loads(head["attributes"]["info"])
        head["attributes"]["info"] = json.dumps({**info, **entries})

    return change


def attributes(**values: Any) -> Callable[[Any], None]:
    return lambda head: head["attributes"].update(values)


def facts(**values: Any) -> Callable[[Any], None]:
    return lambda head: head["facts"].update(values)


def other_chunk(content: bytes) -> Callable[[Path], None]:
    """The last chunk has other content, with its own sum and the part's right one."""

    def damage(path: Path) -> None:
        _, text, chunks = path.read_bytes().split(b"\n", 2)
        head = json.loads(text)
        sizes = list(head["lists"].values())[-1][2]
        data = zlib.compress(content)
        chunk = data + fletcher32(data).to_bytes(4, "little")
        chunks, sizes[-1] = chunks[: -sizes[-1]] + chunk, len(chunk)
        body = json.dumps(head).encode() + b"\n" + chunks
        path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    return damage


CRAFTED: dict[str, Callable[[Path], None]] = {
    "no facts": sealed(lambda head: head.pop("facts")),
    "facts are a list": sealed(lambda head: head.update(facts=[1])),
    "another verdict": sealed(facts(verdict="perfect")),
    "an error that is a text": sealed(facts(max_error="x")),
    "an error that is not a number": sealed(facts(max_error=float("nan"))),
    "leaves below 0": sealed(facts(leaves=-1)),
    "another hash": sealed(facts(content_sha256="0" * 64)),
    "a hash that is none": sealed(facts(content_sha256="x")),
    "another hash of the field": sealed(attributes(content_sha256="0" * 64)),
    "no attributes": sealed(lambda head: head.update(attributes={})),
    "an attribute that is null": sealed(attributes(distance_step=None)),
    "an attribute that is an object": sealed(attributes(domain_length={})),
    "an attribute that is a list of texts": sealed(attributes(domain_origin=["x", "y", "z"])),
    "an attribute without a name": sealed(attributes(**{"": 1})),
    "a name with a zero byte": sealed(attributes(**{"a\0b": 1})),
    "another domain": sealed(attributes(domain_length=3.0)),
    "a step that is not a number": sealed(attributes(distance_step=float("nan"))),
    "another version of the format": sealed(attributes(format_version=99)),
    "info that is no JSON": sealed(attributes(info="{")),
    "info that is nested deeply": sealed(attributes(info="[" * 100_000)),
    "info that is empty": sealed(attributes(info="{}")),
    "other parameters in info": sealed(other_info(parameters={})),
    "another sign in info": sealed(other_info(sign="maybe")),
    "an error in info that is not a number": sealed(other_info(max_error=float("nan"))),
    "another attribute": sealed(attributes(more=1)),
    "other units": sealed(attributes(units="miles")),
    "a version that is a list": sealed(attributes(tool_version=[[]])),
    "distances twice": sealed(lambda head: head["lists"].update(distance=[0, "float32", []])),
    "no levels": sealed(lambda head: head["lists"].pop("leaf_level")),
    "no entries": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(0, 0)),
    "a length below 0": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(0, -5)),
    "a length that is true": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(0, True)),
    "a length that is a part": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(0, 5.5)),
    "a wider type": sealed(lambda head: head["lists"]["residual"].__setitem__(1, "uint32")),
    "sizes of chunks below 0": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(2, [-1])),
    "sizes of chunks that are texts": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(2, ["1"])),
    "a chunk of nothing": other_chunk(b""),
    "a chunk of noise": other_chunk(bytes(range(256))),
}


DAMAGE: dict[str, Callable[[Path], None]] = {
    **{change.__name__: change for change in (other_byte, cut, empty, zeros, link, pipe, missing, swapped)},
    "another version": sealed(lambda head: head["key"].update(tool_version="0")),
    "other parameters": sealed(lambda head: head["key"]["parameters"].update(depth=4)),
    "another mesh": sealed(lambda head: head.update(mesh="0" * 64)),
    "an unknown dataset": sealed(lambda head: head["lists"].update(more=[1, "uint8", [1]])),
    "another type": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(1, "object")),
    "more chunks": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(2, [1, 1])),
    "longer": sealed(lambda head: head["lists"]["leaf_level"].__setitem__(0, 2**40)),
    "no lists": sealed(lambda head: head.pop("lists")),
    "lists are a text": sealed(lambda head: head.update(lists="x")),
    "attributes are a list": sealed(lambda head: head.update(attributes=[])),
    **CRAFTED,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_does_not_fit_is_built_again(tmp_path: Path, whole: bytes, name: str) -> None:
    path = tmp_path / "anim.h5"
    folder = interrupted(path, 3)
    DAMAGE[name](folder / "000001.part")
    rows = save(path, resume=True)
    assert [row["seconds"] is None for row in rows] == [True, False, True, False]
    assert path.read_bytes() == whole
    left = sorted(os.listdir(tmp_path))
    if name == "link":  # what the link led to has no name of ours
        assert os.listdir(folder) == ["elsewhere"]
    else:
        assert left == ["anim.h5"]


def test_parts_of_other_parameters_or_meshes(tmp_path: Path) -> None:
    path = tmp_path / "anim.h5"
    interrupted(path, 3)
    moved = [(vertices * 0.99, faces) for vertices, faces in FRAMES]
    own = sequences.sequence_build(FRAMES, **SMALL).params
    for frames, options, kept in ((FRAMES, {"depth": 2}, 0), ([FRAMES[0], moved[1], FRAMES[2], FRAMES[3]], {}, 2)):
        build = sequences.sequence_build(frames, **{**own.__dict__, "device": "cpu", **options})
        with parts_folder(path, True, False) as folder:
            parts = Parts(folder, part_key(build))
            found = [parts.find(frame) for frame in build]
            assert sum(each is not None for each in found) == kept
            if kept:  # the motion is that from the frame before as it is now
                assert found[2] is not None
                assert (
                    found[2]["motion"]
                    == list(build)[2].motion
                    != list(sequences.sequence_build(FRAMES, **SMALL))[2].motion
                )
            left = sorted(os.listdir(folder))
        assert left == [f"{k:06d}.part" for k in range(3)]
        interrupted(path, 3)


def test_a_hostile_folder(tmp_path: Path) -> None:
    path, other = tmp_path / "anim.h5", tmp_path / "other"
    other.mkdir()
    (other / "000000.part").write_text("precious")
    folder_of(path).symlink_to(other)
    for resume, force in ((False, False), (True, False), (False, True)):
        with pytest.raises(UsageError, match=r"\.anim\.h5\.frames: cannot be used"):
            save(path, resume=resume, force=force)
    assert (other / "000000.part").read_text() == "precious"
    folder_of(path).unlink()
    folder_of(path).write_text("a file")
    with pytest.raises(UsageError, match="cannot be used"):
        save(path)
    assert not path.exists()


def test_foreign_files_stay(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "anim.h5"
    folder = folder_of(path)
    (folder / "000002.part").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    (folder / "000000.part").symlink_to(folder / "notes.txt")
    (folder / "000001.0123456789abcdef.tmp").symlink_to(folder / "notes.txt")
    with pytest.raises(UsageError, match="cannot be written"):
        save(path, force=True)  # a folder in the place of a part
    (folder / "000002.part").rmdir()
    save(path, force=True)
    assert path.read_bytes() == whole
    assert (folder / "notes.txt").read_text() == "mine"
    assert os.listdir(folder) == ["notes.txt"]


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "anim.h5"
    with parts_folder(path, False, False), pytest.raises(UsageError, match="another process is writing it"):
        save(path, resume=True)
    assert os.listdir(tmp_path) == []


def test_a_part_that_is_gone_when_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "anim.h5", Parts.write

    def lost(parts: Parts, frame: Frame, field: Any) -> Any:
        row = write(parts, frame, field)
        if frame.index == 1:
            (parts.folder / "000001.part").unlink()
        return row

    monkeypatch.setattr(Parts, "write", lost)
    with pytest.raises(UsageError, match=r"000001\.part: was removed or changed"):
        save(path)
    assert not path.exists()


def test_no_folder_for_the_parts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be used"):
        save(tmp_path / "file" / "anim.h5")
