"""`build`: from a triangle mesh to a field, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from sdfcli.backend import select_backend
from sdfcli.backend.overflow import overflow
from sdfcli.backend.select import device_names
from sdfcli.backend.timing import Stages
from sdfcli.errors import OutOfMemoryError
from sdfcli.field.field import Field
from sdfcli.field.from_octree import field_of
from sdfcli.mesh.load import Loading
from sdfcli.mesh.mesh import OF_DEVICE, Mesh
from sdfcli.octree import OCTREES
from sdfcli.octree.grown import Grown, Limits, Progress
from sdfcli.params import BuildParams, check_why
from sdfcli.query.helper import DeviceHelper
from sdfcli.query.warm_start import WarmStart
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene
from sdfcli.spatial.query_pool import Helper, QueryPool
from sdfcli.verify.estimate import memory_limit
from sdfcli.verify.measure import Answers, Facts, Samples, ask, describe, draw_samples, measure

Helpers = Callable[[Mesh], list[Helper]]
"""Creates helpers that compute a mesh's queries elsewhere; see spatial/query_pool.py."""

T = TypeVar("T")
Submit = Callable[[Callable[[], T]], Callable[[], T]]
"""Starts work in a thread; the result waits for it, and raises its error."""

LOADING = "loading and checking the mesh"
"""The first message of `progress`."""


@dataclass(frozen=True)
class BuildOptions:
    """Options that do not affect the field; see `build`."""

    max_memory: int | None = None
    progress: Progress = lambda _: None
    keep_nearest: bool = False
    why: bool = False
    hashed: bool = False


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
    params = BuildParams(**parameters)
    if why:
        check_why(params.octree)
    options = BuildOptions(max_memory, progress or (lambda _: None), keep_nearest, why, hashed)
    with memory_errors(), overflow():
        return _build(source, params, options, device, threads, previous, helpers or (lambda _: []))


@contextmanager
def memory_errors() -> Iterator[None]:
    """Converts a MemoryError in the context to OutOfMemoryError, with remedies."""
    try:
        yield
    except MemoryError as error:
        remedies = "try a larger --tolerance, a smaller --depth, or more --max-memory"
        raise OutOfMemoryError(f"out of memory: {error}; {remedies}") from error


def _build(
    source: Any,
    params: BuildParams,
    options: BuildOptions,
    device: str,
    threads: int | None,
    previous: Field | None,
    helpers: Helpers,
) -> Field:
    stages, octree = Stages(), OCTREES[params.octree]
    options.progress(LOADING)
    with stages("load"):
        loading = Loading(source, params)  # a file, in threads, while the device starts
    with stages("start"):
        first, *names = device_names(device) if "," in device else [device]
        also = [select_backend(name, threads) for name in names]
        backend = select_backend(first, threads)
    with backend.foreground():
        backend.prepare(octree.kernels)
        with stages("load"), backend.active():
            mesh = loading.mesh(backend)
            notes = mesh.notes
        with stages("check"):
            mesh = mesh.on(backend).merged()
            memory = memory_limit(backend, options.max_memory) if backend.memory.scarce else None
            trees = {"lean": octree.lean, "memory": memory}
            scene = Scene.of(mesh, params.sign, backend, params.query, **trees, stages=stages)
            health, mesh = mesh.health, scene.mesh
        samples = _sampling(mesh, params, loading.submit)
        if not octree.host_idle:
            samples()  # now, so that the host does not wait for them later
        options.progress("sorting triangles")
        scene.sort()  # (a)
        with stages("tree"):
            others: list[Helper] = [*(DeviceHelper(each, mesh) for each in also), *helpers(mesh)]
            scene.query_pool = QueryPool(others) if others else None
        scene.warm_start = WarmStart.of(previous, scene) if previous else None
        facts = Facts(health, loading.sha256)
        field = make_field(scene, params, options, facts, samples, submit=loading.submit)
        loading.release_source()
        field.run["notes"] = notes
        return field


