"""Inside and outside, against the solid angles of all triangles in float64."""

from __future__ import annotations

import weakref
from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import backends
import oracle
import shapes
from sdfcli.backend import Backend
from sdfcli.backend.cpu import CpuBackend
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.query.mesh_distance import MeshDistance
from sdfcli.sign.caps import cap_triangles
from sdfcli.sign.choice import choose_sign, make_signer
from sdfcli.sign.pseudonormal import PseudonormalSigner, pseudonormals
from sdfcli.sign.signer import NoSigner, Signer
from sdfcli.sign.winding import WindingSigner
from sdfcli.spatial import moments as winding_moments
from sdfcli.spatial.moments import FEW_POINTS, WindingIndex
from sdfcli.spatial.morton import curve_order
from sdfcli.spatial.radix_tree import Bvh
from surfaces import volume
from trees import make_bvh, nearest

backend, warps = backends.backend, backends.warps

CLEAR = 1e-6  # of the diagonal: points nearer to the surface than this are not asked about

Numbers = oracle.Numbers


def bvh_of(backend: Backend, mesh: Mesh) -> Bvh:
    return make_bvh(backend, mesh.unit_triangles)


def triangles_of(backend: Backend, bvh: Bvh) -> Numbers:
    return backend.to_host(bvh.order.triangle).reshape(-1, 3, 3)


def queries(rng: np.random.Generator, triangles: Numbers, count: int, diagonal: float) -> Numbers:
    """Points in and around the cube, half of them near the surface, none of them on it."""
    on = np.einsum(
        "nk,nkx->nx", rng.dirichlet((1, 1, 1), count), triangles[rng.integers(0, len(triangles), count)].astype(float)
    )
    aside = rng.normal(size=(count, 3))
    aside *= 10.0 ** -rng.uniform(0.5, 6, (count, 1)) / np.linalg.norm(aside, axis=1, keepdims=True)
    points = np.concatenate((rng.uniform(-0.2, 1.2, (count, 3)), on + aside)).astype(np.float32)
    return points[oracle.distance(points, triangles) > CLEAR * diagonal]


def decide(backend: Backend, bvh: Bvh, signer: Signer, points: Numbers) -> Numbers:
    at = backend.from_host(points)
    _, slot = nearest(backend, bvh, at)
    return backend.to_host(signer.inside(at, slot)).astype(bool)


def check_signs(backend: Backend, mesh: Mesh, method: str, rng: np.random.Generator, count: int = 60) -> Numbers:
    """No point is on the wrong side. Returns the winding numbers of the points that were asked about."""
    bvh = bvh_of(backend, mesh)
    triangles = triangles_of(backend, bvh)
    points = queries(rng, triangles, count, mesh.diagonal / mesh.domain.length)
    inside = decide(backend, bvh, make_signer(backend, mesh, bvh, method), points)
    winding = oracle.winding(points, triangles)
    # A winding number so near to 1/2 has no side in float32. It takes a flat surface with a symmetric hole to meet one.
    sided = np.abs(winding - 0.5) > 1e-6
    wrong = np.flatnonzero(sided & (inside != (winding > 0.5)))
    assert wrong.size == 0, (points[wrong[0]], winding[wrong[0]], oracle.distance(points[wrong[:1]], triangles))
    return winding


