"""The octree's laws, checked by brute force over all pairs of leaves and corners."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backends
import oracle
import sdfcli
import shapes
from field_files import quantised
from sdfcli.backend import Array, Backend
from sdfcli.field.field import Field
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Domain, Mesh
from sdfcli.octree import balance
from sdfcli.octree.assemble import assemble, in_order
from sdfcli.octree.causes import Cause
from sdfcli.octree.density import bvh_octree, measured
from sdfcli.octree.grown import Limits
from sdfcli.octree.growth import Growth
from sdfcli.octree.levels import OPENED, OUTSIDE, Octree
from sdfcli.octree.refine import Criteria
from sdfcli.params import BuildParams
from sdfcli.scene import Scene
from sdfcli.sign.choice import choose_sign, make_signer
from sdfcli.sign.signer import Signer
from sdfcli.spatial.radix_tree import NONE, Bvh
from trees import make_bvh

backend = backends.backend

FULL = 2**oracle.LATTICE_BITS
ULP = 2.0**-24
STALE, RENEWED = 1, 2  # octree/levels.h
CLEAR = 1e-6  # nearer to the surface than this, rounding decides the sign

Numbers = oracle.Numbers


@dataclass
class Grown:
    """An octree over the unit cube, and what it was grown from."""

    backend: Backend
    mesh: Mesh
    bvh: Bvh
    signer: Signer
    field: Field
    leaf_corner: Numbers
    points: dict[str, Array]
    jump_leaves: int

    @property
    def triangles(self) -> Numbers:
        return self.backend.to_host(self.bvh.order.triangle).reshape(-1, 3, 3)


def grow(
    backend: Backend,
    shape: shapes.Shape,
    depth: int,
    tolerance: float = 3e-3,
    band: float = 0.05,
    adaptive: bool = True,
    sign: str = "auto",
) -> Grown:
    """tolerance and band are fractions of the unit cube."""
    mesh, choice = choose_sign(make_mesh(*shape), sign)
    bvh = make_bvh(backend, mesh.unit_triangles)
    signer = make_signer(backend, mesh, bvh, choice.method)
    scene = Scene(backend, mesh, choice, signer=signer)
    jump_leaves = 0
    if adaptive:
        growth = Growth(scene, Limits(depth, tolerance, band))
        growth.run()
        tree = growth.octree
        position = oracle.lattice(backend.to_host(tree.point_keys())) / FULL
        points = {
            "position": backend.from_host(position, np.float32),
            "slot": tree.points.slot.copy(),
            "inside": backend.xp.signbit(tree.points.signed),
        }
        made = assembled(growth)
        jump_leaves, _ = tree.jump_and_sheet_leaves()()
    else:
        made = measured(scene, lambda: bvh_octree(backend, scene.order, depth))
        slot_of = backend.xp.argsort(bvh.order.triangle_id)
        corner = oracle.lattice(backend.to_host(made["corner_key"]))
        position = backend.from_host(corner / 2**oracle.LATTICE_BITS, np.float32)
        points = {"position": position, "slot": slot_of[made["nearest"]], "inside": made["distance"] < 0}
    arrays = {name: backend.to_host(array) for name, array in made.items()}
    leaf_corner = arrays.pop("leaf_corner")
    field = Field(Domain(np.zeros(3), 1.0), **arrays)
    return Grown(backend, mesh, bvh, signer, field, leaf_corner, points, jump_leaves)


class Leaves:
    """The leaves and corners of a field on the lattice, in plain NumPy."""

    def __init__(self, field: Field) -> None:
        self.low = oracle.lattice(field.leaf_key)
        self.size = 2 ** (oracle.LATTICE_BITS - field.leaf_level.astype(np.int64))
        self.high = self.low + self.size[:, None]
        self.level = field.leaf_level.astype(np.int64)
        self.corner = oracle.lattice(field.corner_key)
        offsets = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
        self.corners_of = self.low[:, None] + self.size[:, None, None] * offsets

    def touching(self) -> Iterator[tuple[Numbers, Numbers]]:
        """All pairs of leaves that have a face, an edge or a corner in common."""
        for part in np.array_split(np.arange(len(self.low)), 1 + len(self.low) // 500):
            meet = np.ones((len(part), len(self.low)), bool)
            for k in range(3):
                meet &= (self.low[part, None, k] <= self.high[:, k]) & (self.low[:, k] <= self.high[part, None, k])
            i, j = np.nonzero(meet)
            yield part[i], j

    def hanging(self) -> tuple[Numbers, Numbers]:
        """All pairs of a corner and a leaf that has it on its border, or in it, but not as a corner."""
        pairs = []
        for part in np.array_split(np.arange(len(self.corner)), 1 + len(self.corner) // 500):
            within = np.ones((len(part), len(self.low)), bool)
            at_end = np.ones((len(part), len(self.low)), bool)
            for k in range(3):
                c = self.corner[part, None, k]
                within &= (c >= self.low[:, k]) & (c <= self.high[:, k])
                at_end &= (c == self.low[:, k]) | (c == self.high[:, k])
            i, j = np.nonzero(within & ~at_end)
            pairs.append((part[i], j))
        return np.concatenate([i for i, _ in pairs]), np.concatenate([j for _, j in pairs])


# ---- What holds for every octree ----


def check_tiling(leaves: Leaves) -> None:
    """The leaves are cells of an octree, disjoint, and fill the cube."""
    assert np.all(leaves.low % leaves.size[:, None] == 0)
    assert leaves.low.min() >= 0
    assert leaves.high.max() <= FULL
    assert sum(int(size) ** 3 for size in leaves.size) == FULL**3
    cells = {(*low, int(level)) for low, level in zip(leaves.low.tolist(), leaves.level, strict=True)}
    assert len(cells) == len(leaves.low)
    for x, y, z, level in cells:
        for above in range(level):
            size = FULL >> above
            assert (x // size * size, y // size * size, z // size * size, above) not in cells


def check_corners(leaves: Leaves, leaf_corner: Numbers | None = None) -> None:
    """Each corner of a leaf is there, once, and nothing else; the builder's own list of their places is right."""
    wanted = {tuple(at) for leaf in leaves.corners_of.tolist() for at in leaf}
    assert sorted(map(tuple, leaves.corner.tolist())) == sorted(wanted)
    if leaf_corner is not None:
        assert np.array_equal(leaves.corner[leaf_corner], leaves.corners_of)