def _sampling(mesh: Mesh, params: BuildParams, submit: Submit[Any]) -> Callable[[], Callable[[], Samples]]:
    """Starts drawing the error sample points in a thread, once; the result waits for them."""
    surface = copy(mesh)
    surface.release(OF_DEVICE)

    def draw() -> Samples:
        samples = draw_samples(surface, params.band)
        surface.release()
        return samples

    return cache(partial(submit, draw))


def make_field(
    scene: Scene,
    params: BuildParams,
    options: BuildOptions,
    facts: Facts,
    samples: Callable[[], Callable[[], Samples]],
    on_grown: Callable[[Grown], None] = lambda _: None,
    submit: Submit[Any] = lambda work: work,
) -> Field:
    """Builds a scene's field. facts: about the mesh as given; samples: starts drawing the error sample points, unless
    started already, and returns a function that waits for them; on_grown: called with the octree before its arrays
    become the field's; submit: starts work in a thread."""
    stages, backend, mesh, octree = scene.stages, scene.backend, scene.mesh, OCTREES[params.octree]
    whole_memory = options.max_memory is None

    @cache
    def answers() -> Callable[[], Answers]:
        """Starts drawing samples, and querying them where this costs neither host time nor much memory."""
        query = partial(ask, scene, samples(), params)
        if octree.host_idle and scene.ample_memory and whole_memory and scene.index.kernel_tree is not None:
            return _or_here(submit(backend.high_priority(query)), query)
        return query

    _ = scene.signer  # (a) (b)
    if not scene.defers_count:
        scene.count_crossing()
    limit = memory_limit(backend, options.max_memory)
    limits = Limits.of(params, mesh.unit, mesh.domain.length, limit, options.why)
    with stages("octree", backend):
        grown = octree.build(scene, limits, options.progress, answers)  # (c) (d)
    scene.count_crossing()  # while the device has little else to do
    on_grown(grown)
    field, arrived = field_of(grown, backend, mesh.domain, options.keep_nearest, beside=whole_memory)
    hashing = submit(lambda: (arrived(), field.content_sha256)) if options.hashed else None
    options.progress("measuring the error")
    with stages("measure", backend), field.at(backend):
        if scene.one_tree:
            arrived()  # before the index takes memory again
        scene.restore_index(len(field.leaf_key))
        found = answers()()
        measured = measure(field, scene, found, params, grown)
    if hashing is not None:
        hashing()
    info = describe(scene, params, facts.health, found.confidence, grown, measured)
    run = {"device": backend.name, "previous": scene.warm_start is not None}
    run |= {"queries": grown.queries, "working_bytes": grown.working_bytes}
    _finish_later(field, info, facts.sha256, run, stages, arrived)
    return field


def _or_here(result: Callable[[], T], work: Callable[[], T]) -> Callable[[], T]:
    """Falls back to this thread, whose arrays may overflow, where the other thread runs out of memory."""

    def found() -> T:
        try:
            return result()
        except MemoryError:
            return work()

    return found


def _finish_later(
    field: Field,
    info: dict[str, Any],
    sha256: Callable[[], str],
    run: dict[str, Any],
    stages: Stages,
    arrived: Callable[[], None],
) -> None:
    """Makes a field's attributes wait, when first read, for pending arrays, the mesh's hash and device timings."""
    own = {
        name: field.__dict__[name]
        for name in ("leaf_key", "leaf_level", "corner_key", "distance", "nearest", "leaf_cause", "steps")
    }

    def array(name: str) -> Any:
        with memory_errors():
            arrived()
        return own[name]

    def whole() -> dict[str, Any]:
        with memory_errors():
            mesh = {"sha256": sha256(), **info["mesh"]}
        return {**info, "mesh": mesh, "depth": int(array("leaf_level").max())}

    field.later(
        info=whole, run=lambda: {**run, "seconds": stages.seconds()}, **{name: partial(array, name) for name in own}
    )
