"""Commands on several fields: files, folders, quoted patterns; one that fails does not stop the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trimesh
from typer.testing import CliRunner, Result

import sdfcli
import shapes
from commands import reports
from sdfcli.cli.app import app

FEW = "--samples 3000 --device cpu"
WRITERS = [
    ("extract", "out/{name}.ply", "--device cpu"),
    ("render", "out/{name}.png", "--size 40x30 --device cpu"),
    ("slice", "out/{name}.png", "--size 64 --device cpu"),
    ("export", "out/{name}.npz", "--resolution 6"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """meshes/a.ply, b.stl and fields/a.h5, deeper/b.h5; broken.h5 is no field."""
    folder = tmp_path_factory.mktemp("many")
    for name in ("meshes", "fields/deeper"):
        (folder / name).mkdir(parents=True)
    for rounds, mesh, field in ((2, "a.ply", "a.h5"), (1, "b.stl", "deeper/b.h5")):
        trimesh.Trimesh(*shapes.icosphere(rounds), process=False).export(folder / "meshes" / mesh)
        sdfcli.build(folder / "meshes" / mesh, tolerance=2e-2, device="cpu").save(folder / "fields" / field)
    (folder / "broken.h5").write_bytes(b"broken")
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for each in made.iterdir():
        (tmp_path / each.name).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(words: str) -> Result:
    return CliRunner().invoke(app, words.split())


@pytest.mark.parametrize(("command", "pattern", "options"), WRITERS)
def test_outputs_of_folders_and_patterns(here: Path, command: str, pattern: str, options: str) -> None:
    names = [pattern.format(name=name) for name in "ab"]
    done = invoke(f"{command} fields fields/deeper -o {pattern} {options} --json")
    assert done.exit_code == 0, done.stderr
    lines = reports(command, done.stdout)
    assert [line["output"] for line in lines] == names
    assert [line["input"] for line in lines] == ["fields/a.h5", "fields/deeper/b.h5"]
    first = [Path(name).read_bytes() for name in names]
    done = invoke(f"{command} fields/**/*.h5 fields/a.h5 -o {pattern} {options} --force")
    assert done.exit_code == 0, done.stderr
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        "[1/2] fields/a.h5",
        "[2/2] fields/deeper/b.h5",
    ]
    if command != "export":  # whose archives have dates
        assert [Path(name).read_bytes() for name in names] == first


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("extract --device cpu", "{}_iso.ply"),
        ("render --size 40x30 --device cpu", "{}.png"),
        ("slice --size 64 --device cpu --axis x", "{}_x.png"),
    ],
)
def test_an_output_folder(here: Path, command: str, names: str) -> None:
    """Named with a slash, or there, or without an ending for what is not a single file: as by build and samples."""
    (here / "there.d").mkdir()
    for words, folder, found in (
        ("fields fields/deeper -o out/", "out", "ab"),
        ("fields fields/deeper -o bare", "bare", "ab"),
        ("fields -o one", "one", "a"),
        ("fields/a.h5 -o new.d/", "new.d", "a"),
        ("fields/a.h5 -o there.d", "there.d", "a"),
    ):
        done = invoke(f"{command} {words}")
        assert done.exit_code == 0, done.stderr
        assert sorted(path.name for path in Path(folder).iterdir()) == [names.format(name) for name in found]


def test_remedies_for_several_outputs_work(here: Path) -> None:
    """The message's -o, followed."""
    for command, output in (
        ("extract --device cpu", "out/all.stl"),
        ("slice --size 64 --device cpu", "out/all.jpg"),
        ("export --resolution 6", "out/all.npz"),
        ("export --resolution 6", "to/"),
        ("export --resolution 6", "to"),
    ):
        refused = invoke(f"{command} fields fields/deeper -o {output}")
        assert (refused.exit_code, refused.stdout) == (2, "")
        (remedy,) = re.findall(r"-o '(.*)'", refused.stderr)
        assert Path(remedy).parent == Path(output.removesuffix("/")).parent / (output.startswith("to") * "to")
        done = invoke(f"{command} fields fields/deeper -o {remedy} --force")
        assert done.exit_code == 0, done.stderr
    assert len(list(Path("out").iterdir())) == 6
    assert len(list(Path("to").iterdir())) == 2
    assert "ends in .ply" in invoke("extract fields fields/deeper -o out/all.d").stderr


def test_a_mesh_is_named_before_its_output(here: Path) -> None:
    for command, target in (("extract", "a_iso.ply"), ("render", "a.png"), ("slice", "a_z.png")):
        (here / target).touch()
        done = invoke(f"{command} meshes/a.ply")
        assert (done.exit_code, done.stdout) == (3, "")
        assert done.stderr.startswith("sdfcli: meshes/a.ply: is a mesh, not a field")


@pytest.mark.parametrize("command", ["build --tolerance 0.02", "samples -n 100"])
def test_names_of_meshes_in_outputs(here: Path, command: str) -> None:
    ending = "h5" if command.startswith("build") else "npz"
    for words, names in (
        (f"meshes/a.ply -o q_{{name}}.{ending}", ["q_a"]),
        (f"meshes -o {{name}}/{{name}}.{ending}", ["a/a", "b/b"]),
        ("meshes -o out/{name}/", ["out/a/a", "out/b/b"]),
    ):
        done = invoke(f"{command} {words} --device cpu -q")
        assert done.exit_code == 0, done.stderr
        assert all(Path(f"{name}.{ending}").is_file() for name in names)
    assert not list(here.rglob("*{name}*"))
    refused = invoke(f"{command} meshes -o out.{ending}")
    assert refused.exit_code == 2
    assert f"or use {{name}}.{ending}" in refused.stderr
    assert "ends in" in invoke(f"{command} meshes -o {{name}}.ply").stderr


