"""Benchmark for approximate nearest neighbours by the shifted sort (Park 2019): the paper's tables, the result quality,
which the paper omits, and an ablation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sdfcli.apps.bench import park
from sdfcli.apps.bench.box_distance import Interval, intervals, slots_around
from sdfcli.apps.bench.box_encodings import FORMS, Form
from sdfcli.apps.bench.interleaved import median_seconds
from sdfcli.apps.bench.points import make_points
from sdfcli.apps.bench.recall import Judge, Quality, recall
from sdfcli.backend import Array, Backend
from sdfcli.cli.bench_options import check_block
from sdfcli.mesh.mesh import Mesh
from sdfcli.octree.grown import Progress
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.runtime.hardware import available_threads
from sdfcli.scene import Scene
from sdfcli.spatial.morton import curve_order
from sdfcli.spatial.shifted_sort import ShiftedSort, check_neighbours

TABLES = {"minmax": "6-D", "vertices": "3-D"}
"""Forms in the paper's Table 4, with the paper's names."""
EQUAL, TOP = "vertices, 7 curves", "minmax, 64 bits"
"""More sorts in Table 5: 3-D with as many curves as 6-D, and 6-D with codes as long as 3-D's."""
SORTS = (*TABLES, EQUAL, TOP)
PLACES = ("near", "rand")
"""Query point sets, see points.py."""
SHIFTS = (*range(1, 8), 15, 31, 63)
"""Shift counts with measured quality."""

SIZES = tuple(park.MILLISECONDS)
SIZES_CPU = SIZES[:5]
RECALL_QUERIES, RECALL_QUERIES_CPU = 2**17, 2**14
"""Query counts for the quality, on a GPU and on the CPU."""
BOX_POINTS = 2**12
"""Points per set whose distances to boxes are compared with those to triangles."""
ABLATED, ABLATED_CPU = 2**20, 2**14
"""Query counts per variant, on a GPU and on the CPU."""

FIRST = "search, 7 shifts"
WALK = "exact: a walk of boxes"
BRUTE = "exact: brute force, one run"
PEER = "exact: SciPy's k-d tree, one run"
ONE = "exact: the nearest triangle alone"
LANES = "2 k lanes a query"
CURVES = "the data's curves, once a mesh"
TRIANGLES = "exact: the k nearest triangles"
SHORT = "vertices, codes of 30 bits"
"""Variants referenced elsewhere, too; the first is the reference for the others."""

Answer = tuple[Array, Array]
Case = TypeVar("Case")


@dataclass(frozen=True)
class Size:
    """Table 4 row: one query count in one form, in milliseconds.

    queries     query count, `rand`.
    form        in SORTS.
    search      searching the sorted data for each query, without sorting time.
    joint       data and queries sorted together, as in the paper.
    tree        SciPy's k-d tree, exact, on the CPU, one run; None without SciPy, and for forms not in TABLES.
    paper, ann  the paper's shifted sort, and ANN; None for other query counts and forms.
    """

    queries: int
    form: str
    search: float
    joint: float
    tree: float | None
    paper: float | None
    ann: float | None


@dataclass(frozen=True)
class Variant:
    """One neighbour search variant.

    variant       name.
    points        in PLACES.
    milliseconds  None if the device, k or the installed packages do not allow it.
    recall        found share of the k nearest vectors; None without vectors, and for peers, which break ties
                  differently.
    """

    variant: str
    points: str
    milliseconds: float | None
    recall: float | None


class _Way(NamedTuple):
    """A variant's function, None if impossible, and the exact indices (m, k) it should find, if any."""

    run: Callable[[], Any] | None
    exact: Array | None = None


