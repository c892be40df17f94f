"""Builds that split leaves until their error is proven to be within the tolerance."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.field.proven import VALUES
from sdfcli.mesh.load import load_mesh
from sdfcli.octree.causes import Cause
from sdfcli.params import BuildParams
from sdfcli.quality import prove as proofs
from sdfcli.quality.as_given import GivenMesh
from sdfcli.quality.certify import Certifier
from sdfcli.quality.prove import leaf_boxes
from shapes import Shape

Floats = npt.NDArray[np.float64]

NEEDS_SPLITS: dict[str, tuple[Shape, float]] = {
    "one": (shapes.ANY["one"](np.random.default_rng(7)), 4e-3),
    "two": (shapes.ANY["two"](np.random.default_rng(7)), 4e-3),
    "zoo": (shapes.ANY["zoo"](np.random.default_rng(7)), 1e-2),
}
"""Meshes and tolerances at which some leaves of a plain build miss the tolerance, or are not certified."""
TORUS = shapes.torus(16, 9)


def built(shape: Shape, tolerance: float, **options: Any) -> Field:
    return sdfcli.build(shape, **{"tolerance": tolerance, "device": "cpu", "threads": 2, **options})


@pytest.fixture(scope="module", params=NEEDS_SPLITS)
def split(request: pytest.FixtureRequest) -> tuple[str, Field]:
    return request.param, built(*NEEDS_SPLITS[request.param], prove=True, why=True)


def children_of_proof(field: Field) -> npt.NDArray[np.int64]:
    assert field.leaf_cause is not None
    return np.flatnonzero(field.leaf_cause == Cause.PROOF)


def test_every_leaf_is_certified(split: tuple[str, Field]) -> None:
    name, field = split
    plain = built(*NEEDS_SPLITS[name])
    certificate, tolerance = field.info["certificate"], field.info["parameters"]["tolerance"]
    assert certificate["limit"] is None
    assert sum(certificate[reason] for reason in proofs.REASONS) == 0
    assert 0 < certificate["more_leaves"] == field.leaves - plain.leaves <= 0.05 * plain.leaves
    assert field.info["proven_error"] <= tolerance
    assert (VALUES[field.leaf_bound] <= 1.0).all()  # type: ignore[index]
    assert 0 < len(children_of_proof(field)) <= 8 / 7 * certificate["more_leaves"]


def test_the_leaves_that_are_not_split_stay(split: tuple[str, Field]) -> None:
    """All corners of plain leaves are corners of the field, most with the same distances; neighbours are balanced."""
    name, field = split
    plain = built(*NEEDS_SPLITS[name])
    place = np.searchsorted(field.corner_key, plain.corner_key)
    assert np.array_equal(field.corner_key[place], plain.corner_key)
    assert (field.distance[place] == plain.distance).mean() > 0.99
    low, edge = oracle.lattice(field.leaf_key), 1 << 20 - field.leaf_level.astype(np.int64)
    for k in children_of_proof(field)[::7]:
        beside = (low <= low[k] + edge[k]).all(axis=1) & (low + edge[:, None] >= low[k]).all(axis=1)
        assert np.abs(field.leaf_level[beside].astype(int) - int(field.leaf_level[k])).max() <= 1


def test_bounds_of_new_and_changed_leaves_hold(split: tuple[str, Field]) -> None:
    name, field = split
    shape, plain = NEEDS_SPLITS[name][0], built(*NEEDS_SPLITS[name])
    rng, reference = (
        np.random.default_rng(0),
        GivenMesh(load_mesh(shape), field.info["sign"] != "none", select_backend("cpu")),
    )
    centre, edge = leaf_boxes(field, np.arange(field.leaves))
    changed = np.flatnonzero(np.abs(field.sample(centre) - plain.sample(centre)) > 0)
    assert np.isin(children_of_proof(field), changed).mean() > 0.5
    leaves = np.unique([*changed, *children_of_proof(field)])
    points = centre[leaves, None] + edge[leaves, None, None] * rng.uniform(-0.5, 0.5, (len(leaves), 500, 3))
    error = np.abs(field.sample(points) - reference.signed_distance(points.reshape(-1, 3)).reshape(points.shape[:2]))
    assert (error <= field.bound(points)).all()


def test_changed_leaves_are_bounded_anew(cpu: Backend) -> None:
    """And no others: leaves are known by their corners' distances, too."""
    field = built(TORUS, 1e-2)
    distance = field.distance.copy()
    corner = len(distance) // 2
    distance[corner] += 0.1 * field.unit
    params = BuildParams(tolerance=1e-2)
    certifier = Certifier(load_mesh(TORUS), True, cpu, params, 0.05, lambda _: None)
    certifier.prove(field)
    before = certifier.proof.bound
    certifier.prove(replace(field, distance=distance))
    touched = (cpu.to_host(field._arrays_on(cpu)["leaf_corner"]) == corner).any(axis=1)
    assert 0 < touched.sum() <= 8
    assert (certifier.proof.bound[touched] > 0.02).all()
    assert np.array_equal(certifier.proof.bound[~touched], before[~touched])
    assert certifier.proof.unproven.keys() == {"above the tolerance"}


def test_a_certified_field_has_the_plain_ones_bits() -> None:
    plain, field = built(TORUS, 1e-2), built(TORUS, 1e-2, prove=True)
    assert field.content_sha256 == plain.content_sha256
    assert field.info["certificate"]["more_leaves"] == 0
    assert {name: field.info[name] for name in plain.info} == plain.info


