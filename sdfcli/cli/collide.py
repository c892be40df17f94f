"""`sdfcli collide`: how near, how deep and where a mesh at poses meets a field."""

from __future__ import annotations

import math
import sys
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.fields import open_field
from sdfcli.cli.output import line_width, pace, print_json, print_table, progress, say, show, standard_output
from sdfcli.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.field.stated_error import StatedError
    from sdfcli.mesh.arrays import Floats
    from sdfcli.query.contacts import Contacts, Manifold
    from sdfcli.query.first_contact import FirstContact

LOOSE = 2
"""Stated errors beyond the required clearance up to which triangles are contacts by default: no bound is looser."""

MeshWords = Annotated[
    list[str],
    typer.Argument(
        metavar="MESH...", help="Mesh; or frames: meshes in order, a folder, or a .npy file (t, v, 3) with --faces."
    ),
]
Poses = Annotated[
    Path | None,
    typer.Option(
        "--poses",
        metavar="FILE",
        help="Poses of the mesh: .npy, matrices (t, 4, 4) from its frame to the field's.",
        show_default=False,
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="TX,TY,TZ[,RX,RY,RZ]",
        help="A pose: turned about the fixed axes x, then y, then z, in degrees, then moved; may be repeated.",
        show_default=False,
    ),
]
AlongPath = Annotated[
    bool, typer.Option("--path", help="Take the poses as a path, and find the first time of contact.")
]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="D",
        help="Contacts are the triangles up to this distance; by default up to twice the stated error beyond --min, or "
        "0, so that none which may be nearer is missing.",
        show_default=False,
    ),
]
Least = Annotated[
    float | None,
    typer.Option(
        "--min",
        metavar="CLEARANCE",
        help="Required distance: exit code 6 where a lower bound is below it; with --path the distance that is a "
        "contact.",
        show_default=False,
    ),
]
ContactFile = Annotated[
    Path | None,
    typer.Option("--contacts", metavar="OUT", help="Write the contacts: .csv, .ply or .vtkhdf.", show_default=False),
]
Faces = Annotated[
    str | None,
    typer.Option(metavar="MESH", help="Mesh whose faces the vertices of a .npy file have.", show_default=False),
]


