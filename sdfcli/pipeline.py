"""The whole build on one screen."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sdfcli.accuracy import errors, sample_points
from sdfcli.backend import select_backend
from sdfcli.check import mesh_report, verdict
from sdfcli.errors import OutOfMemoryError
from sdfcli.estimate import memory_limit
from sdfcli.field import Field
from sdfcli.index import MeshDistance
from sdfcli.mesh import load_mesh
from sdfcli.params import BuildParams
from sdfcli.stages.bvh import build_bvh, refit
from sdfcli.stages.octree import Octree
from sdfcli.stages.order import morton_order
from sdfcli.stages.sign import choose_sign, settle_sign, sign_confidence
from sdfcli.timing import Stages

MEASURED_POINTS = 30_000
"""How many random points the measured error of a build rests on; `verify` takes more."""

SEED = 20_000

Progress = Callable[[str], None]
"""Called with a few words whenever something new begins."""


def build(
    source: Any,
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Field:
    """A field from a mesh: a path, a trimesh mesh, or a (vertices, faces) pair.

    parameters are those of BuildParams: octree, depth, tolerance, band, sign. device is auto, cpu, cuda or cuda:N.
    max_memory: bytes that may be used on that device; by default most of what is free.

    Raises InputError for a mesh that cannot be used, UsageError for bad parameters, DeviceError for a device that is
    not there, OutOfMemoryError.
    """
    params = BuildParams(**parameters)
    try:
        return _build(source, params, device, threads, max_memory, progress or (lambda _: None))
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a larger --tolerance or a smaller --depth") from error


def _build(
    source: Any, params: BuildParams, device: str, threads: int | None, max_memory: int | None, progress: Progress
) -> Field:
    stages = Stages()
    progress("loading and checking the mesh")
    with stages("load"):
        mesh = load_mesh(source)
        digest = mesh.sha256
    with ThreadPoolExecutor(1) as helper:  # a GPU takes a while to start, too
        checked = helper.submit(lambda: mesh.health)
        with stages("start"):
            backend = select_backend(device, threads)
        with stages("check"):
            health = checked.result()
            mesh, sign = choose_sign(mesh, params.sign)
    scale = mesh.diagonal / mesh.domain.length

    progress("sorting triangles")
    with stages("order", backend):
        order = morton_order(backend, mesh.unit_triangles)
    with stages("bvh", backend):
        bvh = refit(backend, build_bvh(backend, order))
    with stages("sign", backend):
        sign, signer = settle_sign(backend, mesh, bvh, sign)
    with stages("measure"):
        points = sample_points(mesh, params.band, MEASURED_POINTS, SEED)
    mesh.release()
    with stages("octree", backend):
        tree = Octree(
            backend,
            bvh,
            signer,
            depth=params.depth_limit(scale),
            tolerance=params.tolerance * scale,
            band=params.band * scale,
            adaptive=params.octree == "adaptive",
            stages=stages,
            most_memory=memory_limit(backend, max_memory),
        )
        tree.grow(lambda level, cells: progress(f"level {level + 1}: {cells:,} cells"))
        arrays = tree.assemble()
        arrays["distance"] = (arrays["distance"] * mesh.domain.length).astype(np.float32)
        leaf_corner = arrays.pop("leaf_corner")
        jump_leaves = tree.jump_leaves
        del tree
    on_host: dict[str, Any] = {name: backend.to_host(array) for name, array in arrays.items()}
    field = Field(mesh.domain, **on_host)
    field.keep_on(backend, leaf_corner=leaf_corner, value=arrays["distance"], **arrays)

    progress("measuring the error")
    with stages("measure", backend):
        index = MeshDistance.of(backend, mesh, bvh, signer)
        confidence = sign_confidence(backend, bvh, signer, mesh.domain.to_unit(points["band"]))
        found = [errors(field, mesh.diagonal, params.tolerance, params.band, index, where) for where in points.values()]
    field.info.update(
        parameters={**params.as_dict(), "depth": params.depth_limit(scale)},
        mesh={"sha256": digest, "diagonal": mesh.diagonal, **mesh_report(health, sign)},
        verdict=verdict(health, sign, confidence),
        sign=sign.method,
        sign_reason=sign.reason,
        sign_confidence=confidence,
        depth=int(field.leaf_level.max()),
        jump_leaves=jump_leaves,
        max_error=max(region.largest for region in found),
        rms_error=float(np.sqrt(np.mean([region.rms**2 for region in found]))),
    )
    stages.seconds["total"] = sum(stages.seconds.values())
    field.run.update(device=backend.name, seconds=stages.seconds)
    return field
