"""`nearest_neighbours` and `neighbours_within` against a brute force in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdfcli
from sdfcli.errors import InputError, SdfError, UsageError
from sdfcli.query import neighbours

Numbers = np.typing.NDArray[Any]
DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def brute_force(data: Numbers, queries: Numbers, k: int) -> tuple[Numbers, Numbers]:
    """Axes added in order, ties by number."""
    off = np.zeros((len(queries), len(data)))
    for axis in range(data.shape[1]):
        off += (queries[:, None, axis] - data[None, :, axis]) ** 2
    distance, number = np.full((len(queries), k), np.inf), np.full((len(queries), k), -1)
    best = np.argsort(off, axis=1, kind="stable")[:, :k]
    number[:, : best.shape[1]] = best
    distance[:, : best.shape[1]] = np.sqrt(np.take_along_axis(off, best, axis=1))
    return distance, number


def cloud(rng: np.random.Generator, count: int, dimension: int, kind: str) -> Numbers:
    found = rng.normal(size=(count, dimension))
    if kind == "lattice":
        found = np.round(2 * found)
    if kind == "flat":
        found[:, rng.integers(dimension)] = 7
    if kind == "needle":
        found *= 10.0 ** -rng.integers(0, 12, dimension)
    if kind == "clusters":
        found = np.round(found) + 1e-9 * rng.normal(size=found.shape)
    if kind == "far":
        found += 1e6
    return np.asarray(found)


KINDS = ("random", "lattice", "flat", "needle", "clusters", "far")


@DEVICES
@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 400),
    m=st.integers(0, 60),
    k=st.integers(1, 32),
    dimension=st.integers(3, 16),
    kind=st.sampled_from(KINDS),
    scale=st.integers(-900, 900),
    spread=st.sampled_from([1, 3, 1e6]),
)
def test_exact_neighbours(
    device: str, seed: int, n: int, m: int, k: int, dimension: int, kind: str, scale: int, spread: float
) -> None:
    """The same numbers, and the same distances to the last bit, at any scale that a power of two makes."""
    rng = np.random.default_rng(seed)
    data = cloud(rng, n, dimension, kind)
    queries = cloud(rng, m, dimension, kind) * spread
    if n:
        queries[::4] = data[rng.integers(0, n, len(queries[::4]))]
    expected = brute_force(data, queries, k)
    found = sdfcli.nearest_neighbours(
        np.ldexp(data, scale), np.ldexp(queries, scale), k, approximate=False, device=device
    )
    assert found[0].dtype == np.float64
    assert found[1].dtype == np.int64
    assert np.array_equal(found[1], expected[1])
    assert np.array_equal(found[0], np.ldexp(expected[0], scale))


@DEVICES
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 400),
    k=st.integers(1, 32),
    dimension=st.integers(3, 16),
    kind=st.sampled_from(KINDS),
    scale=st.sampled_from([2.0**-900, 2.0**-100, 1, 2.0**100, 2.0**900]),
)
def test_approximate_neighbours(
    device: str, seed: int, n: int, k: int, dimension: int, kind: str, scale: float
) -> None:
    """No nearer than the exact ones, each once, in order, with its own distance; and all of few data."""
    rng = np.random.default_rng(seed)
    data = cloud(rng, n, dimension, kind)
    queries = cloud(rng, 50, dimension, kind)
    exact, _ = brute_force(data, queries, k)
    distance, number = sdfcli.nearest_neighbours(scale * data, scale * queries, k, device=device)
    found = number >= 0
    assert np.array_equal(found.sum(axis=1), np.full(50, min(n, k)))
    assert np.isinf(distance[~found]).all()
    for numbers, far, asked in zip(number, distance, queries, strict=True):
        own, near = numbers[numbers >= 0], far[numbers >= 0]
        assert len(set(own)) == len(own)
        assert np.allclose(near, scale * np.linalg.norm(data[own] - asked, axis=1), rtol=1e-12, atol=0)
        assert (np.diff(near) >= 0).all()
    assert (distance[found] >= scale * exact[found] * (1 - 1e-12)).all()
    if n <= 2 * k:
        assert np.allclose(distance[found], scale * exact[found], rtol=1e-6)


Rows = list[tuple[list[int], list[float]]]


def rows_of(found: tuple[Numbers, Numbers, Numbers], m: int) -> Rows:
    """Each query's numbers and distances."""
    starts, numbers, distances = found
    assert (starts.dtype, numbers.dtype, distances.dtype) == (np.int64, np.int64, np.float64)
    assert (len(starts), starts[0], starts[-1]) == (m + 1, 0, len(numbers))
    assert len(numbers) == len(distances)
    return [(numbers[a:b].tolist(), distances[a:b].tolist()) for a, b in itertools.pairwise(starts)]


