"""The schemas of `--json` and of files are those of what is printed and written; docs/reference/json.md shows them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import sdfcli
import sequences
from commands import closed, reports, validator
from conftest import ROOT, tool
from examples import DOCS
from sdfcli.cli.app import app
from sdfcli.cli.records import schema_of
from sdfcli.cli.registry import COMMANDS
from sdfcli.cli.schema import FILE, document, outputs, variant
from sdfcli.field.schema import INFO, Kind, Schema, as_json_schema

TORUS = ROOT / "sample_meshes" / "torus.obj"

FLOW = "--fill -1,-0.2,-1,1,0.2,1 --time 0.01 --frames 1"

EXAMPLES = {
    "build": "build TORUS -o new.h5 --depth 3 --unit 4",
    "build, failed": "build nothing.ply",
    "build --dry-run": "build TORUS --dry-run --depth 3",
    "sequence, a frame": "sequence TORUS TORUS -o new.h5 --depth 3",
    "sequence": "sequence TORUS TORUS -o newer.h5 --depth 3",
    "extract": "extract near.h5 --cells 16 -o new.ply",
    "extract --frames": "extract anim.h5 --cells 16 --frames 1: -o new_%d.ply",
    "solidify": "solidify TORUS --gap 0.03 -o new.ply",
    "render": "render field.h5 --size 64x64 -o new.png",
    "render --mesh": "render field.h5 --mesh TORUS --margin 0.1 --size 64x64 -o new.png",
    "render --frames": "render anim.h5 --size 64x64 --frames 1: -o new_%d.png",
    "render --frames, moving": "render anim.h5 --size 64x64 --frames : -o new.gif",
    "slice": "slice field.h5 --size 64 -o new.png",
    "slice --sheet": "slice field.h5 --size 128 --sheet 3 -o new.png",
    "slice --frames": "slice anim.h5 --size 64 --frames 1: -o new_%d.png",
    "slice --frames, moving": "slice anim.h5 --size 64 --frames : -o new.gif",
    "view": "view field.h5 -o new.html",
    "export": "export field.h5 new.vdb --resolution 12",
    "export to .vtkhdf": "export field.h5 new.vtkhdf",
    "export to .vtkhdf, sequence": "export anim.h5 new.vtkhdf",
    "export to .h5": "export field.h5 -o newest.h5",
    "export to .h5, sequence": "export anim.h5 -o newest_anim.h5",
    "cook": "cook TORUS --for bullet -o new --tolerance 0.5 --cache cache",
    "cook, failed": "cook nothing.urdf --for bullet -o newer --cache cache",
    "cook, scene": "cook robot.urdf --for bullet -o newest --tolerance 0.5 --cache cache",
    "cook --dry-run": "cook TORUS --for bullet -o dry --dry-run --cache cache",
    "samples": "samples TORUS -o new.npz --count 100 --schema hunyuan --grid 16 --sign flood --gap 0.02",
    "samples, failed": "samples nothing.ply -o new.npz",
    "check": "check TORUS",
    "check, unusable": "check nothing.ply",
    "thickness": "thickness TORUS --samples 100 --min 0.1 -o new.vtp --picture new.png --size 64x64",
    "info": "info near.h5 --why",
    "info, sequence": "info anim.h5",
    "query, a point": "query TORUS points.txt --nearest -k 3 --coordinates",
    "query --within, a point": "query TORUS points.txt --within 2 --coordinates",
    "query": "query field.h5 points.txt -o new.csv",
    "collide, a pose": "collide field.h5 TORUS",
    "collide": "collide field.h5 TORUS --contacts newer.csv",
    "collide --path": "collide field.h5 TORUS --path --at 0,0,0",
    "flow": f"flow water.h5 {FLOW} --inside --spacing 0.1 --pictures new --surface new_%d.ply -o new.vtkhdf",
    "flow --case": "flow --case dam-break --time 0.0005 --frames 1 --pictures new --surface new_%d.ply -o new.vtkhdf",
    "verify": "verify field.h5 --mesh TORUS --samples 30 --prove",
    "compare": "compare TORUS TORUS --samples 30 --max-distance 1 --picture new.png --size 64",
    "bench": "bench TORUS --repeat 1 --depth 2 --device cpu",
    "bench --uniform": "bench TORUS --repeat 1 --depth 2 --device cpu --uniform",
    "bench --coherence": "bench TORUS --repeat 1 --depth 2 --device cpu --coherence",
    "bench --seeds knn": "bench TORUS --repeat 1 --depth 2 --device cpu --seeds knn",
    "bench scan": "bench scan --device cpu --repeat 1",
    "bench surface": "bench surface --device cpu --repeat 1 --nodes 16",
    "bench sequence": "bench sequence TORUS --frames 2 --device cpu",
    "bench flood": "bench flood TORUS --depth 4 --repeat 1 --device cpu",
    "bench knn": "bench knn TORUS --repeat 1 --device cpu",
    "bench scale": "bench scale TORUS --scale 1 --depth 2 --device cpu",
    "bench flow": "bench flow --steps 1 --device cpu",
    "profile --dry-run": "profile TORUS --dry-run",
    "doctor": "doctor",
}
MORE = {
    "build": {"error", "proven_error", "certificate", "solid", "holes", "advice", "page"},
    "info": {"solid", "holes", "advice"},
    "check": {"error", "advice"},
    "samples": {"error"},
    "query, a point": {
        "gx",
        "gy",
        "gz",
        "lower",
        "upper",
        "nearest_x",
        "nearest_y",
        "nearest_z",
        "triangle",
        "outside",
    },
    "query": {"pairs"},
    "extract": {"lost_at", "sharp_parts"},
    "extract --frames": {
        "proven_error",
        "unproven_triangles",
        "proven_reverse",
        "lost_leaves",
        "lost_at",
        "sharp_parts",
    },
    "collide, a pose": {"frame", "posed"},
    "collide --path": {"output", "margin", "contacts"},
    "render --frames": {"posed", "margin"},
    "render --frames, moving": {"posed", "margin"},
}
"""Keys that are not in the output of an example."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all examples."""
    made = tmp_path_factory.mktemp("made")
    sdfcli.build(TORUS, device="cpu", depth=3).save(made / "field.h5")
    sequences.write(made / "anim.h5", [TORUS, TORUS], [0.0, 1.0], depth=3)
    sdfcli.build(TORUS, device="cpu").save(made / "water.h5")
    sdfcli.build(TORUS, device="cpu", depth=3, nearest=True, why=True, prove=True).save(made / "near.h5")
    (made / "points.txt").write_text("0 0 0\n")
    meshes = {"nothing.urdf": "nothing.obj", "robot.urdf": "torus.obj"}
    for name, mesh in meshes.items():
        link = f'<collision><geometry><mesh filename="{mesh}"/></geometry></collision>'
        (made / name).write_text(f'<robot name="r"><link name="l">{link}</link></robot>')
    shutil.copy(TORUS, made)
    return made


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    two_frames = [("sequence", True, lambda: [1.0, 2.0])]
    for name, value in (("SIZES_CPU", (32,)), ("RECALL_QUERIES_CPU", 32), ("ABLATED_CPU", 32)):
        monkeypatch.setattr(f"sdfcli.apps.bench.knn.{name}", value)
    monkeypatch.setattr("sdfcli.apps.flow.bench.WARM", 1)
    monkeypatch.setattr("sdfcli.apps.bench.sequence._ways", lambda *_: two_frames)  # all ways take long
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words.replace("TORUS", str(TORUS)).split(), "--json"])
    return reports(words.split(maxsplit=1)[0], done.stdout)[-1 if "newe" in words else 0]


