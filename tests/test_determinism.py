"""The same bits from any number of threads, from build to build, and from the CPU and the GPU."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli import MeshDistance
from sdfcli.backend import Backend
from sdfcli.mesh.load import make_mesh
from sdfcli.params import QUERIES
from sdfcli.sign.choice import make_signer
from sdfcli.spatial.moments import WindingIndex
from trees import make_bvh, nearest

if TYPE_CHECKING:
    from sdfcli.backend.cuda import CudaBackend

KINDS = ["one", "cube", "octahedron", "star", "shells", "holed torus", "sheet", "zoo", "far", "tiny", "huge"]


def shape_of(kind: str) -> shapes.Shape:
    return shapes.ANY[kind](np.random.default_rng(1))


def built(kind: str, octree: str, **options: Any) -> sdfcli.Field:
    return sdfcli.build(shape_of(kind), octree=octree, depth=5, tolerance=0.01, **options)


def check_equal(one: sdfcli.Field, other: sdfcli.Field) -> None:
    assert one.content_sha256 == other.content_sha256
    assert one.info == other.info
    for name in ("leaf_key", "leaf_level", "corner_key", "distance"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("kind", KINDS)
def test_threads(kind: str, octree: str) -> None:
    one = built(kind, octree, device="cpu", threads=1)
    for threads in (2, 7):
        check_equal(one, built(kind, octree, device="cpu", threads=threads))


@pytest.mark.parametrize("sign", ["none", "pseudonormal", "winding"])
def test_threads_and_signs(sign: str) -> None:
    check_equal(*(built("torus", "adaptive", device="cpu", threads=threads, sign=sign) for threads in (1, 3)))


def test_order_of_the_faces() -> None:
    # Not the field of the same surface with other face numbers, but that of its triangles: nearest ones may differ only
    # where several are equally near.
    rng = np.random.default_rng(2)
    shape = shapes.star(rng, 2)
    other = shape[0], shape[1][rng.permutation(len(shape[1]))]
    fields = [sdfcli.build(s, device="cpu", depth=5, tolerance=0.01, sign="none") for s in (shape, other)]
    assert fields[0].content_sha256 == fields[1].content_sha256


def test_files_and_arrays_give_equal_fields(tmp_path: Any) -> None:
    import trimesh

    shape = shapes.moved(shapes.cube(), 2.0, 1.0)
    path = tmp_path / "cube.ply"
    trimesh.Trimesh(*shape, process=False).export(path)
    options: dict[str, Any] = {"device": "cpu", "depth": 4, "tolerance": 0.01}
    check_equal(sdfcli.build(path, **options), sdfcli.build(shape, **options))


def test_the_caller_may_reuse_its_arrays() -> None:
    vertices, faces = shapes.cube()
    before = vertices.copy(), faces.copy()
    field = sdfcli.build((vertices, faces), device="cpu", depth=4, tolerance=0.01)
    assert np.array_equal(vertices, before[0])
    assert np.array_equal(faces, before[1])
    again = sdfcli.build(before, device="cpu", depth=4, tolerance=0.01)
    check_equal(field, again)


# ---- The GPU ----


def on_both(cpu: Backend, gpu: Backend, kind: str) -> list[dict[str, Any]]:
    """What each stage makes of a mesh and some points, on either device, as bytes."""
    mesh = make_mesh(*shape_of(kind))
    rng = np.random.default_rng(3)
    points = np.concatenate((rng.random((3000, 3)), rng.normal(0.5, 30, (300, 3)))).astype(np.float32)
    corners = mesh.unit_triangles.reshape(-1, 3)
    points = np.concatenate((points, corners[rng.integers(0, len(corners), 300)].astype(np.float32)))
    answers = []
    for backend in (cpu, gpu):
        at = backend.from_host(points)
        bvh = make_bvh(backend, mesh.unit_triangles)
        order = bvh.order
        distance, slot = nearest(backend, bvh, at)
        for query in QUERIES:
            same = nearest(backend, bvh, at, query=query)
            assert (distance.tobytes(), slot.tobytes()) == (same[0].tobytes(), same[1].tobytes())
        moments = WindingIndex.of(backend, bvh)
        winding, pseudonormal = (make_signer(backend, mesh, bvh, method) for method in ("winding", "pseudonormal"))
        found = {
            "keys": order.keys,
            "triangle_id": order.triangle_id,
            "triangle": order.triangle,
            "child": bvh.child,
            "node_parent": bvh.node_parent,
            "leaf_parent": bvh.leaf_parent,
            "box": bvh.box,
            "distance": distance,
            "slot": slot,
            "moments": moments.moments,
            "winding": moments.winding(at, 1.5),
            "exact winding": moments.winding(at, 0.0),
            "inside by winding": winding.inside(at, slot),
            "inside by pseudonormal": pseudonormal.inside(at, slot),
            "distance to the caps": winding.caps.distance(at) if winding.caps else at,
        }
        answers.append({name: backend.to_host(array).tobytes() for name, array in found.items()})
    return answers


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [*KINDS, "two", "soup", "holed star", "overlapping"])
def test_stages_on_the_gpu(cpu: Backend, gpu: Backend, kind: str) -> None:
    here, there = on_both(cpu, gpu, kind)
    assert [name for name in here if here[name] != there[name]] == []


@pytest.mark.gpu
@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("sign", ["auto", "pseudonormal", "winding", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_builds_on_the_gpu(gpu: Backend, kind: str, sign: str, octree: str) -> None:
    here, there = (built(kind, octree, device=device, sign=sign) for device in ("cpu", gpu.name))
    assert here.content_sha256 == there.content_sha256
    for name in ("sign", "sign_reason", "mesh", "depth", "jump_leaves", "parameters"):
        assert here.info[name] == there.info[name]


@pytest.mark.gpu
@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
def test_builds_on_the_gpu_are_repeatable(gpu: Backend, octree: str) -> None:
    one, two = (built("holed torus", octree, device=gpu.name) for _ in range(2))
    check_equal(one, two)


@pytest.mark.gpu
def test_samples_on_the_gpu(cpu: Backend, gpu: Backend) -> None:
    field = built("star", "adaptive", device="cpu")
    index = [MeshDistance(shape_of("star"), device=name) for name in ("cpu", gpu.name)]
    points = np.random.default_rng(4).uniform(-2, 2, (5000, 3))
    there = gpu.from_host(points)
    for question in (field.sample, field.gradient, field.leaf_at):
        assert gpu.to_host(question(there)).tobytes() == question(points).tobytes()
    assert index[0].signed_distance(points).tobytes() == index[1].signed_distance(points).tobytes()
    assert index[0].closest(points)[0].tobytes() == index[1].closest(points)[0].tobytes()


POINTS = """
import os, threading
import numpy as np
import sdfcli
from sdfcli.backend.cpu import CpuBackend
corners = np.eye(3), [[0, 1, 2]]
field = sdfcli.build(corners, depth=4, device="cpu", threads=3)
points = np.random.default_rng(0).random((100_000, 3))
with field._at(CpuBackend(3)):
    expected = field.sample(points).tobytes()
