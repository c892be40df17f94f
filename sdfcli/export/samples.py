"""Training samples: random points with a mesh's exact distances, for networks as DeepSDF (Park et al. 2019), and in the
schemas of generators."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend, select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.export.dual_grid import DualGrid, dual_grid
from sdfcli.export.outer_edges import SEEN, OuterEdges, Outside
from sdfcli.export.schemas import SCHEMAS, Schema
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import FLOOD, GAP, SampleKeywords, SampleParams
from sdfcli.quality.accuracy import Places, face_directions, on_surface, surface_samples
from sdfcli.quality.check import confidence_of, verdict
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.files import check_ending, written_whole
from sdfcli.runtime.log import LOG
from sdfcli.runtime.memory import memory_errors
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene
from sdfcli.solid.solidify import leak_text, solid_mesh
from sdfcli.solid.surface import unsigned

if TYPE_CHECKING:
    from typing_extensions import Unpack

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

BUFFER = 1.03
"""Enclosing sphere's radius, in distances of the farthest vertex; as in DeepSDF's program."""
BATCH = 1 << 18
"""Samples per batch."""
AT_SURFACE = 1e-5
"""Distance, in domain edges, up to which a sample's normal is its nearest face's: the direction to the nearest point
has lost its digits."""


@dataclass(frozen=True, repr=False)
class Samples:
    """Points with signed distances, exact at the float32 coordinates stored here. In the order of `sigma`, uniform ones
    last: shuffle them, or draw subsets at random.

    Attributes:
        points: (n, 3) float32, in mesh units, or normalized: (point + offset) * scale.
        distance: (n,) float32, negative inside, in mesh units, or normalized: distance * scale.
        normals: (n, 3) float32, the distance's unit gradient, pointing outwards; None unless requested.
        surface: (k, 3) float32, points on the surface, at distance 0 up to rounding.
        surface_normals: (k, 3) float32, unit normals of their faces, 0 for faces without area; None unless requested.
        sharp: (s, 3) float32, points on sharp edges; none for schemas without.
        sharp_normals: (s, 3) float32, the mean of the adjacent faces' unit normals, of length 1.
        offset: (3,) float64, minus the centre of the mesh's bounding box.
        scale: normalized units per mesh unit: 1 / the enclosing sphere's radius for `deepsdf`.
        params: the parameters.
        mesh_sha256: the mesh's checksum, as in a field's info.
        facts: verdict, sign method with reason and confidence, counts, `scale` and `offset`, as `sdfcli samples --json`
            prints them.
        grid: crossings of a sparse grid's edges with the surface; None unless requested.
        parts: sizes of the groups in `points`: near the surface, near sharp edges, uniform.
    """

    points: Singles
    distance: Singles
    normals: Singles | None
    surface: Singles
    surface_normals: Singles | None
    sharp: Singles
    sharp_normals: Singles
    offset: Floats
    scale: float
    params: SampleParams
    mesh_sha256: str
    facts: dict[str, object]
    grid: DualGrid | None
    parts: tuple[int, int, int]

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a point is inside; a distance of 0 counts as outside."""
        return np.asarray(self.distance < 0)

    def __repr__(self) -> str:
        return (
            f"<Samples: {len(self.points):,}, {int(self.inside.sum()):,} inside, {len(self.surface):,} on the surface>"
        )

    @property
    def around(self) -> list[tuple[Singles, Singles]]:
        """Points (m, 3) near the surface, near sharp edges, and uniform, each with labels (m,): distances with the
        schema's sign."""
        ends, label = np.cumsum(self.parts)[:-1], self.distance * np.float32(-SCHEMAS[self.params.schema].inside)
        return list(zip(np.split(self.points, ends), np.split(label, ends), strict=True))

    @property
    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The file's arrays, by name, for the schema's loader, and `grid`'s as `grid_edge` and so on; without `offset`,
        `scale` and `info`."""
        grid = {} if self.grid is None else {f"grid_{name}": array for name, array in self.grid._asdict().items()}
        return SCHEMAS[self.params.schema].arrays(self) | grid

    def save(self, path: str | Path, force: bool = False, **info: Any) -> Path:
        """Writes an .npz file in the schema's format, whole or not at all; returns its path. The same samples give the
        same bytes, those of `sdfcli samples`.

        The file has `arrays`; `offset` and `scale`; and `info`, JSON with `parameters`, `mesh_sha256` and `facts`.
        DeepSDF's arrays are `pos` and `neg`, (n, 4) float32, rows of x, y, z and signed distance, outside and inside;
        and, if requested, `pos_normals`, `neg_normals`, `surface` and `surface_normals`.

        Args:
            path: the file.
            force: whether to replace an existing file.
            info: further entries of `info`.

        Raises:
            UsageError: the file exists, cannot be written, or does not end in .npz.
        """
        check_ending(Path(path), ".npz")
        target = Path(path)
        known = {"parameters": self.params.stored, "mesh_sha256": self.mesh_sha256, "facts": self.facts}
        arrays: dict[str, Any] = {**self.arrays, "offset": self.offset, "scale": np.float64(self.scale)}
        arrays["info"] = np.array(json.dumps(known | info))
        with written_whole(target, force) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)
        return target


@memory_errors("try a smaller --count")
@takes(SampleKeywords, SampleParams)
def samples(
    source: MeshSource | MeshDistance,
    *,
    device: str = "auto",
    threads: int | None = None,
    **parameters: Unpack[SampleKeywords],
) -> Samples:
    """Draws random points around a triangle mesh, with exact signed distances: training data for DeepSDF and similar
    networks. The same mesh and parameters give the same samples.

    Distances are `MeshDistance`'s: exact up to 1.2e-7 of its diagonal, in the mesh as read, whose holes are closed
    for signs only, unless `holes` is `cap`.

    Args:
        source: a path, a `trimesh.Trimesh`, a pair of arrays: vertices (v, 3) and faces (f, 3), or a `MeshDistance`,
            whose device and sign are then used.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. Samples do not depend on it.
        threads: CPU thread count; default: all CPUs available to the process.
        parameters: `schema`, `count`, `uniform`, `surface`, `sigma`, `normals`, `normalized`, `angle`, `seed`, `sign`,
            `gap` and `holes`: see `sdfcli.params.SampleParams`. No `sign`, `gap` or `holes` with a `MeshDistance`.

    Raises:
        InputError: the mesh cannot be read or used, or encloses nothing, so that its distances have no sign.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh or the samples do not fit into memory.
    """
    params = SampleParams.of(**parameters)
    if isinstance(source, MeshDistance):
        for name in ("sign", "gap", "holes"):
            if name in parameters:
                raise UsageError(f"{name}: a MeshDistance has its own; give it there")
        return draw(Shape.of(source), replace(params, sign=source.sign.method))
    backend = select_backend(device, threads)
    return draw(Shape.made(load_mesh(source, backend).on(backend), params, backend), params)


@dataclass(frozen=True)
class Shape:
    """A shape to draw samples of.

    index    exact signed distances: of the mesh, or of its solid.
    outside  where the mesh's edges are seen.
    given    the mesh as read.
    facts    facts about the solid, if it is one.
    """

    index: MeshDistance
    outside: Outside
    given: Mesh
    facts: dict[str, Any]

    @classmethod
    def of(cls, index: MeshDistance) -> Shape:
        """The shape of a mesh with an index."""
        return cls(index, Outside.of_mesh(index), index._given, {})

    @classmethod
    def made(cls, mesh: Mesh, params: SampleParams, backend: Backend, most_memory: int | None = None) -> Shape:
        """The shape of a mesh, or with `flood` that of its solid."""
        if params.sign != FLOOD:
            return cls.of(MeshDistance._of(Scene.of(treated(mesh, params.holes), params.sign, backend), mesh))
        solid, facts = solid_mesh(mesh, params.gap, backend, most_memory)
        index = MeshDistance._of(Scene.of(solid, "auto", backend), solid)
        fine = min(facts["gap"], mesh.unit * GAP)
        if facts["leak"]:
            LOG.warning(leak_text(facts["leak"] / mesh.unit))
        outside = Outside(index, unsigned(mesh, backend), SEEN * fine, facts["thickness"] / 2)
        return cls(index, outside, mesh, {"solid": facts})


def draw(shape: Shape, params: SampleParams) -> Samples:
    """`samples` of a shape. Raises InputError for distances without signs, unless `sign` is `none`."""
    index, schema = shape.index, SCHEMAS[params.schema]
    choice = index.sign
    if choice.method == "none" and not choice.requested:
        raise InputError(f"no signs, so no samples inside: {choice.reason}; use --sign none for unsigned distances")
    mesh, rng, counts = index.mesh, np.random.default_rng(params.seed), schema.counts_for(params)
    low, high = mesh.bounds
    offset = -(low + high) / 2
    if schema.half is None:
        radius = BUFFER * float(np.linalg.norm(mesh.vertices + offset, axis=1).max())
    else:
        radius = float((high - low).max()) / 2 / schema.half
    scale = 1 / radius
    place = _Place(schema, params.normalized or schema.half is not None, offset, radius)
    edges = OuterEdges.of(shape.given, params.angle or schema.angle, shape.outside) if schema.sharp_sigma else None
    if edges is not None and not edges.count:
        counts = counts._replace(near_sharp=0, sharp=0)

    def sharp(count: int) -> tuple[Floats, Floats]:
        assert edges is not None
        return edges.drawn(count, shape.outside, rng)

    sigma = schema.sigma or params.sigma
    around = []
    for at in _displaced(counts.near, sigma, lambda n: on_surface(mesh, n, rng), radius, rng):
        around.append(_labelled(index, params.normals, at, place))
    for at in _displaced(counts.near_sharp, schema.sharp_sigma, lambda n: sharp(n)[0], radius, rng):
        around.append(_labelled(index, params.normals, at, place))
    for n in _batches(counts.uniform):
        at = radius * schema.cube * rng.uniform(-1, 1, (n, 3)) - offset
        around.append(_labelled(index, params.normals, at, place))
    on = [surface_samples(mesh, Places.drawn(n, rng)) for n in _batches(counts.surface)]
    at_edges = [sharp(n) for n in _batches(counts.sharp)]
    empty = np.empty((0, 3), np.float32)
    points, distance, normals = zip(*around, strict=True) if around else ((empty,), (empty[:, 0],), (empty,))
    surface, surface_normals = zip(*on, strict=True) if on else ((empty,), (empty,))
    sharp_points, sharp_normals = zip(*at_edges, strict=True) if at_edges else ((empty,), (empty,))
    values = np.concatenate(distance)
    placed, sharp_placed = (np.concatenate([place.stored(each) for each in found]) for found in (surface, sharp_points))
    inside = int((values < 0).sum())
    if "confidence" not in index._known:
        index._known["confidence"] = confidence_of(index._scene)
    confidence = index._known["confidence"]
    facts: dict[str, object] = {
        "verdict": verdict(index._given.health, choice, confidence, None),
        "sign": choice.method,
        "sign_reason": choice.reason,
        "sign_confidence": confidence,
        "pos": len(values) - inside,
        "neg": inside,
        "surface": len(placed),
        "scale": scale,
        "offset": offset.tolist(),
        **shape.facts,
    }
    if params.schema != "deepsdf":
        facts |= {"schema": params.schema}
    if params.schema != "deepsdf" and len(values):
        facts |= {"label": f"{'positive' if schema.inside > 0 else 'negative'} inside"}
    if edges is not None:
        facts |= {"sharp": len(sharp_placed), "sharp_edges": edges.count}
    grid = None if params.grid is None else dual_grid(index, params.grid, place.placed)
    if grid is not None:
        facts |= {"grid_edges": len(grid.edge), "grid_cells": len(grid.cell)}
    has_normals = params.normals or schema.half is not None
    return Samples(
        points=np.concatenate(points),
        distance=values,
        normals=np.concatenate(normals) if params.normals else None,
        surface=placed,
        surface_normals=np.concatenate(surface_normals).astype(np.float32) if has_normals else None,
        sharp=sharp_placed,
        sharp_normals=np.concatenate(sharp_normals).astype(np.float32),
        offset=offset,
        scale=scale,
        params=params,
        mesh_sha256=shape.given.sha256,
        facts=facts,
        grid=grid,
        parts=(counts.near, counts.near_sharp, counts.uniform),
    )


class _Place(NamedTuple):
    """The normalisation."""

    schema: Schema
    normalized: bool
    offset: Floats
    radius: float

    def stored(self, points: Floats) -> Singles:
        """Points in mesh units as stored."""
        return self.schema.rounded(self.placed(points))

    def placed(self, points: Floats) -> Floats:
        """Points in mesh units, normalized."""
        return (points + self.offset) / self.radius if self.normalized else points

    def back(self, stored: Singles) -> Floats:
        """Stored points in mesh units."""
        at = stored.astype(np.float64)
        return np.asarray(at * self.radius - self.offset if self.normalized else at)


def _displaced(
    count: int,
    sigma: tuple[float, ...],
    drawn: Callable[[int], Floats],
    radius: float,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    """Drawn points (m, 3) with Gaussian noise, sigma by sigma, in batches; `count` in all."""
    kinds = len(sigma)
    for k, each in enumerate(sigma):
        for n in _batches(count * (k + 1) // kinds - count * k // kinds):
            yield drawn(n) + radius * each * rng.normal(size=(n, 3))


def _batches(count: int) -> Iterator[int]:
    """Sizes of at most BATCH with the sum `count`."""
    for first in range(0, count, BATCH):
        yield min(BATCH, count - first)


def _labelled(
    index: MeshDistance, with_normals: bool, points: Floats, place: _Place
) -> tuple[Singles, Singles, Singles]:
    """Stored points, and distances and normals at these, which rounding has moved; no normals unless requested."""
    stored = place.stored(points)
    at = place.back(stored)
    distance = index.signed_distance(at)
    normals = _normals(index, at, distance) if with_normals else np.empty((0, 3), np.float32)
    return stored, np.asarray(distance / place.radius if place.normalized else distance, np.float32), normals


def _normals(index: MeshDistance, at: Floats, distance: Floats) -> Singles:
    """The distance's unit gradients at points (n, 3): away from the nearest point, towards it inside; at the surface,
    its face's normal."""
    nearest, face = index.closest(at)
    away = at - nearest
    away *= np.where(distance < 0, -1.0, 1.0)[:, None]
    length = np.linalg.norm(away, axis=1)
    near = length <= AT_SURFACE * index.mesh.domain.length
    away[near] = face_directions(index.mesh, face[near])
    away[~near] /= length[~near, None]
    return np.asarray(away, np.float32)
