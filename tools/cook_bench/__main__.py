"""Cooked fields beside simulators' own: `python tools/cook_bench TABLE.csv [--simulator NAME] [--scene NAME] ...`.

For each scene and kind of field: seconds to cook, bytes, penetration, energy gained, steps per second and the end after
a second. Simulators that are not installed are passed over. Other rows of TABLE.csv stay.

Needs the extra `simulators`, and for Genesis `pip install torch genesis-world`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cook_bench.scenes import PRESET, Result, scenes
from sdfcli.cook.config import CookConfig

SIMULATORS = {
    "MuJoCo": "in_mujoco",
    "MuJoCo Warp": "in_mujoco_warp",
    "Newton": "in_newton",
    "Bullet": "in_bullet",
    "Drake": "in_drake",
    "Genesis": "in_genesis",
}
"""Modules by the names in the table."""
COLUMNS = (
    "target",
    "scene",
    "fields",
    "to cook, s",
    "MB",
    "penetration, mm",
    "energy gained, mJ",
    "steps/s",
    "after 1 s",
)


def figures(result: Result) -> tuple[str, ...]:
    """A row's columns after the first three."""
    size = "" if result.size is None else f"{result.size / 1e6:.1f}"
    return (
        f"{result.cook:.1f}",
        size,
        f"{1e3 * max(result.penetration, 0):.2f}",
        f"{1e3 * result.energy:.2f}",
        f"{result.rate:.0f}",
        result.words,
    )


def ways(module: Any, scene: str) -> dict[str, tuple[str, CookConfig]]:
    """Names of rows, each with fields and their configuration."""
    presets = {fields: (fields, PRESET) for fields in module.FIELDS}
    finer = getattr(module, "FINER", {}).get(scene)
    return presets if finer is None else {**presets, f"sdfcli, {finer.cells} cells": ("sdfcli", finer)}


def record(table: Path, row: dict[str, str]) -> None:
    """Writes a row, in place of the former one."""

    def order(row: Mapping[str, Any]) -> tuple[int, int]:
        return list(SIMULATORS).index(row["target"]), list(scenes()).index(row["scene"])

    rows = {}
    if table.exists():
        with open(table, newline="") as file:
            rows = {tuple(each.values())[:3]: each for each in csv.DictReader(file)}
    rows[tuple(row.values())[:3]] = row
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=order))


def main() -> None:
    """Runs the scenes, and writes the table after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--simulator", action="append", choices=SIMULATORS)
    parser.add_argument("--scene", action="append", choices=scenes())
    parser.add_argument("--fields", action="append", help="names in the table")
    options = parser.parse_args()
    for target in options.simulator or SIMULATORS:
        try:
            module = import_module(f"cook_bench.{SIMULATORS[target]}")
        except ImportError as error:
            print(f"{target}: {error}", file=sys.stderr)
            continue
        for scene in options.scene or scenes():
            for name, (fields, config) in ways(module, scene).items():
                if name not in (options.fields or [name]):
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    result = module.played(scenes()[scene], fields, Path(folder), config)
                row = dict(zip(COLUMNS, (target, scene, name, *figures(result)), strict=True))
                record(options.table, row)
                print(*row.values(), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