@pytest.fixture
def strict() -> Iterator[None]:
    """Proofs certify few leaves: many are to be split."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proofs, "HALVINGS", 1)
        yield


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("share", [0.0, 0.03, 0.2])
def test_the_leaves_stay_within_the_budget(share: float) -> None:
    """The largest bounds are split first, and what is left is said."""
    plain, field = built(TORUS, 1e-2), built(TORUS, 1e-2, prove=True, prove_leaves=share)
    certificate = field.info["certificate"]
    assert certificate["more_leaves"] == field.leaves - plain.leaves <= share * plain.leaves
    assert certificate["more_leaves"] >= 0.4 * share * plain.leaves
    assert (certificate["limit"], certificate["most_leaves"]) == ("leaves", share)
    missed = VALUES[field.leaf_bound] > 1.0  # type: ignore[index]
    assert 0 < missed.sum() == certificate["not_certified"] + certificate["above_tolerance"]
    assert field.info["proven_error"] > 1e-2
    unsplit = built(TORUS, 1e-2, prove=True, prove_leaves=0)
    assert field.info["proven_error"] <= unsplit.info["proven_error"]


@pytest.mark.usefixtures("strict")
def test_the_finest_level_is_a_limit() -> None:
    field = built(TORUS, 1e-2, prove=True, depth=5, prove_leaves="500%")
    assert field.info["certificate"]["limit"] == "depth"
    assert field.leaf_level.max() == 5
    missed = VALUES[field.leaf_bound] > 1.0  # type: ignore[index]
    assert (field.leaf_level[missed] == 5).all()


def test_a_bvh_octree_is_not_split() -> None:
    field = built(TORUS, 1e-2, prove=True, octree="bvh", depth=5)
    certificate = field.info["certificate"]
    assert (certificate["limit"], certificate["more_leaves"]) == ("octree", 0)
    assert certificate["above_tolerance"] > 0
    assert field.content_sha256 == built(TORUS, 1e-2, octree="bvh", depth=5).content_sha256


@pytest.mark.usefixtures("strict")
def test_the_bits_do_not_depend_on_threads() -> None:
    one, three = (built(TORUS, 1e-2, prove=True, threads=threads) for threads in (1, 3))
    assert one.content_sha256 == three.content_sha256
    assert one.leaf_bound.tobytes() == three.leaf_bound.tobytes()  # type: ignore[union-attr]
    assert one.info == three.info


@pytest.mark.gpu
@pytest.mark.parametrize("name", NEEDS_SPLITS)
def test_a_gpu_gives_the_same_bits(gpu: Backend, name: str) -> None:
    here, there = (built(*NEEDS_SPLITS[name], prove=True, device=device) for device in ("cpu", gpu.name))
    assert here.content_sha256 == there.content_sha256
    assert here.leaf_bound.tobytes() == there.leaf_bound.tobytes()  # type: ignore[union-attr]
    assert here.info == there.info
    points = np.random.default_rng(0).uniform(*here.bounds, (50, 3))
    assert gpu.to_host(there.bound(gpu.from_host(points))).tolist() == here.bound(points).tolist()


def test_the_options(tmp_path: Path) -> None:
    shape, tolerance = NEEDS_SPLITS["two"]
    with (tmp_path / "two.obj").open("w") as file:
        np.savetxt(file, shape[0], "v %.17g %.17g %.17g")
        np.savetxt(file, shape[1] + 1, "f %d %d %d")

    def run(*words: object) -> tuple[int, str]:
        given = ["build", tmp_path / "two.obj", "-o", tmp_path / "a.h5", "--tolerance", tolerance, "--device", "cpu"]
        done = CliRunner().invoke(app, [str(word) for word in (*given, *words)])
        return done.exit_code, done.output

    code, output = run("--prove", "--prove-leaves", "0", "--require", "doubtful")
    assert code == 6
    assert "more would be split with a larger --prove-leaves" in output
    assert "the error is not proven to be within the tolerance" in output
    code, output = run("--prove", "--skip-existing")
    assert (code, "was built with --prove-leaves 0, not 0.05" in output) == (2, True)
    code, output = run("--prove", "--force", "--require", "doubtful")
    assert (code, "everywhere (proven); 63 leaves added" in output) == (0, True)
    assert run("--prove", "--prove-leaves", "5%", "--skip-existing")[0] == 0
    code, output = run("--skip-existing")
    assert (code, "was built with --prove, which split more leaves" in output) == (2, True)
    code, output = run("--prove", "--force", "--json")
    assert json.loads(output.splitlines()[0])["certificate"]["more_leaves"] == 63
    code, output = run("--prove-leaves", "5%", "--force")
    assert (code, "--prove-leaves 5%: is for --prove; add it" in output) == (2, True)
    code, output = run("--prove", "--prove-leaves", "much", "--force")
    assert (code, "--prove-leaves much: use a share from 0% to 1000%" in output) == (2, True)


@pytest.mark.parametrize("share", [-0.01, 10.1, "11x", "", float("nan"), "1001%"])
def test_impossible_shares(share: Any) -> None:
    with pytest.raises(UsageError, match="use a share"):
        built(TORUS, 1e-2, prove=True, prove_leaves=share)
