"""Proven distance between an extracted surface and the mesh, from a field's proven bounds; docs/internals/proof.md
derives it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Backend
from sdfcli.extract.marching_cubes import Surface
from sdfcli.field.field import Field, lattice_position
from sdfcli.field.proven import error_group, leaf_errors, proven_error
from sdfcli.field.stated_error import StatedError, is_unsigned
from sdfcli.mesh.arrays import Ints
from sdfcli.mesh.load import load_mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.scene import Scene

Floats = npt.NDArray[np.float64]

MARGIN = 1.05
"""Multiple of the largest difference at points of the surface, above which bounds are improved."""

NEAR = 2.0
"""Cells are halved until the mesh's part in them is within this multiple of the other direction's bound."""

HALVINGS, MOST_CELLS = 8, 1 << 20
"""Maximum halvings of a leaf, and cell count up to which cells are halved."""

CHUNK = 1 << 20
"""Leaves whose values are gathered together: 32 MB."""

ROUNDING = 1e-6
"""Allowance for a float32 query's error, in domain edges."""

NONE = 1e299
"""Kernel results from here on mean: no bound."""


@dataclass(frozen=True, eq=False)
class ProvenDistance:
    """Proven distance between an extracted surface and the mesh, in mesh units.

    Attributes:
        error: largest possible difference between the iso value and the exact distance at any point of the surface; for
            the iso value 0, its largest possible distance from the mesh. Infinite if no triangle has a bound.
        unbounded: triangles (k,) without a bound, at open holes; `error` is for the others.
        reverse: largest possible distance of the mesh's points from the surface; None for other iso values than 0.
        lost: leaves (k,) where the mesh may have surface that was lost: farther than the leaf's diagonal, and twice the
            error, from the extracted one.
        lost_at: (3,) centre of the leaf with the largest such distance; None if none is lost.
    """

    error: float
    unbounded: Ints
    reverse: float | None
    lost: Ints
    lost_at: Floats | None

    def __repr__(self) -> str:
        other = "" if self.reverse is None else f", reverse {self.reverse:.4g}"
        return f"<ProvenDistance: error {self.error:.4g}{other}>"


def proven_distance(surface: Surface, field: Field, iso: float, backend: Backend) -> ProvenDistance | None:
    """A field's extracted surface against the mesh. None without bounds for this level: for other levels than 0 every
    leaf needs one, as the distance is not continuous at jumps."""
    if field.leaf_bound is None or (iso != 0.0 and proven_error(field) is None):
        return None
    with backend.active():
        bound = _bounds(surface, field, iso, backend)
    unbounded = np.flatnonzero(bound >= NONE)
    error = np.inf if len(unbounded) == len(bound) else float(bound[bound < NONE].max())
    if iso != 0.0 or is_unsigned(field):
        return ProvenDistance(error, unbounded, None, np.empty(0, np.int64), None)
    reverse, away = _reverse(surface, field, backend, error)
    lost = np.flatnonzero(away > 0)
    centre = None if len(lost) == 0 else _centres(field, lost[[int(np.argmax(away[lost]))]])[0]
    return ProvenDistance(error, unbounded, reverse, lost, centre)


def _bounds(surface: Surface, field: Field, iso: float, backend: Backend) -> Floats:
    """Bounds (f,) on triangles; NONE or more: no bound."""
    xp = backend.xp
    near = leaf_errors(field)
    error = StatedError(float(near[:-1].max()), field.unit * float(field.info["parameters"]["band"]), proven=True)
    task = backend.group(
        "LevelTask",
        field=field._on_device(backend).sampler_group(backend, field.domain),
        error=error_group(field, error, backend),
        iso=iso,
    )
    vertex, face = backend.from_host(surface.vertices, np.float64), backend.from_host(surface.faces, np.uint32)
    off, bound = xp.empty(len(vertex)), xp.empty(len(face))
    backend.run("sdf_level_corners", len(vertex), task=task, vertex=vertex, off=off)
    middle = (vertex[face[:, 0]] + vertex[face[:, 1]] + vertex[face[:, 2]]) / 3
    backend.run("sdf_level_corners", len(face), task=task, vertex=middle, off=bound)
    found = max(float(backend.to_host(xp.where(each < NONE, each, 0.0).max())) for each in (off, bound))
    given = {"task": task, "face": face, "vertex": vertex, "off": off}
    backend.run("sdf_level_faces", len(face), found=found, margin=MARGIN, bound=bound, **given)
    return np.asarray(backend.to_host(bound))


