"""Fields of level sets, compared with trilinear interpolation between voxels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import sdfcli
import shapes
from commands import reports
from sdfcli.cli.app import app
from sdfcli.errors import InputError
from sdfcli.export.lattice import make_lattice
from sdfcli.export.narrow_band import narrow_band
from sdfcli.field.level_set import field_of_level_set
from sdfcli.vdb.level_set import LEAF, LOWER, LevelSet, tree_order

Floats = npt.NDArray[np.float64]


def level_set(
    block: npt.ArrayLike, value: npt.ArrayLike, tile: npt.ArrayLike = (), log2: npt.ArrayLike = ()
) -> LevelSet:
    """With voxels of edge 0.25 and a background of 1.5; tiles are inside."""
    block = np.asarray(block, np.int32).reshape(-1, 3)
    order = tree_order(block)
    values = np.broadcast_to(np.asarray(value, np.float32), (len(block), 512))[order]
    tiles = np.asarray(tile, np.int32).reshape(-1, 3)
    origin, background = np.array([10.0, -20.0, 30.0]), np.float32(1.5)
    active = np.abs(values) < background
    return LevelSet(origin, 0.25, background, block[order], values, active, tiles, np.asarray(log2, np.uint8))


def dense(given: LevelSet, low: npt.NDArray[np.int64], shape: tuple[int, ...]) -> Floats:
    """Values at the voxels from `low` on."""
    result = np.full(shape, given.background, np.float64)

    def put(corner: list[int], edge: int, value: float | Floats) -> None:
        first = np.array(corner) - low
        at = tuple(slice(max(0, a), max(0, a + edge)) for a in first)
        if isinstance(value, float):
            result[at] = value
        else:
            inner = tuple(slice(max(0, -a), max(0, n - a)) for a, n in zip(first, shape, strict=True))
            result[at] = value[inner]

    for corner, log2 in zip(given.tile.tolist(), given.tile_log2.tolist(), strict=True):
        put(corner, 1 << log2, -float(given.background))
    for corner, value in zip(given.block.tolist(), given.value, strict=True):
        put(corner, 8, value.reshape(8, 8, 8).astype(np.float64))
    return result


def trilinear(value: Floats, at: Floats) -> Floats:
    """At points (n, 3) in voxels."""
    low = np.minimum(np.floor(at).astype(int), np.array(value.shape) - 2)
    share = at - low
    total = np.zeros(len(at))
    for corner in np.ndindex(2, 2, 2):
        i, j, k = (low + corner).T
        total += value[i, j, k] * np.prod(np.where(corner, share, 1 - share), axis=1)
    return total


def check(given: LevelSet, count: int = 20000) -> sdfcli.Field:
    field = field_of_level_set(given)
    size = round(field.domain.length / given.spacing)
    low = np.rint((field.domain.origin - given.origin) / given.spacing).astype(int)
    assert size <= 256
    assert (given.block >= low + 8).all()
    assert (given.block <= low + size - 8).all()
    value = dense(given, low, (size + 1,) * 3)
    rng = np.random.default_rng(7)
    inside = rng.uniform(0, size, (count, 3))
    near = np.clip(
        given.block[rng.integers(len(given.block), size=count)] - low + rng.uniform(-2, 10, (count, 3)), 0, size
    )
    for at in (inside, near):
        found = field.sample(given.origin + given.spacing * (low + at))
        np.testing.assert_allclose(found, trilinear(value, at), rtol=0, atol=2e-6)
    volume = (0.125 ** field.leaf_level.astype(np.float64)).sum()
    assert volume == 1
    return field


@pytest.mark.parametrize("seed", range(6))
def test_between_the_voxels(seed: int) -> None:
    """Any values, in blocks beside each other or apart, with negative coordinates."""
    rng = np.random.default_rng(seed)
    block = np.unique(8 * rng.integers(-5, 6, (int(rng.integers(1, 60)), 3)), axis=0)
    value = rng.uniform(-2, 2, (len(block), 512))
    value[rng.random(len(block)) < 0.3] = rng.choice([-1.5, 1.5])
    check(level_set(block, value))


def test_tiles_that_are_inside() -> None:
    """A cube of tiles, which touches blocks and the outside; and one in the middle of blocks."""
    rng = np.random.default_rng(1)
    tile = 8 * np.indices((3, 3, 3)).reshape(3, -1).T
    block = [[24, 0, 0], [24, 8, 0], [-8, 8, 8], [40, 40, 40]]
    check(level_set(block, rng.uniform(-1.5, 1.5, (4, 512)), tile, np.full(27, LEAF)))
    around = 8 * (np.indices((3, 3, 3)).reshape(3, -1).T - 1)
    check(level_set(around[around.any(axis=1)], -1.0, [[0, 0, 0]], [LEAF]))


def test_a_large_tile() -> None:
    """Surrounded by blocks, as in a level set: its octree has large leaves."""
    shell = 8 * (np.indices((18, 18, 18)).reshape(3, -1).T - 1)
    shell = shell[((shell < 0) | (shell >= 128)).any(axis=1)]
    field = check(level_set(shell, -1.5, [[0, 0, 0]], [LOWER]))
    assert field.leaf_level.min() <= 2
    at = field.sample([[10 + 0.25 * 64, -20 + 0.25 * 64, 30 + 0.25 * 64]])
    assert at == -1.5


def test_blocks_far_apart() -> None:
    field = field_of_level_set(level_set([[0, 0, 0], [8 * 60_000, 0, 8]], np.linspace(-1, 1, 512)))
    assert field.leaves < 20_000
    values = field.sample([[10, -20, 30.0], [10 + 2 * 60_000, -20, 32]])
    assert values.tolist() == [-1, -1]
    with pytest.raises(InputError, match="voxels along an axis"):
        field_of_level_set(level_set([[0, 0, 0], [8 * 200_000, 0, 0]], 0.0))


def test_a_field_and_back() -> None:
    """Exported in its own grid, a level set's field is the level set again."""
    vertices, faces = shapes.star(np.random.default_rng(5), 2)
    field = sdfcli.build((vertices, faces), tolerance=0.02, device="cpu")
    lattice = make_lattice(field, 90)
    first = narrow_band(field, lattice)
    again = narrow_band(field_of_level_set(first), lattice)
    assert (again.block == first.block).all()
    assert (again.active == first.active).all()
    np.testing.assert_allclose(again.value, first.value, rtol=0, atol=1e-6)
    assert (again.tile == first.tile).all()


