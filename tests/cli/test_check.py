"""`sdfcli check`: the verdict on a mesh, what is wrong with it, and what a build does about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import shapes
from commands import reports
from sdfcli.cli.app import app
from sdfcli.cli.wording import verdict_text
from sdfcli.params import BuildParams
from sdfcli.quality.check import estimated_check

BALL = shapes.icosphere(2)
RNG = np.random.default_rng(1)
CASES: dict[str, tuple[shapes.Shape, str, str, dict[str, Any]]] = {
    "ball": (BALL, "good", "pseudonormal", {"watertight": True, "oriented": True, "shells": 1}),
    "cavity": (shapes.shells(1), "good", "pseudonormal", {"shells": 3, "inverted_shells": 0}),
    "inside out": (shapes.inside_out(BALL), "usable", "pseudonormal", {"inverted_shells": 1}),
    "overlapping": (shapes.overlapping(RNG, 1), "usable", "winding", {"shells": 2}),
    "small holes": (shapes.holed(RNG, shapes.icosphere(3), 0.02), "usable", "winding", {"watertight": False}),
    "half": (shapes.holed(RNG, BALL, 0.35), "doubtful", "winding", {"watertight": False}),
    "sheet": (shapes.sheet(RNG, 6), "doubtful", "none", {"open_edges": 24, "shells": 1}),
    "triangle": (shapes.soup(RNG, 1, 1.0), "doubtful", "none", {"open_edges": 3}),
    "soup": (shapes.soup(RNG, 60, 0.5), "doubtful", "none", {"shells": 60}),
}


@pytest.mark.parametrize("name", CASES)
def test_verdicts(name: str) -> None:
    shape, verdict, sign, facts = CASES[name]
    report = sdfcli.check(shape, device="cpu")
    assert (report["verdict"], report["sign"]) == (verdict, sign)
    assert {key: report[key] for key in facts} == facts
    assert (report["sign_confidence"] is None) == (sign == "none")
    assert bool(report["findings"]) == (verdict != "good")
    built = sdfcli.build(shape, device="cpu", depth=5, tolerance=2e-2).info
    assert (built["verdict"], built["sign"], built["sign_reason"]) == (verdict, sign, report["sign_reason"])
    for key, value in built["mesh"].items():
        assert key == "sha256" or report[key] == value


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("ball", "good", "closed, oriented, and without faults"),
        ("sheet", "usable", "distances without signs"),
        ("soup", "usable", "distances without signs"),
    ],
)
def test_without_signs_on_request(name: str, verdict: str, words: str, tmp_path: Path) -> None:
    """The verdict is the mesh's, without an inside; the same in all commands."""
    shape = CASES[name][0]
    report = sdfcli.check(shape, sign="none", device="cpu")
    built = sdfcli.build(shape, sign="none", device="cpu", depth=4, tolerance=5e-2).info
    drawn = sdfcli.samples(shape, sign="none", device="cpu", count=10).facts
    assert [each["verdict"] for each in (report, built, drawn)] == [verdict] * 3
    assert all("distances without signs" in each["then"] for each in report["findings"])
    for facts in (report, built, {**drawn, "sheets": {"lost": None}}):
        told = verdict_text(facts)
        assert words in told
        assert "inside" not in told


def test_a_closed_mesh_without_signs_is_closed(files: dict[str, Path]) -> None:
    assert "closed" in run(files["ball"], "--sign", "none").stdout
    assert "nothing enclosed" not in run(files["ball"], "--sign", "none").stdout
    trimesh.Trimesh(np.eye(3), [[0, 1, 2], [2, 1, 0]], process=False).export(files["sheet"])
    done = run(files["sheet"])
    assert "no open edges, but nothing enclosed" in done.stdout
    assert "encloses nothing, so its distances have no signs" in done.stdout
    assert run(files["sheet"], "--sign", "none", "--require", "usable").exit_code == 0


