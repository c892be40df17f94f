"""`sdfcli flow`: water around or inside a mesh, frame by frame."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.output import human_bytes, pace, print_json, print_table, progress, say
from sdfcli.cli.records import Count, Line, size, took
from sdfcli.errors import CheckFailedError, InputError, UsageError

if TYPE_CHECKING:
    from sdfcli.apps.flow.kept import KeptStates
    from sdfcli.apps.flow.pictures import FlowPictures
    from sdfcli.apps.flow.run import Flow, FlowOptions, State
    from sdfcli.field.field import Field

TIME, DAM_TIME = 2.0, 1.0
"""Default seconds, with a field and for the dam break."""

FRAMES = 100
MOST_FRAMES = 999_999
"""Maximum frame count: names of stored states have six digits."""

CASE = "dam-break"

VISCOSITY = 1e-6
"""Default kinematic viscosity, in m^2/s."""

FieldFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FIELD]", help="Field file, from `sdfcli build`, in metres; none with --case.", show_default=False
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Output file: .vtkhdf.")]
Fill = Annotated[
    str | None,
    typer.Option(
        metavar="X0,Y0,Z0,X1,Y1,Z1",
        help="Initial box of water: lower and upper corner, in metres.",
        show_default=False,
    ),
]
Spacing = Annotated[
    float | None,
    typer.Option(metavar="L", help="Particle spacing, in metres; at least ten times the field's stated error."),
]
Inside = Annotated[bool, typer.Option("--inside", help="The mesh is a container; by default it is an obstacle.")]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--time",
        metavar="SECONDS",
        help=f"Simulated time, in seconds; {TIME:g} by default, {DAM_TIME:g} with --case.",
        show_default=False,
    ),
]
Frames = Annotated[
    int, typer.Option("--frames", min=1, max=MOST_FRAMES, help="Number of states written after the initial one.")
]
Gravity = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z", help="Gravity, in metres per second squared; 0,-9.8,0 by default.", show_default=False
    ),
]
Step = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help="Time step, in seconds; the longest stable one by default.", show_default=False
    ),
]
Viscosity = Annotated[
    float, typer.Option("--viscosity", metavar="V", help="Kinematic viscosity, in m2/s; water's is 1e-6.")
]
Case = Annotated[
    str | None,
    typer.Option("--case", **options.words(CASE), help="The paper's case, without a field.", show_default=False),
]
Layout = Annotated[
    str,
    typer.Option(
        "--layout", **options.words("compact", "bucket", "index"), help="Particle layout in memory; affects speed only."
    ),
]
Pictures = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder for a picture per state: frame_0000.png, frame_0001.png and so on.",
        show_default=False,
    ),
]
SurfaceFiles = Annotated[
    Path | None,
    typer.Option(
        "--surface",
        metavar="FILE",
        help="The water's surface per state, as a mesh: .ply, .obj, .stl or .glb, with a placeholder for the frame "
        "number, as in water_%04d.ply.",
        show_default=False,
    ),
]


class Flowed(Line, shared="output bytes seconds device kept"):
    """Keys with and without a field."""

    frames: Annotated[Count, "states written after the initial one"]
    water: Annotated[Count, "initial water particles"]
    wall_particles: Annotated[Count, "initial wall particles"]
    lost: Annotated[Count, "particles that left the tank"]
    behind: Annotated[Count, "number of times that a particle was behind the field's wall at the end of a step"]
    too_fast: Annotated[
        Count, "number of times that a particle moved so far in a step that it may have missed a neighbour"
    ]
    clearance: Annotated[
        float | None,
        "minimum distance of water from the field's wall over all states, in metres; null without a field",
    ]
    particle_spacing: Annotated[float, "particle spacing, in metres"]
    viscosity: Annotated[float, "kinematic viscosity, in m2/s"]
    energies: Annotated[list[float], size(2), "the water's kinetic plus potential energy at start and end, in joules"]
    flow_seconds: Annotated[float, "time of the last state, in seconds"]
    time_step: Annotated[float, "time step, in seconds"]
    time_steps: Annotated[Count, "time steps computed"]
    steps_per_second: Annotated[float, "computed time steps per second"]
    pictures: Annotated[str | None, "picture folder; with `--pictures`"] = None
    surfaces: Annotated[str | None, "the surfaces' files, as given; with `--surface`"] = None


class FieldFlowed(Flowed, title="flow", shared="input"):
    """Around a field, or in it."""


class CaseFlowed(Flowed, title="flow --case"):
    """Without a field."""

    case: Annotated[str, "`--case`"]


def flow(
    output: Output,
    file: FieldFile = None,
    fill: Fill = None,
    spacing: Spacing = None,
    inside: Inside = False,
    time: Seconds = None,
    frames: Frames = FRAMES,
    gravity: Gravity = None,
    step: Step = None,
    viscosity: Viscosity = VISCOSITY,
    case: Case = None,
    layout: Layout = "compact",
    pictures: Pictures = None,
    surface: SurfaceFiles = None,
    resume: options.Resume = False,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate water around or inside a mesh with particles, and write its states over time (VTKHDF, for ParaView).

    The field's surface is a wall, and its domain a closed tank.

    Example: sdfcli flow tank.h5 --fill 0,0,0,1,1,1 --spacing 0.02 -o flow.vtkhdf
    """
    from sdfcli.runtime.files import check_ending, check_target
    from sdfcli.runtime.parts import kept_frames, parts_folder

    given: dict[str, Any] = {"FIELD": file, "--fill": fill, "--spacing": spacing}
    only_with_field = {**given, "--inside": inside or None, "--gravity": gravity, "--step": step}
    check_case(case, given, only_with_field)
    pull: Any
    box, pull = numbers("--fill", fill, 6), numbers("--gravity", gravity, 3)
    check_ending(output, ".vtkhdf")
    inputs = [] if file is None else [file]
    check_target(output, force, *inputs)
    meshes = None if surface is None else Meshes(surface, frames, inputs, resume, force)
    shown = Shown(output, json, quiet)
    with progress(str(output), quiet or json) as update:
        update("getting ready")
        from sdfcli.apps.flow.run import GRAVITY, FlowOptions

        time = time if time is not None else TIME if case is None else DAM_TIME
        chosen = FlowOptions(inside, time, frames, pull or GRAVITY, step, viscosity, layout, device, threads)
        field, run = ready(file, box, spacing, chosen)
        with parts_folder(output, resume, force) as folder:
            try:
                from sdfcli.apps.flow.kept import KeptStates
                from sdfcli.apps.flow.vtkhdf import write_particles
                from sdfcli.runtime.files import written_whole

                states = KeptStates(run, field, folder)
                album = None
                if pictures is not None:
                    album = Album(pictures, frames, inputs, resume, force)
                    album.open(run, states.first, field, inside)
                with written_whole(output, force) as temporary:
                    write_particles(temporary, shown.passing(states, run, update, album, meshes))
            except BaseException:
                kept = kept_frames(output)
                if kept:
                    say(f"{kept:,} of {frames:,} frames are kept; to go on, repeat the command with --resume")
                raise
    shown.end(file, case, run, states.kept, pictures, surface)
    if file is not None:
        shown.require()


