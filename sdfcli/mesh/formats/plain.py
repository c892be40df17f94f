"""Rows of text files in their plainest form, read by kernels (kernels/mesh/text.h); others by lines.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sdfcli.backend import C, any_backend
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Floats, Ints
from sdfcli.mesh.formats.lines import PIECE, REAL, numbers, polygons_of, texts_of
from sdfcli.mesh.formats.polygons import Polygons
from sdfcli.runtime.memory import require

XYZ = (0, 1, 2)
CORNER = 40
"""Working bytes for a corner of a face."""


@dataclass(frozen=True)
class Lines:
    """What the lines of a text are.

    before  the number of lines before them.
    end     (n,) of each line, where the newline after it is.
    kind    (n,) C.LINE_*.
    value   (n, 3) the coordinates of a LINE_VERTEX.
    corner  (n, 2) of a LINE_FACE: where its first corner is in the text, and how many it has.
    """

    text: bytes
    before: int
    end: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.uint8]
    value: Floats
    corner: npt.NDArray[np.uint64]

    @staticmethod
    def of(text: bytes, before: int, form: int, words: tuple[int, int] = (0, 0)) -> Lines:
        """form: C.TEXT_*; words: the words of a row before what is read, and those that follow a face."""
        backend, data = any_backend(), np.frombuffer(text, np.uint8)
        end = _line_ends(data).astype(np.uint64)
        n, xp = len(end), backend.xp
        kind, value, corner = xp.empty(n, np.uint8), xp.empty((n, 3)), xp.empty((n, 2), np.uint64)
        given = {"text": backend.from_host(data), "end": backend.from_host(end)}
        before_and_after = dict(zip(("before", "after"), words, strict=True))
        backend.run("sdf_text_lines", n, form=form, kind=kind, value=value, corner=corner, **before_and_after, **given)
        return Lines(text, before, end, *map(backend.to_host, (kind, value, corner)))

    @property
    def is_vertex(self) -> Bools:
        """(n,), of odd ones, too."""
        found: Bools = (self.kind == C.LINE_VERTEX) | (self.kind == C.LINE_ODD_VERTEX)
        return found

    @property
    def is_face(self) -> Bools:
        """(n,), of odd ones, too."""
        found: Bools = (self.kind == C.LINE_FACE) | (self.kind == C.LINE_ODD_FACE)
        return found

    def rows(self, chosen: Bools) -> tuple[list[bytes], list[int]]:
        """The chosen lines, and their numbers in the file."""
        at = np.flatnonzero(chosen)
        start = np.where(at > 0, self.end[at - 1] + np.uint64(1), np.uint64(0))
        ends = zip(start.tolist(), self.end[at].tolist(), strict=True)
        return [self.text[first:end] for first, end in ends], (self.before + at).tolist()

    def vertices(self, columns: tuple[int, ...]) -> Floats:
        """The coordinates (v, 3) of all vertices. columns: of a row, that they are in. Raises InputError as `numbers`
        does."""
        odd = self.kind == C.LINE_ODD_VERTEX
        if odd.any():
            self.value[odd] = numbers(*self.rows(odd), columns)
        found: Floats = self.value[self.is_vertex]
        return found

    def polygons(self) -> Polygons | None:
        """The corners of all faces, as they are written; None where a face is odd."""
        if (self.kind == C.LINE_ODD_FACE).any():
            return None
        backend, (at, count) = any_backend(), self.corner[self.kind == C.LINE_FACE].T
        end = np.cumsum(count)
        corners = int(end[-1]) if len(end) else 0
        if corners > PIECE:  # in a line longer than any mesh needs
            require(CORNER * corners, "reading its faces")
        corner = backend.xp.empty(corners, np.uint64)
        given = {"text": np.frombuffer(self.text, np.uint8), "at": at.copy(), "end": end}
        device = {name: backend.from_host(array) for name, array in given.items()}
        backend.run("sdf_text_corners", len(end), bytes=len(self.text), corner=corner, **device)
        return Polygons(backend.to_host(corner).view(np.int64), count.astype(np.int64))


@dataclass(frozen=True)
class Table:
    """Rows of a text, one per line that is not blank: from its byte `start` to `stop`, after `before` lines."""

    data: bytes
    before: int
    start: int
    stop: int

    def points(self, columns: tuple[int, ...] = XYZ) -> Floats:
        """Three columns of all rows: (n, 3). Raises InputError as `numbers` does."""
        found = [np.empty((0, 3))]
        for lines in self._lines(C.TEXT_POINTS, (columns[0], 0)):
            if np.any(np.diff(columns) != 1):
                lines.kind[lines.kind == C.LINE_VERTEX] = C.LINE_ODD_VERTEX
            found.append(lines.vertices(columns))
        return np.concatenate(found)

    def polygons(
        self, corners_of: Callable[[bytes, int], bytes], words: tuple[int, int] | None = (0, 0)
    ) -> tuple[Polygons, Ints]:
        """The polygons of all rows, each a count and as many vertices, and the rows' lines in the file.

        corners_of  the vertices in a row, given it and its line.
        words       before the count, and after the vertices; None where these are not so many in each row.

        Raises InputError as `polygons_of` and `corners_of` do.
        """
        found, places = [Polygons.of([])], [np.empty(0, np.int64)]
        for lines in self._lines(C.TEXT_FACES, words or (0, 0)):
            polygons = lines.polygons() if words else None
            if polygons is None and lines.is_face.any():
                rows, at = lines.rows(lines.is_face)
                polygons = polygons_of([corners_of(row, line) for row, line in zip(rows, at, strict=True)], at)
            if polygons is not None:
                found.append(polygons)
                places.append(lines.before + np.flatnonzero(lines.is_face))
        corner, count = (np.concatenate([getattr(each, name) for each in found]) for name in ("corner", "count"))
        return Polygons(corner, count), np.concatenate(places)

    def _lines(self, form: int, words: tuple[int, int]) -> Iterator[Lines]:
        return lines_of(self.data, form, words, self.before, self.start, self.stop)


def lines_of(
    data: bytes, form: int, words: tuple[int, int] = (0, 0), before: int = 0, start: int = 0, stop: int | None = None
) -> Iterator[Lines]:
    """Lines of a text, some at a time; as for `texts_of` and `Lines.of`."""
    for text in texts_of(data, start, stop):
        lines = Lines.of(text, before, form, words)
        before += len(lines.kind)
        yield lines


def tables_of(data: bytes, before: int, start: int, counts: Sequence[int]) -> tuple[list[Table], int]:
    """Tables of so many rows, one after another from the byte `start` on, after `before` lines; and how many rows
    there are in all. Tables are missing where that is less than their rows."""
    found, wanted, rows, lines, begin = list[Table](), np.cumsum(counts).tolist(), 0, before, start
    for text in texts_of(data, start):
        end, full = _full_lines(text)
        while len(found) < len(counts) and wanted[len(found)] <= rows + len(full):
            stop, after = start, before
            if counts[len(found)]:
                last = int(full[wanted[len(found)] - rows - 1])
                stop, after = begin + int(end[last]), lines + last + 1
            found.append(Table(data, before, start, stop))
            start, before = stop + (stop > start), after
        rows += len(full)
        lines += len(end)
        begin += len(text) + 1
    return found, rows


def text_behind(tables: list[Table], more: int, fault: str) -> str:
    """A note of the lines behind the last table; empty without any. more: how many there are. Raises InputError for a
    `fault` where there are less than none, and where the first one is a row of numbers, too."""
    if more < 0:
        raise InputError(fault)
    if more == 0:
        return ""
    rest = re.search(rb"\S+", tables[-1].data[tables[-1].stop :])
    if rest and re.fullmatch(REAL, rest[0]):
        raise InputError(fault)
    return f"lines behind its last row left out: {more:,}"


def _line_ends(letters: npt.NDArray[np.uint8]) -> Ints:
    return np.append(np.flatnonzero(letters == ord("\n")), len(letters))


def _full_lines(text: bytes) -> tuple[Ints, Ints]:
    """Where each line ends, and which lines are not blank."""
    letters = np.frombuffer(text, np.uint8)
    end = _line_ends(letters)
    begin = np.concatenate([[0], end[:-1] + 1])
    full = begin < end
    full[full] = letters[begin[full]] > ord(" ")
    for k in np.flatnonzero(~full & (begin < end)):
        full[k] = bool(text[begin[k] : end[k]].strip())
    return end, np.flatnonzero(full)
