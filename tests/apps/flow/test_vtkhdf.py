"""VTKHDF files of particles over time, as VTK reads them."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from sdfcli.apps.flow.run import State
from sdfcli.apps.flow.vtkhdf import write_particles
from sdfcli.backend import C

TIMES = [0.0, 0.25, 0.5, 2.0]
COUNTS = [40_000, 39_990, 0, 7]
"""Particles that are left: more than a chunk of the file, none, and some once more (of another flow)."""
ORIGIN = np.array([100.0, -3.0, 1e6])
DATA = ("velocity", "pressure", "number", "kind")


def states(walls: bool = True) -> Iterator[State]:
    rng = np.random.default_rng(3)
    kind = np.where(np.arange(max(COUNTS)) % 3 == 0, C.WALL, C.FLUID).astype(np.uint8)
    for index, (time, count) in enumerate(zip(TIMES, COUNTS, strict=True)):
        number = np.sort(rng.permutation(max(COUNTS))[:count]).astype(np.uint32)
        place, velocity = rng.random((2, count, 3), np.float32)
        yield State(
            index=index,
            time=time,
            steps=10 * index,
            number=number,
            kind=kind[number] if walls else np.zeros(count, np.uint8),
            place=place,
            velocity=velocity,
            pressure=rng.random(count, np.float32),
            origin=ORIGIN,
            lost=max(COUNTS) - count,
            behind=0,
            fast=0,
            clearance=None,
            energy=0.0,
        )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    vtk = pytest.importorskip("vtk")
    path = tmp_path_factory.mktemp("particles") / "a.vtkhdf"
    write_particles(path, states())
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(path))
    return reader


def test_times(reader: Any) -> None:
    vtk = pytest.importorskip("vtk")

    reader.UpdateInformation()
    found, key = reader.GetOutputInformation(0), vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    assert [found.Get(key, k) for k in range(found.Length(key))] == TIMES


@pytest.mark.parametrize("k", [3, 0, 2, 1])  # back, too, as when the time bar is pulled
def test_steps(k: int, reader: Any) -> None:
    from vtk.util.numpy_support import vtk_to_numpy

    state = list(states())[k]
    reader.UpdateTimeStep(TIMES[k])
    points = reader.GetOutput()
    assert points.GetNumberOfPoints() == points.GetNumberOfVerts() == COUNTS[k]
    if COUNTS[k] == 0:
        return
    assert np.array_equal(vtk_to_numpy(points.GetPoints().GetData()), ORIGIN + state.place)
    for name in DATA:
        found = vtk_to_numpy(points.GetPointData().GetArray(name))
        assert found.dtype == getattr(state, name).dtype
        assert np.array_equal(found, getattr(state, name))
    cells = vtk_to_numpy(points.GetVerts().GetConnectivityArray())
    assert np.array_equal(cells, np.arange(COUNTS[k]))


def test_kinds_only_where_there_are_walls(tmp_path: Path) -> None:
    for walls in (True, False):
        write_particles(tmp_path / f"{walls}.vtkhdf", states(walls))
        with h5py.File(tmp_path / f"{walls}.vtkhdf") as file:
            data, offsets = file["VTKHDF/PointData"], file["VTKHDF/Steps/PointDataOffsets"]
            assert set(data) == set(offsets) == set(DATA[: 4 if walls else 3])


def test_the_same_bytes_again_and_one_state_at_a_time(tmp_path: Path) -> None:
    alive: list[int] = []

    def counted() -> Iterator[State]:
        known: list[Any] = []
        for state in states():
            copy = dataclasses.replace(state)
            known.append(weakref.ref(copy))
            yield copy
            del state, copy
            gc.collect()
            alive.append(sum(each() is not None for each in known))

    write_particles(tmp_path / "a.vtkhdf", counted())
    write_particles(tmp_path / "b.vtkhdf", states())
    assert (tmp_path / "a.vtkhdf").read_bytes() == (tmp_path / "b.vtkhdf").read_bytes()
    assert max(alive) <= 1
