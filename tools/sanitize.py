"""Runs every CPU kernel, with four threads, under GCC's sanitizers: `python tools/sanitize.py [address thread ...]`.

Needs an installed sdfcli, whose kernels are rebuilt from this source tree with CMake and GCC. A sanitizer prints its
finding's location, and the exit status is 1.

Python and NumPy are not instrumented. Accesses beyond a NumPy array are still found, as `malloc` is the sanitizer's;
data races are found between the kernels' threads, the only place they can occur. So no suppressions are needed; only
leak detection is off, because the interpreter never frees everything.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SANITIZERS = {"address": ("address,undefined", ["libasan.so", "libubsan.so"]), "thread": ("thread", ["libtsan.so"])}
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=66",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=66",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "OPENBLAS_NUM_THREADS": "1",
}
THREADS = 4


def main() -> None:
    """Builds and runs each sanitizer; `--work` is the run under a sanitizer."""
    if sys.argv[1:] == ["--work"]:
        work()
        return
    names = sys.argv[1:] or list(SANITIZERS)
    with ThreadPoolExecutor() as pool:
        failed = [name for name, passed in zip(names, pool.map(passes, names), strict=True) if not passed]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def passes(name: str) -> bool:
    """Whether the kernels, built with a sanitizer, run without a finding."""
    flags, libraries = SANITIZERS[name]
    with tempfile.TemporaryDirectory() as folder:
        setup = ["cmake", "-S", ROOT / "sdfcli" / "kernels", "-B", folder, f"-DSDFCLI_SANITIZE={flags}"]
        subprocess.run([*setup, "-DCMAKE_CXX_COMPILER=g++"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder, "--parallel"], check=True, stdout=subprocess.DEVNULL)
        environment = {
            **os.environ,
            **OPTIONS,
            "SDFCLI_KERNEL_LIBRARY": str(Path(folder, "libsdfcli_kernels.so")),
            "LD_PRELOAD": " ".join(runtime(library) for library in libraries),
        }
        run = [*fixed_layout(), sys.executable, __file__, "--work"]
        passed = subprocess.run(run, env=environment, check=False).returncode == 0
    print(f"{flags}: {'nothing found' if passed else 'FAILED'}", flush=True)
    return passed


def fixed_layout() -> list[str]:
    """The command prefix that disables address space randomisation, where allowed.

    The thread sanitizer does not support every memory layout.
    """
    command = ["setarch", "-R"]
    allowed = (
        shutil.which("setarch") and subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0
    )
    return command if allowed else []


def runtime(library: str) -> str:
    """Path of a sanitizer's runtime library in GCC."""
    found = subprocess.run(["gcc", f"-print-file-name={library}"], check=True, capture_output=True, text=True)
    return str(Path(found.stdout.strip()).resolve())


