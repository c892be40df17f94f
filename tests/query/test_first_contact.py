"""`first_contact`: nothing is passed over on the way, and the time is that of formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sdfcli
import shapes
from sdfcli.errors import InputError, UsageError
from sdfcli.field.stated_error import StatedError
from sdfcli.query.contacts import contacts
from sdfcli.query.first_contact import Segments, first_contact
from sdfcli.query.poses import RIGID
from sdfcli.query.sphere_tree import SphereTree

SLACK = 0.25
"""How loose a bound is, in stated errors: SDF_CONTACT_SLACK."""


@cache
def ball() -> sdfcli.Field:
    """A ball of radius 1, and a domain in which a small mesh has room on all sides."""
    return sdfcli.build(shapes.icosphere(3), device="cpu", tolerance=2e-3, band=0.2, domain=(-2, -2, -2, 4))


@cache
def plate() -> sdfcli.Field:
    """Thin: 2 x 2 x 0.04."""
    return sdfcli.build(shapes.box((-1, -1, -0.02), (1, 1, 0.02)), device="cpu", tolerance=2e-3)


def tree(shape: shapes.Shape) -> SphereTree:
    return SphereTree(shape, "cpu")


def at(*place: float, turn: Any = None, scale: float = 1.0) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3] = scale * (np.eye(3) if turn is None else turn)
    pose[:3, 3] = place
    return pose


def about(axis: int, angle: float) -> np.ndarray:
    turn, i, j = np.eye(3), (axis + 1) % 3, (axis + 2) % 3
    turn[i, i] = turn[j, j] = np.cos(angle)
    turn[j, i] = np.sin(angle)
    turn[i, j] = -turn[j, i]
    return turn


def least_on(field: sdfcli.Field, mesh: SphereTree, poses: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Upper bounds of the true distance at times of a path, by a motion of its own."""
    first = np.minimum(times.astype(int), len(poses) - 2)
    motion = [between(poses[k], poses[k + 1], time - k) for k, time in zip(first, times, strict=True)]
    return np.asarray(contacts(field, mesh, np.array(motion)).high)


def between(one: np.ndarray, two: np.ndarray, share: float) -> np.ndarray:
    """The pose between two others, by quaternions."""
    trimesh = pytest.importorskip("trimesh")
    scale = np.cbrt(np.linalg.det(one[:3, :3]))
    turns = [np.block([[each[:3, :3] / scale, np.zeros((3, 1))], [0, 0, 0, 1]]) for each in (one, two)]
    quaternions = [trimesh.transformations.quaternion_from_matrix(turn) for turn in turns]
    turn = trimesh.transformations.quaternion_slerp(*quaternions, share)
    place = (1 - share) * one[:3, 3] + share * two[:3, 3]
    return at(*place, turn=trimesh.transformations.quaternion_matrix(turn)[:3, :3], scale=scale)


# ---- Times by formula ----


@pytest.mark.parametrize("clearance", [0.0, 0.1, 0.3])
def test_a_ball_towards_a_ball(clearance: float) -> None:
    error, radius = StatedError.of(ball()), 0.25
    poses = np.array([at(1.7, 0.1, 0), at(0.2, 0.1, 0)])
    found = first_contact(ball(), tree(shapes.moved(shapes.icosphere(3), radius)), poses, clearance=clearance)
    assert found.time is not None
    assert found.contacts is not None
    x = 1.7 - 1.5 * found.time
    left = np.hypot(x, 0.1) - 1 - radius - clearance  # both are polyhedra within the spheres, by less than 0.01
    allowed = error.near * max(1, clearance / error.band)
    assert -0.01 < left < (2 + SLACK) * allowed
    assert found.contacts.low[0] <= clearance + 0.02 * error.near
    assert np.allclose(found.pose, at(x, 0.1, 0), atol=1e-12)
    assert found.least == found.contacts.low[0]


def test_a_hand_of_a_clock_meets_a_plate() -> None:
    """A needle that turns about the origin of its frame, from upright towards the plate beside it."""
    needle = shapes.box((0.3, -0.01, -0.01), (0.9, 0.01, 0.01))
    turns = [at(-1.4, 0, 0.4, turn=about(1, -angle)) for angle in (np.pi / 2, 0, -np.pi / 2)]
    found = first_contact(plate(), tree(needle), np.array(turns))
    assert found.time is not None
    # The lower edge of the tip, (0.9, -0.01) from the axis, comes down to the plate's upper side, 0.38 below the axis.
    angle = np.arcsin(0.38 / np.hypot(0.9, 0.01)) - np.arctan2(0.01, 0.9)
    arc = (found.time - 1) * np.pi / 2
    allowed = (2 + SLACK) * StatedError.of(plate()).near / (0.9 * np.cos(angle))
    assert angle - allowed < arc < angle