def test_every_output_has_an_example() -> None:
    """But `profile`: tests/apps/bench/test_profile.py has those."""
    assert [each for each in outputs() if each not in ("profile", "error")] == list(EXAMPLES)


@pytest.mark.parametrize("output", EXAMPLES)
def test_keys(output: str, folder: Path) -> None:
    """Those of the schema, each of them, and no others."""
    report, schema = reported(EXAMPLES[output]), variant(output, outputs()[output])
    named = set(schema["properties"]) - MORE.get(output, set())
    assert set(report) == named
    Draft202012Validator(closed(schema)).validate(report)


def test_one_kind_for_one_key() -> None:
    """In all outputs; what is unknown may be null."""
    kinds: dict[str, set[str]] = {}
    for record in outputs().values():
        for key, schema in schema_of(record)["properties"].items():
            kinds.setdefault(key, set()).update(kinds_of(schema))
    assert kinds["input"] == {"string"}
    assert kinds["seconds"] == {"object"}
    assert {key: found for key, found in kinds.items() if len(found) != 1} == {}


def kinds_of(schema: dict[str, Any]) -> set[str]:
    """The types of values but null, whole numbers as numbers."""
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {"string" if isinstance(value, str) else "number" for value in values if value is not None}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {"number" if each == "integer" else each for each in types} - {"null"}


