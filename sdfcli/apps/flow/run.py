"""`flow`: water around a mesh, or in it, frame after frame."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.apps.flow import cases
from sdfcli.apps.flow.cases import Start
from sdfcli.apps.flow.fluid import COURANT, DENSITY, Fluid
from sdfcli.apps.flow.layout import ROOM, WIDER_FOR_FALLS, Grid, ParticleStore, check_layout
from sdfcli.apps.flow.step import Stepper
from sdfcli.apps.flow.wall import CLEARANCE, FieldWall
from sdfcli.backend import C, select_backend
from sdfcli.errors import CheckFailedError, InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.stated_error import StatedError, is_unsigned
from sdfcli.field.store import load

SHARPEST = 10
"""Minimum spacing, in stated errors of the field."""

MACH = 10
"""Speed of sound, in speeds of a fall through the whole height."""

MOST_STEPS = 1e9
"""Maximum number of time steps a frame."""

GRAVITY = (0.0, -9.8, 0.0)
"""By default, in metres per square second: y is up."""

DAM_STEP, DAM_SOUND = 5e-4, 22.0
"""Time step and speed of sound of the paper's case."""

Arrays = npt.NDArray[Any]


@dataclass(frozen=True)
class State:
    """A flow at a time. Rows are by number; particles that are gone have none.

    index      number of the frame, from 0.
    time       in seconds.
    steps      time steps so far.
    number     (n,) uint32: particles keep their numbers.
    kind       (n,) uint8: 0 water, 1 wall.
    place      (n, 3) float32: positions relative to `origin`, in metres.
    velocity   (n, 3) float32, in metres per second.
    pressure   (n,) float32, in pascals.
    origin     (3,) float64.
    lost       particles that are gone.
    behind     particles that were behind a wall of the field at the end of a step, summed over the steps.
    fast       the same, of particles that moved so far in a step that they may have missed a neighbour.
    clearance  least distance of water from the field's walls, in metres; None without a field.
    energy     kinetic and potential, in joules, of the water; the latter is 0 at `origin`.
    """

    index: int
    time: float
    steps: int
    number: npt.NDArray[np.uint32]
    kind: npt.NDArray[np.uint8]
    place: npt.NDArray[np.float32]
    velocity: npt.NDArray[np.float32]
    pressure: npt.NDArray[np.float32]
    origin: npt.NDArray[np.float64]
    lost: int
    behind: int
    fast: int
    clearance: float | None
    energy: float

    @property
    def position(self) -> npt.NDArray[np.float64]:
        """Positions (n, 3), in metres."""
        return self.origin + self.place

    def __len__(self) -> int:
        """The number of particles."""
        return len(self.number)


