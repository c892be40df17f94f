"""The shifted sort against its steps in plain Python and NumPy, and the tree of vectors against a brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.errors import UsageError
from sdfcli.spatial.shifted_sort import LANES, SIZES, ShiftedSort, padded
from sdfcli.spatial.vector_tree import VectorTree

backend = backends.backend
warps = backends.warps

NONE = 0xFFFFFFFF
Numbers = np.typing.NDArray[Any]


def cells(vectors: Numbers, shift: int) -> Numbers:
    """Coordinates of the unit cube in 2^20 cells, those outside moved into it, then shifted."""
    return np.clip(np.floor(vectors.astype(np.float64) * 2**20), 0, 2**20 - 1).astype(np.int64) + shift


def code(cell: Numbers, bits: int) -> int:
    """The highest bits of 21, axis by axis, bit j of axis k at d j + k."""
    kept = [int(c) >> (21 - bits) for c in cell]
    return sum((c >> j & 1) << (len(kept) * j + k) for k, c in enumerate(kept) for j in range(bits))


def squares(data: Numbers, query: Numbers) -> Numbers:
    """Squared distances (n,), axes added in order, in the arrays' precision."""
    total = np.zeros(len(data), data.dtype)
    for k in range(data.shape[1]):
        total = total + (data[:, k] - query[k]) * (data[:, k] - query[k])
    return total


def candidates(data: Numbers, queries: Numbers, k: int, shifts: int, bits: int) -> tuple[Numbers, Numbers]:
    """The shifted sort, step by step."""
    distance_sq, number = np.full((len(queries), k), np.inf, np.float32), np.full((len(queries), k), NONE, np.uint32)
    found: list[set[int]] = [set() for _ in queries]
    for j in range(shifts):
        shift = j * 2**20 // (shifts if shifts % 2 else shifts + 1)
        codes = [code(cell, bits) for cell in cells(data, shift)]
        order = sorted(range(len(data)), key=lambda i: (codes[i], i))
        for i, cell in enumerate(cells(queries, shift)):
            own = code(cell, bits)
            place = sum(each <= own for each in codes)
            first = max(0, min(place - k, len(data) - 2 * k))
            found[i].update(order[first : first + 2 * k])
    for i, numbers in enumerate(found):
        chosen = np.array(sorted(numbers), int)
        near = squares(data[chosen], queries[i])
        best = np.lexsort((chosen, near))[:k]
        distance_sq[i, : len(best)], number[i, : len(best)] = near[best], chosen[best]
    return distance_sq, number


def brute_force(data: Numbers, queries: Numbers, k: int) -> tuple[Numbers, Numbers]:
    """The k nearest by distance, then number, in float64."""
    distance, number = np.full((len(queries), k), np.inf), np.full((len(queries), k), NONE, np.uint32)
    for i, query in enumerate(queries):
        near = np.sqrt(squares(data, query))
        best = np.lexsort((np.arange(len(data)), squares(data, query)))[:k]
        distance[i, : len(best)], number[i, : len(best)] = near[best], best
    return distance, number


