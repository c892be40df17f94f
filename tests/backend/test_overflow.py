"""Arrays that memory has no room for lie in scratch files, or in a host's memory, and change nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import sdfcli
import shapes
from sdfcli import pipeline
from sdfcli.backend import Backend, overflow
from sdfcli.backend.cpu import CpuBackend, scratch
from sdfcli.errors import OutOfMemoryError
from sdfcli.quality.measure import draw_samples
from sdfcli.runtime.memory import used_memory

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

warps = backends.warps

MB = 1 << 20
MEASURED = (
    "import resource, subprocess, sys\n"
    "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
)
"""Runs a command, and prints its peak memory. Not in the tests' process, whose own would count."""
WAVE = {"tolerance": 2.2e-3, "band": 4.4e-3}


def bored() -> shapes.Shape:
    """Flat faces that barely meet the tolerance of WAVE: many rounds for hanging corners."""
    ring = shapes.ring(8, 1.0)
    square = ring / np.abs(ring).max(axis=1, keepdims=True)
    return shapes.bored(square * [1, 0.5683], 0.398 * ring * [1, 0.5683], 0.81)


def mapped() -> int:
    """The number of scratch files of this process."""
    return Path("/proc/self/maps").read_text().count("(deleted)")


def test_arrays_lie_in_files_without_names(tmp_path: Path) -> None:
    before, files = mapped(), len(os.listdir("/proc/self/fd"))
    with CpuBackend().overflow(1 << 40, tmp_path):
        small, large = np.arange(10), np.arange(1_000_000)
        assert mapped() == before + 1
        assert not np.zeros(3 * MB, np.uint8).any()
        large.resize(2_000_000, refcheck=False)
        assert mapped() == before + 1
        assert np.array_equal(large[:1_000_000], np.arange(1_000_000))
        large.resize(5, refcheck=False)
        assert large.tolist() == small[:5].tolist()
        kept = np.ones(MB)
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) <= files + 1  # of the thread that drops pages
    memory = np.ones(MB)
    assert kept.sum() == memory.sum() == MB
    del kept, large
    assert mapped() == before


def test_pages_are_dropped() -> None:
    code = (
        "import numpy as np, sys\n"
        "from pathlib import Path\n"
        "from sdfcli.backend.cpu import CpuBackend\n"
        "with CpuBackend().overflow(300_000_000, Path(sys.argv[1])):\n"
        "    rows = [np.arange(10_000_000) + k for k in range(20)]\n"
        "assert all(row[-1] == 9_999_999 + k and row[0] == k for k, row in enumerate(rows))\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(1024 * int(peak.split()[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(Path.cwd())], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 300_000_000  # of 1.6 GB


def test_a_folder_must_be_of_a_disk(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", Path("/dev/shm")):
        with pytest.raises(OSError, match="no folder of a disk"), CpuBackend().overflow(MB, folder):
            pass


def test_a_full_disk_is_a_memory_error(tmp_path: Path) -> None:
    code = (
        "import numpy as np, sys\n"
        "from pathlib import Path\n"
        "from sdfcli.backend.cpu import CpuBackend\n"
        "with CpuBackend().overflow(1 << 30, Path(sys.argv[1])):\n"
        "    try:\n"
        "        np.ones(10_000_000)\n"
        "    except MemoryError:\n"
        "        print('short')\n"
        "    print(np.ones(200_000).sum())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10 * MB, 10 * MB)),
    )
    assert done.stdout.split() == ["short", "200000.0"], done.stderr


def same_fields(shape: shapes.Shape, folder: Path, threads: int = 2, **parameters: Any) -> None:
    """Checks that a build with every array in a file of its own makes the field, and the file, of another one."""
    plain = sdfcli.build(shape, device="cpu", nearest=True, **parameters)
    before = mapped()
    with CpuBackend().overflow(used_memory() + 300 * MB, folder):
        found = sdfcli.build(shape, device="cpu", threads=threads, nearest=True, **parameters)
        assert mapped() > before
        written = found.save(folder / "found.h5", force=True)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info
    with h5py.File(written) as one, h5py.File(plain.save(folder / "plain.h5", force=True)) as other:
        assert sorted(one) == sorted(other)
        for name in one:
            assert np.array_equal(one[name][()], other[name][()])
    assert written.read_bytes() == (folder / "plain.h5").read_bytes()


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "draw_samples", partial(draw_samples, points=300))


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("kind", sorted(shapes.ANY))
def test_builds_in_files(tmp_path: Path, kind: str, octree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "LEAST", 1 << 13)
    shape = shapes.ANY[kind](np.random.default_rng(5))
    threads = 1 + len(kind) % 2
    same_fields(shape, tmp_path, threads, octree=octree, depth=5, tolerance=1e-2)


@pytest.mark.usefixtures("few_points")
def test_waves_of_hanging_corners_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "LEAST", 1 << 16)
    same_fields(bored(), tmp_path, **WAVE)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60), threads=st.integers(1, 3))
