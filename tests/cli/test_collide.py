"""`sdfcli collide`: what users and pipelines see of distances, contacts and paths."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import sequences
import shapes
from commands import on_a_terminal, reports, run
from sdfcli.cli.app import app
from sdfcli.cli.output import pace
from sdfcli.errors import InputError, UsageError
from sdfcli.field.stated_error import StatedError

FACTS = {
    "schema_version",
    "input",
    "posed",
    "signed",
    "posed_encloses",
    "stated_error",
    "stated_band",
    "proven_error",
    "warnings",
    "seconds",
}
OF_POSES = {"poses", "clear", "touching", "penetrating", "least", "poses_per_second"}
OF_A_POSE = {
    "schema_version",
    "contact",
    "distance",
    "low",
    "high",
    "proven",
    "outside_domain",
    "triangle",
    "point",
    "normal",
}
BESIDE, DEEP = ("--at", "1.5,0,0"), ("--at", "0,0.1,0")
"""Poses of the small cube beside the ball, and in it."""


def at(*place: float) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, 3] = place
    return pose


WAY = np.array([at(3 - 0.5 * k, 0, 0) for k in range(5)])
"""Towards the ball's middle; the last one is penetrating."""


def export(path: Path, shape: shapes.Shape) -> None:
    trimesh.Trimesh(*shape, process=False).export(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ball's fields, small meshes, a sequence, frames, and poses. Nothing is written here later."""
    made = tmp_path_factory.mktemp("made")
    ball = sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=2e-3, domain=(-4, -4, -4, 8))
    ball.save(made / "ball.h5")
    sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=2e-3).save(made / "tight.h5")
    sdfcli.build(shapes.icosphere(2), device="cpu", tolerance=4e-3, sign="none", domain=(-4, -4, -4, 8)).save(
        made / "unsigned.h5"
    )
    info = ball.info
    for name, changed in {
        "holed": {**info, "jump_leaves": 3},
        "doubtful": {**info, "verdict": "doubtful"},
        "silent": {key: value for key, value in info.items() if key != "max_error"},
    }.items():
        dataclasses.replace(ball, info=changed).save(made / f"{name}.h5")
    export(made / "cube.ply", shapes.moved(shapes.cube(), 0.1))
    export(made / "star.ply", shapes.moved(shapes.star(np.random.default_rng(1), 1), 0.2))
    (made / "frames").mkdir()
    for number, x in enumerate((3, 2, 1), 9):
        export(made / "frames" / f"f{number}.ply", shapes.moved(shapes.cube(), 0.1, (x, 0, 0)))
    vertices, _ = shapes.moved(shapes.cube(), 0.1)
    np.save(made / "walk.npy", vertices + np.array([[[3, 0, 0]], [[2, 0, 0]], [[1, 0, 0]]]))
    np.save(made / "way.npy", WAY)
    sequences.write(made / "bending.h5", BENDING, [0.0, 1.0], tolerance=4e-3)
    sequences.write(made / "other.h5", [shapes.icosphere(1), shapes.cube()], [0.0, 1.0], tolerance=4e-3)
    return made