def test_certainty_falls_with_the_size_of_the_hole() -> None:
    vertices, faces = shapes.icosphere(3)
    middles = vertices[faces].mean(axis=1)
    found = []
    for height in (2.0, 0.9, 0.4, -0.2):
        field = sdfcli.build((vertices, faces[middles[:, 2] < height]), device="cpu", depth=6, tolerance=5e-3)
        found.append(field.info["sign_confidence"])
    assert found[0] == 1
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.95


def test_coarse_coordinates_are_told() -> None:
    report = sdfcli.check(shapes.moved(BALL, 1, [5e5, 5e6, 0]), device="cpu")
    assert report["verdict"] == "good"
    (finding,) = report["findings"]
    assert "single precision" in finding["then"]


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["check", "--device", "cpu", *map(str, words)])


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / f"{name}.ply" for name in ("ball", "sheet")}
    trimesh.Trimesh(*BALL, process=False).export(paths["ball"])
    trimesh.Trimesh(*shapes.sheet(RNG, 6), process=False).export(paths["sheet"])
    paths["bad"] = tmp_path / "bad.obj"
    paths["bad"].write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n")
    return paths


def test_exit_codes(files: dict[str, Path]) -> None:
    assert run(files["ball"]).exit_code == 0
    assert run(files["sheet"]).exit_code == 0
    assert run(files["bad"]).exit_code == 3
    done = run("--json", *files.values())
    assert done.exit_code == 3
    found = reports("check", done.stdout)
    verdicts = {report["input"]: report["verdict"] for report in found}
    assert verdicts == dict(zip(map(str, files.values()), ["good", "doubtful", "unusable"], strict=True))
    (error,) = (report["error"] for report in found if report["verdict"] == "unusable")
    assert "line 4" in error
    note, line = sorted(done.stderr.splitlines())
    assert line == f"sdfcli: {error}"
    assert note.startswith(f"note: {files['sheet']}: signs are doubtful; --sign flood --gap ")


def test_required_verdicts(files: dict[str, Path]) -> None:
    """One line on standard error for each mesh that is worse, and exit code 6, unless a mesh is unusable."""
    for bar, code, lines in (("doubtful", 0, 0), ("usable", 6, 1), ("good", 6, 1)):
        done = run(files["ball"], files["sheet"], "--require", bar, "-q")
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (code, "", lines)
    assert done.stderr == f"sdfcli: {files['sheet']}: doubtful, worse than good\n"
    done = run(*files.values(), "--require", "good", "--json")
    assert (done.exit_code, len(done.stdout.splitlines()), len(done.stderr.splitlines())) == (3, 3, 3)
    assert run(files["bad"], "--require", "good").exit_code == 3
    assert run(files["ball"], "--require", "unusable").exit_code == 2


def blade(thickness: float) -> shapes.Shape:
    """A blade that tapers to an edge."""
    box = trimesh.creation.box((1, 1, 1))
    for _ in range(4):
        box = box.subdivide()
    vertices = np.array(box.vertices)
    vertices[:, 2] *= thickness * (0.5 - vertices[:, 1]) + thickness / 100
    vertices[:, 1] *= 0.4
    return vertices, np.array(box.faces)


def test_thin_walls_get_the_verdict_of_a_build(tmp_path: Path) -> None:
    """An estimate alone would be doubtful, and block a mesh that a build accepts."""
    path = tmp_path / "blade.ply"
    trimesh.Trimesh(*blade(0.05), process=False).export(path)
    assert estimated_check(path, BuildParams(tolerance=5e-3), "cpu")[0]["verdict"] == "doubtful"
    words = [path, "--tolerance", "5e-3", "--json"]
    (checked,) = reports("check", run(*words, "--require", "usable").stdout)
    built = sdfcli.build(path, device="cpu", tolerance=5e-3).info
    assert checked["verdict"] == built["verdict"] == "usable"
    assert checked["measured"]
    assert checked["sheets"] == {name: built["sheets"][name] for name in checked["sheets"]}
    assert "lost in a build at" in run(*words[:-1]).stdout
    (thick,) = reports("check", run(path, "--tolerance", "1e-4", "--thin", "1e-6", "--json").stdout)
    assert not thick["measured"]