class Flow:
    """A flow that is ready to run; see `flow`.

    start    the particles at first.
    fluid    their constants.
    per_frame  time steps a frame.
    """

    def __init__(
        self,
        field: Field | None,
        start: Start,
        fluid: Fluid,
        *,
        frames: int,
        per_frame: int,
        inside: bool = False,
        layout: str = "compact",
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        check_layout(layout)
        self.start, self.fluid, self.frames, self.per_frame = start, fluid, frames, per_frame
        self._layout, self._room = layout, ROOM
        self.backend = select_backend(device, threads)
        size = start.high - start.low
        with self.backend.active():
            self.wall = (
                None
                if field is None
                else FieldWall(self.backend, field, inside, np.zeros(3), size, start.low, fluid.spacing)
            )
            self.grid = (
                Grid.over(np.zeros(3), size, fluid.reach, WIDER_FOR_FALLS)
                if self.wall is None
                else Grid.over(np.full(3, -fluid.reach), size + fluid.reach, fluid.reach, WIDER_FOR_FALLS)
            )

    def first(self) -> State:
        """The state at the start. Raises InputError where no particle has room."""
        with self.backend.active():
            return self._first()

    def _first(self) -> State:
        start = self.start
        place = (start.position - start.low).astype(np.float32)
        kind = start.kind
        if self.wall is not None:
            least = CLEARANCE * self.fluid.spacing
            free = self.backend.to_host(self.wall.clearance(self.backend.from_host(place))) >= least
            place, kind = place[free], kind[free]
        if not len(place):
            raise InputError("no particle has room in the box to fill; use a smaller spacing, or another box")
        nothing = np.zeros_like(place)
        pressure = np.zeros(len(place), np.float32)
        number = np.arange(len(place), dtype=np.uint32)
        return self._stated(State(0, 0.0, 0, number, kind, place, nothing, pressure, start.low, 0, 0, 0, None, 0.0))

    def after(self, state: State) -> State:
        """The state a frame later. It depends on `state` alone.

        Raises CheckFailedError where particles are too fast for the time step.
        """
        with self.backend.active():
            return self._after(state)

    def _after(self, state: State) -> State:
        while True:
            store = ParticleStore(
                self.backend, self._layout, self.grid, state.place, state.velocity, state.kind, state.number, self._room
            )
            stepper = Stepper(store, self.fluid, self.wall)
            stepper.advance(self.per_frame)
            fullest = store.fullest()
            if fullest <= self._room:
                break
            while self._room < fullest:
                self._room *= 2
        stepper.measure()
        number, kind, place, velocity, pressure = store.by_number(
            store.number, store.kind, store.position, store.velocity, stepper.pressure
        )
        index = state.index + 1
        if not self.bears(velocity):
            raise CheckFailedError(
                f"frame {index}: water is as fast as {_fastest(velocity):.3g} m/s, too fast for the time step of "
                f"{self.fluid.step:.3g} s; use a shorter one, by --step"
            )
        return self._stated(
            State(
                index,
                index * self.per_frame * self.fluid.step,
                index * self.per_frame,
                number,
                kind,
                place,
                velocity,
                pressure,
                state.origin,
                state.lost + len(state) - len(number),
                state.behind + stepper.behind,
                state.fast + stepper.too_fast,
                None,
                0.0,
            )
        )

    def bears(self, velocity: npt.NDArray[np.float32]) -> bool:
        """Whether particles with velocities (n, 3) stay near enough in a time step; not where one is not finite."""
        return bool(_fastest(velocity) * self.fluid.step <= self.grid.farthest)

    def states(self, state: State | None = None) -> Iterator[State]:
        """The states after one, or from the start on, frame after frame."""
        if state is None:
            state = self.first()
            yield state
        while state.index < self.frames:
            state = self.after(state)
            yield state

    def _stated(self, state: State) -> State:
        """With clearance and energy."""
        water = state.kind == C.FLUID
        place, velocity = state.place[water], state.velocity[water].astype(np.float64)
        clearance = None
        if self.wall is not None and len(place):
            clearance = float(self.backend.to_host(self.wall.clearance(self.backend.from_host(place))).min())
        mass = DENSITY * self.fluid.spacing**3
        squares = sum(velocity[:, k] ** 2 for k in range(3))
        height = sum(-self.fluid.gravity[k] * place[:, k].astype(np.float64) for k in range(3))
        energy = mass * math.fsum(0.5 * squares + height) if len(place) else 0.0
        return replace(state, clearance=clearance, energy=energy)


def prepare(
    source: Field | str | Path,
    fill_box: tuple[float, float, float, float, float, float],
    spacing: float,
    *,
    inside: bool = False,
    time: float = 2.0,
    frames: int = 100,
    gravity: tuple[float, float, float] = GRAVITY,
    step: float | None = None,
    layout: str = "compact",
    device: str = "auto",
    threads: int | None = None,
) -> Flow:
    """The flow that `flow` runs; see there."""
    field = load(source) if isinstance(source, str | Path) else source
    if len(fill_box) != 6 or len(gravity) != 3:
        raise UsageError("use six numbers for the fill box, and three for gravity")
    numbers = [*fill_box, spacing, time, *gravity, *([] if step is None else [step])]
    if not all(map(math.isfinite, numbers)):
        raise UsageError("the fill box, spacing, times and gravity must be finite numbers")
    if not (spacing > 0 and time > 0 and frames >= 1):
        raise UsageError("use a spacing, a time and a number of frames above 0")
    box = np.array(fill_box, np.float64).reshape(2, 3)
    if not (box[0] < box[1]).all():
        raise UsageError("--fill: the first corner must be the lower one, of all three coordinates")
    low, high = field.domain.origin, field.domain.origin + field.domain.length
    if (box[0] < low).any() or (box[1] > high).any():
        raise UsageError(
            f"--fill: the box leaves the field's domain, {_corner(low)} to {_corner(high)}, beyond which distances are "
            "bounds; use a smaller box, or build the field with a larger --domain"
        )
    if is_unsigned(field):
        raise InputError("the field has no signs, so it has no inside; build it from a closed mesh")
    if field.info.get("jump_leaves"):
        raise InputError(
            f"the field's sign jumps in {field.info['jump_leaves']:,} leaves, where holes of the mesh were closed: "
            "water would leak; close the holes of the mesh"
        )
    error = StatedError.of(field).near
    if spacing < SHARPEST * error:
        raise UsageError(
            f"--spacing {spacing:g}: below {SHARPEST} stated errors of the field, {SHARPEST * error:.3g}; use a larger "
            "one, or build the field with a smaller --tolerance"
        )
    if spacing > field.domain.length:
        raise UsageError(f"--spacing {spacing:g}: larger than the field's domain, {field.domain.length:g}")
    fall = math.hypot(*gravity)
    height = _height(box, low, high, gravity) if fall else float((box[1] - box[0]).max())
    sound = MACH * math.sqrt((fall or 1.0) * height)
    longest = COURANT * spacing / sound
    if step is not None and not 0 < step <= longest * (1 + 1e-9):
        raise UsageError(f"--step {step:g}: use at most {longest:.3g} s, in which sound goes {COURANT} spacings")
    steps = time / frames / (step or longest) if longest > 0 else math.inf
    if not steps < MOST_STEPS:
        raise UsageError(f"{steps:.3g} time steps a frame are too many; use less time, more frames or less gravity")
    per_frame = max(math.ceil(steps * (1 - 1e-12)), 1)
    fluid = Fluid(spacing, sound, time / frames / per_frame, gravity)
    start = cases.fill(box, low, high, spacing)
    return Flow(
        field,
        start,
        fluid,
        frames=frames,
        per_frame=per_frame,
        inside=inside,
        layout=layout,
        device=device,
        threads=threads,
    )


def prepare_dam_break(
    *,
    time: float = 1.0,
    frames: int = 100,
    scale: int = 1,
    layout: str = "compact",
    device: str = "auto",
    threads: int | None = None,
) -> Flow:
    """The paper's case: a dam break between wall particles, without a field. scale: how many times finer."""
    step = DAM_STEP / scale
    steps = time / frames / step
    per_frame = round(steps) if 0 < steps < MOST_STEPS else 0
    if per_frame < 1 or not math.isclose(per_frame * frames * step, time, rel_tol=1e-9):
        raise UsageError(f"--time {time:g}: use a multiple of --frames times {step:g} s, the case's time step")
    fluid, start = dam_break_fluid(scale), cases.dam_break(scale)
    return Flow(None, start, fluid, frames=frames, per_frame=per_frame, layout=layout, device=device, threads=threads)


def dam_break_fluid(scale: int) -> Fluid:
    """The constants of the paper's case, so many times finer."""
    return Fluid(cases.DAM_SPACING / scale, DAM_SOUND, DAM_STEP / scale, (0.0, 0.0, -9.8))


def flow(
    source: Field | str | Path,
    fill: tuple[float, float, float, float, float, float],
    spacing: float,
    *,
    inside: bool = False,
    time: float = 2.0,
    frames: int = 100,
    gravity: tuple[float, float, float] = GRAVITY,
    step: float | None = None,
    layout: str = "compact",
    device: str = "auto",
    threads: int | None = None,
) -> Iterator[State]:
    """States of water that is poured around a mesh, or into it, frame after frame; the first one at rest.

    The explicit moving-particle semi-implicit method (Koshizuka et al. 2014). The mesh is a wall by its field, without
    particles: density maps (Koschier and Bender 2017) say what it adds to sums over neighbours. The field's domain is a
    closed tank. States do not depend on layout, device or threads, to the last bit.

    Args:
        source: a signed field, or the path of one, in metres.
        fill: lower and upper corner of a box, six numbers: water at rest wherever it is on the right side of the
            surface, and 0.45 spacings off it.
        spacing: distance of particles, in metres, at least ten stated errors of the field.
        inside: whether the water is inside of the mesh, not around it.
        time: in seconds.
        frames: number of states after the first.
        gravity: (x, y, z), in metres per square second.
        step: time step, in seconds; by default as long as sound goes 0.55 spacings, at ten times the speed of a fall
            from the top of the box to the ground of the domain. Divided so that frames have whole numbers of steps.
        layout: `compact`, `bucket` or `index`: how particles lie in memory.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: number of CPU threads; default: all CPUs that the process may use.

    Raises:
        UsageError: impossible numbers; a box beyond the domain; a spacing too fine for the field, a step too long.
        InputError: a field without signs, or whose sign jumps where holes were closed; no room for a particle.
        CheckFailedError: particles are too fast for the time step.
    """
    return prepare(
        source,
        fill,
        spacing,
        inside=inside,
        time=time,
        frames=frames,
        gravity=gravity,
        step=step,
        layout=layout,
        device=device,
        threads=threads,
    ).states()


def _height(box: Arrays, low: Arrays, high: Arrays, gravity: tuple[float, float, float]) -> float:
    """How deep water can fall: from the top of a box to the ground of the domain."""
    whole = math.hypot(*gravity)
    along = (
        (high[k] - box[0, k] if pull > 0 else low[k] - box[1, k]) * (pull / whole) for k, pull in enumerate(gravity)
    )
    return float(sum(along))


def _fastest(velocity: Arrays) -> float:
    """The largest speed of velocities (n, 3); infinite or not a number where one of them is."""
    squares = sum(velocity[:, k].astype(np.float64) ** 2 for k in range(3))
    return float(np.sqrt(np.max(squares, initial=0.0)))


def _corner(corner: Arrays) -> str:
    return ",".join(f"{x:.6g}" for x in corner)
