"""`build`: from a triangle mesh to a field, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from typing import Any

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
from sdfcli.spatial.crew import Crew, Helper
from sdfcli.verify.estimate import memory_limit
from sdfcli.verify.measure import Asked, Facts, Samples, ask, describe, draw_samples, measure

Helpers = Callable[[Mesh], list[Helper]]
"""Creates helpers that compute a mesh's queries elsewhere; see spatial/crew.py."""

LOADING = "loading and checking the mesh"
"""The first message of `progress`."""


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
        helpers: creates helpers that compute a share of the queries elsewhere; see spatial/crew.py.
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
    with memory_errors(), overflow():
        return _build(
            source,
            params,
            device,
            threads,
            max_memory,
            progress or (lambda _: None),
            previous,
            keep_nearest,
            hashed,
            helpers or (lambda _: []),
            why,
        )


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
    device: str,
    threads: int | None,
    max_memory: int | None,
    progress: Progress,
    previous: Field | None,
    keep_nearest: bool,
    hashed: bool,
    helpers: Helpers,
    why: bool,
) -> Field:
    stages = Stages()
    progress(LOADING)
    with stages("load"):
        loading = Loading(source, params)  # a file is read by threads while the device starts
    with stages("start"):
        first, *names = device_names(device) if "," in device else [device]
        also = [select_backend(name, threads) for name in names]
        backend = select_backend(first, threads)
    with backend.foreground():
        octree = OCTREES[params.octree]
        backend.prepare(octree.kernels)
        with stages("load"), backend.active():
            mesh = loading.mesh(backend)
            notes = mesh.notes
        with stages("check"):
            mesh = mesh.on(backend).merged()
            memory = memory_limit(backend, max_memory) if backend.memory.scarce else None
            trees = {"lean": octree.lean, "memory": memory}
            scene = Scene.of(mesh, params.sign, backend, params.query, **trees, stages=stages)
            health, mesh = mesh.health, scene.mesh
        surface = copy(mesh)  # for a thread that draws points while kernels run
        surface.release(OF_DEVICE)

        def draw() -> Samples:
            samples = draw_samples(surface, params.band)
            surface.release()
            return samples

        drawn = cache(partial(loading.submit, draw))
        if not octree.idle:
            drawn()  # now, so that the host does not wait for them later
        progress("sorting triangles")
        scene.sort()  # (a)
        with stages("tree"):
            others: list[Helper] = [*(DeviceHelper(each, mesh) for each in also), *helpers(mesh)]
            scene.crew = Crew(others) if others else None
        scene.warm_start = WarmStart.of(previous, scene) if previous else None
        facts = Facts(health, loading.sha256)
        begin = loading.submit
        field = make_field(
            scene, params, facts, drawn, max_memory, progress, keep_nearest, hashed, begin=begin, why=why
        )
        loading.let_go()
        field.run["notes"] = notes
        return field


def make_field(
    scene: Scene,
    params: BuildParams,
    facts: Facts,
    drawn: Callable[[], Callable[[], Samples]],
    max_memory: int | None,
    progress: Progress,
    keep_nearest: bool = False,
    hashed: bool = False,
    on_grown: Callable[[Grown], None] = lambda _: None,
    begin: Callable[[Callable[[], Any]], Callable[[], Any]] = lambda work: work,
    why: bool = False,
) -> Field:
    """Builds a scene's field. facts: about the mesh as given; drawn: starts drawing the error sample points, unless
    started already, and returns a function that waits for them; on_grown: called with the octree before its arrays
    become the field's; begin: starts work in a thread and returns a function that waits for its result."""
    stages, backend, mesh, octree = scene.stages, scene.backend, scene.mesh, OCTREES[params.octree]

    @cache
    def asked() -> Callable[[], Asked]:
        """Starts drawing samples, and querying them where this costs neither host time nor much memory."""
        asks = partial(ask, scene, drawn(), params)
        if not (octree.idle and scene.spares_time and max_memory is None and scene.index.asked_by_kernels is not None):
            return asks
        waits = begin(backend.beside(asks))

        def answers() -> Asked:
            try:
                said: Asked = waits()
                return said
            except MemoryError:  # this thread may place arrays elsewhere
                return asks()

        return answers

    _ = scene.signer  # (a) (b)
    if not scene.counts_later:
        scene.count_crossing()
    limits = Limits.of(params, mesh.unit, mesh.domain.length, memory_limit(backend, max_memory), why)
    with stages("octree", backend):
        grown = octree.build(scene, limits, progress, asked)  # (c) (d)
    scene.count_crossing()  # while the device has little else to do
    on_grown(grown)
    field, arrived = field_of(grown, backend, mesh.domain, keep_nearest, beside=max_memory is None)

    def content() -> str:
        arrived()
        return field.content_sha256

    hashing = begin(content) if hashed else None
    progress("measuring the error")
    with stages("measure", backend), field.at(backend):
        if scene.one_tree:
            arrived()  # before the index takes memory again
        scene.ask_again(len(field.leaf_key))
        said = asked()()
        measured = measure(field, scene, said, params, grown)
    if hashing is not None:
        hashing()
    info = describe(scene, params, facts.health, said.confidence, grown, measured)
    run = {"device": backend.name, "previous": scene.warm_start is not None}
    run |= {"queries": grown.queries, "working_bytes": grown.working_bytes}
    _finish_later(field, info, facts.sha256, run, stages, arrived)
    return field


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