def test_soups_in_files(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, threads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "LEAST", 1 << 12)
        patch.setattr(pipeline, "draw_samples", partial(draw_samples, points=300))
        shape = shapes.soup(np.random.default_rng(seed), count, 0.3)
        same_fields(shape, tmp_path_factory.mktemp("soup"), threads, depth=5, tolerance=1e-2)


@pytest.mark.usefixtures("few_points")
def test_builds_begin_to_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, parameters = shapes.torus(60, 30), {"tolerance": 5e-4}
    plain = sdfcli.build(shape, device="cpu", **parameters)
    folders = []

    class Watched(CpuBackend):
        def overflow(self, most: int, folder: Path) -> Any:
            folders.append(folder)
            return super().overflow(most, folder)

    backend = Watched()
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: backend)
    monkeypatch.setattr(overflow, "LEAST_ROOM", 5 * MB)
    monkeypatch.setattr(scratch, "LEAST", 1 << 14)
    with overflow.overflow(tmp_path):
        found = sdfcli.build(shape, max_memory=used_memory() + 30 * MB, **parameters)
    assert folders == [tmp_path]
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info
    assert sdfcli.build(shape, max_memory=1 << 40, **parameters).content_sha256 == plain.content_sha256
    assert folders == [tmp_path]


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_without_room_on_the_disk_a_build_ends_early(octree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(CpuBackend, "overflow_free", lambda *_: asked.append(1) or 40 * MB)
    parameters: dict[str, Any] = {"octree": octree, "depth": 12, "tolerance": 1e-4}
    rounds, room = (60, 200 * MB) if octree == "adaptive" else (2000, 500 * MB)
    shape, most = shapes.torus(rounds, 300), used_memory() + room
    with pytest.raises(OutOfMemoryError, match=r"0\.0419 GB of scratch files.*--depth.*--max-memory"):
        sdfcli.build(shape, device="cpu", max_memory=most, **parameters)
    assert len(asked) < 5


@pytest.mark.nightly
def test_a_command_holds_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "torus.ply"
    trimesh.Trimesh(*shapes.torus(200, 100), process=False).export(path)
    results = []
    for limit in ("8G", "280M"):
        output = tmp_path / f"{limit}.h5"
        words = ["build", path, "--tolerance", "7e-5", "--device", "cpu", "--max-memory", limit, "-o", output, "-q"]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, sys.executable, "-m", "sdfcli", *words], capture_output=True, check=True
        )
        results.append((1024 * int(done.stdout), output.read_bytes()))
    (plain, expected), (bounded, found) = results
    assert found == expected
    assert bounded < 280_000_000
    assert plain > 1.5 * bounded
    assert sorted(each.name for each in tmp_path.iterdir()) == ["280M.h5", "8G.h5", "torus.ply"]


@pytest.mark.usefixtures("few_points")
def test_builds_with_warps_overflow(warps: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, parameters = shapes.icosphere(2), {"depth": 4, "tolerance": 1e-2}
    plain = sdfcli.build(shape, device="cpu", **parameters)
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: warps)
    monkeypatch.setattr(scratch, "LEAST", 1 << 12)
    with warps.overflow(0, tmp_path):
        found = sdfcli.build(shape, **parameters)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info


@pytest.mark.gpu
@pytest.mark.usefixtures("large_mesh")
def test_what_a_gpu_has_no_room_for_lies_on_the_host(gpu: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    from sdfcli.backend.cuda import device

    shape, parameters = shapes.torus(400, 200), {"tolerance": 2e-4}
    pool, on_host = gpu.xp.get_default_memory_pool(), device.CudaDevice._on_host
    sizes, uses = [], [0]
    pool.free_all_blocks()
    before = pool.used_bytes()

    def used(size: int) -> Any:
        memory = pool.malloc(size)
        uses[0] = max(uses[0], pool.used_bytes() - before)
        return memory

    with gpu.xp.cuda.using_allocator(used):
        plain = sdfcli.build(shape, device=gpu.name, **parameters)
    most, excess, uses = 85 * uses[0] // 100, 15 * uses[0] // 100, []

    def counted(backend: CudaBackend, size: int) -> Any:
        sizes.append(size)
        uses.append(pool.used_bytes())
        return on_host(backend, size)

    monkeypatch.setattr(device.CudaDevice, "_on_host", counted)
    monkeypatch.setattr(overflow, "LEAST_ROOM", 4 * MB)
    monkeypatch.setattr(device, "LARGE", 1 << 20)
    pool.free_all_blocks()
    before = pool.used_bytes()
    found = sdfcli.build(shape, device=gpu.name, max_memory=before + most, **parameters)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info
    assert sum(sizes) >= excess
    assert max(uses) <= before + most
