"""`sdfcli build` as a user meets it: files, tables, JSON, exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import shapes
from commands import run
from sdfcli.cli.app import app
from sdfcli.cli.registry import BUILT_IN
from sdfcli.cli.wording import sheets_text
from sdfcli.octree.causes import WORDS, counts

QUICK = ["--depth", "6", "--tolerance", "5e-3", "--device", "cpu"]


@pytest.fixture
def ball(tmp_path: Path) -> Path:
    path = tmp_path / "ball.ply"
    trimesh.creation.icosphere(subdivisions=2).export(path)
    return path


def test_a_table_and_a_file_in_the_current_folder(ball: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    done = run("build", ball, *QUICK, cwd=there)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in there.iterdir()] == ["ball.h5"]
    for word in ("triangles", "watertight", "pseudonormal", "leaves", "rms", "ball.h5"):
        assert word in done.stdout
    assert done.stderr == ""


def test_json_says_what_the_file_holds(ball: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.h5"
    done = run("build", ball, "-o", target, "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    field = sdfcli.load(target)
    assert report["status"] == "ok"
    assert report["input"] == str(ball)
    assert report["output"] == str(target)
    assert report["triangles"] == 320
    assert report["vertices"] == 162
    assert report["watertight"] is True
    assert report["sign"] == "pseudonormal"
    assert report["sign_reason"]
    assert report["octree"] == "adaptive"
    assert report["leaves"] == len(field.leaf_key)
    assert report["corners"] == len(field.corner_key)
    assert report["depth"] == field.leaf_level.max() <= 6
    assert report["tolerance"] == 5e-3
    assert 0 < report["rms_error"] < report["max_error"] <= 5e-3
    assert report["device"] == "cpu"
    assert report["bytes"] == target.stat().st_size
    assert report["content_sha256"] == field.content_sha256
    stages = dict(report["seconds"])
    total = stages.pop("total")
    assert sum(stages.values()) == pytest.approx(total, abs=1e-3)


def test_several_meshes_go_into_a_folder(ball: Path, tmp_path: Path) -> None:
    torus = tmp_path / "torus.stl"
    trimesh.creation.torus(1.0, 0.3).export(torus)
    folder = tmp_path / "fields"
    done = run("build", ball, torus, "-o", folder, "--json", *QUICK)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["ok", "ok"]
    assert sorted(path.name for path in folder.iterdir()) == ["ball.h5", "torus.h5"]


def test_one_bad_mesh_does_not_stop_the_others(ball: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.obj"
    bad.write_text("v 0 0 0\n")
    done = run("build", bad, ball, "-o", tmp_path / "fields", "--json", *QUICK)
    assert done.returncode == 3
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["input"]: each["status"] for each in outcomes} == {str(bad): "failed", str(ball): "ok"}
    assert "bad.obj" in done.stderr


def test_existing_files_stay(ball: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious.h5"
    target.write_text("precious")
    done = run("build", ball, "-o", target, *QUICK)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert target.read_text() == "precious"
    assert run("build", ball, "-o", target, "--force", *QUICK).returncode == 0
    assert sdfcli.load(target).info["mesh"]["triangles"] == 320


def test_an_output_that_exists_is_a_line_of_the_mesh(ball: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious.h5"
    target.write_text("precious")
    for words in (["-o", target], ["-o", tmp_path / "precious.h5" / "x.h5"]):
        done = run("build", ball, *words, *QUICK, "--json")
        assert done.returncode == 2
        (line,) = map(json.loads, done.stdout.splitlines())
        assert (line["input"], line["output"]) == (str(ball), str(words[1]))
        assert (line["status"], line["exit_code"]) == ("failed", 2)
        assert done.stderr == f"sdfcli: {line['error']}\n"


def test_causes_are_stored_and_counted(ball: Path, tmp_path: Path) -> None:
    for name, words in ("why.h5", ["--why"]), ("plain.h5", []):
        assert run("build", ball, "-o", tmp_path / name, *words, *QUICK).returncode == 0
    field, plain = sdfcli.load(tmp_path / "why.h5"), sdfcli.load(tmp_path / "plain.h5")
    assert field.content_sha256 == plain.content_sha256
    assert field.info == plain.info
    assert field.leaf_cause is not None
    causes = json.loads(run("info", tmp_path / "why.h5", "--why", "--json").stdout)["causes"]
    assert causes == counts(field.leaf_cause)
    assert sum(causes.values()) - causes["jump"] == len(field.leaf_key)
    assert "causes" not in json.loads(run("info", tmp_path / "why.h5", "--json").stdout)
    table = run("info", tmp_path / "why.h5", "--why").stdout
    for cause, words in WORDS.items():
        found = re.search(rf"^{re.escape(words)} +([\d,]+) +[\d.]+%$", table, re.MULTILINE)
        assert (int(found[1].replace(",", "")) if found else 0) == causes[cause.name.lower()]
    assert "parent split by" not in run("info", tmp_path / "why.h5").stdout
    done = run("info", tmp_path / "plain.h5", "--why")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert "plain.h5: the field stores no causes; build it with --why" in done.stderr


def test_two_meshes_of_one_name_are_refused(ball: Path, tmp_path: Path) -> None:
    twin = tmp_path / "ball.stl"
    trimesh.creation.box().export(twin)
    done = run("build", ball, twin, "-o", tmp_path / "fields", *QUICK)
    assert done.returncode == 2
    assert "both" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--tolerance", "0"], 2, "--tolerance"),
        (["--tolerance", "nan"], 2, "--tolerance"),
        (["--depth", "0"], 2, "--depth"),
        (["--depth", "99"], 2, "--depth"),
        (["--octree", "quad"], 2, "adaptive"),
        (["--octree", "bvh", "--why"], 2, "--why: not with --octree bvh"),
        (["--octree", "bvh", "--why", "--dry-run"], 2, "--why: not with --octree bvh"),
        (["--sign", "maybe"], 2, "winding"),
        (["--device", "abacus"], 2, "cuda"),
        (["--device", "cuda:77"], 4, "device"),
        (["--threads", "0"], 2, "--threads"),
        (["-o", "x.npz"], 2, "x.npz: use a name that ends in .h5, .hdf5"),
        (["-o", "s3://bucket/x.vdb"], 2, "x.vdb: use a name that ends in .h5, .hdf5"),
        (["--report", "x.png"], 2, "x.png: use a name that ends in .html, .htm"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_requests_that_make_no_sense(words: list[str], code: int, says: str, ball: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    done = run("build", ball, *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert says.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.ply", None, "no such file"),
        ("empty.ply", b"", "missing"),
        ("garbage.stl", b"\x00garbage" * 9, "garbage.stl"),
        ("points.xyz", b"0 0 0\n1 1 1\n", "points.xyz"),
        ("faceless.obj", b"v 0 0 0\nv 1 0 0\n", "no faces"),
        ("nan.obj", b"v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n", "not finite"),
        ("flat.obj", b"v 1 1 1\nv 1 1 1\nv 1 1 1\nf 1 2 3\n", "extent"),
    ],
)
def test_bad_meshes_end_in_one_line(name: str, content: bytes | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    done = run("build", path, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert name in done.stderr
    assert says in done.stderr or says == "missing"
    assert not list(tmp_path.glob("*.h5"))
    assert not list(tmp_path.glob(".*"))


def test_an_unwritable_folder(ball: Path, tmp_path: Path) -> None:
    target = tmp_path / "a file"
    target.write_text("")
    done = run("build", ball, "-o", target / "x.h5", *QUICK)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_root_commands() -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.strip() == f"sdfcli {sdfcli.__version__}"
    helped = runner.invoke(app, ["--help"])
    assert helped.exit_code == 0
    for command in ("build", "info", "profile", "query", "verify"):
        assert command in helped.output


def test_help_needs_no_heavy_imports() -> None:
    heavy = "{'numpy', 'h5py', 'trimesh', 'cupy', 'rich.table'}"
    homes = ["sdfcli.cli.app", *(entry.target.partition(":")[0] for entry in BUILT_IN.values())]
    modules = "; ".join(f"import {home}" for home in homes)
    code = f"import sys; {modules}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_sources_give_the_same_field(ball: Path) -> None:
    mesh = trimesh.load_mesh(ball, process=False)
    parameters = {"depth": 5, "tolerance": 1e-2, "device": "cpu"}
    fields = [
        sdfcli.build(source, **parameters)
        for source in (ball, str(ball), mesh, (np.asarray(mesh.vertices), np.asarray(mesh.faces)))
    ]
    assert len({field.content_sha256 for field in fields}) == 1


def test_h5py_is_imported_for_what_is_written(ball: Path, tmp_path: Path) -> None:
    """In a process of its own: here it may be loaded already. What is said meanwhile is passed on."""
    program = """