# ---- Pseudonormals ----


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(sorted(shapes.CLOSED)), seed=st.integers(0, 2**32 - 1))
def test_pseudonormals_on_closed_meshes(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes.moved(
        shapes.shuffled(rng, shapes.CLOSED[kind](rng)), 10.0 ** rng.uniform(-9, 9), turn=shapes.turn(rng)
    )
    mesh, choice = choose_sign(make_mesh(*shape), "auto")
    assert choice.method == "pseudonormal"
    winding = check_signs(backend, mesh, "pseudonormal", rng)
    assert np.abs(winding - np.rint(winding)).max() < 1e-9


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([*sorted(shapes.ANY), "few places", "fan", "book"]),
    scale=st.sampled_from([1e-20, 1.0, 1e20]),
    seed=st.integers(0, 2**32 - 1),
)
def test_pseudonormals_are_those_of_numpy(backend: Backend, kind: str, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if kind == "few places":  # faces that are points, that have two equal corners, and that others equal
        shape = rng.integers(0, 3, (40, 3)).astype(float), rng.integers(0, 40, (60, 3))
    elif kind == "fan":  # a vertex of many faces
        rim = np.arange(1, 100)
        shape = rng.normal(size=(101, 3)), np.stack([0 * rim, rim, rim + 1], axis=1)
    elif kind == "book":  # an edge of many faces
        pages = np.arange(2, 100)
        shape = rng.normal(size=(100, 3)), np.stack([0 * pages, 0 * pages + 1, pages], axis=1)
    else:
        shape = shapes.ANY[kind](rng)
    mesh = make_mesh(shape[0] * scale, shape[1]).on(backend)
    order = rng.permutation(len(mesh.faces)).astype(np.uint32)[: rng.integers(1, len(mesh.faces) + 1)]
    found = backend.to_host(pseudonormals(mesh, backend.from_host(order)))
    welded = backend.to_host(mesh.position)[mesh.faces]
    expected = oracle.pseudonormals(mesh.unit_triangles.reshape(-1, 3, 3), welded)[order]
    assert np.abs(found - expected).max() < 2e-7 * np.pi * np.bincount(welded.ravel()).max()
    assert np.array_equal(found[:, 3:], expected[:, 3:].astype(np.float32))  # sums in the order of faces
    for threads in (1, 7):
        again = pseudonormals(Mesh(mesh.vertices, mesh.faces).on(CpuBackend(threads)), order)
        assert again.tobytes() == found.tobytes()


def test_pseudonormals_of_a_cube() -> None:
    # On a cube whose sides are two triangles each, by hand: at a corner the three sides count alike, whatever the
    # number of triangles that each has there; on an edge the two sides; on a diagonal the one.
    mesh = make_mesh(*shapes.cube())
    normals = pseudonormals(mesh, np.arange(12, dtype=np.uint32))
    unit = normals / np.linalg.norm(normals, axis=2, keepdims=True)
    corners = mesh.vertices[mesh.faces]
    middles = (corners + np.roll(corners, -1, axis=1)) / 2
    for face in range(12):
        assert np.allclose(unit[face, :3], corners[face] / 3**0.5, atol=1e-6)
        for k in range(3):
            outwards = np.where(np.abs(middles[face, k]) == 1, middles[face, k], 0)
            assert np.allclose(unit[face, 3 + k], outwards / np.linalg.norm(outwards), atol=1e-6)
        centre = corners[face].mean(axis=0)
        assert np.allclose(unit[face, 6], np.where(np.abs(centre) == 1, centre, 0), atol=1e-6)


def test_pseudonormals_weigh_angles(backend: Backend) -> None:
    # One side of a wedge cut into many triangles at the tip: the mean of all their normals points the wrong way, the
    # mean weighted with angles does not.
    fan = 24
    angle = np.linspace(0, np.pi / 2, fan + 1)
    rim = np.stack((np.cos(angle), np.sin(angle), np.zeros(fan + 1)), axis=1)
    vertices = np.concatenate(([[0, 0, 0]], rim, [[0, 0, -1]]))
    low = fan + 2
    floor = [(0, k, k + 1) for k in range(1, fan + 1)]
    walls = [(0, low, 1), (0, fan + 1, low)] + [(k, low, k + 1) for k in range(1, fan + 1)]
    mesh = make_mesh(vertices, np.array(floor + walls))
    assert mesh.health.watertight
    assert volume(mesh) > 0
    normal = pseudonormals(mesh, np.arange(1, dtype=np.uint32))[0, 0]
    # Three right angles, one for each side of the octant: the sum of the outward normals is along (-1, -1, 1).
    assert np.allclose(normal / np.linalg.norm(normal), np.array([-1, -1, 1]) / 3**0.5)
    check_signs(backend, mesh, "pseudonormal", np.random.default_rng(1))


# ---- Winding numbers ----

DAMAGED = {
    **shapes.ANY,
    "holed shells": lambda rng: shapes.holed(rng, shapes.shells(1), 0.2),
    "half shells": lambda rng: shapes.holed(rng, shapes.shells(1), 0.5),
    "holed overlapping": lambda rng: shapes.holed(rng, shapes.overlapping(rng, 1), 0.15),
    "twice": lambda rng: shapes.joined(*[shapes.star(rng, 1)] * 2),
    "flipped faces": lambda rng: with_flips(rng, shapes.star(rng, 2)),
    "big soup": lambda rng: shapes.soup(rng, 200, 1.0),
    "chain": lambda rng: (rng.random((20, 3)), rng.integers(0, 20, (200, 3))),
    "sheets": lambda rng: shapes.joined(*[shapes.moved(shapes.sheet(rng, 4), offset=[0, 0, z]) for z in (0, 0.4, 0.8)]),
    "inside out": lambda rng: shapes.inside_out(shapes.holed(rng, shapes.torus(12, 7), 0.3)),
    "slivers": lambda rng: with_slivers(rng, shapes.star(rng, 1)),
}


def with_flips(rng: np.random.Generator, shape: shapes.Shape) -> shapes.Shape:
    """A third of the faces turned around."""
    flip = rng.random((len(shape[1]), 1)) < 0.3
    return shape[0], np.where(flip, shape[1][:, ::-1], shape[1])


def with_slivers(rng: np.random.Generator, shape: shapes.Shape) -> shapes.Shape:
    """Along half of the edges a triangle that has two or three corners on it: nothing, or next to nothing, to see."""
    vertices, faces = shape
    some = faces[rng.random(len(faces)) < 0.5]
    a, b = vertices[some[:, 0]], vertices[some[:, 1]]
    third = a + rng.random((len(some), 1)) * (b - a)
    third[: len(some) // 2] = b[: len(some) // 2]
    slivers = np.stack((a, b, third), axis=1).reshape(-1, 3)
    return shapes.joined(shape, (slivers, np.arange(len(slivers)).reshape(-1, 3)))


@settings(max_examples=80, deadline=None)
@given(kind=st.sampled_from(sorted(DAMAGED)), seed=st.integers(0, 2**32 - 1))
def test_winding_signs_of_any_mesh(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_signs(backend, make_mesh(*DAMAGED[kind](rng)), "winding", rng)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.6, 0.9])
def test_winding_signs_of_surfaces_with_holes(backend: Backend, share: float) -> None:
    # Large enough for the expansions of far nodes to matter, and the winding number is near 1/2 at many points.
    rng = np.random.default_rng(int(100 * share))
    mesh = make_mesh(*shapes.holed(rng, shapes.star(rng, 3), share))
    winding = check_signs(backend, mesh, "winding", rng, 250)
    assert np.any((winding > 0.05) & (winding < 0.45))


def test_winding_signs_near_one_half(backend: Backend) -> None:
    # Across the mouth of a bowl the winding number falls from 1/2 and more to less: all points lie where it is close.
    rng = np.random.default_rng(6)
    vertices, faces = shapes.icosphere(3)
    mesh = make_mesh(vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0])
    bvh = bvh_of(backend, mesh)
    triangles = triangles_of(backend, bvh)
    points = (rng.random((1500, 3)) * [0.2, 0.2, 0.6] + [0.4, 0.4, 0.3]).astype(np.float32)
    winding = oracle.winding(points, triangles)
    close = (np.abs(winding - 0.5) < 0.12) & (np.abs(winding - 0.5) > 1e-6)
    assert close.sum() > 100
    inside = decide(backend, bvh, make_signer(backend, mesh, bvh, "winding"), points[close])
    assert np.array_equal(inside, winding[close] > 0.5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), layers=st.integers(1, 2), share=st.floats(0.02, 0.9))
