"""Values and gradients of fields, against plain NumPy on their arrays."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.runtime.schedule import Deferred

backend = backends.backend

Numbers = oracle.Numbers


def evaluate(backend: Backend, field: Field, points: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Values, gradients and leaves, computed on the device."""
    at = backend.from_host(points, np.float64)
    value, slope, leaf = (backend.to_host(a) for a in (field.sample(at), field.gradient(at), field.leaf_at(at)))
    both = [backend.to_host(a) for a in field.sample_with_gradient(at)]
    assert [a.tobytes() for a in both] == [value.tobytes(), slope.tobytes()]
    assert (value.dtype, slope.dtype) == (np.float64, np.float64)
    assert (value.shape, slope.shape, leaf.shape) == (points.shape[:1], points.shape, points.shape[:1])
    return value, slope, leaf


def within(rng: np.random.Generator, field: Field, leaf: Numbers, low: float = 0.0, high: float = 1.0) -> Numbers:
    """Random points of the given leaves, by default anywhere in them."""
    edge = field.domain.length * 0.5 ** field.leaf_level[leaf].astype(float)
    start = field.domain.origin + field.domain.length * oracle.lattice(field.leaf_key[leaf]) / 2.0**oracle.LATTICE_BITS
    return np.asarray(start + edge[:, None] * rng.uniform(low, high, (len(leaf), 3)))


def check(backend: Backend, field: Field, points: Numbers) -> None:
    value, slope, leaf = evaluate(backend, field, points)
    trilinear = oracle.Trilinear(field)
    expected_value, expected_slope = trilinear(points)
    # Float64: a few dozen roundings of the largest corner and of the distance to the domain.
    largest = float(np.abs(field.distance).max())
    unit = np.abs((points - field.domain.origin) / field.domain.length).max(axis=1)
    assert np.all(np.abs(value - expected_value) <= 1e-14 * (largest + unit * field.domain.length))
    edge = field.domain.length * 0.5 ** field.leaf_level[leaf].astype(float)
    assert np.all(np.abs(slope - expected_slope) <= (1e-14 * largest / edge + 1e-14)[:, None])


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    splits=st.sampled_from([0, 1, 2, 10, 60]),
    length=st.sampled_from([1.0, 1e-9, 1e9, 0.37]),
    offset=st.sampled_from([0.0, -0.5, 1e3]),
    deep=st.booleans(),
)
def test_values_and_gradients(
    backend: Backend, seed: int, splits: int, length: float, offset: float, deep: bool
) -> None:
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits, offset * length * rng.random(3), length, deep)
    inside = field.domain.origin + length * rng.random((60, 3))
    spread = within(rng, field, rng.integers(0, len(field.leaf_key), 60), 0.01, 0.99)
    outside = field.domain.origin + length * rng.uniform(-3, 4, (60, 3))
    check(backend, field, np.concatenate((inside, spread, outside)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), splits=st.sampled_from([0, 3, 40]), deep=st.booleans())
def test_points_on_the_borders_of_leaves(backend: Backend, seed: int, splits: int, deep: bool) -> None:
    # Lattice points: corners of leaves, points on their edges and faces, and the sides of the domain. At a common face
    # the leaf further up has the point, also where the field is not continuous.
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits, deep=deep)
    corners = oracle.lattice(field.corner_key)[rng.integers(0, len(field.corner_key), 80)]
    corners[40:, rng.integers(0, 3)] = rng.integers(0, 2**oracle.LATTICE_BITS + 1, 40)
    points = corners / 2.0**oracle.LATTICE_BITS
    check(backend, field, points)
    _, _, leaf = evaluate(backend, field, points)
    assert np.array_equal(leaf, oracle.Trilinear(field).leaf(points))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), splits=st.sampled_from([0, 1, 8, 40]), inside=st.booleans())
