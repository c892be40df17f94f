"""Output of `sdfcli collide`: a line per pose, a summary as table or JSON, notes, and the clearance check."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sdfcli.cli.output import line_width, print_json, print_table, say, show, standard_output
from sdfcli.cli.records import ABSENT, Amount, Count, Line, Vector, size, took
from sdfcli.cli.wording import rounded_down, rounded_up
from sdfcli.errors import CheckFailedError

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.query.contacts import Contacts, Manifold
    from sdfcli.query.first_contact import FirstContact

ROW = ("verdict", "distance", "low", "high", "proven", "outside_domain", "triangle", "point", "normal")
HEADER = (
    f"{'contact':11}  {'distance':>11}  {'low':>11}  {'high':>11}  {'triangle':>8}",
    f"{'point':>32}",
    f"{'way out':>20}",
)
FEW = 5
"""Maximum poses that a note lists."""
POINT_ROUNDING = 1e-7
"""Coordinates below this fraction of the domain edge are shown as 0: about float32's rounding."""


class Contact(Line):
    """A mesh's contact with a field."""

    contact: Annotated[
        Literal["clear", "touching", "penetrating"], "contact verdict; `touching` if the bounds do not decide"
    ]
    distance: Annotated[float, "the mesh's minimum distance in the field"]
    low: Annotated[float, "lower bound of the true minimum distance"]
    high: Annotated[float, "upper bound of the true minimum distance"]
    proven: Annotated[bool, "whether `low` and `high` are proven; else they follow from the stated error"]
    outside_domain: Annotated[
        bool, "whether `point` lies outside the field's domain, where `distance` is only a lower bound"
    ]
    triangle: Annotated[Count, "triangle at that distance, in the mesh file's order, from 0"]
    point: Annotated[Vector, "point at that distance, in the field's frame"]
    normal: Annotated[Vector, "unit normal, the direction out of the field's solid"]


class CollidedPose(Contact, title="collide, a pose", shared="frame?"):
    """A line per pose."""

    pose: Annotated[Count, "pose index, from 0; replaced by `frame` for a mesh in frames"] = ABSENT
    posed: Annotated[str, "the frame's file; for frames in files"] = ABSENT


class Collided(Line, shared="input output? seconds"):
    """Keys of both summaries."""

    posed: Annotated[str, "the mesh, the folder, or the first of several meshes and the count of the others"]
    signed: Annotated[bool, "whether the field has signs; without them nothing is penetrating"]
    posed_encloses: Annotated[
        bool | None,
        "whether the mesh has an inside that may contain parts of the field's solid; null if no pose needed this",
    ]
    stated_error: Annotated[Amount, "the field's stated error within `stated_band` of the surface, in its units"]
    stated_band: Annotated[Amount, "distance from the surface up to which `stated_error` holds"]
    proven_error: Annotated[
        Amount | None,
        "the field's largest proven error up to `stated_band`, in its units; null if none is proven everywhere",
    ]
    poses: Annotated[Count, "pose count"]
    margin: Annotated[float | None, "maximum distance of contact triangles; with `--margin` or `--contacts`"] = None
    contacts: Annotated[Count | None, "contact triangle count; with `margin`"] = None
    warnings: Annotated[
        list[str],
        "reasons for doubt: sizes, poses outside the field's domain, its signs and holes, a mesh that encloses nothing",
    ]


class CollidedPoses(Collided, title="collide"):
    """The last line, for all poses."""

    clear: Annotated[Count, "clear poses"]
    touching: Annotated[Count, "touching poses"]
    penetrating: Annotated[Count, "penetrating poses"]
    least: Annotated[CollidedPose, "the line with the smallest lower bound"]
    poses_per_second: Annotated[float, "poses per second of the whole run"]


