"""`sdfcli collide`: distance, depth and contact points of a mesh at poses against a field."""

from __future__ import annotations

import math
import sys
import time as clock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdfcli.cli import options
from sdfcli.cli.build_options import Scale, Units
from sdfcli.cli.contact_report import Shown
from sdfcli.cli.fields import open_field
from sdfcli.cli.output import pace, progress
from sdfcli.errors import UsageError
from sdfcli.params import check_scale

if TYPE_CHECKING:
    from sdfcli.field.field import Field
    from sdfcli.field.stated_error import StatedError
    from sdfcli.mesh.arrays import Floats
    from sdfcli.query.contacts import Contacts
    from sdfcli.query.first_contact import FirstContact
    from sdfcli.query.sphere_tree import SphereTree

LOOSE = 2
"""Default contact margin beyond the required clearance, in errors: no bound is looser."""

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
        help="Poses from the mesh's frame to the field's: .npy file of matrices (t, 4, 4), or .csv, .txt, .tum or "
        ".json file with quaternions, angles or matrices.",
        show_default=False,
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="TX,TY,TZ[,RX,RY,RZ]",
        help="A pose: rotation about the fixed axes x, then y, then z, in degrees, or QX,QY,QZ,QW, then translation; "
        "repeatable.",
        show_default=False,
    ),
]
AlongPath = Annotated[bool, typer.Option("--path", help="Treat the poses as a path, and find the first contact.")]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="D",
        help="Maximum distance of contact triangles; by default --min, or 0, plus twice the field's error, so that no "
        "possible contact is missed.",
        show_default=False,
    ),
]
Least = Annotated[
    float | None,
    typer.Option(
        "--min",
        metavar="CLEARANCE",
        help="Required clearance: exit code 6 if a lower bound is below it; with --path, the distance that counts as "
        "contact.",
        show_default=False,
    ),
]
ContactFile = Annotated[
    Path | None,
    typer.Option("--contacts", metavar="OUT", help="Write the contacts: .csv, .ply or .vtkhdf.", show_default=False),
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
    faces: options.Faces = None,
    units: Units = None,
    scale: Scale = None,
    frame: options.Frame = None,
    time: options.Time = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure a mesh's distance to a field's surface, or its penetration depth, at each of its poses.

    Prints each pose's minimum distance, its bounds by the field's error, and its location. The verdict is clear or
    penetrating, or touching if the bounds do not decide. With a field of `build --prove` the bounds are proven.

    Example: sdfcli collide cell.h5 tool.stl --poses poses.npy --min 0.005
    """
    import numpy as np

    from sdfcli.export.contacts import ENDINGS, write_contacts
    from sdfcli.query.first_contact import check_clearance
    from sdfcli.query.poses import load_poses, pose_at
    from sdfcli.runtime.files import check_ending, check_target
    from sdfcli.sequence.frames import find_frames

    check_scale(scale, units)
    for name, value in (("--margin", margin), ("--min", least)):
        if value is not None and not math.isfinite(value):
            raise UsageError(f"{name} {value}: use a finite distance")
    if poses is not None and at:
        raise UsageError("--poses and --at both give poses; use one of them")
    if path and poses is None and not at:
        raise UsageError("--path: give its poses with --poses FILE or repeated --at")
    frames: Any = find_frames(mesh, faces)
    if contacts is not None:
        check_ending(contacts, *ENDINGS)
        check_target(contacts, force, file, *frames.inputs, *([poses] if poses else []))
    placed = load_poses(poses) if poses else np.array([pose_at(words) for words in at] if at else [np.eye(4)])
    if path and len(frames) > 1:
        raise UsageError(f"--path: use a rigid mesh, not {len(frames):,} frames")
    if len(frames) > 1 and len(placed) not in (1, len(frames)):
        raise UsageError(f"{len(placed):,} poses for {len(frames):,} frames: give one, or one per frame")
    rows_on_terminal = not path and sys.stdout.isatty()  # they would overwrite the progress line
    with progress(str(file), quiet or json or rows_on_terminal) as update:
        update("loading")
        field = open_field(file, frame, time)
        if least is not None:
            check_clearance(field, least)
        if contacts is not None and margin is None:
            from sdfcli.field.proven import error_for_bounds

            margin = _beyond(error_for_bounds(field), least or 0.0)
        search = Search(field, frames, placed, margin, update, device=device, threads=threads, scale=scale, units=units)
        name = mesh[0] if len(mesh) == 1 else f"{mesh[0]} and {len(mesh) - 1} more"
        many = len(frames) > 1
        files = frames.inputs if many and faces is None else []
        shown = Shown(file, name, field, "frame" if many else "pose", files, json, quiet)
        if path and len(placed) == 1:
            search.notes.append("a path of one pose: only this pose is tested; give two or more")
        if path:
            shown.path(search.path(least or 0.0), len(placed))
        else:
            for batch in search.batches():
                shown.poses(*batch)
        if contacts is not None:
            write_contacts(contacts, shown.manifold(), len(shown.low), force)
    shown.end(margin, contacts, search.encloses, search.notes)
    if least is not None:
        shown.require(least)


def _beyond(error: StatedError, clearance: float) -> float:
    """Field distance up to which the true distance may be as small as the clearance."""
    return clearance + LOOSE * float(error.at(clearance))


class Search:
    """A mesh, or its frames, at poses against a field. update: shows progress. tree: arguments of `SphereTree`.

    notes  about sizes that differ much, perhaps by their units.
    """

    def __init__(
        self,
        field: Field,
        frames: Any,
        poses: Floats,
        margin: float | None,
        update: Callable[[str], None],
        **tree: Any,
    ) -> None:
        self.field, self.frames, self.poses, self.update = field, frames, poses, update
        self.tree, self.notes = tree, list[str]()
        self.margin, self.start = margin, clock.perf_counter()
        self.encloses: bool | None = None

    def _tell(self, done: int, count: int, what: str) -> None:
        self.update(pace(done, count, clock.perf_counter() - self.start, what))

    def batches(self) -> Iterator[tuple[int, int, Contacts]]:
        """Yields contacts of a batch of poses, or of one frame: index of the first, total count, contacts."""
        from sdfcli.query.contacts import batch_size

        frames, poses = len(self.frames), len(self.poses)
        if frames > 1:
            for number in range(frames):
                self._tell(number, frames, "frames")
                yield number, frames, self._contacts(self._tree(number), self.poses[number % poses])
            return
        tree = self._tree(0)
        batch = batch_size(tree._backend)
        for first in range(0, poses, batch):
            self._tell(first, poses, "poses")
            yield first, poses, self._contacts(tree, self.poses[first : first + batch])

    def _tree(self, number: int) -> SphereTree:
        from sdfcli.query.poses import checked_poses
        from sdfcli.query.sphere_tree import SphereTree
        from sdfcli.query.units import check_units, size_note

        tree, name = SphereTree(self.frames[number], **self.tree), self.frames.name(number)
        pose = self.poses if len(self.frames) == 1 else self.poses[number % len(self.poses)]
        scales = checked_poses(pose)[1]
        check_units(self.field, tree.mesh.units, scales, name)
        if (note := size_note(self.field, tree.mesh, scales, name)) and not self.notes:  # one for all frames
            self.notes.append(note)
        return tree

    def _contacts(self, tree: SphereTree, poses: Floats) -> Contacts:
        from sdfcli.query.contacts import contacts

        found = contacts(self.field, tree, poses, margin=self.margin)
        self._asked(tree)
        return found

    def _asked(self, tree: SphereTree) -> None:
        """Records whether a tree's mesh has an inside, if that mattered; for frames, whether all have."""
        if tree._encloses is not None:
            self.encloses = tree._encloses and self.encloses is not False

    def path(self, clearance: float) -> FirstContact:
        """The first contact along the poses."""
        from sdfcli.query.first_contact import first_contact

        tree = self._tree(0)
        found = first_contact(
            self.field,
            tree,
            self.poses,
            clearance=clearance,
            margin=self.margin,
            progress=lambda done, count: self._tell(done, count, "segments"),
        )
        self._asked(tree)
        return found
