"""Command inputs: fields, a sequence at a frame or a time, or a range of frames; and their outputs' names."""

from __future__ import annotations

import math
import os
import re
import time as clock
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sdfcli.cli.output import StandardOutputError, error_line, pace, print_error, print_json, say
from sdfcli.errors import InputError, SdfError, UsageError, worst_code
from sdfcli.params import NAME

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.sequence.field_sequence import FieldSequence

NUMBER = re.compile(r"%(?:0\d)?d")
"""Placeholder for the frame number in a file name."""
FORMATTED = re.compile(r"[-_.]?%[-+ #0-9.]*[a-z]")
"""Placeholders of C's printf, with the character that separates them from the name."""


def open_field(file: Path, frame: int | None, time: float | None) -> Field:
    """Opens a field file, or a sequence at a frame or a time.

    Raises InputError for a sequence without frame and time, and for a field with either; UsageError for both, and for
    a frame or time outside the sequence.
    """
    check_choice(frame, time)
    if frame is not None:
        return open_sequence(file, "--frame").at(frame)
    if time is not None:
        return open_sequence(file, "--time").at_time(time)
    from sdfcli.field.store import load

    return load(file)


def fields_of(named: list[str], meshes: bool = False) -> list[Path]:
    """The files among files, folders and patterns; see `find_fields`."""
    from sdfcli.batch.inputs import find_fields

    return [Path(each) for each in find_fields(named, meshes=meshes)]


def check_choice(*choices: float | str | None) -> None:
    """Raises UsageError if more than one of --frame, --time and --frames is given."""
    if sum(each is not None for each in choices) > 1:
        names = ("--frame", "--time", "--frames")[: len(choices)]
        raise UsageError(f"use one of {', '.join(names)}")


def check_no_frame(*choices: float | str | None) -> None:
    """Raises UsageError for --why with --frame, --time or --frames."""
    if any(each is not None for each in choices):
        raise UsageError("--why: frames of a sequence store no causes; use `sdfcli build --why` on the frame's mesh")


def open_sequence(file: Path, option: str) -> FieldSequence:
    """Opens a sequence. option: the option that needs it, named in the InputError raised for a field."""
    from sdfcli.field.store import is_field
    from sdfcli.sequence.file import is_sequence, load_sequence

    if is_field(file) and not is_sequence(file):
        raise InputError(f"{file}: not a sequence; {option} needs a file from `sdfcli sequence`")
    return load_sequence(file)


class FrameRange:
    """Frames of a sequence, in the order of a slice such as 10:20, ::2 or ::-1.

    numbers  frame indices.
    """

    def __init__(self, file: Path, frames: str) -> None:
        """Raises UsageError for an invalid or empty slice, and `open_sequence`'s exceptions."""
        try:
            words = [int(word) if word else None for word in frames.split(":")]
        except ValueError:
            words = []
        if not 2 <= len(words) <= 3 or words[2:] == [0]:
            raise UsageError(f"--frames {frames}: use A:B or A:B:STEP, as in 0:10, or : for all; --frame N is for one")
        self.sequence = open_sequence(file, "--frames")
        self.numbers = range(len(self.sequence))[slice(*words)]
        if not self.numbers:
            raise UsageError(f"--frames {frames}: no frames; the sequence has {len(self.sequence):,}, from 0")

    def __len__(self) -> int:
        return len(self.numbers)

    def fields(self, update: Callable[[str], None], title: str) -> Iterator[tuple[int, Field]]:
        """Yields each frame's index and field, read lazily. update: shows progress, prefixed by `title`."""
        start = clock.perf_counter()
        for done, number in enumerate(self.numbers):
            update(f"{title}: {pace(done, len(self), clock.perf_counter() - start)}")
            yield number, self.sequence.at(number)

    def time(self, number: int) -> float:
        """A frame's time in seconds."""
        return float(self.sequence.times[number])

    def seconds(self, fps: float | None) -> list[float]:
        """Display durations: until the next frame's time; the last one repeats, and a single frame has 1 s.

        fps: frames per second, in place of the times. Raises UsageError for an impossible rate.
        """
        if fps is not None:
            if not (math.isfinite(fps) and fps > 0):
                raise UsageError(f"--fps {fps:g}: use a number above 0")
            return [1 / fps] * len(self)
        times = [self.time(number) for number in self.numbers]
        shown = [abs(after - before) for before, after in pairwise(times)]
        return [*shown, shown[-1] if shown else 1.0]


