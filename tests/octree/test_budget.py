"""The memory of an octree that is foretold, against what NumPy takes."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import shapes
from sdfcli.backend.base import MemoryPolicy
from sdfcli.backend.cpu import CpuBackend
from sdfcli.mesh.load import make_mesh
from sdfcli.octree.budget import CELL_BYTES, POINT_BYTES, ROW_BYTES, Budget
from sdfcli.octree.grown import Limits
from sdfcli.octree.growth import Growth, estimated_bytes
from sdfcli.octree.levels import GrowableTable, Level, Octree
from sdfcli.scene import Scene

BYTES = {"points": POINT_BYTES, "cells": CELL_BYTES, "rows": ROW_BYTES}


@contextmanager
def taken() -> Iterator[list[int]]:
    """The most bytes that arrays take in it, afterwards."""
    most: list[int] = []
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield most
        most.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["torus", "plate", "soup"])
def test_no_octree_takes_more_than_was_asked_for(cpu: CpuBackend, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it asks for no more than three times that, as it is estimated to take."""
    shape = {
        "torus": shapes.torus(40, 20),
        "plate": shapes.box((0, 0, 0), (1, 1, 0.01)),
        "soup": shapes.soup(np.random.default_rng(1), 20, 0.7),
    }[kind]
    asked: Counter[str] = Counter()
    reserve = Budget.reserve

    def counted(self: Budget, **more: int) -> None:
        asked.update(more)
        reserve(self, **more)

    monkeypatch.setattr(Budget, "reserve", counted)
    monkeypatch.setattr("sdfcli.octree.growth.SPARE", 1)  # nothing fits into what is there before
    scene = Scene.of(make_mesh(*shape), "winding", cpu)
    limits = Limits(depth=6, tolerance=2e-3, band=0.05, thin=2e-3, thin_depth=7, step=5e-4)
    growth = Growth(scene, limits)
    _ = scene.signer, scene.index
    with taken() as most:
        growth.run()
    print(
        growth.octree.nbytes,
        most[0],
        {each: BYTES[each] * asked[each] for each in asked},
        estimated_bytes(scene, limits),
    )
    assert asked.keys() == BYTES.keys()
    assert growth.octree.nbytes < most[0] < sum(BYTES[each] * asked[each] for each in asked) < 3 * most[0]
    assert growth.octree.nbytes < estimated_bytes(scene, limits) < 3 * most[0]


@pytest.mark.parametrize("kind", BYTES)
def test_tables_that_grow_take_no_more_than_was_asked_for(kind: str) -> None:
    """With the room that they get, and with the copy while they get it, where memory is scarce."""
    entries, backend = 8 * 20_000, CpuBackend()
    backend.memory = MemoryPolicy(scarce=True)
    octree, level = Octree(backend, 1, capped=True, gradients=2 * entries), Level(backend, 1)
    tables: dict[str, list[tuple[GrowableTable, int]]] = {
        "points": [(octree.points, 1), (octree.values, 1)],
        "cells": [(level.cells, 1), (level.families, 8)],
        "rows": [(level.rows, 1)],
    }
    with taken() as most:
        for table, share in tables[kind]:
            table.extend(entries // share)
            table.extend(1)
    assert most[0] < BYTES[kind] * (entries + 8)
