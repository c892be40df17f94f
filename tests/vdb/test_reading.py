"""Level sets read from files: our own, and those of OpenVDB, TinyVDB and Warp."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sdfcli
from sdfcli.errors import DeviceError, InputError, OutOfMemoryError
from sdfcli.vdb import level_set as level_sets
from sdfcli.vdb import nanovdb, openvdb
from sdfcli.vdb.level_set import LEAF, LOWER, UPPER, LevelSet, tree_order

OPENVDB = Path(__file__).with_name("openvdb13.vdb")
"""By OpenVDB 13, compressed by Blosc: a fog volume `density`, then createLevelSetSphere(radius=1.5, center=(4, 5, 6),
voxelSize=0.5, halfWidth=3)."""
FORMATS = {"vdb": lambda path, each: openvdb.write(path, each, False), "nvdb": nanovdb.write}
READERS = {"vdb": openvdb.read, "nvdb": nanovdb.read}


def random_level_set(seed: int, blocks: int, tiles: int) -> LevelSet:
    """Blocks and tiles anywhere, in negative coordinates, too, with any values; inactive ones are + or - background."""
    rng = np.random.default_rng(seed)
    background = np.float32(2.5)
    spread = int(rng.choice([3, 40, 2000]))
    block = np.unique(8 * rng.integers(-spread, spread, (blocks, 3)).astype(np.int32), axis=0)
    block = block[tree_order(block)]
    active = rng.random((len(block), 512)) < rng.choice([0.0, 0.3, 1.0], (len(block), 1))
    sign = np.where(rng.random((len(block), 512)) < rng.choice([0.0, 0.5, 1.0], (len(block), 1)), -1, 1)
    value = np.where(active, rng.uniform(-2.5, 2.5, active.shape), sign * background).astype(np.float32)
    corners, sizes = [], []
    for log2, above in ((LEAF, LOWER), (LOWER, UPPER)):  # in nodes that exist
        node = block[rng.integers(len(block), size=tiles)] >> above << above
        at = node + (rng.integers(0, 1 << above - log2, (tiles, 3)) << log2).astype(np.int32)
        taken = {tuple(each) for each in (block >> log2 << log2).tolist()}
        found = np.array(sorted({tuple(x) for x in at.tolist()} - taken), np.int32).reshape(-1, 3)
        corners.append(found)
        sizes.append(np.full(len(found), log2, np.uint8))
    roof = {(4096 * int(x), 0, 0) for x in rng.integers(-9, 9, tiles)}
    roof -= {tuple(each) for each in (block >> UPPER << UPPER).tolist()}
    corners.append(np.array(sorted(roof), np.int32).reshape(-1, 3))
    sizes.append(np.full(len(roof), UPPER, np.uint8))
    origin = rng.normal(size=3)
    return LevelSet(origin, 0.37, background, block, value, active, np.concatenate(corners), np.concatenate(sizes))


def equal(found: LevelSet, given: LevelSet, half: bool = False) -> None:
    assert found.background == given.background
    assert (found.origin == given.origin).all()
    assert found.spacing == given.spacing
    assert (found.block == given.block).all()
    assert (found.active == given.active).all()
    assert (found.value == (given.value.astype(np.float16).astype(np.float32) if half else given.value)).all()
    tiles = [sorted(np.column_stack((each.tile, each.tile_log2)).tolist()) for each in (found, given)]
    assert tiles[0] == tiles[1]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(0, 20))
def test_what_is_written_is_read(tmp_path: Path, seed: int, blocks: int, tiles: int) -> None:
    made = random_level_set(seed, blocks, tiles)
    if not made.active.any():
        return
    for ending, write in FORMATS.items():
        write(tmp_path / "a", made)
        equal(READERS[ending]((tmp_path / "a").read_bytes()), made)
    openvdb.write(tmp_path / "a", made, True)
    equal(openvdb.read((tmp_path / "a").read_bytes()), made, half=True)


@pytest.mark.parametrize("compression", ["NONE", "ZIP", "BLOSC"])
@pytest.mark.parametrize("half", [False, True])
def test_compressed_by_tinyvdb(compression: str, half: bool, tmp_path: Path) -> None:
    tinyvdb = pytest.importorskip("tinyvdb")
    if compression == "BLOSC":
        pytest.importorskip("numcodecs")
    given = random_level_set(3, 50, 5)
    openvdb.write(tmp_path / "a.vdb", given, half)
    with tinyvdb.open(str(tmp_path / "a.vdb")) as file:
        file.read_grids()
        data = bytes(file.to_bytes(compression=getattr(tinyvdb, f"COMPRESS_{compression}"), level=5))
    equal(openvdb.read(data), given, half)


def test_openvdb_13() -> None:
    """The level set behind another grid; distances of a ball, which are exact in the band."""
    pytest.importorskip("numcodecs")
    found = openvdb.read(OPENVDB.read_bytes())
    voxel = found.block[:, None] + np.indices((8, 8, 8)).reshape(3, -1).T
    distance = np.linalg.norm(found.origin + found.spacing * voxel - [4, 5, 6], axis=2) - 1.5
    assert (found.spacing, found.background) == (0.5, 1.5)
    assert (np.abs(distance[found.active]) < 1.5 + 1e-6).all()
    assert found.voxels == (np.abs(distance) < 1.5 - 1e-6).sum() > 500
    np.testing.assert_allclose(found.value, np.clip(distance, -1.5, 1.5), rtol=0, atol=1e-6)


def test_blosc_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numcodecs", None)
    with pytest.raises(DeviceError, match=r"openvdb13.vdb: .*sdfcli\[vdb\]"):
        sdfcli.load(OPENVDB)


def test_warp(tmp_path: Path) -> None:
    """Grids of Warp have no class."""
    wp = pytest.importorskip("warp")
    wp.config.kernel_cache_dir = str(tmp_path)
    rng = np.random.default_rng(2)
    dense = rng.uniform(-1, 1, (11, 9, 20)).astype(np.float32)
    grid = wp.Volume.load_from_numpy(dense, min_world=(1, 2, 3), voxel_size=0.5, bg_value=2.0, device="cpu")
    grid.save_to_nvdb(str(tmp_path / "a.nvdb"))
    found = nanovdb.read((tmp_path / "a.nvdb").read_bytes())
    assert (found.origin.tolist(), found.spacing, found.background) == ([1, 2, 3], 0.5, 2)
    values = {
        tuple(corner): value.reshape(8, 8, 8) for corner, value in zip(found.block.tolist(), found.value, strict=True)
    }
    for i, j, k in np.ndindex(dense.shape):
        assert values[i & ~7, j & ~7, k & ~7][i & 7, j & 7, k & 7] == dense[i, j, k]


def whole(folder: Path, ending: str) -> bytes:
    FORMATS[ending](folder / "whole", random_level_set(5, 20, 4))
    return (folder / "whole").read_bytes()


def edited(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) >= 1
    return data.replace(old, new)


SCALE = struct.pack("<3d", 0.37, 0.37, 0.37)


@pytest.mark.parametrize(
    ("ending", "old", "new", "says"),
    [
        (
            "vdb",
            b"level set",
            b"fog haze!",
            r"no level set of floats in it; it has surface \(Tree_float_5_4_3, fog haze!\)",
        ),
        ("vdb", b"level set", b"\x1b[2J\nfogs", r"fogs\)$"),
        ("vdb", b"Tree_float", b"Tree_vec3s", "no level set of floats"),
        ("vdb", b"UniformScaleTranslateMap", b"NonlinearFrustumMap_____", "NonlinearFrustumMap"),
        ("vdb", SCALE, struct.pack("<3d", 0.37, 0.37, 0.38), "cubes"),
        ("vdb", SCALE, struct.pack("<3d", -0.37, -0.37, -0.37), "cubes"),
        ("vdb", struct.pack("<I", 224), struct.pack("<I", 212), "file version 212"),
        ("vdb", struct.pack("<if", 1, 2.5), struct.pack("<if", 1, np.nan), "background"),
        ("nvdb", struct.pack("<d", 0.37), struct.pack("<d", np.inf), "cubes"),
        ("nvdb", b"NanoVDB2", b"NanoVDB7", "not a NanoVDB file"),
        ("nvdb", struct.pack("<ff", -2.5, 0), struct.pack("<ff", -2.4, 0), "tiles have other values"),
    ],
)
def test_refused(ending: str, old: bytes, new: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_bytes(edited(whole(tmp_path, ending), old, new))
    with pytest.raises(InputError, match=says) as raised:
        sdfcli.load(path)
    assert str(raised.value).startswith(str(path))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("ending", ["vdb", "nvdb"])
def test_cut_off(ending: str, tmp_path: Path) -> None:
    data = whole(tmp_path, ending)
    for length in np.linspace(8, len(data) - 1, 60).astype(int):
        with pytest.raises(InputError):
            READERS[ending](data[:length])


def test_nodes_linked_twice(tmp_path: Path) -> None:
    """Otherwise a small file would stand for 2^27 blocks."""
    given = random_level_set(5, 20, 0)
    nanovdb.write(tmp_path / "a.nvdb", given)
    data = bytearray((tmp_path / "a.nvdb").read_bytes())
    lower = len(data) - len(given.block) * 2144 - 33856
    child = np.frombuffer(data, np.uint8, 512, lower + 544)
    slots = np.flatnonzero(np.unpackbits(child, bitorder="little"))
    table = np.frombuffer(data, np.int64, 4096, lower + 1088).copy()
    other = table.copy()
    other[slots[-1] + 1 if slots[-1] < 4095 else 0] = table[slots[0]]
    data[lower + 544 : lower + 1056] = np.packbits(
        np.isin(np.arange(4096), [*slots, slots[-1] + 1]), bitorder="little"
    ).tobytes()
    data[lower + 1088 : lower + 1088 + 8 * 4096] = other.tobytes()
    with pytest.raises(InputError, match="linked once"):
        nanovdb.read(bytes(data))


@pytest.mark.parametrize("ending", ["vdb", "nvdb"])
def test_memory(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = whole(tmp_path, ending)
    monkeypatch.setattr(level_sets, "free_memory", lambda: 10_000)
    with pytest.raises(OutOfMemoryError):
        READERS[ending](data)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(value: float, tmp_path: Path) -> None:
    given = random_level_set(5, 20, 4)
    given.value[np.nonzero(given.active)[0][0], np.nonzero(given.active)[1][0]] = value
    for ending, write in FORMATS.items():
        write(tmp_path / "a", given)
        with pytest.raises(InputError, match="not finite"):
            READERS[ending]((tmp_path / "a").read_bytes())
