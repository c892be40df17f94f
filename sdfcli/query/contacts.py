"""`contacts`: least distance, penetration depth and contact points between a posed mesh and a field."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, Group
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field, is_cupy
from sdfcli.field.proven import error_for_bounds, error_group
from sdfcli.field.stated_error import is_unsigned
from sdfcli.field.store import as_field
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.load import MeshSource
from sdfcli.mesh.mesh import PADDING
from sdfcli.params import INSIDE, real
from sdfcli.query.poses import checked_poses
from sdfcli.query.sphere_tree import ABREAST, SphereTree
from sdfcli.query.swallowed import pieces_of, swallowed

VERDICTS = ("clear", "touching", "penetrating")
"""Meaning of `Contacts.verdict`."""
TOUCHING, PENETRATING = 1, 2

POSES = 256
"""Poses per batch on the CPU, whose nodes stay in the cache."""

POSES_ON_GPU = 8192
"""Poses per batch on a GPU."""

MOST_PAIRS = 1 << 24
"""Maximum (pose, node) pairs per batch before it is divided; with their results, 1 GB."""

ROUNDING = 2.0**-22
"""Maximum position error, in edges of the mesh's domain: 0.9 / 2^24 from vertices, plus 2.6 / 2^24 from centroids."""

POSE_ROUNDING = 2.0**-50
"""Maximum position error from applying the pose, as a fraction of the coordinates."""

PADDING_ROUNDING = 2.0**-48
"""Maximum rounding error in a domain's padding, as a fraction of the coordinates; subtracted from the padding."""

FARTHEST = 1e9
"""Maximum distance between a pose and the field's domain, in domain edges; float64 has too few digits beyond."""


@dataclass(frozen=True)
class Manifold:
    """Contacts, one row each, sorted by pose, then by triangle. NumPy or CuPy arrays, in field units.

    pose      (k,) int64.
    triangle  (k,) int64, index in the mesh file, from 0.
    distance  (k,) float64: the triangle's least signed distance.
    point     (k, 3) float64: where the distance is least, on the posed mesh.
    normal    (k, 3) float64: unit outward normal there, from the field's gradient; 0 where that vanishes all around.
    """

    pose: Ints
    triangle: Ints
    distance: Floats
    point: Floats
    normal: Floats

    def __len__(self) -> int:
        """Contact count."""
        return len(self.pose)

    def __repr__(self) -> str:
        return f"<Manifold: {len(self):,} contacts>"

    @staticmethod
    def joined(parts: list[Manifold], xp: ModuleType = np) -> Manifold:
        """Concatenates manifolds. xp: NumPy, or CuPy for its arrays."""
        return Manifold(**_rows_of(parts, tuple(vars(parts[0])), xp))


@dataclass(frozen=True)
class Contacts:
    """The mesh's nearest or deepest point at each pose. NumPy or CuPy arrays, one row per pose, in field units.

    distance  (t,) float64: the mesh's least signed distance in the field, known to a quarter of the stated error there;
              where bounds are proven, the distance at the point with the least lower bound;
              outside the field's domain, a lower bound (`Field.sample` gives an upper one).
              Where the mesh encloses a solid of the field: minus a lower bound on the motion that separates them.
    low       (t,) float64: lower bound on the true least distance, from the field's error.
    high      (t,) float64: upper bound.
    verdict   (t,) uint8: 0 clear (low > 0), 1 touching (undecided by the bounds), 2 penetrating (high < 0); VERDICTS.
    point     (t, 3) float64: where the distance is least, on the posed mesh.
    normal    (t, 3) float64: unit outward normal there, from the trilinear field's gradient (for its
              accuracy see docs/reference/commands/collide.md); 0 where that vanishes all around. `MeshDistance.closest`
              of the field's mesh gives the exact one.
    triangle  (t,) int64: index in the mesh file, from 0. Of triangles nearly as near (see `distance`), the one reported
              may depend on the margin.
    outside_domain  (t,) bool: whether `point` lies outside the field's domain, so that `distance` is a lower bound.
    proven    (t,) bool: whether `low` and `high` follow from proven bounds (see `Field.bound`). False: from the stated
              error; and where the mesh encloses a solid of the field, as the mesh's inside is not proven.
    manifold  all triangles with least distance up to the margin; empty without a margin.
    """

    distance: Floats
    low: Floats
    high: Floats
    verdict: npt.NDArray[np.uint8]
    point: Floats
    normal: Floats
    triangle: Ints
    outside_domain: Bools
    proven: Bools
    manifold: Manifold

    def __len__(self) -> int:
        """Pose count."""
        return len(self.distance)

    def __repr__(self) -> str:
        return f"<Contacts: {len(self):,} poses, {len(self.manifold):,} contacts>"