def check_order(field: Field) -> None:
    for keys in (field.leaf_key, field.corner_key):
        assert keys.dtype == np.uint64
        assert np.all(keys[1:] > keys[:-1])
    assert (field.leaf_level.dtype, field.distance.dtype) == (np.uint8, np.float32)


def check_distances(grown: Grown, which: Numbers) -> None:
    """The chosen corners (some of them, if there are many) have the exact distance, with its sign."""
    which = np.flatnonzero(which)
    which = which[:: 1 + len(which) // 600]
    points = oracle.lattice(grown.field.corner_key)[which] / FULL
    found = grown.field.distance[which]
    true = oracle.distance(points, grown.triangles)
    assert np.all(np.abs(np.abs(found) - true) <= 6 * ULP * (1 + true))
    winding = oracle.winding(points, grown.triangles)
    sided = (true > CLEAR) & (np.abs(winding - 0.5) > 1e-6)
    assert np.array_equal(found[sided] < 0, winding[sided] > 0.5)


def check_balance(leaves: Leaves) -> None:
    """Leaves that touch, if only at a corner, are of the same size, or one has twice the other's edge."""
    for i, j in leaves.touching():
        assert np.abs(leaves.level[i] - leaves.level[j]).max() <= 1


def check_hanging(grown: Grown, leaves: Leaves) -> Numbers:
    """Corners on a coarser leaf's border have that leaf's value there. Returns which corners hang."""
    trilinear = oracle.Trilinear(grown.field)
    corner, leaf = leaves.hanging()
    expected, _ = trilinear.in_leaf(leaf, leaves.corner[corner] / FULL)
    # A sum of up to four values, each rounded.
    bound = 4 * ULP * np.abs(trilinear.corner[leaf]).max(axis=1)
    assert np.all(np.abs(grown.field.distance[corner] - expected) <= bound)
    hangs = np.zeros(len(leaves.corner), bool)
    hangs[corner] = True
    return hangs


def check_continuity(rng: np.random.Generator, field: Field, leaves: Leaves) -> None:
    """Around points on leaves' faces, edges and corners the field has one value, whatever the side."""
    some = rng.integers(0, len(leaves.low), 300)
    place = rng.random((300, 3))
    ends = rng.integers(0, 2, (300, 3))
    fixed = np.arange(3) < rng.integers(1, 4, (300, 1))  # on one, two or three of the leaf's planes
    place = np.where(rng.permuted(fixed, axis=1), ends, place)
    points = (leaves.low[some] + leaves.size[some, None] * place) / FULL
    nudge = 1e-10
    around = [
        field.sample(points + nudge * np.array(way)) for way in np.ndindex(2, 2, 2) for way in [2 * np.array(way) - 1]
    ]
    # The slope of a distance is 1; that of the interpolation of a rough one may be more.
    slope = np.abs(field.gradient(points)).max() + 1
    assert np.all(np.ptp(around, axis=0) <= 16 * nudge * slope + 16 * ULP)


def check_adaptive(rng: np.random.Generator, grown: Grown) -> None:
    leaves = Leaves(grown.field)
    check_order(grown.field)
    check_tiling(leaves)
    check_corners(leaves, grown.leaf_corner)
    check_balance(leaves)
    hangs = check_hanging(grown, leaves)
    check_distances(grown, ~hangs)
    check_continuity(rng, grown.field, leaves)


CASES = sorted(set(shapes.ANY) - {"soup", "small soup", "zoo", "huge"})


def sign_for(kind: str) -> str:
    """What to ask for, so that the sign is that of the winding number: pseudonormals see no overlap."""
    return "winding" if kind == "overlapping" else "auto"


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(CASES), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 4))
def test_adaptive_octrees(backend: Backend, kind: str, seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.ANY[kind](rng)
    check_adaptive(rng, grow(backend, shape, depth, tolerance=10 ** -rng.uniform(1.3, 2.3), sign=sign_for(kind)))


@pytest.mark.parametrize("kind", ["soup", "zoo", "small soup"])
def test_adaptive_octrees_of_soups(backend: Backend, kind: str) -> None:
    rng = np.random.default_rng(1)
    check_adaptive(rng, grow(backend, shapes.ANY[kind](rng), 3, tolerance=0.02))


@pytest.mark.parametrize("kind", ["sheet", "holed torus"])
def test_splits_ahead_of_a_wave(backend: Backend, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Leaves that are split before anyone asks for it change the size of the octree, and none of its laws.
    counts = []
    monkeypatch.setattr(balance, "MARGINAL", 0.01)
    for patience in (balance.PATIENCE, 0):
        monkeypatch.setattr(balance, "PATIENCE", patience)
        rng = np.random.default_rng(7)
        grown = grow(backend, shapes.ANY[kind](rng), 5, tolerance=3e-2, sign=sign_for(kind))
        check_adaptive(rng, grown)
        counts.append(len(grown.field.leaf_key))
    assert counts[0] < counts[1] < 2 * counts[0]


def test_waves_are_run_ahead_of(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the first rounds, and ever farther within thirty."""
    monkeypatch.setattr(balance, "MARGINAL", 0.01)
    mesh, choice = choose_sign(make_mesh(*shapes.icosphere(3)), "auto")
    growth = Growth(Scene(backend, mesh, choice), Limits(depth=6, tolerance=3e-3, band=0.05))
    growth.run()
    opened = [int((own.cells.state == OPENED).sum()) for own in growth.octree.levels]
    level = int(np.argmax(opened))
    cells = growth.octree.levels[level].cells
    first = int(backend.xp.flatnonzero(cells.state == OPENED)[0])
    split = []
    for rounds in range(1, 31):
        cells.split_request[:] = 0
        cells.split_request[first] = int(Cause.HANGING)
        balance.run_ahead(growth.octree, growth.criteria, level, rounds, growth.open)
        split.append(int((cells.split_request > 0).sum()))
        assert int(cells.split_request[first]) == Cause.HANGING
        assert int((cells.split_request == int(Cause.WAVE)).sum()) == split[-1] - 1
    assert split == sorted(split)
    assert split[0] == 1
    assert len(set(split)) > 3


def wave(backend: Backend) -> Growth:
    """The growth of an octree over flat faces that barely meet the tolerance: 60 rounds for hanging corners."""
    ring = shapes.ring(8, 1.0)
    square = ring / np.abs(ring).max(axis=1, keepdims=True)
    shape = shapes.bored(square * [1, 0.5683], 0.398 * ring * [1, 0.5683], 0.81)
    mesh, choice = choose_sign(make_mesh(*shape), "auto")
    assert mesh.health.watertight
    limits = Limits.of(BuildParams(tolerance=2.2e-3, band=4.4e-3), mesh.unit, mesh.domain.length)
    return Growth(Scene(backend, mesh, choice), limits)


def test_a_round_for_hanging_corners_looks_at_what_has_changed_alone(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = []

    def settle(octree: Octree, criteria: Criteria, coarsest: int) -> list[int]:
        levels = balance.settle(octree, criteria, coarsest)
        families = [own.families.stale for own in octree.levels[1:]]
        work.append(sum(int((stale == RENEWED).sum()) for stale in families[coarsest:]))
        before = [stale.copy() for stale in families]
        asked = [own.cells.split_request.copy() for own in octree.levels]
        values = [octree.values.value.copy(), octree.values.hanging.copy()]
        # Everything once more, from the start.
        octree.values.value[:], octree.values.hanging[:] = octree.points.signed, 0
        for stale in families:
            stale[:] = STALE
        assert balance.settle(octree, criteria, 0) in (levels, [])
        for stale in families:
            assert (stale == RENEWED).all()
        for old, new in zip(values, (octree.values.value, octree.values.hanging), strict=True):
            assert np.array_equal(backend.to_host(old), backend.to_host(new))
        for own, old in zip(octree.levels, asked, strict=True):
            assert np.array_equal(backend.to_host(own.cells.split_request), backend.to_host(old))
        for stale, old in zip(families, before, strict=True):
            stale[:] = old
        return levels

    monkeypatch.setattr("sdfcli.octree.growth.settle", settle)
    growth = wave(backend)
    growth.run()
    assert len(work) > 40
    assert work[0] + sum(work[1:]) < 2 * sum(own.families.count for own in growth.octree.levels)


def test_an_octree_with_all_levels(backend: Backend) -> None:
    # A speck of a mesh in a corner, far from the rest: leaves of every level from 2 to 6, most of them hanging.
    rng = np.random.default_rng(2)
    shape = shapes.joined(shapes.moved(shapes.octahedron(), 0.02), shapes.moved(shapes.tetrahedron(), 1e-3, 1.0))
    grown = grow(backend, shape, 6, tolerance=2e-3, band=0.01)
    levels = set(grown.field.leaf_level.tolist())
    assert levels >= {3, 4, 5, 6}
    check_adaptive(rng, grown)
    hanging, _ = Leaves(grown.field).hanging()
    assert len(set(hanging.tolist())) > 50


def test_an_octree_of_one_leaf(backend: Backend) -> None:
    field = grow(backend, shapes.octahedron(), 4, tolerance=2.0).field
    assert (field.leaf_key.tolist(), field.leaf_level.tolist()) == ([0], [0])
    assert len(field.corner_key) == len(field.distance) == 8


@pytest.mark.parametrize("kind", sorted(shapes.CLOSED))
def test_adaptive_leaves_meet_the_tolerance_in_the_middle(backend: Backend, kind: str) -> None:
    tolerance, band, depth = 1e-2, 0.05, 5
    grown = grow(backend, shapes.CLOSED[kind](np.random.default_rng(3)), depth, tolerance, band)
    assert grown.jump_leaves == 0
    leaves = Leaves(grown.field)
    coarse = np.flatnonzero(leaves.level < depth)[::4]
    middle = (leaves.low[coarse] + leaves.size[coarse, None] / 2) / FULL
    value, _ = oracle.Trilinear(grown.field).in_leaf(coarse, middle)
    true = oracle.distance(middle, grown.triangles)
    sign = np.where(oracle.winding(middle, grown.triangles) > 0.5, -1, 1)
    assert np.all(np.abs(value - sign * true) <= tolerance * np.maximum(1, true / band))


def test_a_finer_tolerance_gives_more_leaves(backend: Backend) -> None:
    counts = [len(grow(backend, shapes.icosphere(2), 6, tolerance=t).field.leaf_key) for t in (3e-2, 1e-2, 3e-3)]
    assert counts[0] < counts[1] < counts[2]


def test_the_sign_jumps_at_holes_of_open_surfaces(backend: Backend) -> None:
    vertices, faces = shapes.icosphere(2)
    bowl = vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0.3]
    grown = grow(backend, bowl, 5, tolerance=3e-2)
    assert grown.jump_leaves > 0
    check_adaptive(np.random.default_rng(4), grown)


def test_leaves_in_which_the_sign_jumps_are_counted(backend: Backend) -> None:
    vertices, faces = shapes.cube()
    box = vertices, faces[(vertices[faces][:, :, 2] < vertices[:, 2].max()).any(axis=1)]  # without its lid
    grown = grow(backend, box, 7, tolerance=1e-2, sign="winding")
    value = grown.field.distance[grown.leaf_corner]
    bit = np.arange(8)
    way = np.sqrt([[bin(c ^ e).count("1") for e in bit] for c in bit]) * (0.5**grown.field.leaf_level)[:, None, None]
    # Well above what rounding, and corners that take their neighbours' mean, can feign.
    apart = np.abs(value)[:, :, None] + np.abs(value)[:, None, :] > 1.3 * way
    jumps = (apart & ((value < 0)[:, :, None] != (value < 0)[:, None, :])).any(axis=(1, 2))
    assert 0 < jumps.sum() <= grown.jump_leaves


def assembled(growth: Growth, length: float = 1.0, step: float | None = None) -> dict[str, Array]:
    return assemble(growth.octree, growth.criteria, growth.distances.order, length, step)[0]


def grown_of(backend: Backend, kind: str) -> Growth:
    """An octree that has grown, with leaves split for the sake of others."""
    mesh, choice = choose_sign(make_mesh(*shapes.ANY[kind](np.random.default_rng(8))), sign_for(kind))
    signer = make_signer(backend, mesh, make_bvh(backend, mesh.unit_triangles), choice.method)
    growth = Growth(Scene(backend, mesh, choice, signer=signer), Limits(6, tolerance=5e-3, band=0.02))
    growth.run()
    return growth


@pytest.mark.parametrize("kind", ["star", "holed torus", "one"])
def test_opened_cells_know_their_neighbours(backend: Backend, kind: str) -> None:
    tree, known = grown_of(backend, kind).octree, 0
    for level, own in enumerate(tree.levels):
        parent_key = backend.to_host(own.families.key)[np.arange(own.cells.count) // 8]
        at = oracle.lattice(parent_key * np.uint64(8) + np.arange(own.cells.count, dtype=np.uint64) % np.uint64(8))
        number = {(*place,): cell for cell, place in enumerate(at.tolist())}
        opened = own.rows.cell
        around = backend.to_host(tree.neighbours(level, opened))
        for cell, neighbours in zip(backend.to_host(opened), around, strict=True):
            for direction, neighbour in enumerate(neighbours.tolist()):
                x, y, z = at[cell] + [direction % 3 - 1, direction // 3 % 3 - 1, direction // 9 - 1]
                outside = min(x, y, z) < 0 or max(x, y, z) >= 2**level
                assert neighbour == (OUTSIDE if outside else number.get((x, y, z), NONE))
                known += 1
    assert known > 27 * 500


def test_points_are_sorted_with_and_without_room_in_their_keys(backend: Backend) -> None:
    tree, rng = grown_of(backend, "star").octree, np.random.default_rng(1)
    key = backend.to_host(tree.point_keys())
    points = rng.permutation(len(key))[: len(key) // 2].astype(np.uint32)
    expected = points[np.argsort(key[points])]
    for depth in (tree.depth + 1, oracle.LATTICE_BITS):
        found, sorted_key = map(backend.to_host, in_order(tree, backend.from_host(points), depth))
        assert np.array_equal(found, expected)
        assert np.array_equal(sorted_key, key[expected])


@pytest.mark.parametrize("kind", ["star", "holed torus"])
def test_steps_are_those_of_the_finished_field(backend: Backend, kind: str) -> None:
    step, length = 1e-3, 3.0
    grown = grown_of(backend, kind)
    hanging, key = grown.octree.values.hanging.copy(), grown.octree.point_keys()
    plain, stepped = assembled(grown, length), assembled(grown_of(backend, kind), length, step)
    xp = backend.xp
    of_corner = xp.argsort(key)[xp.searchsorted(key[xp.argsort(key)], plain["corner_key"])]
    names = ("leaf_key", "leaf_level", "corner_key", "distance")
    field = Field(Domain(np.zeros(3), length), *(backend.to_host(plain[name]) for name in names))
    hangs = backend.to_host(hanging[of_corner]) == 1
    value, _ = quantised(field, step, hangs)
    assert hangs.any()
    assert backend.to_host(stepped["distance"]).tobytes() == value.tobytes()


# ---- The octree of the thesis: by density ----


def dense_leaves(centroids: Numbers, depth: int) -> set[tuple[int, ...]]:
    """Cells are split while two or more centroids lie in them."""
    cells = np.clip(np.floor(centroids * 2**21), 0, 2**21 - 1).astype(np.int64)
    leaves: set[tuple[int, ...]] = set()
    waiting = [(0, 0, 0, 0)]
    while waiting:
        *at, level = waiting.pop()
        held = np.all(cells >> (21 - level) == at, axis=1).sum()
        if held < 2 or level == depth:
            leaves.add((*at, level))
        else:
            waiting += [(2 * at[0] + x, 2 * at[1] + y, 2 * at[2] + z, level + 1) for x, y, z in np.ndindex(2, 2, 2)]
    return leaves


def check_dense(grown: Grown, depth: int) -> None:
    leaves = Leaves(grown.field)
    check_order(grown.field)
    check_tiling(leaves)
    check_corners(leaves, grown.leaf_corner)
    check_distances(grown, np.ones(len(leaves.corner), bool))
    unit = grown.mesh.unit_triangles
    cells = np.column_stack((leaves.low // leaves.size[:, None], leaves.level))
    expected = dense_leaves((unit[:, 0:3] + unit[:, 3:6] + unit[:, 6:9]) / 3, depth)
    assert set(map(tuple, cells.tolist())) == expected


@settings(max_examples=25, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.ANY)), seed=st.integers(0, 2**32 - 1), depth=st.integers(1, 5))
def test_density_octrees(backend: Backend, kind: str, seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    check_dense(grow(backend, shapes.ANY[kind](rng), depth, adaptive=False, sign=sign_for(kind)), depth)


def test_density_octree_of_equal_centroids(backend: Backend) -> None:
    # Two centroids in one place split cells down to the limit; one alone splits none.
    once = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]])
    grown = grow(backend, once, 6, adaptive=False)
    assert grown.field.leaf_level.tolist() == [0]
    check_dense(grown, 6)
    twice = grow(backend, (once[0], np.array([[0, 1, 2], [0, 2, 1]])), 6, adaptive=False)
    assert sorted(set(twice.field.leaf_level.tolist())) == [1, 2, 3, 4, 5, 6]
    check_dense(twice, 6)


# ---- Signs that are handed on ----


def check_inherited(grown: Grown) -> int:
    """Each point has the sign that asking for it alone gives. Returns how many points there are."""
    points, host = grown.points, grown.backend.to_host
    alone = host(grown.signer.inside(points["position"], points["slot"])).astype(bool)
    differ = np.flatnonzero((host(points["inside"]) == 1) != alone)
    # At a point on the surface, or where the winding number is 1/2, both signs are right.
    position = host(points["position"])[differ]
    winding = oracle.winding(position, grown.triangles)
    sided = (oracle.distance(position, grown.triangles) > CLEAR) & (np.abs(winding - 0.5) > 1e-6)
    assert not sided.any(), (position[sided][:3], winding[sided][:3])
    return len(alone)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(set(shapes.ANY) - {"soup"})),
    seed=st.integers(0, 2**32 - 1),
    depth=st.integers(2, 4),
    adaptive=st.booleans(),
)
def test_inherited_signs(backend: Backend, kind: str, seed: int, depth: int, adaptive: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.ANY[kind](rng)
    grown = grow(backend, shape, depth, tolerance=10 ** -rng.uniform(1.7, 2.6), adaptive=adaptive, sign="winding")
    check_inherited(grown)


@pytest.mark.parametrize("depth", [8, 12, 16])
def test_inherited_signs_across_large_faces(backend: Backend, depth: int) -> None:
    # Small cells on both sides of faces that are a million times as large, and lie at right angles to the diagonals of
    # the cells: there the distances of two points on either side add up to the way between them, but for rounding.
    # Pairs of equal points, which are degenerate faces, make the octree so deep.
    rng = np.random.default_rng(depth)
    vertices, faces = shapes.octahedron()
    on = np.einsum("nk,nkx->nx", rng.dirichlet((1, 1, 1), 150), vertices[faces][rng.integers(0, 8, 150)])
    specks = np.repeat(on + rng.normal(size=on.shape) * 2.0**-depth, 2, axis=0)
    shape = shapes.joined((vertices, faces), (specks, np.repeat(np.arange(300)[:, None], 3, axis=1)))
    grown = grow(backend, shape, depth, adaptive=False)
    assert int(grown.field.leaf_level.max()) == depth
    assert check_inherited(grown) > 5000


@pytest.mark.parametrize("hole", [0.02, 0.3])
def test_inherited_signs_of_a_sphere_with_a_hole(backend: Backend, hole: float) -> None:
    vertices, faces = shapes.icosphere(2)
    shape = vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 1 - hole]
    grown = grow(backend, shape, 5, tolerance=5e-3)
    check_inherited(grown)


def test_the_room_that_is_handed_on_is_no_larger_than_it_is(backend: Backend) -> None:
    """How far around a point the caps of holes have no say; but for rounding."""
    vertices, faces = shapes.icosphere(2)
    mesh, choice = choose_sign(make_mesh(vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0.7]), "winding")
    scene = Scene(backend, mesh, choice)
    growth = Growth(scene, Limits(depth=5, tolerance=5e-3, band=0.05))
    growth.run()
    tree, caps = growth.octree, scene.signer.caps
    assert caps is not None
    position = oracle.lattice(backend.to_host(tree.point_keys())) / FULL
    room = backend.to_host(caps.room(backend.from_host(position, np.float32)))
    clear = backend.to_host(tree.points.clear)
    assert np.all(clear <= np.maximum(room, 0) + 1e-5)
    assert np.count_nonzero(clear < 0.9 * room) > 100


# ---- The whole build ----


@pytest.mark.parametrize("octree", ["adaptive", "bvh"])
@pytest.mark.parametrize("kind", ["star", "holed torus", "sheet", "zoo", "far", "tiny", "huge"])
def test_build(backend: Backend, kind: str, octree: str) -> None:
    rng = np.random.default_rng(5)
    vertices, faces = shapes.ANY[kind](rng)
    field = sdfcli.build((vertices, faces), device=backend.name, octree=octree, depth=4, tolerance=0.01)
    assert field.run["device"] == backend.name
    leaves = Leaves(field)
    check_order(field)
    check_tiling(leaves)
    check_corners(leaves)
    corners = field.domain.origin + leaves.corner / FULL * field.domain.length
    mesh = make_mesh(vertices, faces)
    triangles = mesh.vertices[mesh.faces]
    hangs = np.zeros(len(corners), bool)
    if octree == "adaptive":
        check_balance(leaves)
        hangs[leaves.hanging()[0]] = True
    true = oracle.distance(corners, triangles)[~hangs]
    size = np.abs(vertices).max()
    bound = 8 * ULP * (field.domain.length + true) + 4 * np.finfo(float).eps * size
    if field.step is not None:
        step = field.step * field.parts  # rounding to parts of steps is finer
        bound += np.where(true > 0.5 * step, 0.5, 1) * step
    assert np.all(np.abs(np.abs(field.distance[~hangs]) - true) <= bound)
    winding = oracle.winding(corners, triangles)[~hangs]
    sided = (true > 1e-5 * field.domain.length) & (np.abs(winding - 0.5) > 1e-5)
    info = field.info
    if kind in ("sheet", "zoo"):  # they enclose nothing
        assert info["sign"] == "none"
        assert "encloses nothing" in info["sign_reason"]
        assert np.all(field.distance >= 0)
    else:
        assert np.array_equal(field.distance[~hangs][sided] < 0, winding[sided] > 0.5)
    assert info["depth"] == leaves.level.max() <= 4
    thin = {"thin": 0.0 if octree == "bvh" else 0.0075, "thin_depth": 4}
    asked = {"octree": octree, "depth": 4, "tolerance": 0.01, "band": 0.02, "sign": "auto"}
    assert info["parameters"] == {**asked, **thin}
    assert info["mesh"]["triangles"] == len(faces)
    assert info["mesh"]["sha256"] == mesh.sha256


def test_build_measures_its_error() -> None:
    # The error that a field says of itself is that which plain NumPy finds at other points.
    shape = shapes.icosphere(2)
    field = sdfcli.build(shape, device="cpu", depth=6, tolerance=0.004)
    rng = np.random.default_rng(6)
    points = field.domain.origin + field.domain.length * rng.random((3000, 3))
    triangles = shapes.triangles(shape)
    true = oracle.distance(points, triangles) * np.where(oracle.winding(points, triangles) > 0.5, -1, 1)
    diagonal = float(np.linalg.norm(np.ptp(shape[0], axis=0)))
    error = (
        np.abs(oracle.Trilinear(field)(points)[0] - true) / diagonal / np.maximum(1, np.abs(true) / (0.02 * diagonal))
    )
    assert error.max() <= field.info["max_error"] <= 0.004
    assert 0 < field.info["rms_error"] <= field.info["max_error"]


@pytest.mark.parametrize("sign", ["none", "pseudonormal", "winding"])
def test_build_with_a_sign_that_is_asked_for(sign: str) -> None:
    field = sdfcli.build(shapes.torus(12, 7), device="cpu", depth=4, tolerance=0.01, sign=sign)
    assert field.info["sign"] == sign
    assert (field.distance.min() < 0) == (sign != "none")
