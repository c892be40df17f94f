"""Files of surfaces: coordinates of any size are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shapes
from sdfcli.extract import mesh_file
from sdfcli.extract.marching_cubes import Surface
from sdfcli.mesh.formats.readers import read_file


@pytest.mark.parametrize(
    ("scale", "offset"), [(1.0, 0.0), (1e-9, 0.0), (1e-30, 0.0), (1e-300, 0.0), (1e-6, 1e3), (1.0, 1e12), (1e200, 0.0)]
)
@pytest.mark.parametrize("ending", [".obj", ".ply"])
def test_coordinates_of_any_size_stay_apart(
    ending: str, scale: float, offset: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesh_file, "ROWS", 7)
    vertices, faces = shapes.icosphere(2)
    surface = Surface(vertices * scale + offset, faces.astype(np.uint32), cut=False)
    path = tmp_path / f"a{ending}"
    mesh_file.write_mesh(path, ending, surface, cell=0.1 * scale)
    found, corners = read_file(path)
    assert np.array_equal(corners, faces)
    assert len(np.unique(found, axis=0)) == len(np.unique(surface.vertices, axis=0))
    assert np.abs(found - surface.vertices).max() <= mesh_file.FINE * 0.1 * scale
    if ending == ".obj":
        assert np.array_equal(found, surface.vertices)