import sys
from sdfcli.batch.job import outcome_of, build_into
from sdfcli.batch.messages import Settings
from sdfcli.params import BuildParams
told = []
settings = Settings(params=BuildParams(depth=4), device="cpu")
assert outcome_of("nothing.ply", "nothing.h5", settings)["status"] == "failed"
assert "h5py" not in sys.modules
build_into(sys.argv[1], sys.argv[2], settings, told.append)
assert "h5py" in sys.modules
assert told[:2] == ["loading and checking the mesh", "sorting triangles"] and told[-1] == "writing"
"""
    subprocess.run([sys.executable, "-c", program, str(ball), str(tmp_path / "field.h5")], check=True)


def test_the_report_leads_with_what_matters(tmp_path: Path) -> None:
    mesh = tmp_path / "ball.ply"
    trimesh.Trimesh(*shapes.icosphere(3), process=False).export(mesh)
    for depth, kept in (("6", "kept"), ("2", "missed: ")):
        done = run("build", mesh, "-o", tmp_path / f"{depth}.h5", "--depth", depth, "--tolerance", "1e-2")
        title, *lines = done.stdout.splitlines()
        assert title == str(mesh)
        assert [line.split()[0] for line in lines[:4]] == ["verdict", "error", "tolerance", "file"]
        assert "good: the mesh is closed, oriented, and without faults" in lines[0]
        assert "of the diagonal), largest of 30,000 samples; rms " in lines[1]
        assert f"(0.01 of the diagonal), {kept}" in lines[2]


def test_required_verdicts_and_tolerances(tmp_path: Path) -> None:
    """Fields that fall short are written, with exit code 6 and an error of their own."""
    good, holed = tmp_path / "good.ply", tmp_path / "holed.ply"
    trimesh.Trimesh(*shapes.icosphere(3), process=False).export(good)
    trimesh.Trimesh(*shapes.holed(np.random.default_rng(1), shapes.icosphere(2), 0.35), process=False).export(holed)
    for name, words, code, says in (
        (good, ["--require", "good"], 0, ""),
        (good, ["--depth", "2"], 0, "sdfcli: warning: {}: the error "),
        (good, ["--depth", "2", "--require", "doubtful"], 6, "sdfcli: {}: the error "),
        (holed, [], 0, ""),
        (holed, ["--require", "doubtful"], 0, ""),
        (holed, ["--require", "usable"], 6, "sdfcli: {}: doubtful, worse than usable"),
    ):
        done = run("build", name, "-o", tmp_path / "a.h5", "--tolerance", "1e-2", "--force", "--json", *words)
        assert done.returncode == code, (words, done.stderr)
        assert says.format(name) in done.stderr
        said = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
        assert bool(said) == bool(says)
        report = json.loads(done.stdout)
        assert (report["status"], report["exit_code"], "error" in report) == ("ok", code, code > 0)
        assert sdfcli.load(tmp_path / "a.h5").content_sha256 == report["content_sha256"]
    done = run("build", good, holed, "-o", tmp_path / "all/", "--tolerance", "1e-2", "--require", "good")
    assert done.returncode == 6
    assert f"  below --require (6): {holed}" in done.stderr.splitlines()
    assert "2 meshes: 1 built, 1 below --require, in " in done.stderr
    again = run(
        "build", good, holed, "-o", tmp_path / "all/", "--tolerance", "1e-2", "--require", "good", "--skip-existing"
    )
    assert again.returncode == 6
    assert run("build", good, "--require", "fine").returncode == 2


PLACE = ["--domain", "-2,-2,-1.5,4", "--max-error", "0.02"]


def test_texts_say_what_errors_are_fractions_of(ball: Path, tmp_path: Path) -> None:
    """The diagonal, or the unit where one is given, and its length."""
    field = tmp_path / "a.h5"
    words = ["build", ball, "-o", field, "--depth", "4", "--device", "cpu", "--tolerance", "0.02", "--force"]
    for place, name, other in (([], "diagonal", "unit"), (["--max-error", "0.1"], "unit", "diagonal")):
        built = run(*words, *place).stdout
        told = run("info", field).stdout
        failed = run(
            *("verify", field, "--mesh", ball, "--tolerance", "1e-6", "--samples", "300", "--device", "cpu")
        ).stderr
        for text in (built, told, failed):
            assert f"of the {name}" in text
            assert f"of the {other}" not in text
    for text in (built, told):
        assert re.search(r"^unit +5, in the mesh's units$", text, re.MULTILINE)


def test_fractions_are_told_as_lengths(ball: Path, tmp_path: Path) -> None:
    """In the mesh's units, by build, info, verify and check; of a part in millimetres, by --max-error."""
    quick = ["--device", "cpu", "--max-error", "0.04"]
    field = tmp_path / "a.h5"
    built = json.loads(run("build", ball, "-o", field, *quick, "--json").stdout)
    told = json.loads(run("info", field, "--json").stdout)
    verified = json.loads(run("verify", field, "--mesh", ball, "--samples", "300", "--device", "cpu", "--json").stdout)
    checked = json.loads(run("check", ball, *quick, "--json").stdout)
    assert built["unit"] == pytest.approx(40)
    for report, names in ((built, BUILT), (told, BUILT), (verified, BUILT[:2]), (checked, ())):
        for name in names:
            fraction = told["parameters"][name] if name == "tolerance" else report[name]
            assert report["lengths"][name] == pytest.approx(40 * fraction)
    assert built["lengths"]["tolerance"] == pytest.approx(0.04)
    assert built["error_samples"] == told["error_samples"] == 30_000
    assert checked["lengths"] == {"thinnest": None, "needed_thin": None}
    for region in verified["regions"].values():
        assert region["lengths"]["max_error"] == pytest.approx(40 * region["max_error"])
    table = run("info", field).stdout
    assert re.search(r"^tolerance +0.04 \(0.001 of the unit\), kept$", table, re.MULTILINE)
    assert re.search(r"^error +0.0\d+ \(0.0\d+ of the unit\), largest of 30,000 samples; rms ", table, re.MULTILINE)


