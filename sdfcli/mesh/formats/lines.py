"""Strict parser of numbers in lines of text; errors name the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.polygons import Polygons

PIECE = 1 << 20
"""Bytes of text that are split into lines together."""


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file, ended by LF, CR LF or CR."""
    return [line for _, lines in pieces_of(data) for line in lines]


def pieces_of(data: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """The same some at a time, after the number of lines before: an object for each line of a large file takes more
    memory than its mesh."""
    return ((before, text.split(b"\n")) for before, text in texts_of(data))


def texts_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The same, not split: lines that LF ends, but for the last."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    start, before = 0, 0
    while start <= len(data):
        end = data.find(b"\n", start + PIECE)
        text = data[start : end if end >= 0 else len(data)]
        yield before, text
        if end < 0:
            return
        start, before = end + 1, before + text.count(b"\n") + 1


def numbers(lines: list[bytes], chosen: Sequence[int], columns: tuple[int, ...], before: int = 0) -> Floats:
    """Three columns of the chosen lines: (n, 3) float64. before: lines of the file before these. Raises InputError for
    a line without three numbers there."""
    if not chosen:
        return np.empty((0, 3))
    try:
        rows = [lines[k].decode("ascii") for k in chosen]
        found = np.loadtxt(rows, np.float64, usecols=columns, ndmin=2, comments=None)
        if found.shape == (len(chosen), len(columns)):
            return found
    except ValueError:
        pass
    wrong = next((k for k in chosen if not _are_numbers(lines[k].split()[columns[0] :], len(columns))), chosen[-1])
    raise InputError(f"line {before + wrong + 1}: three numbers are needed, not {_shown(lines[wrong])}")


def _are_numbers(words: list[bytes], count: int) -> bool:
    try:
        return len([float(word) for word in words[:count]]) == count
    except ValueError:
        return False


def polygons_of(rows: list[bytes], at: Sequence[int]) -> Polygons:
    """Polygons from rows of vertex numbers. at: the rows' lines in the file."""
    corner = _triangles(rows)
    if corner is not None:
        return Polygons(corner.ravel(), np.full(len(corner), 3))
    words = [row.split() for row in rows]
    count = np.fromiter(map(len, words), np.int64, len(words))
    if count.min() < 3:
        face = int(count.argmin())
        raise InputError(f"line {at[face] + 1}: a face needs three corners, not {_shown(rows[face])}")
    try:
        corner = np.array([int(word) for row in words for word in row], np.int64)
    except (ValueError, OverflowError):
        face = next(k for k, row in enumerate(words) if not all(re.fullmatch(rb"[+-]?\d{1,18}", w) for w in row))
        raise InputError(f"line {at[face] + 1}: whole numbers are needed, not {_shown(rows[face])}") from None
    return Polygons(corner, count)


def _triangles(rows: list[bytes]) -> Ints | None:
    """Rows (n, 3) of three whole numbers each; None where others are among them."""
    if not re.fullmatch(rb"[-+\d\s]+", b" ".join(rows)):
        return None
    try:
        found = np.loadtxt([row.decode("ascii") for row in rows], np.int64, ndmin=2, comments=None)
    except (ValueError, OverflowError):
        return None
    return found if found.shape == (len(rows), 3) else None


def check_range(polygons: Polygons, vertices: int, place: Callable[[int], str], shown: Ints) -> None:
    """Raises InputError for a corner with an unknown vertex. place: description of a face's position in the file;
    shown: vertex numbers (c,) as in the file."""
    wrong = np.flatnonzero((polygons.corner < 0) | (polygons.corner >= vertices))
    if len(wrong):
        face = int(np.searchsorted(np.cumsum(polygons.count), wrong[0], side="right"))
        raise InputError(f"{place(face)}: names vertex {int(shown[wrong[0]])}, but there are {vertices:,}")


def _shown(line: bytes) -> str:
    """The start of a line, for a message."""
    return ascii(line[:40].decode("ascii", "replace"))
