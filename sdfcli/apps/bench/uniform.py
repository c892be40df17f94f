"""Comparison between octrees and uniform grids at the same finest resolution: memory, queries, build time, accuracy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sdfcli.apps.bench.grid import MAX_DEPTH, exact_distances, give_signs, side_of
from sdfcli.apps.bench.interleaved import median_seconds
from sdfcli.apps.bench.jump_flood import flood, flooded_distances, plant
from sdfcli.backend import Array, Backend
from sdfcli.errors import OutOfMemoryError, UsageError
from sdfcli.field.field import Field, is_cupy, lattice_position
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.octree.grown import Progress
from sdfcli.params import BuildParams
from sdfcli.pipeline import build
from sdfcli.quality.accuracy import errors, sample_points
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.scene import Scene
from sdfcli.sign.choice import choose_sign
from sdfcli.spatial.index import DistanceIndex

BUILDING = ("morton", "sort", "tree", "refit", "sign", "octree", "query")
"""Stages in `pipeline.build` counted as building: from the checked mesh to the field."""

NODE_SAMPLES = 200_000
ROUNDING = 1e-6
"""A correct node's maximum error, as a fraction of the diagonal."""

SEED = 8_128

LOOKUPS, LOOKUPS_CPU = 2**23, 2**18
"""Points looked up per run, on a GPU and on the CPU."""


@dataclass(frozen=True)
class Row:
    """One method. Errors are fractions of the bounding box diagonal.

    seconds        from triangles to signed distances on the device, including the tree over the triangles.
    nodes          stored distance count.
    field_bytes    the field's array sizes.
    working_bytes  peak array size during the build, without triangles and tree.
    queries        exact distance queries, except for a grid's signs.
    seeds          jump flooding seeds.
    node_max, node_rms, node_wrong
                   errors of the stored distances, and the share above ROUNDING: over all grid nodes, or randomly
                   sampled octree corners, where hanging corners have interpolated values by design.
    max_error, rms_error, left_out
                   trilinear field errors at random points, and points at a proven sign jump, measured as in
                   `build` (see accuracy.RegionErrors).
    lookups        millions of points per second that the finished field is sampled at, anywhere in the domain, in
                   random order; points and results stay on the device.
    """

    method: str
    seconds: float
    nodes: int
    field_bytes: int
    working_bytes: int
    queries: int
    seeds: int | None
    node_max: float
    node_rms: float
    node_wrong: float
    max_error: float
    rms_error: float
    left_out: int
    lookups: float


@dataclass(frozen=True)
class UniformField:
    """Signed distances (nodes,) float32, in the mesh's units, on a device; trilinear between grid nodes."""

    backend: Backend
    domain: Domain
    depth: int
    distance: Array

    def sample(self, points: Any) -> Any:
        """Distances (n,) float64 at points (n, 3) float64 in the domain, on the points' device."""
        home = self.backend.xp if is_cupy(points) else np
        result = self.backend.xp.empty(len(points), np.float64)
        self.backend.run(
            "sdf_grid_sample",
            len(points),
            side=side_of(self.depth),
            domain=self.domain.group(self.backend),
            points=self.backend.from_host(points, np.float64),
            distance=self.distance,
            result=result,
        )
        return self.backend.to_host(result) if home is np else result

    def cell_at(self, points: Any) -> tuple[Any, Any]:
        """Lower corners (n, 3) and edges (n,) of the points' cells, in the mesh's units."""
        cells = 2**self.depth
        edge = self.domain.length / cells
        low = np.minimum(np.floor(np.clip(self.domain.to_unit(points), 0.0, 1.0) * cells), cells - 1)
        return self.domain.origin + low * edge, np.full(len(points), edge)


@dataclass(frozen=True)
class _Distances:
    """Unsigned grid distances and their cost."""

    distance: Array
    queries: int
    working_bytes: int
    seeds: int | None = None


def _by_queries(backend: Backend, index: DistanceIndex, depth: int) -> _Distances:
    distance = exact_distances(backend, index, depth)
    return _Distances(distance, len(distance), distance.nbytes + len(distance))  # one byte per node during signs


def _by_flooding(order: str) -> Callable[[Backend, DistanceIndex, int], _Distances]:
    def find(backend: Backend, index: DistanceIndex, depth: int) -> _Distances:
        seeds = plant(backend, index, depth)
        carried = flood(backend, seeds, depth, order)
        distance = flooded_distances(backend, index, seeds, depth, carried)
        table = seeds.node.nbytes + seeds.position.nbytes + seeds.slot.nbytes
        return _Distances(distance, seeds.queries, 2 * carried.nbytes + table, len(seeds))

    return find


GRIDS: dict[str, Callable[[Backend, DistanceIndex, int], _Distances]] = {
    "uniform, exact": _by_queries,
    "uniform, JFA": _by_flooding("JFA"),
    "uniform, JFA+1": _by_flooding("JFA+1"),
}