BUILT = ("tolerance", "max_error", "rms_error")


def test_a_domain_and_an_error_in_the_meshs_units(ball: Path, tmp_path: Path) -> None:
    words = ["build", ball, "-o", tmp_path / "a.h5", *PLACE, "--json", "--device", "cpu"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    field = sdfcli.load(tmp_path / "a.h5")
    assert ([*field.domain.origin], field.domain.length) == ([-2, -2, -1.5], 4)
    assert field.unit == pytest.approx(20)
    assert field.info["parameters"]["domain"] == [-2, -2, -1.5, 4]
    mesh = sdfcli.MeshDistance(ball, device="cpu")
    points = np.random.default_rng(7).uniform(-1.2, 1.2, (5000, 3))
    assert np.abs(field.sample(points) - mesh.signed_distance(points)).max() < 0.03  # within the band of 0.4
    assert sdfcli.build(ball, device="cpu", tolerance=0.02).info["parameters"].keys().isdisjoint({"domain", "unit"})
    checked = run("verify", tmp_path / "a.h5", "--mesh", ball, "--samples", "20000", "--device", "cpu", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout)["max_error"] == pytest.approx(field.info["max_error"], rel=0.5)
    again = run(*words, "--skip-existing")
    assert json.loads(again.stdout)["status"] == "skipped"
    other = run(*words[:4], *PLACE[:2], "--skip-existing", "--device", "cpu")
    assert "unit 20.0, not None" in other.stderr


def test_fields_of_one_domain_share_their_lattice(ball: Path) -> None:
    place = {"domain": (-2, -2, -2, 5), "unit": 4, "device": "cpu", "tolerance": 0.01}
    vertices, faces = shapes.icosphere(2)
    one, two = sdfcli.build(ball, **place), sdfcli.build((vertices + np.array([0.7, 0, 0]), faces), **place)
    places = [set((field.leaf_key * 32 + field.leaf_level).tolist()) for field in (one, two)]
    assert one.domain.length == two.domain.length == 5
    assert len(places[0] & places[1]) > 100  # far from both, cells are the same


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--domain", "0,0,0,9"], "leaves the domain"),
        (["--domain", "0,0,9"], "X,Y,Z of the lower corner, and the edge"),
        (["--domain", "a,b,c,d"], "X,Y,Z of the lower corner, and the edge"),
        (["--domain", "0,0,0,0"], "use an edge between"),
        (["--unit", "-1"], "use a length between"),
        (["--max-error", "0"], "use a length above 0"),
        (["--max-error", "1", "--unit", "1"], "use one of them"),
    ],
)
def test_impossible_domains_and_units(ball: Path, words: list[str], said: str) -> None:
    done = run("build", ball, *words, "--device", "cpu")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("error", ["20", "40", "400", "4000"])
