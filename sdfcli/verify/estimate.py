"""How large a field will be, and what building it will take, without building it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sdfcli.backend import Backend, select_backend
from sdfcli.errors import UsageError
from sdfcli.octree.adaptive import Growth
from sdfcli.octree.density import bvh_octree, bytes_for
from sdfcli.octree.grown import Limits
from sdfcli.params import BuildParams
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene

SAMPLE = 2000
"""Cells of each level that are followed further. More are surer, and slower."""

BALANCE, UPKEEP = 1.2, 1.6
"""What a whole octree has more of than a sample says, cells and time: it splits some for balance, and for hanging
corners."""

QUERIES_PER_CELL, BYTES_PER_CELL, FILE_BYTES_PER_CELL = 1.75, 140, 0.57
"""Measured on scans and parts, at tolerances from 2.5e-4 to 1e-3. On eight of them leaves then came out within 27 %,
memory between 0.84 and 1.5 times, time within a factor of two, and files within 42 %, but for boxes, whose files pack
better, up to three times.
"""

QUERIES = 20_000
"""Corners of the thesis's octree whose distances are asked for."""

FILE_BYTES_PER_BVH_LEAF = 6

ORDER_BYTES = 48
"""What a triangle takes in Morton order."""

DEFAULT_SHARE = 0.9
"""How much of the free memory a build takes at most, unless it is told."""


@dataclass(frozen=True)
class Estimate:
    """What a build is expected to take: leaves of its octree, bytes on the device and of the file, seconds.

    free_bytes   what the device has.
    limit_bytes  what the build may use of it.
    """

    leaves: int
    seconds: float
    memory_bytes: int
    file_bytes: int
    limit_bytes: int
    free_bytes: int
    device: str

    @property
    def fits(self) -> bool:
        """Whether the build is expected to end well."""
        return self.memory_bytes <= self.limit_bytes

    def as_dict(self) -> dict[str, Any]:
        """The values by name."""
        return {**asdict(self), "fits": self.fits}


@takes(BuildParams)
def estimate(
    source: Any,
    *,
    device: str = "auto",
    threads: int | None = None,
    max_memory: int | None = None,
    **parameters: Any,
) -> Estimate:
    """Follows a sample of the cells down to the leaves, and scales up what that took (Knuth 1975: estimating the
    efficiency of backtrack programs). The arguments are those of `build`; so are the errors raised."""
    params = BuildParams(**parameters)
    start = time.perf_counter()
    backend = select_backend(device, threads)
    used = backend.memory_used()
    index = MeshDistance(source, params.sign, device, threads)
    begun = time.perf_counter()
    scene = index.scene
    limits = Limits.of(params, scene.mesh.diagonal, scene.mesh.domain.length)
    if params.octree == "adaptive":
        size, used = _adaptive_size(scene, limits), backend.memory_used()
    else:
        used = used + ORDER_BYTES * len(scene.order) if backend.memory.scarce else backend.memory_used()
        size = _bvh_size(scene, limits)
    return Estimate(
        leaves=size.leaves,
        seconds=begun - start + size.seconds,
        memory_bytes=used + size.memory_bytes,
        file_bytes=size.file_bytes,
        limit_bytes=memory_limit(backend, max_memory),
        free_bytes=backend.memory_free(),
        device=backend.name,
    )


class _Size(NamedTuple):
    leaves: int
    seconds: float
    memory_bytes: int
    file_bytes: int


def _adaptive_size(scene: Scene, limits: Limits) -> _Size:
    begun = time.perf_counter()
    growth = Growth(scene, limits, sample=SAMPLE)
    growth.run()
    scene.backend.synchronize()
    seconds = time.perf_counter() - begun
    cells = round(BALANCE * growth.sample.estimated_cells(growth.octree))
    return _Size(
        leaves=cells * 7 // 8 + 1,
        seconds=UPKEEP * seconds * max(1.0, QUERIES_PER_CELL * cells / growth.distances.queries),
        memory_bytes=BYTES_PER_CELL * cells,
        file_bytes=round(FILE_BYTES_PER_CELL * cells),
    )


def _bvh_size(scene: Scene, limits: Limits) -> _Size:
    """The leaves are made, which is quick; some of the corners are asked for their distances."""
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
    return _Size(leaves, seconds, memory_bytes, FILE_BYTES_PER_BVH_LEAF * leaves)


def memory_limit(backend: Backend, asked: int | None) -> int:
    """The bytes that a build may use on its device: what was asked for, or most of what is free."""
    return asked or backend.memory_used() + int(DEFAULT_SHARE * backend.memory_free())


def parse_size(text: str) -> int:
    """Bytes from `800M`, `4G`, `2.5GiB`. Raises UsageError for what is not a size."""
    units = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
    word = text.strip().upper().removesuffix("B")
    number = word.rstrip("KMGTI")
    try:
        size = float(number) * units[word[len(number) :]]
    except (ValueError, KeyError):
        size = 0.0
    if not 1 <= size < 2**60:
        raise UsageError(f"--max-memory {text}: use a size like 800M or 4G")
    return int(size)