def compare(
    source: Any,
    depth: int = 8,
    *,
    device: str = "auto",
    threads: int | None = None,
    tolerance: float = BuildParams.tolerance,
    band: float = BuildParams.band,
    sign: str = BuildParams.sign,
    repeat: int = 1,
    samples: int = 30_000,
    progress: Progress | None = None,
) -> list[Row]:
    """Compares the adaptive and the density-driven octree, a grid by exact queries, jump flooding (JFA) and JFA+1.

    All have cells 2^-depth times the domain edge (octrees on their finest level), and the same mesh, signs and
    `samples` random points. source, tolerance, band, sign, device and threads: as for `sdfcli.build`. The fastest of
    `repeat` builds counts; on a GPU the first compiles kernels.

    Raises `sdfcli.build`'s exceptions; UsageError for a depth above 10.
    """
    progress = progress or (lambda _: None)
    if not 1 <= depth <= MAX_DEPTH:
        raise UsageError(f"--depth {depth}: a uniform grid takes 1 to {MAX_DEPTH}")
    params = BuildParams(depth=depth, tolerance=tolerance, band=band, sign=sign)
    try:
        comparison = _Comparison(load_mesh(source), params, depth, device, threads, repeat, samples)
        rows = []
        for octree in ("adaptive", "bvh"):
            progress(f"{octree} octree")
            rows.append(comparison.octree(octree))
        for method in GRIDS:
            progress(method)
            rows.append(comparison.grid(method))
        return rows
    except MemoryError as error:
        raise OutOfMemoryError(f"out of memory: {error}; try a smaller --depth") from error


class _Comparison:
    """Data shared by all methods: mesh, sign, exact distances, random points."""

    def __init__(
        self, mesh: Mesh, params: BuildParams, depth: int, device: str, threads: int | None, repeat: int, samples: int
    ) -> None:
        self.mesh = mesh
        self.index = MeshDistance(mesh, params.sign, device, threads)
        self.backend = self.index._backend
        self.params, self.depth, self.threads, self.repeat = params, depth, threads, repeat
        self.points = sample_points(self.mesh, params.band, samples, SEED)
        # Signs jump only at holes of an open surface. A coarse field may have any number of errors.
        self.most_suspects = 0.0 if self.mesh.health.watertight else 1.0
        self.exact: Array = None
        count = LOOKUPS_CPU if self.backend.name == "cpu" else LOOKUPS
        anywhere = np.random.default_rng(SEED).random((count, 3))
        self.anywhere = self.backend.from_host(mesh.domain.origin + mesh.domain.length * anywhere)

    def octree(self, kind: str) -> Row:
        """An octree's row, by `pipeline.build`."""
        seconds = np.inf
        for _ in range(self.repeat):
            options = {**asdict(self.params), "octree": kind, "sign": self.index.sign.method}
            field = build(self._fresh_mesh(), device=self.backend.name, threads=self.threads, **options)
            seconds = min(seconds, sum(field.run["seconds"][stage] for stage in BUILDING))
        return self._row(
            f"{kind} octree",
            field,
            self._corner_errors(field),
            seconds=seconds,
            nodes=field.corners,
            field_bytes=sum(a.nbytes for a in (field.leaf_key, field.leaf_level, field.corner_key, field.distance)),
            working_bytes=field.run["working_bytes"],
            queries=field.run["queries"],
            seeds=None,
        )

    def grid(self, method: str) -> Row:
        """Row for a method in GRIDS. The first provides the exact distances for comparison."""
        backend, domain = self.backend, self.mesh.domain
        seconds = np.inf
        for _ in range(self.repeat):
            mesh, choice = choose_sign(self._fresh_mesh().on(backend), self.index.sign.method)
            backend.synchronize()
            start = time.perf_counter()
            scene = Scene(backend, mesh, choice)
            found = GRIDS[method](backend, scene.index, self.depth)
            distance = found.distance
            give_signs(backend, scene.index, scene.signer, self.depth, distance)
            distance *= domain.length
            backend.synchronize()
            seconds = min(seconds, time.perf_counter() - start)
        if self.exact is None:
            self.exact = distance
        return self._row(
            method,
            UniformField(backend, domain, self.depth, distance),
            distance - self.exact,
            seconds=seconds,
            nodes=len(distance),
            field_bytes=distance.nbytes,
            working_bytes=found.working_bytes,
            queries=found.queries,
            seeds=found.seeds,
        )

    def _fresh_mesh(self) -> Mesh:
        """Freshly loaded mesh, without results cached by earlier builds."""
        self.mesh.release()
        return self.mesh

    def _corner_errors(self, field: Field) -> Any:
        """Stored value errors at randomly sampled octree corners."""
        corner = np.random.default_rng(SEED).permutation(field.corners)[:NODE_SAMPLES]
        at = field.domain.origin + lattice_position(field.corner_key[corner]) * field.domain.length
        return field.distance[corner] - self.index.signed_distance(at)

    def _row(self, method: str, field: Field | UniformField, node_error: Array, **measured: Any) -> Row:
        off = abs(node_error / self.mesh.diagonal)
        found = [
            errors(
                field,
                self.mesh.diagonal,
                self.params.tolerance,
                self.params.band,
                self.index,
                where,
                self.most_suspects,
            )
            for where in self.points.values()
        ]
        seconds = median_seconds(self.backend, {method: lambda: field.sample(self.anywhere)}, self.repeat)
        return Row(
            method,
            **measured,
            node_max=float(off.max()),
            node_rms=float(np.sqrt((off * off).mean(dtype=np.float64))),
            node_wrong=float((off > ROUNDING).mean()),
            max_error=max(region.largest for region in found),
            rms_error=float(np.sqrt(np.mean([region.rms**2 for region in found]))),
            left_out=sum(region.jumps for region in found),
            lookups=len(self.anywhere) / seconds[method] / 1e6,
        )
