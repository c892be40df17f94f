"""Pose files as text: tables and JSON, with quaternions, angles or matrices."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats
from sdfcli.query.point_files import is_number

TABLES = (".csv", ".txt", ".tum")
"""Endings of tables."""
UNIT = 1e-3
"""Maximum deviation of a quaternion's length from 1."""
TRANSLATION, QUATERNION, ANGLES = ("tx", "ty", "tz"), ("qx", "qy", "qz", "qw"), ("rx", "ry", "rz")
NAMES = (
    ("t", re.compile(r"(?:[tp]?|(?:.*\.)?(?:position|translation)\.)([xyz])")),
    ("q", re.compile(r"(?:q|(?:.*\.)?(?:orientation|rotation|quaternion)\.)([xyzw])")),
    ("r", re.compile(r"r([xyz])")),
    ("scal", re.compile(r"scal(e)")),
)
"""Initials of the names in LAYOUTS, and names, in small letters, of columns and JSON keys with that meaning, as ROS's
pose.position.x."""
IGNORED = re.compile(r"%?(time(stamp)?|stamp|n?secs?|nanosecs?|t|seq|frame(_id)?|id|index|name|pose)_?\d*")
"""Names that say nothing about a pose, by their last part."""
LAYOUTS = {
    3: TRANSLATION,
    6: TRANSLATION + ANGLES,
    7: TRANSLATION + QUATERNION,
    8: ("time", *TRANSLATION, *QUATERNION),
}
"""Meaning of rows without names, by their length, besides matrices of 12 or 16 numbers. Eight: TUM's data sets."""
MATRIX = "matrix"
"""JSON key of a matrix."""


def turned(quaternions: Floats) -> Floats:
    """Rotation matrices (t, 3, 3) of quaternions (t, 4), x, y, z, w, of length 1. Raises InputError for others."""
    length = np.sqrt((quaternions**2).sum(axis=1))
    wrong = np.flatnonzero(~(np.abs(length - 1) <= UNIT))
    if len(wrong):
        raise InputError(f"pose {wrong[0]}: a quaternion x, y, z, w of length {length[wrong[0]]:.3g}, not 1")
    x, y, z, w = (quaternions / length[:, None]).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def turned_about_axes(angles: Sequence[float]) -> Floats:
    """The matrix (3, 3) of rotations about the fixed axes x, then y, then z, in degrees."""
    found = np.eye(3)
    for axis, angle in enumerate(angles):
        cosine, sine = _turn(angle)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(3)
        turn[i, i] = turn[j, j] = cosine
        turn[i, j], turn[j, i] = -sine, sine
        found = turn @ found
    return found


def _turn(degrees: float) -> tuple[float, float]:
    """Cosine and sine of an angle, exact for multiples of 90 degrees."""
    quarters, rest = divmod(degrees, 90.0)
    cosine, sine = math.cos(math.radians(rest)), math.sin(math.radians(rest))
    for _ in range(int(quarters % 4)):
        cosine, sine = -sine, cosine
    return cosine, sine


