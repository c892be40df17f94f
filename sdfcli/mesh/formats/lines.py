"""Strict parser for numbers in text lines; errors name the line."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.polygons import Polygons

PIECE = 1 << 20
"""Bytes of text parsed per batch."""

REAL = rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))"
WHOLE = rb"[+-]?0*[0-9]{1,18}"
"""Numbers in any text format: the syntax of Python's float and int, except underscores and non-ASCII digits."""


def with_line_feeds(data: bytes) -> bytes:
    """A text with CR LF and CR replaced by LF, without a byte-order mark, and with UTF-16 converted to UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def texts_of(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Batches of lines from a text with LF line ends: one object per line takes more memory than the mesh in a large
    file."""
    stop = len(data) if stop is None else stop
    while start <= stop:
        end = data.find(b"\n", start + PIECE, stop)
        end = end if end >= 0 else stop
        yield data[start:end]
        start = end + 1


def odd_word(text: bytes, pattern: bytes) -> re.Match[bytes] | None:
    """First word in a text that `pattern`, REAL or WHOLE, does not match entirely."""
    return re.search(rb"(?<!\S)(?!(?:%s)(?!\S))\S+" % pattern, text)


def numbers(rows: list[bytes], at: Sequence[int], columns: tuple[int, ...]) -> Floats:
    """Three columns from rows: (n, 3) float64. at: the rows' zero-based line numbers. Raises InputError for a row
    without three numbers there."""
    found = np.empty((len(rows), 3))
    for k, row in enumerate(rows):
        words = row.split(None, max(columns) + 1)
        chosen = [words[column] for column in columns if column < len(words)]
        if len(chosen) < 3 or odd_word(b" ".join(chosen), REAL):
            raise InputError(f"line {at[k] + 1}: three numbers are needed, not {_shown(row)}")
        found[k] = [float(word) for word in chosen]
    return found


def polygons_of(rows: list[bytes], at: Sequence[int]) -> Polygons:
    """Polygons from rows of vertex indices. at: the rows' zero-based line numbers. Raises InputError for other words,
    and for rows with fewer than three indices."""
    corners, counts = [np.empty(0, np.int64)], []
    for k, row in enumerate(rows):
        if odd_word(row, WHOLE):
            raise InputError(f"line {at[k] + 1}: whole numbers are needed, not {_shown(row)}")
        corners.append(np.fromstring(row, np.int64, sep=" ") if row.strip() else corners[0])
        counts.append(len(corners[-1]))
        if counts[-1] < 3:
            raise InputError(f"line {at[k] + 1}: a face needs three corners, not {_shown(row)}")
    return Polygons(np.concatenate(corners), np.array(counts, np.int64))


def check_range(polygons: Polygons, vertices: int, place: Callable[[int], str], shown: Ints) -> None:
    """Raises InputError for a corner with an unknown vertex. place: describes a face's position in the file. shown:
    (c,) vertex indices as in the file."""
    wrong = np.flatnonzero((polygons.corner < 0) | (polygons.corner >= vertices))
    if len(wrong):
        face = int(np.searchsorted(np.cumsum(polygons.count), wrong[0], side="right"))
        number, found = int(shown[wrong[0]]), int(polygons.corner[wrong[0]])
        since = ", from 0 on" if number == found and vertices else ""
        raise InputError(f"{place(face)}: names vertex {number}, but there are {vertices:,}{since}")


def _shown(line: bytes) -> str:
    """Start of a line, for a message."""
    return ascii(line[:40].decode("ascii", "replace"))