class Comparison:
    """Shifted sort benchmark for one mesh on one device.

    k: 1 to 32 neighbours. block: threads per GPU block; None: the program's default; ignored on a CPU. repeat:
    interleaved timed runs; medians are reported. threads: k-d tree threads; default: all CPUs available to the process.

    Raises UsageError for an impossible k or block.
    """

    def __init__(
        self,
        mesh: Mesh,
        backend: Backend,
        k: int = park.K,
        block: int | None = None,
        repeat: int = 5,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        check_neighbours(k, "-k")
        check_block(block)
        self.mesh, self.backend, self.k, self.repeat = mesh, backend, k, repeat
        self.threads = threads or available_threads()
        self._progress = progress or (lambda _: None)
        self._on_cpu = backend.name == "cpu"
        self.block = None if self._on_cpu else block
        self.ablated = ABLATED_CPU if self._on_cpu else ABLATED
        self.scene = Scene.of(mesh, "none", backend)
        self.forms = {name: Form(self.scene, name) for name in FORMS}

    def sizes(self, sizes: Sequence[int] | None = None) -> Iterator[Size]:
        """Table 4: query counts, each in the forms in TABLES."""
        sizes = sizes or (SIZES_CPU if self._on_cpu else SIZES)
        points = self._points("rand", max(sizes))
        for count in sizes:
            self._progress(f"{count:,} queries")
            queries = {name: form.queries(points[:count]) for name, form in self.forms.items()}
            seconds = self._seconds(
                {
                    (name, joint): partial(sort.candidates, queries[name.partition(",")[0]], self.k, joint=joint)
                    for name, sort in self._sorts.items()
                    for joint in (False, True)
                }
            )
            theirs = park.milliseconds(count, self.k)
            for name in SORTS:
                label = TABLES.get(name, "")
                found = self.forms[name].by_peer(queries[name], self.k, self.threads) if label else None
                yield Size(
                    queries=count,
                    form=name,
                    search=1e3 * seconds[name, False],
                    joint=1e3 * seconds[name, True],
                    tree=None if found is None else 1e3 * found[1],
                    paper=theirs.get(label),
                    ann=theirs.get(f"ANN {label}"),
                )

    def quality(self, count: int | None = None) -> Iterator[Quality]:
        """Quality by form, SHIFTS and PLACES, for `count` points."""
        count = count or (RECALL_QUERIES_CPU if self._on_cpu else RECALL_QUERIES)
        judges = {place: Judge(self.scene, self._points(place, count)) for place in PLACES}
        for form in self.forms.values():
            queries = {place: form.queries(judge.points) for place, judge in judges.items()}
            exact = {place: form.exact(asked, self.k) for place, asked in queries.items()}
            for shifts in SHIFTS:
                self._progress(f"answers, {form.name}, {shifts} shifts")
                sort = ShiftedSort(self.backend, form.data, shifts)  # takes longer than the search
                for place, judge in judges.items():
                    found = sort.candidates(queries[place], self.k)
                    yield judge.judged(form, place, shifts, exact[place], found)

    def distances(self) -> dict[str, list[Interval]]:
        """Distances to boxes by s / c, for points in each of PLACES."""
        found = {}
        for place in PLACES:
            points = self._points(place, BOX_POINTS)
            found[place] = list(intervals(self.scene, points, slots_around(self.scene, points)))
        return found

    def ablation(self, count: int | None = None) -> Iterator[Variant]:
        """Search variants for `count` points in each PLACES set; names state the differences from the first variant."""
        for place in PLACES:
            self._progress(f"variants, {place}")
            yield from self._variants(place, self._points(place, count or self.ablated))

    @cached_property
    def _sorts(self) -> dict[str, ShiftedSort]:
        boxes, vertices = (self.forms[name] for name in TABLES)
        equal = ShiftedSort(self.backend, vertices.data, boxes.sort.shifts)
        return {**{name: self.forms[name].sort for name in TABLES}, EQUAL: equal, TOP: boxes.top}

    def _points(self, place: str, count: int) -> Array:
        return make_points(self.backend, self.mesh, place, count)

    def _seconds(self, cases: Mapping[Case, Callable[[], object]]) -> dict[Case, float]:
        with self.backend.blocks_of(self.block) if self.block else nullcontext():
            return median_seconds(self.backend, cases, self.repeat)

    def _variants(self, place: str, points: Array) -> Iterator[Variant]:
        form = self.forms["minmax"]
        queries, ways = form.queries(points), self._ways(points)
        seconds = self._seconds({name: way.run for name, way in ways.items() if way.run})
        for name, way in ways.items():
            share = None
            if way.run and way.exact is not None:
                share = recall(*map(self.backend.to_host, (way.run()[1], way.exact)))
            yield Variant(name, place, 1e3 * seconds[name] if way.run else None, share)
        forced: list[Answer] = []
        form.by_force(queries[:1], self.k)  # builds and compiles beforehand
        once = {BRUTE: lambda: forced.append(form.by_force(queries, self.k))}
        seconds = median_seconds(self.backend, once, repeat=1, skip=0)
        share = recall(*map(self.backend.to_host, (forced[0][1], ways[FIRST].exact)))
        yield Variant(BRUTE, place, 1e3 * seconds[BRUTE], share)
        found = form.by_peer(queries, self.k, self.threads)
        yield Variant(PEER, place, None if found is None else 1e3 * found[1], None)

    def _ways(self, points: Array) -> dict[str, _Way]:
        """Variants for interleaved timing."""
        backend, k, form, domain = self.backend, self.k, self.forms["minmax"], self.mesh.domain
        queries, along = form.queries(points), curve_order(backend, points)
        exact = form.exact(queries, k)[1]

        def search(sort: ShiftedSort, **options: bool) -> _Way:
            return _Way(partial(sort.candidates, queries, k, **options), exact)

        def sorted_search() -> Answer:
            return form.sort.candidates(queries[curve_order(backend, points)], k)

        def curves() -> None:
            fresh = ShiftedSort(backend, form.data)
            for j in range(fresh.shifts):
                fresh.curve(j)

        top, pairs = form.top, ShiftedSort(backend, form.data, together=True)
        ways = {
            FIRST: search(form.sort),
            "joint sort": search(form.sort, joint=True),
            "the top 64 bits": search(top),
            "the top 64 bits, joint sort": search(top, joint=True),
            "the words of a key together (uint4)": search(pairs),
            LANES: search(form.sort, lanes=True) if form.sort.has_lanes(k) else _Way(None),
            "queries along a curve, sorted before": _Way(
                partial(form.sort.candidates, queries[along], k), exact[along]
            ),
            "the same, and the time to sort them": _Way(sorted_search, exact[along]),
            CURVES: _Way(curves),
        }
        for shifts in range(1, form.sort.shifts):
            ways[f"{shifts} shift{'s' if shifts > 1 else ''}"] = search(ShiftedSort(backend, form.data, shifts))
        for other in self.forms.values():
            if other is not form:
                asked = other.queries(points)
                ways[other.name] = _Way(partial(other.sort.candidates, asked, k), other.exact(asked, k)[1])
        vertices = self.forms["vertices"]
        short = ShiftedSort(backend, vertices.data, bits=10)
        ways[SHORT] = _Way(partial(short.candidates, points, k), vertices.exact(points, k)[1])
        at = points.astype(np.float64) * domain.length + backend.from_host(domain.origin)
        return {
            **ways,
            WALK: _Way(partial(form.exact, queries, k), exact),
            ONE: _Way(partial(self.scene.index.nearest_in_any_order, points)),
            TRIANGLES: _Way(partial(MeshDistance._of(self.scene).nearest_triangles, at, k)),
        }
