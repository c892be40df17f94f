"""`flow`: water around or inside a mesh, frame by frame."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt

from sdfcli.apps.flow import cases
from sdfcli.apps.flow.cases import Start
from sdfcli.apps.flow.fluid import COURANT, DENSITY, VISCOSITY, Fluid
from sdfcli.apps.flow.layout import ROOM, WIDER_FOR_FALLS, Grid, ParticleStore, check_layout
from sdfcli.apps.flow.slabs import MARGIN, Slabs
from sdfcli.apps.flow.step import Stepper
from sdfcli.apps.flow.wall import CLEARANCE, FieldWall
from sdfcli.backend import Backend, C, select_backends
from sdfcli.errors import CheckFailedError, InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.stated_error import StatedError, is_unsigned
from sdfcli.field.store import as_field
from sdfcli.params import real, whole
from sdfcli.runtime.signature import takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

SHARPEST = 10
"""Minimum spacing, in the field's stated errors."""

MACH = 10
"""Sound speed relative to the speed after a fall through the whole height."""

MOST_STEPS = 1e9
"""Maximum time steps per frame."""

GRAVITY = (0.0, -9.8, 0.0)
"""Default gravity, in m/s^2: y is up."""

DAM_STEP, DAM_SOUND = 5e-4, 22.0
"""Time step (s) and sound speed (m/s) in the paper's case."""

Arrays = npt.NDArray[Any]


@dataclass(frozen=True)
class State:
    """Flow at one time. Rows are sorted by particle number, without removed particles.

    index      frame number, from 0.
    time       in seconds.
    steps      time steps so far.
    number     (n,) uint32, constant over time.
    kind       (n,) uint8: 0 water, 1 wall.
    place      (n, 3) float32, positions relative to `origin`, in metres.
    velocity   (n, 3) float32, in m/s.
    pressure   (n,) float32, in pascals.
    origin     (3,) float64.
    lost       removed particles.
    behind     particles behind a field wall after a step, summed over the steps.
    fast       particles that moved so far in a step that neighbours may be missed, summed over the steps.
    clearance  the water's minimum distance from the field's walls, in metres; None without a field.
    energy     the water's kinetic and potential energy, in joules; the latter is 0 at `origin`.
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
        """Particle count."""
        return len(self.number)

    def __repr__(self) -> str:
        return f"<State: frame {self.index}, {self.time:.4g} s, {len(self):,} particles>"


@dataclass(frozen=True)
class FlowOptions:
    """Options of a flow.

    Attributes:
        inside: put the water inside the mesh, not around it.
        time: in seconds.
        frames: state count after the first.
        gravity: (x, y, z), in m/s^2.
        step: time step, in seconds; by default sound travels 0.55 spacings per step, at ten times the speed after
            a fall from the box's top to the domain's ground. Divided so that frames have integer step counts.
        viscosity: kinematic, in m^2/s; by default water's, below what the particles' own noise amounts to.
        layout: `compact`, `bucket` or `index`: particle order in memory.
        device: `auto`, `cpu`, `cuda`, `cuda:N`, or several GPUs as in `cuda:0,1`.
        threads: CPU thread count; default: all CPUs available to the process.
    """

    inside: bool = False
    time: float = 2.0
    frames: int = 100
    gravity: tuple[float, float, float] = GRAVITY
    step: float | None = None
    viscosity: float = VISCOSITY
    layout: str = "compact"
    device: str = "auto"
    threads: int | None = None


class FlowKeywords(TypedDict, total=False):
    """The options of `flow`: names and types; see FlowOptions."""

    inside: bool
    time: float
    frames: int
    gravity: tuple[float, float, float]
    step: float | None
    viscosity: float
    layout: str
    device: str
    threads: int | None


class Flow:
    """Prepared flow; see `flow`.

    start      initial particles.
    fluid      constants.
    per_frame  time steps per frame.
    """

    def __init__(self, field: Field | None, start: Start, fluid: Fluid, per_frame: int, options: FlowOptions) -> None:
        check_layout(options.layout)
        self.start, self.fluid, self.frames, self.per_frame = start, fluid, options.frames, per_frame
        self._layout, self._room, self._margin = options.layout, ROOM, MARGIN
        self.backends = select_backends(options.device, options.threads)
        if len(self.backends) > 1 and options.layout != "compact":
            raise UsageError(f"--layout {options.layout}: use compact on several devices")
        self.backend = self.backends[0]
        size = start.high - start.low

        def wall(backend: Backend) -> FieldWall | None:
            if field is None:
                return None
            with backend.active():
                return FieldWall(backend, field, options.inside, np.zeros(3), size, start.low, fluid.spacing)

        self._walls = [wall(backend) for backend in self.backends]
        self.wall = self._walls[0]
        self.grid = (
            Grid.over(np.zeros(3), size, fluid.reach, WIDER_FOR_FALLS)
            if self.wall is None
            else Grid.over(np.full(3, -fluid.reach), size + fluid.reach, fluid.reach, WIDER_FOR_FALLS)
        )

    @property
    def device(self) -> str:
        """The devices' names."""
        return ",".join(backend.name for backend in self.backends)

    def first(self) -> State:
        """Initial state. Raises InputError if no particle fits."""
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
        """State one frame later, which depends on `state` only.

        Raises CheckFailedError if particles are too fast for the time step.
        """
        with self.backend.active():
            return self._after(state)

    def _after(self, state: State) -> State:
        (number, kind, place, velocity, pressure), behind, fast = self._advanced(state)
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
                state.behind + behind,
                state.fast + fast,
                None,
                0.0,
            )
        )

    def _advanced(self, state: State) -> tuple[list[Arrays], int, int]:
        """A frame later: the particles' number, kind, place, velocity and pressure, and what is added to `behind` and
        `fast`."""
        known = state.place, state.velocity, state.kind, state.number
        if len(self.backends) > 1:
            while True:
                slabs = Slabs(self.backends, self.grid, self.fluid, self._walls, *known, self._margin)
                slabs.advance(self.per_frame)
                if not slabs.lacking():
                    return slabs.by_number(), slabs.behind, slabs.too_fast
                self._margin *= 2
        while True:
            store = ParticleStore(self.backend, self._layout, self.grid, *known, self._room)
            stepper = Stepper(store, self.fluid, self.wall)
            stepper.advance(self.per_frame)
            fullest = store.fullest()
            if fullest <= self._room:
                break
            while self._room < fullest:
                self._room *= 2
        stepper.measure()
        arrays = store.by_number(store.number, store.kind, store.position, store.velocity, stepper.pressure)
        return arrays, stepper.behind, stepper.too_fast

    def bears(self, velocity: npt.NDArray[np.float32]) -> bool:
        """Whether particles with velocities (n, 3) move little enough in a time step; False for non-finite ones."""
        return bool(_fastest(velocity) * self.fluid.step <= self.grid.farthest)

    def states(self, state: State | None = None) -> Iterator[State]:
        """States after the given one, or from the start, frame by frame."""
        if state is None:
            state = self.first()
            yield state
        while state.index < self.frames:
            state = self.after(state)
            yield state

    def _stated(self, state: State) -> State:
        """The state with clearance and energy."""
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


