"""`sdfcli flow`: what users see of flows, and what is left of interrupted ones."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import sequences
import shapes
from sdfcli.apps.flow.run import Flow, State
from sdfcli.cli.app import app
from sdfcli.runtime.parts import folder_of

BALL = ["ball.h5", "--fill", "-1,0,-1,1,1,1", "--spacing", "0.15", "--inside"]
SHORT = ["--time", "0.1", "--frames", "4", "--device", "cpu"]
DAM = ["--case", "dam-break", "--time", "0.004", "--frames", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fields, a sequence, and a whole flow with its pictures. Nothing is written here later."""
    made = tmp_path_factory.mktemp("made")
    ball = sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=2e-3)
    ball.save(made / "ball.h5")
    sdfcli.build(shapes.icosphere(2), device="cpu", tolerance=4e-3, sign="none").save(made / "unsigned.h5")
    for name, changed in {
        "holed": {**ball.info, "jump_leaves": 3},
        "silent": {key: value for key, value in ball.info.items() if key != "max_error"},
    }.items():
        dataclasses.replace(ball, info=changed).save(made / f"{name}.h5")
    sequences.write(made / "moving.h5", [shapes.icosphere(1)] * 2, [0.0, 1.0], tolerance=4e-3)
    trimesh.Trimesh(*shapes.cube(), process=False).export(made / "cube.ply")
    before = os.getcwd()
    os.chdir(made)
    try:
        code, _, errors = flow(*BALL, *SHORT, "-o", "whole.vtkhdf", "--pictures", "whole")
        assert code == 0, errors
    finally:
        os.chdir(before)
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with links to what was made."""
    for each in made.iterdir():
        (tmp_path / each.name).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def flow(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["flow", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def new(folder: Path) -> list[str]:
    """What is in the folder that is no link."""
    return sorted(each.name for each in folder.iterdir() if not each.is_symlink())


# ---- The report ----


def test_the_table(folder: Path) -> None:
    code, output, errors = flow(*BALL, *SHORT, "-o", "a.vtkhdf", "--pictures", "p")
    assert (code, errors) == (0, "")
    title, *lines = output.splitlines()
    assert title == "ball.h5"
    table = {line[:16].strip(): line[16:].strip() for line in lines}
    assert list(table) == [
        "particles",
        "lost",
        "behind a wall",
        "least distance",
        "energy",
        "flow",
        "time",
        "file",
        "pictures",
    ]
    assert (table["lost"], table["behind a wall"], table["pictures"]) == ("0", "0", "5 in p")
    assert table["particles"].endswith(" of water, 0.15 m apart")
    assert table["file"].startswith("a.vtkhdf, 5 states, ")
    assert new(folder) == ["a.vtkhdf", "p"]
    assert sorted(os.listdir("p")) == [f"frame_{k:04d}.png" for k in range(5)]


def test_json_and_the_file_and_python_agree(folder: Path) -> None:
    code, output, errors = flow(*BALL, *SHORT, "-o", "a.vtkhdf", "--json")
    assert (code, errors) == (0, "")
    told = json.loads(output)
    states = list(
        sdfcli.flow("ball.h5", (-1, 0, -1, 1, 1, 1), 0.15, inside=True, time=0.1, frames=4, device="cpu", threads=1)
    )
    assert told["water"] == len(states[0]) > 200
    assert told["lost"] == told["behind"] == 0
    assert told["clearance"] == min(state.clearance or 0 for state in states) >= 0.44 * 0.15
    assert told["energies"] == [states[0].energy, states[-1].energy]
    assert told["time_steps"] == states[-1].steps
    assert told["time_step"] * told["time_steps"] == pytest.approx(0.1) == told["flow_seconds"]
    assert told["bytes"] == Path("a.vtkhdf").stat().st_size
    with h5py.File("a.vtkhdf") as file:
        root = file["VTKHDF"]
        assert np.array_equal(root["Steps/Values"], [state.time for state in states])
        assert np.array_equal(root["Points"], np.concatenate([state.position for state in states]))
        for name in ("velocity", "pressure", "number"):
            assert np.array_equal(root[f"PointData/{name}"], np.concatenate([getattr(s, name) for s in states]))


def test_the_dam_break(folder: Path) -> None:
    code, output, errors = flow(*DAM, "-o", "a.vtkhdf", "--pictures", "p", "--json")
    assert (code, errors) == (0, "")
    told = json.loads(output)
    assert (told["water"], told["wall_particles"], told["case"]) == (3380, 15756, "dam-break")
    assert (told["time_step"], told["time_steps"], told["clearance"]) == (5e-4, 8, None)
    assert "input" not in told
    with h5py.File("a.vtkhdf") as file:
        assert np.array_equal(np.bincount(file["VTKHDF/PointData/kind"]), [3 * 3380, 3 * 15756])
    shown = flow(*DAM, "-o", "b.vtkhdf")[1]
    assert "3,380 of water, 15,756 of walls, 0.02 m apart" in shown
    assert "behind a wall" not in shown


def test_progress_tells_what_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextmanager
    def progress(title: str, quiet: bool) -> Iterator[Callable[[str], None]]:
        assert (title, quiet) == ("a.vtkhdf", False)
        yield seen.append

    monkeypatch.setattr("sdfcli.apps.flow.commands.flow.progress", progress)
    interrupted(monkeypatch, 3, *BALL, *SHORT, "-o", "a.vtkhdf")
    assert seen[:2] == ["getting ready", "0 of 4 frames"]
    assert [words.split(",")[0] for words in seen[2:]] == ["1 of 4 frames", "2 of 4 frames"]
    assert all(words.endswith(" s left") for words in seen[2:])
    seen.clear()
    assert flow(*BALL, *SHORT, "-o", "a.vtkhdf", "--resume")[0] == 0  # of those that were kept, none counts
    assert [words.split(",")[0] for words in seen[3:]] == ["0 of 2 frames", "1 of 2 frames", "2 of 2 frames"]


def test_quiet(folder: Path) -> None:
    assert flow(*BALL, *SHORT, "-o", "a.vtkhdf", "-q") == (0, "", "")


@pytest.mark.parametrize("more", [("--threads", 1), ("--layout", "bucket"), ("--layout", "index", "--threads", 2)])
def test_the_same_bytes(more: tuple[object, ...], folder: Path) -> None:
    assert flow(*BALL, *SHORT, "-o", "a.vtkhdf", "--pictures", "p", *more)[0] == 0
    assert same_as_whole("a.vtkhdf", "p")


def same_as_whole(output: str, pictures: str) -> bool:
    drawn = {name: Path(pictures, name).read_bytes() for name in os.listdir(pictures)}
    expected = {name: Path("whole", name).read_bytes() for name in os.listdir("whole")}
    return Path(output).read_bytes() == Path("whole.vtkhdf").read_bytes() and drawn == expected


@pytest.mark.parametrize(("lost", "behind"), [(0, 0), (2, 0), (0, 3)])
def test_water_that_went_through_a_wall(lost: int, behind: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 6, and the file is there; of the case without a field, which loses some, it is 0."""
    after = Flow.after

    def leaking(run: Flow, state: State) -> State:
        return dataclasses.replace(after(run, state), lost=lost, behind=behind, fast=5)

    monkeypatch.setattr(Flow, "after", leaking)
    code, output, errors = flow(*BALL, *SHORT, "-o", "a.vtkhdf", "--json")
    assert code == (6 if lost or behind else 0)
    told = json.loads(output)
    assert (told["lost"], told["behind"], told["too_fast"]) == (lost, behind, 5)
    note, *error = errors.splitlines()
    assert note.startswith("note: water moved so far in a step")
    assert [line.split("; ")[0] for line in error] == (
        [f"sdfcli: a.vtkhdf: {lost} particles left the tank, and {behind:,} times one was behind a wall"]
        if code
        else []
    )
    assert new(folder) == ["a.vtkhdf"]
    assert flow(*DAM, "-o", "b.vtkhdf", "-q")[0] == 0


