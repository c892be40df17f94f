"""Point and result files, read and written in chunks: text, .npy, PLY."""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from sdfcli.errors import InputError, UsageError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.readers import FORMATS, read_file
from sdfcli.runtime.memory import unreadable

CHUNK = 1 << 18
"""Points per chunk."""
TEXT = (".csv", ".xyz", ".txt", "")
"""Endings of text files. Pipes and devices are read as text under any name."""


_NUMBER = re.compile(r"[+-]?\.?\d|[+-]?(nan|inf|infinity)$", re.IGNORECASE)
"""The start of a word meant as a number, not as a column name."""


@dataclass
class PointStream:
    """Points in chunks.

    chunks     arrays (n, 3) float64, n at most CHUNK. Raises InputError unless each point has three finite numbers.
    separator  between numbers in a text: a comma or a space.
    named      whether a text starts with a line of column names.
    """

    chunks: Iterator[Floats]
    separator: str = " "
    named: bool = False


_TYPED = re.compile(r"[+-]?\.?\d[^,\s]*(,[^,\s]*)+")
"""A point on the command line; a file of such a name is written with its folder, as ./0,0,0."""


@contextmanager
def named_points(words: list[str]) -> Iterator[PointStream]:
    """Points from words `X,Y,Z`, or from a single file, as `open_points` does. Raises UsageError for other words."""
    texts = [word.strip() for word in words]
    typed = list(filter(_TYPED.fullmatch, texts))
    if not typed and len(words) == 1:
        with open_points(words[0]) as stream:
            yield stream
        return
    if len(typed) < len(texts):
        other = next(word for word in words if word.strip() not in typed)
        raise UsageError(f"{other}: use points X,Y,Z, or a single file of points")
    points = [[float(x) for x in text.split(",") if is_number(x)] for text in texts]
    for text, point in zip(texts, points, strict=True):
        if len(point) != 3 or text.count(",") != 2 or not np.isfinite(point).all():
            raise UsageError(f"{text}: use three finite numbers X,Y,Z; a file of that name is ./{text}")
    yield PointStream(iter([np.array(points)]))


@contextmanager
def open_points(source: str) -> Iterator[PointStream]:
    """Opens points from a file, or from standard input for `-`. Text and .npy are read in chunks, PLY and meshes whole.

    Raises InputError for a file that cannot be read as points (n, 3).
    """
    path = Path(source)
    if source == "-":
        yield _text(sys.stdin, "standard input")
        return
    if os.path.isdir(path) or not os.path.exists(path):
        raise InputError(f"{source}: {'is a folder' if os.path.isdir(path) else 'no such file'}")
    if path.suffix.lower() in TEXT or not path.is_file():
        with _opened(path) as file:
            yield _text(file, source)
        return
    if path.suffix.lower() not in (".npy", *FORMATS):
        kinds = ", ".join([".npy", *filter(None, TEXT), *FORMATS])
        raise InputError(f"{source}: unknown point format; use {kinds}, or text without an ending")
    try:
        points = _mapped(path) if path.suffix.lower() == ".npy" else read_file(path)[0]
    except Exception as error:  # trimesh's readers raise various exceptions
        raise unreadable(source, "cannot be read as points", error) from error
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "fiu":
        raise InputError(f"{source}: points must be (n, 3) numbers, not {points.shape} {points.dtype}")
    yield PointStream(_slices(points, path if path.suffix.lower() == ".npy" else None, source))