def test_what_is_checked(files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, patterns, and names on standard input, as in a build: a line each, and counts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    files["ball"].rename(tmp_path / "deep" / "ball.ply")
    for words, said, names in (
        (["."], "", {"sheet.ply", "bad.obj"}),
        ([".", "-r"], "", {"sheet.ply", "bad.obj", "deep/ball.ply"}),
        (["*/*.ply", "she*"], "", {"deep/ball.ply", "sheet.ply"}),
        (["-"], "sheet.ply\ndeep/ball.ply\n", {"sheet.ply", "deep/ball.ply"}),
    ):
        done = CliRunner().invoke(app, ["check", *words, "--device", "cpu"], input=said)
        *lines, last = done.stdout.splitlines()
        assert {line.partition(":")[0] for line in lines} == names
        assert last.startswith(f"{len(names)} meshes: ")
    done = run("none*")
    assert (done.exit_code, done.stderr) == (3, "sdfcli: none*: no file matches this pattern\n")


def test_a_page_of_checks(files: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    words = [*files.values(), "--report", page, "--require", "usable", "-q"]
    assert run(*words).exit_code == 3  # the unusable mesh's, more severe than the others' 6
    text = page.read_text()
    for word in (
        "Mesh checks",
        "24 open edges: distances without signs",
        "failed (3)",
        "below --require (6)",
        "1 unusable",
    ):
        assert word in text
    assert text.count("<tr") == 4
    assert "picture" not in text
    assert run(*words).exit_code == 2
    assert run(*words, "--force").exit_code == 3


def test_a_table(files: dict[str, Path]) -> None:
    done = run(files["sheet"])
    for word in ("doubtful", "72 in 1 shell", "open", "none", "24 open edges", "->"):
        assert word in done.stdout


@pytest.mark.parametrize(("suffix", "unit"), [("glb", "m"), ("3mf", "mm"), ("stl", None)])
def test_units(tmp_path: Path, suffix: str, unit: str | None) -> None:
    path = tmp_path / f"ball.{suffix}"
    trimesh.Trimesh(*BALL, process=False).export(path)
    assert sdfcli.check(path, device="cpu")["units"] == unit


def test_a_mesh_without_an_area(tmp_path: Path) -> None:
    """No open edge, but nothing is enclosed, either."""
    (tmp_path / "line.obj").write_text("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\nf 3 2 1\nf 1 2 2\n")
    flat = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\nf 4 2 1\nf 4 3 2\n"
    (tmp_path / "flat.obj").write_text(flat)
    for name in ("line.obj", "flat.obj"):
        done = CliRunner().invoke(app, ["check", str(tmp_path / name), "--json", "--device", "cpu"])
        report = json.loads(done.stdout)
        assert (report["verdict"], report["sign"], report["watertight"]) == ("doubtful", "none", True)
        assert "encloses nothing" in report["sign_reason"]


def test_limits_of_many(tmp_path: Path) -> None:
    """Those of `build`: a time limit per mesh, an end at the first failure, and a memory limit."""
    bad, good, large = (str(tmp_path / name) for name in ("bad.off", "good.ply", "large.ply"))
    Path(bad).write_text("OFF\n")
    trimesh.Trimesh(*BALL, process=False).export(good)
    trimesh.Trimesh(*shapes.icosphere(6), process=False).export(large)
    done = run(bad, good, "--jobs", 1, "--fail-fast", "--json")
    assert (done.exit_code, [line["input"] for line in reports("check", done.stdout)]) == (3, [bad])
    done = run(large, "--timeout", 0.001, "--json")
    (line,) = reports("check", done.stdout)
    assert (done.exit_code, line["verdict"]) == (7, None)
    assert "took longer than --timeout 0.001 s" in line["error"]
    assert run(good, "--max-memory", "much").stderr == "sdfcli: --max-memory much: use a size like 800M or 4G\n"


def test_checks_have_the_memory_limit_of_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    monkeypatch.setattr("sdfcli.runtime.memory.bound", limits.append)
    trimesh.Trimesh(*BALL, process=False).export(tmp_path / "ball.ply")
    assert run(tmp_path / "ball.ply", "--max-memory", "3G").exit_code == 0
    assert limits == [3 * 10**9]