BENDING = sequences.bending(shapes.refined(shapes.refined(shapes.cube())), 2, 0.3)


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with links to what was made."""
    for each in made.iterdir():
        (tmp_path / each.name).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def collide(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["collide", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def rows(*words: object, code: int = 0) -> list[dict[str, Any]]:
    """The lines of --json."""
    found, output, errors = collide(*words, "--json")
    assert found == code, errors
    return reports("collide", output)


# ---- A line a pose ----


def test_the_table(folder: Path) -> None:
    code, output, errors = collide("ball.h5", "cube.ply", *BESIDE, *DEEP, "--at", "1.1,0,0,0,0,90")
    assert (code, errors) == (0, "")
    head, *lines = output.splitlines()
    assert " ".join(head.split()) == "pose contact distance low high triangle point way out"
    assert [line.split()[:2] for line in lines[:3]] == [["0", "clear"], ["1", "penetrating"], ["2", "touching"]]
    assert lines[2].split()[6:] == ["1", "0", "0", "1.000", "0.000", "0.000"]  # not 1e-9, nor -0
    assert lines[3] == "cube.ply in ball.h5"
    assert lines[4].split(None, 1) == ["poses", "3: 1 clear, 1 touching, 1 penetrating"]
    assert [line.split()[0] for line in lines[5:]] == ["nearest", "stated", "time"]
    assert lines[5].endswith("at pose 1")


def test_json_is_what_the_table_is_of(folder: Path) -> None:
    words = ["ball.h5", "star.ply", "--poses", "way.npy"]
    _, output, _ = collide(*words)
    *poses, last = rows(*words)
    assert set(last) == FACTS | OF_POSES
    for number, (row, line) in enumerate(zip(poses, output.splitlines()[1:], strict=False)):
        assert set(row) == {"pose"} | OF_A_POSE
        shown = line.split()
        assert [row["pose"], row["contact"], row["triangle"]] == [number, shown[1], int(shown[5])]
        numbers = [row["distance"], row["low"], row["high"], *row["point"], *row["normal"]]
        assert np.allclose([float(word) for word in [*shown[2:5], *shown[6:]]], numbers, rtol=1e-4, atol=1e-3)
        assert row["low"] <= row["distance"] <= row["high"]
        assert row["contact"] == ("clear" if row["low"] > 0 else "penetrating" if row["high"] < 0 else "touching")
    found = sdfcli.contacts(sdfcli.load("ball.h5"), "star.ply", WAY, device="cpu")
    for name in ("distance", "low", "high", "triangle", "point", "normal"):
        assert np.array_equal([row[name] for row in poses], getattr(found, name))
    assert (last["poses"], last["clear"], last["penetrating"]) == (5, 4, 1)
    assert {"schema_version": 1, **last["least"]} == poses[4]
    assert last["signed"]
    assert last["stated_error"] == StatedError.of(sdfcli.load("ball.h5")).near


def test_without_a_pose_the_mesh_is_where_it_is(folder: Path) -> None:
    moved, placed = rows("ball.h5", "cube.ply", "--at", "2,0,0")[0], rows("ball.h5", "frames/f10.ply")[0]
    assert (moved["contact"], moved["triangle"]) == (placed["contact"], placed["triangle"])
    assert np.isclose(moved["distance"], placed["distance"], atol=1e-6)


def test_quiet(folder: Path) -> None:
    assert collide("unsigned.h5", "cube.ply", *BESIDE, "-q") == (0, "", "")
    code, output, errors = collide("ball.h5", "cube.ply", *DEEP, "-q", "--min", 0)
    assert (code, output, len(errors.splitlines())) == (6, "", 1)


@pytest.mark.parametrize("place", ["1.5,0,0", "-1.5,-0.1,-.2", "-1.5,0,0,-10,0,-90", "1.5, 0, 0", "15e-1,0,0,36e9,0,0"])
@pytest.mark.parametrize("joined", [True, False])
def test_numbers_of_poses(place: str, joined: bool, folder: Path) -> None:
    words = [f"--at={place}"] if joined else ["--at", place]
    (row, _) = rows("ball.h5", "cube.ply", *words)
    assert 0.3 < row["distance"] < 0.5


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int, folder: Path) -> None:
    words = ["ball.h5", "star.ply", "--poses", "way.npy", "--margin", 0.3]
    whole, part = (rows(*words, *more) for more in ([], ["--threads", threads, "--device", "cpu"]))
    assert whole[:-1] == part[:-1]


# ---- Poses in files ----


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<f2", "<i4", "u1"])
def test_types_of_poses(dtype: str, folder: Path) -> None:
    poses = np.array([at(2, 0, 0), at(3, 1, 0)])
    np.save("p.npy", poses.astype(dtype))
    np.save("plain.npy", poses)
    assert (
        rows("ball.h5", "cube.ply", "--poses", "p.npy")[:2] == rows("ball.h5", "cube.ply", "--poses", "plain.npy")[:2]
    )


def test_one_pose_in_a_file(folder: Path) -> None:
    np.save("p.npy", np.asfortranarray(at(1.5, 0, 0)))
    assert rows("ball.h5", "cube.ply", "--poses", "p.npy")[0] == rows("ball.h5", "cube.ply", *BESIDE)[0]


class Hostile:
    def __reduce__(self) -> tuple[Any, Any]:
        return os.mkdir, ("executed",)


def damaged(name: str) -> None:
    """Writes p.npy."""
    poses = WAY.copy()
    if name == "pickle":
        Path("p.npy").write_bytes(pickle.dumps(Hostile()))
    elif name == "object":
        np.save("p.npy", np.array([Hostile()], object), allow_pickle=True)
    elif name == "archive":
        with open("p.npy", "wb") as file:
            np.savez(file, poses)
    elif name in ("text", "empty"):
        Path("p.npy").write_text("1 0 0 0\n" if name == "text" else "")
    elif name in ("short", "header"):
        np.save("p.npy", poses)
        content = Path("p.npy").read_bytes()
        Path("p.npy").write_bytes(content[: 200 if name == "short" else 40])
    elif name == "huge":
        with open("p.npy", "wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 4, 4)}
            np.lib.format.write_array_header_1_0(file, header)
    else:
        poses[3, 1] += {"nan": np.nan, "inf": np.inf}.get(name, 0)
        poses[3, :3, :3] *= -1 if name == "mirror" else 1
        poses[3, 0, 0] *= 2 if name == "sheared" else 1
        other = {"none": poses[:0], "34": poses[:, :3], "5": poses[None], "transposed": poses.transpose(0, 2, 1)}
        kinds = {"complex": complex, "bool": bool, "words": "U8", "times": "m8[s]"}
        np.save("p.npy", other.get(name, poses).astype(kinds.get(name, float)))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pickle", "cannot be read as a .npy file of poses (t, 4, 4)"),
        ("object", "cannot be read as a .npy file of poses"),
        ("archive", "cannot be read as a .npy file of poses"),
        ("text", "cannot be read as a .npy file of poses"),
        ("empty", "cannot be read as a .npy file of poses"),
        ("short", "cannot be read as a .npy file of poses"),
        ("header", "cannot be read as a .npy file of poses"),
        ("huge", "cannot be read as a .npy file of poses"),
        ("none", "holds no poses"),
        ("34", "must be (t, 4, 4), (4, 4) or (t, 7), not (5, 3, 4)"),
        ("5", "not (1, 5, 4, 4)"),
        ("transposed", "pose 0: the last row must be 0, 0, 0, 1; are the matrices transposed?"),
        ("nan", "pose 3: a number is not finite"),
        ("inf", "pose 3: a number is not finite"),
        ("mirror", "pose 3: a mirror image"),
        ("sheared", "pose 3: the axes are sheared"),
        ("complex", "no numbers"),
        ("bool", "no numbers"),
        ("words", "no numbers"),
        ("times", "no numbers"),
    ],
)
def test_poses_that_are_refused(name: str, told: str, folder: Path) -> None:
    damaged(name)
    code, output, errors = collide("ball.h5", "cube.ply", "--poses", "p.npy", "--contacts", "c.csv", "--min", 0)
    assert (code, output, len(errors.splitlines())) == (3, "", 1)
    assert errors.startswith("sdfcli: p.npy: ")
    assert told in errors
    assert "allow_pickle" not in errors
    assert not os.path.exists("executed")
    assert not os.path.exists("c.csv")


# ---- Exit codes, and words that are refused ----


@pytest.mark.parametrize(
    ("words", "least", "code"),
    [
        (BESIDE, 0, 0),
        (BESIDE, 0.3, 0),
        (BESIDE, 0.41, 6),  # its bounds are about 0.4
        (DEEP, 0, 6),
        (DEEP, -2, 0),
        (("--at", "1.1,0,0"), 0, 6),  # touching
        ((*BESIDE, *DEEP), 0, 6),
        (("--poses", "way.npy"), 0, 6),
        (("--poses", "way.npy", "--path"), 0, 6),
        (("--path", "--at", "3,0,0", *BESIDE), 0.3, 0),
        (("--path", "--at", "3,0,0", *BESIDE), 0.5, 6),
        (("--path", *BESIDE, *BESIDE), 0.3, 0),
    ],
)
@pytest.mark.parametrize("json_", [[], ["--json"], ["-q"]])
def test_a_check_that_fails(words: tuple[str, ...], least: float, code: int, json_: list[str], folder: Path) -> None:
    found, output, errors = collide("ball.h5", "cube.ply", *words, "--min", least, *json_)
    assert found == code
    assert ("may come nearer than" in errors) == (code == 6)
    assert bool(output) == (json_ != ["-q"])
    assert len(errors.splitlines()) == (code == 6)


def test_the_message_of_a_check_that_fails(folder: Path) -> None:
    _, _, errors = collide("ball.h5", "cube.ply", "--poses", "way.npy", "--min", 0.5, "-q")
    assert errors.startswith("sdfcli: cube.ply: 2 of 5 poses may come nearer than 0.5: -")
    assert errors.endswith(" at pose 4\n")
    _, _, errors = collide("ball.h5", "cube.ply", "--poses", "way.npy", "--min", 0, "-q", "--path")
    assert "may come nearer than 0 at 3.7" in errors
    assert ", between poses 3 and 4: " in errors
    _, _, errors = collide("ball.h5", "frames", "--min", 0, "-q")
    assert errors.startswith("sdfcli: frames: 1 of 3 frames may come nearer than 0: ")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("ball.h5 cube.ply --min nan", 2, "--min nan: use a finite distance"),
        ("ball.h5 cube.ply --min -inf", 2, "--min -inf: use a finite distance"),
        ("unsigned.h5 cube.ply --min -0.1", 2, "--min -0.1: the field has no signs and knows no depths"),
        ("ball.h5 cube.ply --margin inf", 2, "--margin inf: use a finite distance"),
        ("ball.h5 cube.ply --margin much", 2, "--margin"),
        ("ball.h5 cube.ply --at 1,2", 2, "use TX,TY,TZ, a translation, with RX,RY,RZ"),
        ("ball.h5 cube.ply --at 1,2,3,4", 2, "--at 1,2,3,4"),
        ("ball.h5 cube.ply --at 1,nan,3", 2, "--at 1,nan,3"),
        ("ball.h5 cube.ply --at 1e999,0,0", 2, "--at 1e999,0,0"),
        ("ball.h5 cube.ply --at 1e30,0,0", 3, "are the units those of the field?"),
        ("ball.h5 cube.ply --at 1,0,0 --poses way.npy", 2, "--poses and --at both give poses; use one of them"),
        ("ball.h5 cube.ply --poses", 2, "requires an argument"),
        ("ball.h5 cube.ply --poses away.npy", 3, "away.npy: no such file"),
        ("ball.h5 cube.ply --poses .", 3, ".: is a folder"),
        ("ball.h5 cube.ply --poses /dev/null", 3, "/dev/null: is not a regular file"),
        ("ball.h5 cube.ply --path", 2, "--path: give its poses"),
        ("ball.h5 frames --path --at 1,0,0", 2, "--path: use a rigid mesh, not 3 frames"),
        ("ball.h5 frames --poses way.npy", 2, "5 poses for 3 frames: give one, or one per frame"),
        ("ball.h5 walk.npy", 2, "--faces MESH"),
        ("ball.h5 cube.ply --faces cube.ply", 2, "--faces cube.ply: needs one .npy file"),
        ("ball.h5 walk.npy --faces star.ply", 3, "8 vertices a frame, but star.ply"),
        ("ball.h5 cube.ply --contacts c.obj", 2, "c.obj: use a name that ends in .csv, .ply, .vtkhdf"),
        ("ball.h5 cube.ply --contacts .csv", 2, "use a name that ends in"),
        ("ball.h5 cube.ply --contacts ball.h5/c.csv", 2, "ball.h5: cannot be used: that is not a folder"),
        ("ball.h5 cube.ply --contacts cube.ply --force", 2, "cube.ply: cannot be written: that is an input"),
        ("ball.h5 away.ply", 3, "away.ply: no such file"),
        ("ball.h5 way.npy.ply", 3, "no such file"),
        ("ball.h5 ball.h5", 3, "ball.h5: is a field, not a mesh"),
        ("away.h5 cube.ply", 3, "away.h5: no such file"),
        ("cube.ply cube.ply", 3, "cube.ply: is a mesh, not a field; build its field: sdfcli build cube.ply"),
        ("silent.h5 cube.ply", 3, "the field does not state its error; build it again with `sdfcli build`"),
        ("ball.h5 cube.ply --frame 0", 3, "not a sequence"),
        ("bending.h5 cube.ply", 3, "choose one with --frame N"),
        ("bending.h5 cube.ply --frame 2", 2, "frame 2: the sequence has frames 0 to 1"),
        ("bending.h5 cube.ply --time 3", 2, "time 3.0: the sequence lasts from 0.0 to 1.0 seconds"),
        ("bending.h5 cube.ply --time nan", 2, "time nan"),
        ("bending.h5 cube.ply --time 0.5 --frame 0", 2, "use one of --frame, --time"),
        ("other.h5 cube.ply --time 0.5", 3, "the faces of the frames around it differ; use --frame N"),
        ("ball.h5 cube.ply --threads 0", 2, "--threads 0: use 1 or more"),
        ("ball.h5 cube.ply --device gpu", 2, "--device gpu: use auto, cpu, cuda or cuda:N"),
        ("ball.h5", 2, "missing argument 'MESH...'"),
    ],
)
def test_what_is_refused(words: str, code: int, told: str, folder: Path) -> None:
    before = sorted(os.listdir())
    found, output, errors = collide(*words.split())
    assert (found, output) == (code, ""), errors
    assert len(errors.splitlines()) == 1
    assert told in errors
    assert sorted(os.listdir()) == before


def test_a_gpu_that_is_not_there(folder: Path) -> None:
    from sdfcli.startup.cupy import device_count

    code, output, errors = collide("ball.h5", "cube.ply", "--device", f"cuda:{device_count() + 3}")
    assert (code, output, len(errors.splitlines())) == (4, "", 1)


# ---- Notes ----


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("unsigned.h5", "note: the field has no signs: distances are unsigned, and penetration is not detected\n"),
        ("holed.h5", "note: the field closes holes of its mesh, where the sign jumps; bounds do not hold there\n"),
        ("doubtful.h5", "note: the inside of the field's mesh is uncertain: see sdfcli info\n"),
        ("ball.h5", ""),
    ],
)
def test_notes(field: str, told: str, folder: Path) -> None:
    for more in ([], ["--json"], [*DEEP, "--path"]):
        assert collide(field, "cube.ply", *DEEP, *more)[2] == told


def test_a_path_outside_the_domain(folder: Path) -> None:
    for more in ([], ["--path", "--min", "9"]):
        errors = collide("ball.h5", "cube.ply", "--at", "9,0,0", "--at", "9.1,0,0", *more)[2]
        assert "outside the field's domain, where distances are lower bounds: build with a larger --domain" in errors


def test_without_signs_nothing_is_penetrating(folder: Path) -> None:
    inside, across, last = rows("unsigned.h5", "cube.ply", *DEEP, "--at", "1,0,0")
    assert (inside["contact"], across["contact"]) == ("clear", "touching")
    assert inside["low"] > 0.5
    assert not last["signed"]
    assert collide("unsigned.h5", "cube.ply", "--at", "1,0,0", "--min", 0)[0] == 6  # it may cross the surface
    assert collide("unsigned.h5", "cube.ply", *DEEP, "--min", 0)[0] == 0


def test_faults_of_either_frame_are_told_between_them(tmp_path: Path, folder: Path) -> None:
    from sdfcli.sequence.mix import mix

    whole = sdfcli.load("ball.h5")
    for name, key, value in (("holed", "jump_leaves", 3), ("doubtful", "verdict", "doubtful")):
        for pair in ((whole, sdfcli.load(f"{name}.h5")), (sdfcli.load(f"{name}.h5"), whole)):
            assert mix(*pair, 0.5, 0.0).info[key] == value
    between = mix(whole, whole, 0.5, 0.0).info
    assert "jump_leaves" not in between
    assert between["verdict"] == whole.info["verdict"]


# ---- Contacts ----


def table(path: str = "c.csv") -> np.ndarray:
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)


def test_contacts(folder: Path) -> None:
    *_, last = rows("ball.h5", "star.ply", "--poses", "way.npy", "--margin", 0.35, "--contacts", "c.csv")
    found = sdfcli.contacts(sdfcli.load("ball.h5"), "star.ply", WAY, margin=0.35, device="cpu").manifold
    assert (last["contacts"], last["margin"], last["output"]) == (len(found), 0.35, "c.csv")
    expected = np.column_stack((found.pose, found.triangle, found.point, found.distance, found.normal))
    assert np.array_equal(table(), expected)
    assert set(found.pose) == {3, 4}


@pytest.mark.parametrize("words", [[], ["--min", 0.2], ["--min", -0.2], ["--min", 3.0]])
@pytest.mark.parametrize("path", [[], ["--path"]])
def test_no_contact_is_missing_by_default(words: list[object], path: list[str], folder: Path) -> None:
    """Whenever the bounds do not exclude that a pose is too near, some contact says where."""
    least = float(words[1]) if words else 0.0  # type: ignore[arg-type]
    rng = np.random.default_rng(2)
    places = rng.normal(size=(60, 3))
    places *= np.linspace(1.1, 1.35, 60)[:, None] / np.linalg.norm(places, axis=1, keepdims=True)
    places *= {-0.2: 0.8, 3.0: 3.2}.get(least, 1.0)
    poses = np.array([at(*place) for place in places])
    if path:
        poses = np.array([at(*(6 * places[0])), at(0, 0, 0)])
    np.save("p.npy", poses)
    code = 6 if words else 0
    *each, _ = rows("ball.h5", "star.ply", "--poses", "p.npy", "--contacts", "c.csv", *words, *path, code=code)
    if path:
        assert len(table()) > 0
        return
    near = {row["pose"] for row in each if row["low"] <= least}
    assert len(near) > 10
    assert near <= set(table()[:, 0])


def test_contacts_of_frames(folder: Path) -> None:
    rows("ball.h5", "frames", "--margin", 5, "--contacts", "c.csv")
    assert np.array_equal(table()[:, 0], np.repeat(np.arange(3), 12))


@pytest.mark.parametrize("ending", ["csv", "ply", "vtkhdf"])
def test_contacts_on_a_path(ending: str, folder: Path) -> None:
    for words in (("--at", "3,0,0", *BESIDE), ("--at", "3,0,0", *DEEP)):  # without, and with a contact
        (found,) = rows("ball.h5", "cube.ply", "--path", *words, "--contacts", f"c.{ending}", "--force")
        assert (found["contacts"] > 0) == (words[-1] == DEEP[-1])
        assert os.path.getsize(f"c.{ending}") > 30


def test_a_file_that_is_there(folder: Path) -> None:
    Path("c.csv").write_text("old")
    words = ["ball.h5", "cube.ply", *DEEP, "--contacts", "c.csv"]
    code, output, errors = collide(*words)
    assert (code, output) == (2, "")
    assert "c.csv: exists; use --force" in errors
    assert Path("c.csv").read_text() == "old"
    assert collide(*words, "--force")[0] == 0
    assert len(table()) == 12


@pytest.mark.parametrize("given", ["field", "poses", "mesh"])
def test_inputs_are_not_replaced(given: str, folder: Path) -> None:
    Path("c.ply").hardlink_to(Path({"field": "ball.h5", "poses": "way.npy", "mesh": "cube.ply"}[given]).resolve())
    before = Path("c.ply").read_bytes()
    code, _, errors = collide("ball.h5", "cube.ply", "--poses", "way.npy", "--contacts", "c.ply", "--force")
    assert code == 2
    assert "that is an input" in errors
    assert Path("c.ply").read_bytes() == before


@pytest.mark.parametrize("ending", ["csv", "vtkhdf"])
def test_a_full_disk(ending: str, folder: Path) -> None:
    before = sorted(os.listdir())
    done = run(
        "collide",
        *("ball.h5", "star.ply", "--poses", "way.npy", "--margin", 9, "-q", "--contacts", f"c.{ending}"),
        most=3000,
    )
    assert done.returncode == 2
    assert done.stderr == f"sdfcli: c.{ending}: cannot be written: File too large\n"
    assert sorted(os.listdir()) == before


def test_a_check_that_fails_leaves_the_contacts(folder: Path) -> None:
    assert collide("ball.h5", "cube.ply", *DEEP, "--min", 0, "--contacts", "c.csv", "-q")[0] == 6
    assert len(table()) == 12


# ---- Paths ----


def test_a_path(folder: Path) -> None:
    code, output, errors = collide("ball.h5", "cube.ply", "--poses", "way.npy", "--path")
    assert (code, errors) == (0, "")
    lines = dict(line.split("  ", 1) for line in output.splitlines()[1:])
    shown = {name: line.strip() for name, line in lines.items()}
    assert list(shown) == ["path", "there", "point", "way out", "steps", "stated error", "time"]
    assert shown["path"].startswith("5 poses, first contact at 3.7")
    assert shown["path"].endswith(", between poses 3 and 4")
    assert shown["way out"] == "1.000 0.000 0.000"
    (found,) = rows("ball.h5", "cube.ply", "--poses", "way.npy", "--path")
    assert set(found) == FACTS | OF_A_POSE | {"poses", "first_contact", "steps", "matrix"}
    assert 3.75 < found["first_contact"] < 3.8 + 1e-3
    assert np.allclose(found["matrix"], at(3 - 0.5 * found["first_contact"], 0, 0))
    assert found["contact"] in ("clear", "touching")
    assert 0 < found["distance"] < 0.03


def test_a_path_of_one_pose(folder: Path) -> None:
    """A file's single row, as of an interrupted recording, is no path."""
    note = "a path of one pose: only this pose is tested; give two or more"
    (row,) = rows("ball.h5", "cube.ply", "--path", "--at", "3,0,0")
    assert row["warnings"] == [note]
    assert collide("ball.h5", "cube.ply", "--path", "--at", "3,0,0")[2] == f"note: {note}\n"
    assert note not in collide("ball.h5", "cube.ply", "--path", "--at", "3,0,0", "--at", "3,0,1")[2]


