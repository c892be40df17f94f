"""Build estimates: leaves, seconds, memory and file size, without building."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sdfcli.backend import Backend, select_backend
from sdfcli.backend.overflow import least_limit, overflow, room_elsewhere
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import MeshSource, load_placed
from sdfcli.octree.budget import BYTES_PER_CELL, PEAK_BYTES, SAMPLE
from sdfcli.octree.density import bvh_octree, bytes_for
from sdfcli.octree.grown import Limits
from sdfcli.octree.growth import Growth
from sdfcli.params import BuildKeywords, BuildOptions, BuildParams, parse_size, refuse_flood
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene

if TYPE_CHECKING:
    from typing_extensions import Unpack

UPKEEP = 1.6
"""Time factor for splits that a sample lacks: balance and hanging corners."""

QUERIES_PER_CELL, FILE_BYTES_PER_CELL = 1.75, 0.57
"""Measured on scans and parts at tolerances from 2.5e-4 to 1e-3, like budget.BYTES_PER_CELL. On eight such meshes,
estimates were within 27 % for leaves, 0.84 to 1.5 times for memory, a factor of two for time, and 42 % for files,
except boxes, whose files are up to three times smaller.
"""

QUERIES = 20_000
"""Density octree corners with timed distance queries."""

FILE_BYTES_PER_BVH_LEAF = 6

ORDER_BYTES = 48
"""Bytes per triangle in Morton order."""

AHEAD = 10 << 20
"""Bytes that a build uses concurrently with the growth, more than an estimate: error sample points."""

DEFAULT_SHARE = 0.9
"""Share of the free memory in the default memory limit."""


@dataclass(frozen=True)
class Estimate:
    """A build's estimated size.

    Attributes:
        triangles: the mesh's triangles.
        leaves: octree leaves.
        seconds: duration of the build.
        memory_bytes: memory on the device.
        file_bytes: size of the field's file.
        limit_bytes: the build's memory limit.
        least_bytes: minimum memory limit with which the build is expected to work.
        free_bytes: free device memory.
        scratch_bytes: free bytes for overflow beyond the limit, in scratch files or host memory; 0 if not allowed.
        device: `cpu` or `cuda:N`.
    """

    triangles: int
    leaves: int
    seconds: float
    memory_bytes: int
    file_bytes: int
    limit_bytes: int
    least_bytes: int
    free_bytes: int
    scratch_bytes: int
    device: str

    @property
    def fits(self) -> bool:
        """Whether the build is expected to fit into the memory limit, or else into scratch space."""
        return self.least_bytes <= self.limit_bytes

    def as_dict(self) -> dict[str, Any]:
        """The values by name."""
        return {**asdict(self), "fits": self.fits}


@takes(BuildKeywords, BuildParams)
def estimate(
    source: MeshSource,
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | str | None = None,
    **parameters: Unpack[BuildKeywords],
) -> Estimate:
    """Estimates a build by following a sample of cells down to the leaves (Knuth 1975: estimating the efficiency of
    backtrack programs). Arguments and errors as for `sdfcli.build`."""
    return estimate_of(source, BuildParams.of(**parameters), BuildOptions(device, threads, parse_size(max_memory)))


@overflow()
def estimate_of(source: MeshSource, params: BuildParams, options: BuildOptions) -> Estimate:
    """`estimate` with checked parameters."""
    refuse_flood(params, "estimates")
    start = time.perf_counter()
    backend = select_backend(options.device, options.threads)
    used = backend.memory_used()
    mesh = treated(load_placed(source, params, backend).on(backend), params.holes).merged()
    index = MeshDistance(mesh, params.sign, options.device, options.threads)
    begun = time.perf_counter()
    scene = index._scene
    limits = Limits.of(params, scene.mesh.unit, scene.mesh.domain.length)
    begun_bytes = backend.memory_used() + AHEAD
    if params.octree == "adaptive":
        size, used = _adaptive_size(scene, limits), backend.memory_used()
    else:
        used = used + ORDER_BYTES * len(scene.order) if backend.memory.scarce else backend.memory_used()
        size = _bvh_size(scene, limits)
    limit = memory_limit(backend, options.max_memory)
    least = max(used, begun_bytes) + size.peak_bytes
    beyond = least_limit(backend, begun_bytes)
    if beyond is not None and size.memory_bytes <= room_elsewhere(backend, 0, beyond):
        least = min(least, beyond)
    return Estimate(
        triangles=len(scene.mesh.faces),
        leaves=size.leaves,
        seconds=begun - start + size.seconds,
        memory_bytes=used + size.memory_bytes,
        file_bytes=size.file_bytes,
        limit_bytes=limit,
        least_bytes=least,
        free_bytes=backend.memory_free(),
        scratch_bytes=room_elsewhere(backend, begun_bytes, limit),
        device=backend.name,
    )


class _Size(NamedTuple):
    leaves: int
    seconds: float
    memory_bytes: int
    peak_bytes: int
    file_bytes: int


def _adaptive_size(scene: Scene, limits: Limits) -> _Size:
    begun = time.perf_counter()
    growth = Growth(scene, limits, sample=SAMPLE)
    growth.run()
    scene.backend.synchronize()
    seconds = time.perf_counter() - begun
    cells = growth.sample.estimated_cells(growth.octree)
    return _Size(
        leaves=cells * 7 // 8 + 1,
        seconds=UPKEEP * seconds * max(1.0, QUERIES_PER_CELL * cells / growth.distances.queries),
        memory_bytes=BYTES_PER_CELL * cells,
        peak_bytes=PEAK_BYTES * cells,
        file_bytes=round(FILE_BYTES_PER_CELL * cells),
    )


def _bvh_size(scene: Scene, limits: Limits) -> _Size:
    """Builds all leaves, which is quick, and times distance queries at some corners."""
    begun = time.perf_counter()
    tree = bvh_octree(scene.backend, scene.order, limits.depth)
    grown = time.perf_counter()
    leaves, corners = 7 * len(tree.cell) + 1, len(tree.position)
    sample = scene.backend.xp.ascontiguousarray(tree.position[:: 1 + corners // QUERIES])
    distance, slot = scene.index.nearest(sample)
    scene.signer.inside_along(sample, distance, slot)
    scene.backend.synchronize()
    seconds = grown - begun + (time.perf_counter() - grown) * corners / len(sample)
    memory_bytes = bytes_for(scene.backend, leaves, len(scene.order))
    return _Size(leaves, seconds, memory_bytes, memory_bytes, FILE_BYTES_PER_BVH_LEAF * leaves)


def memory_limit(backend: Backend, asked: int | None) -> int:
    """A build's memory limit on its device, in bytes: `asked`, or memory in use plus DEFAULT_SHARE of free memory."""
    return asked or backend.memory_used() + int(DEFAULT_SHARE * backend.memory_free())
