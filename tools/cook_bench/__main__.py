"""Cooked fields beside simulators' own: `python tools/cook_bench TABLE.csv [--simulator NAME ...] [--scene NAME ...]`.

For each scene and kind of field: seconds to cook, bytes, penetration, energy gained, steps per second and the end after
a second. Simulators that are not installed are passed over. Other rows of TABLE.csv stay.

Needs the extra `simulators`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cook_bench.scenes import PRESET, Result, scenes

SIMULATORS = {"MuJoCo": "in_mujoco", "Newton": "in_newton", "Bullet": "in_bullet", "Drake": "in_drake"}
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


def played(target: str, scene: str) -> list[dict[str, str]]:
    """A scene's rows in a simulator."""
    module = import_module(f"cook_bench.{SIMULATORS[target]}")
    ways = [(fields, fields, PRESET) for fields in module.FIELDS]
    finer = getattr(module, "FINER", {}).get(scene)
    if finer is not None:
        ways.insert(1, (f"sdfcli, {finer.cells} cells", "sdfcli", finer))
    rows = []
    for name, fields, config in ways:
        with tempfile.TemporaryDirectory() as folder:
            result = module.played(scenes()[scene], fields, Path(folder), config)
        rows.append(dict(zip(COLUMNS, (target, scene, name, *figures(result)), strict=True)))
        print(*rows[-1].values(), sep=" | ", flush=True)
    return rows


def record(table: Path, rows: list[dict[str, str]]) -> None:
    """Writes rows of one scene in place of its former ones."""
    kept = []
    if table.exists():
        with open(table, newline="") as file:
            kept = [row for row in csv.DictReader(file) if (row["target"], row["scene"]) != tuple(rows[0].values())[:2]]
    targets, order = list(SIMULATORS), list(scenes())
    with open(table, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept + rows, key=lambda row: (targets.index(row["target"]), order.index(row["scene"]))))


def main() -> None:
    """Runs the scenes, and writes the table after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--simulator", action="append", choices=SIMULATORS)
    parser.add_argument("--scene", action="append", choices=scenes())
    options = parser.parse_args()
    for target in options.simulator or SIMULATORS:
        try:
            for scene in options.scene or scenes():
                record(options.table, played(target, scene))
        except ImportError as error:
            print(f"{target}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
