"""Slabs: particles on several devices, each of which computes some layers of buckets (see kernels/flow/slabs.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.apps.flow.fluid import Fluid
from sdfcli.apps.flow.layout import Grid, Layers, ParticleStore
from sdfcli.apps.flow.step import Stepper
from sdfcli.apps.flow.wall import FieldWall
from sdfcli.backend import Array, Backend
from sdfcli.runtime import interrupts

HALO = 3
"""Layers beyond a slab of which a device has copies: forces move particles, whose distances make the pressure, whose
gradient moves particles."""

LAST_HALO = 4
"""The same before the last step, for the pressure after it."""

PARCEL = 8
"""Words per sent particle."""

MARGIN = 1.25
"""Capacity for particles, relative to those that need it at first."""

LEAST = 1024
"""Minimum capacity added."""


@dataclass
class Lane:
    """From one device to another: particles in one step. room: their maximum count. last: whether the source has sent
    to all others before."""

    source: int
    target: int
    room: int
    parcel: Array
    base: int
    last: bool


class Slabs:
    """Advances particles on several devices, to the same bits as on one.

    In each step a device computes the particles of its layers, and copies of those in HALO layers on both sides. Then
    it sends what others need in the next.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        grid: Grid,
        fluid: Fluid,
        walls: Sequence[FieldWall | None],
        place: npt.NDArray[np.float32],
        velocity: npt.NDArray[np.float32],
        kind: npt.NDArray[np.uint8],
        number: npt.NDArray[np.uint32],
        margin: float = MARGIN,
    ) -> None:
        """Copies host arrays, sorted by number. margin: see MARGIN."""
        self.backends, self._grid = backends, grid
        self._layers, layer = share_out(grid, place, len(backends))
        self._lanes = []
        rooms: dict[tuple[int, int], int] = {}
        for source, ours in enumerate(self._layers):
            for target, theirs in enumerate(self._layers):
                if source != target:
                    sent = (layer >= ours.first) & (layer < ours.last) & _near(layer, theirs)
                    rooms[source, target] = int(margin * sent.sum()) + LEAST
        self._steppers, self._lacking, self._free = [], [], []
        for target, (backend, layers, wall) in enumerate(zip(backends, self._layers, walls, strict=True)):
            chosen = _near(layer, layers)
            landing = sum(room for (_, to), room in rooms.items() if to == target)
            free = int(margin * chosen.sum()) + LEAST
            with backend.active():
                store = ParticleStore(
                    backend,
                    "compact",
                    grid,
                    place[chosen],
                    velocity[chosen],
                    kind[chosen],
                    number[chosen],
                    layers=layers,
                    spare=free - int(chosen.sum()) + landing,
                )
                self._steppers.append(Stepper(store, fluid, wall))
                self._lacking.append(backend.xp.zeros(1, np.uint64))
            self._free.append(free)
        base = list(self._free)
        for (source, target), room in rooms.items():
            with backends[source].active():
                parcel = backends[source].xp.zeros(1 + PARCEL * room, np.uint32)
            last = target == max(to for other, to in rooms if other == source)
            self._lanes.append(Lane(source, target, room, parcel, base[target], last))
            base[target] += room

    def advance(self, steps: int) -> None:
        """Runs time steps; the pressure is that after the last."""
        for step in range(steps):
            for backend, stepper in zip(self.backends, self._steppers, strict=True):
                with backend.active():
                    stepper.step()
                    if step + 1 == steps:
                        stepper.measure()
            if step + 1 < steps:
                self._exchange(HALO if step + 2 < steps else LAST_HALO)
            interrupts.check()

    def _exchange(self, halo: int) -> None:
        for lane in self._lanes:
            backend, store = self.backends[lane.source], self._steppers[lane.source].store
            theirs = self._layers[lane.target]
            with backend.active():
                backend.fill(lane.parcel[:1], 0)
                backend.run(
                    "sdf_flow_leave",
                    store.places,
                    grid=self._grid.group(backend),
                    slab=store.slab,
                    halo=halo,
                    first=theirs.first,
                    last=theirs.last,
                    room=lane.room,
                    drops=lane.last,
                    position=store.position,
                    velocity=store.velocity,
                    number=store.number,
                    own=store.own,
                    kind=store.kind,
                    parcel=lane.parcel,
                )
        for lane in self._lanes:
            backend, store = self.backends[lane.target], self._steppers[lane.target].store
            with backend.active():
                backend.run(
                    "sdf_flow_land",
                    lane.room,
                    base=lane.base,
                    free=self._free[lane.target],
                    buckets=self._grid.buckets,
                    end=store.end,
                    parcel=backend.fetch(lane.parcel, self.backends[lane.source]),
                    position=store.position,
                    velocity=store.velocity,
                    number=store.number,
                    kind=store.kind,
                    lacking=self._lacking[lane.target],
                )

    def lacking(self) -> bool:
        """Whether particles had no place in some step; then the results are wrong. Synchronises."""
        found = []
        for backend, lacking in zip(self.backends, self._lacking, strict=True):
            with backend.active():
                found.append(int(lacking[0]))
        return any(found)

    def by_number(self) -> list[npt.NDArray[Any]]:
        """Number, kind, position, velocity and pressure of the existing particles, on the host, sorted by number."""
        parts = []
        for backend, stepper, layers in zip(self.backends, self._steppers, self._layers, strict=True):
            store = stepper.store
            with backend.active():
                arrays = (store.number, store.kind, store.position, store.velocity, stepper.pressure)
                parts.append(store.by_number(*arrays, layers=layers))
        whole = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        order = np.argsort(whole[0])
        return [array[order] for array in whole]

    @property
    def too_fast(self) -> int:
        """As of a Stepper."""
        return self._total("too_fast")

    @property
    def behind(self) -> int:
        """As of a Stepper."""
        return self._total("behind")

    def _total(self, name: str) -> int:
        total = 0
        for backend, stepper in zip(self.backends, self._steppers, strict=True):
            with backend.active():
                total += getattr(stepper, name)
        return total


def share_out(grid: Grid, place: npt.NDArray[np.float32], count: int) -> tuple[list[Layers], npt.NDArray[np.int64]]:
    """Layers for each device, with about as many particles each, along the axis with the most layers that have some;
    and each particle's layer (n,) along it, but for rounding."""
    axis = int(np.argmax([np.ptp(grid.layer(place, k)) for k in range(3)]))
    layer = grid.layer(place, axis)
    below = np.cumsum(np.bincount(layer, minlength=grid.across[axis]))
    cuts = [int(np.searchsorted(below, len(place) * k / count)) + 1 for k in range(1, count)]
    return [Layers(axis, first, last) for first, last in pairwise([0, *cuts, grid.across[axis]])], layer


def _near(layer: npt.NDArray[np.int64], layers: Layers) -> npt.NDArray[np.bool_]:
    """Which particles a device may need, one more layer for rounding."""
    return (layer >= layers.first - LAST_HALO - 1) & (layer < layers.last + LAST_HALO + 1)
