"""Proven bounds of a field's error, attacked: no point of a leaf may have a larger error than the leaf's bound."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import oracle
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.cli.app import app
from sdfcli.field.field import Field, lattice_position
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.quality import prove as proofs
from sdfcli.quality.accuracy import at_jumps
from sdfcli.quality.as_given import GivenMesh
from sdfcli.quality.prove import Proof, leaf_boxes, prove
from shapes import Shape

Floats = npt.NDArray[np.float64]

LEAVES, POINTS, CLIMBS = 150, 256, 4
"""Attacked leaves; points in each at first; and rounds of ever closer points around the worst one."""


def needle(rng: np.random.Generator) -> Shape:
    vertices, faces = shapes.cube()
    return shapes.moved((vertices * [1.0, 0.004, 0.004], faces), turn=shapes.turn(rng))


def fan(rng: np.random.Generator) -> Shape:
    """Two cones of slivers on one circle, one of them nearly flat."""
    start = np.arange(150)
    angle = start * 2 * np.pi / 150
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(150)], axis=1)
    end, top, bottom = np.roll(start, -1), np.full(150, 150), np.full(150, 151)
    faces = np.concatenate([np.stack([start, end, top], axis=1), np.stack([end, start, bottom], axis=1)])
    return np.concatenate([circle, [[0.0, 0.0, 1.5], [0.0, 0.0, -0.01]]]), faces


MESHES: dict[str, Callable[[np.random.Generator], Shape]] = {
    **{name: make for name, make in shapes.ANY.items() if name != "holed torus"},  # a jump nearly everywhere
    "needle": needle,
    "fan": fan,
    "coplanar faces": lambda rng: shapes.refined(shapes.refined(shapes.cube())),
    "slightly holed": lambda rng: shapes.holed(rng, shapes.torus(16, 9), 0.02),
    "smallest": lambda rng: shapes.moved(shapes.star(rng, 1), 1e-30),
    "largest": lambda rng: shapes.moved(shapes.star(rng, 1), 5e29),
}


def proven(backend: Backend, field: Field, mesh: Mesh) -> Proof:
    unit, parameters = mesh.unit, field.info["parameters"]
    reference = GivenMesh(mesh, field.info["sign"] != "none", backend)
    return prove(field, reference, backend, unit, parameters["tolerance"], parameters["band"], lambda _: None)


def built(shape: Shape, tolerance: float = 1e-2, noise: float = 0.0, **options: Any) -> Field:
    """A field. noise: standard deviation of what is added to its distances, in units."""
    field = sdfcli.build(shape, tolerance=tolerance, device="cpu", threads=2, **options)
    wrong = noise * field.unit * np.random.default_rng(1).normal(size=len(field.distance))
    return replace(field, distance=(field.distance + wrong).astype(np.float32))


class Attack:
    """The largest errors of leaves (k,) that can be found. at: (k, 3) where, 0 to 1 in the leaves."""

    def __init__(self, field: Field, mesh: Mesh, leaves: npt.NDArray[np.int64]) -> None:
        self.field, self.mesh, rng = field, mesh, np.random.default_rng(0)
        self.reference = GivenMesh(mesh, field.info["sign"] != "none", select_backend("cpu"))
        centre, self.edge = leaf_boxes(field, leaves)
        self.low = centre - self.edge[:, None] / 2
        corner = field._arrays_on(select_backend("cpu"))["leaf_corner"][leaves]
        self.value = field.distance[corner].astype(np.float64)
        inside, every = rng.random((len(leaves), POINTS, 3)), np.arange(len(leaves))
        inside[:, :125] = np.stack(np.meshgrid(*[np.linspace(0, 1, 5)] * 3), axis=-1).reshape(125, 3)
        error = self.errors(inside)
        self.at, self.error, radius = inside[every, error.argmax(axis=1)], error.max(axis=1), 0.25
        for _ in range(CLIMBS):
            inside = np.clip(self.at[:, None] + radius * rng.uniform(-1, 1, (len(leaves), 48, 3)), 0, 1)
            error = self.errors(inside)
            better = error.max(axis=1) > self.error
            self.at[better] = inside[every, error.argmax(axis=1)][better]
            self.error, radius = np.maximum(self.error, error.max(axis=1)), radius / 2.5

    def errors(self, inside: Floats, distance: Callable[[Floats], Floats] | None = None) -> Floats:
        """Errors (k, n) in units, over the growth of the tolerance, at points (k, n, 3), 0 to 1 in the leaves."""
        corner = np.arange(8)[:, None] >> np.arange(3) & 1
        weight = np.prod(np.where(corner == 1, inside[:, :, None], 1 - inside[:, :, None]), axis=-1)
        points = self.low[:, None] + inside * self.edge[:, None, None]
        truth = (distance or self.reference.signed_distance)(points.reshape(-1, 3)).reshape(inside.shape[:2])
        error = np.abs((weight * self.value[:, None]).sum(axis=-1) - truth) / self.mesh.unit
        band = self.field.info["parameters"]["band"] * self.mesh.unit
        return np.asarray(error / np.maximum(1, np.abs(truth) / band))


def surface_points(field: Field) -> Floats:
    """Points of the field's surface (k, 3) on the leaves' edges."""
    leaf_corner = field._arrays_on(select_backend("cpu"))["leaf_corner"]
    position = field.domain.origin + field.domain.length * lattice_position(field.corner_key)
    found = []
    for c in range(8):
        for axis in (a for a in range(3) if not c >> a & 1):
            one, two = leaf_corner[:, c], leaf_corner[:, c | 1 << axis]
            u, v = field.distance[one].astype(float), field.distance[two].astype(float)
            meet = (u < 0) != (v < 0)
            share = (u[meet] / (u[meet] - v[meet]))[:, None]
            found.append((1 - share) * position[one[meet]] + share * position[two[meet]])
    return np.concatenate(found)


def check_surface(cpu: Backend, field: Field, mesh: Mesh, proof: Proof) -> None:
    """No point of the field's surface is farther from the mesh than proven; vertices without surface around are in the
    leaves that have lost it."""
    if proof.surface is None:
        assert field.info["sign"] == "none"
        return
    bounded, points = np.isfinite(proof.bound), surface_points(field)
    points = points[bounded[field.leaf_at(points)]]
    distance = GivenMesh(mesh, False, cpu).signed_distance(points)
    assert distance.max(initial=0.0) <= (proof.surface.error * (1 + 1e-6) + 1e-6) * mesh.unit
    corner = field._arrays_on(cpu)["leaf_corner"]
    value, touched = field.distance[corner], np.zeros(len(field.distance), bool)
    touched[corner[(value.min(axis=1) <= 0) & (value.max(axis=1) >= 0)]] = True
    leaves = np.unique(field.leaf_at(mesh.vertices))
    without = leaves[~touched[corner[leaves]].any(axis=1) & bounded[leaves]]
    assert set(without.tolist()) <= set(proof.surface.lost.tolist())


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("name", MESHES)
def test_no_error_exceeds_its_leafs_bound(cpu: Backend, name: str, noise: float) -> None:
    shape = MESHES[name](np.random.default_rng(7))
    field, mesh = built(shape, 0.01 if noise == 0 else 0.03, noise), load_mesh(shape)
    proof, rng = proven(cpu, field, mesh), np.random.default_rng(3)
    check_surface(cpu, field, mesh, proof)
    bounded = np.flatnonzero(np.isfinite(proof.bound))
    assert len(bounded) > 0.6 * len(proof.bound)
    assert proof.found <= proof.error == proof.bound[bounded].max() == proof.bound[proof.leaf]
    worst, some = bounded[np.argsort(-proof.bound[bounded])], rng.choice(bounded, min(LEAVES, len(bounded)), False)
    leaves = np.unique([*worst[: LEAVES // 3], *some])
    attack = Attack(field, mesh, leaves)
    assert (attack.error <= proof.bound[leaves]).all()
    assert attack.error.max() > 0.5 * proof.error  # the bound is no empty one

    def brute(points: Floats) -> Floats:
        distance = oracle.distance(points, mesh.vertices[mesh.faces])
        inside = oracle.winding(points, mesh.vertices[mesh.faces]) > 0.5 if field.info["sign"] != "none" else False
        return np.where(inside, -distance, distance)

    if name != "zoo":  # faces doubled, which only count once
        assert (attack.errors(attack.at[:, None], brute)[:, 0] <= proof.bound[leaves] * (1 + 1e-6)).all()


def test_fields_that_hold_their_tolerance_are_certified(cpu: Backend) -> None:
    for name in ("torus", "star", "coplanar faces", "needle"):
        shape = MESHES[name](np.random.default_rng(5))
        field = built(shape)
        proof = proven(cpu, field, load_mesh(shape))
        assert (proof.certified, proof.unproven) == (1.0, {}), name
        assert proof.found <= proof.error <= max(0.01, 1.25 * proof.found)


def test_the_bits_do_not_depend_on_threads() -> None:
    shape = shapes.holed(np.random.default_rng(2), shapes.star(np.random.default_rng(1), 2), 0.02)
    field, mesh = built(shape), load_mesh(shape)
    one, three = (proven(select_backend("cpu", threads), field, mesh) for threads in (1, 3))
    assert one.bound.tobytes() == three.bound.tobytes()
    assert one.unproven.keys() == three.unproven.keys()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["star", "shells", "slightly holed", "soup", "fan"])
def test_a_gpu_gives_the_same_bits(cpu: Backend, gpu: Backend, name: str) -> None:
    shape = MESHES[name](np.random.default_rng(5))
    field, mesh = built(shape, noise=2e-3), load_mesh(shape)
    here, there = proven(cpu, field, mesh), proven(gpu, field, mesh)
    assert here.bound.tobytes() == there.bound.tobytes()
    assert (here.found, here.leaf) == (there.found, there.leaf)
    assert {name: leaves.tolist() for name, leaves in here.unproven.items()} == {
        name: leaves.tolist() for name, leaves in there.unproven.items()
    }


def test_holes_are_named_and_nothing_else_is_left_out(cpu: Backend) -> None:
    # An octant of a sphere is missing: on the hole's spherical triangle the sign jumps.
    vertices, faces = shapes.icosphere(2)
    open_ball = vertices, faces[~(vertices[faces].mean(axis=1) > 0).all(axis=1)]
    field = built(open_ball, sign="winding")
    proof = proven(cpu, field, load_mesh(open_ball))
    assert proof.unproven.keys() == {"jump", "open hole"}
    left_out = np.concatenate([*proof.unproven.values()])
    assert np.isinf(proof.bound[left_out]).all()
    reference = GivenMesh(load_mesh(open_ball), True, cpu)
    near = {reason: at_jumps(field, reference, leaf_boxes(field, each)[0]) for reason, each in proof.unproven.items()}
    assert near["jump"].all()
    assert near["open hole"].mean() > 0.95
    assert proof.certified > 0.65


def test_an_unsigned_field_is_proven_without_signs(cpu: Backend) -> None:
    shape = shapes.sheet(np.random.default_rng(0), 5)
    assert proven(cpu, built(shape), load_mesh(shape)).certified == 1.0


def test_what_cannot_be_certified_is_named(cpu: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "HALVINGS", 0)
    shape = shapes.torus(16, 9)
    field, mesh = built(shape), load_mesh(shape)
    proof = proven(cpu, field, mesh)
    assert proof.unproven.keys() == {"not certified after 0 halvings"}
    assert 0.2 < proof.certified < 1
    assert repr(proof).startswith("<Proof: error at most 0.0")
    refuted = proven(cpu, replace(field, distance=field.distance + np.float32(0.2)), mesh)
    assert len(refuted.unproven["above the tolerance"]) > 0


def test_one_wrong_corner_is_found(tmp_path: Path) -> None:
    """A single corner in the band is wrong: random points miss it, a proof does not."""
    vertices, faces = shapes.torus(16, 9)
    np.savetxt(tmp_path / "torus.obj", vertices, "v %.17g %.17g %.17g")
    with (tmp_path / "torus.obj").open("a") as file:
        np.savetxt(file, faces + 1, "f %d %d %d")
    field = sdfcli.build(tmp_path / "torus.obj", tolerance=1e-2, device="cpu")
    finest = np.flatnonzero(field.leaf_level == field.leaf_level.max())
    corner = np.searchsorted(field.corner_key, field.leaf_key[finest[len(finest) // 2]])
    distance = field.distance.copy()
    distance[corner] += 0.015 * field.unit
    field.save(tmp_path / "right.h5")
    replace(field, distance=distance).save(tmp_path / "wrong.h5")

    def verified(name: str, *words: str) -> tuple[int, str]:
        given = ["verify", f"{tmp_path}/{name}.h5", "--mesh", f"{tmp_path}/torus.obj", "--samples", "30", *words]
        done = CliRunner().invoke(app, [*given, "--device", "cpu"])
        return done.exit_code, done.output

    assert verified("wrong")[0] == 0
    code, output = verified("wrong", "--prove")
    assert code == 6
    assert "FAILED, error everywhere at most 0.0" in output
    assert "leaves are not certified: above the tolerance; the first is at" in output
    code, output = verified("right", "--prove")
    assert code == 0
    assert "proof: 100.00 % of" in output
    code, output = verified("wrong", "--prove", "--json")
    report = json.loads(output.splitlines()[0])
    proof = report["proof"]
    assert (code, report["passed"]) == (6, False)
    assert report["tolerance"] < proof["found"] <= proof["max_error"]
    assert proof["leaves"] == len(field.leaf_key)
    assert [each["reason"] for each in proof["unproven"]] == ["above the tolerance"]
    assert sum(each["leaves"] for each in proof["unproven"]) == round((1 - proof["certified"]) * proof["leaves"])
    found = sdfcli.verify(tmp_path / "wrong.h5", tmp_path / "torus.obj", samples=30, prove=True, device="cpu")
    assert found.proof is not None
    assert not found.passed
    assert found.proof.error == proof["max_error"]
    wrong = field.domain.origin + field.domain.length * lattice_position(field.corner_key[[corner]])[0]
    assert np.abs(found.proof.where - wrong).max() <= found.proof.edge


def test_surface_that_is_lost_and_surface_without_faces(cpu: Backend) -> None:
    (ball, faces), (small, others) = shapes.icosphere(3), shapes.icosphere(1)
    shape = np.concatenate([ball, 0.01 * small + [1.5, 0.1, 0.2]]), np.concatenate([faces, others + len(ball)])
    mesh, field = load_mesh(shape), built(shape, tolerance=2e-2, thin=0.0, sign="winding")
    proof = proven(cpu, field, mesh)
    assert proof.surface is not None
    assert proof.unproven == {}
    assert len(proof.surface.extra) == 0
    low, edge = leaf_boxes(field, proof.surface.lost)
    assert 0 < len(low) < 30
    assert (np.abs(low - [1.5, 0.1, 0.2]).max(axis=1) <= edge).all()
    distance = field.distance.copy()
    distance[0] = -1.0  # at the domain's corner
    proof = proven(cpu, replace(field, distance=distance), mesh)
    assert proof.surface is not None
    assert len(proof.surface.extra) == 1
    assert proof.surface.extra[0] == 0