"""
"""The start of programs whose threads and children are better not those of the tests."""


def test_many_threads_that_ask_at_once() -> None:
    program = """
wrong = []
def ask():
    for _ in range(20):
        if field.sample(points).tobytes() != expected:
            wrong.append(1)
with field._at(CpuBackend(3)):
    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert not wrong
"""
    subprocess.run([sys.executable, "-c", POINTS + program], check=True, timeout=100)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted there")
def test_threads_of_a_forked_process() -> None:
    program = """
child = os.fork()
if not child:
    before = len(os.listdir("/proc/self/task"))
    with field._at(CpuBackend(3)):
        same = field.sample(points).tobytes() == expected
    same = same and sdfcli.build(corners, depth=4, device="cpu").content_sha256 == field.content_sha256
    os._exit(0 if same and before == 1 < len(os.listdir("/proc/self/task")) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", POINTS + program], check=True, timeout=100)


@pytest.mark.gpu
def test_builds_in_threads_of_one_process(gpu: CudaBackend) -> None:
    """Streams of a GPU are those of all threads; so is memory, which one of them frees and another one uses."""
    jobs = [(kind, octree) for kind in KINDS for octree in ("adaptive", "bvh")]
    expected = [built(kind, octree, device="cpu").content_sha256 for kind, octree in jobs]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(3):
            fields = threads.map(lambda job: built(*job, device=gpu.name), jobs)
            assert [field.content_sha256 for field in fields] == expected
