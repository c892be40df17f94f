"""OpenVDB files, as TinyVDB and, where it is installed, OpenVDB read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.export.lattice import Lattice, make_lattice, volume
from sdfcli.export.narrow_band import narrow_band
from sdfcli.vdb import openvdb


@pytest.fixture(scope="module")
def field() -> sdfcli.Field:
    vertices, faces = shapes.star(np.random.default_rng(5), 2)
    return sdfcli.build((vertices * [1.0, 0.6, 1.4] + [0.5, 1.0, 3.0], faces), tolerance=4e-3, device="cpu")


@pytest.fixture(scope="module")
def lattice(field: sdfcli.Field) -> Lattice:
    return make_lattice(field, 150, [-0.5, 0.5, 2.0, 1.5, 1.75, 4.5])


@pytest.mark.parametrize("half", [False, True])
def test_tinyvdb(half: bool, field: sdfcli.Field, lattice: Lattice, tmp_path: Path) -> None:
    """Blocks come in the order of their places: by upper node, lower node, and slot, x first."""
    tinyvdb = pytest.importorskip("tinyvdb")
    openvdb.write(tmp_path / "a.vdb", narrow_band(field, lattice), half)
    with tinyvdb.open(str(tmp_path / "a.vdb")) as file:
        file.read_grids()
        (grid,) = (file.grid(k) for k in range(file.grid_count))
        tree, facts, placed = grid.tree, grid.metadata, grid.transform
        nodes = [tree.node(k) for k in range(tree.num_nodes)]
        leaves = [(each.active_voxel_count, np.frombuffer(each.data, "f4")) for each in nodes if each.type == "leaf"]
        background = grid.float_background()
    truth, edge = volume(field, lattice), np.float32(3 * lattice.spacing)
    truth = np.pad(truth, [(0, -n % 8) for n in truth.shape], constant_values=np.nan)
    want = []
    for lower in np.ndindex(2, 2, 2):
        for slot in np.ndindex(16, 16, 16):
            i, j, k = 128 * np.array(lower) + 8 * np.array(slot)
            block = truth[i : i + 8, j : j + 8, k : k + 8]
            if block.size and (np.abs(block) < edge).any():
                want.append(block.reshape(-1))
    assert len(leaves) == len(want)
    assert len({each.level for each in nodes}) == 4
    for (count, found), block in zip(leaves, want, strict=True):
        near = np.abs(block) < edge
        assert count == near.sum()
        rounded = block.astype(np.float16).astype(np.float32) if half else block
        normal = near & (np.abs(block) > 2.0**-14)  # TinyVDB 0.9 doubles halves below
        assert (found[normal] == rounded[normal]).all()
        beyond = ~near & ~np.isnan(block)
        assert (found[beyond] == np.where(block[beyond] < 0, -background, background)).all()
    assert background == (np.float32(np.float16(edge)) if half else edge)
    assert (facts["class"], facts["name"], facts["is_saved_as_half_float"]) == ("level set", "surface", half)
    assert facts["file_voxel_count"] == sum(count for count, _ in leaves)
    box = np.argwhere(np.abs(truth) < edge)
    assert (facts["file_bbox_min"], facts["file_bbox_max"]) == (tuple(box.min(axis=0)), tuple(box.max(axis=0)))
    assert placed["translation"] == tuple(lattice.origin)
    assert placed["scale"] == placed["voxel_size"] == (lattice.spacing,) * 3


def test_openvdb(field: sdfcli.Field, lattice: Lattice, tmp_path: Path) -> None:
    library: Any = pytest.importorskip("openvdb")
    openvdb.write(tmp_path / "a.vdb", narrow_band(field, lattice), False)
    grid = library.read(str(tmp_path / "a.vdb"), "surface")
    assert grid.gridClass == library.GridClass.LEVEL_SET
    found = np.empty(lattice.shape, np.float32)
    grid.copyToArray(found)
    truth, edge = volume(field, lattice), np.float32(3 * lattice.spacing)
    assert (found == np.where(np.abs(truth) < edge, truth, np.where(truth < 0, -edge, edge))).all()
    assert np.allclose(grid.transform.indexToWorld((1.0, 2.0, 3.0)), lattice.origin + lattice.spacing * [1, 2, 3])


def test_the_same_bytes(field: sdfcli.Field, lattice: Lattice, tmp_path: Path) -> None:
    for name, half in (("a", False), ("b", False), ("c", True)):
        openvdb.write(tmp_path / name, narrow_band(field, lattice), half)
    first, second, third = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second
    identifier = slice(21, 57)
    assert first[identifier] != third[identifier]