def test_a_path_that_is_clear(folder: Path) -> None:
    _, output, _ = collide("ball.h5", "cube.ply", "--path", "--at", "3,0,0", *BESIDE)
    assert "2 poses, clear all the way" in output
    (found,) = rows("ball.h5", "cube.ply", "--path", "--at", "3,0,0", *BESIDE)
    assert set(found) == FACTS | {"poses", "first_contact", "steps"}
    assert found["first_contact"] is None


def test_a_path_that_begins_in_contact(folder: Path) -> None:
    _, output, _ = collide("ball.h5", "cube.ply", "--path", *DEEP, *BESIDE)
    assert "2 poses, first contact at pose 0\n" in output
    assert "there         penetrating, -" in output


# ---- Frames, and sequences ----


@pytest.mark.parametrize(
    "mesh", [["frames"], ["frames/f9.ply", "frames/f10.ply", "frames/f11.ply"], ["walk.npy", "--faces", "cube.ply"]]
)
def test_frames(mesh: list[str], folder: Path) -> None:
    *each, last = rows("ball.h5", *mesh)
    assert [row["frame"] for row in each] == [0, 1, 2]
    named = {"posed"} if "--faces" not in mesh else set()
    assert all(set(row) == {"frame"} | named | OF_A_POSE for row in each)
    assert [row["posed"] for row in each if named] == [f"frames/f{k}.ply" for k in (9, 10, 11) if named]
    assert np.allclose([row["distance"] for row in each], [1.9, 0.9, -0.1], atol=0.03)
    assert {"schema_version": 1, **last["least"]} == each[2]
    assert last["posed"] == (mesh[0] if len(mesh) < 3 or "--faces" in mesh else "frames/f9.ply and 2 more")
    *shifted, _ = rows("ball.h5", *mesh, "--at", "1,0,0")
    assert np.allclose([row["distance"] for row in shifted], [2.9, 1.9, 0.9], atol=0.03)
    np.save("each.npy", WAY[[4, 2, 0]])  # by 1, 2 and 3
    *others, _ = rows("ball.h5", *mesh, "--poses", "each.npy")
    assert np.allclose([row["distance"] for row in others], [2.9, 2.9, 2.9], atol=0.03)
    _, output, _ = collide("ball.h5", *mesh)
    head, first, *_ = output.splitlines()
    assert head.split()[:2] == (["frame", "file"] if named else ["frame", "contact"])
    assert first.split()[:2] == (["0", "f9.ply"] if named else ["0", "clear"])
    assert "frames/s" in output
    assert ("at frame 2, f11.ply" in output) == bool(named)


