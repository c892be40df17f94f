"""VTKHDF files with steps, as VTK reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
import sdfcli
from sdfcli.export.series import write_series

TIMES = [0.5, 0.75, 2.0]


@pytest.fixture(scope="module")
def fields() -> list[sdfcli.Field]:
    """Octrees of different sizes, the second one larger than a chunk of the file."""
    return [oracle.random_field(np.random.default_rng(7 + k), n, [k, 2, 3], 4.0) for k, n in enumerate((3, 6000, 40))]


@pytest.fixture(scope="module")
def reader(fields: list[sdfcli.Field], tmp_path_factory: pytest.TempPathFactory) -> Any:
    vtk = pytest.importorskip("vtk")
    path = tmp_path_factory.mktemp("series") / "a.vtkhdf"
    told = write_series(path, iter(zip(TIMES, fields, strict=True)))
    assert told == {
        "frames": 3,
        "leaves": sum(len(field.leaf_key) for field in fields),
        "corners": sum(len(field.corner_key) for field in fields),
    }
    reader = vtk.vtkHDFReader()
    reader.SetFileName(str(path))
    return reader


def test_times(reader: Any) -> None:
    vtk = pytest.importorskip("vtk")

    reader.UpdateInformation()
    found, key = reader.GetOutputInformation(0), vtk.vtkStreamingDemandDrivenPipeline.TIME_STEPS()
    assert [found.Get(key, k) for k in range(found.Length(key))] == TIMES


@pytest.mark.parametrize("k", [0, 2, 1])  # back, too, as when the time bar is pulled
def test_steps(k: int, reader: Any, fields: list[sdfcli.Field]) -> None:
    from vtk.util.numpy_support import vtk_to_numpy

    reader.UpdateTimeStep(TIMES[k])
    octants, field = reader.GetOutput(), fields[k]
    assert max(len(each.leaf_key) for each in fields) > 1 << 15
    assert np.array_equal(vtk_to_numpy(octants.GetPointData().GetArray("distance")), field.distance)
    assert np.array_equal(vtk_to_numpy(octants.GetCellData().GetArray("level")), field.leaf_level)
    assert octants.GetInformation().Get(octants.DATA_TIME_STEP()) == TIMES[k]
    where = vtk_to_numpy(octants.GetPoints().GetData())
    corner = vtk_to_numpy(octants.GetCells().GetConnectivityArray()).reshape(-1, 8)
    edge = field.domain.length * 0.5 ** field.leaf_level.astype(float)
    low, length = field.cell_at(where[corner].mean(axis=1))
    np.testing.assert_allclose(where[corner[:, 0]], low, atol=1e-12)
    np.testing.assert_allclose(where[corner[:, 7]] - where[corner[:, 0]], edge[:, None].repeat(3, 1), rtol=1e-12)
    assert np.array_equal(length, edge)
