"""Pictures of a range of frames: numbered files, or an animation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdfcli.cli.fields import FrameRange, numbered, numbered_name
from sdfcli.cli.output import human_bytes, print_json, print_table, progress
from sdfcli.cli.records import Json, took
from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from sdfcli.cli.records import Line
    from sdfcli.field.field import Field
    from sdfcli.pictures.moving import Picture

    Draw = Callable[[int, Field], Picture]
    Update = Callable[[str], None]
    Written = tuple[Path, dict[str, Any]]

MOVING = (".gif", ".apng")
SAMPLES = 5
"""Frames, evenly spaced over the range, from which a GIF's palette is chosen."""


class Film:
    """Pictures of a range of frames, and their files."""

    def __init__(
        self, file: Path, target: Path, frames: str, fps: float | None, force: bool, transparent: bool = False
    ) -> None:
        """target: an animation, or the numbered files' pattern.

        Raises InputError or UsageError, before any work, for invalid names, existing files, or an invalid range.
        """
        from sdfcli.pictures.moving import gif_seconds
        from sdfcli.pictures.png import FORMATS, check_transparent
        from sdfcli.runtime.files import check_target

        ending = target.suffix.lower()
        if ending not in (*MOVING, *FORMATS):
            raise UsageError(f"{target}: use a name that ends in .gif or .apng, or {numbered_name(target, '.png')}")
        if fps is not None and ending not in MOVING:
            raise UsageError("--fps is for a name that ends in .gif or .apng")
        check_transparent(target, transparent)
        self._file, self._target, self._ending, self._force = file, target, ending, force
        self._range = FrameRange(file, frames)
        self._seconds = self._range.seconds(fps)
        if self._ending == ".gif":
            self._seconds = gif_seconds(self._seconds)
        self._targets = [target] if ending in MOVING else numbered(target, self._range.numbers)
        for each in self._targets:
            check_target(each, force, file)
        self._size = (0, 0)

    def shoot(
        self,
        look: Callable[[Iterable[Field]], Any],
        draw: Callable[[Field, Any, float], Picture],
        facts: Callable[[Any], dict[str, Any]],
        still: type[Line],
        moving: type[Line],
        json: bool,
        quiet: bool,
    ) -> None:
        """Writes and reports the pictures; with `json`, an object per file.

        look: computes the settings shared by all pictures from all fields; draw: draws a field with these settings at
        a time; facts: report entries from the settings; still, moving: records of a numbered file, and of an animation.
        """
        start, size = time.perf_counter(), 0
        write, record = (self._moving, moving) if self._ending in MOVING else (self._stills, still)
        with progress(str(self._file), quiet or json) as update:
            shared = look(field for _, field in self._range.fields(update, "looking"))
            for path, told in write(lambda number, field: draw(field, shared, self._range.time(number)), update):
                seconds = time.perf_counter() - start
                size += path.stat().st_size
                if json:
                    report: Json = {"output": str(path), "bytes": path.stat().st_size, "width": self._size[0]}
                    report |= {"height": self._size[1], **facts(shared), **told}
                    print_json(record(input=str(self._file), **report, seconds=took(seconds)))
        if not (json or quiet):
            picture = [
                f"{self._size[0]} x {self._size[1]}",
                *(
                    f"{name} {each:.9g}" if isinstance(each, float) else f"{name} {each}"
                    for name, each in facts(shared).items()
                ),
            ]
            lasts = f", {sum(self._seconds):.3g} s" if self._ending in MOVING else ""
            rows = [("picture", ", ".join(picture)), ("frames", f"{len(self._range):,}{lasts}")]
            rows += [("time", f"{seconds:.2f} s"), ("file", f"{self._target}, {human_bytes(size)}")]
            print_table(str(self._file), rows)

    def _drawn(self, draw: Draw, update: Update) -> Iterator[tuple[int, Picture]]:
        for number, field in self._range.fields(update, "drawing"):
            picture = draw(number, field)
            self._size = picture.shape[1], picture.shape[0]
            yield number, picture

    def _stills(self, draw: Draw, update: Update) -> Iterator[Written]:
        from sdfcli.pictures.png import write_picture

        for path, (number, picture) in zip(self._targets, self._drawn(draw, update), strict=True):
            write_picture(path, picture, self._force)
            yield path, {"frame": number, "time": self._range.time(number)}

    def _moving(self, draw: Draw, update: Update) -> Iterator[Written]:
        from sdfcli.pictures.moving import write_apng, write_gif
        from sdfcli.runtime.files import written_whole

        pictures = (picture for _, picture in self._drawn(draw, update))
        with written_whole(self._target, self._force) as temporary:
            if self._ending == ".gif":
                update("choosing colours")
                spread = self._range.numbers[:: -(-len(self._range) // SAMPLES)]
                samples = [draw(number, self._range.sequence.at(number)) for number in spread]
                write_gif(temporary, pictures, self._seconds, samples)
            else:
                write_apng(temporary, pictures, self._seconds)
        yield self._target, {"frames": len(self._range), "lasts": round(sum(self._seconds), 6)}
