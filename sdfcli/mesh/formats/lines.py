"""Strict parser of numbers in lines of text; errors name the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.polygons import Polygons

PIECE = 1 << 20
"""Bytes of text whose lines are read together."""


def with_line_feeds(data: bytes) -> bytes:
    """A text whose lines LF ends, of one that LF, CR LF or CR ends; without a byte order mark."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def texts_of(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Some lines at a time of a text whose lines LF ends: objects for each line of a large file take more memory than
    its mesh."""
    stop = len(data) if stop is None else stop
    while start <= stop:
        end = data.find(b"\n", start + PIECE, stop)
        end = end if end >= 0 else stop
        yield data[start:end]
        start = end + 1


def numbers(rows: list[bytes], at: Sequence[int], columns: tuple[int, ...]) -> Floats:
    """Three columns of rows: (n, 3) float64. at: the rows' lines in the file. Raises InputError for a row without three
    numbers there."""
    if not rows:
        return np.empty((0, 3))
    try:
        found = np.loadtxt([row.decode("ascii") for row in rows], np.float64, usecols=columns, ndmin=2, comments=None)
        if found.shape == (len(rows), len(columns)):
            return found
    except ValueError:
        pass
    wrong = next((k for k, row in enumerate(rows) if not _are_numbers(row.split(), columns)), len(rows) - 1)
    raise InputError(f"line {at[wrong] + 1}: three numbers are needed, not {_shown(rows[wrong])}")


def _are_numbers(words: list[bytes], columns: tuple[int, ...]) -> bool:
    try:
        return len([float(words[column]) for column in columns]) == len(columns)
    except (ValueError, IndexError):
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
    if not re.fullmatch(rb"[-+\s]*\d[-+\d\s]*", b" ".join(rows)):
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
