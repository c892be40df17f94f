"""`build`: from a triangle mesh to a field, stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import asdict
from functools import cache, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from sdfcli.backend import Backend, select_backend
from sdfcli.backend.overflow import overflow
from sdfcli.backend.select import device_names
from sdfcli.backend.timing import Stages
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.field.from_octree import field_of
from sdfcli.field.proven import encode
from sdfcli.field.store import as_field
from sdfcli.mesh.holes import Holes, capped
from sdfcli.mesh.load import Loading, MeshSource
from sdfcli.mesh.mesh import OF_DEVICE, Mesh
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.octree.kinds import OCTREES
from sdfcli.params import (
    AUTO,
    CAP,
    INSIDE,
    SOLIDS,
    BuildKeywords,
    BuildOptions,
    BuildParams,
    check_why,
    parse_share,
    parse_size,
)
from sdfcli.quality.certify import Certifier
from sdfcli.quality.check import uncertain
from sdfcli.quality.estimate import memory_limit
from sdfcli.quality.measure import Facts, Samples, ask, describe, draw_samples, measure
from sdfcli.query.helper import DeviceHelper
from sdfcli.query.warm_start import WarmStart
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors
from sdfcli.runtime.schedule import Deferred, Schedule
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene
from sdfcli.spatial.query_pool import Helper, QueryPool

if TYPE_CHECKING:
    from typing_extensions import Unpack

Helpers = Callable[[Mesh], list[Helper]]
"""Creates helpers that compute a mesh's queries elsewhere; see spatial/query_pool.py."""


@takes(BuildKeywords, BuildParams)
def build(
    source: MeshSource,
    *,
    nearest: bool = False,
    previous: Field | str | PathLike[str] | None = None,
    why: bool = False,
    prove: bool = False,
    prove_leaves: float | str | None = None,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: Progress | None = None,
    **parameters: Unpack[BuildKeywords],
) -> Field:
    """Builds a signed distance field from a triangle mesh. Logs a warning if the field misses its tolerance, or if the
    mesh is doubtful: its verdict, `field.info["verdict"]`.

    Args:
        source: a path, a `trimesh.Trimesh`, or a pair of arrays: vertices (v, 3) and faces (f, 3).
        nearest: store each corner's nearest triangle, `Field.nearest`, for `previous`.
        previous: a moving mesh's field for an earlier frame, or its path, built with `nearest`. If the triangle counts
            are equal, its nearest triangles are the queries' first candidates. Does not affect the field. Implies
            `nearest`.
        why: store the cause of each leaf's parent's split, `Field.leaf_cause`; adaptive octrees only.
        prove: bound the error everywhere in the domain, as `sdfcli.verify` does, and split the leaves whose error is
            not proven to be within the tolerance: `Field.bound`, and `proven_error` in `Field.info`.
        prove_leaves: maximum share of more leaves for that, 0 to 10, or as text, `5%`; default: 0.05.
        device: `auto`, `cpu`, `cuda`, `cuda:N`, or `cuda:0,1`: the first device builds, the others compute a share of
            its queries. Does not affect the field.
        threads: number of CPU threads; default: all CPUs available to the process.
        max_memory: maximum memory on the device, in bytes or as text: `800M`, `4G`; default: most of the free memory.
            Larger octrees overflow to scratch files (in the temporary folder), on a GPU to host memory. Does not affect
            the field.
        progress: called with a short description when a stage begins; default: they are logged, at DEBUG.
        parameters: the parameters of `BuildParams`, below.

    Raises:
        InputError: the mesh or `previous` cannot be read or used.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the build does not fit into `max_memory` or into memory.
    """
    if previous is not None:
        previous = as_field(previous)
    options = BuildOptions(
        device,
        threads,
        parse_size(max_memory),
        nearest or previous is not None,
        why,
        prove=prove,
        prove_leaves=parse_share(prove_leaves),
    )
    return build_field(source, BuildParams.of(**parameters), options, progress or LOG.debug, previous)


