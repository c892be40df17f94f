"""NanoVDB files, as NVIDIA Warp's own sampling reads them."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import sdfcli
import shapes
from commands import run
from sdfcli.export.lattice import make_lattice
from sdfcli.export.nvdb import write_nvdb

wp = pytest.importorskip("warp")


@pytest.fixture(scope="module", autouse=True)
def _kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tests read with Warp, too, also where there is no home."""
    wp.config.kernel_cache_dir = str(tmp_path_factory.mktemp("kernels"))


@wp.kernel
def sampled(volume: wp.uint64, points: wp.array(dtype=wp.vec3), result: wp.array(dtype=float)) -> None:
    """The trilinear value at points in world space."""
    k = wp.tid()
    result[k] = wp.volume_sample_f(volume, wp.volume_world_to_index(volume, points[k]), wp.Volume.LINEAR)


def test_nvdb(tmp_path: Path) -> None:
    vertices, faces = shapes.star(np.random.default_rng(5), 2)
    field = sdfcli.build((vertices * [1.0, 0.6, 1.4] + [0.5, 1.0, 3.0], faces), tolerance=4e-3, device="cpu")
    lattice = make_lattice(field, 37, [-0.5, 0.5, 2.0, 1.5, 1.75, 4.5])
    write_nvdb(tmp_path / "grid.nvdb", field, lattice)
    with open(tmp_path / "grid.nvdb", "rb") as file:
        volume = wp.Volume.load_from_nvdb(file, device="cpu")
    index = np.indices(lattice.shape).reshape(3, -1).T
    points = lattice.origin + lattice.spacing * index
    result = wp.zeros(len(points), dtype=float, device="cpu")
    wp.launch(sampled, dim=len(points), inputs=[volume.id, wp.array(points, dtype=wp.vec3, device="cpu"), result])
    # World positions are single precision, as the file's transform is: a few roundings of positions up to 4.5.
    np.testing.assert_allclose(result.numpy(), field.sample(points), rtol=0, atol=4e-6)
    assert volume.get_grid_info().type_str == "float"
    assert np.allclose(volume.get_voxel_size(), lattice.spacing)


@pytest.mark.parametrize("home", ["there", "missing", "a file", "read-only"])
def test_no_folder_for_kernels(home: str, tmp_path: Path) -> None:
    """Warp compiles kernels into a folder of the user's, who may have none. Nothing is said but what went wrong."""
    place = tmp_path / home
    if home == "a file":
        place.touch()
    elif home != "missing":
        place.mkdir()
    if home == "read-only":
        place.chmod(stat.S_IRUSR | stat.S_IXUSR)  # which does not keep root from writing
    field = sdfcli.build(shapes.icosphere(1), depth=4, device="cpu").save(tmp_path / "ball.h5")
    environment = {
        name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "WARP_CACHE_PATH")
    }
    environment["HOME"] = str(place / "below" if home == "missing" else place)
    done = run("export", field, tmp_path / "ball.nvdb", "--resolution", 5, "--quiet", env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with open(tmp_path / "ball.nvdb", "rb") as file:
        assert wp.Volume.load_from_nvdb(file, device="cpu").get_grid_info().type_str == "float"


def test_files_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder for kernels is one for each file."""
    field = sdfcli.build(shapes.icosphere(1), depth=4, device="cpu")
    lattice = make_lattice(field, 5)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "missing"))
    for name in ("a", "b"):
        write_nvdb(tmp_path / name, field, lattice)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