def vectors(rng: np.random.Generator, count: int, dimension: int, kind: str) -> Numbers:
    """Vectors of the unit cube, in float32."""
    found = rng.random((count, dimension))
    if kind == "equal":
        found[:] = found[: max(1, count // 7)][rng.integers(0, max(1, count // 7), count)] if count else 0
    if kind == "flat":
        found[:, rng.integers(dimension)] = 0.25
    if kind == "lattice":
        found = rng.integers(0, 4, (count, dimension)) / 4
    if kind == "outside":
        found = 3 * found - 1
    if kind == "close":
        found = 0.5 + rng.integers(-3, 4, (count, dimension)) * 2.0**-20
    return found.astype(np.float32)


KINDS = ("random", "equal", "flat", "lattice", "outside", "close")
COUNTS = st.sampled_from([(0, 0), (0, 1), (0, 2), (1, -1), (1, 0), (1, 3), (40, 0)])
"""Numbers of vectors: (a, b) for a k + b."""

Count = tuple[int, int]


def count_of(count: Count, k: int) -> int:
    """At most 320, as the steps in Python are slow."""
    return min(count[0] * k + count[1], 320)


WORDS = {3: 1, 4: 2, 5: 2, 6: 2, 8: 3, 12: 4, 16: 6}
"""64-bit words for 21 bits an axis and a tag."""


@pytest.mark.parametrize("dimension", SIZES)
def test_a_bit_of_an_axis_lands_where_the_paper_says(backend: Backend, dimension: int) -> None:
    axes, bits = np.divmod(np.arange(dimension * 20), 20)
    alone = np.zeros((len(axes), dimension), np.float32)
    alone[np.arange(len(axes)), axes] = 2.0 ** (bits - 20)
    codes = np.empty((WORDS[dimension], len(axes)), np.uint64)
    on_device = backend.from_host(codes)
    values = {"dimension": dimension, "words": len(codes), "bits": 21, "shift": 0, "tag": 0}
    backend.run("sdf_shift_codes", len(axes), vector=backend.from_host(alone), code=on_device, **values)
    found = [int("".join(f"{word:064b}" for word in column), 2) for column in backend.to_host(on_device).T.tolist()]
    assert found == [2 ** (dimension * int(j) + int(k) + 1) for k, j in zip(axes, bits, strict=True)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dimension=st.sampled_from(SIZES),
    words=st.integers(1, 6),
    shift=st.integers(0, 2**20 - 1),
    tag=st.sampled_from([0, 1]),
)
def test_codes(cpu: CpuBackend, seed: int, dimension: int, words: int, shift: int, tag: int) -> None:
    words = min(words, WORDS[dimension])
    given = vectors(np.random.default_rng(seed), 50, dimension, "outside")
    given[:3] = [[np.inf] * dimension, [-np.inf] * dimension, [1] * dimension]
    codes, bits = np.empty((words, 50), np.uint64), min(21, (64 * words - 1) // dimension)
    values = {"dimension": dimension, "words": words, "bits": bits, "shift": shift, "tag": tag}
    cpu.run("sdf_shift_codes", 50, vector=given, code=codes, **values)
    given[:2] = [[2] * dimension, [-1] * dimension]
    expected = [code(cell, bits) << 1 | tag for cell in cells(given, shift)]
    assert [sum(int(word) << 64 * (words - 1 - w) for w, word in enumerate(column)) for column in codes.T] == expected


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from([1, 2, 3, 7, 8, 9, 16, 31, 32]),
    n=COUNTS,
    m=COUNTS,
    dimension=st.sampled_from(SIZES),
    shifts=st.integers(1, 7),
    words=st.integers(1, 6),
    together=st.booleans(),
    bits=st.sampled_from([None, 10, 3]),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
)
def test_candidates_are_those_of_the_steps_in_numpy(
    backend: Backend,
    seed: int,
    k: int,
    n: Count,
    m: Count,
    dimension: int,
    shifts: int,
    words: int,
    together: bool,
    bits: int | None,
    kinds: tuple[str, str],
) -> None:
    rng = np.random.default_rng(seed)
    data = vectors(rng, count_of(n, k), dimension, kinds[0])
    queries = vectors(rng, count_of(m, k), dimension, kinds[1])
    queries[::3] = data[rng.integers(0, len(data), len(queries[::3]))] if len(data) else 0.5
    words = min(words, WORDS[dimension])
    bits = bits and min(bits, (64 * words - 1) // dimension)
    sort = ShiftedSort(backend, backend.from_host(data), shifts, words, together, bits)
    assert sort.bits == bits or (bits is None and sort.bits == min(21, (64 * words - 1) // dimension))
    expected = candidates(data, queries, k, shifts, sort.bits)
    for joint in (False, True):
        found = sort.candidates(backend.from_host(queries), k, joint=joint)
        for ours, theirs in zip(found, expected, strict=True):
            assert backend.to_host(ours).tobytes() == theirs.tobytes()


@pytest.mark.parametrize("dimension", range(3, 17))
def test_padding_changes_nothing(backend: Backend, dimension: int) -> None:
    """Candidates of vectors with zeros at the end are those of the steps without."""
    rng = np.random.default_rng(dimension)
    data, queries = vectors(rng, 150, dimension, "random"), vectors(rng, 40, dimension, "outside")
    longer = [padded(backend, backend.from_host(each)) for each in (data, queries)]
    assert longer[0].shape[1] == min(size for size in SIZES if size >= dimension)
    sort = ShiftedSort(backend, longer[0], 3, WORDS[longer[0].shape[1]])
    for ours, theirs in zip(sort.candidates(longer[1], 4), candidates(data, queries, 4, 3, 21), strict=True):
        assert backend.to_host(ours).tobytes() == theirs.tobytes()


@pytest.mark.parametrize("words", [1, 2])
@pytest.mark.parametrize("dimension", SIZES)
def test_a_query_comes_after_the_data_of_its_code(backend: Backend, dimension: int, words: int) -> None:
    """Of many equal data, the nearest of k = 1 is the last one."""
    rng = np.random.default_rng(dimension)
    equal, end = vectors(rng, 40, dimension, "equal"), np.ones((1, dimension), np.float32)
    data = np.concatenate([equal, end])  # at the curve's end places have other neighbours
    last = [int(np.flatnonzero((equal == own).all(axis=1))[-1]) for own in equal]
    sort = ShiftedSort(backend, backend.from_host(data), 1, min(words, WORDS[dimension]))
    for joint in (False, True):
        _, nearest = sort.candidates(backend.from_host(equal), 1, joint=joint)
        assert backend.to_host(nearest)[:, 0].tolist() == last


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from(LANES),
    n=COUNTS,
    m=st.sampled_from([(0, 0), (0, 1), (0, 2), (1, 3)]),
    dimension=st.sampled_from(SIZES),
    kind=st.sampled_from(KINDS),
    block=st.sampled_from([32, 128, 512, 1024]),
)
def test_lanes_find_what_a_thread_finds(
    warps: Backend, cpu: CpuBackend, seed: int, k: int, n: Count, m: Count, dimension: int, kind: str, block: int
) -> None:
    rng = np.random.default_rng(seed)
    data, queries = (vectors(rng, count_of(count, k), dimension, kind) for count in (n, m))
    found = []
    for device, lanes in ((cpu, False), (warps, True)):
        sort = ShiftedSort(device, device.from_host(data), shifts=3)
        with device.blocks_of(block):
            found.append([device.to_host(x) for x in sort.candidates(device.from_host(queries), k, lanes=lanes)])
    assert [x.tobytes() for x in found[0]] == [x.tobytes() for x in found[1]]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.sampled_from([1, 2, 8, 9, 32]),
    n=COUNTS,
    dimension=st.sampled_from(SIZES),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    known=st.integers(0, 3),
    whole=st.booleans(),
)
def test_a_walk_finds_all_neighbours_from_any_start(
    backend: Backend, seed: int, k: int, n: Count, dimension: int, kinds: tuple[str, str], known: int, whole: bool
) -> None:
    """By a tree, and by a single leaf, to the last bit."""
    rng = np.random.default_rng(seed)
    data = vectors(rng, count_of(n, k), dimension, kinds[0]).astype(np.float64)
    queries = vectors(rng, 40, dimension, kinds[1]).astype(np.float64)
    start = np.full((40, known), NONE, np.uint32)
    if len(data):
        many = rng.integers(0, known + 1, (40, 1))
        start = np.where(np.arange(known) < many, rng.integers(0, len(data), (40, known)), NONE).astype(np.uint32)
    order = rng.permutation(len(data)).astype(np.uint32)
    leaf = {"leaf": max(1, len(data))} if whole else {}
    tree = VectorTree(backend, backend.from_host(data), backend.from_host(order), **leaf)
    found = tree.nearest(backend.from_host(queries), k, backend.from_host(start))
    for ours, theirs in zip(found, brute_force(data, queries, k), strict=True):
        assert backend.to_host(ours).tobytes() == theirs.tobytes()


def test_a_large_tree(backend: Backend) -> None:
    """Of five levels, whose last nodes have few children."""
    rng = np.random.default_rng(3)
    data, queries = vectors(rng, 8**4 + 9, 3, "random"), vectors(rng, 300, 3, "outside")
    sort = ShiftedSort(backend, backend.from_host(data))
    tree = VectorTree(backend, backend.from_host(data, np.float64), sort.curve(0)[1])
    _, start = sort.candidates(backend.from_host(queries), 5, 1)
    found = tree.nearest(backend.from_host(queries, np.float64), 5, start)
    for ours, theirs in zip(found, brute_force(data.astype(float), queries.astype(float), 5), strict=True):
        assert backend.to_host(ours).tobytes() == theirs.tobytes()


def test_the_nearest_of_more_curves_are_no_farther(backend: Backend) -> None:
    rng = np.random.default_rng(5)
    data, queries = (backend.from_host(vectors(rng, 3000, 6, "random")) for _ in range(2))
    sort = ShiftedSort(backend, data)
    farther = [backend.to_host(sort.candidates(queries, 4, shifts)[0]) for shifts in (1, 3, 7)]
    assert (farther[0] >= farther[1]).all()
    assert (farther[1] >= farther[2]).all()
    assert (farther[0] > farther[2]).any()


@pytest.mark.parametrize("shifts", [0, -1, 65])
def test_an_impossible_number_of_shifts(cpu: CpuBackend, shifts: int) -> None:
    with pytest.raises(UsageError, match=f"shifts {shifts}: use 1 to 64"):
        ShiftedSort(cpu, np.zeros((1, 3), np.float32), shifts)
