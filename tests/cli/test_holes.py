"""`--holes cap`, by the command line and in Python."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import shapes
from sdfcli.cli.app import app
from sdfcli.errors import UsageError
from sdfcli.mesh.holes import capped
from sdfcli.mesh.load import load_mesh

CAP = ["--holes", "cap", "--device", "cpu"]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ball without its top and a smaller part of its bottom."""
    path = tmp_path_factory.mktemp("scan") / "scan.ply"
    vertices, faces = shapes.icosphere(2)
    height = vertices[faces].mean(axis=1)[:, 2]
    trimesh.Trimesh(vertices, faces[(height < 0.8) & (height > -0.9)], process=False).export(path)
    return path


@pytest.fixture(scope="module")
def field(scan: Path) -> Path:
    path = scan.with_suffix(".h5")
    assert invoke("build", scan, "--tolerance", "1e-2", "--prove", *CAP, "-o", path)[0] == 0
    return path


def invoke(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


def test_the_field_is_known_again(field: Path, scan: Path, tmp_path: Path) -> None:
    """It is proven everywhere, passes, and is the same as one that exists; its surface is near the closed mesh."""
    stored = sdfcli.load(field)
    assert stored.info["certificate"]["open_hole"] == stored.info["certificate"]["jump"] == 0
    assert stored.info["mesh"]["open_edges"] > 0
    assert invoke("verify", field, "--mesh", scan, "--samples", "3000", "--prove")[0] == 0
    assert invoke("build", scan, "--tolerance", "1e-2", "--prove", *CAP, "--skip-existing", "-o", field)[0] == 0
    code, _, error = invoke("build", scan, "--tolerance", "1e-2", "--prove", "--skip-existing", "-o", field)
    assert code == 2
    assert "holes" in error
    surface = tmp_path / "surface.ply"
    code, out, _ = invoke("extract", field, "--mesh", scan, "--cells", "48", "-o", surface, "--json")
    assert code == 0
    assert json.loads(out)["deviation"]["max"] < 0.02 * stored.info["mesh"]["diagonal"]


def test_reports(field: Path, scan: Path, tmp_path: Path) -> None:
    closed, holes = capped(load_mesh(scan))
    code, out, _ = invoke("build", scan, "--tolerance", "1e-2", *CAP, "-o", tmp_path / "a.h5", "--json")
    assert code == 0
    assert json.loads(out)["holes"] == asdict(holes)
    loops = sdfcli.check(scan)["open_edges"]
    assert holes.count == 2
    assert holes.faces == loops - 2 * holes.count
    assert holes.area == pytest.approx(trimesh.Trimesh(closed.vertices, closed.faces[-holes.faces :]).area)
    row = f"2 holes closed by {holes.faces} faces"
    assert row in invoke("build", scan, "--tolerance", "1e-2", *CAP, "-o", tmp_path / "b.h5")[1]
    assert row in invoke("info", field)[1]


def test_distances_and_samples_of_the_closed_mesh(scan: Path, tmp_path: Path) -> None:
    code, out, _ = invoke("query", scan, "0,0,0.7", *CAP)
    assert code == 0
    closed, _ = capped(load_mesh(scan))
    expected = sdfcli.MeshDistance((closed.vertices, closed.faces), device="cpu").signed_distance([[0, 0, 0.7]])
    assert [float(out)] == pytest.approx(expected, abs=1e-6)
    assert float(invoke("query", scan, "0,0,0.7", "--device", "cpu")[1]) < float(out) - 0.2  # the rim is farther away
    samples = tmp_path / "samples.npz"
    assert invoke("samples", scan, "--count", "2000", *CAP, "-o", samples)[0] == 0
    with np.load(samples) as found:
        rows = np.concatenate((found["pos"], found["neg"]))
    index = sdfcli.MeshDistance(scan, holes="cap", device="cpu")
    assert np.allclose(index.signed_distance(rows[:, :3]), rows[:, 3], atol=1e-6)


def test_earlier_frames(scan: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nearest faces include those that close holes."""
    options = {"holes": "cap", "tolerance": 2e-2, "device": "cpu"}
    first = sdfcli.build(scan, nearest=True, **options)  # type: ignore[arg-type]
    assert first.nearest is not None
    assert first.nearest.max() >= first.info["mesh"]["triangles"]
    second = sdfcli.build(scan, previous=first, **options)  # type: ignore[arg-type]
    assert second.run["previous"]
    assert first.content_sha256 == second.content_sha256


def test_check_and_estimate(scan: Path) -> None:
    report = sdfcli.check(scan, holes="cap")
    assert report["sign_confidence"] == 1
    assert {"what": f"{report['open_edges']} open edges", "then": "holes closed by faces"} in report["findings"]
    assert sdfcli.estimate(scan, holes="cap", tolerance=1e-2).triangles == len(capped(load_mesh(scan))[0].faces)


def test_refusals(scan: Path, field: Path) -> None:
    with pytest.raises(UsageError, match="use open, cap"):
        sdfcli.build(scan, holes="fill")
    with pytest.raises(UsageError, match="not with --sign flood"):
        sdfcli.build(scan, holes="cap", sign="flood")
    with pytest.raises(UsageError, match="sequences"):
        sdfcli.build_sequence([scan], holes="cap")
    with pytest.raises(UsageError, match="has its own"):
        sdfcli.samples(sdfcli.MeshDistance(scan), holes="cap")
    code, _, error = invoke("query", field, "0,0,0", "--holes", "cap")
    assert code == 2
    assert len(error.splitlines()) == 1
