"""The benchmark of the shifted sort: every case once, its judgement beside an independent one, and exact peers."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import backends
import oracle
import shapes
from sdfcli.apps.bench import knn
from sdfcli.apps.bench.box_distance import intervals, slots_around
from sdfcli.apps.bench.box_encodings import FORMS, Form
from sdfcli.apps.bench.knn import EQUAL, PLACES, SHIFTS, SORTS, TABLES, TOP, Comparison
from sdfcli.apps.bench.knn_seeds import SEEDS, compare_seeds, finding
from sdfcli.apps.bench.points import make_points
from sdfcli.apps.bench.recall import Quality, recall
from sdfcli.apps.bench.seeds import THESIS, Seeded
from sdfcli.backend import Backend
from sdfcli.errors import UsageError
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.scene import Scene
from sdfcli.spatial.shifted_sort import ShiftedSort

backend = backends.backend

Floats = npt.NDArray[np.float64]

COUNT = 300
WITHIN = ("within_5", "within_10", "within_50", "within_100")


@pytest.fixture
def soup() -> Mesh:
    """Triangles without common corners: no two of them are equally near."""
    return make_mesh(*shapes.soup(np.random.default_rng(5), 400, 0.2))


def vectors(mesh: Mesh, name: str) -> Floats:
    """The data of a form, in the mesh's order."""
    corner = mesh.unit_triangles.astype(np.float32).astype(np.float64).reshape(-1, 3, 3)
    low, high = corner.min(axis=1), corner.max(axis=1)
    half = np.linalg.norm(high - low, axis=1, keepdims=True) / 2
    return {
        "minmax": np.hstack([low, high]),
        "size": np.hstack([low, high - low]),
        "ball": np.hstack([(low + high) / 2, half]),
        "vertices": mesh.domain.to_unit(mesh.vertices).astype(np.float32).astype(np.float64),
    }[name]


def lifted(points: Floats, name: str) -> Floats:
    """Points as vectors of a form."""
    zeros = np.zeros_like(points)
    beside = {"minmax": points, "size": zeros, "ball": zeros[:, :1], "vertices": zeros[:, :0]}[name]
    return np.hstack([points, beside])


def distances(points: Floats, data: Floats) -> Floats:
    return np.asarray(np.linalg.norm(points[:, None] - data[None], axis=2))


@pytest.mark.parametrize("name", FORMS)
def test_the_nearest_by_three_ways(backend: Backend, soup: Mesh, name: str) -> None:
    """A walk, a brute force, and one by NumPy."""
    form = Form(Scene.of(soup, "none", backend), name)
    points = make_points(backend, soup, "rand", COUNT)
    queries = form.queries(points)
    walked, forced = ([backend.to_host(part) for part in found(queries, 5)] for found in (form.exact, form.by_force))
    for one, other in zip(walked, forced, strict=True):
        assert np.array_equal(one, other)
    at = backend.to_host(points).astype(np.float64)
    known = np.sort(distances(lifted(at, name), vectors(soup, name)))[:, :5]
    assert walked[0] == pytest.approx(known, rel=1e-5)  # vectors are rounded to float32


@pytest.mark.parametrize("name", FORMS)
def test_the_nearest_by_scipy(backend: Backend, soup: Mesh, name: str) -> None:
    pytest.importorskip("scipy.spatial")
    form = Form(Scene.of(soup, "none", backend), name)
    queries = form.queries(make_points(backend, soup, "near", COUNT))
    found = form.by_peer(queries, 5, 1)
    assert found is not None
    assert found[1] > 0
    data, asked = (backend.to_host(array).astype(np.float64) for array in (form.data, queries))
    distance = np.linalg.norm(data[found[0]] - asked[:, None], axis=2)
    assert distance == pytest.approx(backend.to_host(form.exact(queries, 5)[0]), rel=1e-12)