def poses_of(rows: Floats, names: Sequence[str] = ()) -> Floats:
    """Matrices (t, 4, 4) from rows (t, n) of numbers. names: of the columns, as in LAYOUTS; without them, the layout is
    that of LAYOUTS for n numbers, or for 12 or 16 a matrix, row by row.

    Raises InputError for another n, numbers that are not finite, and quaternions of another length than 1.
    """
    count, width = rows.shape
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise InputError(f"pose {wrong[0]}: a number is not finite")
    poses = np.tile(np.eye(4), (count, 1, 1))
    if not names and width in (12, 16):
        poses[:, : width // 4] = rows.reshape(count, -1, 4)
        return poses
    if not names and width not in LAYOUTS:
        lengths = ", ".join(map(str, [*LAYOUTS, 12]))
        raise InputError(f"a pose of {width} numbers; use {lengths} or 16, or name the columns")
    column = dict(zip(names or LAYOUTS[width], rows.T, strict=True))
    if "qw" in column:
        poses[:, :3, :3] = turned(np.column_stack([column[name] for name in QUATERNION]))
    elif "rx" in column:
        angles = np.column_stack([column[name] for name in ANGLES])
        poses[:, :3, :3] = [turned_about_axes(each) for each in angles.tolist()]
    if "scale" in column:
        poses[:, :3, :3] *= column["scale"][:, None, None]
    poses[:, :3, 3] = np.column_stack([column[name] for name in TRANSLATION])
    return poses


def read_table(path: Path) -> Floats:
    """Poses (t, 4, 4) from lines of numbers, separated by commas or spaces, with or without a line of names. Empty
    lines, and text after a `#`, are skipped. Raises InputError, without the file's name, for anything else."""
    with open(path, encoding="utf-8-sig") as file:
        rows = [(number, words) for number, line in enumerate(file, 1) if (words := _words(line))]
    if not rows:
        return np.empty((0, 4, 4))
    first = rows[0][1]
    chosen = {} if all(map(is_number, first)) else _chosen(first)
    columns = list(chosen.values()) or list(range(len(first)))
    table = np.empty((len(rows), len(columns)))
    for place, (number, words) in enumerate(rows):
        if len(words) != len(first):
            raise InputError(f"line {number}: {len(words)} words, not {len(first)}")
        if chosen and place == 0:
            continue
        try:
            table[place] = [float(words[column]) for column in columns]
        except ValueError:
            raise InputError(f"line {number}: numbers are needed, not {' '.join(words)[:40]!a}") from None
    return poses_of(table[1:] if chosen else table, list(chosen))


def _words(line: str) -> list[str]:
    text = line.partition("#")[0].strip()
    return (
        [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [])] if "," in text else text.split()
    )


def _chosen(names: Sequence[str]) -> dict[str, int]:
    """Indices of a pose's columns by their names in LAYOUTS. Raises InputError for unknown and ambiguous columns, and
    for incomplete parts."""
    found: dict[str, int] = {}
    unknown = []
    for index, name in enumerate(names):
        low = name.lower().replace("/", ".")
        known = [initial + match[1] for initial, pattern in NAMES if (match := pattern.fullmatch(low))]
        if known and known[0] not in found:
            found[known[0]] = index
        elif known or not IGNORED.fullmatch(low.rpartition(".")[2]):
            unknown.append(name)
    given = found.keys() - {"scale"}
    if unknown or given not in [set(each) for each in (TRANSLATION, LAYOUTS[6], LAYOUTS[7])]:
        raise InputError(
            "which numbers are a pose? name them tx, ty, tz, and qx, qy, qz, qw or rx, ry, rz, once each, not "
            f"{', '.join(unknown or names)[:80]!a}"
        )
    return found


def read_json(path: Path) -> Floats:
    """Poses (t, 4, 4) from a JSON list, or an object's list `poses`: each pose a matrix, numbers as in LAYOUTS, or an
    object whose keys are names of columns, also nested, as position: {x, y, z}. Raises InputError, without the file's
    name, for anything else."""
    value = json.loads(path.read_text(encoding="utf-8-sig"))
    if isinstance(value, dict):
        value = value.get("poses")
    if not isinstance(value, list):
        raise InputError("a list of poses is needed, or an object with a list `poses`")
    return np.concatenate([np.empty((0, 4, 4)), *map(_pose, range(len(value)), value)])


def _pose(index: int, value: Any) -> Floats:
    """The pose (1, 4, 4) of a JSON value. index: for errors."""
    try:
        if not isinstance(value, dict | list):
            raise InputError(f"a list or an object is needed, not {json.dumps(value)[:40]}")
        flat = dict(_leaves(value))
        if isinstance(value, list) or set(value) == {MATRIX}:
            numbers, names = list(flat.values()), []
        else:
            chosen = _chosen(list(flat))
            numbers, names = [list(flat.values())[place] for place in chosen.values()], list(chosen)
        for each in numbers:
            if not isinstance(each, int | float) or isinstance(each, bool):
                raise InputError(f"numbers are needed, not {json.dumps(each)[:40]}")
        return poses_of(np.array([numbers], np.float64), names)
    except InputError as error:
        raise InputError(f"pose {index}: {str(error).removeprefix('pose 0: ')}") from error


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts in a JSON value, by the names that lead to them, as position.x. A list's items are x, y, z and
    w, or numbered if there are more."""
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(zip("xyzw" if len(value) <= 4 else map(str, range(len(value))), value, strict=False))
    else:
        yield name, value
        return
    for key, each in members:
        yield from _leaves(each, f"{name}.{key}" if name else key)