@memory_errors()
@overflow()
def build_field(
    source: MeshSource,
    params: BuildParams,
    options: BuildOptions,
    progress: Progress | None = None,
    previous: Field | None = None,
    helpers: Helpers | None = None,
) -> Field:
    """`build` with checked parameters."""
    if options.why:
        check_why(params.octree)
    if params.sign in SOLIDS and options.keep_nearest:
        raise UsageError(f"--nearest: not with --sign {params.sign}, whose triangles are the solid's")
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
            notes, of_file, given = mesh.notes, mesh.of_file, _without_device(mesh) if options.prove else None
        holes, solid, diagonal = None, None, None
        if params.holes == CAP:
            report("closing holes")
            with stages("holes", backend):
                as_read = mesh.on(backend).health
                mesh, holes = capped(mesh)
                given = _without_device(mesh) if options.prove else None
        if params.sign in SOLIDS:
            from sdfcli.solid.solidify import solid_mesh

            report("making the solid")
            with stages("solid", backend):
                diagonal = mesh.diagonal
                mesh, solid = solid_mesh(mesh, params.gap, backend, options.max_memory, params.sign == INSIDE)
                given = _without_device(mesh) if options.prove else None
        with stages("check"):
            mesh = mesh.on(backend).merged()
            memory = memory_limit(backend, options.max_memory) if backend.memory.scarce else None
            trees = {"memory": memory, "trees_dominate": octree.trees_dominate}
            method = AUTO if params.sign in SOLIDS else params.sign
            scene = Scene.of(mesh, method, backend, params.query, **trees, stages=stages)
            health, mesh = as_read if holes else mesh.health, scene.mesh
        facts = Facts(health, notes, of_file, loading.sha256, _samples(mesh, params.band), diagonal)
        if not octree.host_idle:
            facts.samples.start(run.thread)  # concurrent, as the host is busy until it needs them
        report("sorting triangles")
        scene.sort()  # (a)
        with stages("tree"):
            sharing: list[Helper] = [DeviceHelper(each, mesh) for each in others]
            sharing += helpers(mesh) if helpers else []
            scene.query_pool = QueryPool(sharing) if sharing else None
        scene.warm_start = WarmStart.of(previous, scene) if previous else None
        if previous and not scene.warm_start:
            LOG.warning("the previous field is not used: its mesh has another triangle count")
        field = make_field(
            scene, params, options, facts, run, report, given=given, solid=solid, holes=holes, advised=True
        )
        loading.release_source()
        return field._turned() if params.sign == INSIDE else field


def _devices(options: BuildOptions) -> tuple[Backend, list[Backend]]:
    """The device that builds, and the others, which compute a share of its queries."""
    first, *names = device_names(options.device) if "," in str(options.device) else [options.device]
    others = [select_backend(name, options.threads) for name in names]
    return select_backend(first, options.threads), others


def _samples(mesh: Mesh, band: float) -> Deferred[Samples]:
    """The error sample points, drawn on a copy of the mesh without its device arrays."""
    surface = _without_device(mesh)

    def draw() -> Samples:
        samples = draw_samples(surface, band)
        surface.release()
        return samples

    return Deferred(draw)


def _without_device(mesh: Mesh) -> Mesh:
    """A copy of a mesh without its device arrays."""
    mesh = copy(mesh)
    mesh.release(OF_DEVICE)
    return mesh