def prepare(source: Field | str | PathLike[str], fill: tuple[float, ...], spacing: float, options: FlowOptions) -> Flow:
    """Prepares a flow; see `flow`."""
    field = as_field(source)
    time, frames, gravity, step = options.time, options.frames, options.gravity, options.step
    if [np.shape(fill), np.shape(gravity)] != [(6,), (3,)]:
        raise UsageError("use six numbers for the fill box, and three for gravity")
    numbers = [*fill, spacing, time, *gravity, *([] if step is None else [step])]
    if not all(math.isfinite(real(each)) for each in numbers):
        raise UsageError("the fill box, spacing, times and gravity must be finite numbers")
    if not (spacing > 0 and time > 0 and whole(frames) >= 1):
        raise UsageError("use a spacing, a time and a number of frames above 0")
    box = np.array(fill, np.float64).reshape(2, 3)
    low, high = field.domain.origin, field.domain.origin + field.domain.length
    _check_box(box, low, high)
    _check_field(field, spacing)
    fall = math.hypot(*gravity)
    height = _height(box, low, high, gravity) if fall else float((box[1] - box[0]).max())
    sound = MACH * math.sqrt((fall or 1.0) * height)
    per_frame = _steps_per_frame(options, COURANT * spacing / sound)
    fluid = Fluid(spacing, sound, time / frames / per_frame, gravity, options.viscosity)
    _check_viscosity(fluid)
    return Flow(field, cases.fill(box, low, high, spacing), fluid, per_frame, options)


def _check_box(box: Arrays, low: Arrays, high: Arrays) -> None:
    """Raises UsageError unless the corners (2, 3) of the box to fill are in order, and in the domain."""
    if not (box[0] < box[1]).all():
        raise UsageError("--fill: the first corner must be the lower one, of all three coordinates")
    if (box[0] < low).any() or (box[1] > high).any():
        raise UsageError(
            f"--fill: the box leaves the field's domain, {_corner(low)} to {_corner(high)}, beyond which distances are "
            "bounds; use a smaller box, or build the field with a larger --domain"
        )


