"""`sdfcli view`: a field or a mesh in, a page out."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest
import trimesh
from typer.testing import CliRunner, Result

import sdfcli
import sequences
import shapes
import web
from commands import reports, run
from sdfcli.cli import view as view_module
from sdfcli.cli.app import app
from sdfcli.field import coarse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("view")
    sdfcli.build(shapes.icosphere(3), tolerance=1e-3, device="cpu").save(folder / "ball.h5")
    trimesh.Trimesh(*shapes.cube(), process=False).export(folder / "cube.ply")
    sequences.write(folder / "anim.h5", [folder / "cube.ply"] * 2, [0.0, 1.0], depth=3)
    return folder


@pytest.fixture
def browsers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that the command opens."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(found.append(address)) or True)
    return found


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_field(folder: Path, tmp_path: Path, browsers: list[str]) -> None:
    target = tmp_path / "new" / "a.html"
    done = invoke("view", folder / "ball.h5", "-o", target, "--view", "top", "--up", "z", "--json")
    assert done.exit_code == 0, done.output
    (told,) = reports("view", done.stdout)
    field = sdfcli.load(folder / "ball.h5")
    assert target.read_text(encoding="utf-8") == field.view(name="ball", view="top", up="z").html
    assert (told["leaves"], told["shown"], told["difference"], told["opened"]) == (field.leaves, field.leaves, 0, False)
    assert told["bytes"] == target.stat().st_size
    assert browsers == []  # the output is no terminal


def test_an_overview(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file, of a mesh, and of an address, of which the beginning is fetched."""
    monkeypatch.setattr(coarse, "LARGE", 100)
    monkeypatch.chdir(tmp_path)
    whole = sdfcli.load(folder / "ball.h5")
    sdfcli.build(folder / "cube.ply", device="cpu").save("cube.h5")
    path = whole.save("ball.h5")
    overview = sdfcli.load(path, coarse=True)
    assert overview.leaves < whole.leaves
    with web.serving() as site:
        site.content = path.read_bytes()
        for name, field in ((site.address, overview), (path, overview), (folder / "cube.ply", "cube.h5")):
            shown = field if isinstance(field, sdfcli.Field) else sdfcli.load(field, coarse=True)
            done = invoke("view", name, "--coarse", "--json", "--device", "cpu")
            assert done.exit_code == 0, done.output
            (told,) = reports("view", done.stdout)
            assert (told["input"], told["leaves"], told["shown"]) == (str(name), shown.leaves, shown.leaves)
            target = Path(told["output"])
            assert target.name == f"{Path(str(name)).stem}.html"
            text = target.read_text(encoding="utf-8")
            assert text == shown.view(name=target.stem).html
            assert f"{shown.leaves:,} leaves of {shown.info['overview']['leaves']:,}, an overview" in text
            target.unlink()
        done = invoke("view", site.address.replace("//", "//me:secret@"), "--coarse", "--no-open")
        assert (done.exit_code, "secret" in done.output) == (0, False), done.output
    nowhere = "http://127.0.0.1:9/none.h5"
    done = invoke("view", nowhere, "--coarse")
    assert (done.exit_code, len(done.stderr.splitlines())) == (3, 1)
    assert done.stderr.startswith(f"sdfcli: {nowhere}: ")
    assert invoke("view", nowhere).exit_code == 3


def test_a_mesh_is_built_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("view", folder / "cube.ply", "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["cube.html"]
    assert (tmp_path / "cube.html").read_text() == sdfcli.build(folder / "cube.ply", device="cpu").view(
        name="cube"
    ).html


def test_a_frame_and_a_time(folder: Path, tmp_path: Path) -> None:
    for words in (("--frame", 1), ("--time", 0.5)):
        assert invoke("view", folder / "anim.h5", *words, "-o", tmp_path / f"{words[0]}.html").exit_code == 0
    frame = sdfcli.load_sequence(folder / "anim.h5").at(1)
    assert (tmp_path / "--frame.html").read_text() == frame.view(name="anim").html


def test_a_cut_field_is_noted(folder: Path, tmp_path: Path) -> None:
    done = run("view", folder / "ball.h5", "--leaves", 4096, "-o", tmp_path / "a.html", "--json")
    (told,) = reports("view", done.stdout)
    view = sdfcli.load(folder / "ball.h5").view(leaves=4096)
    assert (told["shown"], told["difference"]) == (view.leaves, view.difference)
    assert 0 < view.leaves <= 4096 < told["leaves"]
    words = (
        f"note: the page has {view.leaves:,} of {told['leaves']:,} leaves, which differ by up to {view.difference:.2g}"
    )
    assert done.stderr == f"{words}; --leaves sets the number\n"


def test_pages_are_replaced_by_force_only(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.html"
    target.write_text("mine")
    assert invoke("view", folder / "ball.h5", "-o", target).exit_code == 2
    assert target.read_text() == "mine"
    assert invoke("view", folder / "ball.h5", "-o", target, "--force").exit_code == 0
    assert target.read_text() != "mine"


def test_several(folder: Path, tmp_path: Path, browsers: list[str]) -> None:
    done = invoke(
        "view", folder / "ball.h5", folder / "cube.ply", folder / "anim.h5", "-o", f"{tmp_path}/out/", "--json"
    )
    assert done.exit_code == 3  # a sequence needs --frame; the others are done
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["ball.html", "cube.html"]
    assert [json.loads(line).get("exit_code", 0) for line in done.stdout.splitlines()] == [0, 0, 3]
    assert (
        invoke("view", folder / "ball.h5", folder / "cube.ply", "-o", tmp_path / "{name}.html", "--open").exit_code == 2
    )
    assert browsers == []


def test_opening(folder: Path, tmp_path: Path, browsers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a desktop, or when asked; a browser that does not start is no error."""
    target = tmp_path / "a b.html"
    words = ("view", folder / "ball.h5", "-o", target, "--force")
    asked = invoke(*words, "--open", "-q")
    assert (asked.exit_code, browsers) == (0, [target.as_uri()])
    monkeypatch.setattr(view_module, "_on_desktop", lambda: True)
    for more, opened in (((), 1), (("--no-open",), 0), (("--json",), 0), (("-q",), 0)):
        browsers.clear()
        assert invoke(*words, *more).exit_code == 0
        assert len(browsers) == opened

    def fails(_: str) -> bool:
        raise webbrowser.Error

    for broken in (fails, lambda _: False):
        monkeypatch.setattr(webbrowser, "open", broken)
        done = invoke(*words, "--open")
        assert done.exit_code == 0
        assert f"note: no browser started; open {target}" in done.stderr


def test_a_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name in ("CI", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not view_module._on_desktop()  # a terminal on a server
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert view_module._on_desktop()
    monkeypatch.setenv("CI", "1")
    assert not view_module._on_desktop()


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ("ball.h5 -o a.png", 2, "a.png: use a name that ends in .html, .htm"),
        ("ball.h5 --view q", 2, "--view q"),
        ("ball.h5 --leaves 9", 2, "--leaves 9: use 4096 to 2097152"),
        ("nothing.h5", 3, "nothing.h5: no such file"),
        ("ball.h5 --frame 0", 3, "not a sequence; --frame needs"),
        ("cube.ply --frame 0", 3, "cube.ply"),
        ("anim.h5", 3, "choose one with --frame N"),
        ("ball.h5 -o ball.h5/a.html", 2, "ball.h5: cannot be used: that is not a folder"),
    ],
)
def test_errors(words: str, code: int, part: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = invoke("view", *words.split())
    assert done.exit_code == code, done.output
    assert part in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(folder.iterdir()) == before