def make_field(
    scene: Scene,
    params: BuildParams,
    options: BuildOptions,
    facts: Facts,
    run: Schedule,
    progress: Progress,
    on_grown: Callable[[Grown], None] = lambda _: None,
    given: Mesh | None = None,
    solid: dict[str, Any] | None = None,
    holes: Holes | None = None,
    advised: bool = False,
) -> Field:
    """Builds a scene's field. on_grown: called with the octree before its arrays become the field's. given: the mesh as
    given, to prove the field's error; None: no proof. solid: facts about the solid that the mesh is. holes: facts about
    the holes that its last faces close. advised: whether to store advice if `auto` finds no certain signs."""
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

    def grow(limits: Limits, busy: Busy = lambda: None) -> Grown:
        with stages("octree", backend):
            return octree.build(scene, limits, progress, busy)  # (c) (d)

    def made(grown: Grown) -> tuple[Field, Deferred[None]]:
        # concurrent: downloads
        field, encoding, arrived = field_of(grown, backend, mesh.domain, options.keep_nearest, all_memory)
        if scene.plan.ample and all_memory:
            encoding.start(partial(run.high_priority, backend))  # concurrent
        elif backend.memory.scarce:
            encoding.get()  # its arrays are freed
        return field, arrived

    grown = grow(limits, while_host_waits)
    scene.count_crossing()  # concurrent, if memory is ample
    on_grown(grown)
    leaves = len(grown.arrays["leaf_key"])
    field, arrived = made(grown)
    certifier = None
    if given is not None:
        with stages("prove", backend):
            certifier = Certifier(given, scene.signed, backend, params, options.prove_leaves, progress)
            certifier.prove(field)
        for more in certifier.splits(limits):
            arrived.get()
            found = grow(more)
            if certifier.fits(found):
                grown, leaves = found, len(found.arrays["leaf_key"])
                field, arrived = made(found)
                with stages("prove", backend):
                    certifier.prove(field)
    content = run.thread(lambda: field.content_sha256) if options.hashed else Deferred.known(None)  # concurrent
    progress("measuring the error")
    with stages("measure", backend), field._at(backend):
        scene.restore_index(leaves, arrived)
        measured = measure(field, scene, exact.get(), params, grown)
    content.get()
    known = describe(scene, params, facts, exact.get().confidence, grown, measured)
    if solid is not None:
        known["solid"] = solid
    if holes is not None:
        known["holes"] = asdict(holes)
    if certifier is not None:
        known |= certifier.info()
        field._defer(leaf_bound=Deferred.known(encode(certifier.proof.bound, params.tolerance)))
    if advised and params.sign == AUTO and uncertain(scene.choice, known["sign_confidence"]):
        from sdfcli.solid.advice import advice_for

        with stages("advice", backend):
            known["advice"] = advice_for(mesh, backend, options.max_memory)
    _warn(known, params)
    statistics = {"device": backend.name, "previous": scene.warm_start is not None, "notes": facts.notes}
    statistics |= {"queries": grown.queries, "working_bytes": grown.working_bytes}
    info = Deferred(partial(_info, known, facts.sha256, field._later("leaf_level")))
    field._defer(info=info, run=Deferred(lambda: {**statistics, "seconds": stages.seconds()}))
    return field


def _warn(known: dict[str, Any], params: BuildParams) -> None:
    """Logs warnings about a field. known: from `describe`."""
    if known["sign"] == "none" and params.sign != "none":
        LOG.warning("distances without signs: %s", known["sign_reason"])
    elif known["verdict"] == "doubtful":
        certain, lost = known["sign_confidence"] or 0.0, known["sheets"]["lost"] or 0.0
        LOG.warning(
            "the mesh is doubtful: its inside is certain at %.1f %% of the points near the surface; walls or gaps are "
            "lost at %.1f %% of the surface",
            100 * certain,
            100 * lost,
        )
    if "advice" in known:
        from sdfcli.solid.advice import advice_text

        LOG.warning(advice_text(known["advice"]))
    if known.get("solid", {}).get("leak"):
        from sdfcli.solid.solidify import leak_text

        LOG.warning(leak_text(known["solid"]["leak"] / known["mesh"]["diagonal"]))
    if known["error_limit"] and params.octree == "adaptive":
        where = " where the sign jumps across the mesh's holes" if known["error_limit"] == "jumps" else ""
        LOG.warning("the error, %.3g, exceeds the tolerance, %.3g%s", known["max_error"], params.tolerance, where)


@memory_errors()
def _info(known: dict[str, Any], sha256: Deferred[str], leaf_level: Deferred[Any]) -> dict[str, Any]:
    """A field's info, from `describe` and values that arrive after it."""
    mesh = {"sha256": sha256.get(), **known["mesh"]}
    return {**known, "mesh": mesh, "depth": int(leaf_level.get().max())}