@pytest.mark.parametrize(("command", "pattern", "options"), WRITERS)
def test_one_that_fails_is_a_line_of_json(here: Path, command: str, pattern: str, options: str) -> None:
    done = invoke(f"{command} broken.h5 fields/a.h5 -o {pattern} {options} --json")
    broken, good = reports(command, done.stdout)
    assert (done.exit_code, broken["exit_code"], broken["input"]) == (3, 3, "broken.h5")
    assert done.stderr == f"sdfcli: {broken['error']}\n"
    assert good["output"] == pattern.format(name="a")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("extract fields fields/deeper -o all.ply", 2, "all.ply: 2 files need a name with {name}"),
        ("extract fields fields/deeper --mesh a.ply", 2, "--mesh: not with several fields, whose meshes differ"),
        ("extract fields fields/deeper --frames :", 2, "--frames: use one sequence at a time"),
        ("render meshes", 2, "meshes: no fields (.h5, .hdf5) in this folder; a pattern with ** looks into its folders"),
        (
            "verify fields fields/deeper --mesh meshes/a.ply",
            2,
            "--mesh meshes/a.ply: 2 fields need a folder, or a name",
        ),
        ("verify fields fields/deeper --mesh nosuch", 2, "--mesh nosuch: no such folder"),
        ("verify broken.h5 --mesh meshes", 3, "broken.h5: --mesh meshes: no mesh is named broken; use a name with"),
    ],
)
def test_errors_before_any_work(here: Path, words: str, code: int, told: str) -> None:
    done = invoke(words)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (code, "", 1)
    assert told in done.stderr


def test_an_empty_name_is_no_folder(here: Path) -> None:
    """As of a variable that is not set: the current folder's fields are not meant."""
    done = CliRunner().invoke(app, ["render", ""])
    assert (done.exit_code, done.stderr) == (2, "sdfcli: a file or a folder has an empty name\n")


@pytest.mark.parametrize("mesh", ["meshes", "meshes/{name}.*"])
def test_verify(here: Path, mesh: str) -> None:
    if "*" in mesh:
        (here / "all").mkdir()
        for name, source in (("a", "a.ply"), ("b", "b.stl")):
            (here / "all" / f"{name}.{source[2:]}").symlink_to(here / "meshes" / source)
        mesh = "all"
    done = invoke(f"verify fields fields/**/b.h5 --mesh {mesh} {FEW}")
    assert done.exit_code == 0, done.stderr
    first, second, summary = done.stdout.splitlines()
    assert first.startswith("fields/a.h5: passed, error 0.0")
    assert second.startswith("fields/deeper/b.h5: passed, error 0.0")
    assert summary == "2 fields: 2 passed"
    lines = reports("verify", invoke(f"verify fields fields/deeper --mesh {mesh} {FEW} --json").stdout)
    assert [(line["input"], line["same_mesh"], line["passed"]) for line in lines] == [
        ("fields/a.h5", True, True), ("fields/deeper/b.h5", True, True)
    ]  # fmt: skip


@pytest.mark.parametrize("mesh", ["nested", "nested/{name}.ply"])
def test_verify_trees(here: Path, mesh: str) -> None:
    """As `build -r` writes them, also with the same names in several folders."""
    (here / "nested" / "deep" / "er").mkdir(parents=True)
    for rounds, name in (1, "a"), (2, "deep/a"), (1, "deep/er/b.c"):
        trimesh.Trimesh(*shapes.icosphere(rounds), process=False).export(here / "nested" / f"{name}.ply")
    assert invoke("build -r nested -o trees --tolerance 2e-2 --device cpu -q").exit_code == 0
    lines = reports("verify", invoke(f"verify -r trees --mesh {mesh} {FEW} --json").stdout)
    assert [(each["input"], each["reference"], each["same_mesh"]) for each in lines] == [
        (f"trees/{name}.h5", f"nested/{name}.ply", True) for name in ("a", "deep/a", "deep/er/b.c")
    ]
    (here / "nested" / "deep" / "a.ply").unlink()
    told = "trees/deep/a.h5: --mesh nested: no mesh is named deep/a; use"
    assert mesh != "nested" or told in invoke(f"verify -r trees --mesh nested {FEW}").stderr


def test_verify_ends_with_the_most_severe_code(here: Path) -> None:
    words = f"verify broken.h5 fields/a.h5 fields/deeper/b.h5 --mesh meshes {FEW}"
    done = invoke(f"{words} --tolerance 1e-6")
    assert done.exit_code == 3
    *lines, summary = done.stdout.splitlines()
    assert [": FAILED, error" in line for line in lines] == [True, True]
    assert summary == "3 fields: 2 FAILED, 1 not verified"
    assert len(done.stderr.splitlines()) == 1
    quiet = invoke(f"{words} --tolerance 1e-6 -q")
    assert (quiet.stdout, len(quiet.stderr.splitlines())) == ("", 3)
    broken, *others = reports("verify", invoke(f"{words} --tolerance 1e-6 --json").stdout)
    assert broken["exit_code"] == 3
    assert [line["passed"] for line in others] == [False, False]
    assert invoke(f"{words.replace('broken.h5 ', '')} --tolerance 1e-6").exit_code == 6


def test_verify_names_a_mesh_by_the_field(here: Path) -> None:
    assert invoke(f"verify fields fields/a.h5 --mesh meshes/{{name}}.ply {FEW}").exit_code == 0
    twice = here / "twice"
    twice.mkdir()
    for name in ("a.ply", "a.obj"):
        (twice / name).write_text("")
    told = "fields/a.h5: --mesh twice: a.obj and a.ply have this field's name; use a name with {name}"
    assert told in invoke(f"verify fields --mesh twice {FEW}").stderr