def test_the_page_shows_all_keys() -> None:
    page = tool("pages").on_page_markdown((DOCS / "reference" / "json.md").read_text())
    for title, record in outputs().items():
        section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
        shown = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert shown == list(schema_of(record)["properties"])
    assert "| `schema_version` | `1` |" in page


def test_the_command_prints_the_schemas() -> None:
    names = [line.split()[0] for line in CliRunner().invoke(app, ["schema"]).stdout.splitlines()[1:]]
    assert set(names) == {*COMMANDS, "file"} - {"schema"}
    for name in names:
        schema = json.loads(CliRunner().invoke(app, ["schema", name]).stdout)
        Draft202012Validator.check_schema(schema)
        assert "](" not in json.dumps(schema)
    wrong = CliRunner().invoke(app, ["schema", "nothing"])
    assert (wrong.exit_code, wrong.stdout, len(wrong.stderr.splitlines())) == (2, "", 1)


def test_attributes_of_files(folder: Path) -> None:
    for name, kind in (("field.h5", 0), ("near.h5", 0), ("anim.h5", 1)):
        with h5py.File(folder / name) as file:
            check_attributes(file.attrs, kind)
            if kind:
                check_attributes(file["frame/000001"].attrs, 0)


def check_attributes(attributes: Any, kind: int) -> None:
    """Those of a group, as a schema says. kind: of which of the schemas."""
    found = {name: value.decode() if isinstance(value, bytes) else value.tolist() for name, value in attributes.items()}
    validator("file").validate(found)
    (schema, *_) = [closed(each) for each in document("file")["anyOf"]][kind:]
    Draft202012Validator(schema).validate(found)
    Draft202012Validator(schema["properties"]["info"]["contentSchema"]).validate(json.loads(found["info"]))


def test_attributes_are_those_of_the_page() -> None:
    page = (DOCS / "reference" / "file.md").read_text()
    for words, kind in ((page.split("## Sequences")[0], "field"), (page.split("## Sequences")[1], "sequence")):
        rows = re.findall(r"^\| root attribute \| (.*?) \|", words, re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
        assert named == outputs(FILE)[kind].keys_.keys()


def test_the_schema_of_info_is_its_check() -> None:
    """A value that one refuses the other refuses, too."""
    info = sdfcli.build(TORUS, device="cpu", depth=3, unit=4, prove=True).info
    info["solid"] = {"gap": 0.1, "thickness": 0.01, "volume": 1.0, "leak": None}
    info["holes"] = {"count": 1, "faces": 2, "widest": 0.1, "area": 0.01}
    info["advice"] = {"sign": "flood", "gap": 0.01}
    info["overview"] = {"leaves": 7}
    schema = Draft202012Validator(as_json_schema(INFO))
    wrong = (None, True, -1, 0, 1, 2.5, 1e300, "text", "A word", [], [1, 2, 3, 4], [1, 2, 3, "x"], {}, {"x": 1})
    for names, kind in entries(INFO):
        for value in wrong:
            changed: Any = json.loads(json.dumps(info))
            place = changed
            for name in names[:-1]:
                place = place[name]
            place[names[-1]] = value
            assert schema.is_valid(changed) == kind.fits(value), (names, value)


def entries(kinds: Schema, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Kind]]:
    for name, kind in kinds.items():
        if isinstance(kind, Kind):
            yield (*above, name), kind
        else:
            yield from entries(kind, (*above, name))