@DEVICES
@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 400),
    m=st.integers(0, 60),
    share=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    dimension=st.integers(3, 16),
    kind=st.sampled_from(KINDS),
    scale=st.integers(-900, 900),
)
def test_all_within_a_radius(
    device: str, seed: int, n: int, m: int, share: float, dimension: int, kind: str, scale: int
) -> None:
    """The radius is one of the distances: those equal to it belong to the result, to the last bit."""
    rng = np.random.default_rng(seed)
    data, queries = cloud(rng, n, dimension, kind), cloud(rng, m, dimension, kind)
    if n:
        queries[::4] = data[rng.integers(0, n, len(queries[::4]))]
    near, number = brute_force(data, queries, n)
    radius = float(np.quantile(near, share, method="nearest")) if near.size else 1.0
    found = sdfcli.neighbours_within(
        np.ldexp(data, scale), np.ldexp(queries, scale), float(np.ldexp(radius, scale)), device=device
    )
    assert rows_of(found, m) == [
        (numbers[own <= radius].tolist(), np.ldexp(own[own <= radius], scale).tolist())
        for numbers, own in zip(number, near, strict=True)
    ]


@DEVICES
@pytest.mark.parametrize("dimension", [3, 6, 11])
def test_some_within_a_radius(device: str, dimension: int) -> None:
    """The candidates of the approximate search, those within the radius: near ones all at once, or 32 at most."""
    rng = np.random.default_rng(dimension)
    data, queries = rng.normal(size=(3000, dimension)), rng.normal(size=(200, dimension))
    nearest, number = sdfcli.nearest_neighbours(data, queries, 32, device=device)
    for radius in (0.0, float(np.median(nearest[:, 5])), 100.0):
        found = rows_of(sdfcli.neighbours_within(data, queries, radius, True, device=device), 200)
        exact = rows_of(sdfcli.neighbours_within(data, queries, radius, device=device), 200)
        assert found == [
            (own[near <= radius].tolist(), near[near <= radius].tolist())
            for own, near in zip(number, nearest, strict=True)
        ]
        assert all(set(some[0]) <= set(all_[0]) for some, all_ in zip(found, exact, strict=True))
    assert {len(some[0]) for some in found} == {32}
    few = sdfcli.neighbours_within(data, queries, 1.0, True, shifts=1, device=device)[1]
    more = sdfcli.neighbours_within(data, queries, 1.0, True, device=device)[1]
    assert dimension > 6 or len(few) < len(more)