def contacts(
    field: Field | str | PathLike[str],
    mesh: MeshSource | SphereTree,
    poses: npt.ArrayLike,
    *,
    margin: float | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Contacts:
    """Computes a mesh's least distances to a field's surface at each pose, with bounds, and its contacts.

    Distances over a triangle are bounded from a few sample points, as a distance changes by at most the distance moved
    (after Macklin et al. 2020, with guaranteed bounds in place of a local search); a sphere tree culls most triangles.
    In a field of `build(prove=True)` whose every leaf has a bound, bounds and verdicts follow from the leaves' proven
    bounds. In others they are as reliable as the field's stated error, which is measured. Where surfaces meet, mesh
    defects do not matter: the mesh counts as a set of triangles. Where none meet, a solid of the field may still lie
    within the mesh; this is tested if the mesh has an inside, as for `MeshDistance`.

    Args:
        field: a Field, or its path; signed. In an unsigned field, distances are to the surface and nothing penetrates.
        mesh: a path, a `trimesh.Trimesh`, or vertices (v, 3) and faces (f, 3); for repeated calls, or another unit than
            the field's, a `SphereTree`.
        poses: (t, 4, 4) or a single (4, 4), from mesh frame to field frame: a rotation, a uniform scale and a
            translation.
        margin: maximum distance for triangles in the manifold, in field units; None: no manifold.
        device: `auto`, `cpu`, `cuda` or `cuda:N`, for NumPy poses. CuPy poses run on their own GPU and return CuPy
            arrays; a `SphereTree` runs on its own device. Results do not depend on the device.
        threads: CPU thread count; default: all CPUs available to the process.

    Raises:
        InputError: an unreadable field or mesh; a mesh file in another unit than the field's, unless the poses' scale
            converts it; poses with shear, uneven scale or reflection, or too far away; a field without a stated error.
        UsageError: an invalid margin or device.
        DeviceError: the device or its software is missing.
        OutOfMemoryError: the field or the mesh does not fit into memory.
    """
    if margin is not None and not np.isfinite(real(margin)):
        raise UsageError(f"--margin {margin}: use a finite distance")
    field = as_field(field)
    tree = SphereTree._of(mesh, poses, device, threads)
    backend = tree._backend
    with backend.active():
        given, scales = checked_poses(poses)
        tree._compare(field, scales)
        descent = Descent(field, tree, given, scales)
        found = descent.all(margin)
        descent.add_swallowed(found)
    if is_cupy(poses) or backend.xp is np:
        return found
    return on_host(backend, found)


def on_host(backend: Backend, found: Contacts) -> Contacts:
    """Contacts as NumPy arrays."""
    host = {name: backend.to_host(value) for name, value in vars(found).items() if name != "manifold"}
    return Contacts(
        **host, manifold=Manifold(**{name: backend.to_host(value) for name, value in vars(found.manifold).items()})
    )


def batch_size(backend: Backend) -> int:
    """Poses per batch on a device."""
    return POSES if backend.xp is np else POSES_ON_GPU


class Descent:
    """Traversal of the sphere tree by a mesh at poses."""

    def __init__(self, field: Field, tree: SphereTree, poses: Floats, scales: Floats) -> None:
        """Takes poses (t, 4, 4) and scales (t,) from `checked_poses`. Raises InputError for a room's field, and for
        poses that are too far away."""
        if field.info.get("parameters", {}).get("sign") == INSIDE:
            raise InputError(
                "contacts: not for fields with --sign inside, as a room's walls go on where the field ends; use the "
                "scan's unsigned field"
            )
        self.field, self.tree, self.backend = field, tree, tree._backend
        self.given, self.given_scales = poses, scales
        self.error, self.unsigned = error_for_bounds(field), is_unsigned(field)
        self.error_group = error_group(field, self.error, self.backend)
        domain, edge = tree.mesh.domain, field.domain.length
        rotated = poses[:, :3, :3]
        terms = [*(rotated[:, :, k] * domain.origin[k] for k in range(3)), poses[:, :3, 3]]
        moved = terms[0] + terms[1] + terms[2] + terms[3]  # fixed summation order: einsum's depends on the CPU
        self.poses = np.ascontiguousarray(np.concatenate((rotated * domain.length, moved[:, :, None]), axis=2))
        self.scales = scales * domain.length
        away = np.abs(moved - field.domain.origin).max(axis=1, initial=0.0) + self.scales
        if len(wrong := np.flatnonzero(~(away <= FARTHEST * edge))):
            raise InputError(
                f"pose {wrong[0]}: the mesh lies {away[wrong[0]] / edge:.3g} edges of the field's domain away; are the "
                "units those of the field?"
            )
        summed = sum(map(np.abs, terms)).max(axis=1, initial=0.0)
        coordinates = summed + away + np.abs(field.domain.origin).max()
        self.rounding = ROUNDING * self.scales + POSE_ROUNDING * coordinates
        placed = "domain" in field.info["parameters"]  # user-defined domain: the mesh may touch its faces
        rounding = PADDING_ROUNDING * (1 + np.abs(field.domain.origin).max() / edge)
        self.padding = 0.0 if placed else max(0.0, PADDING / (1 + 2 * PADDING) - rounding)
        sampler = field._on_device(self.backend)
        self.sampler: Group = sampler.sampler_group(self.backend, field.domain)
        self.batch = batch_size(self.backend)

    def all(self, margin: float | None) -> Contacts:
        """Contacts at all poses."""
        starts = range(0, max(1, len(self.poses)), self.batch)
        parts = [part for first in starts for part in self.divided(first, first + self.batch, margin)]
        return _joined(self.backend, parts)

    def divided(self, first: int, last: int, margin: float | None) -> list[Contacts]:
        """Contacts at poses first .. last - 1, in parts that fit into memory."""
        last = min(last, len(self.poses))
        found = self.some(first, last, margin)
        if found is not None:
            return [found]
        middle = (first + last) // 2
        return [*self.divided(first, middle, margin), *self.divided(middle, last, margin)]

    def some(self, first: int, last: int, margin: float | None) -> Contacts | None:
        """Contacts at poses first .. last - 1; None if they have too many pairs for a batch."""
        backend, xp, tree, count = self.backend, self.backend.xp, self.tree, last - first
        posed = self._posed(first, last, -np.inf if margin is None else margin)
        least = xp.zeros(count, np.uint64)
        nodes = tree._levels[-1].count
        pose = xp.repeat(xp.arange(count, dtype=np.uint32), nodes)
        node = xp.tile(xp.arange(nodes, dtype=np.uint32), count)
        for height in range(len(tree._levels) - 1, -1, -1):
            pairs = {"pose": pose, "node": node, "sphere": tree._levels[height].sphere, "posed": posed, "least": least}
            bound, keep = xp.empty(len(pose), np.float64), xp.empty(len(pose), np.uint8)
            backend.run("sdf_contact_bound", len(pose), bound=bound, **pairs)
            backend.run("sdf_contact_keep", len(pose), bound=bound, keep=keep, **pairs)
            opened = backend.compact(keep)
            if height == 0:
                return self._of_triangles(first, last, posed, pose[opened], node[opened], least, margin)
            if count > 1 and ABREAST * len(opened) > MOST_PAIRS:
                return None
            below_pose, below = (xp.empty(ABREAST * len(opened), np.uint32) for _ in range(2))
            values = {"opened": opened, "pose": pose, "node": node, "child_pose": below_pose, "child": below}
            backend.run("sdf_contact_children", len(below), **values)
            pose, node = below_pose, below
        raise AssertionError

    def add_swallowed(self, found: Contacts) -> None:
        """Where surfaces do not meet, finds solids of the field within the posed mesh, and updates `found` in place."""
        apart = np.flatnonzero(self.backend.to_host(found.verdict) != PENETRATING)
        if self.unsigned or not len(apart):
            return
        pieces = pieces_of(self.field, self.backend)
        within = swallowed(self.tree._solid, pieces, self.given[apart], self.given_scales[apart])
        if not len(within.pose):
            return
        pose = apart[within.pose]
        error = self.error.at(within.inner) + self.rounding[pose]
        high = error - within.depth
        values: dict[str, Any] = {"distance": -within.depth, "low": -within.depth - error, "high": high}
        values |= {"verdict": np.where(high < 0, PENETRATING, TOUCHING), "point": within.point, "normal": within.normal}
        values["outside_domain"] = np.zeros(len(pose), bool)  # a solid of the field lies in its domain
        values["proven"] = np.zeros(len(pose), bool)  # the posed mesh's inside is not
        for name, value in {**values, "triangle": within.triangle}.items():
            array = getattr(found, name)
            array[self.backend.from_host(pose)] = self.backend.from_host(value, array.dtype)

    def _posed(self, first: int, last: int, margin: float) -> Group:
        backend = self.backend
        return backend.group(
            "Posed",
            pose=backend.from_host(self.poses[first:last]),
            scale=backend.from_host(self.scales[first:last]),
            field=self.sampler,
            padding=self.padding,
            error=self.error_group,
            margin=margin,
        )

    def _of_triangles(
        self, first: int, last: int, posed: Group, pose: Array, slot: Array, least: Array, margin: float | None
    ) -> Contacts:
        """Contacts from pairs (k,), each a pose relative to `first` and a slot, sorted by pose."""
        backend, xp, order = self.backend, self.backend.xp, self.tree._order
        bound, value, upper = (xp.empty(len(pose), np.float64) for _ in range(3))
        point = xp.empty((len(pose), 3), np.float64)
        found, smallest = (xp.zeros(last - first, np.uint64) for _ in range(2))
        pairs = {"pose": pose, "slot": slot, "bound": bound, "found": found}
        backend.run(
            "sdf_contact_deepest",
            len(pose),
            triangle=order.triangle,
            sphere=self.tree._levels[0].sphere,
            posed=posed,
            least=least,
            value=value,
            upper=upper,
            point=point,
            **pairs,
        )
        backend.run("sdf_contact_first", len(pose), triangle_id=order.triangle_id, first=smallest, **pairs)
        triangle = order.triangle_id[slot]
        row = xp.flatnonzero(smallest[pose] + triangle == np.uint64(1 << 32)).astype(np.int64)
        low, high, verdict = (xp.empty(len(row), dtype) for dtype in (np.float64, np.float64, np.uint8))
        backend.run(
            "sdf_contact_verdict",
            len(row),
            row=row,
            bound=bound,
            upper=upper,
            rounding=backend.from_host(self.rounding[first:last]),
            error=self.error_group,
            is_unsigned=int(self.unsigned),
            low=low,
            high=high,
            verdict=verdict,
        )
        pose = pose.astype(np.int64) + first
        wanted = xp.flatnonzero(value <= margin) if margin is not None else xp.empty(0, np.int64)
        wanted = wanted[backend.sort((pose[wanted] << 32 | triangle[wanted]).astype(np.uint64))]
        lower, higher = backend.from_host(self.field.bounds)
        return Contacts(
            distance=value[row],
            low=low,
            high=high,
            verdict=verdict,
            point=point[row],
            normal=self._normals(point[row]),
            triangle=triangle[row].astype(np.int64),
            outside_domain=((point[row] < lower) | (point[row] > higher)).any(axis=1),
            proven=xp.full(len(row), self.error.proven),
            manifold=Manifold(
                pose=pose[wanted],
                triangle=triangle[wanted].astype(np.int64),
                distance=value[wanted],
                point=point[wanted],
                normal=self._normals(point[wanted]),
            ),
        )

    def _normals(self, point: Array) -> Array:
        normal = self.backend.xp.empty_like(point)
        self.backend.run("sdf_contact_normals", len(point), point=point, field=self.sampler, normal=normal)
        return normal


def _joined(backend: Backend, parts: list[Contacts]) -> Contacts:
    if len(parts) == 1:
        return parts[0]
    names = tuple(name for name in vars(parts[0]) if name != "manifold")
    manifold = Manifold.joined([part.manifold for part in parts], backend.xp)
    return Contacts(**_rows_of(parts, names, backend.xp), manifold=manifold)


def _rows_of(parts: list[Any], names: tuple[str, ...], xp: Any) -> dict[str, Any]:
    """The arrays of several objects by name, concatenated."""
    return {name: xp.concatenate([getattr(part, name) for part in parts]) for name in names}
