"""Crossings of a sparse grid with the surface, against all edges and all triangles in another formulation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import oracle
import sdfcli
import shapes
from sdfcli.errors import UsageError
from sdfcli.export.dual_grid import DualGrid

Floats = npt.NDArray[np.float64]


def rng_of_today() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(4), "big"))


def grid_of(shape: shapes.Shape, cells: int, **options: Any) -> tuple[DualGrid, Floats, float]:
    """A grid, with the origin and the step of its lattice in the mesh's units."""
    found = sdfcli.samples(shape, count=10, grid=cells, device="cpu", **options).grid
    assert found is not None
    return found, found.origin, float(found.step)


def lattice(cells: int) -> npt.NDArray[np.int64]:
    return np.stack(np.meshgrid(*[np.arange(cells + 1)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)


def met(start: Floats, end: Floats, corners: Floats) -> Floats:
    """Where segments (n, 3) cross triangles (f, 3, 3): shares (n, f), NaN where they do not. By Cramer's rule."""
    way, u, v = end - start, corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    across = np.cross(way[:, None], v[None])
    scale = np.einsum("nfk,fk->nf", across, u)
    off = start[:, None] - corners[None, :, 0]
    turned = np.cross(off, u[None])
    with np.errstate(divide="ignore", invalid="ignore"):
        a = np.einsum("nfk,nfk->nf", off, across) / scale
        b = np.einsum("nk,nfk->nf", way, turned) / scale
        share = np.einsum("fk,nfk->nf", v, turned) / scale
    inside = (a >= -1e-9) & (b >= -1e-9) & (a + b <= 1 + 1e-9) & (share >= -1e-9) & (share <= 1 + 1e-9)
    return np.where(inside, share, np.nan)


@pytest.mark.parametrize("kind", ["star", "two", "soup"])
def test_against_all_edges_and_triangles(kind: str) -> None:
    """Of a random shape, of two that overlap, and of a solid's soup in pieces: the edges with different signs at their
    ends, at a crossing, with the crossed face's normal turned outwards."""
    rng, cells = rng_of_today(), 16
    made = {"star": lambda: shapes.star(rng, 2), "two": lambda: shapes.overlapping(rng, 1)}
    shape = made.get(kind, lambda: shapes.shuffled(rng, shapes.star(rng, 1)))()
    if kind == "soup":
        shape = shapes.triangles(shape).reshape(-1, 3), np.arange(3 * len(shape[1])).reshape(-1, 3)
    shape = shapes.moved(shape, 10.0 ** rng.uniform(-9, 9), rng.normal(size=3), shapes.turn(rng))
    found, origin, step = grid_of(shape, cells)
    corners = (shapes.triangles(shape) - origin) / step
    points = lattice(cells)
    inside = oracle.winding(points.astype(float), corners) > 0.5
    sure = oracle.distance(points.astype(float), corners) > 1e-4
    number = {tuple(point): k for k, point in enumerate(points.tolist())}
    expected = set()
    for axis in range(3):
        lower = points[points[:, axis] < cells]
        one = np.array([number[tuple(each)] for each in lower.tolist()])
        two = np.array([number[tuple(each)] for each in (lower + np.eye(3, dtype=int)[axis]).tolist()])
        changes = (inside[one] != inside[two]) & sure[one] & sure[two]
        expected |= {(*map(int, points[each]), axis) for each in one[changes]}
    rows = [(*map(int, edge), int(axis)) for edge, axis in zip(found.edge, found.axis, strict=True)]
    assert len(set(rows)) == len(rows)
    upper = [tuple(each) for each in (found.edge.astype(int) + np.eye(3, dtype=int)[found.axis]).tolist()]
    known = {row for row, end in zip(rows, upper, strict=True) if sure[number[row[:3]]] and sure[number[end]]}
    assert known == expected
    assert len(rows) > 100
    start = found.edge.astype(float)
    way = np.eye(3)[found.axis]
    shares = met(start, start + way, corners)
    off = np.abs(shares - found.share[:, None])
    assert np.nanmin(off, axis=1).max() < 1e-5
    at = start + way * found.share[:, None]
    assert oracle.distance(at, corners).max() < 1e-5
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    aligned = np.abs(np.einsum("nk,fk->nf", found.normal.astype(float), normal))
    assert np.where(off < 1e-5, aligned, 0).max(axis=1) == pytest.approx(1, abs=1e-5)
    outwards = np.sum(way * found.normal, axis=1)
    assert (np.where(found.inside, outwards, -outwards) >= -1e-5).all()
    ends = np.array([inside[number[row[:3]]] for row in rows])
    certain = np.array([sure[number[row[:3]]] for row in rows])
    assert np.array_equal(found.inside[certain], ends[certain])


@pytest.mark.parametrize(
    ("slabs", "at"),
    [
        ([(-1, 0.05)], 0.05),
        ([(-1, 0.05), (0.06, 0.08)], 0.05),  # out, and then in and out
        ([(0.05, 0.06), (0.08, 1)], 0.05),
        ([(-1, 0.1), (0.05, 0.15)], 0.15),  # the second slab begins within the first
        ([(-1, 0.05), (0.06, 1)], None),  # a gap, a plate, and an overlap within an edge: the same sign at both ends
        ([(0.05, 0.06)], None),
        ([(-1, 0.1), (0.05, 1)], None),
    ],
)
def test_several_crossings_of_an_edge(slabs: list[tuple[float, float]], at: float | None) -> None:
    """Edges along x from -0.05 to 0.2125, through slabs; the boxes at the ends fix the lattice."""
    boxes = [shapes.box([low, -1, -1], [high, 1, 1]) for low, high in slabs]
    ends = [shapes.box([x, 2, 2], [x + 0.5, 3, 3]) for x in (-1, 2.5)]
    found, origin, step = grid_of(shapes.joined(*boxes, *ends), 16)
    assert origin == pytest.approx([-1.1] * 3)
    assert step == pytest.approx(0.2625)
    rows = np.flatnonzero((found.axis == 0) & (found.edge[:, 0] == 4) & (found.edge[:, 1:] == 4).all(axis=1))
    assert len(rows) == (at is not None)
    for row in rows:
        assert found.share[row] * step - 0.05 == pytest.approx(at, abs=1e-6)
        inside = slabs[0][0] == -1
        assert found.inside[row] == inside
        assert found.normal[row] == pytest.approx([1.0 if inside else -1.0, 0, 0])


def test_cells_and_vertices() -> None:
    """The cells around the edges, each once, with the mean of its edges' crossings."""
    rng = rng_of_today()
    found, _, _ = grid_of(shapes.star(rng, 2), 20)
    crossings: dict[tuple[int, ...], list[Floats]] = {}
    for edge, axis, share in zip(found.edge.astype(int), found.axis, found.share, strict=True):
        for a in (0, 1):
            for b in (0, 1):
                down = np.zeros(3, int)
                down[(axis + 1) % 3], down[(axis + 2) % 3] = a, b
                crossings.setdefault(tuple(edge - down), []).append(down + np.eye(3)[axis] * share)
    assert [tuple(cell) for cell in found.cell.tolist()] == sorted(crossings, key=lambda cell: cell[::-1])
    means = np.array([np.mean(crossings[tuple(cell)], axis=0) for cell in found.cell.tolist()])
    assert found.vertex == pytest.approx(means, abs=1e-6)


def test_a_ball_at_512_cells() -> None:
    """Signs, positions and normals of a fine grid; memory grows with the surface, so there are few cells."""
    ball = shapes.moved(shapes.icosphere(3), 3.0, [1, 2, 3])
    found, origin, step = grid_of(ball, 512)
    at = origin + step * (found.edge + np.eye(3)[found.axis] * found.share[:, None]) - [1, 2, 3]
    length = np.linalg.norm(at, axis=1)
    assert length.max() <= 3 + 1e-5
    assert length.min() > 2.97
    assert (np.sum(at / length[:, None] * found.normal, axis=1) > 0.98).all()
    area = 4 * np.pi * (512 / 2.1) ** 2
    assert len(found.edge) == pytest.approx(1.5 * area, rel=0.02)
    assert len(found.cell) == pytest.approx(1.5 * area, rel=0.02)


def test_the_file(tmp_path: Path) -> None:
    """In every schema, in normalized units for a normalized one."""
    star = shapes.star(np.random.default_rng(5), 2)
    for schema in ("deepsdf", "dora", "triposg"):
        found = sdfcli.samples(star, schema=schema, count=200, grid=32, device="cpu")
        with np.load(found.save(tmp_path / f"{schema}.npz"), allow_pickle=False) as read:
            edge, axis, share = (read[f"grid_{name}"] for name in ("edge", "axis", "share"))
            at = read["grid_origin"] + read["grid_step"] * (edge + np.eye(3)[axis] * share[:, None])
            facts = json.loads(str(read["info"]))["facts"]
            assert edge.dtype == read["grid_cell"].dtype == np.uint16
        if schema != "deepsdf":
            at = at / found.scale - found.offset
        assert oracle.distance(at, shapes.triangles(star)).max() < 1e-5
        assert (facts["grid_edges"], facts["grid_cells"]) == (len(edge), len(found.grid.cell))
    again = sdfcli.samples(star, count=200, grid=32, device="cpu", threads=1)
    assert (tmp_path / "deepsdf.npz").read_bytes() == again.save(tmp_path / "again.npz").read_bytes()


def test_without_signs_nothing_changes() -> None:
    sheet = shapes.sheet(np.random.default_rng(1), 3)
    found = sdfcli.samples(sheet, count=10, grid=16, sign="none", device="cpu").grid
    assert found is not None
    assert (len(found.edge), len(found.cell)) == (0, 0)


@pytest.mark.parametrize("cells", [15, 4097, 20.5, "x", float("nan")])
def test_wrong_cell_counts(cells: Any) -> None:
    with pytest.raises(UsageError, match=f"--grid {cells}: use a whole number from 16 to 4,096"):
        sdfcli.samples(shapes.cube(), grid=cells, device="cpu")
