"""`bench scan`: which cases are measured, and that a wrong sum does not go unnoticed."""

from __future__ import annotations

import pytest

import backends
from sdfcli.apps.bench import scan
from sdfcli.apps.bench.scan import measure_scan
from sdfcli.backend import Backend
from sdfcli.errors import CheckFailedError

backend = backends.backend


def test_rows(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LARGEST_PART", 4000)
    rows = list(measure_scan([backend] * 3, on_host=[2**21], on_devices=[1001, 20_000], repeat=2))
    rows, additions = [row for row in rows if row.what != "add"], [row for row in rows if row.what == "add"]
    cases = [(row.what, row.where, row.devices, row.elements) for row in rows]
    assert cases == [
        (what, where, devices, elements)
        for where, sizes, kinds in (
            ("host to host", [2**21], ["scan", "form", "copy"]),
            ("on devices", [1001, 20_000], ["scan", "form", "library", "copy"]),
        )
        for elements in sizes
        for devices in (1, 2)
        for what in kinds
    ]
    for row in rows:
        assert 0 < row.fastest <= row.milliseconds <= row.slowest
        assert row.gigabytes == pytest.approx(8e-6 * row.elements / row.milliseconds)
        assert row.speed_up == 1 or row.devices > 1
        assert row.paper == {1: 3.44, 2: 3.08}[row.devices] or row.paper is None
    assert [(row.what, row.devices) for row in rows if row.paper] == [
        (what, devices) for devices in (1, 2) for what in ("scan", "form")
    ]
    blocks = [None] if backend.name == "cpu" else [128, 256, 512, 1024]
    assert [(row.block, row.each) for row in additions] == [(b, each) for b in blocks for each in (1, 2, 4, 8)]
    assert {(row.elements, row.devices) for row in additions} == {(2**21, 1)}


def test_a_wrong_sum_is_a_failure(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "exclusive_scan", lambda parts, most: 1)
    with pytest.raises(CheckFailedError, match="total"):
        list(measure_scan([backend], on_host=[], on_devices=[1000], repeat=2))