def test_winding_signs_on_the_caps(backend: Backend, seed: int, layers: int, share: float) -> None:
    # The caps of holes in a cube's sides lie in the planes of these sides, and so do the points: there the winding
    # number of a cap has no value, but that of the surface has.
    rng = np.random.default_rng(seed)
    vertices, faces = shapes.holed(rng, shapes.refined(shapes.refined(shapes.cube())), share)
    mesh = make_mesh(vertices, np.tile(faces, (layers, 1)))
    bvh = bvh_of(backend, mesh)
    triangles = triangles_of(backend, bvh)
    low, high = triangles.min(axis=(0, 1)), triangles.max(axis=(0, 1))
    points = rng.uniform(low, high, (150, 3)).astype(np.float32)
    side = rng.integers(0, 3, 150)
    points[np.arange(150), side] = np.where(rng.random(150) < 0.5, low[side], high[side])
    middles = cap_triangles(mesh)[:, :3]
    if len(middles):
        points[:20] = rng.choice(middles, 20)
    points = points[oracle.distance(points, triangles) > CLEAR]
    winding = oracle.winding(points, triangles)
    sided = np.abs(winding - 0.5) > 1e-6
    inside = decide(backend, bvh, make_signer(backend, mesh, bvh, "winding"), points)
    assert np.array_equal(inside[sided], winding[sided] > 0.5)


