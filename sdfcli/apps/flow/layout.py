"""Particles on a device in one of three layouts, and their buckets (see kernels/flow/buckets.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.backend import Array, Backend, C, Group
from sdfcli.errors import UsageError

LAYOUTS = {"compact": C.LAYOUT_COMPACT, "bucket": C.LAYOUT_BUCKET, "index": C.LAYOUT_INDEX}
"""`index`: by number, in linked lists; `bucket`: fixed capacity per bucket (both Tomioka et al. 2025); `compact`:
sorted by bucket without gaps (after Green 2008). Results do not depend on the layout."""

WIDER = 1.1
"""Bucket edge in radii of influence, with a margin for the motion within a step, as in the paper's case."""

WIDER_FOR_FALLS = 1.2
"""Bucket edge for falling water, which is as fast when it splashes."""

ROOM = 32
"""Initial bucket capacity in the layout `bucket`; doubled on overflow."""

LISTED = 64
"""Capacity of a particle's neighbour candidate list: about 45 occur, at most 71 in falling water. Particles with more
search the buckets each time."""

MOST_BUCKETS = 1 << 27
"""Maximum bucket count."""

MOST_PLACES = 1 << 30
"""Maximum particle capacity."""


def check_layout(layout: str) -> None:
    """Raises UsageError for a name not in LAYOUTS."""
    if layout not in LAYOUTS:
        raise UsageError(f"--layout {layout}: use {', '.join(LAYOUTS)}")


@dataclass(frozen=True)
class Grid:
    """Buckets over a box.

    low, high  box: particles outside are removed.
    edge       bucket edge.
    farthest   maximum particle motion per step without missing a neighbour.
    across     bucket counts along x, y and z, including a one-bucket border.
    """

    low: tuple[float, float, float]
    high: tuple[float, float, float]
    edge: float
    farthest: float
    across: tuple[int, int, int]

    @classmethod
    def over(cls, low: npt.ArrayLike, high: npt.ArrayLike, reach: float, wider: float = WIDER) -> Grid:
        """Buckets for a radius of influence. Raises UsageError for too many."""
        edge = wider * reach
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        across = np.floor((high - low) / edge) + 3
        if not across.prod() <= MOST_BUCKETS:
            raise UsageError(f"{across.prod():.3g} buckets are too many; use a larger spacing, or a smaller domain")
        x, y, z = low.tolist()
        to_x, to_y, to_z = high.tolist()
        nx, ny, nz = map(int, across)
        return cls((x, y, z), (to_x, to_y, to_z), edge, (edge - reach) / 2, (nx, ny, nz))

    @property
    def buckets(self) -> int:
        """Bucket count."""
        return self.across[0] * self.across[1] * self.across[2]

    def group(self, backend: Backend) -> Group:
        """Buckets as a kernel argument."""
        (x, y, z), (nx, ny, nz) = self.low, self.across
        return backend.group("BucketGrid", x=x, y=y, z=z, over_edge=1 / self.edge, nx=nx, ny=ny, nz=nz)

    def slab(self, backend: Backend, layers: Layers) -> Group:
        """Layers of buckets as a kernel argument."""
        stride = math.prod(self.across[: layers.axis])
        return backend.group(
            "Slab", stride=stride, across=self.across[layers.axis], first=layers.first, last=layers.last
        )

    def layer(self, place: npt.NDArray[np.float32], axis: int) -> npt.NDArray[np.int64]:
        """Layers (n,) of positions (n, 3) float32 along an axis, but for rounding."""
        at = np.clip((place[:, axis] - self.low[axis]) / self.edge, 0, self.across[axis] - 3)
        return np.asarray(at.astype(np.int64) + 1)


@dataclass(frozen=True)
class Layers:
    """Layers of buckets, from the first to before the last, along an axis."""

    axis: int
    first: int
    last: int