def check_case(case: str | None, needed: dict[str, Any], others: dict[str, Any]) -> None:
    """Raises UsageError for incompatible options. needed: required without a case; others: invalid with one."""
    if case is None:
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise UsageError(f"{', '.join(missing)}: missing; or use --case {CASE}")
        return
    if case != CASE:
        raise UsageError(f"--case {case}: use {CASE}")
    unused = [name for name, value in others.items() if value is not None]
    if unused:
        raise UsageError(f"{', '.join(unused)}: not with --case, which has its own")


def numbers(option: str, text: str | None, count: int) -> tuple[float, ...] | None:
    """Parses `count` finite comma-separated numbers. Raises UsageError for anything else."""
    if text is None:
        return None
    try:
        found = tuple(map(float, text.split(",")))
    except ValueError:
        found = ()
    if len(found) != count or not all(map(math.isfinite, found)):
        raise UsageError(f"{option} {text}: use {count} numbers with commas between")
    return found


def ready(file: Path | None, box: Any, spacing: Any, chosen: FlowOptions) -> tuple[Field | None, Flow]:
    """Field, if any, and flow. Raises the Python `flow`'s exceptions."""
    from sdfcli.apps.flow.run import prepare, prepare_dam_break

    if file is None:
        return None, prepare_dam_break(chosen)
    from sdfcli.field.store import is_field, load
    from sdfcli.sequence.file import is_sequence

    if is_field(file) and is_sequence(file):
        raise InputError(f"{file}: holds a sequence; use a field, from `sdfcli build`")
    field = load(file)
    return field, prepare(field, box, spacing, chosen)