class CollidedPath(Collided, Contact, title="collide --path", optional=Contact):
    """One line."""

    first_contact: Annotated[float | None, "time of first contact, in poses; null if the path is clear"]
    steps: Annotated[Count, "number of poses tested, up to that time"]
    matrix: Annotated[
        list[Annotated[list[float], size(4)]],
        size(4),
        "pose matrix at first contact; only with a contact, like the keys below",
    ] = ABSENT


class Shown:
    """Shows contacts as they are found, and a summary at the end.

    low   lower bounds of the minimum distances so far, one per pose.
    unit  `pose` or `frame`, the results' kind.
    """

    def __init__(
        self, file: Path, mesh: str, field: Field, unit: str, files: list[str], json: bool, quiet: bool
    ) -> None:
        """files: the frames' files; empty for a mesh, and for frames in an array."""
        from sdfcli.field.proven import proven_error
        from sdfcli.field.stated_error import StatedError, is_unsigned
        from sdfcli.query.contacts import VERDICTS

        self.file, self.mesh, self.field, self.json, self.quiet = file, mesh, field, json, quiet
        self.unit, self.files, self.names = unit, files, _short(files)
        self.error, self.proven, self.unsigned = StatedError.of(field), proven_error(field), is_unsigned(field)
        self.low: list[float] = []
        self.outside: list[int] = []
        self.counts = dict.fromkeys(VERDICTS, 0)
        self.least: dict[str, Any] = {}
        self.manifolds: list[Manifold] = []
        self.facts: dict[str, Any] = {}  # set for a path
        self.start = clock.perf_counter()

    def poses(self, first: int, count: int, found: Contacts) -> None:
        """Shows a line per pose. first: index of the first one; count: total number of poses."""
        self.manifolds.append(replace(found.manifold, pose=found.manifold.pose + first))
        width = max(len(self.unit), len(str(count - 1)))
        rows = [{self.unit: number, **self._named(number), **row} for number, row in enumerate(_rows(found), first)]
        for row in rows:  # all are counted, even if standard output is closed
            self.low.append(row["low"])
            self.outside += [row[self.unit]] if row["outside_domain"] else []
            self.counts[row["contact"]] += 1
            if not self.least or row["low"] < self.least["low"]:
                self.least = row
        if self.quiet and not self.json:
            return
        edge = line_width()
        with standard_output():
            names = max(map(len, self.names), default=0)
            if first == 0 and not self.json:
                show(_fitting(_begun(f"{self.unit:>{width}}", "file", names, HEADER[0]), *HEADER[1:], edge=edge))
            for row in rows:
                if self.json:
                    print_json(CollidedPose(**row))
                else:
                    numbers, *places = self._cells(row)
                    number = row[self.unit]
                    begun = _begun(f"{number:>{width}}", self.names[number] if names else "", names, numbers)
                    show(_fitting(begun, *places, edge=edge), row["contact"])

    def path(self, found: FirstContact, count: int) -> None:
        """Stores the first contact on a path of `count` poses."""
        self.facts = {"poses": count, "first_contact": found.time, "steps": found.steps}
        self.low = [found.least]
        if found.contacts is not None and found.pose is not None:
            self.manifolds.append(found.contacts.manifold)
            (self.least,) = _rows(found.contacts)
            self.outside = [0] if self.least["outside_domain"] else []
            self.facts |= {"matrix": found.pose.tolist(), **self.least}

    def manifold(self) -> Manifold:
        """All poses' contacts."""
        import numpy as np

        from sdfcli.query.contacts import Manifold

        nothing, vectors = np.empty(0, np.int64), np.empty((0, 3))
        return Manifold.joined([Manifold(nothing, nothing, np.empty(0), vectors, vectors), *self.manifolds])

    def end(self, margin: float | None, output: Path | None, encloses: bool | None, notes: list[str]) -> None:
        """Shows the summary of all poses. output: contact file. encloses: whether the mesh has an inside; None if that
        did not matter. notes: further warnings."""
        warnings = [*notes, *self._notes(encloses)]
        seconds, poses = clock.perf_counter() - self.start, len(self.low)
        touched, rate = sum(map(len, self.manifolds)), poses / seconds
        if self.json:
            facts = {**self.counts, "least": self.least, "poses_per_second": round(rate, 1)}
            print_json(
                (CollidedPath if self.facts else CollidedPoses)(
                    input=str(self.file),
                    posed=self.mesh,
                    signed=not self.unsigned,
                    posed_encloses=encloses,
                    stated_error=self.error.near,
                    stated_band=self.error.band,
                    proven_error=self.proven.near if self.proven else None,
                    **(self.facts or {"poses": poses, **facts}),
                    margin=margin,
                    contacts=None if margin is None else touched,
                    warnings=warnings,
                    output=ABSENT if output is None else str(output),
                    seconds=took(seconds),
                )
            )
        elif not self.quiet:
            rows = self._path_rows() if self.facts else self._pose_rows()
            rows += self._proven_row()
            error = self.proven or self.error
            kind = "proven error" if self.proven else "stated error"
            rows.append((kind, f"{error.near:.3g} up to {error.band:.3g} from the surface"))
            if margin is not None:
                where = "" if output is None else f", in {output}"
                rows.append(("contacts", f"{touched:,} triangles up to {margin:.3g}{where}"))
            rows.append(("time", f"{seconds:.2f} s" + ("" if self.facts else f", {rate:,.0f} {self.unit}s/s")))
            print_table(f"{self.mesh} in {self.file}", rows)
        if not self.quiet:
            for note in warnings:
                say(f"note: {note}")

    def _pose_rows(self) -> list[tuple[str, str]]:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.counts.items() if count)
        nearest = f"{_distance(self.least)}, at {self._least_at()}"
        return [(f"{self.unit}s", f"{len(self.low):,}: {counts}"), ("nearest", nearest)]

    def _path_rows(self) -> list[tuple[str, str]]:
        steps = ("steps", f"{self.facts['steps']:,}, the least of their bounds {self.low[0]:.5g}")
        if self.facts["first_contact"] is None:
            return [("path", f"{self.facts['poses']:,} poses, clear all the way"), steps]
        known = "" if self.least["contact"] == "clear" else f"{self.least['contact']}, "
        return [
            ("path", f"{self.facts['poses']:,} poses, first contact at {_when(self.facts['first_contact'])}"),
            ("there", known + _distance(self.least)),
            ("point", f"{_words(self._place(self.least), '.5g')}, on triangle {self.least['triangle']}"),
            ("way out", _words(self.least["normal"], ".3f")),
            steps,
        ]

    def _proven_row(self) -> list[tuple[str, str]]:
        """The interval that is proven for all poses, or for those up to the first contact."""
        if not self.proven:
            return []
        if self.facts and self.facts["first_contact"] is None:
            return [("proven", "clear all the way")]
        return [("proven", _interval(self.least))] if self.least["proven"] else []

    def _cells(self, row: dict[str, Any]) -> tuple[str, str, str]:
        """Cells under HEADER."""
        numbers = "  ".join(f"{row[name]:>11.5g}" for name in ("distance", "low", "high"))
        place, normal = _words(self._place(row), ">10.5g"), _words(row["normal"], ">6.3f")
        return f"{row['contact']:11}  {numbers}  {row['triangle']:>8}", place, normal

    def _place(self, row: dict[str, Any]) -> list[float]:
        """The contact point, with coordinates that are only rounding set to 0."""
        least = POINT_ROUNDING * self.field.domain.length
        return [0.0 if abs(x) < least else x for x in row["point"]]

    def _named(self, number: int) -> dict[str, str]:
        """A frame's file, for its record."""
        return {"posed": self.files[number]} if self.files else {}

    def _least_at(self) -> str:
        """The pose, or the frame and its file, with the least lower bound."""
        number = self.least[self.unit]
        return f"{self.unit} {number}" + (f", {self.names[number]}" if self.names else "")

    def _notes(self, encloses: bool | None) -> Iterator[str]:
        if self.outside:
            count, total = len(self.outside), len(self.low)
            some = ", ".join(map(str, self.outside[:FEW])) + (", ..." if count > FEW else "")
            which = f"points of {count:,} of {total:,} {self.unit}s ({some}) lie" if total > 1 else "point lies"
            yield (
                f"the nearest {which} outside the field's domain, where distances are lower bounds: build with a "
                "larger --domain"
            )
        if self.unsigned:
            yield "the field has no signs: distances are unsigned, and penetration is not detected"
        elif self.field.info.get("jump_leaves"):
            yield "the field closes holes of its mesh, where the sign jumps; bounds do not hold there"
        if self.field.info.get("verdict") == "doubtful":
            yield "the inside of the field's mesh is uncertain: see sdfcli info"
        if encloses is False:
            yield f"{self.mesh} encloses nothing: parts of the field's solid inside it are not detected"

    def require(self, least: float) -> None:
        """Raises CheckFailedError unless the bounds exclude distances below `least`."""
        if self.facts:
            if self.facts["first_contact"] is not None:
                when = _when(self.facts["first_contact"])
                raise CheckFailedError(
                    f"{self.mesh}: may come nearer than {least:g} at {when}: {_distance(self.least)}"
                )
            return
        # Without signs, a lower bound of 0 means that the mesh may cross the surface.
        below = sum(low < least or (self.unsigned and low == 0) for low in self.low)
        if below:
            worst = f"{_distance(self.least)} at {self._least_at()}"
            raise CheckFailedError(
                f"{self.mesh}: {below:,} of {len(self.low):,} {self.unit}s may come nearer than {least:g}: {worst}"
            )


