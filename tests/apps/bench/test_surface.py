"""`bench surface`: its volumes, and that its stages are those of one extraction."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import backends
from sdfcli.apps.bench.surface import BALLS, LEVEL, measure_surface, metaball_volume
from sdfcli.backend import Backend
from sdfcli.cli.app import app
from sdfcli.extract.marching_cubes import STAGES, extract
from sdfcli.extract.sources import VolumeSource
from surfaces import check_closed

backend = backends.backend


def test_volume(backend: Backend) -> None:
    values = backend.to_host(metaball_volume(backend, 40))
    assert -BALLS < values.min() < LEVEL
    for axis in range(3):
        assert not np.take(values, [0, -1], axis=axis).any()
    # A finer volume has the same surface.
    coarse, fine = (
        check_closed(extract(VolumeSource(metaball_volume(backend, nodes), LEVEL), [backend])).euler
        for nodes in (40, 80)
    )
    assert coarse == fine


def test_rows(backend: Backend) -> None:
    said: list[str] = []
    rows = list(measure_surface(backend, [16, 24], 2, said.append))
    assert [row.nodes for row in rows] == [16, 24]
    assert len(said) == 2
    for row in rows:
        surface = extract(VolumeSource(metaball_volume(backend, row.nodes), LEVEL), [backend])
        assert row.triangles == len(surface.faces)
        assert list(row.stages) == list(STAGES[:-1])
        assert min(row.stages.values()) >= 0
        scans = row.stages["flag_scan"] + row.stages["count_scan"]
        assert row.scan_share == pytest.approx(scans / (sum(row.stages.values()) - row.stages["source"]))
        assert row.cell_scan > 0


@pytest.mark.parametrize("nodes", ["7", "3000", "16.5", "x"])
def test_impossible_sizes(nodes: str) -> None:
    done = CliRunner().invoke(app, ["bench", "surface", "--nodes", nodes])
    assert done.exit_code == 2
    assert "--nodes" in done.output
