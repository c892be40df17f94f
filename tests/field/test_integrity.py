"""Fields that were damaged, or made to do harm: every command refuses them, or shows them without harm."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import trimesh

import commands
import oracle
import sdfcli
import shapes
from commands import on_a_terminal
from field_files import save_3
from sdfcli.cli import info
from sdfcli.cli.output import plain
from sdfcli.cli.report import page
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.field.schema import INFO, MAY_LACK, check_info, is_complete

LIMIT = 60
"""Seconds that a command has which HDF5 might keep waiting for ever; it takes one."""

SMALL = {"device": "cpu", "depth": 3, "tolerance": 0.05}
SUMS = ("content_sha256", "attributes_sha256", "nearest_sha256", "leaf_cause_sha256", "bound_sha256")
HOSTILE = "<script>alert(1)</script>\x1b]0;title\x07\x1b[2J[bold]\u202e"
COMMANDS = {
    "info": "info {field}",
    "info --json": "info {field} --json",
    "query": "query {field} {points}",
    "verify": "verify {field} --mesh {mesh}",
    "extract": "extract {field} -o {out}.ply",
    "render": "render {field} -o {out}.png",
    "slice": "slice {field} -o {out}.png",
    "export": "export {field} {out}.npz --resolution 8",
    "build --previous": "build {mesh} -o {out}.h5 --previous {field}",
    "build --previous of two": "build {mesh} {mesh2} -o {out} --previous {field}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a mesh, its field and a point."""
    for name, shape in (("mesh", shapes.octahedron()), ("mesh2", shapes.icosphere(1))):
        trimesh.Trimesh(*shape, process=False).export(tmp_path / f"{name}.ply")
    sdfcli.build(tmp_path / "mesh.ply", nearest=True, why=True, prove=True, **SMALL).save(tmp_path / "field.h5")
    (tmp_path / "points.txt").write_text("0.1 0.2 0.3\n")
    return tmp_path


def run(folder: Path, command: str, field: str = "field.h5") -> subprocess.CompletedProcess[str]:
    names = {"field": field, "points": "points.txt", "mesh": "mesh.ply", "mesh2": "mesh2.ply", "out": "out"}
    words = command.format(**names).split()
    return commands.run(*words, cwd=folder, limit=LIMIT)


