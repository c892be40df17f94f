"""`sdfcli sequence`: one file from a moving mesh's frames."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.build_options import (
    Band,
    Depth,
    Domain,
    MaxError,
    MaxMemory,
    Octree,
    Scale,
    Thin,
    Tolerance,
    Unit,
    Units,
    memory_limit,
)
from sdfcli.cli.output import error_text, human_bytes, pace, print_json, print_table, progress, say
from sdfcli.cli.records import Count, Line, Seconds, SummedSequence, took
from sdfcli.cli.wording import frames_text, leaves_text, length_text, lengths_of
from sdfcli.errors import UsageError
from sdfcli.params import ENDINGS, NAME, BuildOptions, BuildParams
from sdfcli.startup import driver

FPS = 24.0

FrameWords = Annotated[
    list[str],
    typer.Argument(
        metavar="FRAMES...",
        help="Meshes in order, a folder of meshes in natural order, or a .npy file (t, v, 3) with --faces.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Output file.")]
Fps = Annotated[
    float | None,
    typer.Option("--fps", metavar="RATE", help=f"Frames per second; {FPS:g} by default.", show_default=False),
]
Times = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Frame times in seconds: one per line, or .npy. Not with --fps.", show_default=False
    ),
]
Cold = Annotated[
    bool,
    typer.Option(
        "--cold", help="Build each frame independently of the previous one.", rich_help_panel=options.ADVANCED
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Number of processes that build frames; by default one per core, or up to eight per GPU.",
        show_default=False,
        rich_help_panel=options.DEVICE,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print a line per frame, and seconds per stage.")]


class BuiltFrame(
    Line,
    title="sequence, a frame",
    shared="time sign sign_reason verdict max_error leaves corners content_sha256",
):
    """A line per frame, as soon as it is stored."""

    index: Annotated[Count, "frame index, from 0"]
    input: Annotated[str, "the frame's file; for an array, its name and the frame index"]
    coherent: Annotated[
        bool | None, "whether the build reused the previous frame; null for a frame stored by an interrupted run"
    ]
    motion: Annotated[
        float | None,
        "largest distance of a vertex from its place in the frame before; null for the first frame, and where the "
        "faces are others",
    ]
    bytes: Annotated[Count, "the frame's size in the file"]
    device: Annotated[str | None, "as above; null for a frame stored by an interrupted run"]  # type: ignore[assignment]
    seconds: Annotated[Seconds | None, "as above; null for a frame stored by an interrupted run"]  # type: ignore[assignment]


class BuiltSequence(SummedSequence, title="sequence", shared="input output bytes seconds frames kept"):
    """The last line, for all frames."""

    coherent_frames: Annotated[Count, "frames whose build reused the previous frame"]
    motion: Annotated[float | None, "largest of all frames' motions; null if one is unknown, or for a single frame"]
    leaves: Annotated[Count, "of all frames together"]
    frames_per_second: Annotated[float, "built frames per second of the whole run"]


def sequence(
    frames: FrameWords,
    output: Output,
    fps: Fps = None,
    times: Times = None,
    faces: options.Faces = None,
    tolerance: Tolerance = BuildParams.tolerance,
    max_error: MaxError = None,
    sign: options.Sign = BuildParams.sign,
    scale: Scale = None,
    units: Units = None,
    resume: options.Resume = False,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: Verbose = False,
    depth: Depth = BuildParams.depth,
    thin: Thin = BuildParams.thin,
    band: Band = BuildParams.band,
    unit: Unit = None,
    device: options.Devices = "auto",
    threads: options.Threads = None,
    max_memory: MaxMemory = None,
    jobs: Jobs = None,
    domain: Domain = None,
    octree: Octree = BuildParams.octree,
    query: options.Query = BuildParams.query,
    cold: Cold = False,
) -> None:
    """Build a moving mesh's fields, frame by frame, into one HDF5 file.

    Example: sdfcli sequence frames/ -o anim.h5 --fps 30
    """
    if fps is not None and times is not None:
        raise UsageError("--fps and --times both set the frames' times; use one of them")
    params = BuildParams.of(
        octree=octree,
        depth=depth,
        tolerance=tolerance,
        band=band,
        thin=thin,
        sign=sign,
        query=query,
        domain=domain,
        unit=unit,
        max_error=max_error,
        scale=scale,
        units=units,
    )
    if jobs == 1:
        driver.start(device)
    from sdfcli.runtime.files import check_ending, check_target
    from sdfcli.runtime.parts import kept_frames, parts_folder
    from sdfcli.sequence.frames import find_frames, frame_times
    from sdfcli.sequence.save import save_sequence

    most = memory_limit(max_memory)
    found: Any = find_frames(frames, faces)
    check_target(output, force, *found.inputs, *([times] if times else []))
    check_ending(output, "", *ENDINGS)
    if NAME in str(output):
        raise UsageError(f"{output}: use a name without {NAME}; all frames go into one file")
    at = frame_times(len(found), FPS if fps is None and times is None else fps, times)
    shown = Shown(found, at, json, quiet, verbose)
    with parts_folder(output, resume, force) as folder:
        try:
            with progress(str(output), quiet or (json and sys.stdout.isatty())) as update:
                shown.update = update
                update("reading the frames' bounds")
                from sdfcli.sequence.build import SequenceBuild

                build = SequenceBuild(found, params, BuildOptions(device, threads, most), cold)
                facts = save_sequence(build, at, output, folder, force, shown.add, jobs)
        except BaseException:
            _say_kept(kept_frames(output), len(found))
            raise
    shown.end(frames, output, facts, build.unit)


def _say_kept(kept: int, count: int) -> None:
    if kept:
        say(f"{kept:,} of {count:,} frames are kept; to go on, repeat the command with --resume")


@dataclass
class Shown:
    """Shows frames as they finish, and a summary at the end."""

    frames: Any
    times: Any
    json: bool
    quiet: bool
    verbose: bool
    update: Any = None
    start: float = field(default_factory=time.perf_counter)
    last: dict[str, Any] | None = None
    kept: int = 0
    coherent: int = 0
    motion: float = 0.0
    unknown: int = 0
    leaves: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        """Shows a finished frame; row: see `Parts.write`."""
        index, seconds = row["index"], row["seconds"] or {}
        self.kept += row["seconds"] is None
        self.coherent += bool(row["coherent"])
        self.motion = max(self.motion, row["motion"] or 0.0)
        self.unknown += row["motion"] is None and index > 0
        self.leaves += row["leaves"]
        for stage, each in seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + each
        name = self.frames.name(index)
        if self.json:
            rounded = {stage: round(each, 4) for stage, each in seconds.items()} or None
            print_json(BuiltFrame(**{**row, "time": float(self.times[index]), "input": name, "seconds": rounded}))
        elif self.verbose and not self.quiet:
            say(self._line(row, name), row["verdict"])
        if self.last and self.last["sign"] != row["sign"] and not self.quiet:
            was = f"{self.last['sign']} up to frame {index - 1}"
            say(f"sdfcli: warning: {name}: sign by {row['sign']} from here on, {was}: {row['sign_reason']}")
        self.last = row
        self.update(pace(index + 1 - self.kept, len(self.frames) - self.kept, time.perf_counter() - self.start))

    def _line(self, row: dict[str, Any], name: str) -> str:
        how = "kept" if row["seconds"] is None else f"{row['seconds']['total']:.2f} s"
        error = f"error {error_text(row['max_error'])}"
        place = f"[{row['index'] + 1:,}/{len(self.frames):,}]"
        return f"{place} {name}: {row['verdict']}, {leaves_text(row['leaves'])}, {error}, {how}"

    def end(self, named: list[str], output: Path, facts: dict[str, Any], unit: float) -> None:
        """Shows the summary. facts: `save_sequence`'s result."""
        count, seconds, size = len(self.frames), time.perf_counter() - self.start, output.stat().st_size
        rate = (count - self.kept) / seconds
        if self.json:
            print_json(
                BuiltSequence(
                    input=named[0],
                    output=str(output),
                    frames=count,
                    kept=self.kept,
                    coherent_frames=self.coherent,
                    motion=None if self._motion_unknown else self.motion,
                    **facts,
                    lengths=lengths_of(facts | {"tolerance": facts["parameters"]["tolerance"]}, unit),
                    leaves=self.leaves,
                    bytes=size,
                    seconds=took(seconds),
                    frames_per_second=round(rate, 3),
                )
            )
        elif not self.quiet:
            print_table(str(output), self._rows(output, facts, unit, seconds, rate, size))
            if self.verbose:
                stages = [(name, f"{value:.3f}") for name, value in self.seconds.items()]
                print_table("", stages, ("stage", "seconds of all frames"))

    @property
    def _motion_unknown(self) -> bool:
        return self.unknown > 0 or len(self.frames) < 2

    def _motion_text(self, unit: float) -> str:
        if len(self.frames) < 2:
            return "unknown: there is one frame"
        known = f"at most {length_text(self.motion / unit, unit, 'unit')} per frame"
        if not self.unknown:
            return known
        faces = f"{self.unknown:,} frame{'s have' if self.unknown > 1 else ' has'} other faces than the one before"
        return f"unknown: {faces}" + ("" if self.unknown == len(self.frames) - 1 else f"; else {known}")

    def _rows(
        self, output: Path, facts: dict[str, Any], unit: float, seconds: float, rate: float, size: int
    ) -> list[tuple[str, str]]:
        count, parameters = len(self.frames), facts["parameters"]
        lasts = f"{float(self.times[0]):g} to {float(self.times[-1]):g} s"
        kept = f"; {self.kept:,} were kept" if self.kept else ""
        return [
            ("frames", f"{count:,}, {lasts}"),
            ("error", f"{length_text(facts['max_error'], unit, 'unit')}, largest of all frames' samples"),
            ("tolerance", length_text(parameters["tolerance"], unit, "unit")),
            ("file", f"{output}, {human_bytes(size)}"),
            ("time", f"{seconds:.1f} s, {rate:.3g} frames/s{kept}"),
            ("verdict", frames_text(facts["verdicts"])),
            ("sign", frames_text(facts["signs"])),
            ("motion", self._motion_text(unit)),
            ("coherent", f"{self.coherent:,} frame{'s rest' if self.coherent != 1 else ' rests'} on the frame before"),
            ("unit", f"{unit:.9g}, in the mesh's units, as are all lengths"),
            ("octree", f"{parameters['octree']}, {self.leaves / count:,.0f} leaves per frame"),
            ("proof", "none: errors are measured; verify --frame N --prove proves a frame's"),
        ]
