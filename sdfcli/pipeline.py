"""The whole build on one screen."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from sdfcli.backend import Array, Backend, select_backend
from sdfcli.backend.timing import Stages
from sdfcli.errors import OutOfMemoryError
from sdfcli.field.field import Field
from sdfcli.mesh.load import load_mesh
from sdfcli.octree.adaptive import Find, Octree
from sdfcli.octree.cells import Corners
from sdfcli.octree.corners import step_for
from sdfcli.octree.density import LEAF_BYTES, measured, nearest_by_level
from sdfcli.params import BuildParams
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.query.warm_start import Previous
from sdfcli.runtime.signature import takes
from sdfcli.sign.choice import choose_sign, settle_sign
from sdfcli.spatial.index import nearest, prepare
from sdfcli.spatial.morton import morton, sort
from sdfcli.spatial.radix_tree import Bvh, build_bvh, refit, without_nodes
from sdfcli.verify.accuracy import RegionErrors, errors_by_region, sample_points
from sdfcli.verify.check import mesh_report, verdict
from sdfcli.verify.estimate import memory_limit
from sdfcli.verify.thickness import find_sheets, spots

MEASURED_POINTS = 30_000
"""How many random points the measured error of a build rests on; `verify` takes more."""

SEED = 20_000

Progress = Callable[[str], None]
"""Called with a few words whenever something new begins, first with these."""

LOADING = "loading and checking the mesh"


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
    **parameters: Any,
) -> Field:
    """A field from a mesh: a path, a trimesh mesh, or a (vertices, faces) pair.

    parameters are those of BuildParams: octree, depth, tolerance, band, sign, query. device: auto, cpu, cuda, cuda:N.
    max_memory: bytes that may be used on that device; by default most of what is free. keep_nearest: the field keeps
    the triangles nearest to its corners. previous: such a field, of an earlier frame of a moving mesh; where the number
    of triangles is the same, queries start from its nearest triangles. The result is the same without it.

    Raises InputError for a mesh that cannot be used, UsageError for bad parameters, DeviceError for a device that is
    not there, OutOfMemoryError.
    """
    params = BuildParams(**parameters)
    try:
        return _build(source, params, device, threads, max_memory, progress or (lambda _: None), previous, keep_nearest)
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
) -> Field:
    stages = Stages()
    progress(LOADING)
    helpers = ThreadPoolExecutor(3)
    loaded = helpers.submit(load_mesh, source)  # a GPU takes a while to start, too
    checked = helpers.submit(lambda: loaded.result().health)
    digest = helpers.submit(lambda: loaded.result().sha256)
    with stages("start"):
        backend = select_backend(device, threads)
    with stages("load"):
        mesh = loaded.result()
    with stages("check"):
        health = checked.result()
        mesh, sign = choose_sign(mesh, params.sign)
    samples = helpers.submit(  # while kernels run
        lambda: (sample_points(mesh, params.band, MEASURED_POINTS, SEED), spots(mesh))
    )
    helpers.shutdown(wait=False)
    scale = mesh.diagonal / mesh.domain.length

    progress("sorting triangles")
    with stages("morton", backend):
        triangles = backend.from_host(mesh.unit_triangles)
        keys = morton(backend, triangles)
    with stages("sort", backend):
        order = sort(backend, triangles, keys)
        del triangles, keys
    with stages("tree", backend):
        bvh = build_bvh(backend, order)
    with stages("refit", backend):
        bvh = refit(backend, bvh)
    # On a GPU the thesis's octree has the queries' tree and the signs' tree one after the other.
    in_turn = backend.warps and params.octree == "bvh"
    with stages("sign", backend):
        sign, signer = settle_sign(backend, mesh, bvh, sign, later=in_turn)
    signed = sign.method != "none"
    with stages("measure"):
        points, places = samples.result()
        confidence = signer.confidence(mesh.domain.to_unit(points["band"]))
    if in_turn:
        signer.release()
    if params.query == "fast":
        bvh = without_nodes(bvh)
    backend.trim()
    mesh.release()
    earlier = None
    if previous is not None and Previous.fits(previous, order):
        earlier = Previous(backend, previous, mesh.domain, order)
    most_memory = memory_limit(backend, max_memory)
    with stages("octree", backend):
        if params.octree == "bvh":
            by_level = backend.warps and params.query == "fast" and earlier is None

            def find_corners(tree: Corners) -> tuple[Array, Array]:
                nonlocal bvh
                backend.trim()
                with stages("refit", backend):
                    bvh = prepare(backend, bvh, params.query)
                if by_level and bvh.packets is not None:
                    found = nearest_by_level(backend, bvh.packets, tree)
                else:
                    found = _finder(backend, bvh, params.query, earlier)(tree.position, None)
                bvh = replace(bvh, packets=None)
                return found

            arrays = measured(backend, order, signer, find_corners, params.depth_limit(scale), stages, most_memory)
            arrays["distance"] = (arrays["distance"] * mesh.domain.length).astype(np.float32)
            jump_leaves, step, parts, queries = 0, None, 1, len(arrays["corner_key"])
            kept: dict[str, float | None] = {"kept_from": None, "leaves": 0}
            working_bytes = LEAF_BYTES * len(arrays["leaf_key"])
        else:
            with stages("refit", backend):
                bvh = prepare(backend, bvh, params.query)
            tree = Octree(
                backend,
                bvh,
                signer,
                depth=params.depth_limit(scale),
                tolerance=params.tolerance * scale,
                band=params.band * scale,
                stages=stages,
                thin=params.thin_limit * scale if signed else 0.0,
                thin_depth=params.thin_depth(scale),
                find=_finder(backend, bvh, params.query, earlier),
                most_memory=most_memory,
            )
            finest = len(tree.levels) - 1
            tree.grow(lambda level, cells: progress(f"level {level + 1} of {finest}: {cells:,} cells"))
            queries, working_bytes = tree.queries, tree.nbytes
            bvh = replace(bvh, packets=None)
            arrays = tree.assemble(mesh.domain.length, step_for(params.tolerance * mesh.diagonal, mesh.domain.length))
            step, parts, jump_leaves = tree.step, tree.parts, tree.jump_leaves
            kept = {"kept_from": tree.thinnest_kept and tree.thinnest_kept / scale, "leaves": tree.sheet_leaves}
            del tree
        leaf_corner, steps = arrays.pop("leaf_corner"), arrays.pop("steps", None)
        if not keep_nearest:
            del arrays["nearest"]
    on_host: dict[str, Any] = {name: backend.to_host(array) for name, array in arrays.items()}
    field = Field(mesh.domain, **on_host, step=step, parts=parts)
    if steps is not None:
        field.keep_steps(backend.to_host(steps))
    field.keep_on(
        backend,
        leaf_key=arrays["leaf_key"],
        leaf_level=arrays["leaf_level"],
        leaf_corner=leaf_corner,
        value=arrays["distance"],
    )
    del arrays, leaf_corner, steps

    progress("measuring the error")
    with stages("measure", backend), field.at(backend):
        backend.trim()
        if backend.warps:
            field.keep_sampler(backend)
        if in_turn:  # a tree of its own for these few points would be the largest thing there is
            nodes = bvh if params.query != "fast" else refit(backend, build_bvh(backend, order))
            index = MeshDistance.of(backend, mesh, nodes, signer, "cct")
        else:
            index = MeshDistance.of(backend, mesh, prepare(backend, bvh), signer)
        found = errors_by_region(field, mesh.diagonal, params.tolerance, params.band, index, points).values()
        found_sheets = find_sheets(index, *places, params.tolerance)
        sheets = {**kept, **found_sheets.report(found_sheets.lost(field) if signed else None, mesh)}
    worst = max(found, key=lambda region: region.largest)
    field.info.update(
        parameters=params.resolved(scale),
        mesh={"sha256": digest.result(), "diagonal": mesh.diagonal, **mesh_report(health, sign)},
        verdict=verdict(health, sign, confidence, sheets["lost"]),
        sheets=sheets,
        sign=sign.method,
        sign_reason=sign.reason,
        sign_confidence=confidence,
        depth=int(field.leaf_level.max()),
        jump_leaves=jump_leaves,
        max_error=worst.largest,
        error_limit=_error_limit(worst, params, mesh.domain.length * 0.5 ** params.depth_limit(scale)),
        rms_error=float(np.sqrt(np.mean([region.rms**2 for region in found]))),
    )
    field.run.update(device=backend.name, seconds=stages.seconds(), previous=earlier is not None)
    field.run.update(queries=queries, working_bytes=working_bytes)
    return field


def _error_limit(worst: RegionErrors, params: BuildParams, finest: float) -> str | None:
    """What keeps the error above the tolerance; None where it is not."""
    if worst.largest <= params.tolerance:
        return None
    if params.octree == "bvh":
        return "triangles"
    return "depth" if worst.cell < 1.5 * finest else "samples"


def _finder(backend: Backend, bvh: Bvh, query: str, earlier: Previous | None) -> Find:
    """The query of a build. An earlier frame's triangles come first; what the octree knows of the points around a new
    one is no part of the thesis's variants."""

    def find(points: Array, seed: Array | None) -> tuple[Array, Array]:
        seeds = [earlier.seeds(points)] if earlier else []
        if seed is not None and query == "fast":
            seeds.append(seed)
        if len(seeds) > 1:
            seeds = [backend.xp.concatenate(seeds, axis=1)]
        return nearest(backend, bvh, points, seeds[0] if seeds else None, query)

    return find
