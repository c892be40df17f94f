"""Files of contacts, read back by other programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import oracle
from sdfcli.errors import UsageError
from sdfcli.export.contacts import COLUMNS, ENDINGS, write_contacts
from sdfcli.query.contacts import Manifold

COUNTS = [0, 3, 1, 0, 5, 0]
"""Contacts of each pose: none at the ends, and none in between."""


def manifold(counts: list[int]) -> Manifold:
    """Random contacts, among them hard numbers."""
    rng, k = np.random.default_rng(3), sum(counts)
    hard = np.array([0.1, -0.0, 5e-324, -1e300, 1 / 3, 2.0**53])
    distance, point = rng.choice(hard, k) * rng.choice([1, rng.random()], k), rng.normal(size=(k, 3))
    point[:2] = hard.reshape(2, 3)[:k]
    pose = np.repeat(np.arange(len(counts)), counts)
    return Manifold(pose, rng.integers(0, 2**31, k), distance, point, rng.normal(size=(k, 3)))


def table(found: Manifold) -> np.ndarray:
    """Under the names COLUMNS."""
    return np.column_stack((found.pose, found.triangle, found.point, found.distance, found.normal))


@pytest.mark.parametrize("counts", [COUNTS, [4], [0], [0, 0]])
def test_csv(counts: list[int], tmp_path: Path) -> None:
    path, found = tmp_path / "a.csv", manifold(counts)
    write_contacts(path, found, len(counts), False)
    head, *lines = path.read_text().splitlines()
    assert head.split(",") == list(COLUMNS)
    rows = np.array([[float(word) for word in line.split(",")] for line in lines]).reshape(-1, len(COLUMNS))
    assert rows.tobytes() == table(found).tobytes()
    assert all(word.isdigit() for line in lines for word in line.split(",")[:2])  # whole numbers have no point


@pytest.mark.parametrize("counts", [COUNTS, [4]])
def test_ply(counts: list[int], tmp_path: Path) -> None:
    path, found = tmp_path / "a.ply", manifold(counts)
    write_contacts(path, found, len(counts), False)
    data = trimesh.load(path).metadata["_ply_raw"]["vertex"]["data"]
    assert np.column_stack([data[name] for name in COLUMNS]).tobytes() == table(found).tobytes()
    assert set(data.dtype.names) == set(COLUMNS)


def test_the_points_of_a_ply_file_can_be_queried(tmp_path: Path) -> None:
    found = manifold(COUNTS)
    found.point[:2] = 0.5
    write_contacts(tmp_path / "a.ply", found, len(COUNTS), False)
    field = oracle.random_field(np.random.default_rng(1), 40)
    field.save(tmp_path / "a.h5")
    command = [sys.executable, "-m", "sdfcli", "query", "a.h5", "a.ply"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert np.array_equal([float(word) for word in done.stdout.split()], field.sample(found.point))


def test_no_contacts_in_a_ply_file(tmp_path: Path) -> None:
    write_contacts(tmp_path / "a.ply", manifold([0]), 1, False)
    head = (tmp_path / "a.ply").read_bytes()
    assert b"element vertex 0\n" in head
    assert head.endswith(b"end_header\n")


@pytest.mark.parametrize("ending", ["csv", "ply"])
def test_chunks_do_not_show(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for chunk in (1000, 4):
        monkeypatch.setattr("sdfcli.export.contacts.CHUNK", chunk)
        write_contacts(tmp_path / f"{chunk}.{ending}", manifold(COUNTS), len(COUNTS), False)
    assert (tmp_path / f"4.{ending}").read_bytes() == (tmp_path / f"1000.{ending}").read_bytes()


# ---- VTK ----


def reader(path: Path) -> Any:
    vtk = pytest.importorskip("vtk")
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    return reader


def times(reader: Any) -> list[float]:
    vtk = pytest.importorskip("vtk")

    found, key = reader.GetOutputInformation(0), vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    return [found.Get(key, k) for k in range(found.Length(key))]


def check_step(reader: Any, found: Manifold, pose: int) -> None:
    """That the step has the contacts of the pose, a vertex each."""
    from vtk.util.numpy_support import vtk_to_numpy

    reader.UpdateTimeStep(float(pose))
    step, here = reader.GetOutputDataObject(0), found.pose == pose
    count = int(here.sum())
    assert step.GetClassName() == "vtkPolyData"
    assert (step.GetNumberOfPoints(), step.GetNumberOfCells(), step.GetNumberOfVerts()) == (count,) * 3
    data = step.GetPointData()
    names = {data.GetArrayName(k) for k in range(data.GetNumberOfArrays())}
    assert names == {"pose", "triangle", "distance", "normal"}
    for name in names:
        values = vtk_to_numpy(data.GetArray(name))
        assert np.array_equal(values, getattr(found, name)[here].reshape(values.shape))
    if count:
        assert vtk_to_numpy(step.GetPoints().GetData()).tobytes() == found.point[here].tobytes()
        assert np.array_equal(vtk_to_numpy(step.GetVerts().GetConnectivityArray()), np.arange(count))
        assert np.array_equal(vtk_to_numpy(step.GetVerts().GetOffsetsArray()), np.arange(count + 1))


@pytest.mark.parametrize("counts", [COUNTS, [4], [0], [0, 0, 0], [2, 0], [0, 2]])
def test_vtkhdf(counts: list[int], tmp_path: Path) -> None:
    """A step a pose, in any order, as when the time bar is pulled."""
    path, found = tmp_path / "a.vtkhdf", manifold(counts)
    write_contacts(path, found, len(counts), False)
    steps = reader(path)
    assert times(steps) == (list(range(len(counts))) if len(counts) > 1 else [])
    for pose in [*range(len(counts) - 1, -1, -1), *range(len(counts))]:
        check_step(steps, found, pose)


def test_a_step_in_the_middle_first(tmp_path: Path) -> None:
    path, found = tmp_path / "a.vtkhdf", manifold([40_000, 0, 30_000, 50_000])  # more than a chunk each
    write_contacts(path, found, 4, False)
    check_step(reader(path), found, 2)


def test_vtkhdf_of_many_poses(tmp_path: Path) -> None:
    counts = [0] * 20_000
    counts[7_000] = 2
    path, found = tmp_path / "a.vtkhdf", manifold(counts)
    write_contacts(path, found, len(counts), False)
    steps = reader(path)
    assert len(times(steps)) == 20_000
    check_step(steps, found, 7_000)
    check_step(steps, found, 19_999)


# ---- Whole or not at all ----


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_bytes_again(ending: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_contacts(tmp_path / f"{name}{ending}", manifold(COUNTS), len(COUNTS), False)
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_replaced_unasked(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"A{ending.upper()}"
    path.write_text("old")
    with pytest.raises(UsageError, match="exists"):
        write_contacts(path, manifold(COUNTS), len(COUNTS), False)
    assert path.read_text() == "old"
    write_contacts(path, manifold(COUNTS), len(COUNTS), True)
    other = tmp_path / f"b{ending}"
    write_contacts(other, manifold(COUNTS), len(COUNTS), False)
    assert path.read_bytes() == other.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([path.name, other.name])