def collide(
    file: options.FieldFile,
    mesh: MeshWords,
    poses: Poses = None,
    at: At = None,
    path: AlongPath = False,
    margin: Margin = None,
    least: Least = None,
    contacts: ContactFile = None,
    faces: Faces = None,
    frame: options.Frame = None,
    time: options.Time = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure how near a mesh comes to a field's surface, or how deep it lies inside, at each of its poses.

    Of each pose the least distance is printed, with the bounds that the field's stated error leaves, and where it is.
    The verdict is clear, penetrating, or touching where the bounds do not tell.

    Example: sdfcli collide cell.h5 tool.stl --poses poses.npy --min 0.005
    """
    import numpy as np

    from sdfcli.export.contacts import ENDINGS, write_contacts
    from sdfcli.query.poses import load_poses, pose_at
    from sdfcli.runtime.files import check_target
    from sdfcli.sequence.frames import find_frames

    for name, value in (("--margin", margin), ("--min", least)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{name} {value}: use a finite distance")
    if poses is not None and at:
        raise UsageError("--poses and --at both give poses; use one of them")
    if path and poses is None and not at:
        raise UsageError("--path: name its poses, by --poses FILE or --at, repeated")
    frames: Any = find_frames(mesh, faces)
    if contacts is not None:
        if contacts.suffix.lower() not in ENDINGS:
            raise UsageError(f"{contacts}: use a name that ends in {', '.join(ENDINGS)}")
        check_target(contacts, force, file, *frames.inputs, *([poses] if poses else []))
    placed = load_poses(poses) if poses else np.array([pose_at(words) for words in at] if at else [np.eye(4)])
    if path and len(frames) > 1:
        raise UsageError(f"--path: a mesh that moves rigidly is needed, not {len(frames)} frames")
    if len(frames) > 1 and len(placed) not in (1, len(frames)):
        raise UsageError(f"{len(placed)} poses for {len(frames)} frames: give one, or one for each frame")
    rows_on_terminal = not path and sys.stdout.isatty()  # they would run into the line of the progress
    with progress(str(file), quiet or json or rows_on_terminal) as update:
        update("loading")
        field = open_field(file, frame, time)
        if contacts is not None and margin is None:
            from sdfcli.field.stated_error import StatedError

            margin = _beyond(StatedError.of(field), least or 0.0)
        search = Search(field, frames, placed, margin, device, threads, update)
        name = mesh[0] if len(mesh) == 1 else f"{mesh[0]} and {len(mesh) - 1} more"
        shown = Shown(file, name, field, "frame" if len(frames) > 1 else "pose", json, quiet)
        if path:
            shown.path(search.path(least or 0.0), len(placed))
        else:
            for batch in search.batches():
                shown.poses(*batch)
        if contacts is not None:
            write_contacts(contacts, shown.manifold(), len(shown.low), force)
    shown.end(margin, contacts)
    if least is not None:
        shown.require(least)


def _beyond(error: StatedError, clearance: float) -> float:
    """The distance by the field up to which the true one may be as small as the clearance."""
    return clearance + LOOSE * error.near * max(1.0, abs(clearance) / error.band)


class Search:
    """A mesh, or its frames, at poses against a field. update: shows how far the work is."""

    def __init__(
        self,
        field: Field,
        frames: Any,
        poses: Floats,
        margin: float | None,
        device: str,
        threads: int | None,
        update: Callable[[str], None],
    ) -> None:
        self.field, self.frames, self.poses, self.update = field, frames, poses, update
        self.device: dict[str, Any] = {"device": device, "threads": threads}
        self.margin, self.start = margin, clock.perf_counter()

    def _tell(self, done: int, count: int, what: str) -> None:
        self.update(pace(done, count, clock.perf_counter() - self.start, what))

    def batches(self) -> Iterator[tuple[int, int, Contacts]]:
        """The contacts of some poses, or of a frame: the number of the first one, how many there are in all, and the
        contacts."""
        from sdfcli.query.contacts import batch_size, contacts
        from sdfcli.query.sphere_tree import SphereTree

        frames, poses = len(self.frames), len(self.poses)
        if frames > 1:
            for number in range(frames):
                self._tell(number, frames, "frames")
                tree, pose = SphereTree(self.frames[number], **self.device), self.poses[number % poses]
                yield number, frames, contacts(self.field, tree, pose, margin=self.margin)
            return
        tree = SphereTree(self.frames[0], **self.device)
        batch = batch_size(tree.backend)
        for first in range(0, poses, batch):
            self._tell(first, poses, "poses")
            yield first, poses, contacts(self.field, tree, self.poses[first : first + batch], margin=self.margin)

    def path(self, clearance: float) -> FirstContact:
        """The first contact along the poses."""
        from sdfcli.query.first_contact import first_contact

        return first_contact(
            self.field,
            self.frames[0],
            self.poses,
            clearance=clearance,
            margin=self.margin,
            progress=lambda done, count: self._tell(done, count, "segments"),
            **self.device,
        )


class Shown:
    """What is shown of contacts as they are found, and of all at the end.

    low  lower bounds of the least distances so far.
    """

    def __init__(self, file: Path, mesh: str, field: Field, what: str, json: bool, quiet: bool) -> None:
        """what: whether results are those of a pose or of a frame."""
        from sdfcli.field.stated_error import StatedError, is_unsigned
        from sdfcli.query.contacts import VERDICTS

        self.file, self.mesh, self.field, self.what, self.json, self.quiet = file, mesh, field, what, json, quiet
        self.error, self.unsigned = StatedError.of(field), is_unsigned(field)
        self.low: list[float] = []
        self.counts = dict.fromkeys(VERDICTS, 0)
        self.least: dict[str, Any] = {}
        self.manifolds: list[Manifold] = []
        self.facts: dict[str, Any] = {}  # of a path
        self.start = clock.perf_counter()

    def poses(self, first: int, count: int, found: Contacts) -> None:
        """Shows a line for each of some poses. first: the number of the first one; count: of all."""
        self.manifolds.append(replace(found.manifold, pose=found.manifold.pose + first))
        width = max(len(self.what), len(str(count - 1)))
        rows = [{self.what: number, **row} for number, row in enumerate(_rows(found), first)]
        for row in rows:  # all count, even when nobody reads them any more
            self.low.append(row["low"])
            self.counts[row["contact"]] += 1
            if not self.least or row["low"] < self.least["low"]:
                self.least = row
        if self.quiet and not self.json:
            return
        edge = line_width()
        with standard_output():
            if first == 0 and not self.json:
                show(_fitting(f"{self.what:>{width}}  {HEADER[0]}", *HEADER[1:], edge=edge))
            for row in rows:
                if self.json:
                    print_json(row)
                else:
                    numbers, *places = self._cells(row)
                    show(_fitting(f"{row[self.what]:>{width}}  {numbers}", *places, edge=edge))

    def path(self, found: FirstContact, count: int) -> None:
        """Takes the first contact on a path of `count` poses."""
        self.facts = {"poses": count, "first_contact": found.time, "steps": found.steps}
        self.low = [found.least]
        if found.contacts is not None and found.pose is not None:
            self.manifolds.append(found.contacts.manifold)
            (self.least,) = _rows(found.contacts)
            self.facts |= {"matrix": found.pose.tolist(), **self.least}

    def manifold(self) -> Manifold:
        """The contacts of all poses."""
        import numpy as np

        from sdfcli.query.contacts import Manifold

        nothing, vectors = np.empty(0, np.int64), np.empty((0, 3))
        none = Manifold(nothing, nothing, np.empty(0), vectors, vectors)
        parts = [none, *self.manifolds]
        return Manifold(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(none)})

    def end(self, margin: float | None, output: Path | None) -> None:
        """Shows what all poses have in common. output: the file of the contacts."""
        took, poses = clock.perf_counter() - self.start, len(self.low)
        touched = sum(map(len, self.manifolds))
        if self.json:
            of_poses = {"poses": poses, **self.counts, "least": self.least, "poses_per_second": round(poses / took, 1)}
            print_json(
                {
                    "input": str(self.file),
                    "posed": self.mesh,
                    "signed": not self.unsigned,
                    "stated_error": self.error.near,
                    "stated_band": self.error.band,
                    **(self.facts or of_poses),
                    **({} if margin is None else {"margin": margin, "contacts": touched}),
                    **({} if output is None else {"output": str(output)}),
                    "seconds": {"total": round(took, 4)},
                }
            )
        elif not self.quiet:
            rows = self._path_rows() if self.facts else self._pose_rows()
            rows.append(("stated error", f"{self.error.near:.3g} up to {self.error.band:.3g} from the surface"))
            if margin is not None:
                where = "" if output is None else f", in {output}"
                rows.append(("contacts", f"{touched:,} triangles up to {margin:.3g}{where}"))
            rows.append(("time", f"{took:.2f} s" + ("" if self.facts else f", {poses / took:,.0f} {self.what}s/s")))
            print_table(f"{self.mesh} in {self.file}", rows)
        if not self.quiet:
            for note in self._notes():
                say(f"note: {note}")

    def _pose_rows(self) -> list[tuple[str, str]]:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.counts.items() if count)
        nearest = f"{_distance(self.least)}, at {self.what} {self.least[self.what]}"
        return [(f"{self.what}s", f"{len(self.low):,}: {counts}"), ("nearest", nearest)]

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

    def _cells(self, row: dict[str, Any]) -> tuple[str, str, str]:
        """What stands under HEADER."""
        numbers = "  ".join(f"{row[name]:>11.5g}" for name in ("distance", "low", "high"))
        place, normal = _words(self._place(row), ">10.5g"), _words(row["normal"], ">6.3f")
        return f"{row['contact']:11}  {numbers}  {row['triangle']:>8}", place, normal

    def _place(self, row: dict[str, Any]) -> list[float]:
        """The point, without what is only rounding beside the field."""
        least = POINT_ROUNDING * self.field.domain.length
        return [0.0 if abs(x) < least else x for x in row["point"]]

    def _notes(self) -> Iterator[str]:
        if self.unsigned:
            yield "the field has no signs: distances are clearances, and what lies inside is not seen"
        elif self.field.info.get("jump_leaves"):
            yield "the field closes holes of its mesh, where the sign jumps; bounds do not hold there"
        if self.field.info.get("verdict") == "doubtful":
            yield "the inside of the field's mesh is uncertain: see sdfcli info"

    def require(self, least: float) -> None:
        """Raises CheckFailedError where the bounds do not exclude that the mesh comes nearer than `least`."""
        if self.facts:
            if self.facts["first_contact"] is not None:
                when = _when(self.facts["first_contact"])
                raise CheckFailedError(
                    f"{self.mesh}: may come nearer than {least:g} at {when}: {_distance(self.least)}"
                )
            return
        below = sum(low < least for low in self.low)
        if below:
            worst = f"{_distance(self.least)} at {self.what} {self.least[self.what]}"
            raise CheckFailedError(
                f"{self.mesh}: {below:,} of {len(self.low):,} {self.what}s may come nearer than {least:g}: {worst}"
            )


ROW = ("verdict", "distance", "low", "high", "triangle", "point", "normal")
HEADER = (
    f"{'contact':11}  {'distance':>11}  {'low':>11}  {'high':>11}  {'triangle':>8}",
    f"{'point':>32}",
    f"{'way out':>20}",
)
POINT_ROUNDING = 1e-7
"""Coordinates below this are shown as 0, as a fraction of the domain's edge: of the order of float32's rounding."""


def _rows(found: Contacts) -> Iterator[dict[str, Any]]:
    """The results of each pose by their names."""
    from sdfcli.query.contacts import VERDICTS

    for values in zip(*(getattr(found, name).tolist() for name in ROW), strict=True):
        row = dict(zip(ROW, values, strict=True))
        yield {"contact": VERDICTS[row.pop("verdict")], **row}


def _fitting(*cells: str, edge: int) -> str:
    """The cells in a line, without the last ones where a terminal is too narrow."""
    while len(cells) > 1 and len("  ".join(cells)) > edge:
        cells = cells[:-1]
    return "  ".join(cells)


def _when(time: float) -> str:
    """A time on a path, counted in poses."""
    first = int(time)
    return f"pose {first}" if time == first else f"{time:.6f}, between poses {first} and {first + 1}"


def _distance(row: dict[str, Any]) -> str:
    return f"{row['distance']:.5g} ({row['low']:.5g} to {row['high']:.5g})"


def _words(vector: list[float], form: str) -> str:
    """Numbers in a line; what is rounded to 0 has no sign."""
    return " ".join(f"{x if float(f'{x:{form}}') else 0.0:{form}}" for x in vector)
