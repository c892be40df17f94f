"""`sdfcli render` and `sdfcli slice`: a field in, a picture out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image
from typer.testing import CliRunner, Result

import sdfcli
import sequences
import shapes
from commands import run
from sdfcli.cli.app import app
from sdfcli.cli.render import parse_size
from sdfcli.query.poses import pose_at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    sdfcli.build(shapes.icosphere(4), tolerance=2e-3, device="cpu").save(folder / "ball.h5")
    trimesh.Trimesh(*shapes.cube(), process=False).export(folder / "cube.ply")
    return folder


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [*(str(word) for word in words), "--device", "cpu"])


def test_render(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.PNG"
    result = invoke("render", folder / "ball.h5", "-o", target, "--size", "90x60", "--view", "-20,10", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["width"], told["height"], told["view"]) == (90, 60, "-20,10")
    assert told["bytes"] == target.stat().st_size
    picture = np.asarray(Image.open(target))
    expected = sdfcli.render(folder / "ball.h5", width=90, height=60, view=(-20, 10), device="cpu")
    assert np.array_equal(picture, expected)


def test_a_note_on_thin_surfaces(tmp_path: Path) -> None:
    """In a process of its own: notes are one line on standard error, and -q prints none."""
    vertices, faces = shapes.cube()
    sdfcli.build((vertices * [1, 1e-3, 1e-3], faces), device="cpu").save(tmp_path / "needle.h5")
    words = (
        "render",
        tmp_path / "needle.h5",
        "--view",
        "front",
        "--size",
        "90x60",
        "--force",
        "-o",
        tmp_path / "a.png",
    )
    note = "note: parts of the surface are thinner than a pixel, and drawn thicker; use a larger --size\n"
    assert run(*words).stderr == note
    assert run(*words, "-q").stderr == ""


@pytest.mark.parametrize(
    ("iso", "cut"), [("0", []), ("-0.5,0.04", []), ("0.15", ["0.15"]), ("0.04,0.1,0.2", ["0.1", "0.2"])]
)
def test_a_surface_that_leaves_the_domain(iso: str, cut: list[str], folder: Path, tmp_path: Path) -> None:
    """As `extract` notes it: the domain is 2.5 % wider than the ball."""
    target = tmp_path / "a.png"
    done = run("render", folder / "ball.h5", "-o", target, "--size", "90x60", "--iso", iso, "--json")
    notes = [
        f"the surface at {level} reaches the border of the domain, and is open there: build with a larger --domain"
        for level in cut
    ]
    assert json.loads(done.stdout)["warnings"] == notes
    assert done.stderr == "".join(f"note: {note}\n" for note in notes)
    for level in iso.split(","):
        surface = sdfcli.isosurface(sdfcli.load(folder / "ball.h5"), iso=float(level), cells=32)
        assert surface.cut == (level in cut)


def test_a_mesh_and_its_contacts(folder: Path, tmp_path: Path) -> None:
    target, words = tmp_path / "a.png", ["--size", "90x60", "--json"]
    placed = ["--mesh", folder / "cube.ply", "--at", "0,1.9,0,0,0,30"]
    result = invoke("render", folder / "ball.h5", "-o", target, *words, *placed, "--margin", "0.01")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    pose = pose_at("0,1.9,0,0,0,30")
    found = sdfcli.contacts(sdfcli.load(folder / "ball.h5"), folder / "cube.ply", pose, margin=0.01, device="cpu")
    assert (told["posed"], told["margin"]) == (str(folder / "cube.ply"), 0.01)
    assert told["contacts"] == len(found.manifold) > 0
    look: dict[str, Any] = {"width": 90, "height": 60, "mesh": folder / "cube.ply", "pose": pose, "device": "cpu"}
    expected = sdfcli.render(folder / "ball.h5", contacts=found.manifold, **look)
    assert np.abs(np.asarray(Image.open(target)).astype(int) - expected).mean() < 0.5  # rounding moves contacts
    without = sdfcli.render(folder / "ball.h5", **look)
    assert not np.array_equal(expected, without)
    result = invoke("render", folder / "ball.h5", "-o", target, *words, *placed, "--force")
    assert result.exit_code == 0, result.output
    assert np.array_equal(Image.open(target), without)
    assert json.loads(result.stdout).keys() == {*told} - {"margin", "contacts"}


def test_slice(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    words = ["--axis", "x", "--at", "-0.25", "--size", "100", "--octree", "--json"]
    result = invoke("slice", folder / "ball.h5", "-o", target, *words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["axis"], told["at"]) == ("x", -0.25)
    picture = np.asarray(Image.open(target))
    assert picture.shape == (told["height"], told["width"], 3)
    expected = sdfcli.slice_image(folder / "ball.h5", axis="x", at=-0.25, size=100, octree=True, device="cpu")
    assert np.array_equal(picture, expected)


@pytest.mark.parametrize("ending", ["jpg", "JPEG"])
@pytest.mark.parametrize("command", ["render", "slice"])
def test_jpeg(command: str, ending: str, folder: Path, tmp_path: Path) -> None:
    target, size = tmp_path / f"a.{ending}", "120x90" if command == "render" else "120"
    result = invoke(command, folder / "ball.h5", "-o", target, "--size", size)
    assert result.exit_code == 0, result.output
    with Image.open(target) as made:
        assert (made.format, made.mode) == ("JPEG", "RGB")
        picture = np.asarray(made).astype(int)
    draw = sdfcli.slice_image if command == "slice" else sdfcli.render
    wanted: dict[str, Any] = {"size": 120} if command == "slice" else {"width": 120, "height": 90}
    assert np.abs(picture - draw(folder / "ball.h5", device="cpu", **wanted)).mean() < 2


def test_transparent(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    result = invoke("render", folder / "ball.h5", "-o", target, "--size", "90x60", "--transparent")
    assert result.exit_code == 0, result.output
    with Image.open(target) as made:
        assert made.mode == "RGBA"
        expected = sdfcli.render(folder / "ball.h5", width=90, height=60, transparent=True, device="cpu")
        assert np.array_equal(made, expected)


def test_moving_and_transparent(folder: Path, tmp_path: Path) -> None:
    mesh, words = shapes.icosphere(2), ["--size", "60x60", "--frames", ":", "--transparent", "-o"]
    sequences.write(tmp_path / "anim.h5", [mesh, (0.6 * mesh[0], mesh[1])], [0.0, 1.0], tolerance=1e-2)
    for name in ("a_%d.png", "a.apng"):
        result = invoke("render", tmp_path / "anim.h5", *words, tmp_path / name)
        assert result.exit_code == 0, result.output
    with Image.open(tmp_path / "a.apng") as moving:
        for index in range(2):
            moving.seek(index)
            still = np.asarray(Image.open(tmp_path / f"a_{index}.png"))
            assert np.array_equal(moving.convert("RGBA"), still)
            assert {0, 255} < set(still[..., 3].ravel().tolist())


def test_slice_of_causes(tmp_path: Path) -> None:
    field = sdfcli.build(shapes.icosphere(3), tolerance=4e-3, device="cpu", why=True).save(tmp_path / "a.h5")
    for words in ["--why"], ["--octree", "--why"]:
        result = invoke("slice", field, "-o", tmp_path / "a.png", "--size", "100", *words, "--force")
        assert result.exit_code == 0, result.output
        expected = sdfcli.slice_image(field, size=100, why=True, device="cpu")
        assert np.array_equal(Image.open(tmp_path / "a.png"), expected)


def test_a_sheet(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.png"
    result = invoke("slice", folder / "ball.h5", "-o", target, "--sheet", 4, "--size", 200, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    picture = np.asarray(Image.open(target))
    assert picture.shape == (told["height"], told["width"], 3)
    assert told["planes"] == pytest.approx([-0.75, -0.25, 0.25, 0.75], abs=0.05)
    assert np.array_equal(picture, sdfcli.slice_image(folder / "ball.h5", sheet=4, size=200, device="cpu"))
    for words in (["--at", "0"], ["--frames", ":"]):
        result = invoke("slice", folder / "ball.h5", "-o", tmp_path / "b.png", "--sheet", 4, *words)
        assert result.exit_code == 2
        assert "--sheet" in result.stderr


@pytest.mark.parametrize("command", ["render", "slice"])
def test_many_fields(command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.h5", "c.h5"):
        Path(name).write_bytes((folder / "ball.h5").read_bytes())
    Path("b.h5").write_text("broken")
    size = "64x64" if command == "render" else "64"
    result = invoke(command, "a.h5", "b.h5", "c.h5", "-o", "out/{name}_1.png", "--size", size)
    assert result.exit_code == 3
    assert "b.h5: not an intact field" in result.stderr
    assert sorted(os.listdir("out")) == ["a_1.png", "c_1.png"]
    assert invoke(command, "a.h5", "c.h5", "--size", size).exit_code == 0
    assert sorted(Path().glob("*.png")) == [Path(f"{name}{'' if command == 'render' else '_z'}.png") for name in "ac"]
    result = invoke(command, "a.h5", "c.h5", "-o", "all.png", "--size", size)
    assert result.exit_code == 2
    assert "{name}" in result.stderr
    result = invoke(command, "a.h5", "c.h5", "-o", "{name}.gif", "--frames", ":", "--size", size)
    assert result.exit_code == 2
    assert "one sequence" in result.stderr


@pytest.mark.parametrize(("command", "name"), [("render", "ball.png"), ("slice", "ball_z.png")])
def test_default_names_and_replacing(
    command: str, name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(command, folder / "ball.h5")
    assert result.exit_code == 0, result.output
    assert name in result.stdout
    assert result.stderr == ""
    before = Path(name).read_bytes()
    again = invoke(command, folder / "ball.h5", "-q")
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert invoke(command, folder / "ball.h5", "-q", "--force").output == ""
    assert Path(name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("size", "parsed"), [("800x600", (800, 600)), ("64", (64, 64))])
def test_sizes(size: str, parsed: tuple[int, int]) -> None:
    assert parse_size(size) == parsed


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["render", "ball.h5", "-o", "a.bmp"], 2, ".png, .jpg, .jpeg"),
        (["render", "ball.h5", "-o", "a.jpg", "--transparent"], 2, "use a name that ends in .png or .apng"),
        (["render", "ball.h5", "-o", "a.gif", "--frames", ":", "--transparent"], 2, "ends in .png or .apng"),
        (["render", "ball.h5", "--size", "800x"], 2, "800x600"),
        (["render", "ball.h5", "--size", "0x5"], 2, "--size 0x5"),
        (["render", "ball.h5", "--size", "9000x5"], 2, "8192"),
        (["render", "ball.h5", "--view", "north"], 2, "--view north"),
        (["render", "ball.h5", "--up", "w"], 2, "--up w"),
        (["render", "ball.h5", "--iso", "9"], 3, "values go from"),
        (["render", "ball.h5", "--iso", "0,9"], 3, "no surface at 9"),
        (["render", "ball.h5", "--iso", "0,x"], 2, "--iso 0,x"),
        (["render", "ball.h5", "--iso", "0,0.1", "--mesh", "cube.ply"], 2, "--mesh: not with several --iso"),
        (["render", "ball.h5", "--threads", "0"], 2, "--threads 0"),
        (["render", "ball.h5", "--at", "1,2,3"], 2, "--at is for --mesh"),
        (["render", "ball.h5", "--margin", "1"], 2, "--margin is for --mesh"),
        (["render", "ball.h5", "--mesh", "cube.ply", "--at", "1,2"], 2, "--at 1,2"),
        (["render", "ball.h5", "--mesh", "cube.ply", "--margin", "inf"], 2, "--margin inf"),
        (["render", "ball.h5", "--mesh", "missing.stl"], 3, "missing.stl: no such file"),
        (["render", "ball.h5", "--mesh", "broken.h5"], 3, "broken.h5"),
        (["render", "ball.h5", "--mesh", "cube.ply", "--at", "1e300,0,0"], 3, "the posed mesh"),
        (["render", "missing.h5"], 3, "no such file"),
        (["render", "broken.h5"], 3, "broken.h5"),
        (["slice", "ball.h5", "-o", "a.svg"], 2, ".png"),
        (["slice", "ball.h5", "-o", "ball.h5/a.png"], 2, "ball.h5: cannot be used: that is not a folder"),
        (["slice", "ball.h5", "--axis", "q"], 2, "--axis q"),
        (["slice", "ball.h5", "--size", "5"], 2, "--size 5"),
        (["slice", "ball.h5", "--at", "7"], 2, "--at 7"),
        (["slice", "broken.h5"], 3, "broken.h5"),
        (["slice", "ball.h5", "--octree", "--why"], 3, "stores no causes; build it with --why"),
    ],
)
def test_errors(words: list[str], code: int, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    Path("broken.h5").write_bytes(b"nothing")
    before = sorted(path.name for path in folder.iterdir())
    result = invoke(*words)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_no_display_is_needed(folder: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    words = "render", folder / "ball.h5", "-o", tmp_path / "a.png", "-q", "--size", "40x30", "--device", "cpu"
    assert run(*words, env=environment).returncode == 0
    assert Image.open(tmp_path / "a.png").size == (40, 30)
