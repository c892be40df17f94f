"""`first_contact`: the first contact between a mesh moving along a path and a field, by conservative advancement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.field.proven import error_for_bounds
from sdfcli.field.stated_error import is_unsigned
from sdfcli.field.store import as_field
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.load import MeshSource
from sdfcli.params import real
from sdfcli.query.contacts import Contacts, contacts
from sdfcli.query.poses import RIGID, checked_poses
from sdfcli.query.sphere_tree import SphereTree

SEGMENTS = 256
"""Path segments advanced together."""

ARRIVED = 0.01
"""Distance above the clearance that counts as reached, as a fraction of the field's error."""

SHORTEST = 1e-9
"""Minimum such distance, as a fraction of the domain edge."""

AHEAD = 8.0
"""Remaining steps above which a walker shares its way with another."""

WALKERS = 1 << 12
"""Maximum walker count."""


@dataclass(frozen=True)
class FirstContact:
    """The first time at which a contact cannot be excluded.

    time      in poses: 2.25 lies a quarter of the way from pose 2 to pose 3. None: the whole path is clear.
    pose      (4, 4) float64 at that time, or None.
    contacts  at that pose, or None.
    least     smallest lower bound on the distance among the poses tested up to then, in field units.
    steps     count of these poses.
    """

    time: float | None
    pose: Floats | None
    contacts: Contacts | None
    least: float
    steps: int

    def __repr__(self) -> str:
        met = "clear" if self.time is None else f"at time {self.time:.6g}"
        return f"<FirstContact: {met}, least distance {self.least:.4g}>"


def first_contact(
    field: Field | str | PathLike[str],
    mesh: MeshSource | SphereTree,
    poses: npt.ArrayLike,
    *,
    clearance: float = 0.0,
    margin: float | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: Callable[[int, int], None] = lambda done, count: None,
) -> FirstContact:
    """Finds the first time at which a moving mesh may come within `clearance` of a field, given the field's error,
    as for `contacts`. Before that time it is clear at every moment.

    Between two poses the mesh frame's origin moves on a line, and the mesh rotates about it at a constant rate, the
    shorter way round. Conservative advancement (Mirtich 1996) limits each step so that no vertex moves farther than the
    distance allows: no contact is missed, however thin the part or fast the motion.

    Args:
        field: as for `contacts`.
        mesh: as for `contacts`.
        poses: (t, 4, 4), all with the same scale.
        clearance: the distance that counts as a contact, in field units; not below 0 for an unsigned field.
        margin: as for `contacts`, at that time.
        device: as for `contacts`; results are always NumPy arrays.
        threads: as for `contacts`.
        progress: called with the segment counts done and in total.

    Raises the errors of `contacts`; InputError for poses with different scales or an empty path; UsageError for an
    invalid clearance.
    """
    field = as_field(field)
    check_clearance(field, clearance)
    given, scales = checked_poses(poses)
    if len(given) == 0:
        raise InputError("a path needs a pose")
    if scales.max() > scales.min() * (1 + 2 * RIGID):
        raise InputError(f"the scale of the poses changes from {scales.min():g} to {scales.max():g}; a path has one")
    tree = SphereTree._of(mesh, poses, device, threads)
    segments = Segments(given, scales.max(), tree.mesh.bounds)
    near = clearance + max(ARRIVED * error_for_bounds(field).near, SHORTEST * field.domain.length)
    least, steps, count = np.inf, 0, len(segments.speed)
    for first in range(0, count, SEGMENTS):
        progress(first, count)
        last = min(first + SEGMENTS, count)
        time, low, met = _advance(field, tree, segments, np.arange(first, last), clearance, near)
        before = time <= (np.inf if met is None else met[0] + met[1])
        least, steps = min(least, float(low[before].min())), steps + int(before.sum())
        if met is not None:
            number, share = np.array([met[0]]), np.array([met[1]])
            pose = segments.pose(number, share)[0]
            return FirstContact(float(sum(met)), pose, contacts(field, tree, pose, margin=margin), least, steps)
    return FirstContact(None, None, None, least, steps)


