"""`tools/measured.py`: tables of the documentation from the benchmarks' JSON."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, tool

measured = tool("measured")


def written(report: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, str]]]:
    """The files made from a line, by name, as rows by column. Each exists in the documentation with these columns."""
    monkeypatch.setattr(measured, "DATA", folder)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(report) + "\n"))
    measured.main()
    found = {}
    for path in folder.iterdir():
        with path.open(newline="") as file, (ROOT / "docs" / "internals" / "data" / path.name).open() as known:
            rows = csv.DictReader(file)
            found[path.name] = list(rows)
            assert rows.fieldnames == next(csv.reader(known))
    return found


def flooded(order: str, planted: str, depth: int, seeds: int, missed: float) -> dict[str, Any]:
    row = {"order": order, "planted": planted, "depth": depth, "nodes": (2**depth + 1) ** 3, "seeds": seeds}
    return {**row, "passes": depth, "milliseconds": 12.345, "missed": missed, "excess_max": 0.426, "excess_rms": 0.01}


def test_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        flooded("JFA", "mesh", 4, 1000, 0.0123),
        flooded("JFA", "mesh", 5, 4000, 0.5),
        flooded("doubling", "mesh", 5, 4000, 1.0),
        flooded("JFA", "random", 5, 1, 0.0),
        flooded("JFA", "random", 5, 10, 0.00000123),
    ]
    found = written({"rows": rows}, tmp_path, monkeypatch)
    assert [row["order"] for row in found["flood-orders.csv"]] == ["JFA", "doubling"]
    assert [row["missed %"] for row in found["flood-orders.csv"]] == ["50.00", "100.00"]
    sizes = found["flood-sizes.csv"]
    assert [(row["nodes"], row["seeds"], row["missed %"]) for row in sizes] == [
        ("17^3", "1,000", "1.23"),
        ("33^3", "4,000", "50.00"),
    ]
    assert float(sizes[0]["ns per node and pass"]) == pytest.approx(12.345e6 / 17**3 / 4, rel=1e-3)
    assert [(row["random seeds"], row["missed %"]) for row in found["flood-seeds.csv"]] == [
        ("1", "0"),
        ("10", "0.0001"),
    ]
    assert {row["ms"] for rows in found.values() for row in rows} == {"12.3"}


def test_lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    methods = [
        {"method": name, "nodes": 4913, "field_bytes": 1234567, "lookups": 1234.4}
        for name in ("bvh octree", "uniform, exact", "uniform, JFA+1")
    ]
    (rows,) = written({"methods": methods}, tmp_path, monkeypatch).values()
    assert [row["field"] for row in rows] == ["bvh octree", "uniform, exact"]
    assert set(rows[0].values()) == {"bvh octree", "4,913", "1.2", "1,234"}


def test_knn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = {"minmax": (6.0, 12.0, 5, 66), "vertices": (2.0, 3.0, 10, 40)}
    sizes = [
        {"queries": 4096, "form": form, "search": a, "joint": b, "paper": paper, "ann": ann, "tree": None}
        for form, (a, b, paper, ann) in {
            **forms,
            "vertices, 7 curves": (4.0, 8.0, None, None),
            "minmax, 64 bits": (1.0, 10.0, None, None),
        }.items()
    ]
    shares = {"within_5": 0.5, "within_10": 0.75, "within_50": 0.9, "within_100": 1.0}
    quality = [
        {"form": form, "points": "near", "shifts": shifts, **shares} for form in ("minmax", "ball") for shifts in (5, 7)
    ]
    interval = {"low": 0.5, "pairs": 1000, "root": 1.2345, "series": None, "size": 2.0, "minmax": 1.5}
    distances = {"rand": [{**interval, "size_wrong": 0.25, "minmax_wrong": 0.125}]}
    found = written({"sizes": sizes, "quality": quality, "distances": distances}, tmp_path, monkeypatch)
    (four,), (five,), (boxes,) = (found[f"park-{name}.csv"] for name in ("table-4", "table-5", "boxes"))
    assert (four["queries"], four["6-D joint sort"], four["6-D paper"], four["3-D paper's ANN"]) == (
        "2^12",
        "12",
        "5",
        "40",
    )
    assert four["6-D k-d tree"] == "-"
    assert list(five.values()) == ["2^12", "3.00", "4.00", "1.50", "1.50", "1.25", "0.50"]
    assert list(boxes.values()) == ["rand", "0.5", "1,000", "1.234", "-", "2.000", "1.500", "25.0", "12.5"]
    assert [list(row.values()) for row in found["park-within.csv"]] == [
        ["minmax", "near", "7", "50.0", "75.0", "90.0", "100.0"],
        ["ball", "near", "5", "50.0", "75.0", "90.0", "100.0"],
    ]
