"""NanoVDB files, as NVIDIA Warp reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.export.lattice import Lattice, make_lattice, volume
from sdfcli.export.narrow_band import narrow_band
from sdfcli.vdb import nanovdb

wp = pytest.importorskip("warp")


@pytest.fixture(scope="module", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Warp compiles into a folder of the user's, who may have none."""
    wp.config.kernel_cache_dir = str(tmp_path_factory.mktemp("kernels"))


@wp.kernel
def looked_up(grid: wp.uint64, voxel: wp.array(dtype=wp.vec3i), result: wp.array(dtype=float)) -> None:
    k = wp.tid()
    result[k] = wp.volume_lookup_f(grid, voxel[k][0], voxel[k][1], voxel[k][2])


@wp.kernel
def sampled(grid: wp.uint64, points: wp.array(dtype=wp.vec3), result: wp.array(dtype=float)) -> None:
    """The trilinear value at points in world space."""
    k = wp.tid()
    result[k] = wp.volume_sample_f(grid, wp.volume_world_to_index(grid, points[k]), wp.Volume.LINEAR)


def ask(kernel: object, grid: object, points: np.ndarray, dtype: object) -> np.ndarray:
    result = wp.zeros(len(points), dtype=float, device="cpu")
    given = wp.array(points, dtype=dtype, device="cpu")
    wp.launch(kernel, dim=len(points), inputs=[grid.id, given, result], device="cpu")  # type: ignore[attr-defined]
    return np.asarray(result.numpy())


def opened(path: Path) -> object:
    with open(path, "rb") as file:
        return wp.Volume.load_from_nvdb(file, device="cpu")


@pytest.fixture(scope="module")
def field() -> sdfcli.Field:
    vertices, faces = shapes.star(np.random.default_rng(5), 2)
    return sdfcli.build((vertices * [1.0, 0.6, 1.4] + [0.5, 1.0, 3.0], faces), tolerance=4e-3, device="cpu")


def test_every_voxel(field: sdfcli.Field, tmp_path: Path) -> None:
    """Blocks, tiles of all inner nodes, and outside of the tree."""
    lattice = make_lattice(field, 150, [-0.5, 0.5, 2.0, 1.5, 1.75, 4.5])
    nanovdb.write(tmp_path / "a.nvdb", narrow_band(field, lattice))
    truth, edge = volume(field, lattice).reshape(-1), np.float32(3 * lattice.spacing)
    want = np.where(np.abs(truth) < edge, truth, np.where(truth < 0, -edge, edge))
    grid = opened(tmp_path / "a.nvdb")
    voxel = np.indices(lattice.shape).reshape(3, -1).T
    assert (ask(looked_up, grid, voxel, wp.vec3i) == want).all()
    far = np.array([[-1, 0, 0], [5000, -5000, 3], [0, 0, 4096]])
    assert (ask(looked_up, grid, far, wp.vec3i) == edge).all()
    info = grid.get_grid_info()  # type: ignore[attr-defined]
    assert (info.name, info.type_str) == ("surface", "float")


def test_places(field: sdfcli.Field, tmp_path: Path) -> None:
    lattice = make_lattice(field, 60)
    band = narrow_band(field, lattice)
    nanovdb.write(tmp_path / "a.nvdb", band)
    grid = opened(tmp_path / "a.nvdb")
    voxel = (band.block[:, None] + np.indices((8, 8, 8)).reshape(3, -1).T)[band.active]
    points = lattice.origin + lattice.spacing * voxel
    # World positions are single precision in Warp: a few roundings of positions up to 4.5.
    found = ask(sampled, grid, points, wp.vec3)
    np.testing.assert_allclose(found, field.sample(points), rtol=0, atol=4e-6)
    assert np.allclose(grid.get_voxel_size(), lattice.spacing)  # type: ignore[attr-defined]


def test_a_tile_of_the_root(tmp_path: Path) -> None:
    field = sdfcli.build(shapes.cube(), tolerance=0.1, device="cpu")
    nanovdb.write(
        tmp_path / "a.nvdb", narrow_band(field, Lattice(np.array([-1.002, -0.01, 0.03]), 1 / 4300, (8700, 9, 9)))
    )
    grid = opened(tmp_path / "a.nvdb")
    values = ask(looked_up, grid, np.array([[4300, 4, 4], [6000, 8, 8], [8690, 4, 4]]), wp.vec3i)
    assert (values == np.float32(3 / 4300) * np.array([-1, -1, 1], np.float32)).all()