@pytest.mark.parametrize("command", ["build", "check"])
def test_the_remedy_for_lost_walls_works(command: str, error: str, tmp_path: Path) -> None:
    """Also where a coarse tolerance stops at the root; there a note doubts the unit."""
    mesh, field = tmp_path / "part.ply", tmp_path / "a.h5"
    plates = [shapes.box([0, 0, z], [60, 60, z + 2]) for z in (0, 20)]
    trimesh.Trimesh(*shapes.joined(*plates), process=False).export(mesh)
    into = ["-o", field, "--force"] if command == "build" else []
    done = run(command, mesh, *into, "--max-error", error, "--device", "cpu")
    (remedy,) = re.findall(r"thin walls .*of the surface: (--.*) keeps them$", done.stdout, re.MULTILINE)
    assert remedy.startswith("--max-error ")
    share = {"20": "23% of", "40": "46% of", "400": "4.6 times", "4000": "46 times"}[error]
    says = f"note: {mesh}: the tolerance, {float(error):.2g}, is {share} the mesh's diagonal, 88: almost always a unit"
    assert done.stderr.startswith(says)
    kept = run("build", mesh, "-o", field, "--force", *remedy.split(), "--device", "cpu", "--json")
    assert kept.stderr == ""
    assert json.loads(kept.stdout)["sheets"]["lost"] == 0