def test_gradients_are_slopes(backend: Backend, seed: int, splits: int, inside: bool) -> None:
    rng = np.random.default_rng(seed)
    field = oracle.random_field(rng, splits, [5.0, -3.0, 0.25], 2.0)
    points = within(rng, field, rng.integers(0, len(field.leaf_key), 40), 0.1, 0.9)
    if not inside:
        # Out through one or two sides of the domain, away from its planes.
        out = rng.integers(0, 3, 40)
        points[np.arange(40), out] = field.domain.origin[out] + np.where(rng.random(40) < 0.5, -0.7, 3.1)
    value, slope, leaf = evaluate(backend, field, points)
    edge = field.domain.length * 0.5 ** field.leaf_level[leaf].astype(float)
    step = 1e-4 * edge
    for k in range(3):
        way = step[:, None] * np.eye(3)[k]
        up, _, leaf_up = evaluate(backend, field, points + way)
        down, _, leaf_down = evaluate(backend, field, points - way)
        # A point outside has the leaf at the domain's side, whose neighbour may be a step away.
        same = (leaf_up == leaf) & (leaf_down == leaf)
        assert same.mean() > 0.5
        assert same.all() or not inside
        # Along an axis a trilinear function is straight; the distance to the domain bends by step^2 / 6 at most.
        bound = 1e-13 * (np.abs(value) + np.abs(field.distance).max()) / step + 4 * step**2
        # The step itself is rounded, at coordinates of up to 16.
        bound += 16 * np.finfo(float).eps / step * np.abs(slope).max(axis=1)
        assert np.all(np.abs((up - down) / (2 * step) - slope[:, k])[same] <= bound[same])


def test_a_single_leaf_by_hand(backend: Backend) -> None:
    # Values x + 10 y + 100 z at the corners of a cube of edge 2 at (1, 1, 1).
    field = dataclasses.replace(oracle.random_field(np.random.default_rng(1), 0, 1.0, 2.0), info={})
    corners = oracle.lattice(field.corner_key) / 2.0**oracle.LATTICE_BITS
    field = dataclasses.replace(field, distance=(corners @ [1, 10, 100]).astype(np.float32))
    points = np.array([[1, 1, 1], [3, 1, 1], [1, 3, 1], [1, 1, 3], [2, 2, 2], [1.5, 2.5, 3], [6, 1, 5], [2, 2, 0.0]])
    value, slope, _ = evaluate(backend, field, points)
    assert value.tolist() == [0, 1, 10, 100, 55.5, 0.25 + 7.5 + 100, 1 + 100 + 13**0.5, 5.5 + 1]
    assert slope[:6].tolist() == [[0.5, 5, 50]] * 6
    assert np.allclose(slope[6:], [[3 / 13**0.5, 5, 2 / 13**0.5], [0.5, 5, -1]], rtol=1e-15)


def test_outside_the_value_is_an_upper_bound(backend: Backend) -> None:
    shape = shapes.star(np.random.default_rng(2), 1)
    field = sdfcli.build(shape, device=backend.name, depth=4, tolerance=0.01)
    way = np.random.default_rng(3).normal(size=(300, 3))
    points = way / np.linalg.norm(way, axis=1, keepdims=True) * np.geomspace(2, 1e4, 300)[:, None]
    value, _, _ = evaluate(backend, field, points)
    true = oracle.distance(points, shapes.triangles(shape))
    slack = 0.02 * field.info["mesh"]["diagonal"]
    assert np.all(value >= true - slack * np.maximum(1, true))
    assert np.all(value <= true + 2 * field.domain.length)


def test_cells_of_points() -> None:
    rng = np.random.default_rng(11)
    field = oracle.random_field(rng, 60, [1.0, -2.0, 3.0], 0.5)
    points = field.domain.origin + field.domain.length * rng.random((500, 3))
    trilinear = oracle.Trilinear(field)
    leaf = trilinear.leaf(points)
    low, edge = field.cell_at(points)
    assert np.array_equal(edge, 0.5 * trilinear.size[leaf] / 2.0**oracle.LATTICE_BITS)
    assert np.allclose(low, field.domain.origin + 0.5 * trilinear.low[leaf] / 2.0**oracle.LATTICE_BITS, atol=1e-15)
    assert ((low <= points) & (points < low + edge[:, None])).all()


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((4, 2)),
        np.zeros((2, 3, 2)),
        [],
        3.0,
        None,
        "points",
        [["a", "b", "c"]],
        [[1, 2], [3]],
        np.full((2, 3), np.nan),
        [[0, np.inf, 0]],
    ],
)
@pytest.mark.parametrize("question", ["sample", "gradient", "leaf_at"])
def test_unusable_points(points: Any, question: str) -> None:
    field = oracle.random_field(np.random.default_rng(4), 2)
    with pytest.raises(InputError, match="points"):
        getattr(field, question)(points)