def test_without_peers(cpu: Backend, soup: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.spatial", None)
    comparison = Comparison(soup, cpu, repeat=1)
    assert [row.tree for row in comparison.sizes((32,))] == [None] * len(SORTS)
    (row,) = (row for row in comparison.ablation(32) if row.variant == knn.PEER and row.points == "near")
    assert row.milliseconds is None


def test_fewer_data_than_neighbours(cpu: Backend) -> None:
    """Four triangles and four vertices: all are found, and the nearest is among them."""
    comparison = Comparison(make_mesh(*shapes.tetrahedron()), cpu, 8, repeat=1)
    for row in comparison.quality(COUNT):
        assert (row.recall, row.nearest) == (1, 1)
        assert (row.ratio, row.ratio_median, row.ratio_most) == pytest.approx((1, 1, 1), rel=1e-5)
        if row.form != "vertices":
            assert (row.bound, row.bound_median) == (1, 1)
    assert all(row.tree is None for row in comparison.sizes((32,)))


def test_recall() -> None:
    found, none = np.array([[1, 2], [3, 4]], np.uint32), 0xFFFFFFFF
    assert recall(found, found[:, ::-1]) == 1
    assert recall(found, np.array([[2, 5], [6, 7]], np.uint32)) == 0.25
    assert recall(np.array([[1, none]], np.uint32), np.array([[1, none]], np.uint32)) == 1
    assert recall(np.array([[2, none]], np.uint32), np.array([[1, none]], np.uint32)) == 0


def judged(mesh: Mesh, points: Floats, name: str, found: npt.NDArray[np.uint32], k: int) -> Quality:
    """An independent judgement of found numbers of data, those of triangles' boxes in the mesh's order."""
    away = distances(lifted(points, name), vectors(mesh, name))
    exact = np.sort(away)[:, :k]
    ratio = np.take_along_axis(away, found.astype(np.int64), axis=1) / exact
    to_triangles = oracle.distances(points, mesh.unit_triangles.astype(np.float32).reshape(-1, 3, 3))
    least = to_triangles.min(axis=1)
    if name == "vertices":
        first = distances(points, vectors(mesh, name)).min(axis=1, initial=np.inf, where=_chosen(found, away.shape))
        hit = [
            set(mesh.faces[row.argmin()]) & set(numbers.tolist())
            for row, numbers in zip(to_triangles, found, strict=True)
        ]
    else:
        first = to_triangles.min(axis=1, initial=np.inf, where=_chosen(found, away.shape))
        hit = [row.argmin() in numbers for row, numbers in zip(to_triangles, found, strict=True)]
    nearest = np.argsort(away, kind="stable")[:, :k]
    shares = [len(set(one) & set(other)) / k for one, other in zip(found.tolist(), nearest.tolist(), strict=True)]
    bound = first / least
    return Quality(
        name,
        "near",
        3,
        float(np.mean(shares)),
        float(ratio.mean()),
        float(np.median(ratio)),
        float(np.quantile(ratio, 0.999)),
        *(float(np.mean(ratio < limit + 1e-6)) for limit in (1.05, 1.1, 1.5, 2)),
        float(np.mean([bool(each) for each in hit])),
        float(bound.mean()),
        float(np.median(bound)),
    )


def _chosen(found: npt.NDArray[np.uint32], shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    chosen = np.zeros(shape, bool)
    np.put_along_axis(chosen, found.astype(np.int64), True, axis=1)
    return chosen


@pytest.mark.parametrize("name", FORMS)
def test_the_judgement(backend: Backend, soup: Mesh, name: str) -> None:
    comparison = Comparison(soup, backend, 4)
    (row,) = (row for row in comparison.quality(COUNT) if (row.form, row.points, row.shifts) == (name, "near", 3))
    form = comparison.forms[name]
    points = make_points(backend, soup, "near", COUNT)
    found = backend.to_host(ShiftedSort(backend, form.data, 3).candidates(form.queries(points), 4)[1])
    if name != "vertices":
        found = backend.to_host(comparison.scene.order.triangle_id)[found]
    known = judged(soup, backend.to_host(points).astype(np.float64), name, found, 4)
    for field in ("recall", "ratio", "ratio_median", "ratio_most", "nearest", "bound", "bound_median", *WITHIN):
        assert getattr(row, field) == pytest.approx(getattr(known, field), rel=1e-4), field
    assert 0.2 < row.recall < 1
    assert 0.5 < row.within_5 < row.within_10 < row.within_50 <= row.within_100 <= 1
    assert row.ratio_most > row.ratio > row.ratio_median >= 1 - 1e-6


def test_every_judgement(cpu: Backend) -> None:
    rows = list(Comparison(make_mesh(*shapes.torus(36, 18)), cpu, 8).quality(COUNT))
    assert [(row.form, row.shifts, row.points) for row in rows] == list(product(FORMS, SHIFTS, PLACES))
    table = {(row.form, row.points, row.shifts): row for row in rows}
    for form, points in product(FORMS, PLACES):
        first, *_, last = (table[form, points, shifts] for shifts in SHIFTS)
        assert last.recall > first.recall
        assert last.ratio < first.ratio


def test_ball_ranks_as_minmax(cpu: Backend, soup: Mesh) -> None:
    """The identity that makes the paper's first form a problem in four dimensions."""
    scene = Scene.of(soup, "none", cpu)
    points = make_points(cpu, soup, "near", COUNT)
    (wide, one), (flat, other) = (
        form.exact(form.queries(points), 6) for form in (Form(scene, name) for name in ("minmax", "ball"))
    )
    assert np.array_equal(one, other)
    assert wide == pytest.approx(np.sqrt(2) * flat, rel=1e-5)


def test_sizes(backend: Backend, soup: Mesh) -> None:
    rows = list(Comparison(soup, backend, 8, repeat=1).sizes((64, 2**12)))
    assert [(row.queries, row.form) for row in rows] == list(product((64, 2**12), SORTS))
    assert all(row.search > 0 and row.joint > 0 for row in rows)
    assert [(row.paper, row.ann) for row in rows] == [(None, None)] * 4 + [
        (5, 66),
        (10, 40),
        (None, None),
        (None, None),
    ]
    assert all(row.tree is None for row in rows if row.form not in TABLES)
    for row in Comparison(soup, backend, 4, repeat=1).sizes((2**12,)):
        assert row.paper is row.ann is None  # those are of eight neighbours


def test_sorts_of_table_5(cpu: Backend, soup: Mesh) -> None:
    """3-D with 6-D's curves, and 6-D with codes of one word."""
    sorts = Comparison(soup, cpu)._sorts
    assert [(sorts[name].dimension, sorts[name].shifts, sorts[name].words) for name in SORTS] == [
        (6, 7, 2),
        (3, 5, 1),
        (3, 7, 1),
        (6, 7, 1),
    ]
    assert (*TABLES, EQUAL, TOP) == SORTS


def test_distances_to_boxes(backend: Backend, soup: Mesh) -> None:
    """By an independent computation, in the mesh's order."""
    scene = Scene.of(soup, "none", backend)
    points = make_points(backend, soup, "near", COUNT)
    slots = slots_around(scene, points)
    face = backend.to_host(scene.order.triangle_id)[slots].astype(np.int64)
    at = backend.to_host(points).astype(np.float64)
    corner = soup.unit_triangles.astype(np.float32).astype(np.float64).reshape(-1, 3, 3)
    all_true = oracle.distances(at, corner)
    nearest = np.argsort(all_true, axis=1)[:, :32]
    assert slots.shape == (COUNT, 64)
    assert all(set(some) <= set(own) for some, own in zip(nearest.tolist(), face.tolist(), strict=True))
    low, high = corner.min(axis=1), corner.max(axis=1)
    table: dict[float, list[tuple[float, ...]]] = {}
    wrong: dict[float, list[tuple[bool, bool]]] = {}
    for i, own in enumerate(face.tolist()):
        before = None
        for j in own:
            s, t, c = (float(np.linalg.norm(v)) for v in (at[i] - low[j], at[i] - high[j], high[j] - low[j]))
            d, size, minmax = all_true[i, j], (s * s + c * c) ** 0.5, ((s * s + t * t) / 2) ** 0.5
            key = max(edge for edge in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0) if s / c >= edge)
            table.setdefault(key, []).append((size / s, 1 + (c / s) ** 2 / 2 - (c / s) ** 4 / 8, size / d, minmax / d))
            if before is not None and before[0] == key and before[1] != d:
                found = ((before[2] < size) != (before[1] < d), (before[3] < minmax) != (before[1] < d))
                wrong.setdefault(key, []).append(found)
            before = (key, d, size, minmax)
    rows = list(intervals(scene, points, slots))
    assert [row.low for row in rows] == sorted(table)
    for row in rows:
        means = np.mean(table[row.low], axis=0)
        assert row.pairs == len(table[row.low])
        assert (row.root, row.size, row.minmax) == pytest.approx((means[0], means[2], means[3]), rel=1e-4)
        assert row.series == (pytest.approx(means[1], rel=1e-4) if row.low >= 1 else None)
        shares = wrong.get(row.low, [(False, False)])
        assert (row.size_wrong, row.minmax_wrong) == pytest.approx(tuple(np.mean(shares, axis=0)), abs=2 / len(shares))


def test_one_pair_of_each_kind(cpu: Backend) -> None:
    """A point and two triangles whose figures are computed by hand: boxes with edges (3, 4, 0) at distance 12 from the
    lower corner, and (0.3, 0.4, 0)."""
    near = [[0, 0, 0], [3, 0, 0], [0, 4, 0]]
    small = [[0, 0, 30], [0.3, 0, 30], [0, 0.4, 30]]
    mesh = make_mesh(np.array([*near, *small], float), np.array([[0, 1, 2], [3, 4, 5]]))
    scene = Scene.of(mesh, "none", cpu)
    point = mesh.domain.to_unit(np.array([[0.0, 0.0, 12.0]])).astype(np.float32)
    rows = {row.low: row for row in intervals(scene, point, np.array([[0, 1]]))}
    first, second = rows[2.0], rows[32.0]
    assert first.root == pytest.approx(13 / 12, rel=1e-5)  # s = 12, c = 5
    assert first.series == pytest.approx(1 + (5 / 12) ** 2 / 2 - (5 / 12) ** 4 / 8, rel=1e-5)
    assert first.size == pytest.approx(13 / 12, rel=1e-5)
    assert first.minmax == pytest.approx(np.sqrt((144 + 169) / 2) / 12, rel=1e-5)
    assert second.size == pytest.approx(np.hypot(18, 0.5) / 18, rel=1e-5)
    assert (first.size_wrong, second.size_wrong) == (0, 0)


def test_the_variants(backend: Backend, soup: Mesh) -> None:
    comparison = Comparison(soup, backend, 8, repeat=1)
    rows = {(row.variant, row.points): row for row in comparison.ablation(COUNT)}
    names = list(dict.fromkeys(name for name, _ in rows))
    assert names[0] == knn.FIRST
    assert list(rows) == [(name, place) for place in PLACES for name in names]
    assert (rows[knn.LANES, "near"].milliseconds is None) == (backend.name == "cpu")
    shares = {(row.form, row.points, row.shifts): row.recall for row in comparison.quality(COUNT)}
    for place in PLACES:
        for name, form, shifts in (
            (knn.FIRST, "minmax", 7),
            ("joint sort", "minmax", 7),
            ("the words of a key together (uint4)", "minmax", 7),
            ("queries along a curve, sorted before", "minmax", 7),
            ("the same, and the time to sort them", "minmax", 7),
            ("1 shift", "minmax", 1),
            ("4 shifts", "minmax", 4),
            ("size", "size", 7),
            ("ball", "ball", 5),
            ("vertices", "vertices", 5),
            (knn.SHORT, "vertices", 5),
        ):
            assert rows[name, place].recall == shares[form, place, shifts], name
        assert rows[knn.WALK, place].recall == rows[knn.BRUTE, place].recall == 1
        for name in (knn.ONE, knn.TRIANGLES, knn.PEER, knn.CURVES):
            assert rows[name, place].recall is None
    assert all(row.milliseconds is None or row.milliseconds > 0 for row in rows.values())


def test_lanes_take_some_numbers_of_neighbours(backend: Backend, soup: Mesh) -> None:
    rows = {row.variant: row for row in Comparison(soup, backend, 5, repeat=1).ablation(32)}
    assert rows[knn.LANES].milliseconds is None


def test_seeds(backend: Backend) -> None:
    rows = list(compare_seeds(make_mesh(*shapes.torus(36, 18)), backend, 4, repeat=1))
    assert [(row.query, row.seed) for row in rows] == list(product(THESIS, SEEDS))
    table = {(row.query, row.seed): row for row in rows}
    for query in THESIS:
        none, one, one_given, more, more_given, exact = (table[query, seed] for seed in SEEDS)
        assert (one.boxes, one.tests) == (one_given.boxes, one_given.tests)
        assert (more.boxes, more.tests) == (more_given.boxes, more_given.tests)
        if query != "fast":
            assert none.boxes > one.boxes >= more.boxes >= exact.boxes
            assert none.boxes > 1.2 * exact.boxes
    with pytest.raises(UsageError, match="--depth"):
        next(compare_seeds(make_mesh(*shapes.cube()), backend, 17))


def test_what_seeds_bring() -> None:
    times = {"cct": (10.0, 8.0, 5.0, 12.0, 4.0, 2.0), "fast": (4.0, 8.0, 5.0, 10.0, 3.2, 2.0)}
    rows = [
        Seeded(query, seed, 10, value, 1.0, 1.0)
        for query, values in times.items()
        for seed, value in zip(SEEDS, values, strict=True)
    ]
    begin, pays, costs = (
        "A first bound by kANN, its own time included,",
        "pays for cct (1.25x as fast; given 2.50x, exact 5.00x)",
        "does not pay for fast (0.50x as fast; given 1.25x, exact 2.00x)",
    )
    assert finding(rows) == f"{begin} {pays}, and {costs}."
    assert finding(rows[:6]) == f"{begin} {pays}."
    assert finding(rows[6:]) == f"{begin} {costs}."


@pytest.mark.parametrize("block", [0, -32, 31, 33, 1056])
def test_impossible_blocks(cpu: Backend, soup: Mesh, block: int) -> None:
    with pytest.raises(UsageError, match=f"--block {block}: use a multiple of 32 up to 1024"):
        Comparison(soup, cpu, block=block)


@pytest.mark.parametrize("k", [0, 33])
def test_impossible_neighbours(cpu: Backend, soup: Mesh, k: int) -> None:
    with pytest.raises(UsageError, match=f"-k {k}: use 1 to 32"):
        Comparison(soup, cpu, k)