def numbered(path: Path, numbers: range) -> list[Path]:
    """File name per frame: its number replaces %04d or %d in the name of `path`.

    Raises UsageError unless the name has exactly one placeholder.
    """
    places = NUMBER.findall(path.name)
    if len(places) != 1:
        raise UsageError(f"{path}: use a name with %d or %04d for the frame number, as in {numbered_name(path)}")
    return [path.with_name(path.name.replace(places[0], places[0] % number)) for number in numbers]


def numbered_name(path: Path, ending: str | None = None) -> Path:
    """An example of a name for numbered files, with a single placeholder. ending: replaces the name's own."""
    return path.parent / f"{FORMATTED.sub('', path.stem) or 'frame'}_%04d{path.suffix if ending is None else ending}"


def pattern_of(named: list[str], files: list[Path], output: str | None, default: str) -> Path:
    """The output's name: by default `default`, in the current folder or in `output`, if that is a folder.

    A folder exists, or its name ends with a slash, or has no ending where several files, a folder or a pattern are
    `named`.
    """
    return (
        Path(default) if output is None else Path(output, default) if is_folder(named, files, output) else Path(output)
    )


def is_folder(named: list[str], files: list[Path], output: str) -> bool:
    """Whether an output is a folder; see `pattern_of`."""
    alone = len(named) == 1 and files == [Path(named[0])]
    open_name = not (alone or Path(output).suffix or NAME in Path(output).name)
    return output.endswith((os.sep, "/")) or open_name or (output != "" and os.path.isdir(output))


def check_no_mesh(files: list[Path]) -> None:
    """Raises InputError if the only file is a mesh."""
    from sdfcli.field.store import check_no_mesh

    if len(files) == 1:
        check_no_mesh(files[0])


def outputs_by_name(
    named: list[str], files: list[Path], output: str | None, default: str, endings: Iterable[str]
) -> list[Path]:
    """`outputs_of` the name that `pattern_of` gives. Raises UsageError for another ending, InputError for a mesh."""
    from sdfcli.runtime.files import check_ending

    pattern = pattern_of(named, files, output, default)
    check_ending(pattern, *endings)
    check_no_mesh(files)
    return outputs_of(files, pattern)


def say_file_notes(notes: Iterable[str], file: Path, place: str | None) -> None:
    """Prints a file's notes, with its name among several. place: as for `for_each`."""
    for note in notes:
        say(f"note: {note if place is None else f'{file}: {note}'}")


def outputs_of(files: list[Path], pattern: Path) -> list[Path]:
    """Output per input file: the pattern, with the file's name in place of {name}.

    Raises UsageError for several files with a pattern without {name}, and for two files with one output.
    """
    if NAME not in str(pattern):
        if len(files) > 1:
            example = f"-o '{pattern.with_name(NAME + pattern.suffix)}'"
            raise UsageError(f"{pattern}: {len(files)} files need a name with {NAME}, as in {example}")
        return [pattern]
    first: dict[Path, Path] = {}
    for file in files:
        output = Path(str(pattern).replace(NAME, file.stem))
        other = first.setdefault(output, file)
        if other is not file:
            raise UsageError(f"{other} and {file} would both be written to {output}; rename one of them")
    return list(first)


def single(files: list[Path], pattern: Path) -> tuple[Path, Path]:
    """The only file, and its output. Raises UsageError for several files, whose frames are for separate commands."""
    if len(files) > 1:
        raise UsageError("--frames: use one sequence at a time")
    return files[0], outputs_of(files, pattern)[0]


def print_failure(file: Path, error: SdfError, json: bool) -> int:
    """Prints the error of one of several files, with `json` as a record, too; returns its exit code. Raises it if it is
    standard output's."""
    from sdfcli.cli.records import Failed

    if isinstance(error, StandardOutputError):
        raise error
    named = error if str(file) in str(error) else type(error)(f"{file}: {error}")
    code = print_error(named)
    if json:
        print_json(Failed(input=str(file), error=error_line(named), exit_code=code))
    return code


def for_each(
    files: list[Path], targets: list[Path], work: Callable[[Path, Path, str | None], None], json: bool
) -> None:
    """Calls `work` with each file, its target and its place among them, as [2/5]; None for a single file. An error of
    one of several files is printed, with `json` as a record, too, and the others are still done.

    Raises the error of a single file; otherwise typer.Exit with the most severe exit code, if any failed.
    """
    code, total = 0, len(files)
    for number, (file, target) in enumerate(zip(files, targets, strict=True), 1):
        try:
            work(file, target, f"[{number:>{len(str(total))}}/{total}]" if total > 1 else None)
        except SdfError as error:
            if total == 1:
                raise
            code = worst_code((code, print_failure(file, error, json)))
    if code:
        raise typer.Exit(code)