def work() -> None:
    """Small builds with both octrees and every sign, queries, surfaces, grids. Fails if a kernel was not run."""
    import numpy as np
    import trimesh

    import sdfcli
    from sdfcli import pipeline
    from sdfcli.apps.bench.uniform import compare
    from sdfcli.backend.arguments import argument_structs
    from sdfcli.backend.cpu import CpuBackend
    from sdfcli.extract.proven import proven_distance
    from sdfcli.extract.scan import Counts, exclusive_scan, exclusive_scan_on_host
    from sdfcli.field import blocks, store
    from sdfcli.mesh.load import load_mesh
    from sdfcli.octree.quantise import restore
    from sdfcli.params import FORMS, OCTREES, SIGNS
    from sdfcli.quality import measure
    from sdfcli.quality.reference import ExactReference
    from sdfcli.sign.winding import WindingSigner
    from sdfcli.spatial.lattice import WindingLattice
    from sdfcli.spatial.shifted_sort import ShiftedSort

    used: set[str] = set()
    run, steps = CpuBackend.run, kernels_of_steps()

    def recorded(self: CpuBackend, kernel: str, n: int, **values: Any) -> None:
        used.update({kernel}, steps.get(kernel, ()))
        run(self, kernel, n, **values)

    CpuBackend.run = recorded  # type: ignore[method-assign]
    pipeline.draw_samples = partial(measure.draw_samples, points=3000)
    one = (np.eye(3), np.array([[0, 1, 2]]))
    assert (
        load_mesh((np.eye(4)[:, :3], np.array([[0, 1, 2], [1, 2, 3]])))
        .connectivity.orientations(np.empty((0, 2), np.int64))
        .any()
    )
    twice = load_mesh((np.eye(3), np.array([[0, 1, 2], [0, 1, 2]]))).connectivity
    assert twice.without(np.array([1])).open == 3
    with tempfile.TemporaryDirectory() as folder:
        mixed = Path(folder, "mixed.ply")
        columns = "".join(f"property float {axis}\n" for axis in "xyz")
        lists = "property list uchar int vertex_indices\n"
        head = f"ply\nformat binary_little_endian 1.0\nelement vertex 4\n{columns}element face 2\n{lists}end_header\n"
        corners = np.eye(4, 3, dtype=np.float32).tobytes()
        mixed.write_bytes(head.encode() + corners + struct.pack("<B4iB3i", 4, 0, 1, 2, 3, 3, 0, 2, 1))
        assert len(load_mesh(mixed).faces) == 3
    scan = load_mesh(ROOT / "sample_meshes" / "scan.ply")
    for source in (ROOT / "sample_meshes" / "torus.obj", (scan.vertices, scan.faces[:4000]), one):
        mesh = load_mesh(source)
        low, high = mesh.bounds
        points = np.random.default_rng(1).uniform(2 * low - high, 2 * high - low, (1500, 3))
        poses = np.tile(np.eye(4), (40, 1, 1))
        poses[1:, :3, 3] = np.linspace(low - high, 9 * (high - low), 39)  # next to the field, and far away
        for sign in SIGNS:
            for octree in OCTREES:
                small = {"octree": octree, "sign": sign, "depth": 6, "tolerance": 5e-3}
                field = sdfcli.build(mesh, device="cpu", threads=THREADS, **small)
                field.sample(points)
                level = float(np.median(field.distance))
                sdfcli.isosurface(field, cells=50, iso=level, device="cpu", threads=THREADS)
                proven = {**field.info, "certificate": {"closed": True}}
                bounded = replace(field, info=proven, leaf_bound=np.full(field.leaves, 100, np.uint8))
                surface = sdfcli.isosurface(field, cells=20, iso=level, device="cpu", threads=THREADS)
                proven_distance(surface, bounded, 0.0, CpuBackend(THREADS))
                sdfcli.contacts(bounded, mesh, poses[:2], device="cpu", threads=THREADS)
                found = sdfcli.contacts(field, mesh, poses, margin=level, device="cpu", threads=THREADS).manifold
                for beside in {}, {"mesh": mesh, "contacts": found}:
                    look = {"iso": level, "device": "cpu", "threads": THREADS, **beside}
                    sdfcli.render(field, width=32, height=24, **look)
                with tempfile.TemporaryDirectory() as folder:
                    loaded = sdfcli.load(field.save(Path(folder, "field.h5")))
                    loaded.gradient(points)
                    assert np.array_equal(loaded.distance, field.distance)
                    replace(field).save(Path(folder, "copy.h5"))  # encoded from its arrays
                    kept = blocks.SUBTREE_LEAVES, store.AT_ONCE
                    blocks.SUBTREE_LEAVES, store.AT_ONCE = 1, 0  # as on a GPU
                    late = sdfcli.load(replace(field).save(Path(folder, "again.h5")))._stored
                    assert late is not None
                    late._decoded_on(CpuBackend(THREADS))
                    blocks.SUBTREE_LEAVES, store.AT_ONCE = kept
                restore(CpuBackend(THREADS), loaded.corner_key, np.zeros(field.corners, np.int32), 0.1)
            index = sdfcli.MeshDistance(mesh, sign=sign, device="cpu", threads=THREADS)
            all_queries(index)
            index.signed_distance(points)
            if isinstance(index._scene.signer, WindingSigner):
                WindingLattice.of(index._scene.signer.index, None, None)
            index.closest(points)
            index.nearest(points)
            index.cast(points, points[::-1])
            index.count_hits(points, points[::-1])
            index.triangles_within(points, 0.1 * index.mesh.diagonal)
            for k in (8, 32):
                for form in (None, *FORMS):
                    index.nearest_triangles(points, k, form)
                index._triangles.exact(index._in_order(points).at, k)
        small = {"device": "cpu", "threads": THREADS, "depth": 4, "octree": "bvh"}
        for query in "fast", "cct":  # the second uses the previous frame's triangles
            sdfcli.build(mesh, previous=sdfcli.build(mesh, nearest=True, **small), query=query, **small)
        exact = ExactReference(mesh.vertices, mesh.faces, CpuBackend(THREADS))
        exact.signed_distance(points)
        coarse = sdfcli.build(mesh, device="cpu", threads=THREADS, depth=4, tolerance=2e-2)
        sdfcli.verify(coarse, mesh, samples=300, prove=True, device="cpu", threads=THREADS)
        walls = sdfcli.thickness(mesh, at="vertices", samples=300, device="cpu", threads=THREADS)
        walls.picture(width=32, height=24, device="cpu", threads=THREADS)
        sdfcli.solidify(mesh, gap=0.05, device="cpu", threads=THREADS)  # a radius above the default: labels spread
        turned = (np.asarray(mesh.vertices)[:, [1, 2, 0]], mesh.faces)
        sdfcli.compare(mesh, turned, samples=300, device="cpu", threads=THREADS)
        box = trimesh.creation.box()  # whose parts are split
        sdfcli.compare(box, (box.vertices[:, [1, 2, 0]], box.faces), samples=300, device="cpu", threads=THREADS)
        sdfcli.comparison_image(mesh, turned, size=64, device="cpu", threads=THREADS)
        compare(mesh, 4, device="cpu", threads=THREADS, samples=300)
        sdfcli.isosurface(points.reshape(10, 15, 30), iso=points.mean(), device="cpu", threads=THREADS)
    corners = trimesh.creation.icosahedron()
    exact_corners = sdfcli.MeshDistance(corners, device="cpu", threads=THREADS)
    cut = sdfcli.build(corners, tolerance=1e-2, device="cpu", threads=THREADS)
    sdfcli.isosurface(cut, cells=24, sharp=exact_corners, device="cpu", threads=THREADS)
    thin_wall = trimesh.creation.box((1, 0.02, 0.002))  # needs finer leaves than the tolerance does
    picture_of_water(sdfcli.build(thin_wall, device="cpu", threads=THREADS, tolerance=2e-3))
    for dtype in (np.uint32, np.uint64):
        exclusive_scan_on_host(np.ones(5000, np.uint32), [CpuBackend(THREADS)], dtype=dtype, chunk=2000)
        parts = [Counts(CpuBackend(THREADS), 1000, dtype) for _ in range(2)]
        for part in parts:
            part.values[:] = 1
        assert exclusive_scan(parts, most=1) == 2000
    boxes = np.random.default_rng(4).random((2000, 6))
    for approximate in (True, False):
        for k in (8, 32):
            sdfcli.nearest_neighbours(boxes, boxes[::2], k, approximate, device="cpu", threads=THREADS)
    longer = np.random.default_rng(5).random((500, 13))
    sdfcli.neighbours_within(longer, longer, 0.8, device="cpu", threads=THREADS)
    vectors = boxes.astype(np.float32)
    ShiftedSort(CpuBackend(THREADS), vectors).candidates(vectors, 8, joint=True)
    flows(thin_wall)
    copies()
    steps_between_kernels(thin_wall)
    missing = {kernel for kernel in argument_structs() if CpuBackend(THREADS).offers(kernel)} - used
    if missing:
        sys.exit(f"kernels that were not run: {', '.join(sorted(missing))}")