# ---- Interrupted runs ----


def interrupted(monkeypatch: pytest.MonkeyPatch, index: int, *words: object) -> str:
    """A run that ends before a frame is done."""
    after = Flow.after

    def stopping(run: Flow, state: State) -> State:
        if state.index + 1 == index:
            raise KeyboardInterrupt
        return after(run, state)

    with monkeypatch.context() as patch:
        patch.setattr(Flow, "after", stopping)
        code, _, errors = flow(*(words or (*BALL, *SHORT, "-o", "a.vtkhdf", "--pictures", "p")))
    assert code == 130
    return errors


RESUMED = (*BALL, *SHORT, "-o", "a.vtkhdf", "--pictures", "p", "--resume")


@pytest.mark.parametrize("index", [1, 3, 4])
def test_an_interrupted_run_goes_on(index: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = interrupted(monkeypatch, index)
    told = f"{index - 1} of 4 frames are kept; to go on, repeat the command with --resume\n" if index > 1 else ""
    assert errors == told + "sdfcli: interrupted\n"
    assert not Path("a.vtkhdf").exists()
    code, output, errors = flow(*RESUMED, "--json")
    assert (code, errors) == (0, "")
    assert json.loads(output)["kept"] == index - 1
    assert same_as_whole("a.vtkhdf", "p")
    assert new(folder) == ["a.vtkhdf", "p"]


@pytest.mark.nightly
def test_killed_at_any_time(folder: Path) -> None:
    command = [sys.executable, "-m", "sdfcli", "flow", *map(str, RESUMED), "-q"]
    for _ in range(30):
        running = subprocess.Popen(command, start_new_session=True)
        kept, deadline = len(parts()), time.monotonic() + 600
        while running.poll() is None and len(parts()) <= kept and time.monotonic() < deadline:
            time.sleep(0.003)
        running.send_signal(signal.SIGKILL)
        if running.wait() == 0:
            break
        if Path("a.vtkhdf").exists():
            break
    assert same_as_whole("a.vtkhdf", "p")
    if folder_of(Path("a.vtkhdf")).exists():  # killed between the file's name and the end
        assert flow(*RESUMED, "--force")[0] == 0
        assert same_as_whole("a.vtkhdf", "p")
    assert new(folder) == ["a.vtkhdf", "p"]


def parts() -> list[str]:
    try:
        return os.listdir(folder_of(Path("a.vtkhdf")))
    except FileNotFoundError:
        return []


def test_kept_frames_are_not_thrown_away_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, 3)
    before = sorted(parts())
    words = RESUMED[:-1]
    code, _, errors = flow(*words)
    assert code == 2
    assert errors.splitlines()[0] == (
        "sdfcli: a.vtkhdf: .a.vtkhdf.frames holds 2 frames of an interrupted run; use --resume to go on with them, or "
        "--force to begin anew"
    )
    assert sorted(parts()) == before
    code, output, _ = flow(*words, "--force", "--json")
    assert (code, json.loads(output)["kept"]) == (0, 0)
    assert same_as_whole("a.vtkhdf", "p")


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        (["--time", "0.2", "--frames", "8"], 2),  # only longer
        (["--gravity", "0,-9.7,0"], 0),
        (["--viscosity", "0.01"], 0),
        (["--spacing", "0.16"], 0),
        (["--fill", "-1,0,-1,1,1,0.9"], 0),
        (["--frames", "5"], 0),
        (["--layout", "index", "--threads", "1"], 2),
    ],
)
def test_frames_of_other_flows_are_not_used(
    more: list[str], kept: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(monkeypatch, 3, *BALL, *SHORT, "-o", "a.vtkhdf")
    words = [*BALL, *SHORT]
    for name, value in zip(more[::2], more[1::2], strict=True):
        at = words.index(name) if name in words else len(words)
        words[at : at + 2] = name, value
    code, output, errors = flow(*words, "-o", "a.vtkhdf", "--resume", "--json")
    assert code == 0, errors
    assert json.loads(output)["kept"] == kept
    assert flow(*words, "-o", "b.vtkhdf")[0] == 0
    assert Path("a.vtkhdf").read_bytes() == Path("b.vtkhdf").read_bytes()


def test_frames_of_another_field_are_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, 3, *BALL, *SHORT, "-o", "a.vtkhdf")
    sdfcli.build(shapes.icosphere(4), device="cpu", tolerance=2e-3, domain=(-1.2, -1.2, -1.2, 2.4)).save("other.h5")
    code, output, errors = flow("other.h5", *BALL[1:], *SHORT, "-o", "a.vtkhdf", "--resume", "--json")
    assert code == 0, errors
    assert json.loads(output)["kept"] == 0


