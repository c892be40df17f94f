"""Writes the docs' tables of measurements: `sdfcli bench flood bunny.ply --json | python tools/measured.py`.

Reads the JSON lines of `bench flood`, `bench knn` and `bench MESH --uniform`, and replaces their CSV files in
docs/internals/data.
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


def milliseconds(value: float | None) -> str:
    """Three significant digits, or more before the point."""
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def knn(report: dict[str, Any]) -> dict[str, Table]:
    """Tables 4 and 5 of the paper, the shares by its (2), and distances to boxes by s / c."""
    times = {(row["queries"], row["form"]): row for row in report["sizes"]}
    columns = ("search", "joint", "paper", "tree", "ann")
    names = ("search", "joint sort", "paper", "k-d tree", "paper's ANN")
    four = [["queries", *(f"{kind} {name}" for kind in ("6-D", "3-D") for name in names)]]
    five = [
        ["queries", "search", "joint sort", *(f"{each}, 7 curves" for each in ("search", "joint")), "64 bits", "paper"]
    ]
    ratios = (
        ("minmax", "vertices", "search"),
        ("minmax", "vertices", "joint"),
        ("minmax", "vertices, 7 curves", "search"),
        ("minmax", "vertices, 7 curves", "joint"),
        ("minmax, 64 bits", "vertices, 7 curves", "joint"),
        ("minmax", "vertices", "paper"),
    )
    for count in dict.fromkeys(row["queries"] for row in report["sizes"]):
        label = f"2^{count.bit_length() - 1}"
        forms = (times[count, "minmax"], times[count, "vertices"])
        four.append([label, *(milliseconds(row[column]) for row in forms for column in columns)])
        pairs = [(times[count, one][column], times[count, other][column]) for one, other, column in ratios]
        five.append([label, *("-" if a is None or b is None else f"{a / b:.2f}" for a, b in pairs)])
    curves = {"minmax": 7, "size": 7, "ball": 5, "vertices": 5}
    shares = [
        [row["form"], row["points"], str(row["shifts"]), *(f"{100 * row[f'within_{e}']:.1f}" for e in (5, 10, 50, 100))]
        for row in report["quality"]
        if row["shifts"] == curves[row["form"]]
    ]
    boxes = [
        [
            place,
            f"{row['low']:g}",
            f"{row['pairs']:,}",
            *("-" if row[name] is None else f"{row[name]:.3f}" for name in ("root", "series", "size", "minmax")),
            *(f"{100 * row[name]:.1f}" for name in ("size_wrong", "minmax_wrong")),
        ]
        for place, rows in report["distances"].items()
        for row in rows
    ]
    return {
        "park-table-4.csv": four,
        "park-table-5.csv": five,
        "park-within.csv": [["form", "points", "curves", "1.05", "1.1", "1.5", "2"], *shares],
        "park-boxes.csv": [
            ["points", "s/c from", "pairs", "(3)", "(4)", "size", "minmax", "size wrong, %", "minmax wrong, %"],
            *boxes,
        ],
    }


def tables_of(report: dict[str, Any]) -> dict[str, Table]:
    """A line's tables by file name."""
    kinds = {"methods": lookups, "quality": knn, "rows": flood}
    return next(make(report) for key, make in kinds.items() if key in report)


def main() -> None:
    """Writes the tables of all lines on standard input."""
    for report in map(json.loads, sys.stdin):
        made = tables_of(report)
        for name, rows in made.items():
            with (DATA / name).open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
