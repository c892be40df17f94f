"""Fields over time: linear between frames, within the stated bound, and one field on the union of two octrees."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import sdfcli
import sequences
import shapes
from sdfcli.errors import UsageError
from sdfcli.field.field import Field, lattice_position
from sdfcli.sequence.field_sequence import FieldSequence

ROUNDING = 1e-6
"""Rounding of distances to float32, in edges of the domain."""


def sequence_of(fields: list[Field], times: list[float], motion: list[float]) -> FieldSequence:
    return FieldSequence(fields[0].domain, np.array(times), np.array(motion), {}, "", fields.__getitem__)


def random_sequence(seed: int, count: int = 3) -> FieldSequence:
    rng = np.random.default_rng(seed)
    fields = [oracle.random_field(rng, 8, [0.5, -2.0, 1e3], 0.75) for _ in range(count)]
    times = np.cumsum(rng.uniform(0.1, 2, count)).tolist()
    return sequence_of(fields, times, [np.nan, *rng.uniform(0, 1, count - 1)])


def trilinear(field: Field, rng: np.random.Generator) -> Field:
    """A field on the same leaves that is one trilinear function in the whole domain, and so continuous."""
    corner = rng.uniform(-1, 1, (2, 2, 2))
    x, y, z = lattice_position(field.corner_key).T
    value = np.zeros(len(x))
    for i, j, k in np.ndindex(2, 2, 2):
        value += corner[i, j, k] * np.choose(i, [1 - x, x]) * np.choose(j, [1 - y, y]) * np.choose(k, [1 - z, z])
    return dataclasses.replace(field, distance=value.astype(np.float32))


def points_in(found: FieldSequence, count: int, seed: int = 1) -> npt.NDArray[np.float64]:
    """Points within the domain, and around it."""
    unit = np.random.default_rng(seed).uniform(-0.2, 1.2, (count, 3))
    return np.asarray(found.domain.origin + unit * found.domain.length)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 0.99))
def test_linear_between_frames(seed: int, share: float) -> None:
    found = random_sequence(seed)
    points = points_in(found, 50)
    first, second = found.at(1), found.at(2)
    time = (1 - share) * found.times[1] + share * found.times[2]
    for name in ("sample", "gradient"):
        at = getattr(found, name)
        ends = [getattr(field, name)(points) for field in (first, second)]
        assert np.allclose(at(points, time), (1 - share) * ends[0] + share * ends[1], rtol=1e-9, atol=1e-12)
        assert np.array_equal(at(points, found.times[1]), ends[0])
        assert np.array_equal(at(points, found.times[2]), ends[1])
    before, after = (found.sample(points, t) for t in (time - 1e-6, time + 1e-6))
    if found.times[1] <= time - 1e-6 and time + 1e-6 <= found.times[2]:
        assert np.allclose((after - before) / 2e-6, found.rate(points, time), atol=1e-6)


def test_the_rate_is_that_of_the_interval_that_begins() -> None:
    found = random_sequence(1)
    points, values = points_in(found, 20), [found.at(k) for k in range(3)]
    rates = [
        (b.sample(points) - a.sample(points)) / (found.times[k + 1] - found.times[k])
        for k, (a, b) in enumerate(itertools.pairwise(values))
    ]
    for time, rate in zip(found.times, [0, 1, 1], strict=True):
        assert np.array_equal(found.rate(points, time), rates[rate])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1))
def test_one_field_on_the_union_of_both_octrees(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    fields = [trilinear(random_sequence(seed, 2).at(k), rng) for k in range(2)]
    found = sequence_of(fields, [1.0, 3.0], [np.nan, 0.0])
    time = min((1 - share) * found.times[0] + share * found.times[1], found.times[1])
    mixed = found.at_time(time)
    mixed._arrays_on(mixed._home)
    one, two = found.at(0), found.at(1)
    if found.times[0] < time < found.times[1]:
        size = 8.0 ** -mixed.leaf_level.astype(np.float64)
        assert size.sum() == 1
        places = mixed.domain.origin + (lattice_position(mixed.leaf_key) + 1e-7) * mixed.domain.length
        levels = [each.leaf_level[each.leaf_at(places)] for each in (one, two)]
        assert np.array_equal(mixed.leaf_level, np.maximum(*levels))
    points = points_in(found, 200)
    inside = found.domain.to_unit(points)
    points = points[((inside > 0) & (inside < 1)).all(axis=1)]
    assert np.allclose(mixed.sample(points), found.sample(points, time), atol=1e-6)


def test_the_mix_is_a_field_like_others(tmp_path: Any) -> None:
    frames = sequences.bending(shapes.torus(12, 8), 2)
    fields = list(sdfcli.build_sequence(frames, device="cpu", depth=4, tolerance=0.01))
    found = sequence_of(fields, [0, 1], [np.nan, 1])
    mixed = found.at_time(0.5)
    again = sdfcli.load(mixed.save(tmp_path / "mixed.h5"))
    assert again.content_sha256 == mixed.content_sha256
    assert again.info["parameters"] == fields[0].info["parameters"]
    assert np.all(np.diff(mixed.corner_key.astype(np.int64)) > 0)
    points = points_in(found, 1000)
    assert np.allclose(mixed.sample(points), found.sample(points, 0.5), atol=1e-6)
    surface = sdfcli.isosurface(again)
    assert len(surface.faces) > 100
    assert np.abs(again.sample(surface.vertices)).max() < 1e-3


def exact(shape: shapes.Shape, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Signed distances by the oracle, which shares no code with the package."""
    triangles = shapes.triangles(shape)
    inside = oracle.winding(points, triangles) > 0.5
    return np.where(inside, -1, 1) * oracle.distance(points, triangles)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.02, 0.98), size=st.sampled_from([0.01, 0.1, 0.3]))