def sealed(change: Callable[[dict[str, Any], bytearray], Any]) -> Callable[[Path], None]:
    """A change of a part's head and arrays, with the right checksum."""

    def damage(path: Path) -> None:
        _, text, content = path.read_bytes().split(b"\n", 2)
        head, arrays = json.loads(text), bytearray(content)
        other = change(head, arrays)
        whole = json.dumps(head if other is None else other).encode() + b"\n" + bytes(arrays)
        path.write_bytes(hashlib.sha256(whole).hexdigest().encode() + b"\n" + whole)

    return damage


def entry(name: str, value: float, row: int = 3) -> Callable[[Path], None]:
    """Another number in one of the arrays of a part."""

    def change(head: dict[str, Any], arrays: bytearray) -> None:
        n = head["particles"]
        start = {"number": 0, "kind": 4 * n, "place": 5 * n, "velocity": 17 * n, "pressure": 29 * n}[name]
        dtype, wide = {"number": ("<u4", 4), "kind": ("u1", 1), "pressure": ("<f4", 4)}.get(name, ("<f4", 12))
        data = np.array([value], dtype).tobytes()
        arrays[start + wide * row : start + wide * row + len(data)] = data

    return sealed(change)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "link": link,
    "pipe": pipe,
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b"") and None,
    "another version": sealed(lambda head, _: head["key"].update(tool_version="0")),
    "a list": sealed(lambda head, _: [head]),
    "no time": sealed(lambda head, _: head.pop("time") and None),
    "a text": sealed(lambda head, _: head.update(energy="1")),
    "more particles": sealed(lambda head, _: head.update(particles=head["particles"] + 1)),
    "fewer than none": sealed(lambda head, _: head.update(particles=-1)),
    "true particles": sealed(lambda head, _: head.update(particles=True)),
    "lost": sealed(lambda head, _: head.update(lost=1)),
    "longer": sealed(lambda _, arrays: arrays.extend(b"0")),
    "a number twice": entry("number", 2),
    "a number beyond": entry("number", 4e9),
    "a wall": entry("kind", 1),
    "gone": entry("kind", 2),
    "a place beyond": entry("place", 1e9),
    "a place below": entry("place", -1e9),
    "a place that is none": entry("place", np.nan),
    "an infinite velocity": entry("velocity", np.inf),
    "a velocity that is none": entry("velocity", np.nan),
    "faster than a step bears": entry("velocity", 1e6),
    "a pressure that is none": entry("pressure", np.nan),
    "a time that is none": sealed(lambda head, _: head.update(time=float("nan"))),
    "another time": sealed(lambda head, _: head.update(time=head["time"] + 1)),
    "other steps": sealed(lambda head, _: head.update(steps=1)),
    "an energy that is none": sealed(lambda head, _: head.update(energy=float("nan"))),
    "an infinite clearance": sealed(lambda head, _: head.update(clearance=float("inf"))),
    "more behind than there are": sealed(lambda head, _: head.update(behind=10**4000)),
    "no clearance": sealed(lambda head, _: head.update(clearance=None)),
    "fewer than none behind": sealed(lambda head, _: head.update(behind=-1)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_part_that_is_damaged_or_hostile(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(monkeypatch, 3, *BALL, *SHORT, "-o", "a.vtkhdf")
    DAMAGE[name](folder / ".a.vtkhdf.frames" / "000002.part")
    code, output, errors = flow(*BALL, *SHORT, "-o", "a.vtkhdf", "--resume", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(output)["kept"] == 1
    assert Path("a.vtkhdf").read_bytes() == Path("whole.vtkhdf").read_bytes()


def test_a_hostile_folder(folder: Path) -> None:
    (folder / "precious").mkdir()
    (folder / "precious" / "000001.part").write_text("mine")
    (folder / ".a.vtkhdf.frames").symlink_to(folder / "precious")
    for more in ([], ["--resume"], ["--force"]):
        code, _, errors = flow(*BALL, *SHORT, "-o", "a.vtkhdf", *more)
        assert (code, len(errors.splitlines())) == (2, 1)
        assert ".a.vtkhdf.frames: cannot be used" in errors
    assert (folder / "precious" / "000001.part").read_text() == "mine"


# ---- Pictures that are there ----


def test_pictures_are_not_replaced_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p").mkdir()
    Path("p", "frame_0004.png").write_text("mine")
    words = RESUMED[:-1]
    for more in ([], ["--resume"]):
        code, _, errors = flow(*words, *more)
        assert code == 2
        assert errors.splitlines()[-1].startswith("sdfcli: p/frame_0004.png: exists; use --force")
        assert Path("p", "frame_0004.png").read_text() == "mine"
        assert not Path("a.vtkhdf").exists()
    assert flow(*words, "--force")[0] == 0
    assert same_as_whole("a.vtkhdf", "p")
    code, _, errors = flow(*BALL, *SHORT, "-o", "b.vtkhdf", "--pictures", "p")
    assert (code, errors.startswith("sdfcli: p/frame_0000.png: exists")) == (2, True)


def test_pictures_that_cannot_be_written(folder: Path) -> None:
    Path("p").mkdir()
    Path("p", "frame_0001.png").symlink_to(folder / "cube.ply")
    for more in ([], ["--resume"], ["--force"]):
        code, _, errors = flow(*RESUMED[:-1], *more)
        assert (code, len(errors.splitlines())) == (2, 1)
        assert "that is a link" in errors
    assert new(folder) == ["p"]


# ---- Surfaces ----


def test_surfaces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = *BALL, *SHORT, "-o", "a.vtkhdf", "--surface", "s/water_%02d.ply"
    code, output, errors = flow(*words, "--json")
    assert code == 0, errors
    assert json.loads(output)["surfaces"] == "s/water_%02d.ply"
    paths = [Path("s", f"water_{index:02d}.ply") for index in range(5)]
    assert sorted(Path("s").iterdir()) == paths
    for path in paths:
        mesh = trimesh.load_mesh(path)
        assert mesh.is_watertight
        assert mesh.volume == pytest.approx(json.loads(output)["water"] * 0.15**3, rel=0.1)
    whole = [path.read_bytes() for path in paths]
    os.unlink(paths[1])
    code, _, errors = flow(*words[:-4], "-o", "b.vtkhdf", *words[-2:])
    assert (code, errors.startswith("sdfcli: s/water_00.ply: exists; use --force")) == (2, True)
    code, _, errors = flow(*words[:-4], "-o", "b.vtkhdf", *words[-2:], "--resume")
    assert code == 0, errors
    paths[3].write_text("mine")
    code, _, errors = flow(*words[:-4], "-o", "c.vtkhdf", *words[-2:], "--resume")
    assert (code, errors.splitlines()[-1].startswith("sdfcli: s/water_03.ply: exists; use --force")) == (2, True)
    assert paths[3].read_text() == "mine"
    assert flow(*words[:-4], "-o", "d.vtkhdf", *words[-2:], "--force")[0] == 0
    assert [path.read_bytes() for path in paths] == whole


# ---- What is refused ----


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("", 2, "FIELD, --fill, --spacing: missing; or use --case dam-break"),
        ("ball.h5 --spacing 0.1", 2, "--fill: missing"),
        ("ball.h5 FILL", 2, "--spacing: missing"),
        ("--case flood", 2, "--case flood: use dam-break"),
        ("ball.h5 --case dam-break", 2, "FIELD: not with --case"),
        ("--case dam-break FILL --inside", 2, "--fill, --inside: not with --case"),
        ("--case dam-break --step 1 --gravity 0,0,0", 2, "--gravity, --step: not with --case"),
        ("--case dam-break --time 0.0012", 2, "--time 0.0012: use a multiple of --frames times 0.0005"),
        ("--case dam-break --time -1", 2, "--time -1: use a multiple"),
        ("--case dam-break --time nan", 2, "--time nan"),
        ("--case dam-break --time inf", 2, "--time inf"),
        ("--case dam-break --time 1e308", 2, "--time 1e+308"),
        ("--case dam-break --frames 0", 2, "--frames"),
        ("ball.h5 --fill 1,2 --spacing 0.1", 2, "--fill 1,2: use 6 numbers with commas between"),
        ("ball.h5 --fill a,b,c,d,e,f --spacing 0.1", 2, "--fill a,b,c,d,e,f: use 6 numbers"),
        ("ball.h5 --fill 0,0,0,1,nan,1 --spacing 0.1", 2, "--fill 0,0,0,1,nan,1: use 6 numbers"),
        ("ball.h5 --fill 0,0,0,-1,1,1 --spacing 0.1", 2, "--fill: the first corner must be the lower one"),
        ("ball.h5 --fill 0,0,0,9,9,9 --spacing 0.1", 2, "--fill: the box leaves the field's domain"),
        ("ball.h5 FILL --spacing 0.1 --gravity 1,2", 2, "--gravity 1,2: use 3 numbers"),
        ("ball.h5 FILL --spacing 0.1 --gravity 0,inf,0", 2, "--gravity 0,inf,0: use 3 numbers"),
        ("ball.h5 FILL --spacing 0.01", 2, "--spacing 0.01: below 10 stated errors of the field"),
        ("ball.h5 FILL --spacing -1", 2, "above 0"),
        ("ball.h5 FILL --spacing 1e308", 2, "--spacing 1e+308: larger than the field's domain"),
        ("ball.h5 FILL --spacing 0.2 --time 1e308", 2, "time steps a frame are too many"),
        ("ball.h5 FILL --spacing 0.2 --gravity 1e308,0,0", 2, "time steps a frame are too many"),
        ("ball.h5 FILL --spacing nan", 2, "must be finite numbers"),
        ("ball.h5 FILL --spacing 0.1 --time inf", 2, "must be finite numbers"),
        ("ball.h5 FILL --spacing 0.1 --time 0", 2, "above 0"),
        ("ball.h5 FILL --spacing 0.1 --step 1", 2, "--step 1: use at most"),
        ("ball.h5 FILL --spacing 0.1 --step nan", 2, "must be finite numbers"),
        ("ball.h5 FILL --spacing 0.1 --layout heap", 2, "--layout heap: use compact, bucket, index"),
        ("ball.h5 FILL --spacing 0.1 --frames 1000000", 2, "--frames"),
        ("ball.h5 --fill -1,-1,-1,-0.95,-0.95,-0.95 --spacing 0.1 --inside", 3, "no particle has room"),
        ("unsigned.h5 FILL --spacing 0.2", 3, "the field has no signs"),
        ("holed.h5 FILL --spacing 0.2", 3, "the field's sign jumps in 3 leaves"),
        ("silent.h5 FILL --spacing 0.2", 3, "the field does not state its error"),
        ("moving.h5 FILL --spacing 0.2", 3, "moving.h5: holds a sequence; use a field, from `sdfcli build`"),
        ("cube.ply FILL --spacing 0.2", 3, "cube.ply: is a mesh, not a field"),
        ("away.h5 FILL --spacing 0.2", 3, "away.h5: no such file"),
        (". FILL --spacing 0.2", 3, ".: is a folder"),
        ("/dev/null FILL --spacing 0.2", 3, "/dev/null: is not a regular file"),
        ("ball.h5 FILL --spacing 0.2 -o a.h5", 2, "a.h5: use a name that ends in .vtkhdf"),
        ("ball.h5 FILL --spacing 0.2 -o ball.h5/a.vtkhdf", 2, "ball.h5: cannot be used: that is not a folder"),
        ("ball.h5 FILL --spacing 0.2 -o whole.vtkhdf --force", 2, "that is a link"),
        ("ball.h5 FILL --spacing 0.2 --pictures ball.h5/p", 2, "ball.h5: cannot be used: that is not a folder"),
        ("ball.h5 FILL --spacing 0.2 --pictures ball.h5", 2, "ball.h5: cannot be used: that is not a folder"),
        ("ball.h5 FILL --spacing 0.2 --surface a_%d.off", 2, "a_%d.off: use a name that ends in .ply, .obj"),
        ("ball.h5 FILL --spacing 0.2 --surface a.ply", 2, "a.ply: use a name with %d or %04d"),
        ("ball.h5 FILL --spacing 0.2 --surface ball.h5/a_%d.ply", 2, "ball.h5: cannot be used: that is not a folder"),
        ("ball.h5 FILL --spacing 0.2 --threads 0", 2, "--threads 0: use 1 or more"),
        ("ball.h5 FILL --spacing 0.2 --device gpu", 2, "--device gpu: use auto, cpu, cuda or cuda:N"),
    ],
)
def test_what_is_refused(words: str, code: int, told: str, folder: Path) -> None:
    given = words.replace("FILL", "--fill -1,-1,-1,1,1,1").split()
    found, output, errors = flow(*given, *([] if "-o" in given else ["-o", "a.vtkhdf"]))
    assert (found, output) == (code, ""), errors
    assert len(errors.splitlines()) == 1, errors
    assert told in errors
    assert new(folder) == []


def test_without_an_output(folder: Path) -> None:
    code, _, errors = flow(*BALL)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "'--output'" in errors


def test_hostile_names(folder: Path) -> None:
    name = "a\x1b[2J\n[red]b.vtkhdf"
    code, output, errors = flow(*BALL, "--time", "0.01", "--frames", "1", "-o", name, "--pictures", "p\x1b[2J")
    assert (code, errors) == (0, "")
    assert "\x1b" not in output
    assert new(folder) == [name, "p\x1b[2J"]
    code, _, errors = flow(*BALL, "-o", name)
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "\x1b" not in errors
    code, _, errors = flow("x\x1b[2J\n.h5", *BALL[1:], "-o", "b.vtkhdf")
    assert (code, len(errors.splitlines())) == (3, 1)
    assert "\x1b" not in errors


def test_a_gpu_that_is_not_there(folder: Path) -> None:
    from sdfcli.startup.cupy import device_count

    code, output, errors = flow(*BALL, "--device", f"cuda:{device_count() + 3}", "-o", "a.vtkhdf")
    assert (code, output, len(errors.splitlines())) == (4, "", 1)


def test_water_that_is_too_fast_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdfcli.apps.flow.run._fastest", lambda velocity: np.inf)
    code, _, errors = flow(*BALL, *SHORT, "-o", "a.vtkhdf")
    assert (code, len(errors.splitlines())) == (6, 1)
    assert "too fast for the time step" in errors
    assert new(folder) == []