@pytest.mark.parametrize("ending", ["vdb", "nvdb"])
def test_commands(ending: str, tmp_path: Path) -> None:
    field = sdfcli.build(shapes.icosphere(3), tolerance=0.01, device="cpu")
    source = field.export(tmp_path / f"ball.{ending}", resolution=60)

    def run(*words: object) -> str:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.stdout

    (surface,) = reports("extract", run("extract", source, "-o", tmp_path / "a.ply", "--json"))
    assert surface["closed"]
    assert surface["triangles"] > 5000
    vertices = sdfcli.isosurface(sdfcli.load(source)).vertices
    assert np.abs(field.sample(vertices)).max() < make_lattice(field, 60).spacing / 4
    inner, near = run("query", source, "0,0,0", "0,0,1.02").split()
    assert float(inner) == -np.float32(3 * make_lattice(field, 60).spacing)
    assert abs(float(near) - field.sample([0, 0, 1.02])) < make_lattice(field, 60).spacing / 4
    run("slice", source, "-o", tmp_path / "a.png", "--size", 64)
    run("render", source, "-o", tmp_path / "b.png", "--size", "64x48", "--device", "cpu")
    run("info", source)
    run("export", source, "-o", tmp_path / "b.h5")
    assert sdfcli.load(tmp_path / "b.h5").content_sha256 == sdfcli.load(source).content_sha256