def _centres(field: Field, leaves: Ints) -> Floats:
    edge = field.domain.length * 0.5 ** field.leaf_level[leaves].astype(np.float64)
    low = field.domain.origin + field.domain.length * lattice_position(field.leaf_key[leaves])
    return np.asarray(low + edge[:, None] / 2)


@dataclass(frozen=True)
class _Cells:
    """Parts of leaves. leaf (k,); low (k, 3) lower corners and edge (k,), in mesh units; value (k, 8), x fastest;
    near (k,) the leaf's bound, infinite for none."""

    leaf: Ints
    low: Floats
    edge: Floats
    value: Floats
    near: Floats

    def __len__(self) -> int:
        return len(self.leaf)

    def chosen(self, which: Any) -> _Cells:
        return _Cells(*(each[which] for each in vars(self).values()))

    def with_mesh(self) -> _Cells:
        """Those in which the mesh may have points: a trilinear function's extremes are at corners."""
        above = self.value.min(axis=1) <= self.near
        return self.chosen(above & (self.value.max(axis=1) >= -self.near))

    def halved(self) -> _Cells:
        """Their eighths in which the mesh may have points."""
        value = self.value.reshape(-1, 2, 2, 2)  # z, y, x
        for axis in (1, 2, 3):
            low, high = np.take(value, 0, axis), np.take(value, 1, axis)
            value = np.stack([low, (low + high) / 2, high], axis)
        parts = []
        for z, y, x in product((0, 1), repeat=3):
            own = value[:, z : z + 2, y : y + 2, x : x + 2].reshape(-1, 8)
            low = self.low + np.array([x, y, z]) * (self.edge / 2)[:, None]
            parts.append(_Cells(self.leaf, low, self.edge / 2, own, self.near).with_mesh())
        return _Cells.joined(parts)

    @staticmethod
    def joined(parts: list[_Cells]) -> _Cells:
        """Several cells' arrays, concatenated."""
        return _Cells(*(np.concatenate(each) for each in zip(*(vars(part).values() for part in parts), strict=True)))


def _cells(field: Field) -> _Cells:
    """The leaves in which the mesh may have points."""
    assert field.leaf_bound is not None
    backend = field._home
    arrays = field._arrays_on(backend)
    corner, value = arrays["leaf_corner"], arrays["value"]
    error, parts = leaf_errors(field), []
    for start in range(0, field.leaves, CHUNK):
        leaf = np.arange(start, min(start + CHUNK, field.leaves))
        own = backend.to_host(value[corner[start : start + CHUNK]]).astype(np.float64)
        edge = field.domain.length * 0.5 ** field.leaf_level[leaf].astype(np.float64)
        low, near = _centres(field, leaf) - edge[:, None] / 2, error[field.leaf_bound[leaf]]
        parts.append(_Cells(leaf, low, edge, own, near).with_mesh())
    return _Cells.joined(parts)


def _reverse(surface: Surface, field: Field, backend: Backend, error: float) -> tuple[float, Floats]:
    """Largest possible distance of the mesh from the surface; and by leaf (n,), its largest one where it is lost, else
    0."""
    mesh = load_mesh((surface.vertices, surface.faces.astype(np.int64)), backend)
    index = MeshDistance._of(Scene.of(mesh, "none", backend))
    slack, worst, away = ROUNDING * field.domain.length, 0.0, np.zeros(field.leaves)
    near = NEAR * error
    far = np.maximum(near, np.sqrt(3.0) * field.domain.length * 0.5 ** field.leaf_level.astype(np.float64))
    cells = _cells(field)
    for halvings in range(HALVINGS + 1):
        if len(cells) == 0:
            break
        distance = np.asarray(index.distance(cells.low + cells.edge[:, None] / 2)) + slack
        radius = np.sqrt(0.75) * cells.edge
        split = (distance + radius > near) & (distance - radius < near + far[cells.leaf])
        if halvings == HALVINGS or 8 * split.sum() > MOST_CELLS:
            split[:] = False
        done = ~split
        worst = max(worst, float((distance + radius)[done].max(initial=0.0)))
        lost = done & (distance - radius - 2 * slack > far[cells.leaf])
        np.maximum.at(away, cells.leaf[lost], distance[lost])
        cells = cells.chosen(split).halved()
    return worst, away
