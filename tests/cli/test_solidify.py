"""`sdfcli solidify`, and `build --sign flood`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import sdfcli
import shapes
from sdfcli.cli.app import app
from sdfcli.errors import UsageError

COARSE = ["--gap", "0.03", "--device", "cpu"]


@pytest.fixture(scope="module")
def soup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An open box with a box in it."""
    path = tmp_path_factory.mktemp("soup") / "soup.ply"
    vertices, faces = shapes.cube()
    trimesh.Trimesh(*shapes.joined((vertices, faces[:-1]), shapes.moved(shapes.cube(), 0.4)), process=False).export(
        path
    )
    return path


def invoke(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("ending", ["ply", "glb", "3mf"])
def test_the_mesh_is_written(ending: str, soup: Path, tmp_path: Path) -> None:
    target = tmp_path / f"solid.{ending}"
    code, out, _ = invoke("solidify", soup, "-o", target, "--json", *COARSE)
    assert code == 0
    report = json.loads(out)
    assert report["output"] == str(target)
    assert sdfcli.check(target)["watertight"]
    assert invoke("solidify", soup, "-o", target, *COARSE)[0] == 2


@pytest.mark.parametrize("words", [("--gap", "0"), ("--gap", "x"), ("--gap", "1"), ("--faces", "3")])
def test_wrong_options(words: tuple[str, str], soup: Path, tmp_path: Path) -> None:
    assert invoke("solidify", soup, "-o", tmp_path / "solid.ply", *words)[0] == 2


def test_the_field_of_the_solid(soup: Path, tmp_path: Path) -> None:
    field = tmp_path / "soup.h5"
    words = ["build", soup, "--sign", "flood", "--tolerance", "5e-3", *COARSE, "-o", field]
    assert invoke(*words)[0] == 0
    assert invoke(*words, "--skip-existing")[0] == 0
    assert invoke("verify", field, "--mesh", soup, "--samples", "3000")[0] == 0
    stored = sdfcli.load(field)
    assert stored.info["solid"]["gap"] == pytest.approx(0.03 * stored.info["mesh"]["diagonal"])
    assert stored.sample([[0.0, 0, 0]]) == pytest.approx(-0.7, abs=0.5)
    assert invoke("build", soup, "--gap", "0.03", "-o", tmp_path / "other.h5")[0] == 2


def test_refusals(soup: Path) -> None:
    for call in (sdfcli.check, sdfcli.estimate):
        with pytest.raises(UsageError, match="flood"):
            call(soup, sign="flood")
    with pytest.raises(UsageError, match="nearest"):
        sdfcli.build(soup, sign="flood", nearest=True)
    assert np.isfinite(sdfcli.MeshDistance(soup, device="cpu").distance([[0.0, 0, 0]])).all()