def test_the_remedy_for_the_density_octree(tmp_path: Path) -> None:
    """It has no criterion for thin walls, so --thin alone would change nothing."""
    mesh, field = tmp_path / "plate.ply", tmp_path / "a.h5"
    trimesh.Trimesh(*shapes.box([0, 0, 0], [1, 1, 0.01]), process=False).export(mesh)
    words = ("build", mesh, "-o", field, "--force", "--device", "cpu")
    pattern = re.compile(r"thin walls .*of the surface: (--octree adaptive --thin .*) keeps them$", re.MULTILINE)
    ((remedy,), (again,)) = (
        pattern.findall(run(*each).stdout) for each in ((*words, "--octree", "bvh"), ("info", field))
    )
    assert remedy == again
    kept = run(*words, *remedy.split(), "--json")
    assert json.loads(kept.stdout)["sheets"]["lost"] == 0


def test_a_unit_beyond_the_least_thickness() -> None:
    """--thin has a least value: the remedy is one that the command takes."""
    words = sheets_text({"lost": 0.5, "thinnest": 1e-8, "needed_thin": 1e-8, "needed_depth": 8}, 1e-7, 1e6, "unit", 1.0)
    assert words.endswith("lost at 50.00% of the surface: --max-error 0.0095 keeps them")
