"""Commands that read sequences: a frame, a time, a range, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image, ImageSequence
from typer.testing import CliRunner, Result

import sdfcli
import sequences
import shapes
from sdfcli.cli.app import app
from sdfcli.pictures.posed import PosedMesh
from sdfcli.pictures.render import shot_of
from sdfcli.pictures.slice import scale_of
from sdfcli.query.poses import pose_at
from sdfcli.sequence.field_sequence import FieldSequence
from sdfcli.sequence.file import load_sequence

TIMES = [0.0, 0.5, 0.75, 2.0]
BALL = shapes.icosphere(2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """anim.h5: a ball that moves along x and grows, and has other faces at the end; field.h5; mesh.obj."""
    folder = tmp_path_factory.mktemp("fields")
    places: list[Any] = [shapes.moved(BALL, 1 + 0.2 * k, [0.8 * k, 0, 0]) for k in range(3)]
    last = shapes.moved(shapes.icosphere(1), 1.0, [2.4, 0, 0])
    sequences.write(folder / "anim.h5", [*places, last], TIMES, tolerance=1e-2)
    sdfcli.build(BALL, tolerance=2e-2, device="cpu").save(folder / "field.h5")
    vertices, faces = places[1]
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    lines += ["f " + " ".join(str(k + 1) for k in face) for face in faces.tolist()]
    (folder / "mesh.obj").write_text("\n".join(lines))
    (folder / "points.csv").write_text("0,0,0\n1,0.5,0\n")
    return folder


@pytest.fixture(scope="module")
def moving(folder: Path) -> FieldSequence:
    return load_sequence(folder / "anim.h5")


@pytest.fixture
def here(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder beside links to the inputs."""
    for name in ("anim.h5", "field.h5", "mesh.obj", "points.csv"):
        (tmp_path / name).symlink_to(folder / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(words: str) -> Result:
    return CliRunner().invoke(app, words.split())


def done(words: str) -> list[dict[str, Any]]:
    """The objects that a command prints with --json."""
    result = invoke(f"{words} --json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.is_symlink())


def look(moving: FieldSequence, numbers: range) -> list[Any]:
    """What `render --size 60x40 --frames` shows."""
    options: dict[str, Any] = {"width": 60, "height": 40, "device": "cpu"}
    shot = shot_of((moving.at(k) for k in numbers), **options)
    return [sdfcli.render(moving.at(k), shot=shot, **options) for k in numbers]


# ---- info ----


def test_info_of_a_sequence(here: Path, moving: FieldSequence) -> None:
    told = done("info anim.h5")[0]
    assert (told["frames"], told["times"]) == (4, TIMES)
    assert told["motions"][0] is None
    assert told["motions"][1] == pytest.approx(1.0)  # the far pole: 0.8, and 0.2 of the radius
    assert told["motions"][3] is None
    assert told["max_error"] == max(moving.at(k).info["max_error"] for k in range(4))
    assert told["signs"] == {"pseudonormal": 4}
    assert sum(told["verdicts"].values()) == 4
    assert told["domain_length"] == moving.domain.length == told["parameters"]["domain"][3]
    assert told["bytes"] == Path("anim.h5").stat().st_size
    table = invoke("info anim.h5").stdout
    for words in ("4, from 0 to 2 seconds", "moves 1 at most", "change once", "pseudonormal (4 frames)"):
        assert words in table


@pytest.mark.parametrize(("choice", "frame"), [("--frame 1", 1), ("--frame -1", 3), ("--time 0.75", 2)])
def test_info_of_a_frame(choice: str, frame: int, here: Path, moving: FieldSequence) -> None:
    told = done(f"info anim.h5 {choice}")[0]
    assert told["content_sha256"] == moving.at(frame).content_sha256
    assert told["parameters"] == moving.at(frame).info["parameters"]


# ---- One frame or time ----


@pytest.mark.parametrize(("choice", "time"), [("--frame 1", 0.5), ("--time 0.5", 0.5), ("--time 0.6", 0.6)])
def test_query(choice: str, time: float, here: Path, moving: FieldSequence) -> None:
    result = invoke(f"query anim.h5 points.csv {choice} --gradient")
    rows = np.array([[float(x) for x in line.split(",")] for line in result.stdout.splitlines()])
    points = np.array([[0, 0, 0], [1, 0.5, 0]], float)
    field = moving.at_time(time)
    np.testing.assert_allclose(rows, np.column_stack(field.sample_with_gradient(points)), rtol=1e-6)


def test_pictures_of_a_frame(here: Path, moving: FieldSequence) -> None:
    done("render anim.h5 --frame 2 --size 60x40 -o a.png")
    assert np.array_equal(Image.open("a.png"), sdfcli.render(moving.at(2), width=60, height=40, device="cpu"))
    done("slice anim.h5 --time 1 --size 64 -o b.png")
    assert np.array_equal(Image.open("b.png"), sdfcli.slice_image(moving.at_time(1), size=64, device="cpu"))


@pytest.mark.parametrize(("words", "name"), [("extract --cells 16 -o", "a.ply"), ("export --resolution 9", "a.npz")])
def test_a_frame_is_written_as_its_field_is(words: str, name: str, here: Path, moving: FieldSequence) -> None:
    moving.at(2).save("two.h5")
    command, *options = words.split()
    done(" ".join([command, "two.h5", *options, f"field_{name}"]))
    done(" ".join([command, "anim.h5", *options, name, "--frame 2"]))
    assert Path(name).read_bytes() == Path(f"field_{name}").read_bytes()


def test_verify(here: Path) -> None:
    told = done("verify anim.h5 --frame 1 --mesh mesh.obj --samples 300")[0]
    assert told["same_mesh"]
    assert told["passed"]
    result = invoke("verify anim.h5 --frame 0 --mesh mesh.obj --samples 300")
    assert result.exit_code == 6


# ---- Ranges ----


def test_a_gif_lasts_as_long_as_its_delays(here: Path, moving: FieldSequence) -> None:
    (told,) = done("render anim.h5 --frames 0:3 --fps 200 --size 60x40 --device cpu -o fast.gif")
    shown = [each.info["duration"] for each in ImageSequence.Iterator(Image.open("fast.gif"))]
    assert (told["lasts"], sum(shown)) == (0.06, 60)


def test_the_error_between_frames_is_a_length(here: Path, moving: FieldSequence) -> None:
    between = moving.at_time(0.6)
    unit, error = between.info["parameters"]["unit"], between.info["max_error"]
    (row,) = (line for line in invoke("info anim.h5 --time 0.6").stdout.splitlines() if "max error" in line)
    assert row.split()[2:] == [f"{error * unit:.2g}", f"({error:.2g}", "of", "the", "unit)"]


@pytest.mark.parametrize("name", ["a.apng", "a_%04d.png"])
def test_render(name: str, here: Path, moving: FieldSequence) -> None:
    told = done(f"render anim.h5 --frames 1:4:2 --size 60x40 --device cpu -o {name}")
    expected = look(moving, range(1, 4, 2))
    if name == "a.apng":
        assert [(each["output"], each["frames"], each["lasts"]) for each in told] == [(name, 2, 3.0)]
        pictures = [each.convert("RGB") for each in ImageSequence.Iterator(Image.open(name))]
        assert [each.info["duration"] for each in ImageSequence.Iterator(Image.open(name))] == [1500, 1500]
    else:
        names = ["a_0001.png", "a_0003.png"]
        assert [(each["output"], each["frame"], each["time"]) for each in told] == [
            (names[0], 1, 0.5),
            (names[1], 3, 2.0),
        ]
        assert made(here) == names
        pictures = [Image.open(each) for each in names]
    assert told[0]["bytes"] == Path(told[0]["output"]).stat().st_size
    assert (told[0]["width"], told[0]["height"]) == (60, 40)
    for picture, each in zip(pictures, expected, strict=True):
        assert np.array_equal(picture, each)


def test_render_with_a_mesh(here: Path, moving: FieldSequence) -> None:
    """It stands still; contacts are those with each frame."""
    words = "--mesh mesh.obj --at 0,0,2.5 --margin 0.8 --size 60x40 --device cpu"
    told = done(f"render anim.h5 --frames :3 -o a_%d.png {words}")
    assert [(each["posed"], each["margin"]) for each in told] == [("mesh.obj", 0.8)] * 3
    mesh = PosedMesh("mesh.obj", pose_at("0,0,2.5"))
    options: dict[str, Any] = {"width": 60, "height": 40, "device": "cpu"}
    shot = shot_of((moving.at(k) for k in range(3)), mesh=mesh, **options)
    counts = []
    for k in range(3):
        found = sdfcli.contacts(moving.at(k), mesh.mesh, np.eye(4), margin=0.8, device="cpu").manifold
        counts.append(len(found))
        expected = sdfcli.render(moving.at(k), mesh=mesh, contacts=found, shot=shot, **options)
        assert np.array_equal(Image.open(f"a_{k}.png"), expected)
    assert len(set(counts)) == 3
    still = done(f"render anim.h5 --frame 1 -o b.png {words}")[0]
    assert still["contacts"] == counts[1]


def test_slice(here: Path, moving: FieldSequence) -> None:
    told = done("slice anim.h5 --axis y --frames : --size 64 --octree --fps 10 -o a.apng")[0]
    scale = scale_of((moving.at(k) for k in range(4)), axis="y", size=64, device="cpu")
    assert (told["at"], told["lasts"]) == (scale.at, 0.4)
    with Image.open("a.apng") as file:
        for k, picture in enumerate(ImageSequence.Iterator(file)):
            look: dict[str, Any] = {"axis": "y", "size": 64, "octree": True, "scale": scale, "device": "cpu"}
            expected = sdfcli.slice_image(moving.at(k), time=TIMES[k], **look)
            assert not np.array_equal(expected, sdfcli.slice_image(moving.at(k), **look))  # the heading has the time
            assert np.array_equal(picture.convert("RGB"), expected)


def test_a_gif_by_default(here: Path) -> None:
    result = invoke("render anim.h5 --frames ::-1 --size 40x30")
    assert result.exit_code == 0, result.output
    assert "4, 2.5 s" in result.stdout
    assert made(here) == ["anim.gif"]
    with Image.open("anim.gif") as file:
        assert [each.info["duration"] for each in ImageSequence.Iterator(file)] == [1250, 250, 500, 500]
    assert invoke("slice anim.h5 --frames 0:2 --size 64").exit_code == 0
    assert made(here) == ["anim.gif", "anim_z.gif"]


def test_extract(here: Path) -> None:
    told = done("extract anim.h5 --frames -2: --cells 16")
    assert [(each["output"], each["frame"]) for each in told] == [("anim_iso_0002.ply", 2), ("anim_iso_0003.ply", 3)]
    assert all(each["closed"] for each in told)
    for each in told:
        done(f"extract anim.h5 --frame {each['frame']} --cells 16 -o one.ply --force")
        assert Path(each["output"]).read_bytes() == Path("one.ply").read_bytes()
        assert each["bytes"] == Path("one.ply").stat().st_size
        assert sum(each["seconds"][stage] for stage in ("load", "extract", "measure", "write")) == pytest.approx(
            each["seconds"]["total"], abs=1e-3
        )


def test_surfaces_of_a_range_have_one_grid(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = iter(range(11, 20))
    monkeypatch.setattr("sdfcli.extract.resolution.default_cells", lambda *_: next(cells))
    assert [each["cells"][0] for each in done("extract anim.h5 --frames ::-1")] == [11] * 4


def test_export_of_all_frames(here: Path, moving: FieldSequence) -> None:
    told = done("export anim.h5 a.vtkhdf")[0]
    assert (told["frames"], told["leaves"]) == (4, sum(len(moving.at(k).leaf_key) for k in range(4)))
    with h5py.File("a.vtkhdf") as file:
        steps = file["VTKHDF/Steps"]
        assert steps.attrs["NSteps"] == 4
        assert list(steps["Values"]) == TIMES
        first = steps["PointDataOffsets/distance"][2]
        field = moving.at(2)
        distance = file["VTKHDF/PointData/distance"][first : first + len(field.corner_key)]
        assert np.array_equal(distance, field.distance)
    assert done("export anim.h5 b.vtkhdf --time 0.75")[0]["leaves"] == len(field.leaf_key)


# ---- What is refused ----


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("query anim.h5 points.csv", 3, "choose one with --frame N"),
        ("render anim.h5", 3, "choose one with --frame N"),
        ("slice anim.h5", 3, "choose one with --frame N"),
        ("extract anim.h5", 3, "choose one with --frame N"),
        ("export anim.h5 a.npz", 3, "choose one with --frame N"),
        ("verify anim.h5 --mesh mesh.obj", 3, "choose one with --frame N"),
        *((f"{command} --frame 0", 3, "not a sequence; --frame") for command in (
            "info field.h5", "query field.h5 points.csv", "render field.h5", "slice field.h5", "extract field.h5",
            "export field.h5 a.npz", "verify field.h5 --mesh mesh.obj",
        )),
        ("info field.h5 --time 0", 3, "not a sequence; --time"),
        *((f"{command} field.h5 --frames :", 3, "not a sequence; --frames") for command in ("render", "slice")),
        ("extract field.h5 --frames :", 3, "not a sequence; --frames"),
        ("query mesh.obj points.csv --time 1", 2, "for a sequence, not for a mesh"),
        ("info anim.h5 --frame 0 --time 0", 2, "use one of --frame, --time"),
        *((f"{command} --why", 2, "--why: frames of a sequence store no causes") for command in (
            "info anim.h5", "info anim.h5 --frame 0", "slice anim.h5 --time 0", "slice anim.h5 --frames :",
        )),
        ("render anim.h5 --frame 0 --frames :", 2, "use one of --frame, --time, --frames"),
        ("render anim.h5 --frame 4", 2, "frame 4: the sequence has frames 0 to 3"),
        ("render anim.h5 --time 2.5", 2, "from 0.0 to 2.0 seconds"),
        ("render anim.h5 --time nan", 2, "from 0.0 to 2.0 seconds"),
        ("render anim.h5 --frames 3", 2, "--frame N is for one"),
        ("render anim.h5 --frames a:b", 2, "--frames a:b: use A:B"),
        ("render anim.h5 --frames ::0", 2, "--frames ::0: use A:B"),
        ("render anim.h5 --frames 0:1:1:1", 2, "use A:B"),
        ("extract anim.h5 --frames 3:1", 2, "no frames; the sequence has 4"),
        ("render anim.h5 --frames : --fps 0", 2, "--fps 0: use a number above 0"),
        ("render anim.h5 --frames : --fps inf", 2, "--fps inf: use a number above 0"),
        ("render anim.h5 --frame 1 --fps 5", 2, "--fps is for --frames"),
        ("slice anim.h5 --frame 1 --fps 5", 2, "--fps is for --frames"),
        ("slice anim.h5 --frames : --fps 5 -o a_%d.png", 2, "--fps is for a name that ends in .gif or .apng"),
        ("slice anim.h5 --frames : -o a.png", 2, "a_%04d.png"),
        ("slice anim.h5 --frames : -o b/a_%d_%d.png", 2, "with %d or %04d for the frame number, as in b/a_%04d.png\n"),
        ("slice anim.h5 --frames : -o b/a_%5d.png", 2, "as in b/a_%04d.png\n"),
        ("extract anim.h5 --frames : -o %5d.ply", 2, "as in frame_%04d.ply\n"),
        ("slice anim.h5 --frames : -o b/a_%5d.bmp", 2, "use a name that ends in .gif or .apng, or b/a_%04d.png\n"),
        ("sequence mesh.obj mesh.obj -o {name}.h5", 2, "{name}.h5: use a name without {name}"),
        ("slice anim.h5 --frames : -o a.bmp", 2, ".apng"),
        ("render anim.h5 --frame 1 -o a.gif", 2, "ends in .png"),
        ("render anim.h5 --frames : -o anim.h5/a.gif", 2, "anim.h5: cannot be used: that is not a folder"),
        ("render anim.h5 --frames : --iso 99", 3, "no surface at 99"),
        ("render anim.h5 --frames : --view north", 2, "--view north"),
        ("slice anim.h5 --frames : --at 99", 2, "--at 99"),
        ("extract anim.h5 --frames : -o a.ply", 2, "a_%04d.ply"),
    ],
)  # fmt: skip
def test_refused(words: str, code: int, says: str, here: Path) -> None:
    result = invoke(words)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not made(here)


@pytest.mark.parametrize(
    "words",
    [
        "render anim.h5 --size 40x30 --frames : -o a_%d.png",
        "slice anim.h5 --size 64 --frames : -o a_%d.png",
        "extract anim.h5 --cells 8 --frames : -o a_%d.ply",
    ],
)
def test_files_are_checked_before_the_work(words: str, here: Path) -> None:
    taken = Path(words.rsplit(maxsplit=1)[-1].replace("%d", "2"))
    taken.write_text("mine")
    result = invoke(words)
    assert result.exit_code == 2
    assert f"{taken}: exists" in result.stderr
    assert made(here) == [taken.name]
    assert invoke(f"{words} --force").exit_code == 0
    assert len(made(here)) == 4


def test_a_failure_leaves_whole_files(here: Path, folder: Path) -> None:
    content = bytearray((folder / "anim.h5").read_bytes())
    with h5py.File(folder / "anim.h5") as file:
        levels = file["frame/000002/leaf_level"].id.get_chunk_info(0)
    content[levels.byte_offset + levels.size // 2] ^= 0xFF
    Path("broken.h5").write_bytes(content)
    for words, names in (("extract --cells 8 -o a_%d.ply", ["a_0.ply", "a_1.ply"]), ("render --size 40x30", [])):
        command, *options = words.split()
        result = invoke(" ".join([command, "broken.h5", "--frames", ":", *options]))
        assert result.exit_code == 3
        assert "broken.h5" in result.stderr
        assert made(here) == [*names, "broken.h5"]
        for name in names:
            Path(name).unlink()


def test_numbers_and_signs_for_humans(here: Path) -> None:
    """A film's plane has few digits, and a sign that was asked for is told once."""
    (row,) = re.findall(
        r"^picture +.*, at (\S+)$",
        invoke("slice anim.h5 --frames : -o a.gif --size 64 --at 0.12345678901234").stdout,
        re.M,
    )
    assert row == "0.123456789"
    for sign, says in (("none", "none (asked for)"), ("winding", "winding (asked for)"), ("auto", "asked for: auto")):
        sdfcli.build(BALL, tolerance=2e-2, device="cpu", sign=sign).save(here / f"{sign}.h5")
        (told,) = re.findall(r"^sign +(.*)$", invoke(f"info {sign}.h5").stdout, re.M)
        assert told.endswith(says)
