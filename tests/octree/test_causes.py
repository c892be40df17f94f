"""Why leaves are there: the causes of splits, each with a mesh that has it, and checked against what they say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import backends
import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend
from sdfcli.backend.headers import KERNELS
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.load import make_mesh
from sdfcli.octree import balance
from sdfcli.octree.causes import JUMP, WORDS, Cause, causes_of, counts, is_known
from sdfcli.octree.grown import Limits
from sdfcli.octree.growth import Growth
from sdfcli.octree.levels import SPLIT
from sdfcli.octree.refine import SAFETY
from sdfcli.scene import Scene

backend, grids = backends.backend, backends.grids

FULL = 2**oracle.LATTICE_BITS
BAND = 0.02
STEPS = np.stack(np.meshgrid(*[[0.0, 0.5, 1.0]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
CORNERS = np.flatnonzero((STEPS != 0.5).all(axis=1))
OCTANTS = [np.flatnonzero(((low <= STEPS) & (low + 0.5 >= STEPS)).all(axis=1)) for low in STEPS[CORNERS] / 2]


def bowl() -> shapes.Shape:
    vertices, faces = shapes.icosphere(1)
    return vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0.3]


def bored() -> shapes.Shape:
    """Flat faces that barely meet the tolerance."""
    ring = shapes.ring(8, 1.0)
    square = ring / np.abs(ring).max(axis=1, keepdims=True)
    return shapes.bored(square * [1, 0.5683], 0.398 * ring * [1, 0.5683], 0.81)


def star() -> shapes.Shape:
    """A random star whose cells are split for almost all causes."""
    return shapes.star(np.random.default_rng(16), 1)


class Case(NamedTuple):
    shape: Callable[[], shapes.Shape]
    parameters: dict[str, Any]
    patience: int = balance.PATIENCE


CASES = {
    Cause.ROOT: Case(shapes.octahedron, {"tolerance": 0.9, "band": 0.9, "depth": 1}),
    Cause.ERROR: Case(lambda: shapes.icosphere(2), {"tolerance": 0.01}),
    Cause.BEND: Case(lambda: shapes.icosphere(2), {"tolerance": 0.01}),
    Cause.SURFACE: Case(star, {"tolerance": 0.02}),
    Cause.SHEET: Case(lambda: shapes.box((0, 0, 0), (1, 1, 0.04)), {"tolerance": 0.03, "thin": 0.01}),
    Cause.BALANCE: Case(star, {"tolerance": 0.02}),
    Cause.HANGING: Case(bored, {"tolerance": 2.2e-3, "band": 4.4e-3}),
    Cause.WAVE: Case(bored, {"tolerance": 2.2e-3, "band": 4.4e-3}, patience=0),
    Cause.PROOF: Case(lambda: shapes.ANY["two"](np.random.default_rng(7)), {"tolerance": 4e-3, "prove": True}),
}
OPEN = Case(bowl, {"tolerance": 0.05, "sign": "winding"})
"""With leaves left coarse at a jump of the sign."""


def built(case: Case, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Field:
    monkeypatch.setattr(balance, "PATIENCE", case.patience)
    given = {"device": "cpu", "band": BAND, "thin": 0.0, "why": True, **case.parameters, **more}
    return sdfcli.build(case.shape(), **given)


def causes(field: Field) -> Any:
    assert field.leaf_cause is not None
    assert field.leaf_cause.dtype == np.uint8
    assert len(field.leaf_cause) == len(field.leaf_key)
    return field.leaf_cause


class Parents:
    """The split cells with a leaf among their children: lower corner and edge on the lattice, and cause."""

    def __init__(self, field: Field) -> None:
        level = field.leaf_level.astype(np.int64)
        self.leaf_low, self.leaf_edge = oracle.lattice(field.leaf_key), FULL >> level
        edge = 2 * self.leaf_edge
        rows = np.column_stack([self.leaf_low // edge[:, None] * edge[:, None], edge, causes_of(causes(field))])
        self.rows = np.unique(rows, axis=0)
        self.low, self.edge, self.cause = self.rows[:, :3], self.rows[:, 3], self.rows[:, 4]

    def by(self, cause: Cause) -> tuple[Any, Any]:
        own = self.cause == cause
        return self.low[own], self.edge[own]


def test_the_kernels_have_the_same_causes() -> None:
    text = (KERNELS / "octree" / "levels.h").read_text()
    (body,) = re.findall(r"^enum Cause : u8 \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"^ +(\w+),", body, re.MULTILINE)
    assert names == ["NOT_SPLIT", *(f"BY_{cause.name}" for cause in list(Cause)[1:])]
    assert [*Cause] == list(range(len(names))) == [*WORDS]
    assert max(Cause) < JUMP


@pytest.mark.parametrize("cause", Cause)
def test_each_cause_has_a_mesh(cause: Cause, monkeypatch: pytest.MonkeyPatch) -> None:
    field = built(CASES[cause], monkeypatch)
    assert is_known(causes(field))
    found = counts(causes(field))
    assert found[cause.name.lower()] > 0
    assert found["jump"] == 0
    assert sum(found.values()) == len(field.leaf_key)
    assert (found["root"] > 0) == (len(field.leaf_key) == 1)
    assert found["sheet"] == 0 or cause is Cause.SHEET
    parents = Parents(field).rows
    assert len(np.unique(parents[:, :4], axis=0)) == len(parents)  # siblings have one cause
    plain = built(CASES[cause], monkeypatch, why=False)
    assert plain.leaf_cause is None
    assert plain.content_sha256 == field.content_sha256
    assert plain.info == field.info


def test_leaves_at_a_jump_of_the_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    field = built(OPEN, monkeypatch)
    assert counts(causes(field))["jump"] == field.info["jump_leaves"] > 0
    assert (causes_of(causes(field)) != Cause.ROOT).all()


def test_causes_say_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells split for an error have it at one of their 27 points; those for a bend, or the surface, have none there."""
    case = CASES[Cause.SURFACE]
    field, tolerance, (vertices, faces) = built(case, monkeypatch), case.parameters["tolerance"], case.shape()
    diagonal, parents = float(np.linalg.norm(np.ptp(vertices, axis=0))), Parents(field)
    for cause in (Cause.ERROR, Cause.BEND, Cause.SURFACE):
        low, edge = parents.by(cause)
        assert len(low) > 0
        points = field.domain.origin + (low[:, None] + STEPS * edge[:, None, None]) / FULL * field.domain.length
        away = oracle.distance(points.reshape(-1, 3), vertices[faces])
        inside = oracle.winding(points.reshape(-1, 3), vertices[faces]) > 0.5
        truth = np.where(inside, -away, away).reshape(len(low), 27)
        weight = np.where(STEPS[CORNERS] == 1, STEPS[:, None], 1 - STEPS[:, None]).prod(axis=2)
        error = np.abs(truth[:, CORNERS] @ weight.T - truth)
        worst = np.zeros(len(low))
        for octant in OCTANTS:
            limit = SAFETY * tolerance * np.maximum(diagonal, np.abs(truth[:, octant]).min(axis=1) / BAND)
            worst = np.maximum(worst, error[:, octant].max(axis=1) / limit)
        if cause is Cause.ERROR:
            assert (worst > 1 - 1e-4).all()
        else:
            assert (worst < 1 + 1e-4).all()
        if cause is Cause.SURFACE:
            corner = field.domain.to_unit(vertices) * FULL
            for own, size, value in zip(low, edge, truth[:, CORNERS], strict=True):
                t = (corner - own) / size
                t = t[((t >= 0) & (t <= 1)).all(axis=1)]
                there = np.where(STEPS[CORNERS] == 1, t[:, None], 1 - t[:, None]).prod(axis=2) @ value
                assert np.abs(there).max() > SAFETY * tolerance * diagonal * (1 - 1e-4)