class Album:
    """Folder with one picture per state."""

    def __init__(self, folder: Path, frames: int, inputs: list[Path], resume: bool, force: bool) -> None:
        """Raises UsageError, before any work, if a picture cannot be written. resume: an interrupted run's pictures may
        exist."""
        from sdfcli.runtime.files import check_folder, identities, refuse_existing, refuse_input

        self._folder, self._force, self._resume = folder, force, resume
        self._pictures: FlowPictures | None = None
        check_folder(folder)
        known = identities(inputs)
        for index in range(frames + 1) if folder.is_dir() else ():
            refuse_input(self._path(index), known)
            refuse_existing(self._path(index), force or resume)

    def open(self, run: Flow, first: State, field: Field | None, inside: bool) -> None:
        """Prepares a flow's pictures and creates the folder. Raises UsageError on failure."""
        from sdfcli.apps.flow.pictures import FlowPictures

        self._pictures = FlowPictures(run, first, field, inside)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self._folder}: cannot be made: {error.strerror or error}") from error

    def add(self, state: State) -> None:
        """Writes a state's picture. Raises UsageError if a different one exists."""
        from sdfcli.pictures.png import holds, write_picture
        from sdfcli.runtime.files import refuse_existing

        assert self._pictures is not None
        path, picture = self._path(state.index), self._pictures.draw(state)
        refuse_existing(path, self._force or self._resume)
        if not (self._resume and path.exists() and holds(path, picture)):
            write_picture(path, picture, self._force)

    def _path(self, index: int) -> Path:
        return self._folder / f"frame_{index:04d}.png"


class Meshes:
    """Numbered files with the water's surface, one per state."""

    def __init__(self, pattern: Path, frames: int, inputs: list[Path], resume: bool, force: bool) -> None:
        """Raises UsageError, before any work, if a file cannot be written. resume: an interrupted run's files may
        exist."""
        from sdfcli.cli.fields import numbered
        from sdfcli.extract.mesh_file import ENDINGS
        from sdfcli.runtime.files import check_ending, check_target

        check_ending(pattern, *ENDINGS)
        self._force, self._resume = force, resume
        self._paths = numbered(pattern, range(frames + 1))
        for path in self._paths:
            check_target(path, force or resume, *inputs)

    def add(self, run: Flow, state: State) -> None:
        """Writes a state's surface. Raises UsageError if a different one exists."""
        from sdfcli.apps.flow.surface import CELL, water_surface
        from sdfcli.extract.mesh_file import write_mesh
        from sdfcli.runtime.files import refuse_existing, written_whole

        path, surface = self._paths[state.index], water_surface(run, state)
        old = path.read_bytes() if self._resume and path.exists() else None
        with written_whole(path, self._force or old is not None) as temporary:
            write_mesh(temporary, path.suffix.lower(), surface, CELL * run.fluid.spacing)
            if old is not None and old != temporary.read_bytes():
                refuse_existing(path, self._force)


