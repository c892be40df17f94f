"""`build`: from a triangle mesh to a field, stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache, partial
from typing import Any

from sdfcli.backend import Backend, select_backend
from sdfcli.backend.overflow import overflow
from sdfcli.backend.select import device_names
from sdfcli.backend.timing import Stages
from sdfcli.field.field import Field
from sdfcli.field.from_octree import field_of
from sdfcli.mesh.load import Loading
from sdfcli.mesh.mesh import OF_DEVICE, Mesh
from sdfcli.octree import OCTREES
from sdfcli.octree.grown import Grown, Limits, Progress
from sdfcli.params import BuildOptions, BuildParams, check_why
from sdfcli.quality.estimate import memory_limit
from sdfcli.quality.measure import Facts, Samples, ask, describe, draw_samples, measure
from sdfcli.query.helper import DeviceHelper
from sdfcli.query.warm_start import WarmStart
from sdfcli.runtime.memory import memory_errors
from sdfcli.runtime.schedule import Deferred, Schedule
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene
from sdfcli.spatial.query_pool import Helper, QueryPool

Helpers = Callable[[Mesh], list[Helper]]
"""Creates helpers that compute a mesh's queries elsewhere; see spatial/query_pool.py."""


@takes(BuildParams)
def build(
    source: Any,
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | None = None,
    progress: Progress | None = None,
    previous: Field | None = None,
    keep_nearest: bool = False,
    why: bool = False,
    hashed: bool = False,
    helpers: Helpers | None = None,
    **parameters: Any,
) -> Field:
    """Builds a signed distance field from a triangle mesh.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        device: `auto`, `cpu`, `cuda`, `cuda:N`, or `cuda:0,1`: the first device builds, the others compute a share of
            its queries. Does not affect the field.
        threads: number of CPU threads; default: all CPUs available to the process.
        max_memory: maximum memory on the device, in bytes; default: most of the free memory. Larger octrees overflow to
            scratch files (in the temporary folder), on a GPU to host memory. Does not affect the field.
        progress: called with a short description when a stage begins.
        previous: a moving mesh's field for an earlier frame, built with `keep_nearest`. If the triangle counts are
            equal, its nearest triangles are the queries' first candidates. Does not affect the field.
        keep_nearest: store each corner's nearest triangle, `Field.nearest`.
        why: store the cause of each leaf's parent's split, `Field.leaf_cause`; adaptive octrees only.
        hashed: compute the field's content hash, needed for its file, while the error is measured.
        helpers: creates helpers that compute a share of the queries elsewhere; see spatial/query_pool.py.
        parameters: the parameters of `BuildParams`, below.

    Raises:
        InputError: the mesh cannot be read or used.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the build does not fit into `max_memory` or into memory.
    """
    options = BuildOptions(device, threads, max_memory, keep_nearest, why, hashed)
    return build_field(source, BuildParams(**parameters), options, progress, previous, helpers)


@memory_errors()
@overflow()
def build_field(
    source: Any,
    params: BuildParams,
    options: BuildOptions,
    progress: Progress | None = None,
    previous: Field | None = None,
    helpers: Helpers | None = None,
) -> Field:
    """`build` with checked parameters."""
    if options.why:
        check_why(params.octree)
    report = progress or (lambda _: None)
    run, stages, octree = Schedule(), Stages(), OCTREES[params.octree]
    report("loading and checking the mesh")
    with stages("load"):
        loading = Loading(source, params, run)  # concurrent: a file is read while the device starts
    with stages("start"):
        backend, others = _devices(options)
    with backend.foreground():
        backend.prepare(octree.kernels)  # concurrent: kernels are loaded
        with stages("load"), backend.active():
            mesh = loading.mesh(backend)  # concurrent: its arrays are copied and hashed
            notes = mesh.notes
        with stages("check"):
            mesh = mesh.on(backend).merged()
            memory = memory_limit(backend, options.max_memory) if backend.memory.scarce else None
            trees = {"memory": memory, "trees_dominate": octree.trees_dominate}
            scene = Scene.of(mesh, params.sign, backend, params.query, **trees, stages=stages)
            health, mesh = mesh.health, scene.mesh
        facts = Facts(health, notes, loading.sha256, _samples(mesh, params.band))
        if not octree.host_idle:
            facts.samples.start(run.thread)  # concurrent, as the host is busy until it needs them
        report("sorting triangles")
        scene.sort()  # (a)
        with stages("tree"):
            sharing: list[Helper] = [DeviceHelper(each, mesh) for each in others]
            sharing += helpers(mesh) if helpers else []
            scene.query_pool = QueryPool(sharing) if sharing else None
        scene.warm_start = WarmStart.of(previous, scene) if previous else None
        field = make_field(scene, params, options, facts, run, report)
        loading.release_source()
        return field