@pytest.mark.parametrize("time", [0.5, 0.2])
def test_between_frames_the_error_has_what_the_motion_adds(time: float, folder: Path) -> None:
    """Against the mesh in between, the bounds hold; and they are wider than at the frames."""
    vertices = (1 - time) * BENDING[0][0] + time * BENDING[1][0]
    exact = sdfcli.MeshDistance((vertices, BENDING[0][1]), device="cpu")
    rng = np.random.default_rng(3)
    words = [word for place in rng.uniform(-2, 2, (20, 3)) for word in ("--at", ",".join(map(str, place)))]
    *each, last = rows("bending.h5", "cube.ply", "--time", time, *words)
    bound = sdfcli.load_sequence("bending.h5").bound(time)
    assert bound is not None
    assert last["stated_error"] > bound > 0.01
    assert (
        rows("bending.h5", "cube.ply", "--frame", 0, *BESIDE)[-1]["stated_error"] < last["stated_error"] - 0.9 * bound
    )
    cloud = np.stack(np.meshgrid(*[np.linspace(-0.1, 0.1, 9)] * 3), -1).reshape(-1, 3)
    places = np.array([[float(x) for x in word.split(",")] for word in words[1::2]])
    least = exact.signed_distance((places[:, None] + cloud).reshape(-1, 3)).reshape(20, -1).min(axis=1)
    spacing = 0.0125 * 3**0.5  # how far a point of the cube may be from those of the cloud
    assert all(row["low"] <= d for row, d in zip(each, least, strict=True))
    assert all(d - spacing <= row["high"] for row, d in zip(each, least, strict=True))