def _advance(
    field: Field, tree: SphereTree, segments: Segments, number: Ints, clearance: float, near: float
) -> tuple[Floats, Floats, tuple[int, float] | None]:
    """Advances through segments (s,). Returns times and lower bounds (k,) at the tested poses, and the first contact's
    segment and share.

    Each segment has a walker. Where steps are short relative to the remaining way, as along a wall, a walker hands half
    of it to a new walker, so that many short steps are taken concurrently.
    """
    share, end = np.zeros(len(number)), np.ones(len(number))
    times, lows, met = [], [], None
    while len(number):
        low = np.asarray(contacts(field, tree, segments.pose(number, share)).low)
        time = number + share
        times.append(time)
        lows.append(low)
        with np.errstate(divide="ignore", invalid="ignore"):
            after = share + (low - clearance) / segments.speed[number]
        free = (low > near) & (after > share)  # a step below the time's rounding does not advance
        if not free.all():
            there = int(np.where(free, np.inf, time).argmin())
            if met is None or time[there] < met[0] + met[1]:
                met = int(number[there]), float(share[there])
        go = free & (after < end) & (time < (np.inf if met is None else met[0] + met[1]))
        number, end, step, share = number[go], end[go], (after - share)[go], after[go]
        far = (end - share > AHEAD * step) & (2 * len(number) <= WALKERS)
        middle = (share + end) / 2
        share = np.concatenate((share, middle[far]))
        number, end = np.concatenate((number, number[far])), np.concatenate((np.where(far, middle, end), end[far]))
    return np.concatenate(times), np.concatenate(lows), met


def check_clearance(field: Field, clearance: float) -> None:
    """Raises UsageError for a clearance that is not finite, or negative for an unsigned field."""
    if not np.isfinite(real(clearance)):
        raise UsageError(f"--min {clearance}: use a finite distance")
    if clearance < 0 and is_unsigned(field):
        raise UsageError(f"--min {clearance:g}: the field has no signs and knows no depths; use 0 or more")


class Segments:
    """The motion between consecutive poses; a single pose is one segment without motion.

    speed  (s,) float64: maximum distance moved by a vertex along a segment, in field units.
    """

    def __init__(self, poses: Floats, scale: float, bounds: Floats) -> None:
        """Takes the mesh's bounds (2, 3), in its own frame."""
        start, end = (poses[:-1], poses[1:]) if len(poses) > 1 else (poses, poses)
        turns = np.einsum("sij,skj->sik", end[:, :3, :3], start[:, :3, :3]) / scale**2
        self._axis, self._angle = _axes(turns)
        self._start, self._shift = start, end[:, :3, 3] - start[:, :3, 3]
        corners = np.array([[bounds[k >> axis & 1, axis] for axis in range(3)] for k in range(8)])
        turned = np.einsum("sij,cj->sci", start[:, :3, :3], corners)
        arm = np.linalg.norm(np.cross(self._axis[:, None], turned), axis=2).max(axis=1)  # from the rotation axis
        self.speed = (np.linalg.norm(self._shift, axis=1) + self._angle * arm) * (1 + 4 * RIGID)

    def pose(self, number: Any, share: Floats) -> Floats:
        """Poses (k, 4, 4) at shares (k,) along segments (k,)."""
        angle, axis = share * self._angle[number], self._axis[number]
        x, y, z = axis.T
        nothing = np.zeros_like(x)
        skew = np.stack([nothing, -z, y, z, nothing, -x, -y, x, nothing], axis=1).reshape(-1, 3, 3)
        sine, cosine = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
        turn = np.eye(3) + sine * skew + (1 - cosine) * (skew @ skew)  # Rodrigues's formula
        pose: Floats = self._start[number].copy()
        pose[:, :3, :3] = turn @ pose[:, :3, :3]
        pose[:, :3, 3] += share[:, None] * self._shift[number]
        return pose


def _axes(turns: Floats) -> tuple[Floats, Floats]:
    """Unit axes (s, 3) and angles (s,), 0 to pi, for rotations (s, 3, 3); a zero axis for the identity."""
    cosine = np.clip((np.trace(turns, axis1=1, axis2=2) - 1) / 2, -1, 1)
    skew = np.stack([turns[:, k - 1, k - 2] - turns[:, k - 2, k - 1] for k in range(3)], axis=1) / 2  # sine times axis
    sine = np.linalg.norm(skew, axis=1)
    axis = skew / np.where(sine > 0, sine, 1)[:, None]
    # Beyond 90 degrees, from the symmetric part: cosine I + (1 - cosine) axis axis^T.
    wide = np.flatnonzero(cosine < 0)
    outer = (turns[wide] + turns[wide].swapaxes(1, 2)) / 2 - cosine[wide, None, None] * np.eye(3)
    column = outer[np.arange(len(wide)), :, np.diagonal(outer, axis1=1, axis2=2).argmax(axis=1)]
    column *= np.where((column * skew[wide]).sum(axis=1) < 0, -1, 1)[:, None]
    axis[wide] = column / np.linalg.norm(column, axis=1, keepdims=True)
    return axis, np.arctan2(sine, cosine)