def test_the_bound_holds_for_vertices_that_move_on_lines(seed: int, share: float, size: float) -> None:
    rng = np.random.default_rng(seed)
    vertices, faces = shapes.octahedron()
    ends = [(vertices + rng.uniform(-size, size, vertices.shape), faces) for _ in range(2)]
    fields = list(sdfcli.build_sequence(ends, device="cpu", depth=3, tolerance=0.02))
    motion = float(np.linalg.norm(ends[1][0] - ends[0][0], axis=1).max())
    found = sequence_of(fields, [0.0, 2.0], [np.nan, motion])
    between = ((1 - share) * ends[0][0] + share * ends[1][0], faces)
    points = rng.uniform(-1.3, 1.3, (300, 3))
    own = [np.abs(field.sample(points) - exact(end, points)) for field, end in zip(fields, ends, strict=True)]
    allowed = found.bound(2 * share)
    assert allowed == pytest.approx(2 * share * (1 - share) * motion)
    assert allowed is not None
    missed = np.abs(found.sample(points, 2 * share) - exact(between, points))
    assert np.all(missed <= allowed + (1 - share) * own[0] + share * own[1] + ROUNDING)


def test_the_bound_is_reached() -> None:
    # A plate that moves past a point along its normal: the distance is a kink, at which the linear one is off by the
    # whole bound.
    plates = [shapes.moved(shapes.box([-9, -9, 0], [9, 9, 1]), 1.0, [0, 0, z]) for z in (0.0, 1.0)]
    point = np.array([[0.0, 0.0, 1.0]])
    found = sequence_of(
        list(sdfcli.build_sequence(plates, device="cpu", sign="none", depth=5, tolerance=1e-3)), [0, 1], [np.nan, 1]
    )
    share = 0.5
    true = min(abs(1 - share), abs(1 - (1 + share)))
    missed = abs(float(found.sample(point, share)[0]) - true)
    assert missed == pytest.approx(found.bound(share), abs=0.02)


def test_no_bound_where_the_faces_differ() -> None:
    found = sequence_of([random_sequence(1).at(0)] * 3, [0, 1, 2], [np.nan, np.nan, 0.5])
    assert found.bound(0.5) is None
    assert found.bound(1.0) == 0
    assert found.bound(1.5) == 0.25


def test_times_outside() -> None:
    found = random_sequence(3)
    low, high = found.times[[0, -1]]
    point = np.zeros((1, 3))
    for time in (low - 0.1, high + 0.1, np.nan, np.inf):
        for ask in (found.frame_at, found.at_time, found.bound):
            with pytest.raises(UsageError, match="the sequence lasts from"):
                ask(time)
        for look in (found.sample, found.gradient, found.rate):
            with pytest.raises(UsageError, match="the sequence lasts from"):
                look(point, time)


def test_the_last_time_is_told_in_full() -> None:
    """The time that a message names is one of the sequence."""
    found = sequence_of([random_sequence(1).at(0)] * 2, [0, 2 / 3], [np.nan, 0])
    with pytest.raises(UsageError, match=f"from 0.0 to {2 / 3} seconds") as caught:
        found.at_time(1)
    assert found.frame_at(float(str(caught.value).split()[-2])) == 1


def test_frames_have_whole_numbers() -> None:
    with pytest.raises(TypeError):
        random_sequence(1).at(1.5)  # type: ignore[arg-type]


def test_the_nearest_frame() -> None:
    found = sequence_of([random_sequence(1).at(0)] * 3, [0, 1, 3], [np.nan, 0, 0])
    times = [0, 0.4, 0.5, 0.6, 1, 1.9, 2.1, 3]
    assert [found.frame_at(time) for time in times] == [0, 0, 0, 1, 1, 1, 2, 2]


def test_one_frame() -> None:
    found = sequence_of([random_sequence(1).at(0)], [2.5], [np.nan])
    point = points_in(found, 3)
    assert np.array_equal(found.sample(point, 2.5), found.at(0).sample(point))
    with pytest.raises(UsageError, match="one frame has no rate"):
        found.rate(point, 2.5)


def test_a_few_frames_are_kept() -> None:
    fields, read = [random_sequence(1).at(0)] * 9, []

    def read_one(index: int) -> Field:
        read.append(index)
        return fields[index]

    found = FieldSequence(fields[0].domain, np.arange(9.0), np.full(9, np.nan), {}, "", read_one)
    for time in np.arange(0, 8.01, 0.25):
        found.sample(np.zeros((1, 3)), time)
    assert read == list(range(9))
    found.at(0)
    assert read == [*range(9), 0]
