"""Stepper: the eight steps of the explicit MPS method (see kernels/flow/step.h)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from sdfcli.apps.flow.fluid import Fluid
from sdfcli.apps.flow.layout import ParticleStore
from sdfcli.apps.flow.wall import FieldWall
from sdfcli.backend import Array, Group
from sdfcli.backend.timing import Stages
from sdfcli.runtime import interrupts

STEPS = {
    "sort": "(i)",
    "list": "lists",
    "force": "(ii, iii)",
    "collide": "(iv)",
    "pressure": "(v)",
    "gradient": "(vi, vii)",
    "push": "walls",
    "pressure after": "(viii)",
}
"""Step stages, with the paper's numbers."""

TURN = 2
"""Steps until arrays return to their initial buffers: layouts that move particles use two array sets."""

RECORDED_FROM = 16
"""Minimum step count worth recording."""


class Stepper:
    """Advances particles in time.

    pressure  (places,) float32, in pascals, after `measure`.
    """

    def __init__(
        self, store: ParticleStore, fluid: Fluid, wall: FieldWall | None = None, stages: Stages | None = None
    ) -> None:
        self.store, self.fluid, self._wall = store, fluid, wall
        backend = store.backend
        self.pressure = backend.xp.zeros(store.places, np.float32)
        self._constants: Group = fluid.group(backend)
        self._map: Group | None = None if wall is None else wall.map
        self._nearest = None if wall is None else backend.xp.zeros((store.places, 4), np.float32)
        self._stages = stages
        self._fast, self._behind = (backend.xp.zeros(1, np.uint32) for _ in range(2))

    def advance(self, steps: int, measured: bool = False) -> None:
        """Runs time steps; measured: include (viii) in each."""

        def one() -> None:
            self.step()
            if measured:
                self.measure()

        def turn() -> None:
            for _ in range(TURN):
                one()

        run: Callable[[], None] = turn
        for done in range(0, steps - steps % TURN, TURN):
            if done == TURN and steps >= RECORDED_FROM and self._stages is None:
                run = self.store.backend.recorded(turn)
            run()
            interrupts.check()
        for _ in range(steps % TURN):
            one()

    def step(self) -> None:
        """One time step without (viii), which the next step does not need."""
        store = self.store
        with self._stage("sort"):
            store.sort()
        with self._stage("list"):
            store.list_near(self.fluid.reach)
        around: dict[str, Any] = {"all": store.group(), "fluid": self._constants}
        wall: dict[str, Any] = {"wall": self._map}
        for_now: dict[str, Any] = {"position": store.spare_position}
        self._run(
            "force",
            **around,
            **wall,
            position=store.position,
            velocity=store.velocity,
            new_position=store.spare_position,
            new_velocity=store.spare_velocity,
        )
        self._push(store.spare_position, store.spare_velocity, self._nearest)
        self._run("collide", **around, **for_now, velocity=store.spare_velocity, new_velocity=store.velocity)
        self._run("pressure", **around, **wall, **for_now, pressure=self.pressure)
        (low_x, low_y, low_z), (high_x, high_y, high_z) = store.grid.low, store.grid.high
        self._run(
            "gradient",
            **around,
            **for_now,
            low_x=low_x,
            low_y=low_y,
            low_z=low_z,
            high_x=high_x,
            high_y=high_y,
            high_z=high_z,
            velocity=store.velocity,
            pressure=self.pressure,
            nearest=self._nearest,
            new_position=store.position,
            new_velocity=store.velocity,
            new_kind=store.kind,
            farthest=store.grid.farthest,
            fast=self._fast,
        )
        self._push(store.position, store.velocity)

    def measure(self) -> None:
        """(viii) Computes the pressure after a step."""
        values: dict[str, Any] = {"all": self.store.group(), "fluid": self._constants, "wall": self._map}
        self._run("pressure", "pressure after", **values, position=self.store.position, pressure=self.pressure)

    @property
    def too_fast(self) -> int:
        """Particle moves too far for the bucket width, summed over steps. Synchronises."""
        return int(self._fast[0])

    @property
    def behind(self) -> int:
        """Particles behind a wall after a step, summed over steps. Synchronises."""
        return int(self._behind[0])

    def _run(self, kernel: str, stage: str = "", **values: Any) -> None:
        with self._stage(stage or kernel):
            self.store.backend.run(f"sdf_flow_{kernel}", self.store.places, **values)

    def _push(self, position: Array, velocity: Array, nearest: Array | None = None) -> None:
        if self._wall is not None:
            with self._stage("push"):
                self._wall.push(self.store, position, velocity, self._behind, nearest)

    def _stage(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self._stages is None else self._stages(name, self.store.backend)