def test_usable_points(backend: Backend) -> None:
    field = oracle.random_field(np.random.default_rng(5), 2)
    assert field.sample([[0, 0, 0], [1, 1, 1]]).shape == (2,)
    assert field.gradient(np.zeros((0, 3))).shape == (0, 3)
    points = np.random.default_rng(6).random((10, 6))
    expected = oracle.Trilinear(field)(points[:, ::2])[0]
    assert np.allclose(field.sample(points[:, ::2]), expected, rtol=0, atol=1e-13)
    single = points[:, :3].astype(np.float32)
    assert np.array_equal(field.sample(single), field.sample(single.astype(np.float64)))


@pytest.mark.parametrize("question", ["sample", "gradient", "leaf_at"])
def test_points_taken_in_chunks_on_the_device_of_a_build(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    built = sdfcli.build(shapes.icosphere(2), device=backend.name, depth=4, tolerance=0.02)
    points = np.random.default_rng(7).uniform(-1.5, 1.5, (50, 3))
    expected = getattr(dataclasses.replace(built), question)(points)  # by the CPU
    monkeypatch.setattr("sdfcli.field.device_field.CHUNK", 7)
    with built._at(backend):
        assert built._home is backend
        found = getattr(built, question)(points)
    assert built._home.name == "cpu"
    assert type(found) is np.ndarray
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
    assert np.array_equal(backend.to_host(getattr(built, question)(backend.from_host(points))), expected)


def test_the_hash_is_that_of_the_data() -> None:
    field = oracle.random_field(np.random.default_rng(7), 3)
    other = dataclasses.replace(field, info={"other": 1}, run={"device": "x"})
    assert other.content_sha256 == field.content_sha256
    zeros = dataclasses.replace(field, distance=np.zeros_like(field.distance))
    larger = oracle.random_field(np.random.default_rng(7), 4)
    different = [
        dataclasses.replace(field, distance=np.nextafter(field.distance, np.float32(9))),
        dataclasses.replace(field, distance=np.where(np.arange(len(field.distance)) == 9, 0, field.distance)),
        zeros,
        dataclasses.replace(zeros, step=0.5),
        dataclasses.replace(zeros, step=0.25),
        dataclasses.replace(zeros, step=0.25, parts=2),
        dataclasses.replace(larger, distance=np.zeros_like(larger.distance)),
        dataclasses.replace(field, domain=dataclasses.replace(field.domain, length=1.5)),
        dataclasses.replace(field, domain=dataclasses.replace(field.domain, origin=np.array([0, 0, 1e-9]))),
    ]
    assert len({field.content_sha256, *(f.content_sha256 for f in different)}) == 10
    for broken, words in (
        (dataclasses.replace(field, leaf_key=field.leaf_key + np.uint64(1)), "the leaves do not fill the domain"),
        (dataclasses.replace(field, corner_key=field.corner_key + np.uint64(1)), "corner"),
    ):
        with pytest.raises(InputError, match=words):
            _ = broken.content_sha256


def test_a_missing_corner_is_noticed(backend: Backend) -> None:
    field = oracle.random_field(np.random.default_rng(8), 3)
    for k in (0, 20, len(field.corner_key) - 1):
        torn = dataclasses.replace(
            field, corner_key=np.delete(field.corner_key, k), distance=np.delete(field.distance, k)
        )
        with pytest.raises(InputError, match="corner"):
            torn.sample(backend.from_host(np.zeros((1, 3))))


@pytest.mark.parametrize("away", [1e3, 1e160, 1e300])
def test_far_outside(backend: Backend, away: float) -> None:
    field = sdfcli.build(shapes.icosphere(2), device=backend.name, depth=4, tolerance=0.02)
    for axis in np.eye(3):
        point = np.array([axis * away])
        assert np.allclose(field.sample(point), away, rtol=1e-2)
        assert np.allclose(field.gradient(point) @ axis, 1)


@pytest.mark.parametrize(
    "copied",
    [
        lambda field, path: field,
        lambda field, path: copy.copy(field),
        lambda field, path: copy.deepcopy(field),
        lambda field, path: pickle.loads(pickle.dumps(field)),
        lambda field, path: sdfcli.load(field.save(path)),
        lambda field, path: dataclasses.replace(field, info={}),
    ],
)
def test_arrays_are_read_only(copied: Callable[[Field, Path], Field], tmp_path: Path) -> None:
    field = sdfcli.build(shapes.torus(20, 10), device="cpu", tolerance=1e-2, nearest=True)
    other = copied(field, tmp_path / "copied.h5")
    assert other.content_sha256 == field.content_sha256
    for name in ("leaf_key", "leaf_level", "corner_key", "distance", "nearest"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(other, name)[0] = 0
    points = np.random.default_rng(1).uniform(-1, 1, (50, 3))
    twice = dataclasses.replace(other, distance=2 * other.distance)
    assert np.allclose(twice.sample(points), 2 * other.sample(points))
    assert np.array_equal(sdfcli.load(twice.save(tmp_path / "twice.h5")).distance, 2 * field.distance)


def test_arrays_that_are_handed_in_stay_as_they_are() -> None:
    field = oracle.random_field(np.random.default_rng(7), 3)
    distance = field.distance.copy()
    dataclasses.replace(field, distance=distance)
    distance[0] = 1


def test_arrays_on_a_device_go_with_the_field() -> None:
    """At once: a circle of references would keep the memory of a GPU until Python looks for such circles."""
    built = sdfcli.build(shapes.icosphere(1), device="cpu", depth=3, tolerance=0.1)
    built.sample(np.zeros((1, 3)))
    held = weakref.ref(built._on_device(built._home))
    gc.disable()
    try:
        del built
        assert held() is None
    finally:
        gc.enable()


def test_another_field_has_its_own_content(tmp_path: Path) -> None:
    """What is known of one field's distances is not told of others'."""
    built = sdfcli.build(shapes.icosphere(1), device="cpu", depth=3, tolerance=0.1)
    for field in (built, sdfcli.load(built.save(tmp_path / "field.h5"))):
        before = field.content_sha256
        moved = dataclasses.replace(field, distance=field.distance + 1)
        assert moved.content_sha256 != before
        assert np.array_equal(sdfcli.load(moved.save(tmp_path / "moved.h5", True)).distance, built.distance + 1)
        assert copy.copy(field).content_sha256 == before
        halved = dataclasses.replace(field, domain=dataclasses.replace(field.domain, length=field.domain.length / 2))
        assert halved.content_sha256 not in (before, moved.content_sha256)


def test_what_comes_later_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another thread wants it meanwhile."""
    made, pool, asked, second = list[bool](), ThreadPoolExecutor(1), list[Future[Any]](), Event()

    class Seen:
        """A lock that tells when a second thread waits for it."""

        def __init__(self) -> None:
            self._lock = Lock()

        def __enter__(self) -> None:
            if self._lock.locked():
                second.set()
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    def make() -> dict[str, Any]:
        made.append(True)
        if len(made) == 1:
            asked.append(pool.submit(lambda: field.info))
            second.wait()
        second.set()
        return {}

    monkeypatch.setattr("sdfcli.runtime.schedule.Lock", Seen)
    field = dataclasses.replace(sdfcli.build(shapes.cube(), device="cpu", depth=2, tolerance=0.1))
    field._defer(info=Deferred(make))
    found = field.info
    assert asked[0].result() is found
    assert len(made) == 1
    pool.shutdown()
