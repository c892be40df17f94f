"""FieldWall: a field and a box as walls of a flow (see kernels/flow/wall.h)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.apps.flow.fluid import REACH, RESTITUTION, weight
from sdfcli.apps.flow.layout import ParticleStore
from sdfcli.backend import Array, Backend, C, Group
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.mesh import Domain

COARSE = 2
"""Map nodes per spacing."""

FINE = 2 * COARSE
"""Nodes per spacing in the lattice that the maps sum over."""

SHARE = 0.907
"""Map factor: matches three wall particle layers at half a spacing from a plane."""

NEAR = 1.0
"""Map extent beyond the radius of influence, in spacings."""

CLEARANCE = 0.45
"""Minimum particle distance from walls, in spacings."""

MOST_NODES = 1 << 28
"""Maximum node count in the maps' lattice."""

LAYERS = 16
"""Coarse node layers per slab."""


class FieldWall:
    """Walls for particles of one spacing: one side of a field's surface, and a box.

    All positions are relative to `origin`.

    field      None: the box only.
    inside     particles are inside the surface.
    low, high  (3,), box.
    """

    def __init__(
        self,
        backend: Backend,
        field: Field | None,
        inside: bool,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        origin: npt.NDArray[np.float64],
        spacing: float,
    ) -> None:
        self.backend, self._spacing = backend, spacing
        self.low, self.high = (np.asarray(corner, np.float64) for corner in (low, high))
        sampler: Group | None = None
        if field is not None:
            domain = Domain(field.domain.origin - origin, field.domain.length)
            sampler = field._on_device(backend).sampler_group(backend, domain)
        names = ("low_x", "low_y", "low_z", "high_x", "high_y", "high_z")
        corners = dict(zip(names, np.concatenate([self.low, self.high]).tolist(), strict=True))
        side = 0.0 if field is None else -1.0 if inside else 1.0
        self._bounds = backend.group("Bounds", field=sampler, side=side, **corners)
        self.map: Group = self._make_map()

    def clearance(self, points: Array) -> Array:
        """Distances (n,) float32 from points (n, 3) float32 to the nearest wall, negative behind it."""
        distance = self.backend.xp.empty(len(points), np.float32)
        self.backend.run("sdf_flow_clearance", len(points), bounds=self._bounds, points=points, distance=distance)
        return distance

    def push(
        self, store: ParticleStore, position: Array, velocity: Array, behind: Array, nearest: Array | None = None
    ) -> None:
        """Moves a sorted store's particles out of walls and makes them bounce. behind: (1,) uint32, incremented per own
        particle still behind a wall. nearest: (n, 4) float32, receives the unit vector away from each particle's
        nearest wall, and the distance from it."""
        self.backend.run(
            "sdf_flow_push",
            store.places,
            bounds=self._bounds,
            least=CLEARANCE * self._spacing,
            restitution=RESTITUTION,
            kind=store.kind,
            own=store.own,
            slab=store.slab,
            position=position,
            velocity=velocity,
            nearest=nearest,
            behind=behind,
        )

    def _make_map(self) -> Group:
        """Density map near walls, on a lattice over the box: sums over a lattice twice as fine, in slabs."""
        backend, xp = self.backend, self.backend.xp
        edge, fine_edge = self._spacing / COARSE, self._spacing / FINE
        across = np.ceil((self.high - self.low) / edge) + 1
        if not across.prod() <= MOST_NODES:
            raise UsageError(f"{across.prod():.3g} nodes of the walls' map are too many; use a larger spacing")
        nx, ny, nz = (int(count) for count in across)
        offsets, share = offsets_within_reach(self._spacing)
        border = int(np.abs(offsets).max())
        fine_x, fine_y = 2 * (nx - 1) + 1 + 2 * border, 2 * (ny - 1) + 1 + 2 * border
        step = backend.from_host((offsets @ [1, fine_x, fine_x * fine_y]).astype(np.int32))
        weights = backend.from_host(share.astype(np.float32))
        node = backend.filled((nz, ny, nx), C.NONE, np.uint32)
        maps, count = [], 0
        for first in range(0, nz, LAYERS):
            layers = min(LAYERS, nz - first)
            fine_z = 2 * (layers - 1) + 1 + 2 * border
            corner = self.low + fine_edge * np.array([-border, -border, 2 * first - border])
            distance = self._clearance_on_lattice(corner, fine_edge, (fine_x, fine_y, fine_z))
            solid = xp.clip(np.float32(0.5) - distance / np.float32(fine_edge), 0, 1)
            own = slice(border, -border, 2)
            near = abs(distance.reshape(fine_z, fine_y, fine_x)[own, own, own]) < (REACH + NEAR) * self._spacing
            z, y, x = xp.nonzero(near)
            part = xp.empty(len(z), np.float32)
            at = (2 * z + border) * (fine_x * fine_y) + (2 * y + border) * fine_x + 2 * x + border
            backend.run(
                "sdf_flow_map",
                len(z),
                offsets=len(step),
                fine=at.astype(np.uint32),
                solid=solid,
                offset=step,
                share=weights,
                map=part,
            )
            node[first : first + layers][near] = xp.arange(count, count + len(z), dtype=np.uint32)
            maps.append(part)
            count += len(z)
        low = dict(zip("xyz", self.low.tolist(), strict=True))
        return backend.group(
            "Wall", there=1, over_edge=1 / edge, nx=nx, ny=ny, nz=nz, node=node, map=xp.concatenate(maps), **low
        )

    def _clearance_on_lattice(self, corner: npt.NDArray[np.float64], edge: float, across: tuple[int, int, int]) -> Any:
        """Distances (n,) float32 at lattice nodes, x fastest."""
        xp = self.backend.xp
        axes = [xp.asarray((corner[k] + edge * np.arange(across[k])).astype(np.float32)) for k in range(3)]
        points = xp.empty((across[2], across[1], across[0], 3), np.float32)
        points[..., 0], points[..., 1], points[..., 2] = axes[0], axes[1][:, None], axes[2][:, None, None]
        return self.clearance(points.reshape(-1, 3))


def offsets_within_reach(spacing: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Offsets (n, 3) on the fine lattice within the radius of influence, and each wall node's contribution (n,) to the
    number density."""
    edge, most = spacing / FINE, math.floor(REACH * FINE)
    steps = np.arange(-most, most + 1)
    offsets = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)
    squares = (offsets**2).sum(axis=1)
    offsets = offsets[(squares > 0) & (squares < (REACH * FINE) ** 2)]
    length = np.sqrt((offsets**2).sum(axis=1)) * edge
    return offsets, SHARE / FINE**3 * np.array([weight(r, REACH * spacing) for r in length])