class ParticleStore:
    """Particles on a device.

    places              capacity; some places may be empty.
    position, velocity  (places, 3) float32, in metres and metres per second.
    kind                (places,) uint8: C.FLUID, C.WALL or C.GONE.
    number              (places,) uint32.
    own                 (places,) uint32, buckets, after `sort`.
    end                 (buckets,) uint32, each bucket's end in the order by buckets, after `sort`.
    slab                the device's layers of buckets, as a kernel argument.
    spare_position, spare_velocity  temporaries within a step.
    """

    def __init__(
        self,
        backend: Backend,
        layout: str,
        grid: Grid,
        position: npt.NDArray[np.float32],
        velocity: npt.NDArray[np.float32],
        kind: npt.NDArray[np.uint8],
        number: npt.NDArray[np.uint32],
        room: int = ROOM,
        listed: int = LISTED,
        layers: Layers | None = None,
        spare: int = 0,
    ) -> None:
        """Copies host arrays, sorted by number and within the grid. listed: LISTED, or 0 for no lists. layers: the
        device's share; default: all. spare: empty places after the particles.

        Raises UsageError for too many places.
        """
        self.backend, self.layout, self.grid, self.room = backend, LAYOUTS[layout], grid, room
        n, xp = len(position), backend.xp
        fixed = grid.buckets * room if self.layout == C.LAYOUT_BUCKET else 0
        self.places = max(n, fixed) + spare
        self.slab = grid.slab(backend, layers or Layers(2, 0, grid.across[2]))
        if self.places > MOST_PLACES:
            raise UsageError(
                f"{self.places:,} places for particles are too many; use another layout, or larger spacing"
            )
        self.position, self.velocity, self.spare_position, self.spare_velocity = (
            xp.zeros((self.places, 3), np.float32) for _ in range(4)
        )
        self.kind, self._spare_kind = (backend.filled(self.places, C.GONE, np.uint8) for _ in range(2))
        self.number, self._spare_number, self.own, self._spare_own = (
            xp.zeros(self.places, np.uint32) for _ in range(4)
        )
        self._arrival, self._member, self._ranked = (xp.zeros(self.places, np.uint32) for _ in range(3))
        self.end, self._most = xp.zeros(grid.buckets, np.uint32), xp.zeros(1, np.uint64)
        self._link = xp.empty(self.places + grid.buckets, np.uint32) if self.layout == C.LAYOUT_INDEX else None
        self._listed, self._many, self._list = listed, None, None
        if listed:
            self._many, self._list = xp.zeros(self.places, np.uint32), xp.empty(self.places * listed, np.uint32)
        for array, values in (
            (self.position, position),
            (self.velocity, velocity),
            (self.kind, kind),
            (self.number, number),
        ):
            array[:n] = backend.from_host(values)

    def sort(self) -> None:
        """(i) Sorts the particles into their buckets, without removed ones."""
        backend, places = self.backend, self.places
        grid = self.grid.group(backend)
        self.end[...] = 0
        known = {"kind": self.kind, "own": self.own}
        backend.run(
            "sdf_flow_count", places, grid=grid, position=self.position, count=self.end, arrival=self._arrival, **known
        )
        backend.inclusive_scan(self.end)
        backend.run("sdf_flow_arrive", places, arrival=self._arrival, end=self.end, member=self._member, **known)
        backend.run(
            "sdf_flow_rank",
            places,
            number=self.number,
            end=self.end,
            member=self._member,
            ranked=self._ranked,
            **known,
        )
        if self._link is None:
            self._move()
        else:
            own = {"places": places, "buckets": self.grid.buckets, "end": self.end, "own": self.own}
            backend.run("sdf_flow_link", len(self._link), ranked=self._ranked, link=self._link, **own)
        self._group = self._grouped()

    def list_near(self, reach: float) -> None:
        """Lists each particle's neighbours that may come within reach in this step, after `sort`."""
        if self._listed:
            self.backend.run(
                "sdf_flow_list",
                self.places,
                all=self.group(),
                reach=reach + 2 * self.grid.farthest,
                position=self.position,
                many=self._many,
                list=self._list,
            )

    def _move(self) -> None:
        """Moves the particles into bucket order."""
        self.backend.run(
            "sdf_flow_move",
            self.places,
            places=self.places,
            buckets=self.grid.buckets,
            room=self.room if self.layout == C.LAYOUT_BUCKET else 0,
            end=self.end,
            ranked=self._ranked,
            own=self.own,
            position=self.position,
            velocity=self.velocity,
            kind=self.kind,
            number=self.number,
            new_own=self._spare_own,
            new_position=self.spare_position,
            new_velocity=self.spare_velocity,
            new_kind=self._spare_kind,
            new_number=self._spare_number,
            most=self._most,
        )
        self.position, self.spare_position = self.spare_position, self.position
        self.velocity, self.spare_velocity = self.spare_velocity, self.velocity
        self.kind, self._spare_kind = self._spare_kind, self.kind
        self.number, self._spare_number = self._spare_number, self.number
        self.own, self._spare_own = self._spare_own, self.own

    def group(self) -> Group:
        """Particles as a kernel argument, after `sort`."""
        return self._group

    def _grouped(self) -> Group:
        apart, following = self.backend.table_steps(self.places, self._listed)
        return self.backend.group(
            "Particles",
            places=self.places,
            layout=self.layout,
            room=self.room,
            buckets=self.grid.buckets,
            nx=self.grid.across[0],
            ny=self.grid.across[1],
            end=self.end,
            link=self._link,
            own=self.own,
            kind=self.kind,
            slab=self.slab,
            listed=self._listed,
            many=self._many,
            list=self._list,
            apart=apart,
            next=following,
        )

    def fullest(self) -> int:
        """A bucket's maximum particle count in any step if above `room`, else 0. Synchronises."""
        return int(self._most[0])

    def by_number(self, *arrays: Array, layers: Layers | None = None) -> list[npt.NDArray[Any]]:
        """The existing particles' entries in arrays (places, ...), on the host, sorted by number. layers: of the
        particles' buckets."""
        kind, number = (self.backend.to_host(array) for array in (self.kind, self.number))
        there = np.flatnonzero(kind != C.GONE)
        if layers is not None:
            stride, across = math.prod(self.grid.across[: layers.axis]), self.grid.across[layers.axis]
            layer = self.backend.to_host(self.own)[there] // stride % across
            there = there[(layer >= layers.first) & (layer < layers.last)]
        there = there[np.argsort(number[there])]
        return [self.backend.to_host(array)[there] for array in arrays]