@settings(max_examples=30, deadline=None)
@given(kind=st.sampled_from(sorted(DAMAGED)), seed=st.integers(0, 2**32 - 1))
def test_exact_winding_numbers(backend: Backend, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*DAMAGED[kind](rng))
    bvh = bvh_of(backend, mesh)
    triangles = triangles_of(backend, bvh)
    points = queries(rng, triangles, 60, mesh.diagonal / mesh.domain.length)
    winding = oracle.winding(points, triangles)
    found = backend.to_host(WindingIndex.of(backend, bvh).winding(backend.from_host(points), 0.0))
    # Summed in float64, returned as float32: half a unit in its last place, and 1e-9 for slivers close by.
    assert np.all(np.abs(found - winding) <= 2.0**-24 * np.abs(winding) + 1e-9)


def test_nodes_far_enough_err_by_less_than_the_margin(backend: Backend) -> None:
    """Of one body, by no more than was measured; see CAP_STEPS."""
    bvh = bvh_of(backend, make_mesh(*shapes.torus(24, 16)))
    triangles = triangles_of(backend, bvh)
    points = np.random.default_rng(3).random((800, 3)).astype(np.float32)
    found = backend.to_host(WindingIndex.of(backend, bvh).winding(backend.from_host(points), winding_moments.BETA))
    error = np.abs(found - oracle.winding(points, triangles)).max()
    assert 0.01 < error < 0.09 < winding_moments.CAP_STEPS[0][0]