def _devices(options: BuildOptions) -> tuple[Backend, list[Backend]]:
    """The device that builds, and the others, which compute a share of its queries."""
    first, *names = device_names(options.device) if "," in options.device else [options.device]
    others = [select_backend(name, options.threads) for name in names]
    return select_backend(first, options.threads), others


def _samples(mesh: Mesh, band: float) -> Deferred[Samples]:
    """The error sample points, drawn on a copy of the mesh without its device arrays."""
    surface = copy(mesh)
    surface.release(OF_DEVICE)

    def draw() -> Samples:
        samples = draw_samples(surface, band)
        surface.release()
        return samples

    return Deferred(draw)


def make_field(
    scene: Scene,
    params: BuildParams,
    options: BuildOptions,
    facts: Facts,
    run: Schedule,
    progress: Progress,
    on_grown: Callable[[Grown], None] = lambda _: None,
) -> Field:
    """Builds a scene's field. on_grown: called with the octree before its arrays become the field's."""
    stages, backend, mesh, octree = scene.stages, scene.backend, scene.mesh, OCTREES[params.octree]
    all_memory = options.max_memory is None
    exact = Deferred(partial(ask, scene, facts.samples, params))

    @cache
    def while_host_waits() -> None:
        """Concurrent: draws the error sample points, and queries them if the octree grows on the device alone."""
        facts.samples.start(run.thread)
        if scene.plan.ample and all_memory and scene.index.kernel_tree is not None:
            exact.start(partial(run.high_priority, backend))

    scene.settle()  # (a) (b)
    limit = memory_limit(backend, options.max_memory)
    limits = Limits.of(params, mesh.unit, mesh.domain.length, limit, options.why)
    with stages("octree", backend):
        grown = octree.build(scene, limits, progress, while_host_waits)  # (c) (d)
    scene.count_crossing()  # concurrent, if memory is ample
    on_grown(grown)
    leaves = len(grown.arrays["leaf_key"])
    field, arrived = field_of(grown, backend, mesh.domain, options.keep_nearest, all_memory)  # concurrent: downloads
    content = run.thread(lambda: field.content_sha256) if options.hashed else Deferred.known(None)  # concurrent
    progress("measuring the error")
    with stages("measure", backend), field.at(backend):
        scene.restore_index(leaves, arrived)
        measured = measure(field, scene, exact.get(), params, grown)
    content.get()
    known = describe(scene, params, facts.health, exact.get().confidence, grown, measured)
    statistics = {"device": backend.name, "previous": scene.warm_start is not None, "notes": facts.notes}
    statistics |= {"queries": grown.queries, "working_bytes": grown.working_bytes}
    info = Deferred(partial(_info, known, facts.sha256, field.deferred("leaf_level")))
    field.defer(info=info, run=Deferred(lambda: {**statistics, "seconds": stages.seconds()}))
    return field


@memory_errors()
def _info(known: dict[str, Any], sha256: Deferred[str], leaf_level: Deferred[Any]) -> dict[str, Any]:
    """A field's info, from `describe` and values that arrive after it."""
    mesh = {"sha256": sha256.get(), **known["mesh"]}
    return {**known, "mesh": mesh, "depth": int(leaf_level.get().max())}
