"""The benchmark of frame coherence: every case once, and numbers that fit each other."""

from __future__ import annotations

from typing import Any

import pytest

import backends
import shapes
from sdfcli.apps.bench.coherence import AMOUNTS, MOVED, SEEDS, Row, compare, finding, lead
from sdfcli.apps.bench.seeds import THESIS
from sdfcli.backend import Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.load import make_mesh

backend = backends.backend

Rows = dict[tuple[str, float, str, str], Row]


@pytest.fixture(scope="module")
def rows(backend: Backend) -> Rows:
    found = list(compare(make_mesh(*shapes.torus(36, 18)), backend, 4, repeat=1))
    table = {(row.motion, row.amount, row.query, row.seed): row for row in found}
    assert len(table) == len(found)
    return table


def test_every_case(rows: Rows) -> None:
    cases = [("none", 0.0), *((motion, amount) for motion in MOVED for amount in AMOUNTS)]
    assert list(rows) == [(*case, query, seed) for case in cases for query in THESIS for seed in SEEDS]
    for row in rows.values():
        assert row.milliseconds > 0
        assert row.points > 500
        assert row.boxes > 1
        assert row.tests >= (row.seed == "cold")  # a seed may be all that is measured


@pytest.mark.parametrize("query", ["baseline", "soa", "cct"])
def test_near_seeds_spare_work(rows: Rows, query: str) -> None:
    cases = {(motion, amount) for motion, amount, _, _ in rows}
    for case in cases:
        cold, earlier, exact = (rows[(*case, query, seed)] for seed in SEEDS)
        assert exact.boxes < cold.boxes
        assert exact.tests <= cold.tests + 1  # the seed's, which the walk meets again
        assert exact.boxes <= earlier.boxes
    for motion in MOVED:
        beyond = [
            rows[motion, amount, query, "earlier"].boxes / rows[motion, amount, query, "exact"].boxes
            for amount in AMOUNTS
        ]
        assert beyond[0] < beyond[-1]


def table_of(milliseconds: dict[tuple[str, str], float], motions: tuple[str, ...] = ("turn",)) -> list[Row]:
    return [
        Row(motion, 0.01, query, seed, 10, value, 1.0, 1.0)
        for motion in motions
        for (query, seed), value in milliseconds.items()
    ]


@pytest.mark.parametrize(("exact", "fate"), [(4.0, "is gone"), (1.0, "shrinks"), (0.1, "does not shrink")])
def test_the_lead_of_closer_child_traversal(exact: float, fate: str) -> None:
    times: dict[tuple[str, str], float] = {
        **{("baseline", seed): ms for seed, ms in zip(SEEDS, (60.0, 12.0, 3.0), strict=True)},
        **{("cct", seed): ms for seed, ms in zip(SEEDS, (6.0, 3.0, exact), strict=True)},
    }
    leads: list[dict[str, Any]] = lead(table_of(times, ("turn", "bend")))
    (row,) = leads
    expected = {"amount": 0.01, "cold": 10.0, "earlier": 4.0, "exact": 3 / exact, "gain": 2.0}
    assert row == pytest.approx(expected)
    said = finding(leads)
    assert f" {fate} " in said
    for word in ("10.00x cold", "4.00x at 1 %", f"{3 / exact:.2f}x from the exact one"):
        assert word in said


@pytest.mark.parametrize("depth", [0, 17])
def test_a_depth_out_of_range(cpu: Backend, depth: int) -> None:
    with pytest.raises(UsageError, match="--depth"):
        next(compare(make_mesh(*shapes.cube()), cpu, depth))
