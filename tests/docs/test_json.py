"""docs/reference/json.md names the keys of every command's JSON, and no others."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import sdfcli
import sequences
from sdfcli.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "json.md").read_text()
TORUS = ROOT / "sample_meshes" / "torus.obj"

FLOW = "--fill -1,-0.2,-1,1,0.2,1 --time 0.01 --frames 1"

EXAMPLES = {
    "build": "build TORUS -o new.h5 --depth 3 --unit 4",
    "build, failed": "build nothing.ply",
    "build --dry-run": "build TORUS --dry-run --depth 3",
    "sequence, a frame": "sequence TORUS TORUS -o new.h5 --depth 3",
    "sequence": "sequence TORUS TORUS -o newer.h5 --depth 3",
    "check": "check TORUS",
    "check, unusable": "check nothing.ply",
    "info": "info field.h5",
    "info, sequence": "info anim.h5",
    "query, a point": "query TORUS points.txt --nearest -k 3",
    "query": "query field.h5 points.txt -o new.csv",
    "collide, a pose": "collide field.h5 TORUS",
    "collide": "collide field.h5 TORUS --contacts newer.csv",
    "collide --path": "collide field.h5 TORUS --path --at 0,0,0",
    "flow": f"flow water.h5 {FLOW} --inside --spacing 0.1 --pictures new -o new.vtkhdf",
    "flow --case": "flow --case dam-break --time 0.0005 --frames 1 --pictures new -o new.vtkhdf",
    "extract": "extract field.h5 --resolution 16 -o new.ply",
    "extract --frames": "extract anim.h5 --resolution 16 --frames 1: -o new_%d.ply",
    "render": "render field.h5 --size 64x64 -o new.png",
    "render --mesh": "render field.h5 --mesh TORUS --margin 0.1 --size 64x64 -o new.png",
    "render --frames": "render anim.h5 --size 64x64 --frames 1: -o new_%d.png",
    "render --frames, moving": "render anim.h5 --size 64x64 --frames : -o new.gif",
    "slice": "slice field.h5 --size 64 -o new.png",
    "slice --frames": "slice anim.h5 --size 64 --frames 1: -o new_%d.png",
    "export": "export field.h5 new.npz --resolution 4",
    "export to .vtkhdf": "export field.h5 new.vtkhdf",
    "export to .vtkhdf, sequence": "export anim.h5 new.vtkhdf",
    "export --samples": "export field.h5 new.npz --samples 10",
    "verify": "verify field.h5 --mesh TORUS --samples 30",
    "bench": "bench TORUS --repeat 1 --depth 2 --device cpu",
    "bench --uniform": "bench TORUS --repeat 1 --depth 2 --device cpu --uniform",
    "bench --coherence": "bench TORUS --repeat 1 --depth 2 --device cpu --coherence",
    "bench --seeds knn": "bench TORUS --repeat 1 --depth 2 --device cpu --seeds knn",
    "bench flow": "bench flow --steps 1 --device cpu",
    "bench knn": "bench knn TORUS --repeat 1 --device cpu",
    "bench scale": "bench scale TORUS --scale 1 --depth 2 --device cpu",
    "bench sequence": "bench sequence TORUS --frames 2 --device cpu",
    "profile --dry-run": "profile TORUS --dry-run",
}


def documented(section: str) -> set[str]:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return {key for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sdfcli.build(TORUS, device="cpu", depth=3).save(tmp_path / "field.h5")
    sequences.write(tmp_path / "anim.h5", [TORUS, TORUS], [0.0, 1.0], depth=3)
    sdfcli.build(TORUS, device="cpu").save(tmp_path / "water.h5")
    (tmp_path / "points.txt").write_text("0 0 0\n")
    two_frames = [("sequence", True, lambda: [1.0, 2.0])]
    for name, value in (("SIZES_CPU", (32,)), ("JUDGED_CPU", 32), ("ABLATED_CPU", 32)):
        monkeypatch.setattr(f"sdfcli.bench.knn.{name}", value)
    monkeypatch.setattr("sdfcli.bench.sequence._ways", lambda *_: two_frames)  # all ways take long
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words.replace("TORUS", str(TORUS)).split(), "--json"])
    lines = done.stdout.splitlines()
    report: dict[str, Any] = json.loads(lines[-1 if "newer" in words else 0])
    return report


def test_every_section_has_an_example() -> None:
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == list(EXAMPLES)


@pytest.mark.parametrize("section", EXAMPLES)
def test_keys(section: str, folder: Path) -> None:
    assert set(reported(EXAMPLES[section])) == documented(section)


def test_one_type_for_one_thing(folder: Path) -> None:
    """Numbers are one type; what is unknown may be null."""
    kinds: dict[str, str] = {}
    for words in EXAMPLES.values():
        for path in folder.glob("new*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for key, value in reported(words).items():
            if value is not None:
                kind = "number" if type(value) in (int, float) else type(value).__name__
                assert kinds.setdefault(key, kind) == kind, (words, key)
    assert kinds["input"] == "str"
    assert kinds["seconds"] == "dict"