@DEVICES
def test_radii_in_batches(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    data, queries = rng.random((2000, 6)), rng.random((300, 6))
    whole = sdfcli.neighbours_within(data, queries, 0.4, device=device, threads=1)
    monkeypatch.setattr(neighbours, "CHUNK", 64)
    parts = sdfcli.neighbours_within(data, queries, 0.4, device=device, threads=2)
    assert [a.tobytes() for a in whole] == [b.tobytes() for b in parts]
    assert len(whole[1]) > 300


@DEVICES
@pytest.mark.parametrize("dimension", [8, 9, 12, 13, 16])
def test_dimensions_with_equal_results_on_each_axis(device: str, dimension: int) -> None:
    """Axes swapped, and axes added that are all 0: the exact result is the same."""
    rng = np.random.default_rng(dimension)
    data, queries = np.round(8 * rng.random((500, dimension))), np.round(8 * rng.random((60, dimension)))
    known = sdfcli.nearest_neighbours(data, queries, 4, approximate=False, device=device)
    axes = rng.permutation(dimension)
    other = sdfcli.nearest_neighbours(data[:, axes], queries[:, axes], 4, approximate=False, device=device)
    assert all(map(np.array_equal, known, other))  # sums of whole numbers are exact in any order


@DEVICES
@pytest.mark.parametrize(("dimension", "least"), [(3, 0.95), (4, 0.85), (5, 0.8), (6, 0.65), (8, 0.6), (16, 0.35)])
def test_most_neighbours_of_a_cloud_are_found(device: str, dimension: int, least: float) -> None:
    """The share falls with the dimension, and rises with the number of curves."""
    rng = np.random.default_rng(dimension)
    data, queries = rng.normal(size=(20_000, dimension)), rng.normal(size=(1000, dimension))
    _, exact = brute_force(data, queries, 8)

    def recall(shifts: int | None) -> float:
        _, found = sdfcli.nearest_neighbours(data, queries, 8, shifts=shifts, device=device)
        return float((found[:, :, None] == exact[:, None]).any(axis=2).mean())

    assert recall(1) < recall(None) < recall(32)
    assert recall(None) > least
    assert recall(None) == recall(dimension + 1 + dimension % 2)


@DEVICES
@pytest.mark.parametrize("approximate", [True, False])
def test_an_answer_depends_on_its_query_alone(device: str, approximate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    data, queries = rng.random((3000, 6)), rng.random((500, 6))
    whole = sdfcli.nearest_neighbours(data, queries, 5, approximate, device=device, threads=1)
    monkeypatch.setattr(neighbours, "CHUNK", 64)
    order = rng.permutation(500)
    others = np.concatenate([queries[order], 1e9 * rng.normal(size=(100, 6))])
    parts = sdfcli.nearest_neighbours(data, others, 5, approximate, device=device, threads=2)
    for a, b in zip(whole, parts, strict=True):
        assert a[order].tobytes() == b[:500].tobytes()


@pytest.mark.parametrize(
    ("data", "queries", "message"),
    [
        (np.zeros((4, 2)), np.zeros((1, 2)), r"data must be \(n, 3\) to \(n, 16\), not \(4, 2\)"),
        (np.zeros((4, 17)), np.zeros((1, 17)), "not (4, 17)"),
        (np.zeros(3), np.zeros((1, 3)), "not (3,)"),
        (np.zeros((4, 3)), np.zeros((1, 4)), "queries have 4 columns, the data have 3"),
        (np.zeros((4, 3)), [[0, 0, 1], [0, np.nan, 0]], "queries: row 1 is not finite"),
        ([[0, 0, np.inf]], np.zeros((1, 3)), "data: row 0 is not finite"),
        ([["a", "b", "c"]], np.zeros((1, 3)), "data must be numbers"),
        (np.ma.masked_equal(np.eye(3), 1), np.zeros((1, 3)), "data: masked values"),
        ([[1j, 0, 0]], np.zeros((1, 3)), "data must be numbers"),
        (np.full((1, 3), 1j), np.zeros((1, 3)), "data must be real numbers"),
        ([[10**400, 0, 0]], np.zeros((1, 3)), "data must be numbers"),
    ],
)
def test_wrong_arrays(data: Any, queries: Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        sdfcli.nearest_neighbours(data, queries, 1, device="cpu")
    assert message.replace("\\", "") in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k 0: use 1 to 32"),
        ({"k": 33}, "k 33: use 1 to 32"),
        ({"k": 2.5}, "k 2.5: use 1 to 32"),
        ({"k": "2"}, "k 2: use 1 to 32"),
        ({"k": True}, "k True: use 1 to 32"),
        ({"k": 1, "shifts": 2.5}, "shifts 2.5: use 1 to 64"),
        ({"k": 1, "shifts": 0}, "shifts 0: use 1 to 64"),
        ({"k": 1, "shifts": 3, "approximate": False}, "shifts: exact neighbours"),
        ({"k": 1, "device": "abacus"}, "abacus"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SdfError) as raised:
        sdfcli.nearest_neighbours(np.zeros((4, 3)), np.zeros((1, 3)), **{"device": "cpu", **options})
    assert isinstance(raised.value, UsageError)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("radius", "options", "message"),
    [
        (-1.0, {}, "radius -1.0: use 0 or a positive number"),
        (np.inf, {}, "radius inf"),
        (np.nan, {}, "radius nan"),
        (1.0, {"shifts": 3}, "shifts: exact neighbours"),
        (1.0, {"shifts": 0, "approximate": True}, "shifts 0: use 1 to 64"),
    ],
)
def test_wrong_radii(radius: float, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        sdfcli.neighbours_within(np.zeros((4, 3)), np.zeros((1, 3)), radius, **{"device": "cpu", **options})
    assert message in str(raised.value)


@pytest.mark.filterwarnings("error")
def test_radii_beyond_float64() -> None:
    """A radius that overflows in the data's units finds all; distances beyond float64 are not within it."""
    data = np.array([[0.0, 0, 0], [1e-300, 0, 0], [2e-300, 0, 0]])
    assert rows_of(sdfcli.neighbours_within(data, data[:1], 1e300, device="cpu"), 1)[0][0] == [0, 1, 2]
    assert rows_of(sdfcli.neighbours_within(data, data[:1], 1e-300, device="cpu"), 1)[0][0] == [0, 1]
    far = np.array([[1e308, 1e308, 1e308], [0, 0, 0]])
    assert rows_of(sdfcli.neighbours_within(far, [[-1e308] * 3], 1.7e308, device="cpu"), 1)[0][0] == []


@pytest.mark.parametrize("approximate", [True, False])
@pytest.mark.filterwarnings("error")
def test_distances_beyond_float64_are_infinite(approximate: bool) -> None:
    data = np.array([[0.0, 0, 0], [1e308, 1e308, 1e308]])
    distance, number = sdfcli.nearest_neighbours(data, [[-1e308] * 3], 2, approximate, device="cpu")
    assert number.tolist() == [[0, 1]]
    assert np.isfinite(distance[0, 0])
    assert np.isinf(distance[0, 1])


@pytest.mark.gpu
def test_cupy_in_cupy_out() -> None:
    import cupy

    rng = np.random.default_rng(2)
    data, queries = rng.random((500, 4)).astype(np.float32), rng.random((80, 4)).astype(np.float32)
    for approximate in (True, False):
        expected = sdfcli.nearest_neighbours(data, queries, 3, approximate, device="cpu")
        for rows in (data, cupy.asarray(data)):
            found = sdfcli.nearest_neighbours(rows, cupy.asarray(queries), 3, approximate)
            assert all(isinstance(array, cupy.ndarray) for array in found)
            assert [array.get().tobytes() for array in found] == [array.tobytes() for array in expected]
        expected = sdfcli.neighbours_within(data, queries, 0.3, approximate, device="cpu")
        found = sdfcli.neighbours_within(data, cupy.asarray(queries), 0.3, approximate)
        assert all(isinstance(array, cupy.ndarray) for array in found)
        assert [array.get().tobytes() for array in found] == [array.tobytes() for array in expected]