def _check_field(field: Field, spacing: float) -> None:
    """Raises InputError for a field in another unit or without an inside, UsageError for a spacing that does not suit
    it."""
    if field.units not in (None, "m"):
        raise InputError(f"the field is in {field.units}, but water flows in metres; build the field with --units m")
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


def _steps_per_frame(options: FlowOptions, longest: float) -> int:
    """Time steps per frame, each at most `longest` seconds. Raises UsageError for a longer `step`, or too many."""
    step = options.step
    if step is not None and not 0 < step <= longest * (1 + 1e-9):
        raise UsageError(f"--step {step:g}: use at most {longest:.3g} s, in which sound goes {COURANT} spacings")
    steps = options.time / options.frames / (step or longest) if longest > 0 else math.inf
    if not steps < MOST_STEPS:
        raise UsageError(f"{steps:.3g} time steps a frame are too many; use less time, more frames or less gravity")
    return max(math.ceil(steps * (1 - 1e-12)), 1)


def _check_viscosity(fluid: Fluid) -> None:
    """Raises UsageError for a negative viscosity, or one too large for the time step."""
    if not 0 <= real(fluid.viscosity) <= fluid.most_viscous:
        raise UsageError(
            f"--viscosity {fluid.viscosity}: use 0 to {fluid.most_viscous:.3g} m2/s, which time steps of "
            f"{fluid.step:.3g} s allow"
        )


def prepare_dam_break(options: FlowOptions, scale: int = 1) -> Flow:
    """The paper's case: a dam break between wall particles, without a field. scale: refinement factor."""
    time, frames, step = options.time, options.frames, DAM_STEP / scale
    steps = time / frames / step
    per_frame = round(steps) if 0 < steps < MOST_STEPS else 0
    if per_frame < 1 or not math.isclose(per_frame * frames * step, time, rel_tol=1e-9):
        raise UsageError(f"--time {time:g}: use a multiple of --frames times {step:g} s, the case's time step")
    fluid = replace(dam_break_fluid(scale), viscosity=options.viscosity)
    _check_viscosity(fluid)
    return Flow(None, cases.dam_break(scale), fluid, per_frame, options)


def dam_break_fluid(scale: int) -> Fluid:
    """The paper case's constants at a refinement factor."""
    return Fluid(cases.DAM_SPACING / scale, DAM_SOUND, DAM_STEP / scale, (0.0, 0.0, -9.8))


@takes(FlowKeywords, FlowOptions)
def flow(
    source: Field | str | PathLike[str],
    fill: tuple[float, float, float, float, float, float],
    spacing: float,
    **options: Unpack[FlowKeywords],
) -> Iterator[State]:
    """Yields the states of water around or inside a mesh, frame by frame; the first is at rest.

    Uses the explicit moving-particle semi-implicit method (Koshizuka et al. 2014). The field acts as the mesh's wall,
    without particles: by a density map (Koschier and Bender 2017) and mirror images (Mitsume et al. 2015). The
    field's domain is a closed tank. States are bitwise the same for all layouts, devices and threads.

    Args:
        source: signed field or its path, in metres.
        fill: lower and upper corner of a box, six numbers: filled with water at rest on the right side of the surface,
            at least 0.45 spacings from it.
        spacing: particle spacing, in metres, at least ten times the field's stated error.
        options: the options of `FlowOptions`, below.

    Raises:
        UsageError: impossible numbers; a box outside the domain; a spacing too fine for the field, a step too long.
        InputError: a field in another unit than metres, without signs, or with sign jumps at closed holes; no particle
            fits.
        CheckFailedError: particles are too fast for the time step.
    """
    return prepare(source, fill, spacing, FlowOptions(**options)).states()


def _height(box: Arrays, low: Arrays, high: Arrays, gravity: tuple[float, float, float]) -> float:
    """Maximum fall height: from a box's top to the domain's ground."""
    whole = math.hypot(*gravity)
    along = (
        (high[k] - box[0, k] if pull > 0 else low[k] - box[1, k]) * (pull / whole) for k, pull in enumerate(gravity)
    )
    return float(sum(along))


def _fastest(velocity: Arrays) -> float:
    """Maximum speed in velocities (n, 3); infinite or NaN if one of them is."""
    squares = sum(velocity[:, k].astype(np.float64) ** 2 for k in range(3))
    return float(np.sqrt(np.max(squares, initial=0.0)))


def _corner(corner: Arrays) -> str:
    return ",".join(f"{x:.6g}" for x in corner)
