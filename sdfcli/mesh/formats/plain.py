"""Plain rows of text files, parsed by kernels (kernels/mesh/text.h); other rows are left to lines.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
"""Working bytes per face corner."""


class Words(NamedTuple):
    """Word counts in a row: before the values, and minimum and maximum after a face's corners."""

    before: int = 0
    after: int = 0
    most: int = 2**32 - 1


NO_WORDS = Words()


@dataclass(frozen=True)
class Lines:
    """Classified lines of a text.

    before  number of lines before the text.
    end     (n,) position of the newline after each line.
    kind    (n,) C.LINE_*.
    value   (n, 3) coordinates of a LINE_VERTEX.
    corner  (n, 2) for a LINE_FACE: position of its first corner in the text, and corner count.
    """

    text: bytes
    before: int
    end: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.uint8]
    value: Floats
    corner: npt.NDArray[np.uint64]

    @staticmethod
    def of(text: bytes, before: int, form: int, words: Words = NO_WORDS) -> Lines:
        """form: C.TEXT_*."""
        backend, data = any_backend(), np.frombuffer(text, np.uint8)
        end = _line_ends(data).astype(np.uint64)
        n, xp = len(end), backend.xp
        kind, value, corner = xp.empty(n, np.uint8), xp.empty((n, 3)), xp.empty((n, 2), np.uint64)
        given = {"text": backend.from_host(data), "end": backend.from_host(end)}
        backend.run("sdf_text_lines", n, form=form, kind=kind, value=value, corner=corner, **words._asdict(), **given)
        return Lines(text, before, end, *map(backend.to_host, (kind, value, corner)))

    @property
    def is_vertex(self) -> Bools:
        """(n,), including odd ones."""
        found: Bools = (self.kind == C.LINE_VERTEX) | (self.kind == C.LINE_ODD_VERTEX)
        return found

    @property
    def is_face(self) -> Bools:
        """(n,), including odd ones."""
        found: Bools = (self.kind == C.LINE_FACE) | (self.kind == C.LINE_ODD_FACE)
        return found

    def rows(self, chosen: Bools) -> tuple[list[bytes], list[int]]:
        """The chosen lines, and their zero-based line numbers in the file."""
        at = np.flatnonzero(chosen)
        start = np.where(at > 0, self.end[at - 1] + np.uint64(1), np.uint64(0))
        ends = zip(start.tolist(), self.end[at].tolist(), strict=True)
        return [self.text[first:end] for first, end in ends], (self.before + at).tolist()

    def vertices(self, columns: tuple[int, ...]) -> Floats:
        """Coordinates (v, 3) of all vertices. columns: the coordinates' columns in a row. Raises InputError as
        `numbers` does."""
        odd = self.kind == C.LINE_ODD_VERTEX
        if odd.any():
            self.value[odd] = numbers(*self.rows(odd), columns)
        found: Floats = self.value[self.is_vertex]
        return found

    def polygons(self) -> Polygons | None:
        """Corners of all faces, as written; None if any face is odd."""
        if (self.kind == C.LINE_ODD_FACE).any():
            return None
        backend, (at, count) = any_backend(), self.corner[self.kind == C.LINE_FACE].T
        end = np.cumsum(count)
        corners = int(end[-1]) if len(end) else 0
        if corners > PIECE:  # only in a line longer than any mesh needs
            require(CORNER * corners, "reading its faces")
        corner = backend.xp.empty(corners, np.uint64)
        given = {"text": np.frombuffer(self.text, np.uint8), "at": at.copy(), "end": end}
        device = {name: backend.from_host(array) for name, array in given.items()}
        backend.run("sdf_text_corners", len(end), bytes=len(self.text), corner=corner, **device)
        return Polygons(backend.to_host(corner).view(np.int64), count.astype(np.int64))


@dataclass(frozen=True)
class Table:
    """Rows in a text, one per non-blank line, from byte `start` to `stop`, after `before` lines."""

    data: bytes
    before: int
    start: int
    stop: int

    def points(self, columns: tuple[int, ...] = XYZ) -> Floats:
        """Three columns from all rows, (n, 3). Raises InputError as `numbers` does."""
        found = [np.empty((0, 3))]
        for lines in self._lines(C.TEXT_POINTS, Words(before=columns[0])):
            if np.any(np.diff(columns) != 1):
                lines.kind[lines.kind == C.LINE_VERTEX] = C.LINE_ODD_VERTEX
            found.append(lines.vertices(columns))
        return np.concatenate(found)

    def polygons(
        self, corners_of: Callable[[bytes, int], bytes], words: Words | None = NO_WORDS
    ) -> tuple[Polygons, Ints]:
        """Polygons from all rows, each a corner count followed by vertex indices, and the rows' zero-based line
        numbers.

        corners_of  vertex indices in a row, given the row and its line number.
        words       words before the corner count and after the vertices; None if they vary between rows.

        Raises InputError as `polygons_of` and `corners_of` do.
        """
        found, places = [Polygons.of([])], [np.empty(0, np.int64)]
        for lines in self._lines(C.TEXT_FACES, words or NO_WORDS):
            polygons = lines.polygons() if words else None
            if polygons is None and lines.is_face.any():
                rows, at = lines.rows(lines.is_face)
                polygons = polygons_of([corners_of(row, line) for row, line in zip(rows, at, strict=True)], at)
            if polygons is not None:
                found.append(polygons)
                places.append(lines.before + np.flatnonzero(lines.is_face))
        corner, count = (np.concatenate([getattr(each, name) for each in found]) for name in ("corner", "count"))
        return Polygons(corner, count), np.concatenate(places)

    def _lines(self, form: int, words: Words) -> Iterator[Lines]:
        return lines_of(self.data, form, words, self.before, self.start, self.stop)


def lines_of(
    data: bytes, form: int, words: Words = NO_WORDS, before: int = 0, start: int = 0, stop: int | None = None
) -> Iterator[Lines]:
    """Batches of lines in a text; parameters as for `texts_of` and `Lines.of`."""
    for text in texts_of(data, start, stop):
        lines = Lines.of(text, before, form, words)
        before += len(lines.kind)
        yield lines


def tables_of(data: bytes, before: int, start: int, counts: Sequence[int]) -> tuple[list[Table], int]:
    """Consecutive tables with `counts` rows, from byte `start` on, after `before` lines; and the total row count.
    Tables beyond the last row are missing."""
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


def trailing_text(tables: list[Table], more: int, fault: str) -> str:
    """A note about the lines after the last table; empty without any. more: line count. Raises InputError with the text
    `fault` if `more` is negative, or if the first line begins with a number."""
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
    """End of each line, and indices of the non-blank lines."""
    letters = np.frombuffer(text, np.uint8)
    end = _line_ends(letters)
    begin = np.concatenate([[0], end[:-1] + 1])
    full = begin < end
    full[full] = letters[begin[full]] > ord(" ")
    for k in np.flatnonzero(~full & (begin < end)):
        full[k] = bool(text[begin[k] : end[k]].strip())
    return end, np.flatnonzero(full)
