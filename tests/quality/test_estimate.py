"""What a build is expected to take, and that it stays within the memory that it may use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import sdfcli
import shapes
from commands import run
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import OutOfMemoryError, UsageError
from sdfcli.octree import growth, levels
from sdfcli.quality.estimate import estimate, memory_limit, parse_size
from sdfcli.runtime import memory
from sdfcli.runtime.memory import free_memory

SAMPLES = Path(__file__).parents[2] / "sample_meshes"
BALL = shapes.icosphere(3)


@pytest.fixture
def ball(tmp_path: Path) -> Path:
    path = tmp_path / "ball.ply"
    trimesh.Trimesh(*BALL, process=False).export(path)
    return path


@pytest.mark.parametrize("octree_kind", ["adaptive", "bvh"])
@pytest.mark.parametrize(
    "shape", [BALL, shapes.torus(60, 30), shapes.cube(), shapes.sheet(np.random.default_rng(1), 20)]
)
def test_estimates_are_of_the_right_size(shape: shapes.Shape, octree_kind: str) -> None:
    parameters: dict[str, Any] = {"tolerance": 2e-3, "device": "cpu", "octree": octree_kind}
    found = estimate(shape, **parameters)
    field = sdfcli.build(shape, **parameters)
    assert 0.5 < found.leaves / len(field.leaf_key) < 2
    assert 0 < found.seconds < 600
    assert found.fits


def test_a_finer_field_is_expected_to_be_larger() -> None:
    coarse, fine = (estimate(BALL, tolerance=tolerance, device="cpu") for tolerance in (2e-3, 1e-4))
    assert fine.leaves > 4 * coarse.leaves
    assert fine.memory_bytes > coarse.memory_bytes
    assert fine.file_bytes > 4 * coarse.file_bytes


def test_growing_ends_at_the_limit() -> None:
    used = CpuBackend().memory_used()
    with pytest.raises(OutOfMemoryError, match=r"--tolerance.*--depth.*--max-memory"):
        sdfcli.build(shapes.torus(60, 30), device="cpu", tolerance=1e-4, max_memory=used + 50_000_000)


def build_within(tmp_path: Path, tolerance: float, limit: int) -> tuple[bool, int]:
    """Whether a torus is built in a process of its own with so many bytes at most, without room for scratch files, and
    what that took at its peak."""
    code = (
        "import sys, numpy as np, sdfcli\n"
        "from sdfcli.errors import OutOfMemoryError\n"
        "shape, tolerance, limit = np.load(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])\n"
        "try:\n"
        "    sdfcli.build((shape['v'], shape['f']), device='cpu', tolerance=tolerance, max_memory=limit)\n"
        "    built = 1\n"
        "except OutOfMemoryError:\n"
        "    built = 0\n"
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "print(built, 1024 * int(peak.split()[1]))\n"
    )
    vertices, faces = shapes.torus(200, 100)
    np.savez(tmp_path / "torus.npz", v=vertices, f=faces)
    run = [sys.executable, "-c", code, str(tmp_path / "torus.npz"), str(tolerance), str(limit)]
    in_memory = {**os.environ, "TMPDIR": "/dev/shm"}
    built, peak = subprocess.run(run, capture_output=True, text=True, check=True, env=in_memory).stdout.split()
    return built == "1", int(peak)


def test_the_process_stays_below_the_limit(tmp_path: Path) -> None:
    limit = 500_000_000
    built, peak = build_within(tmp_path, 5e-5, limit)
    assert not built
    assert 0.2 * limit < peak < 1.05 * limit  # a level is refused before its memory is taken


@pytest.mark.nightly
def test_a_build_that_just_fits_stays_below_the_limit(tmp_path: Path) -> None:
    first = 350_000_000
    for limit in range(first, 1_000_000_000, 40_000_000):
        built, peak = build_within(tmp_path, 1e-4, limit)
        if built:
            assert limit > first, "begin with less"
            assert peak < 1.05 * limit
            return
    pytest.fail("every limit was refused")


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    for shape in (BALL, shapes.holed(rng, shapes.star(rng, 2), 0.1)):
        found = []
        for piece, most in ((1 << 18, 0), (100, 0), (7, 0), (3, 50)):
            for module in (levels, growth):
                monkeypatch.setattr(module, "PIECE", piece)
            monkeypatch.setattr(growth, "most_piece", lambda *_, most=most: most)
            found.append(sdfcli.build(shape, device="cpu", depth=6, tolerance=5e-3).content_sha256)
        assert len(set(found)) == 1


def test_exit_codes(ball: Path) -> None:
    done = run("build", ball, "--dry-run", "--json", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["fits"]
    assert {"leaves", "seconds", "memory_bytes", "file_bytes", "limit_bytes", "free_bytes", "scratch_bytes"} <= set(
        report
    )
    assert list(ball.parent.iterdir()) == [ball]
    for words in (["--dry-run"], []):
        done = run("build", ball, "--device", "cpu", "--max-memory", "40M", "-o", ball.with_suffix(".h5"), *words)
        assert done.returncode == 5
        assert len(done.stderr.splitlines()) == 1
        assert "--max-memory" in done.stderr
        assert list(ball.parent.iterdir()) == [ball]
    assert run("build", ball, "--max-memory", "much").returncode == 2


def test_estimates_and_builds_agree_on_the_limit(tmp_path: Path) -> None:
    """Near the limit, where too little memory is free for arrays to be in files; and they name one that is enough."""
    words = ["build", SAMPLES / "bracket.stl", "--device", "cpu", "-o", tmp_path / "bracket.h5"]
    report = json.loads(run(*words, "--dry-run", "--json").stdout)
    limit = report["memory_bytes"] + 20_000_000
    assert limit < report["least_bytes"] < limit + 120_000_000
    for more in (["--dry-run"], []):
        done = run(*words, *more, "--max-memory", limit)
        assert done.returncode == 5, (more, done.stdout)
        assert "scratch" not in done.stderr
        (enough,) = re.findall(r"--max-memory (\d+M) or more", done.stderr)
    for more in (["--dry-run"], []):
        done = run(*words, *more, "--max-memory", enough)
        assert done.returncode == 0, done.stderr


def test_totals_of_many(tmp_path: Path) -> None:
    for rounds in (2, 3):
        trimesh.Trimesh(*shapes.icosphere(rounds), process=False).export(tmp_path / f"{rounds}.ply")
    words = ["build", tmp_path, tmp_path / "missing.ply", "--dry-run", "--tolerance", "1e-2", "--device", "cpu"]
    done = run(*words)
    assert done.returncode == 3
    title, *rows = done.stdout.rpartition("\n\n")[2].splitlines()
    assert title == "3 meshes, 1 of them without an estimate"
    assert [row.split()[0] for row in rows] == ["triangles", "leaves", "time", "memory", "files"]
    one, other, _ = map(json.loads, run(*words, "--json").stdout.splitlines())
    assert rows[0].split()[1] == f"{one['triangles'] + other['triangles']:,}" == f"{20 * 4**2 + 20 * 4**3:,}"
    assert rows[1].split()[2] == f"{one['leaves'] + other['leaves']:,}"
    assert run(*words, "-q").stdout == ""
    assert run("build", tmp_path / "missing.ply", tmp_path / "none.ply", "--dry-run").returncode == 3


def test_sizes() -> None:
    assert [parse_size(text) for text in ("800M", "4G", "2.5GiB", "1k", "70000", "3 GB")] == [
        800_000_000,
        4_000_000_000,
        2_684_354_560,
        1000,
        70_000,
        3_000_000_000,
    ]
    for text in ("", "G", "-1G", "0", "1X", "nan", "inf", "1e30", "4 G B"):
        with pytest.raises(UsageError, match="--max-memory"):
            parse_size(text)


def test_free_memory() -> None:
    free = free_memory()
    assert 0 < free < 2**50
    backend = CpuBackend()
    assert memory_limit(backend, 12345) == 12345
    assert 0 < memory_limit(backend, None) < backend.memory_used() + 2 * free


def test_memory_used_grows() -> None:
    code = (
        "import numpy as np; from sdfcli.backend.cpu import CpuBackend; backend = CpuBackend()\n"
        "before = backend.memory_used(); block = np.ones(50_000_000, np.uint8); print(backend.memory_used() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 45_000_000 < int(done.stdout) < 60_000_000


def test_a_control_group_bounds_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "/proc/meminfo": "MemAvailable: 8000 kB",
        "/proc/self/cgroup": "0::/job",
        "/sys/fs/cgroup/job/memory.max": "5000000",
        "/sys/fs/cgroup/job/memory.current": "2000000",
    }
    monkeypatch.setattr(memory, "_words", lambda path: [line.split() for line in answers.get(path, "").splitlines()])
    assert free_memory() == 3_000_000
    # What is kept of files can be had back, unless it is mapped; and the group above has a say.
    answers["/sys/fs/cgroup/job/memory.stat"] = "inactive_file 400000\nactive_file 700000\nfile_mapped 100000"
    assert free_memory() == 4_000_000
    answers |= {"/sys/fs/cgroup/memory.max": "4500000", "/sys/fs/cgroup/memory.current": "4000000"}
    assert free_memory() == 500_000
    answers["/sys/fs/cgroup/job/memory.max"] = answers["/sys/fs/cgroup/memory.max"] = "max"
    assert free_memory() == 8_192_000
    answers["/proc/self/cgroup"] = "4:memory:/old"
    answers["/sys/fs/cgroup/memory/old/memory.limit_in_bytes"] = "900"
    answers["/sys/fs/cgroup/memory/old/memory.usage_in_bytes"] = "1000"
    assert free_memory() == 0