def copies() -> None:
    """The host's share of copies from a GPU."""
    import numpy as np

    from sdfcli.backend import C
    from sdfcli.backend.cpu import CpuBackend

    cpu, size = CpuBackend(THREADS), 1_500_001
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    cpu.run("sdf_bytes_begun", -(-size // C.BYTES_APART), size=size, bytes=target)
    given = {"size": size, "source": source, "target": target}
    for kernel in ("sdf_bytes_copied", "sdf_bytes_handed"):
        target[:] = 0
        cpu.run(kernel, -(-size // C.BYTES_PIECE), **given)
        assert target.all()


def kernels_of_steps() -> dict[str, list[str]]:
    """The kernels that a STEPS kernel's header runs, by that kernel."""
    from sdfcli.backend.headers import headers

    found = {}
    for text in headers().values():
        for kernel in re.findall(r"^SDF_KERNEL\((\w+), STEPS", text, re.MULTILINE):
            found[kernel] = re.findall(r"SDF_EACH\w*\(steps, (\w+)", text)
    return found


def steps_between_kernels(mesh: Any) -> None:
    """Steps that are kernels on a GPU and NumPy on a CPU; winding numbers without some faces."""
    import numpy as np

    from sdfcli.backend.cpu import CpuBackend
    from sdfcli.mesh.load import load_mesh
    from sdfcli.spatial.moments import WindingIndex
    from sdfcli.spatial.morton import order_of

    cpu = CpuBackend(THREADS)
    number = cpu.spaced(5000, 7, np.arange(5000, dtype=np.uint32))
    assert np.array_equal(number, np.arange(0, 5000, 7))
    assert cpu.above(number.astype(np.float32), 3500.0).sum() == np.sum(number > 3500)
    order = order_of(load_mesh(mesh).on(cpu).on_device)
    assert WindingIndex.among(cpu, order, np.array([3, 1])).triangles == len(order) - 2


def flows(mesh: Any) -> None:
    """Water around a mesh and next to wall particles, in every layout, with an overfull bucket, and in slabs."""
    import numpy as np

    import sdfcli
    from sdfcli.apps.flow.fluid import Fluid
    from sdfcli.apps.flow.layout import LAYOUTS, Grid, ParticleStore
    from sdfcli.apps.flow.run import FlowOptions, prepare
    from sdfcli.apps.flow.slabs import Slabs
    from sdfcli.apps.flow.step import Stepper
    from sdfcli.apps.flow.surface import water_surface
    from sdfcli.backend import C
    from sdfcli.backend.cpu import CpuBackend

    field = sdfcli.build(mesh, device="cpu", threads=THREADS, tolerance=2e-3)
    low, high = field.domain.origin, field.domain.origin + field.domain.length
    fluid = Fluid(0.02, 22.0, 5e-4, (0.0, 0.0, -9.8))
    place = np.random.default_rng(5).random((1000, 3)).astype(np.float32)
    kind = np.where(place[:, 2] < 0.3, C.WALL, C.FLUID).astype(np.uint8)
    rest, number = np.zeros_like(place), np.arange(len(place), dtype=np.uint32)
    for layout in LAYOUTS:
        options = FlowOptions(frames=1, layout=layout, device="cpu", threads=THREADS)
        water = prepare(field, (*low, *high), field.domain.length / 12, options)
        water.per_frame = 3
        *_, last = water.states()
        water_surface(water, last)
        for reach in (0.9, fluid.reach):
            grid = Grid.over(np.zeros(3), np.ones(3), reach)
            stepper = Stepper(
                ParticleStore(CpuBackend(THREADS), layout, grid, place, rest, kind, number, room=1), fluid
            )
            for _ in range(2):
                stepper.step()
            stepper.measure()
    grid = Grid.over(np.zeros(3), np.ones(3), fluid.reach)
    Slabs([CpuBackend(THREADS)] * 3, grid, fluid, [None] * 3, place, rest, kind, number).advance(3)


def all_queries(index: Any) -> None:
    """Every distance query, and its counting version."""
    import numpy as np

    from sdfcli.apps.bench.points import make_octree
    from sdfcli.apps.bench.trees import build_tree
    from sdfcli.apps.bench.workload import VARIANTS
    from sdfcli.spatial.binary import BinaryIndex
    from sdfcli.spatial.select import make_index

    scene, at = index._scene, np.random.default_rng(2).random((1000, 3)).astype(np.float32)
    for query in VARIANTS:
        found = make_index(scene.backend, scene.order, query, build_tree(scene.backend, scene.order, "ploc"))
        found.nearest(at)
        found.visits(at)
        found.nearest_in_any_order(at)
        if isinstance(found, BinaryIndex):
            found.traffic(at)
    make_octree(scene.backend, scene.order, "octree", 4)


def picture_of_water(field: Any) -> None:
    """Water around a field's surface, partly outside the picture."""
    from sdfcli.apps.flow.pictures import FlowPictures
    from sdfcli.apps.flow.run import FlowOptions, prepare

    low, high = field.domain.origin, field.domain.origin + field.domain.length
    options = FlowOptions(device="cpu", threads=THREADS)
    water = prepare(field, (*low, *high), field.domain.length / 12, options)
    first = water.first()
    for inside in (False, True):  # with another camera
        FlowPictures(water, first, field, inside, width=64, height=48).draw(first)


if __name__ == "__main__":
    main()
