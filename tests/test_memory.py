"""What a build holds: what is needed by turns is there by turns, and changes nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import trimesh

import backends
import sdfcli
import shapes
from sdfcli import pipeline
from sdfcli.backend import Backend
from sdfcli.quality.estimate import estimate
from sdfcli.quality.measure import ask, draw_samples

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

grids, warps = backends.grids, backends.warps

BALL = shapes.icosphere(2)
SHAPES = {
    "closed": BALL,
    "open": shapes.holed(np.random.default_rng(3), BALL, 0.1),
    "with a face that counts twice": (BALL[0], np.concatenate([BALL[1], BALL[1][:1]])),
    "three vertices a face": (BALL[0][BALL[1]].reshape(-1, 3), np.arange(3 * len(BALL[1])).reshape(-1, 3)),
}


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize(
    ("shape", "sign"), [*((shape, "auto") for shape in SHAPES), ("closed", "winding"), ("open", "pseudonormal")]
)
def test_builds_with_warps(warps: Backend, shape: str, sign: str, octree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "draw_samples", partial(draw_samples, points=300))
    parameters: dict[str, Any] = {"sign": sign, "octree": octree, "depth": 4, "tolerance": 1e-2}
    plain = sdfcli.build(SHAPES[shape], device="cpu", **parameters)
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: warps)
    found = sdfcli.build(SHAPES[shape], **parameters)
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_other_queries_with_warps(warps: Backend, octree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "draw_samples", partial(draw_samples, points=300))
    parameters: dict[str, Any] = {"octree": octree, "depth": 4, "tolerance": 1e-2}
    plain = sdfcli.build(BALL, device="cpu", nearest=True, **parameters)
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: warps)
    for more in ({"query": "soa"}, {"query": "baseline"}, {"previous": plain}):
        found = sdfcli.build(BALL, **parameters, **more)
        assert found.content_sha256 == plain.content_sha256
        assert found.info["max_error"] == plain.info["max_error"]


def test_samples_are_asked_about_again_where_a_thread_lacks_memory(
    grids: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "draw_samples", partial(draw_samples, points=300))
    parameters: dict[str, Any] = {"depth": 3, "tolerance": 2e-2}
    plain = sdfcli.build(BALL, device="cpu", **parameters)
    main, asked = threading.get_ident(), []

    def asks(*given: Any) -> Any:
        asked.append(threading.get_ident() == main)
        if not asked[-1]:
            raise MemoryError("none is left")
        return ask(*given)

    monkeypatch.setattr(pipeline, "ask", asks)
    monkeypatch.setattr(pipeline, "select_backend", lambda *_: grids)
    found = sdfcli.build(BALL, **parameters)
    assert asked == [False, True]
    assert found.content_sha256 == plain.content_sha256
    assert found.info == plain.info


IDLE = 1 << 25
"""Free bytes that the pool may keep here: little, so that what is held tells what was used."""


def largest_use(gpu: CudaBackend, octree: str, shape: shapes.Shape, **parameters: Any) -> tuple[int, int, int]:
    """The most bytes that a build uses on the GPU, the most that its pool holds, and the corners of the field."""
    pool = gpu.xp.get_default_memory_pool()
    gpu.idle_bytes = IDLE
    pool.free_all_blocks()
    before, held = pool.used_bytes(), pool.total_bytes()
    use, hold = [0], [0]

    def counted(size: int) -> Any:
        memory = pool.malloc(size)
        use.append(pool.used_bytes() - before)
        hold.append(pool.total_bytes() - held)
        return memory

    with gpu.xp.cuda.using_allocator(counted):
        field = sdfcli.build(shape, device=gpu.name, octree=octree, **parameters)
    return max(use), max(hold), len(field.corner_key)


@pytest.mark.gpu
@pytest.mark.usefixtures("large_mesh")
@pytest.mark.parametrize(("around", "depth"), [(800, 6), (500, 8), (200, 10)])
def test_largest_use_of_the_octree_of_the_thesis(gpu: CudaBackend, around: int, depth: int) -> None:
    shape = shapes.torus(around, around // 2)
    used, held, corners = largest_use(gpu, "bvh", shape, depth=depth, sign="winding")
    # With few corners, most is used while the tree of the queries is made.
    allowed = max(200 * len(shape[1]) + 48 * corners, 217 * len(shape[1])) + 1_000_000
    assert used < allowed
    assert held < 1.25 * allowed + IDLE
    assert used < estimate(shape, device=gpu.name, octree="bvh", depth=depth, sign="winding").memory_bytes


@pytest.mark.gpu
@pytest.mark.usefixtures("large_mesh")
def test_largest_use_of_the_adaptive_octree(gpu: CudaBackend) -> None:
    shape = shapes.torus(400, 200)
    used, held, corners = largest_use(gpu, "adaptive", shape, tolerance=3e-4, sign="winding")
    # Spare capacity twice: cells on twelve levels, and their points. Of few points the gradients are kept, 12 bytes
    # each, in a column that doubles.
    made_at_a_time, spare = 12_000_000, 2 * 1024 * (12 * (8 * 8 + 3 * 160) + 3 * 19 * 24)
    assert used < 265 * len(shape[1]) + (80 + 24) * corners + made_at_a_time + spare
    assert held < 1.4 * used


PEAK = """
import sys, sdfcli
sdfcli.build(sys.argv[1], device="cpu", octree="bvh", depth=4, sign=sys.argv[2])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(1024 * int(peak.split()[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("sign", ["pseudonormal", "winding"])
@pytest.mark.parametrize("ending", [".ply", ".stl"])
def test_largest_use_of_the_host(tmp_path: Path, ending: str, sign: str) -> None:
    shape, mesh = shapes.torus(900, 450), tmp_path / f"torus{ending}"
    trimesh.Trimesh(*shape, process=False).export(mesh)
    build = [sys.executable, "-c", PEAK, str(mesh), sign]
    peak = int(subprocess.run(build, capture_output=True, check=True).stdout)
    assert peak < 220 * len(shape[1]) + 85_000_000


@pytest.mark.gpu
def test_memory_that_is_not_used_goes_back_to_the_driver(gpu: CudaBackend) -> None:
    pool, gpu.idle_bytes = gpu.xp.get_default_memory_pool(), IDLE
    gpu.release_cached()
    held = pool.total_bytes()
    block = gpu.xp.empty(50_000_000, np.uint8)
    del block
    assert pool.total_bytes() >= held + 50_000_000
    gpu.release_cached()
    assert pool.total_bytes() <= held