def test_a_node_leaves_out_what_its_second_moments_give(backend: Backend) -> None:
    """The third derivatives of 1 / r are 6 / r^4 at most, so its expansion of order one errs by no more than
    3 area radius^2 / (distance - radius)^4, over 4 pi."""
    rng = np.random.default_rng(9)
    bvh = bvh_of(backend, make_mesh(*shapes.soup(rng, 5, 0.5)))
    index = WindingIndex.of(backend, bvh)
    triangles, root = triangles_of(backend, bvh).astype(np.float64), backend.to_host(index.moments)[0].astype(float)
    radius = np.linalg.norm(triangles - root[:3], axis=2).max()
    ways = rng.normal(size=(200, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    for times in (4, 8, 32, 128):
        points = (root[:3] + times * radius * ways).astype(np.float32)
        winding = oracle.winding(points, triangles)
        found = backend.to_host(index.winding(backend.from_host(points), winding_moments.BETA))
        most = 3 * root[7] * radius**2 / ((times - 1) * radius) ** 4 / (4 * np.pi)
        assert np.abs(found - winding).max() < most + 2.0**-36
        assert np.abs(found - winding).max() > 0.001 * most


def test_sums_are_of_multiples(backend: Backend, warps: Backend) -> None:
    """Of 2^-36 over 4 pi, so that they are the same in any order: outside, where the rest cancels, one sees them."""
    points = (2.0 + np.random.default_rng(4).random((500, 3))).astype(np.float32)
    mesh = make_mesh(*shapes.icosphere(2))
    for each in (backend, warps):
        found = each.to_host(WindingIndex.of(each, bvh_of(each, mesh)).winding(each.from_host(points), 0.0))
        grains = found.astype(np.float64) * 4 * np.pi * 2.0**36
        assert np.all(np.abs(grains - np.rint(grains)) <= 2.0**-22 * np.abs(grains))
        assert np.count_nonzero(grains) > 0


def test_moments_are_sums_over_the_triangles(backend: Backend) -> None:
    # The root knows them all: of a few triangles of exact coordinates, by hand in float64.
    rng = np.random.default_rng(7)
    mesh = make_mesh(*shapes.soup(rng, 50, 0.3))
    bvh = bvh_of(backend, mesh)
    t = triangles_of(backend, bvh).astype(np.float64)
    normal = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2
    area = np.linalg.norm(normal, axis=1)
    centre = (area[:, None] * t.mean(axis=1)).sum(axis=0) / area.sum()
    first = np.einsum("ni,nj->ij", normal, t.mean(axis=1) - centre)
    first += first.T  # only the symmetric part counts
    moments = backend.to_host(WindingIndex.of(backend, bvh).moments)[0]
    assert np.allclose(moments[:3], centre, atol=1e-6)
    assert np.allclose(moments[4:7], normal.sum(axis=0), atol=1e-5)
    assert np.isclose(moments[7], area.sum(), rtol=1e-5)
    assert np.allclose(moments[8:11], np.diag(first) / 2, atol=1e-5)
    assert np.allclose(moments[11:14], first[[0, 0, 1], [1, 2, 2]], atol=1e-5)
    assert np.array_equal(moments[14:16].view(np.uint32), backend.to_host(bvh.child)[0])
    assert np.linalg.norm(t - centre, axis=2).max() ** 2 <= moments[3] * (1 + 1e-5)


# ---- Signs handed on ----

REACH = 128


def along_a_curve(backend: Backend, points: Numbers) -> Numbers:
    at = backend.from_host(points, np.float32)
    return backend.to_host(at[curve_order(backend, at)])


def dense_points(rng: np.random.Generator, triangles: Numbers, count: int) -> Numbers:
    """So many that neighbours' balls meet, most of them close to the surface or to the caps."""
    some = triangles[rng.integers(0, len(triangles), count)]
    on = np.einsum("nk,nkx->nx", rng.dirichlet((1, 1, 1), count), some)
    return on + rng.normal(size=(count, 3)) * 10.0 ** -rng.uniform(0.5, 4, (count, 1))


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(sorted(DAMAGED)), seed=st.integers(0, 2**32 - 1), few=st.sampled_from([0, FEW_POINTS]))
def test_signs_handed_on(backend: Backend, kind: str, seed: int, few: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = make_mesh(*DAMAGED[kind](rng))
    bvh = bvh_of(backend, mesh)
    triangles = triangles_of(backend, bvh)
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    points = along_a_curve(
        backend,
        np.concatenate([dense_points(rng, surface, 300) for surface in (triangles, caps) if len(surface)]),
    )
    points = points[oracle.distance(points, triangles) > CLEAR * mesh.diagonal / mesh.domain.length]
    winding = oracle.winding(points, triangles)
    at = backend.from_host(points)
    with mock.patch.object(winding_moments, "FEW_POINTS", few):
        inside = backend.to_host(
            make_signer(backend, mesh, bvh, "winding").inside_along(at, *nearest(backend, bvh, at))
        )
    sided = np.abs(winding - 0.5) > 1e-6
    assert np.array_equal(inside[sided], winding[sided] > 0.5)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_few_points_are_asked(backend: Backend, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    mesh = make_mesh(*shapes.holed(rng, shapes.star(rng, 3), share))
    bvh = bvh_of(backend, mesh)
    signer = make_signer(backend, mesh, bvh, "winding")
    assert (signer.caps is None) == (share == 0)
    at = backend.from_host(along_a_curve(backend, rng.random((20_000, 3))))
    own = backend.to_host(signer.inside(at, None))
    asked = []
    decided = WindingIndex.decided

    def counted(index: WindingIndex, points: Numbers, caps: WindingIndex | None) -> Numbers:
        asked.append(len(points))
        return decided(index, points, caps)

    monkeypatch.setattr(WindingIndex, "decided", counted)
    monkeypatch.setattr(winding_moments, "FEW_POINTS", 0)
    inside = backend.to_host(signer.inside_along(at, *nearest(backend, bvh, at)))
    assert np.array_equal(inside, own)
    assert (sum(asked) > 0) != backend.warps  # by warps crossings are counted
    assert sum(asked) < len(at) / 5


def test_beside_a_needle(backend: Backend) -> None:
    # Two points to both sides of a face so thin that their distances, as computed, say that it is not between them.
    corner = [
        ["0x1.ee2cccp-3", "0x1.99311ap-1", "0x1.6c7242p-1"],
        ["0x1.87c5ap-1", "0x1.8eec2ep-2", "0x1.4f2f52p-2"],
        ["0x1.44e386p-1", "0x1.f78634p-2", "0x1.b15d38p-2"],
    ]
    a, b, c = np.array([[float.fromhex(x) for x in point] for point in corner])
    normal = np.cross(b - a, c - a)
    apex = (a + b + c) / 3 - 0.2 * normal / np.linalg.norm(normal)
    triangles = np.array([[a, b, c], [b, a, apex], [c, b, apex], [a, c, apex]]).reshape(4, 9)
    places = [["0x1.3e50c2p-1", "0x1.00e652p-1", "0x1.bb0222p-2"], ["0x1.3e50c2p-1", "0x1.00e64ap-1", "0x1.bb0232p-2"]]
    points = np.array([[float.fromhex(x) for x in place] for place in places], np.float32)
    bvh = make_bvh(backend, triangles)
    at, link = backend.from_host(points), backend.xp.empty(2, np.uint32)
    backend.run("sdf_sign_link", 2, points=at, distance=nearest(backend, bvh, at)[0], link=link)
    exact = backend.to_host(WindingIndex.of(backend, bvh).winding(at, 0.0))
    assert np.allclose(exact, [1, 0], atol=1e-4)
    assert backend.to_host(link).tolist() == [0, 1]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 600))
def test_links(backend: Backend, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    points = along_a_curve(backend, rng.random((count, 3)))
    distance = (0.5 * rng.random(count) ** 2).astype(np.float32)
    link = backend.xp.empty(count, np.uint32)
    at, apart = backend.from_host(points), backend.from_host(distance)
    backend.run("sdf_sign_link", count, points=at, distance=apart, link=link)
    way = np.linalg.norm(points[:, None].astype(np.float64) - points, axis=2)
    room = distance[:, None].astype(np.float64) + distance - way
    place = np.arange(count)
    reached = (np.abs(place[:, None] - place) <= REACH) & (distance > distance[:, None])
    to = backend.to_host(link).astype(np.int64)
    linked = to != place
    assert np.all((reached & (room > 0))[place, to][linked])
    assert not (reached & (room > 1e-5))[~linked].any()


# ---- Caps ----


def boundary(triangles: Numbers) -> Counter[tuple[bytes, bytes]]:
    """How many times more each directed edge between two positions is used than its reverse; what is zero left out."""
    count: Counter[tuple[bytes, bytes]] = Counter()
    for triangle in triangles + 0.0:
        at = [corner.tobytes() for corner in triangle]
        for start, end in ((0, 1), (1, 2), (2, 0)):
            if at[start] < at[end]:
                count[at[start], at[end]] += 1
            elif at[start] > at[end]:
                count[at[end], at[start]] -= 1
    return Counter({edge: excess for edge, excess in count.items() if excess})


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=12),
    repeat=st.integers(1, 3),
)
def test_caps_close_any_chain(rows: list[tuple[int, int, int]], repeat: int) -> None:
    # Seven vertices, two of them at the same place: equal, degenerate and non-manifold faces all are common.
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]], float)
    faces = np.array(rows * repeat)
    assume(np.ptp(vertices[faces].reshape(-1, 3), axis=0).max() > 0)
    mesh = make_mesh(vertices, faces)
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    surface = mesh.unit_triangles.reshape(-1, 3, 3)
    assert boundary(np.concatenate((surface, caps))) == {}
    assert len(caps) == sum(abs(excess) for excess in boundary(surface).values())


