"""Training samples: random points with a mesh's exact distances, for networks as DeepSDF (Park et al. 2019)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import select_backend
from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.holes import treated
from sdfcli.mesh.load import MeshSource, load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import SampleKeywords, SampleParams
from sdfcli.quality.accuracy import Places, face_directions, on_surface, surface_samples
from sdfcli.quality.check import confidence_of, verdict
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.files import check_ending, written_whole
from sdfcli.runtime.memory import memory_errors
from sdfcli.runtime.signature import takes
from sdfcli.scene import Scene

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
        offset: (3,) float64, minus the centre of the mesh's bounding box.
        scale: 1 / the enclosing sphere's radius.
        params: the parameters.
        mesh_sha256: the mesh's checksum, as in a field's info.
        facts: verdict, sign method with reason and confidence, counts, `scale` and `offset`, as `sdfcli samples --json`
            prints them.
    """

    points: Singles
    distance: Singles
    normals: Singles | None
    surface: Singles
    surface_normals: Singles | None
    offset: Floats
    scale: float
    params: SampleParams
    mesh_sha256: str
    facts: dict[str, object]

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """(n,) whether a point is inside; a distance of 0 counts as outside."""
        return np.asarray(self.distance < 0)

    def __repr__(self) -> str:
        return (
            f"<Samples: {len(self.points):,}, {int(self.inside.sum()):,} inside, {len(self.surface):,} on the surface>"
        )

    def save(self, path: str | Path, force: bool = False, **info: Any) -> Path:
        """Writes an .npz file in DeepSDF's format, whole or not at all; returns its path. The same samples give the
        same bytes, those of `sdfcli samples`.

        The file has `pos` and `neg`, (n, 4) float32, rows of x, y, z and signed distance, outside and inside; `offset`
        and `scale`; `info`, JSON with `parameters`, `mesh_sha256` and `facts`; and, if requested, `pos_normals`,
        `neg_normals`, `surface` and `surface_normals`.

        Args:
            path: the file.
            force: whether to replace an existing file.
            info: further entries of `info`.

        Raises:
            UsageError: the file exists, cannot be written, or does not end in .npz.
        """
        check_ending(Path(path), ".npz")
        target, inside = Path(path), self.inside
        rows = np.column_stack((self.points, self.distance))
        arrays: dict[str, Any] = {"pos": rows[~inside], "neg": rows[inside]}
        if self.normals is not None:
            arrays |= {"pos_normals": self.normals[~inside], "neg_normals": self.normals[inside]}
        if self.params.surface:
            arrays["surface"] = self.surface
            if self.surface_normals is not None:
                arrays["surface_normals"] = self.surface_normals
        known = {"parameters": asdict(self.params), "mesh_sha256": self.mesh_sha256, "facts": self.facts}
        arrays |= {"offset": self.offset, "scale": np.float64(self.scale), "info": np.array(json.dumps(known | info))}
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
        parameters: `count`, `uniform`, `surface`, `sigma`, `normals`, `normalized`, `seed`, `sign` and `holes`:
            see `sdfcli.params.SampleParams`. No `sign` or `holes` with a `MeshDistance`.

    Raises:
        InputError: the mesh cannot be read or used, or encloses nothing, so that its distances have no sign.
        UsageError: a parameter is out of range.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the mesh or the samples do not fit into memory.
    """
    params = SampleParams.of(**parameters)
    if isinstance(source, MeshDistance):
        if "sign" in parameters:
            raise UsageError("sign: a MeshDistance has its own; give it there")
        if "holes" in parameters:
            raise UsageError("holes: a MeshDistance has its own; give them there")
        params = replace(params, sign=source.sign.method)
    else:
        backend = select_backend(device, threads)
        mesh = load_mesh(source, backend).on(backend)
        source = MeshDistance._of(Scene.of(treated(mesh, params.holes), params.sign, backend), mesh)
    return draw(source, params)


def draw(index: MeshDistance, params: SampleParams) -> Samples:
    """`samples` of a mesh with an index. Raises InputError for distances without signs, unless `sign` is `none`."""
    choice = index.sign
    if choice.method == "none" and not choice.requested:
        raise InputError(f"no signs, so no samples inside: {choice.reason}; use --sign none for unsigned distances")
    mesh, rng = index.mesh, np.random.default_rng(params.seed)
    low, high = mesh.bounds
    offset = -(low + high) / 2
    radius = BUFFER * float(np.linalg.norm(mesh.vertices + offset, axis=1).max())
    scale = 1 / radius
    around = [_labelled(index, params, points, offset, radius) for points in _around(mesh, params, offset, radius, rng)]
    on = list(_on_surface(mesh, params.counts[2], rng))
    empty = np.empty((0, 3), np.float32)
    points, distance, normals = zip(*around, strict=True) if around else ((empty,), (empty[:, 0],), (empty,))
    surface, surface_normals = zip(*on, strict=True) if on else ((empty,), (empty,))
    values = np.concatenate(distance)
    placed = np.concatenate([_stored(each, params, offset, radius) for each in surface])
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
    }
    return Samples(
        points=np.concatenate(points),
        distance=values,
        normals=np.concatenate(normals) if params.normals else None,
        surface=placed,
        surface_normals=np.concatenate(surface_normals).astype(np.float32) if params.normals else None,
        offset=offset,
        scale=scale,
        params=params,
        mesh_sha256=index._given.sha256,
        facts=facts,
    )


def _around(
    mesh: Mesh, params: SampleParams, offset: Floats, radius: float, rng: np.random.Generator
) -> Iterator[Floats]:
    """Points (m, 3) near the surface, sigma by sigma, then uniform ones; in batches."""
    near, uniform, _ = params.counts
    kinds = len(params.sigma)
    for k, sigma in enumerate(params.sigma):
        for n in _batches(near * (k + 1) // kinds - near * k // kinds):
            yield on_surface(mesh, n, rng) + radius * sigma * rng.normal(size=(n, 3))
    for n in _batches(uniform):
        yield radius * rng.uniform(-1, 1, (n, 3)) - offset


def _on_surface(mesh: Mesh, count: int, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
    """Points (m, 3) on the surface and unit normals (m, 3), in batches."""
    for n in _batches(count):
        yield surface_samples(mesh, Places.drawn(n, rng))


def _batches(count: int) -> Iterator[int]:
    """Sizes of at most BATCH with the sum `count`."""
    for first in range(0, count, BATCH):
        yield min(BATCH, count - first)


def _stored(points: Floats, params: SampleParams, offset: Floats, radius: float) -> Singles:
    """Points in mesh units as stored."""
    return np.asarray((points + offset) / radius if params.normalized else points, np.float32)


def _labelled(
    index: MeshDistance, params: SampleParams, points: Floats, offset: Floats, radius: float
) -> tuple[Singles, Singles, Singles]:
    """Stored points, and distances and normals at these, which rounding has moved; no normals unless requested."""
    stored = _stored(points, params, offset, radius)
    at = stored.astype(np.float64)
    if params.normalized:
        at = at * radius - offset
    distance = index.signed_distance(at)
    normals = _normals(index, at, distance) if params.normals else np.empty((0, 3), np.float32)
    return stored, np.asarray(distance / radius if params.normalized else distance, np.float32), normals


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
