"""Grids for other programs, as their libraries read them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.export.lattice import Grid

WINDOW = [-0.5, 0.5, 2.0, 1.5, 1.75, 4.5]
RESOLUTION = 71


@pytest.fixture(scope="module")
def field() -> sdfcli.Field:
    vertices, faces = shapes.star(np.random.default_rng(5), 2)
    return sdfcli.build((vertices * [1.0, 0.6, 1.4] + [0.5, 1.0, 3.0], faces), tolerance=4e-3, device="cpu")


@pytest.fixture(scope="module")
def grid(field: sdfcli.Field) -> Grid:
    """Its three sides differ."""
    return field.grid(RESOLUTION, WINDOW)


def export(field: sdfcli.Field, path: Path, **options: Any) -> str:
    return str(field.export(path, resolution=RESOLUTION, window=WINDOW, **options))


@pytest.mark.parametrize("ending", ["nrrd", "mha"])
def test_simpleitk(ending: str, field: sdfcli.Field, grid: Grid, tmp_path: Path) -> None:
    itk = pytest.importorskip("SimpleITK")
    image = itk.ReadImage(export(field, tmp_path / f"a.{ending}"))
    assert (itk.GetArrayFromImage(image).transpose(2, 1, 0) == grid.distance).all()
    at = image.TransformIndexToPhysicalPoint((3, 5, 7))
    np.testing.assert_allclose(at, grid.origin + grid.spacing * np.array([3, 5, 7]), rtol=1e-14)


def test_pynrrd(field: sdfcli.Field, grid: Grid, tmp_path: Path) -> None:
    nrrd = pytest.importorskip("nrrd")
    values, header = nrrd.read(export(field, tmp_path / "a.nrrd"))
    assert (values == grid.distance).all()
    assert (header["space origin"] == grid.origin).all()
    assert (header["space directions"] == grid.spacing * np.eye(3)).all()


def test_metaimage(field: sdfcli.Field, grid: Grid, tmp_path: Path) -> None:
    header, _, body = Path(export(field, tmp_path / "a.mha")).read_bytes().partition(b"LOCAL\n")
    facts = dict(line.split(" = ") for line in header.decode().splitlines() if not line.startswith("ElementData"))
    assert [int(n) for n in facts["DimSize"].split()] == list(grid.distance.shape)
    assert [float(x) for x in facts["Offset"].split()] == grid.origin.tolist()
    assert [float(x) for x in facts["ElementSpacing"].split()] == [grid.spacing] * 3
    assert (grid.distance == np.frombuffer(body, "<f4").reshape(grid.distance.shape[::-1]).T).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_zarr(dtype: str, field: sdfcli.Field, grid: Grid, tmp_path: Path) -> None:
    """Some chunks reach beyond the grid."""
    zarr = pytest.importorskip("zarr")
    path = export(field, tmp_path / "a.zarr.zip", dtype=dtype)
    group = zarr.open_group(zarr.storage.ZipStore(path, mode="r"), mode="r")
    exact = field.sample(grid.origin + grid.spacing * np.moveaxis(np.indices(grid.distance.shape), 0, -1))
    assert (group["distance"][:] == exact.astype(dtype)).all()
    assert group["distance"].metadata.dimension_names == ("x", "y", "z")
    for axis, name in enumerate("xyz"):
        assert (group[name][:] == grid.origin[axis] + grid.spacing * np.arange(grid.distance.shape[axis])).all()
    assert group.attrs["spacing"] == grid.spacing


def test_sdfgen(field: sdfcli.Field, grid: Grid, tmp_path: Path) -> None:
    """Values are exact, in the order of its readme: first in i, then j, then k."""
    lines = Path(export(field, tmp_path / "a.sdf")).read_text().splitlines()
    shape = [int(n) for n in lines[0].split()]
    assert [float(x) for x in lines[1].split()] == grid.origin.tolist()
    assert float(lines[2]) == grid.spacing
    assert (grid.distance == np.array(lines[3:], np.float32).reshape(shape[::-1]).T).all()


def test_discregrid(field: sdfcli.Field, tmp_path: Path) -> None:
    """Each node of each cell has its distance: corners in binary order, then the edges' thirds along x, y and z."""
    path = field.export(tmp_path / "a.cdf", resolution=9, window=WINDOW)
    data = path.read_bytes()
    low, high = np.frombuffer(data, "<f8", 6).reshape(2, 3)
    cells = np.frombuffer(data, "<u4", 3, 48)
    edge, inverse = np.frombuffer(data, "<f8", 6, 60).reshape(2, 3)
    count, fields, lists, nodes = struct.unpack_from("<4Q", data, 108)
    assert (count, fields, lists) == (np.prod(cells), 1, 1)
    assert np.allclose(low + edge * cells, high)
    assert np.allclose(edge * inverse, 1)
    value = np.frombuffer(data, "<f8", nodes, 140)
    after = 140 + 8 * nodes
    assert struct.unpack_from("<2Q", data, after) == (1, count)
    number = np.frombuffer(data, "<u4", 32 * count, after + 16).reshape(-1, 32)
    after += 16 + 128 * count
    assert struct.unpack_from("<2Q", data, after) == (1, count)
    assert (np.frombuffer(data, "<u4", offset=after + 16) == np.arange(count)).all()

    corners = [[-1, -1, -1], [1, -1, -1], [-1, 1, -1], [1, 1, -1], [-1, -1, 1], [1, -1, 1], [-1, 1, 1], [1, 1, 1]]
    t = 1 / 3
    along_x = [[s * t, b, c] for b, c in ((-1, -1), (-1, 1), (1, -1), (1, 1)) for s in (-1, 1)]
    along_y = [[a, s * t, c] for a, c in ((-1, -1), (1, -1), (-1, 1), (1, 1)) for s in (-1, 1)]
    along_z = [[a, b, s * t] for a, b in ((-1, -1), (-1, 1), (1, -1), (1, 1)) for s in (-1, 1)]
    place = np.array(corners + along_x + along_y + along_z)
    cell = np.stack(np.unravel_index(np.arange(count), tuple(cells[::-1])), axis=1)[:, ::-1]  # x fastest
    points = low + edge * (cell[:, None] + (place + 1) / 2)
    np.testing.assert_allclose(value[number], field.sample(points), rtol=0, atol=1e-12)


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_bullet(margin: float, tmp_path: Path) -> None:
    """Balls touch the shape where the field says so, and as deep, if their centres lie in the grid's box."""
    bullet = pytest.importorskip("pybullet")
    field = sdfcli.build(shapes.icosphere(3), tolerance=1e-3, device="cpu")
    low, high = field.bounds[0] - margin, field.bounds[1] + margin
    field.export(tmp_path / "ball.cdf", window=[*low, *high])
    (tmp_path / "ball.urdf").write_text(
        '<robot name="b"><link name="l"><inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" '
        'izz="0"/></inertial><collision><geometry><cdf filename="ball.cdf"/></geometry></collision></link></robot>'
    )
    server, radius = bullet.connect(bullet.DIRECT), 0.2
    touched = []
    try:
        bullet.setAdditionalSearchPath(str(tmp_path))
        body = bullet.loadURDF("ball.urdf", useFixedBase=1)
        shape = bullet.createCollisionShape(bullet.GEOM_SPHERE, radius=radius)
        for way in np.random.default_rng(3).normal(size=(40, 3)):
            centre = 1.15 * way / np.linalg.norm(way)
            other, deep = bullet.createMultiBody(1, shape, basePosition=centre), field.sample(centre) - radius
            found = bullet.getClosestPoints(body, other, 0.1)
            bullet.removeBody(other)
            touched.append(bool(found))
            assert touched[-1] == (deep < 0 and (low < centre).all() and (centre < high).all())
            assert all(abs(each[8] - deep) < 3e-3 for each in found)
        assert all(touched) == (margin > radius)
        assert sum(touched) >= 10
    finally:
        bullet.disconnect(server)