@settings(max_examples=20, deadline=None)
@given(kind=st.sampled_from(sorted(DAMAGED)), seed=st.integers(0, 2**32 - 1))
def test_caps_close_meshes(kind: str, seed: int) -> None:
    mesh = make_mesh(*DAMAGED[kind](np.random.default_rng(seed)))
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    surface = mesh.unit_triangles.reshape(-1, 3, 3)
    assert boundary(np.concatenate((surface, caps))) == {}
    assert (len(caps) == 0) == mesh.health.watertight
    assert caps.min(initial=0) >= 0
    assert caps.max(initial=0) <= 1


def test_each_hole_has_its_own_cap() -> None:
    # Two opposite sides of a cube are missing: no cap crosses the inside.
    vertices, faces = shapes.cube()
    walls = np.abs(vertices[faces][:, :, 2].mean(axis=1)) < 1
    mesh = make_mesh(vertices, faces[walls])
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    assert len(caps) == 8
    assert np.all(np.ptp(caps[:, :, 2], axis=1) < 1e-12)


def test_distance_to_the_caps(backend: Backend) -> None:
    rng = np.random.default_rng(8)
    mesh = make_mesh(*shapes.holed(rng, shapes.star(rng, 2), 0.1))
    bvh = bvh_of(backend, mesh)
    signer = make_signer(backend, mesh, bvh, "winding")
    points = rng.random((100, 3)).astype(np.float32)
    assert signer.caps is not None
    clear = backend.to_host(signer.caps.distance(backend.from_host(points)))
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    assert np.allclose(clear, oracle.distance(points, caps.astype(np.float32)), rtol=0, atol=1e-6)
    # Beyond the guard the caps have no say in the sign.
    far = clear > signer.caps.guard
    assert far.any()
    assert np.abs(oracle.winding(points[far], caps)).max() <= 0.45 + 1e-6


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_room_around_the_caps(backend: Backend, share: float) -> None:
    rng = np.random.default_rng(9)
    mesh = make_mesh(*shapes.holed(rng, shapes.star(rng, 3), share))
    signer = make_signer(backend, mesh, bvh_of(backend, mesh), "winding")
    caps = cap_triangles(mesh).reshape(-1, 3, 3)
    points = np.concatenate((rng.uniform(-0.5, 1.5, (2000, 3)), caps.mean(axis=1))).astype(np.float32)
    assert signer.caps is not None
    room = backend.to_host(signer.caps.room(backend.from_host(points)))[:, None]
    assert np.all(room[2000:] < 0)
    free = points[room[:, 0] > 0].astype(np.float64)
    assert len(free) > 20
    way = rng.normal(size=free.shape)
    way *= room[room > 0][:, None] / np.linalg.norm(way, axis=1, keepdims=True)
    for part in (0.0, 0.5, 1.0):
        assert np.abs(oracle.winding(free + part * way, caps)).max() <= 0.45 + 1e-6