def test_frames_of_a_sequence(folder: Path) -> None:
    first, last = (rows("bending.h5", "cube.ply", "--frame", k, *BESIDE) for k in (0, -1))
    assert first[0] != last[0]
    assert first[0] == rows("bending.h5", "cube.ply", "--time", 0, *BESIDE)[0]
    assert len(rows("bending.h5", "frames", "--frame", 1)) == 4


# ---- What makes distances doubtful: units, and the domain's edge ----


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ball of 1 mm and its fields, and a cube beside it, in files with and without units."""
    parts = tmp_path_factory.mktemp("parts")
    export(parts / "ball.3mf", shapes.icosphere(3))
    sdfcli.build(parts / "ball.3mf", device="cpu", tolerance=1e-2).save(parts / "mm.h5")
    sdfcli.build(parts / "ball.3mf", device="cpu", tolerance=1e-2, units="m").save(parts / "m.h5")
    sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=1e-2).save(parts / "nameless.h5")
    cube = shapes.moved(shapes.cube(), 0.3, (0.95, 0, 0))
    export(parts / "cube.3mf", cube)
    export(parts / "cube.stl", cube)
    export(parts / "cube.glb", (cube[0] / 1000, cube[1]))
    export(parts / "small.stl", (cube[0] / 1000, cube[1]))
    return parts


@pytest.mark.parametrize(
    ("field", "mesh", "units"),
    [("mm.h5", "cube.glb", ("m", "mm")), ("m.h5", "cube.3mf", ("mm", "m"))],
)
def test_other_units_are_refused(
    field: str, mesh: str, units: tuple[str, str], parts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unless the mesh or its poses are converted; then the contact is that in one unit."""
    monkeypatch.chdir(parts)
    code, output, errors = collide(field, mesh)
    says = f"is in {units[0]}, the field in {units[1]}: convert the mesh, by --units {units[1]}, or by --scale"
    assert (code, output, errors) == (3, "", f"sdfcli: {mesh} {says}\n")
    assert collide(field, mesh, "--path", "--at", "0,0,0")[::2] == (3, errors)
    assert collide(field, "cube.stl", mesh)[0] == 3
    with pytest.raises(InputError, match="the mesh is in"):
        sdfcli.contacts(sdfcli.load(field), mesh, np.eye(4))
    with pytest.raises(InputError, match=f"{mesh} is in"):
        render_beside(field, mesh)
    done = run("render", field, "--mesh", mesh, "-o", tmp_path / "a.png", cwd=parts)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", errors)
    factor = 1000.0 if units[1] == "mm" else 0.001
    scaled = np.diag([factor, factor, factor, 1])
    np.save(tmp_path / "scaled.npy", scaled[None])
    same = rows("mm.h5", "cube.3mf")[0]
    length = 1 if units[1] == "mm" else 0.001
    for words in (["--units", units[1]], ["--scale", factor], ["--poses", tmp_path / "scaled.npy"]):
        row, last = rows(field, mesh, *words)
        assert row["distance"] == pytest.approx(length * same["distance"], abs=1e-5 * length)
        assert last["warnings"] == []
    tree = sdfcli.SphereTree(mesh, units=units[1])
    assert sdfcli.contacts(sdfcli.load(field), tree, np.eye(4)).verdict == [2]
    with pytest.raises(UsageError, match="--units km"):
        sdfcli.SphereTree(mesh, units="km")