@dataclass
class Shown:
    """A flow's progress and final report."""

    output: Path
    json: bool
    quiet: bool
    start: float = field(default_factory=clock.perf_counter)
    first: Any = None
    last: Any = None
    clearance: float | None = None
    took: float = 0.0

    def passing(
        self,
        states: KeptStates,
        run: Flow,
        update: Callable[[str], None],
        album: Album | None,
        meshes: Meshes | None,
    ) -> Iterator[State]:
        """Yields the states as they finish."""
        begun = clock.perf_counter()
        for state in states:
            if album is not None:
                album.add(state)
            if meshes is not None:
                meshes.add(run, state)
            self.first, self.last = self.first or state, state
            if state.clearance is not None:
                self.clearance = min(state.clearance, math.inf if self.clearance is None else self.clearance)
            yield state
            self.took = clock.perf_counter() - begun
            update(pace(state.index - states.kept, run.frames - states.kept, self.took))

    def end(
        self,
        file: Path | None,
        case: str | None,
        run: Flow,
        kept: int,
        pictures: Path | None,
        surface: Path | None,
    ) -> None:
        """Prints the report."""
        seconds, written, last = clock.perf_counter() - self.start, self.output.stat().st_size, self.last
        rate = (run.frames - kept) * run.per_frame / self.took
        water = int((self.first.kind == 0).sum())
        walls = len(self.first) - water
        if self.json:
            source = {"case": case} if file is None else {"input": str(file)}
            print_json(
                (CaseFlowed if file is None else FieldFlowed)(
                    **source,
                    output=str(self.output),
                    bytes=written,
                    device=run.device,
                    frames=run.frames,
                    kept=kept,
                    water=water,
                    wall_particles=walls,
                    lost=last.lost,
                    behind=last.behind,
                    too_fast=last.fast,
                    clearance=self.clearance,
                    particle_spacing=run.fluid.spacing,
                    viscosity=run.fluid.viscosity,
                    energies=[self.first.energy, last.energy],
                    flow_seconds=last.time,
                    time_step=run.fluid.step,
                    time_steps=last.steps,
                    steps_per_second=round(rate, 1),
                    pictures=None if pictures is None else str(pictures),
                    surfaces=None if surface is None else str(surface),
                    seconds=took(seconds),
                )
            )
        elif not self.quiet:
            of_walls = f", {walls:,} of walls" if walls else ""
            rows = [("particles", f"{water:,} of water{of_walls}, {run.fluid.spacing:g} m apart")]
            rows.append(("lost", f"{last.lost:,}"))
            if file is not None:
                rows.append(("behind a wall", f"{last.behind:,}"))
            if self.clearance is not None:
                near = f"{self.clearance:.3g} m, {self.clearance / run.fluid.spacing:.2f} spacings"
                rows.append(("least distance", f"{near}, to the walls"))
            rows += [
                ("energy", f"{self.first.energy:.4g} J at the start, {last.energy:.4g} J at the end"),
                ("flow", f"{last.time:g} s, {last.steps:,} steps of {run.fluid.step:.3g} s"),
                ("time", f"{seconds:.1f} s, {rate:,.0f} steps/s" + (f"; {kept:,} frames were kept" if kept else "")),
                ("file", f"{self.output}, {run.frames + 1:,} states, {human_bytes(written)}"),
            ]
            if pictures is not None:
                rows.append(("pictures", f"{run.frames + 1:,} in {pictures}"))
            if surface is not None:
                rows.append(("surfaces", f"{run.frames + 1:,}, {surface}"))
            print_table(str(file or case), rows)
        if last.fast and not self.quiet:
            say(f"note: water moved so far in a step that it may have missed a neighbour, {last.fast:,} times; --step")

    def require(self) -> None:
        """Raises CheckFailedError if water went through a wall."""
        if self.last.lost or self.last.behind:
            raise CheckFailedError(
                f"{self.output}: {self.last.lost:,} particles left the tank, and {self.last.behind:,} times one was "
                "behind a wall; use a smaller --spacing, or a shorter --step"
            )