def changed(path: Path, change: Callable[[Any], None]) -> Path:
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def edited_dataset(file: Any, name: str) -> None:
    """One entry is another, and HDF5's own sums fit it."""
    data = file[name][()]
    data[len(data) // 2] ^= 1
    file[name][...] = data


# ---- Checksums ----


def test_files_of_version_2(folder: Path) -> None:
    whole = sdfcli.load(folder / "field.h5")
    found = sdfcli.load(save_3(whole, folder / "old.h5", 2))
    assert found.info == whole.info
    assert found.nearest is not None
    assert np.array_equal(found.nearest, whole.nearest)
    for name in ("domain_length", "distance_step", "content_sha256"):
        other = folder / f"{name}.h5"
        other.write_bytes((folder / "old.h5").read_bytes())
        changed(other, lambda file, name=name: flip(file, name, 51))
        with pytest.raises(InputError, match="not an intact field: content_sha256 does not match"):
            sdfcli.load(other)


def flip(file: Any, name: str, bit: int) -> None:
    """Turns one bit of an attribute's value."""
    value = np.array(file.attrs[name])
    content = bytearray(value.tobytes())
    content[bit // 8] ^= 1 << bit % 8
    file.attrs.modify(name, np.frombuffer(bytes(content), value.dtype).reshape(value.shape)[()])


@pytest.mark.parametrize("version", [3, 4])
def test_every_bit_of_the_attributes_counts(folder: Path, version: int) -> None:
    path = folder / "field.h5"
    if version == 3:
        save_3(sdfcli.load(path), path, version)
    whole = path.read_bytes()
    with h5py.File(path) as file:
        sizes = {name: np.array(value).nbytes for name, value in file.attrs.items()}
    assert set(SUMS) < set(sizes)
    rng = np.random.default_rng(1)
    for name, size in sizes.items():
        for bit in rng.choice(8 * size, min(8 * size, 40), replace=False):
            path.write_bytes(whole)
            changed(path, lambda file, name=name, bit=bit: flip(file, name, int(bit)))
            with pytest.raises(InputError):
                sdfcli.load(path)


@pytest.mark.parametrize("name", ["leaf_level", "residual", "nearest", "leaf_cause", "bound", "block", "chunk_sha256"])
def test_data_with_right_sums_of_hdf5_only(folder: Path, name: str) -> None:
    path = changed(folder / "field.h5", lambda file: edited_dataset(file, name))
    with pytest.raises(InputError, match="does not match" if name != "block" else "hold other values"):
        sdfcli.load(path)


@pytest.mark.parametrize("name", SUMS)
def test_checksums_must_be_there(folder: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is missing|does not match"):
        sdfcli.load(changed(folder / "field.h5", lambda file: file.attrs.__delitem__(name)))


def test_a_lower_version_does_not_free_from_the_checksum(folder: Path) -> None:
    path = changed(folder / "field.h5", lambda file: file.attrs.modify("format_version", 2))
    with pytest.raises(InputError, match="attributes_sha256"):
        sdfcli.load(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_compares_the_checksums(folder: Path, name: str) -> None:
    def damage(file: Any) -> None:
        told = file.attrs["info"].replace(b'"tolerance": 0.05', b'"tolerance": 0.06')
        assert told != file.attrs["info"]
        file.attrs.modify("info", np.bytes_(told))

    before = {*os.listdir(folder)}
    assert run(folder, COMMANDS[name]).returncode == 0
    for extra in {*os.listdir(folder)} - before:
        path = folder / extra
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    changed(folder / "field.h5", damage)
    done = run(folder, COMMANDS[name])
    assert done.returncode == 3
    assert done.stdout == "" or "--json" in name
    assert "field.h5: not an intact field: attributes_sha256 does not match" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {*os.listdir(folder)} == before


def test_skip_existing_compares_the_checksums(folder: Path) -> None:
    changed(folder / "field.h5", lambda file: flip(file, "domain_length", 51))
    words = "build mesh.ply -o field.h5 --depth 3 --tolerance 0.05 --nearest --skip-existing"
    done = run(folder, words)
    assert done.returncode == 2
    assert "not an intact field" in done.stderr
    assert "--force" in done.stderr
    assert run(folder, words + " --force").returncode == 0
    assert "skipped" in run(folder, words).stdout


def test_skip_existing_names_parameters_that_it_does_not_know(folder: Path) -> None:
    field = sdfcli.load(folder / "field.h5")
    parameters = {**field.info["parameters"], "new": 3}
    dataclasses.replace(field, info={**field.info, "parameters": parameters}).save(folder / "field.h5", force=True)
    done = run(folder, "build mesh.ply -o field.h5 --depth 3 --tolerance 0.05 --nearest --skip-existing")
    assert done.returncode == 2
    assert "was built with other parameters (new 3, not None)" in done.stderr


# ---- Links, and files that are none ----


def external_link(file: Any, name: str) -> None:
    if name in file:
        del file[name]
    file[name] = h5py.ExternalLink("fifo", f"/{name}")


def through_a_group(file: Any, name: str) -> None:
    if name in file:
        del file[name]
    file["away"] = h5py.ExternalLink("fifo", "/")
    file[name] = h5py.SoftLink(f"/away/{name}")


def external_storage(file: Any, name: str) -> None:
    if name in file:
        del file[name]
    file.create_dataset(name, 8, np.uint8, external=[("fifo", 0, 8)])


def virtual(file: Any, name: str) -> None:
    """As large as its sources: these are looked into when it is asked for its size."""
    if name in file:
        del file[name]
    layout = h5py.VirtualLayout((8,), np.uint8, maxshape=(None,))
    source = h5py.VirtualSource("fifo", name, (8,), np.uint8, maxshape=(None,))
    layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
    file.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("kind", [external_link, through_a_group, external_storage, virtual])
@pytest.mark.parametrize(
    "name", ["leaf_level", "residual", "distance", "nearest", "leaf_cause", "bound", "block", "chunk_sha256"]
)
def test_nothing_outside_of_the_file_is_opened(
    fuzz: Any, folder: Path, kind: Callable[[Any, str], None], name: str
) -> None:
    os.mkfifo(folder / "fifo")
    changed(folder / "field.h5", lambda file: kind(file, name))
    if name == "distance":
        changed(folder / "field.h5", lambda file: file.__delitem__("residual"))
    with h5py.File(folder / "field.h5", "r+") as file:
        file.attrs["attributes_sha256"] = np.bytes_(fuzz.attributes_sha256(file))
    done = run(folder, "info {field}")
    assert done.returncode == 3
    assert name in done.stderr
    assert "is a link" in done.stderr or "lies in other files" in done.stderr


def test_what_has_no_name_here_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    changed(folder / "field.h5", lambda file: external_link(file, "more"))
    assert run(folder, "info {field}").returncode == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_pipes_and_devices_are_no_fields(folder: Path, name: str) -> None:
    os.mkfifo(folder / "fifo")
    for field in ("fifo", "/dev/zero"):
        done = run(folder, COMMANDS[name], field)
        assert done.returncode == 3
        assert len(done.stderr.splitlines()) == 1
        assert f"{field}: is not a regular file" in done.stderr


# ---- What a field says of itself ----

WRONG: dict[str, list[Any]] = {
    "verdict": ["<b>", 1, None, "", "x" * 41],
    "sign": ["auto", "other", None, 1],
    "sign_reason": [1, None, ["x"]],
    "sign_confidence": ["x", -0.1, 1.1, True, float("nan")],
    "depth": [1.5, -1, 17, "3", True],
    "jump_leaves": [-1, 0.5, 2**63],
    "max_error": ["x", -1, None, float("nan"), float("inf"), [], 10**400],
    "rms_error": ["x", {}],
    "error_limit": ["<b>", 1, []],
    "parameters": [None, [], "x"],
    "mesh": [None, [], "x"],
    "parameters octree": ["other", None, 1],
    "parameters depth": [None, 0, 17, 2.5],
    "parameters tolerance": [0, 1, "x", None, float("nan"), -1e-3],
    "parameters band": [0, 1.5, []],
    "parameters sign": ["x", None],
    "mesh sha256": ["x", 1, "A" * 64, None],
    "mesh diagonal": [0, -1, "x", None, 1e300, float("inf")],
    "mesh triangles": ["x", -1, 1.5, None, True],
    "mesh watertight": [1, "yes", None],
    "mesh open_edges": ["x", None, -1],
    "more": [float("nan"), [float("inf")], 1j, {1: 2}, [[[[[[[[[]]]]]]]]]],
    "mesh more": [float("nan")],
}


def told(field: Field, name: str, value: Any) -> dict[str, Any]:
    """A field's info with one entry changed."""
    info = json.loads(json.dumps(field.info))
    *outer, last = name.split(" ")
    (info[outer[0]] if outer else info)[last] = value
    return info


@pytest.fixture(scope="module")
def field() -> Field:
    return sdfcli.build(shapes.octahedron(), **SMALL)


@pytest.mark.parametrize("name", WRONG)
def test_entries_of_other_types_and_ranges(fuzz: Any, field: Field, tmp_path: Path, name: str) -> None:
    check_info(field.info)
    for number, value in enumerate(WRONG[name]):
        info = told(field, name, value)
        with pytest.raises(InputError, match=name.rpartition(" ")[2]):
            dataclasses.replace(field, info=info).save(tmp_path / "never.h5")
        try:
            text = json.dumps(info)
        except TypeError:
            continue
        if '{"1":' in text:
            continue
        path = field.save(tmp_path / f"{number}.h5")
        with h5py.File(path, "r+") as file:
            file.attrs["info"] = np.bytes_(text)
            fuzz.seal(file)
        with pytest.raises(InputError) as caught:
            sdfcli.load(path)
        assert "does not match" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "never.h5").exists()


def test_a_build_says_all_that_is_named(field: Field) -> None:
    assert is_complete(field.info)
    assert set(INFO) - set(MAY_LACK) == set(field.info) - set(MAY_LACK)
    for part in ("mesh", "parameters"):
        always = set(INFO[part]) - set(MAY_LACK)
        assert always == set(field.info[part])
        for name in always:
            lacking = {key: value for key, value in field.info[part].items() if key != name}
            assert not is_complete({**field.info, part: lacking})


def test_other_entries_are_passed_on(field: Field, tmp_path: Path) -> None:
    more = {"more": HOSTILE, "list": [1, 2.5, None, True, {"a": []}], "deep": {"a": {"b": 1e300}}}
    mesh, parameters = ({**field.info[part], "new": 3} for part in ("mesh", "parameters"))
    info = {**field.info, "mesh": mesh, "parameters": parameters, **more}
    path = dataclasses.replace(field, info=info).save(tmp_path / "field.h5")
    assert sdfcli.load(path).info == info


def test_what_a_file_says_does_not_take_the_place_of_what_is_so(field: Field, tmp_path: Path) -> None:
    said = {"content_sha256": 64 * "0", "leaves": -1, "bytes": "none", "input": "/", "domain_length": HOSTILE}
    path = dataclasses.replace(field, info={**field.info, **said}).save(tmp_path / "field.h5")
    found = json.loads(run(tmp_path, "info {field} --json").stdout)
    assert found["content_sha256"] == field.content_sha256
    assert (found["leaves"], found["bytes"]) == (len(field.leaf_key), path.stat().st_size)
    assert (found["input"], found["domain_length"]) == ("field.h5", field.domain.length)


# ---- What is shown ----


def hostile(field: Field) -> Field:
    """A field whose texts are all hostile."""
    return dataclasses.replace(field, info={**field.info, "sign_reason": HOSTILE, HOSTILE: {HOSTILE: HOSTILE}})


def test_info_shows_escapes_as_text(field: Field, tmp_path: Path) -> None:
    hostile(field).save(tmp_path / "field.h5")
    for words in ("info {field}", "info {field} --json"):
        done = run(tmp_path, words)
        assert done.returncode == 0
        assert "script" in done.stdout
        assert plain(done.stdout.replace("\n", "")) == done.stdout.replace("\n", "")


def test_the_report_escapes_what_fields_say(folder: Path) -> None:
    field = sdfcli.load(folder / "field.h5")
    hostile(field).save(folder / "field.h5", force=True)
    words = "build mesh.ply -o field.h5 --depth 3 --tolerance 0.05 --nearest --skip-existing --report r.html"
    done = run(folder, words)
    assert done.returncode == 0
    assert "skipped" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    text = (folder / "r.html").read_text()
    assert "alert(1)" in text
    assert text.count("<script>") == 1


def test_no_text_of_an_outcome_becomes_markup() -> None:
    # Outcomes come from other machines, too.
    known = {"input": "a", "output": "b", "error": "c", "verdict": "d", "sign": "e", "sign_reason": "f", "picture": "g"}
    counts = dict.fromkeys(("triangles", "leaves", "bytes", "max_error", "rms_error"), 1)
    sheets = {"thinnest": None, "lost": None}
    health = {"watertight": True, "diagonal": 1.0}
    rest = {"health": health, "sign_confidence": None, "sheets": sheets, "exit_code": 3}
    for status in ("ok", "skipped", "failed"):
        plain_page = page([{**known, **counts, **rest, "status": status}], 1)
        for name in known:
            found = page([{**known, **counts, **rest, "status": status, name: "\"'><i>"}], 1)
            assert found.count("<i>") == 0
            assert len(re.findall('[<>"]', found)) == len(re.findall('[<>"]', plain_page))


@pytest.mark.parametrize("value", ['{"max_error": "x"}', '{"verdict": "<script>"}'])
def test_a_hostile_field_costs_its_mesh_alone(fuzz: Any, folder: Path, value: str) -> None:
    (folder / "out").mkdir()
    path = folder / "out" / "mesh.h5"
    path.write_bytes((folder / "field.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        file.attrs["info"] = np.bytes_(json.dumps({**json.loads(file.attrs["info"]), **json.loads(value)}))
        fuzz.seal(file)
    words = "build mesh.ply mesh2.ply -o out --depth 3 --tolerance 0.05 --skip-existing --report r.html --json -j 1"
    done = run(folder, words)
    assert done.returncode == 2
    found = {each["input"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert [found[name]["status"] for name in ("mesh.ply", "mesh2.ply")] == ["failed", "ok"]
    assert "info: " in found["mesh.ply"]["error"]
    assert (folder / "r.html").read_text().count("<script>") == 1
    assert run(folder, words.replace("r.html", "r2.html") + " --force").returncode == 0


@pytest.mark.parametrize("name", ["w[/x].obj", "[red]x.obj", "\x1b]0;title\x07.obj", "a\nb.obj"])
def test_names_are_text_on_a_terminal(tmp_path: Path, name: str) -> None:
    mesh, field, out = (tmp_path / place / name for place in ("in", "field", "out"))
    for path in (mesh, field, out):
        path.parent.mkdir(parents=True)
    trimesh.Trimesh(*shapes.octahedron(), process=False).export(mesh, file_type="obj")
    for words in (
        ["build", str(mesh), "-o", str(field), "--depth", "3"],
        ["build", str(mesh), str(mesh.with_name("none.obj")), "-o", str(out.parent)],
        ["check", str(mesh)],
        ["info", str(field)],
        ["verify", str(field), "--mesh", str(mesh)],
        ["render", str(field), "-o", f"{out}.png"],
        ["extract", str(field), "-o", f"{out}.ply"],
        ["info", str(mesh)],
        ["query", str(mesh), "none.txt"],
    ):
        seen = on_a_terminal(*words, cwd=tmp_path)
        assert "internal error" not in seen
        assert "Traceback" not in seen
        assert "\x1b]0;" not in seen
        assert "\x07" not in seen
    assert out.with_suffix(".h5").exists()


def test_plain() -> None:
    assert plain("ünïcödé 漢 [red] \\ '") == "ünïcödé 漢 [red] \\ '"
    assert plain("\x1b[2J\x07\n\x9b\u202e\u2028\udcff\x7f") == "\\x1b[2J\\x07\\n\\x9b\\u202e\\u2028\\udcff\\x7f"


def test_lines_for_people_are_printed_in_one_place() -> None:
    folder = Path(info.__file__).parent
    users = [path.name for path in folder.glob("*.py") if re.search(r"typer\.echo\(|\bprint\(", path.read_text())]
    assert sorted(users) == ["app.py", "output.py"]


def test_info_is_ordered_and_has_units(folder: Path) -> None:
    found = run(folder, "info {field}").stdout.splitlines()[1:]
    heads = [line[:16].strip() for line in found if not line.startswith("    ")]
    order = ["size", "domain", "leaves", "mesh", "tolerance", "error", "sign", "verdict", "content sha256"]
    assert [head for head in heads if head in order] == order
    for head in ("tolerance", "band", "error"):
        assert "of the diagonal" in found[heads.index(head)]


def test_a_random_field_says_nothing(tmp_path: Path) -> None:
    oracle.random_field(np.random.default_rng(1), 3).save(tmp_path / "field.h5")
    done = run(tmp_path, "info {field}")
    assert done.returncode == 0
    assert "content sha256" in done.stdout