def render_beside(field: str, mesh: str) -> object:
    return sdfcli.render(sdfcli.load(field), mesh=mesh, width=8, height=8, device="cpu")


@pytest.mark.parametrize(
    ("field", "mesh", "says"),
    [
        (
            "nameless.h5",
            "small.stl",
            "3,300 times smaller than the field's mesh, and neither names a unit",
        ),
        ("mm.h5", "small.stl", "3,300 times smaller than the field's mesh, and it names no unit"),
        (
            "nameless.h5",
            "cube.glb",
            "3,300 times smaller than the field's mesh, and the field names no unit",
        ),
        ("m.h5", "cube.stl", "300 times as large as the field's mesh, and it names no unit"),
        ("mm.h5", "cube.stl", None),
        ("nameless.h5", "cube.3mf", None),
    ],
)
def test_sizes_that_differ_much_are_noted(
    field: str,
    mesh: str,
    says: str | None,
    parts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where a unit is unknown: on standard error, in JSON, and in Python in the log, once for a tree."""
    monkeypatch.chdir(parts)
    told = says and f"{mesh} is {says}: if they differ, use --scale"
    code, _, errors = collide(field, mesh)
    warnings = rows(field, mesh)[-1]["warnings"]
    assert code == 0
    assert [each for each in warnings if "times" in each] == ([told] if told else [])
    assert errors == "".join(f"note: {each}\n" for each in warnings)
    drawn = run("render", field, "--mesh", mesh, "-o", tmp_path / "a.png", "--size", "8", "--json", cwd=parts)
    assert drawn.returncode == 0
    assert [each for each in drawn.stderr.splitlines() if "times" in each] == ([f"note: {told}"] if told else [])
    assert json.loads(drawn.stdout)["warnings"] == ([told] if told else [])
    caplog.clear()
    tree = sdfcli.SphereTree(mesh, "cpu")
    for _ in range(2):
        sdfcli.contacts(sdfcli.load(field), tree, np.eye(4))
    assert [each.message for each in caplog.records] == ([told.replace(mesh, "the mesh")] if told else [])


def test_points_outside_the_domain_are_told(folder: Path) -> None:
    words = ["tight.h5", "cube.ply", "--at", "3,0,0", *DEEP]
    first, second, last = rows(*words)
    assert (first["outside_domain"], second["outside_domain"]) == (True, False)
    note = "lie outside the field's domain, where distances are lower bounds: build with a larger --domain"
    assert last["warnings"] == [f"the nearest points of 1 of 2 poses (0) {note}"]
    assert collide(*words)[2] == f"note: {last['warnings'][0]}\n"
    assert collide(*words[:4])[2] == f"note: the nearest point {note.replace('lie', 'lies')}\n"
    found = sdfcli.contacts(sdfcli.load("tight.h5"), "cube.ply", [at(3, 0, 0), at(0, 0.1, 0)])
    assert found.outside_domain.tolist() == [True, False]


# ---- Names, terminals, pipes ----


@pytest.mark.parametrize("name", ["\x1b[31mred", "new\nline", "[bold]x", "-lead", "bad\udcff", "a b"])
def test_names_of_files(name: str, folder: Path) -> None:
    try:
        Path(f"{name}.ply").symlink_to("cube.ply")
    except UnicodeEncodeError:
        pytest.skip("the file system has no such names")
    Path(f"{name}.h5").symlink_to("ball.h5")
    words = ["--min", "1", *BESIDE, f"--contacts={name}.csv", "--", f"{name}.h5", f"{name}.ply"]
    code, output, errors = collide(*words)
    assert code == 6
    assert os.path.exists(f"{name}.csv")
    lines = output.splitlines()
    assert len(lines) == 8
    assert len(errors.splitlines()) == 1
    assert "\x1b" not in output + errors
    if name[0] == "[":
        assert lines[2] == f"{name}.ply in {name}.h5"


@pytest.mark.parametrize(("columns", "last"), [(80, "triangle"), (110, "point"), (200, "out")])
def test_rows_on_a_terminal(columns: int, last: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each on a line of its own, as wide as fits, and no progress between them."""
    monkeypatch.setenv("NO_COLOR", "1")
    seen = on_a_terminal("collide", "ball.h5", "cube.ply", "--poses", "way.npy", columns=columns)
    assert "\x1b" not in seen
    head, *lines = seen.replace("\r\n", "\n").splitlines()
    assert head.split()[-1] == last
    assert max(map(len, [head, *lines])) <= columns
    assert [line.split()[0] for line in lines[:6]] == ["0", "1", "2", "3", "4", "cube.ply"]


def test_verdicts_in_colour(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen = on_a_terminal("collide", "ball.h5", "cube.ply", "--poses", "way.npy", columns=200)
    assert "\x1b[32mclear\x1b[0m" in seen
    assert "\x1b[31mpenetrating\x1b[0m" in seen


def test_progress_on_a_terminal(folder: Path) -> None:
    with open("rows", "w") as file:
        seen = on_a_terminal("collide", "ball.h5", "cube.ply", "--poses", "way.npy", stdout=file)
    assert "ball.h5: " in seen
    assert "contact" not in seen
    assert len(Path("rows").read_text().splitlines()) == 11
    assert pace(8192, 100_000, 0.5, "poses") == "8,192 of 100,000 poses, 16,384 poses/s, 6 s left"


@pytest.fixture
def many(folder: Path) -> str:
    """Poses for some seconds."""
    np.save("many.npy", np.tile(at(1.4, 0, 0), (12_000, 1, 1)))
    return "many.npy"


def test_lines_come_as_they_are_found(many: str, folder: Path) -> None:
    """And a reader may have enough; the exit code is that of all poses."""
    command = [sys.executable, "-m", "sdfcli", "collide", "ball.h5", "cube.ply", "--poses", many, "--min", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(" pose")
        assert process.poll() is None
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 6
    assert "12,000 of 12,000 poses may come nearer than 1" in errors


def test_an_interrupt_leaves_nothing(many: str, folder: Path, heeded: None) -> None:
    before = sorted(os.listdir())
    words = ["collide", "ball.h5", "cube.ply", "--poses", many, "--contacts", "c.ply", "--json", "-q"]
    command = [sys.executable, "-m", "sdfcli", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate()
    assert (process.returncode, errors) == (130, "sdfcli: interrupted\n")
    assert json.loads(printed.splitlines()[-1]) == {"schema_version": 1, "error": "interrupted", "exit_code": 130}
    assert sorted(os.listdir()) == before


def test_a_full_standard_output(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "sdfcli", "collide", "ball.h5", "cube.ply"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "sdfcli: standard output: cannot be written: No space left on device"


def test_a_mesh_around_the_solid(folder: Path) -> None:
    """Its surface meets none, and it fails all the same; in a cavity the solid is clear."""
    cube = shapes.cube()
    export(folder / "around.ply", shapes.moved(cube, 9))
    export(folder / "housing.ply", shapes.joined(shapes.moved(cube, 9), shapes.inside_out(shapes.moved(cube, 8))))
    vertices, faces = shapes.sheet(np.random.default_rng(1), 20)
    saddle = np.stack([*(9 * vertices[:, :2]).T, 20 * vertices[:, 0] * vertices[:, 1] + 5], axis=1)
    export(folder / "open.ply", (saddle, faces))
    for name, code, verdict, encloses in (
        ("around.ply", 6, "penetrating", True),
        ("housing.ply", 0, "clear", True),
        ("open.ply", 0, "clear", False),
    ):
        found = CliRunner().invoke(app, ["collide", "ball.h5", name, "--min", "0.5", "--json", "--device", "cpu"])
        *_, pose, facts = reports("collide", found.stdout)
        assert (found.exit_code, pose["contact"], facts["posed_encloses"]) == (code, verdict, encloses), name
        assert ("encloses nothing" in found.stderr) == (encloses is False)
