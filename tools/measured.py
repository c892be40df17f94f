"""Writes the docs' tables of measurements: `sdfcli bench flood bunny.ply --json | python tools/measured.py`.

Reads the JSON lines of `bench flood` and `bench MESH --uniform`, and replaces their CSV files in docs/internals/data.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "docs" / "internals" / "data"

Table = list[list[str]]


def percent(share: float) -> str:
    """Two decimals, or as many as show two digits of a smaller share."""
    return "0" if share == 0 else f"{100 * share:.2f}" if share >= 1e-4 else f"{100 * share:.1g}"


def flood(report: dict[str, Any]) -> dict[str, Table]:
    """By order of passes, by grid size, and by number of random seeds."""
    tables: dict[str, Table] = {
        "flood-orders.csv": [["order", "passes", "ms", "missed %", "excess max", "excess rms"]],
        "flood-sizes.csv": [["nodes", "seeds", "passes", "ms", "ns per node and pass", "missed %"]],
        "flood-seeds.csv": [["random seeds", "passes", "ms", "missed %", "excess max", "excess rms"]],
    }
    for row in report["rows"]:
        time, passes, missed = f"{row['milliseconds']:.3g}", str(row["passes"]), percent(row["missed"])
        excess = [f"{row['excess_max']:.2f}", f"{row['excess_rms']:.4f}"]
        each = f"{1e6 * row['milliseconds'] / row['nodes'] / row['passes']:.3f}"
        if row["planted"] == "random":
            tables["flood-seeds.csv"].append([f"{row['seeds']:,}", passes, time, missed, *excess])
            continue
        if row["depth"] == max(other["depth"] for other in report["rows"]):
            tables["flood-orders.csv"].append([row["order"], passes, time, missed, *excess])
        if row["order"] == "JFA":
            side = 2 ** row["depth"] + 1
            tables["flood-sizes.csv"].append([f"{side}^3", f"{row['seeds']:,}", passes, time, each, missed])
    return tables


def lookups(report: dict[str, Any]) -> dict[str, Table]:
    """Points per second looked up in the finished field; a flooded grid is looked up as any other."""
    rows = [
        [row["method"], f"{row['nodes']:,}", f"{row['field_bytes'] / 1e6:,.1f}", f"{row['lookups']:,.0f}"]
        for row in report["methods"]
        if "JFA" not in row["method"]
    ]
    return {"lookups.csv": [["field", "values", "MB", "M points/s"], *rows]}


def main() -> None:
    """Writes the tables of all lines on standard input."""
    for report in map(json.loads, sys.stdin):
        made = lookups(report) if "methods" in report else flood(report)
        for name, rows in made.items():
            with (DATA / name).open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