def test_cells_split_for_balance_touch_leaves_two_levels_finer(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = Parents(built(CASES[Cause.BALANCE], monkeypatch))
    high = parents.leaf_low + parents.leaf_edge[:, None]
    for low, edge in zip(*parents.by(Cause.BALANCE), strict=True):
        touches = ((parents.leaf_low <= low + edge) & (high >= low)).all(axis=1)
        beside = ~((parents.leaf_low >= low) & (high <= low + edge)).all(axis=1)
        assert parents.leaf_edge[touches & beside].min() <= edge / 4


def test_the_first_cause_stays(backend: Backend) -> None:
    """Balance requests splits of coarser leaves, but leaves the causes of those that have one."""
    scene = Scene.of(make_mesh(*star()), "auto", backend)
    growth = Growth(scene, Limits(depth=6, tolerance=0.02, band=0.05))
    growth.run()
    octree, level = growth.octree, 5
    above, own = (octree.levels[k].cells for k in (level - 1, level))
    own.split_request[own.state != SPLIT] = int(Cause.ERROR)
    leaves = backend.to_host(backend.xp.flatnonzero(above.state != SPLIT))
    above.split_request[backend.from_host(leaves)] = 0
    above.split_request[backend.from_host(leaves[::2])] = int(Cause.SURFACE)
    before = backend.to_host(above.split_request).copy()
    flag = backend.xp.zeros(own.count + 1, np.uint8)
    backend.run("sdf_octree_balance", own.count, flag=flag, **octree.place(level))
    coarse = int(flag[-1]) == 3
    after = backend.to_host(above.split_request)
    assert coarse
    assert np.array_equal(after[before > 0], before[before > 0])
    assert set(after[before == 0]) == {0, Cause.BALANCE}


COMPARED = {
    "star": CASES[Cause.SURFACE],
    "sheet": CASES[Cause.SHEET],
    "wave": CASES[Cause.WAVE],
    "open": OPEN,
}


@pytest.mark.parametrize("case", COMPARED.values(), ids=COMPARED)
def test_threads_and_devices_have_the_same_causes(case: Case, grids: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    one, several = (causes(built(case, monkeypatch, threads=threads)) for threads in (1, 3))
    assert np.array_equal(one, several)
    if case is CASES[Cause.WAVE] and grids.name == "cpu":
        return  # fibres take long
    monkeypatch.setattr("sdfcli.pipeline.select_backend", lambda *_: grids)
    assert np.array_equal(causes(built(case, monkeypatch)), one)


def test_octrees_without_causes_are_refused() -> None:
    with pytest.raises(UsageError, match="--why: not with --octree bvh"):
        sdfcli.build(shapes.octahedron(), octree="bvh", why=True, device="cpu")
