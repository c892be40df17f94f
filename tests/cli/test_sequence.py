"""`sdfcli sequence`: frames into one file; what is done is never lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import sdfcli
import sequences
import shapes
from commands import on_a_terminal, run

QUICK = ["--depth", "4", "--tolerance", "0.02", "--device", "cpu"]
FRAMES = sequences.bending(shapes.torus(10, 8), 6)
KEYS = {
    "index",
    "time",
    "input",
    "coherent",
    "motion",
    "sign",
    "sign_reason",
    "verdict",
    "max_error",
    "leaves",
    "corners",
}
KEYS |= {"schema_version", "bytes", "content_sha256", "device", "seconds"}
LIMIT = 600
"""Seconds of a command that takes two."""


def export(path: Path, shape: shapes.Shape) -> str:
    trimesh.Trimesh(*shape, process=False).export(path)
    return str(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of frames 8 to 13."""
    (tmp_path / "frames").mkdir()
    for number, frame in enumerate(FRAMES, 8):
        export(tmp_path / "frames" / f"f{number}.ply", frame)
    return tmp_path / "frames"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "sdfcli", "sequence", *map(str, words), *QUICK]


def test_a_folder(folder: Path, tmp_path: Path) -> None:
    done = run("sequence", folder, "-o", "anim.h5", "--fps", 10, *QUICK, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("anim.h5\n")
    for words in ("6, 0 to 0.5 s", "frames/s", "pseudonormal", "good"):
        assert words in done.stdout
    assert sorted(os.listdir(tmp_path)) == ["anim.h5", "frames"]
    found = sdfcli.load_sequence(tmp_path / "anim.h5")
    assert found.times.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    files = [folder / f"f{number}.ply" for number in range(8, 14)]
    for index, field in enumerate(sdfcli.build_sequence(files, device="cpu", depth=4, tolerance=0.02)):
        assert found.at(index).content_sha256 == field.content_sha256


def test_each_frame_is_what_a_build_makes(folder: Path, tmp_path: Path) -> None:
    run("sequence", folder, "-o", "anim.h5", *QUICK, cwd=tmp_path)
    found = sdfcli.load_sequence(tmp_path / "anim.h5")
    place = found.info["parameters"]["domain"], found.info["parameters"]["unit"]
    for index in (0, 3, 5):
        words = ["--domain", ",".join(map(repr, place[0])), "--unit", repr(place[1])]
        done = run("build", folder / f"f{index + 8}.ply", "-o", f"{index}.h5", *words, *QUICK, cwd=tmp_path)
        assert done.returncode == 0
        assert sdfcli.load(tmp_path / f"{index}.h5").content_sha256 == found.at(index).content_sha256


def test_json_a_line_per_frame(folder: Path, tmp_path: Path) -> None:
    other = export(tmp_path / "other.ply", shapes.octahedron())
    done = run("sequence", folder, other, "-o", "a.h5", "--json", *QUICK, cwd=tmp_path)
    assert done.returncode == 0
    *rows, whole = lines(done.stdout)
    found = sdfcli.load_sequence(tmp_path / "a.h5")
    assert [set(row) for row in rows] == [KEYS] * 7
    assert [row["index"] for row in rows] == list(range(7))
    assert [row["input"] for row in rows] == [*(f"{folder}/f{k}.ply" for k in range(8, 14)), other]
    assert [row["time"] for row in rows] == found.times.tolist()
    assert [row["coherent"] for row in rows] == [False, *[True] * 5, False]
    assert [row["content_sha256"] for row in rows] == [found.at(k).content_sha256 for k in range(7)]
    assert whole["content_sha256"] == found.content_sha256
    assert whole["frames"] == 7
    assert whole["kept"] == 0
    assert whole["coherent_frames"] == 5
    assert whole["bytes"] == (tmp_path / "a.h5").stat().st_size
    assert whole["max_error"] == max(row["max_error"] for row in rows)
    assert [row["motion"] is None for row in rows] == [True, *[False] * 5, True]
    assert whole["motion"] is None  # that to the last frame, which has other faces, is not known
    assert (whole["input"], whole["output"]) == (str(folder), "a.h5")


def test_cold_makes_the_same_file(folder: Path, tmp_path: Path) -> None:
    for name, words in (("a.h5", []), ("b.h5", ["--cold"]), ("c.h5", ["--threads", "1"]), ("d.h5", ["-q", "-j", "1"])):
        done = run("sequence", folder, "-o", name, *words, *QUICK, cwd=tmp_path)
        assert done.returncode == 0
    assert len({(tmp_path / name).read_bytes() for name in ("a.h5", "b.h5", "c.h5", "d.h5")}) == 1
    assert done.stdout + done.stderr == ""


def test_an_array_and_times(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "walk.npy", np.array([vertices for vertices, _ in FRAMES]))
    (tmp_path / "times.csv").write_text("frame,time\n" + "".join(f"{k},{k * k}\n" for k in range(6)))
    words = ["walk.npy", "--faces", "frames/f8.ply", "--times", "times.csv", "-o", "a.h5", "--json"]
    done = run("sequence", *words, *QUICK, cwd=tmp_path)
    assert done.returncode == 0
    assert lines(done.stdout)[3]["input"] == "walk.npy: frame 3"
    assert sdfcli.load_sequence(tmp_path / "a.h5").times.tolist() == [0, 1, 4, 9, 16, 25]


def test_a_change_of_the_sign_is_a_warning(tmp_path: Path) -> None:
    vertices, faces = shapes.icosphere(1)
    closed = export(tmp_path / "closed.ply", (vertices, faces))
    holed = export(tmp_path / "holed.ply", (vertices, faces[:-8]))
    done = run("sequence", closed, holed, closed, "-o", "a.h5", "--json", *QUICK, cwd=tmp_path)
    assert done.returncode == 0
    signs = [row["sign"] for row in lines(done.stdout)[:3]]
    assert signs[0] == signs[2] != signs[1]
    warnings = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 2
    assert f"{holed}: sign by {signs[1]} from here on, {signs[0]} up to frame 0: " in warnings[0]
    assert lines(done.stdout)[3]["signs"] == {signs[0]: 2, signs[1]: 1}
    done = run("sequence", closed, holed, closed, "-o", "b.h5", *QUICK, cwd=tmp_path)
    assert f"{signs[0]} (2 frames), {signs[1]} (1 frame)" in done.stdout


# ---- Refused before any work ----


def test_what_is_there_is_kept(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "anim.h5").write_text("precious")
    for words in ([], ["--resume"]):
        done = run("sequence", folder, "-o", "anim.h5", *words, *QUICK, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == "sdfcli: anim.h5: exists; use --force (in Python force=True) to replace it\n"
        assert (tmp_path / "anim.h5").read_text() == "precious"
    assert run("sequence", folder, "-o", "anim.h5", "--force", *QUICK, cwd=tmp_path).returncode == 0
    assert len(sdfcli.load_sequence(tmp_path / "anim.h5")) == 6


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["frames", "-o", "frames/f9.ply", "--force"], 2, "that is an input"),
        (["frames", "-o", "frames/f8.ply/a.h5"], 2, "frames/f8.ply: cannot be used: that is not a folder"),
        (["frames", "-o", "a.vdb"], 2, "a.vdb: use a name that ends in .h5, .hdf5"),
        (["frames", "-o", "a.h5", "--fps", "2", "--times", "x"], 2, "use one of them"),
        (["frames", "-o", "a.h5", "--fps", "0"], 2, "--fps 0.0: use a positive number"),
        (["frames", "-o", "a.h5", "--faces", "frames/f8.ply"], 2, "needs one .npy file"),
        (["frames", "-o", "a.h5", "--domain", "1,2"], 2, "--domain 1,2: use four numbers"),
        (["frames", "-o", "a.h5", "--domain", "0,0,0,0.1"], 2, "domain"),
        (["frames", "-o", "a.h5", "--times", "frames/f8.ply"], 3, "f8.ply"),
        (["nothing.ply", "-o", "a.h5"], 3, "nothing.ply: no such file"),
        (["frames"], 2, "--output"),
    ],
)
def test_errors_are_one_line(folder: Path, tmp_path: Path, words: list[str], code: int, message: str) -> None:
    before = sorted(os.listdir(tmp_path))
    done = run("sequence", *words, *QUICK, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.startswith("sdfcli: ")
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


# ---- Ended early, and resumed ----


def ended_early(folder: Path, path: Path, frames: int, end: Callable[[subprocess.Popen[str]], None]) -> Any:
    """Starts a command, and ends it after some frames; returns its code and standard error."""
    process = subprocess.Popen(
        command(folder, "-o", path, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout
        assert process.stderr
        for _ in range(frames):
            assert process.stdout.readline()
        end(process)
        process.stdout.read()
        return process.wait(LIMIT), process.stderr.read()


@pytest.mark.parametrize("frames", [1, 3, 5])
def test_killed_and_resumed(folder: Path, tmp_path: Path, frames: int) -> None:
    whole, path = tmp_path / "whole.h5", tmp_path / "anim.h5"
    assert run("sequence", folder, "-o", whole, *QUICK).returncode == 0
    ended_early(folder, path, frames, subprocess.Popen.kill)
    if not path.exists():  # else the last frames were done before the signal came
        refused = run("sequence", folder, "-o", path, *QUICK)
        assert refused.returncode == 2
        assert "use --resume to go on with them, or --force to begin anew" in refused.stderr
        done = run("sequence", folder, "-o", path, "--resume", "--json", *QUICK)
        assert done.returncode == 0
        *rows, summary = lines(done.stdout)
        assert sum(row["seconds"] is None for row in rows) == summary["kept"] >= frames
    assert path.read_bytes() == whole.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["anim.h5", "frames", "whole.h5"]


def test_interrupted(folder: Path, tmp_path: Path, heeded: None) -> None:
    path = tmp_path / "anim.h5"
    code, said = ended_early(folder, path, 2, lambda process: process.send_signal(signal.SIGINT))
    if path.exists():
        pytest.skip("it was done before the signal came")
    assert code == 130
    first, last = said.splitlines()
    assert first.endswith("of 6 frames are kept; to go on, repeat the command with --resume")
    assert last == "sdfcli: interrupted"
    done = run("sequence", folder, "-o", path, "--resume", *QUICK)
    assert done.returncode == 0
    assert "were kept" in done.stdout


def test_a_bad_frame_in_between(folder: Path, tmp_path: Path) -> None:
    good = (folder / "f11.ply").read_bytes()
    place = sdfcli.build(folder / "f13.ply", device="cpu", depth=2).domain
    cube = ",".join(map(repr, [*(place.origin - place.length).tolist(), 3 * place.length]))
    words = ["sequence", folder, "-o", "a.h5", "--domain", cube, "--unit", "1", "-j", "1", *QUICK]
    (folder / "f11.ply").write_bytes(good[:300])
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 3
    kept, message = done.stderr.splitlines()
    assert kept.startswith("3 of 6 frames are kept")
    assert f"{folder}/f11.ply: " in message
    (folder / "f11.ply").write_bytes(good)
    done = run(*words, "--resume", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert lines(done.stdout)[-1]["kept"] == 3


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_a_full_disk(folder: Path, tmp_path: Path, share: float) -> None:
    whole, path = tmp_path / "whole.h5", tmp_path / "anim.h5"
    assert run("sequence", folder, "-o", whole, *QUICK).returncode == 0
    size = int(share * whole.stat().st_size)
    done = run("sequence", folder, "-o", path, *QUICK, most=size)
    assert done.returncode == 2
    assert "cannot be written: File too large" in done.stderr.splitlines()[-1]
    assert not path.exists()
    assert run("sequence", folder, "-o", path, "--resume", *QUICK).returncode == 0
    assert path.read_bytes() == whole.read_bytes()


def test_json_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(folder, "-o", tmp_path / "a.h5", "--json"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "standard output: cannot be written" in done.stderr
    assert "of 6 frames are kept" in done.stderr


# ---- What people see ----


def test_progress_on_a_terminal(folder: Path, tmp_path: Path) -> None:
    with open(tmp_path / "rows", "w") as rows:
        seen = on_a_terminal("sequence", folder, "-o", tmp_path / "a.h5", "--json", *QUICK, stdout=rows)
    assert len(lines((tmp_path / "rows").read_text())) == 7  # none of them went to the terminal
    assert "of 6 frames" in " ".join(seen.split())  # a long path wraps the line
    assert '"index"' not in seen


def test_lines_for_each_frame(folder: Path, tmp_path: Path) -> None:
    done = run("sequence", folder, "-o", "a.h5", "-v", *QUICK, cwd=tmp_path)
    said = done.stderr.splitlines()
    assert len(said) == 6
    assert said[2].startswith(f"[3/6] {folder}/f10.ply: good, ")
    assert "octree" in done.stdout.rpartition("seconds")[2]


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_frames(tmp_path: Path) -> None:
    frames = np.array([vertices for vertices, _ in sequences.bending(shapes.torus(10, 8), 120)])
    export(tmp_path / "mesh.ply", FRAMES[0])
    peaks = []
    for count in (20, 120):
        np.save(tmp_path / "walk.npy", frames[:count])
        code = (
            "import resource, sys; from sdfcli.cli.app import app\n"
            "try: app(sys.argv[1:])\n"
            "except SystemExit as end: print(end.code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        words = ["sequence", "walk.npy", "--faces", "mesh.ply", "-o", f"{count}.h5", "-q", "-j", "1", *QUICK]
        done = subprocess.run(
            [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        ended, peak = done.stdout.split()
        assert ended == "0"
        peaks.append(int(peak))
    assert peaks[1] < peaks[0] + 8000  # kB; a frame's field takes some 300


def test_time_is_left_out_of_the_file(folder: Path, tmp_path: Path) -> None:
    run("sequence", folder, "-o", "a.h5", *QUICK, cwd=tmp_path)
    time.sleep(1.1)  # HDF5 keeps seconds
    run("sequence", folder, "-o", "b.h5", *QUICK, cwd=tmp_path)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