def _opened(path: Path) -> TextIO:
    try:
        return open(path, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _mapped(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _slices(points: Any, mapped: Path | None, source: str) -> Iterator[Floats]:
    """Points in chunks. A file is mapped again for each chunk, as a mapping retains the pages read."""
    for first in range(0, len(points), CHUNK):
        part = (points if mapped is None else _mapped(mapped))[first : first + CHUNK]
        chunk = np.array(part, np.float64, order="C")
        finite = np.isfinite(chunk).all(axis=1)
        if not finite.all():
            raise InputError(f"{source}: point {first + int(finite.argmin())} is not finite")
        yield chunk


def _text(file: TextIO, source: str) -> PointStream:
    """Points from lines `x y z` or `x,y,z`; empty lines and comments are skipped. A header line of names selects the x,
    y and z columns; see `_columns`."""
    filled = ((number, line) for number, line in _lines(file, source) if line.strip())
    first = next(filled, None)
    if first is None:
        return PointStream(iter(()))
    words = _words(first[1])
    named = len(words) >= 3 and not any(map(_NUMBER.match, words))
    columns = _columns(words, f"{source}: line {first[0]}") if named else (0, 1, 2)
    rows = filled if named else itertools.chain([first], filled)
    parsed = _parsed(rows, source, len(words) if named else 3, columns)
    return PointStream(parsed, "," if "," in first[1] else " ", named)


def _columns(names: list[str], place: str) -> tuple[int, int, int]:
    """Indices of the x, y and z columns by name: these letters in any case, alone or with a common prefix and suffix,
    as in px py pz, or ParaView's Points:0 Points:1 Points:2. Raises InputError for other names."""
    low = [name.lower() for name in names]
    found = dict.fromkeys(
        tuple(name[:at] + letter + name[at + 1 :] for letter in axes)
        for axes in ("xyz", "012")
        for name in low
        for at in range(len(name))
        if name[at] == axes[0]
    )
    triples = [triple for triple in found if all(low.count(each) == 1 for each in triple)]
    # With several triples, such as positions and normals, only these names are unambiguous.
    sure = [triple for triple in (("x", "y", "z"), ("points:0", "points:1", "points:2")) if triple in triples]
    if sure or len(triples) == 1:
        first, second, third = (low.index(each) for each in (sure or triples)[0])
        return first, second, third
    told = ", ".join(names[:6])[:60]
    raise InputError(f"{place}: which columns are the coordinates? name them x, y and z, not {told!a}")


def _lines(file: TextIO, source: str) -> Iterator[tuple[int, str]]:
    """Lines numbered from 1, without comments and byte order mark."""
    try:
        for number, line in enumerate(file, 1):
            yield number, line.lstrip("\ufeff").partition("#")[0]
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: is not text; points of other kinds are in files with their endings") from error


def _parsed(
    rows: Iterator[tuple[int, str]], source: str, count: int, columns: tuple[int, int, int]
) -> Iterator[Floats]:
    """Points from `columns` in rows with `count` numbers."""
    while chunk := list(itertools.islice(rows, CHUNK)):
        try:
            table = np.loadtxt([_spaced(line) for _, line in chunk], np.float64, comments=None, ndmin=2)
        except ValueError:
            table = np.empty((0, 0))
        points = table[:, columns] if table.shape == (len(chunk), count) else table
        if points.shape != (len(chunk), 3) or not np.isfinite(points).all():
            number, line = next((row for row in chunk if not _is_point(row[1], count, columns)), chunk[0])
            few = "three finite numbers are" if count == 3 else f"{count} numbers, with finite coordinates, are"
            raise InputError(f"{source}: line {number}: {few} needed, not {line.strip()[:40]!a}")
        yield np.ascontiguousarray(points)


def _spaced(line: str) -> str:
    """The line with commas and quotes replaced by spaces."""
    return line.replace(",", " ").replace('"', " ")


def _words(line: str) -> list[str]:
    return _spaced(line).split()


def _is_point(line: str, count: int, columns: tuple[int, int, int]) -> bool:
    words = _words(line)
    return len(words) == count and all(map(is_number, words)) and all(np.isfinite(float(words[k])) for k in columns)


def is_number(word: str) -> bool:
    """Whether a word parses as a float."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def write_text(file: Any, names: list[str], chunks: Iterator[Floats], separator: str, named: bool) -> None:
    """Writes a line for each row of the chunks (n, k), after a header of column names if `named`."""
    if named:
        file.write(separator.join(names) + "\n")
    for chunk in chunks:
        file.writelines(separator.join(map(_number, row)) + "\n" for row in chunk.tolist())


def write_json(file: Any, names: list[str], chunks: Iterator[Floats], neighbours: int, version: int) -> None:
    """Writes each row of the chunks (n, k) as a JSON object on its own line: `schema_version`, then the columns by
    name; null if infinite.

    neighbours: count of trailing (triangle, distance) column pairs. They become two lists, `nearest_triangles` and
    `nearest_distances`, without missing neighbours, whose triangle is -1.
    """
    single = len(names) - 2 * neighbours
    for chunk in chunks:
        for row in chunk.tolist():
            numbers = [_number(x) if math.isfinite(x) else "null" for x in row[:single]]
            members = [f'"{name}": {number}' for name, number in zip(names[:single], numbers, strict=True)]
            if neighbours:
                triangles = [_number(x) for x in row[single::2] if x >= 0]
                distances = map(_number, row[single + 1 :: 2][: len(triangles)])
                members += [
                    f'"nearest_triangles": [{", ".join(triangles)}]',
                    f'"nearest_distances": [{", ".join(distances)}]',
                ]
            file.write(f'{{"schema_version": {version}, {", ".join(members)}}}\n')


def write_json_rows(
    file: Any, found: Iterator[tuple[Floats, tuple[Ints, Ints, Floats]]], coordinates: bool, version: int
) -> None:
    """Writes each point as a JSON object on its own line: `schema_version`, x, y, z if `coordinates`, and the lists
    `nearest_triangles` and `nearest_distances`.

    found: points (n, 3), then starts (n + 1,), triangles (m,) and distances (m,).
    """
    for points, (starts, triangles, distances) in found:
        for k, point in enumerate(points.tolist()):
            own = slice(starts[k], starts[k + 1])
            members = [f'"{axis}": {_number(x)}' for axis, x in zip("xyz", point, strict=True)] if coordinates else []
            members += [
                f'"nearest_triangles": {triangles[own].tolist()}',
                f'"nearest_distances": [{", ".join(map(_number, distances[own].tolist()))}]',
            ]
            file.write(f'{{"schema_version": {version}, {", ".join(members)}}}\n')


def _number(x: float) -> str:
    """The shortest text that parses to the same number; integers have no decimal point."""
    return repr(x).removesuffix(".0")


def write_npy(file: BinaryIO, chunks: Iterator[Floats], columns: int) -> None:
    """Writes an array (n, columns) float64, or (n,) for one column. The header's row count is written last."""

    def header(count: int) -> None:
        shape = (count,) if columns == 1 else (count, columns)
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})

    header(0)  # NumPy pads the header for a longer first axis
    count = 0
    for chunk in chunks:
        file.write(np.ascontiguousarray(chunk, "<f8").tobytes())
        count += len(chunk)
    file.seek(0)
    header(count)


def write_ply(file: BinaryIO, names: list[str], chunks: Iterator[tuple[Floats, Floats]]) -> None:
    """Writes a point cloud: points (n, 3), and columns (n, k) as named properties, all in double precision."""

    def header(count: int) -> bytes:
        text = f"ply\nformat binary_little_endian 1.0\nelement vertex {count}\n"
        text += "".join(f"property double {name}\n" for name in ("x", "y", "z", *names))
        return text.encode() + b"comment " + b"-" * (20 - len(str(count))) + b"\nend_header\n"

    file.write(header(0))
    count = 0
    for points, chunk in chunks:
        file.write(np.hstack((points, chunk)).astype("<f8").tobytes())
        count += len(points)
    file.seek(0)
    file.write(header(count))