def _rows(found: Contacts) -> Iterator[dict[str, Any]]:
    """Each pose's results by name."""
    from sdfcli.query.contacts import VERDICTS

    for values in zip(*(getattr(found, name).tolist() for name in ROW), strict=True):
        row = dict(zip(ROW, values, strict=True))
        yield {"contact": VERDICTS[row.pop("verdict")], **row}


def _short(files: list[str]) -> list[str]:
    """Files without folders if their names then still differ."""
    short = [os.path.basename(each) for each in files]
    return short if len({*short}) == len({*files}) else files


def _begun(number: str, name: str, width: int, numbers: str) -> str:
    """A line's beginning: number, name in a column of this width, 0 for none, and numbers."""
    return f"{number}  {name:{width}}  {numbers}" if width else f"{number}  {numbers}"


def _fitting(*cells: str, edge: int) -> str:
    """Joins cells into a line; trailing cells are dropped if it exceeds `edge` characters."""
    while len(cells) > 1 and len("  ".join(cells)) > edge:
        cells = cells[:-1]
    return "  ".join(cells)


def _when(time: float) -> str:
    """Formats a time on a path, in poses."""
    first = int(time)
    return f"pose {first}" if time == first else f"{time:.6f}, between poses {first} and {first + 1}"


def _interval(row: dict[str, Any]) -> str:
    """A pose's proven interval, rounded outwards."""
    low, high = row["low"], row["high"]
    if low > 0:
        return f"clearance at least {rounded_down(low):.3g}"
    if high < 0:
        return f"depth between {rounded_down(-high):.3g} and {rounded_up(-low):.3g}"
    depth = f", depth at most {rounded_up(-low):.3g}" if low < 0 else ""
    return f"undecided: clearance at most {rounded_up(high):.3g}{depth}"


def _distance(row: dict[str, Any]) -> str:
    return f"{row['distance']:.5g} ({row['low']:.5g} to {row['high']:.5g})"


def _words(vector: list[float], form: str) -> str:
    """Formats a vector; components that round to 0 have no sign."""
    return " ".join(f"{x if float(f'{x:{form}}') else 0.0:{form}}" for x in vector)