def test_closed_surfaces_have_no_caps(backend: Backend) -> None:
    mesh = make_mesh(*shapes.torus(12, 7))
    signer = make_signer(backend, mesh, bvh_of(backend, mesh), "winding")
    assert signer.closed
    assert signer.caps is None


# ---- The choice ----


def edited(shape: shapes.Shape, *more: list[int], drop: int = 0) -> Mesh:
    """Without the first faces, and with others added."""
    return make_mesh(shape[0], np.concatenate((shape[1][drop:], np.reshape(more, (-1, 3)).astype(np.int64))))


def test_reasons() -> None:
    cube = shapes.cube()
    a, b, c = cube[1][0].tolist()
    cases = {
        "closed": (edited(cube), "pseudonormal"),
        "3 open edges": (edited(cube, drop=1), "winding"),
        "1 duplicate face": (edited(cube, [a, b, c]), "winding"),
        "3 non-manifold edges": (edited(cube, [a, b, c], [a, c, b]), "winding"),
        "1 degenerate face": (edited(cube, [a, b, b]), "winding"),
    }
    for words, (mesh, method) in cases.items():
        same, choice = choose_sign(mesh, "auto")
        assert choice.method == method
        assert words in choice.reason
        assert "turned" not in choice.reason
        assert np.array_equal(same.faces, mesh.faces)