# ---- Nothing is passed over ----


@pytest.mark.parametrize("tilt", [0.0, 0.7])
def test_no_tunnels(tilt: float) -> None:
    """Thin things that are far on the other side at the next pose."""
    error = StatedError.of(plate())
    for shape in (
        shapes.box((-0.3, -0.3, -5e-4), (0.3, 0.3, 5e-4)),
        shapes.box((-1e-3, -1e-3, -0.2), (1e-3, 1e-3, 0.2)),
    ):
        poses = np.array([at(0.1, 0, height, turn=about(0, tilt)) for height in (900.0, -700.0)])
        found = first_contact(plate(), tree(shape), poses)
        assert found.time is not None
        assert found.pose is not None
        height = 900 - 1600 * found.time
        low = (shape[0] @ about(0, tilt).T)[:, 2].min()
        assert 0 <= height + low - 0.02 < (2 + SLACK) * error.near + 1e-4
        assert found.steps < 200


def test_a_swing_between_poses_that_are_clear() -> None:
    """Both ends are clear, and so is every pose but those near the middle."""
    needle = shapes.box((0.1, -0.01, -0.01), (0.8, 0.01, 0.01))
    poses = np.array([at(0, 0, 0.5, turn=about(1, angle)) for angle in (-0.4, np.pi + 0.3)])
    assert (contacts(plate(), needle, poses, device="cpu").low > 0).all()
    assert first_contact(plate(), needle, poses, device="cpu").time is None  # the shorter way is above
    poses = np.array([at(0, 0, 0.5, turn=about(1, angle)) for angle in (0.1, np.pi - 0.1)])
    assert (contacts(plate(), needle, poses, device="cpu").low > 0).all()
    found = first_contact(plate(), needle, poses, device="cpu")
    assert found.time is not None
    assert 0 < found.time < 0.5


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_ten_times_finer_steps_find_nothing_earlier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = rng.integers(3)
    shape = [
        shapes.moved(shapes.star(rng, 0), 0.3, rng.normal(size=3) * 0.3),
        shapes.box((-0.5, -0.4, -1e-3), (0.5, 0.4, 1e-3)),
        shapes.box((0, -1e-3, -1e-3), (0.9, 1e-3, 1e-3)),
    ][kind]
    field, mesh, scale = (ball, plate)[rng.integers(2)](), tree(shape), rng.choice([1.0, 0.37])
    count = int(rng.integers(2, 5))
    poses = np.array([at(*rng.uniform(-1.8, 1.8, 3), turn=shapes.turn(rng), scale=scale) for _ in range(count)])
    clearance = rng.choice([0.0, 0.05, -0.02])
    found = first_contact(field, mesh, poses, clearance=clearance)
    end = count - 1 if found.time is None else found.time
    times = np.linspace(0, end, 10 * max(20, found.steps // 4) + 1)
    times = times if found.time is None else times[times < found.time]
    if len(times):
        assert least_on(field, mesh, poses, times).min() >= clearance
    if found.time is not None and found.pose is not None:
        first = min(int(found.time), count - 2)
        same = between(poses[first], poses[first + 1], found.time - first)
        assert np.allclose(found.pose, same, atol=1e-6)


# ---- Ends, and what holds on the way ----


def test_one_pose() -> None:
    mesh = tree(shapes.moved(shapes.cube(), 0.1))
    apart = first_contact(ball(), mesh, at(1.5, 0, 0))
    assert (apart.time, apart.pose, apart.contacts, apart.steps) == (None, None, None, 1)
    assert 0.3 < apart.least < 0.4
    inside = first_contact(ball(), mesh, at(0, 0.1, 0))
    assert (inside.time, inside.steps) == (0.0, 1)
    assert np.array_equal(inside.pose, at(0, 0.1, 0))
    assert inside.contacts is not None
    assert inside.contacts.verdict[0] == 2


def test_equal_poses() -> None:
    mesh = tree(shapes.moved(shapes.cube(), 0.1))
    rest = first_contact(ball(), mesh, np.array([at(1.5, 0, 0)] * 4))
    assert (rest.time, rest.steps) == (None, 3)
    touched = first_contact(ball(), mesh, np.array([at(1.5, 0, 0)] * 3 + [at(0.5, 0, 0)] * 2))
    assert touched.time is not None
    assert 2 < touched.time < 3


def test_how_deep_it_may_come() -> None:
    """A negative clearance allows for so much penetration."""
    mesh = tree(shapes.moved(shapes.icosphere(2), 0.2))
    poses = np.array([at(1.6, 0, 0), at(0, 0, 0)])
    times = [first_contact(ball(), mesh, poses, clearance=clearance).time for clearance in (0.1, 0, -0.1, -0.5, -3)]
    assert times[-1] is None
    moved = np.diff(np.array(times[:-1], float)) * 1.6
    assert np.allclose(moved, [0.1, 0.1, 0.4], atol=0.02)


def test_a_field_without_signs() -> None:
    """Before a surface there is a contact; in the midst of it there is none."""
    sheet = sdfcli.build(shapes.icosphere(2), device="cpu", tolerance=2e-3, sign="none")
    mesh = tree(shapes.moved(shapes.cube(), 0.1))
    found = first_contact(sheet, mesh, np.array([at(1.5, 0, 0), at(0, 0, 0)]))
    assert found.time is not None
    assert found.contacts is not None
    assert found.contacts.verdict[0] < 2
    assert first_contact(sheet, mesh, np.array([at(0.2, 0, 0), at(0, 0, 0)])).time is None
    with pytest.raises(UsageError, match="no signs"):
        first_contact(sheet, mesh, at(1.5, 0, 0), clearance=-0.1)


def test_contacts_of_the_first_one() -> None:
    mesh = tree(shapes.moved(shapes.icosphere(1), 0.2))
    poses = np.array([at(1.6, 0, 0), at(0, 0, 0)])
    without = first_contact(ball(), mesh, poses)
    found = first_contact(ball(), mesh, poses, margin=0.1)
    assert without.contacts is not None
    assert found.contacts is not None
    assert len(without.contacts.manifold) == 0 < len(found.contacts.manifold)
    again = contacts(ball(), mesh, found.pose, margin=0.1)
    for name in ("triangle", "distance", "point", "normal"):
        assert np.array_equal(getattr(again.manifold, name), getattr(found.contacts.manifold, name))


@pytest.mark.parametrize("segments", [1, 3, 1000])
def test_segments_that_advance_together_do_not_show(segments: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    mesh = tree(shapes.moved(shapes.cube(), 0.1))
    around = np.array([at(1.6 * np.cos(a), 1.6 * np.sin(a), 0, turn=shapes.turn(rng)) for a in np.arange(9.0)])
    for poses in (around, np.concatenate([around, [at(0.5, 0, 0)], around])):
        whole = first_contact(ball(), mesh, poses)
        with monkeypatch.context() as patched:
            patched.setattr("sdfcli.query.first_contact.SEGMENTS", segments)
            told = []
            parts = first_contact(ball(), mesh, poses, progress=lambda *done, told=told: told.append(done))
        assert (whole.time, whole.least, whole.steps) == (parts.time, parts.least, parts.steps)
        assert told[0] == (0, len(poses) - 1)
    assert whole.time is not None
    assert 8 < whole.time < 9


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int) -> None:
    mesh = shapes.moved(shapes.star(np.random.default_rng(5), 2), 0.3)
    poses = np.array([at(1.7, 0, 0), at(0, 0.3, 0, turn=about(2, 2.0))])
    found, whole = (first_contact(ball(), mesh, poses, device="cpu", threads=each) for each in (threads, None))
    assert (found.time, found.least, found.steps) == (whole.time, whole.least, whole.steps)


@pytest.mark.gpu
def test_the_same_on_a_gpu() -> None:
    mesh = shapes.moved(shapes.star(np.random.default_rng(5), 2), 0.3)
    poses = np.array([at(1.7, 0, 0), at(0, 0.3, 0, turn=about(2, 2.0))])
    one, two = (first_contact(ball(), mesh, poses, device=each, margin=0.1) for each in ("cpu", "cuda"))
    assert (one.time, one.least, one.steps) == (two.time, two.least, two.steps)
    assert one.contacts is not None
    assert two.contacts is not None
    assert np.array_equal(one.contacts.manifold.point, two.contacts.manifold.point)


# ---- The end of it ----


def test_along_a_wall() -> None:
    """A bound just above the clearance all along: many short steps, but an end."""
    error = StatedError.of(plate())
    mesh = tree(shapes.moved(shapes.icosphere(1), 0.1))
    for tiny, ends in ((0.3, True), (-0.1, False)):
        height = 0.02 - mesh.mesh.bounds[0, 2] + (1 + SLACK + tiny) * error.near
        found = first_contact(plate(), mesh, np.array([at(-0.1, 0, height), at(0.1, 0, height)]))
        assert (found.time is None) == ends
        assert found.steps < 0.2 / (0.04 * error.near) + 10


def test_steps_below_the_rounding_of_the_time_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """From so far away that the next step leaves the time as it is: what lies ahead cannot be excluded."""
    bounds = iter([1.6e9, *[2e-8] * 100])
    found = contacts(ball(), shapes.cube(), at(3, 0, 0), device="cpu")
    monkeypatch.setattr(
        "sdfcli.query.first_contact.contacts",
        lambda *words, **options: replace(found, low=np.array([next(bounds)])),
    )
    monkeypatch.setattr("sdfcli.query.first_contact.ARRIVED", 1e-9)
    mesh = tree(shapes.moved(shapes.cube(), 0.1))
    arrived = first_contact(ball(), mesh, np.array([at(1e9, 0, 0), at(-1e9, 0, 0)]))
    assert arrived.time is not None
    assert 0.79 < arrived.time < 0.81


# ---- Segments ----


def segments(poses: np.ndarray, mesh: SphereTree) -> Segments:
    return Segments(poses, np.cbrt(np.linalg.det(poses[:, :3, :3])).max(), mesh.mesh.bounds)


def motions() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rotations, of every angle up to half a turn."""
    rng = np.random.default_rng(6)
    axis = rng.normal(size=(30, 3))
    axis[:6] = np.concatenate([np.eye(3), -np.eye(3)])
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    for k, angle in enumerate([0, 1e-9, 1e-5, 1.0, np.pi / 2, 3.0, np.pi - 1e-6, np.pi] * 4):
        x, y, z = axis[k % 30]
        cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        start = shapes.turn(rng)
        yield start, (np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross) @ start


@pytest.mark.parametrize("scale", [1.0, 25.0, 1e-3])
def test_segments(scale: float) -> None:
    """Their ends are the poses, they turn at a constant rate, and no vertex is faster than they say."""
    rng = np.random.default_rng(7)
    for one, two in motions():
        shape = shapes.moved(shapes.star(rng, 0), 0.5, 3 * rng.normal(size=3))
        mesh = tree(shape)
        poses = np.array([at(*rng.normal(size=3), turn=turn, scale=scale) for turn in (one, two)])
        found, share = segments(poses, mesh), np.linspace(0, 1, 41)
        way = found.pose(np.zeros(41, int), share)
        assert np.allclose(way[[0, -1]], poses, rtol=0, atol=1e-8 * max(1, scale))
        turns = way[:, :3, :3] / scale
        assert np.allclose(turns @ turns.swapaxes(1, 2), np.eye(3), atol=1e-9)
        steps = turns[1:] @ turns[:-1].swapaxes(1, 2)
        assert np.allclose(steps, steps[0], atol=1e-9)
        assert np.trace(steps[0]) >= 1 + 2 * np.cos(np.pi / 40) - 1e-9  # the shorter way
        assert np.allclose(np.diff(way[:, :3, 3], axis=0), (poses[1] - poses[0])[:3, 3] / 40, atol=1e-12)
        vertices = np.einsum("tij,vj->tvi", way[:, :3, :3], shape[0]) + way[:, None, :3, 3]
        fastest = 40 * np.linalg.norm(np.diff(vertices, axis=0), axis=2).max()
        assert fastest <= found.speed[0] * (1 + 1e-9)


def test_poses_that_are_rigid_but_for_rounding() -> None:
    rng = np.random.default_rng(8)
    mesh = tree(shapes.star(rng, 0))
    for one, two in motions():
        poses = np.array([at(*rng.normal(size=3), turn=np.round(turn, 6)) for turn in (one, two)])
        ends = segments(poses, mesh).pose(np.zeros(2, int), np.array([0.0, 1.0]))
        assert np.allclose(ends, poses, rtol=0, atol=2 * RIGID)


# ---- What is refused ----


def test_refused() -> None:
    mesh = tree(shapes.moved(shapes.cube(), 0.1))
    with pytest.raises(InputError, match="needs a pose"):
        first_contact(ball(), mesh, np.empty((0, 4, 4)))
    with pytest.raises(InputError, match="scale of the poses changes from 1 to 2"):
        first_contact(ball(), mesh, np.array([at(1, 0, 0), at(2, 0, 0, scale=2.0)]))
    for clearance in (np.nan, np.inf, -np.inf):
        with pytest.raises(UsageError, match="finite"):
            first_contact(ball(), mesh, at(1, 0, 0), clearance=clearance)
    with pytest.raises(UsageError, match="finite"):
        first_contact(ball(), mesh, at(0, 0, 0), margin=np.nan)
