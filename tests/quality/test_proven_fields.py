"""Fields with proven bounds: built, stored, sampled and queried."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from typer.testing import CliRunner

import oracle
import sdfcli
import shapes
from sdfcli.backend import select_backend
from sdfcli.cli.app import app
from sdfcli.cli.wording import rounded_up
from sdfcli.errors import InputError
from sdfcli.field.field import Field
from sdfcli.field.proven import UNBOUNDED, VALUES, encode
from sdfcli.mesh.load import load_mesh
from sdfcli.quality.as_given import GivenMesh
from sdfcli.quality.prove import prove
from shapes import Shape

Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-2


def open_ball() -> Shape:
    """A sphere without an octant."""
    vertices, faces = shapes.icosphere(2)
    return vertices, faces[~(vertices[faces].mean(axis=1) > 0).all(axis=1)]


MESHES = {
    "torus": shapes.torus(16, 9),
    "open ball": open_ball(),
    "sheet": shapes.sheet(np.random.default_rng(0), 5),
}


@pytest.fixture(scope="module", params=MESHES)
def built(request: pytest.FixtureRequest) -> tuple[Field, Shape]:
    shape = MESHES[request.param]
    sign = {"sign": "winding"} if request.param == "open ball" else {}
    return sdfcli.build(shape, tolerance=TOLERANCE, prove=True, device="cpu", threads=2, **sign), shape  # type: ignore[arg-type]


def exact(field: Field, shape: Shape, points: Floats) -> Floats:
    """Signed distances (n,) by brute force."""
    triangles = shape[0][shape[1]]
    distance = oracle.distance(points, triangles)
    inside = oracle.winding(points, triangles) > 0.5 if field.info["sign"] != "none" else False
    return np.where(inside, -distance, distance)


def test_codes_round_up() -> None:
    rng = np.random.default_rng(0)
    bound = np.concatenate([10.0 ** rng.uniform(-6, 4, 5000), VALUES[:UNBOUNDED] * TOLERANCE, [0.0, np.inf]])
    code = encode(bound, TOLERANCE)
    assert (VALUES[code] * TOLERANCE >= bound).all()
    finer = VALUES[np.maximum(code, 1) - 1] * TOLERANCE
    assert ((finer < bound) | (code == 0)).all()
    assert encode(np.array([TOLERANCE, np.nextafter(TOLERANCE, 1), np.inf]), TOLERANCE).tolist() == [128, 129, 255]
    assert (np.diff(VALUES) > 0).all()
    assert (VALUES[0], VALUES[128], VALUES[254]) == (1 / 256, 1.0, 240.0)


def test_bounds_hold_everywhere(built: tuple[Field, Shape]) -> None:
    """In the domain and around it, against brute force; and they are no larger than need be."""
    field, shape = built
    rng, low, high = np.random.default_rng(1), *field.bounds
    anywhere = rng.uniform(low - 2 * (high - low), high + 2 * (high - low), (1500, 3))
    inside = rng.uniform(low, high, (3000, 3))
    points = np.concatenate((inside, anywhere, [low, high, high + 1e6]))
    error, bound = np.abs(field.sample(points) - exact(field, shape, points)), field.bound(points)
    assert (error <= bound).all()
    assert np.isfinite(bound[: len(inside)]).mean() > 0.9
    assert bound.min() > 0
    near = np.isfinite(bound[: len(inside)]) & (np.abs(field.sample(inside)) < (0.02 - TOLERANCE) * field.unit)
    assert (bound[: len(inside)][near] <= (1 + 1e-9) * TOLERANCE * field.unit).all()
    certificate = field.info["certificate"]
    assert certificate["closed"] == (certificate["open_hole"] + certificate["jump"] == 0)
    assert (field.leaf_bound == UNBOUNDED).sum() == certificate["open_hole"] + certificate["jump"]
    assert field.bound(points.reshape(-1, 3, 3)).tolist() == bound.reshape(-1, 3).tolist()
    assert field.bound(points[5]) == bound[5]


def test_they_are_those_of_a_proof(built: tuple[Field, Shape]) -> None:
    field, shape = built
    mesh, backend = load_mesh(shape), select_backend("cpu")
    reference = GivenMesh(mesh, field.info["sign"] != "none", backend)
    proof = prove(field, reference, backend, mesh.unit, TOLERANCE, 0.02, lambda _: None)
    assert np.array_equal(encode(proof.bound, TOLERANCE), field.leaf_bound)  # type: ignore[arg-type]
    assert field.info["proven_error"] == proof.error
    assert field.info["max_error"] <= proof.error


def test_a_file_has_them(built: tuple[Field, Shape], tmp_path: Path) -> None:
    field, _ = built
    points = np.random.default_rng(2).uniform(*field.bounds, (100, 3))
    path = field.save(tmp_path / "field.h5")
    for found in (sdfcli.load(path), sdfcli.load(field.export(tmp_path / "again.h5"))):
        assert found.leaf_bound is not None
        assert not found.leaf_bound.flags.writeable
        assert found.leaf_bound.tobytes() == field.leaf_bound.tobytes()  # type: ignore[union-attr]
        assert found.bound(points).tobytes() == field.bound(points).tobytes()
        assert found.info == field.info
        assert found.content_sha256 == field.content_sha256


def test_without_bounds_the_remedy_is_named() -> None:
    shape = MESHES["torus"]
    field = sdfcli.build(shape, tolerance=TOLERANCE, device="cpu")
    assert field.leaf_bound is None
    assert not {"proven_error", "certificate"} & field.info.keys()
    with pytest.raises(InputError, match="no proven bounds; build it with --prove"):
        field.bound([0, 0, 0])


def test_a_wrong_bound_of_the_domain_alone(built: tuple[Field, Shape]) -> None:
    """Bounds as large as the band: the domain bounds the distance."""
    field, shape = built
    if not field.info["certificate"]["closed"]:
        return
    vague = replace(field, leaf_bound=np.full(field.leaves, 254, np.uint8))
    points = np.random.default_rng(2).uniform(*field.bounds, (100, 3))
    assert np.isfinite(vague.bound(points)).all()
    assert (vague.bound(points) > np.abs(exact(field, shape, points))).all()


def test_the_commands(tmp_path: Path) -> None:
    vertices, faces = MESHES["torus"]
    with (tmp_path / "torus.obj").open("w") as file:
        np.savetxt(file, vertices, "v %.17g %.17g %.17g")
        np.savetxt(file, faces + 1, "f %d %d %d")

    def run(*words: object) -> tuple[int, str]:
        done = CliRunner().invoke(app, [str(word) for word in words])
        return done.exit_code, done.output

    given = ["build", tmp_path / "torus.obj", "-o", tmp_path / "a.h5", "--tolerance", TOLERANCE, "--device", "cpu"]
    code, output = run(*given, "--prove")
    assert code == 0
    field = sdfcli.load(tmp_path / "a.h5")
    shown = f"error at most {rounded_up(field.info['proven_error'] * field.unit):.3g} ("
    assert shown in output
    assert "everywhere (proven)" in output
    assert shown in run("info", tmp_path / "a.h5")[1]
    report = json.loads(run("info", tmp_path / "a.h5", "--json")[1])
    assert report["proven_error"] == field.info["proven_error"]
    assert report["lengths"]["proven_error"] == field.info["proven_error"] * field.unit
    for words in ["--skip-existing"], ["--skip-existing", "--prove"]:
        code, output = run(*given, *words)
        assert (code, "skipped" in output) == (0, True)

    points = np.array([[1.0, 0.0, 0.0], [0.3, 0.2, 0.5]])
    np.savetxt(tmp_path / "points.txt", points)
    rows = run("query", tmp_path / "a.h5", tmp_path / "points.txt", "--bounds", "--gradient")[1]
    found = np.array([line.split() for line in rows.splitlines()], float)
    distance, width = field.sample(points), field.bound(points)
    expected = np.column_stack([distance, field.gradient(points), distance - width, distance + width])
    assert np.array_equal(found, expected)
    (first, _) = run("query", tmp_path / "a.h5", tmp_path / "points.txt", "--bounds", "--json")[1].splitlines()
    assert json.loads(first)["upper"] == expected[0, -1]
    unbounded = replace(field, leaf_bound=np.full(field.leaves, UNBOUNDED, np.uint8)).save(tmp_path / "b.h5")
    (first, _) = run("query", unbounded, tmp_path / "points.txt", "--bounds", "--json")[1].splitlines()
    assert json.loads(first)["lower"] is None

    run(*given, "--force")
    code, output = run(*given, "--skip-existing", "--prove")
    assert (code, "exists, and was built without --prove" in output) == (2, True)
    code, output = run("query", tmp_path / "a.h5", tmp_path / "points.txt", "--bounds")
    assert (code, "a.h5: the field stores no proven bounds; build it with --prove" in output) == (3, True)
    assert run("query", tmp_path / "torus.obj", tmp_path / "points.txt", "--bounds")[0] == 2


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.00335, 0.00335), (0.0033501, 0.00336), (0.99999, 1.0), (9.999e9, 1e10)]
)
def test_bounds_are_rounded_up_in_text(value: float, rounded: float) -> None:
    assert rounded_up(value) == rounded