@pytest.mark.parametrize("asked", ["pseudonormal", "winding", "none"])
def test_what_is_asked_for_is_taken(asked: str, cpu: Backend) -> None:
    mesh = make_mesh(*shapes.cube())
    _, choice = choose_sign(mesh, asked)
    assert (choice.method, choice.reason) == (asked, "asked for")
    signer = make_signer(cpu, mesh, bvh_of(cpu, mesh), asked)
    assert signer.method == asked
    kinds = {"pseudonormal": PseudonormalSigner, "winding": WindingSigner, "none": NoSigner}
    assert type(signer) is kinds[asked]


@pytest.mark.parametrize("asked", ["auto", "pseudonormal", "winding"])
@pytest.mark.parametrize("kind", sorted(shapes.CLOSED))
def test_closed_meshes_that_are_inside_out_are_turned(kind: str, asked: str) -> None:
    shape = shapes.CLOSED[kind](np.random.default_rng(9))
    mesh, choice = choose_sign(make_mesh(*shapes.inside_out(shape)), asked)
    assert "turned" in choice.reason
    assert volume(mesh) > 0
    index = MeshDistance(shapes.inside_out(shape), sign=asked, device="cpu")
    points = np.random.default_rng(10).uniform(-1, 1, (200, 3)) * np.abs(shape[0]).max(axis=0)
    points = points[oracle.distance(points, shapes.triangles(shape)) > 1e-5]
    assert np.array_equal(index.signed_distance(points) < 0, oracle.winding(points, shapes.triangles(shape)) > 0.5)


def test_what_is_not_turned() -> None:
    inside_out = make_mesh(*shapes.inside_out(shapes.cube()))
    same, choice = choose_sign(inside_out, "none")
    assert same is inside_out
    assert choice.reason == "asked for"
    sheet = make_mesh(*shapes.inside_out(shapes.moved(shapes.cube(), offset=5)))
    sheet = make_mesh(sheet.vertices, sheet.faces[:8])  # four sides of a cube
    same, choice = choose_sign(sheet, "auto")
    assert np.array_equal(same.faces, sheet.faces)
    assert "turned" not in choice.reason


def test_no_sign(backend: Backend) -> None:
    mesh = make_mesh(*shapes.cube())
    bvh = bvh_of(backend, mesh)
    points = np.random.default_rng(11).random((50, 3)).astype(np.float32)
    assert not decide(backend, bvh, make_signer(backend, mesh, bvh, "none"), points).any()


def test_moments_are_freed_each_time(cpu: Backend) -> None:
    mesh = make_mesh(*shapes.icosphere(1))
    signer = make_signer(cpu, mesh, bvh_of(cpu, mesh), "winding")
    assert isinstance(signer, WindingSigner)
    for _ in range(2):
        index = weakref.ref(signer.index)
        signer.release()
        assert index() is None
