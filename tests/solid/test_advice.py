"""Advice for meshes without certain signs: a gap that holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh
from typer.testing import CliRunner

import backends
import sdfcli
import shapes
from sdfcli.backend import Backend, select_backend
from sdfcli.cli.app import app
from sdfcli.mesh.load import make_mesh
from sdfcli.mesh.mesh import Mesh
from sdfcli.params import BuildParams
from sdfcli.solid import advice
from sdfcli.solid.advice import advice_for, advice_text
from sdfcli.solid.solidify import Solid, solid_of
from shapes import Shape

backend = backends.backend


def slotted(width: float) -> Shape:
    """A cube with edge 2 and a slot across its lid."""
    vertices, faces = shapes.cube()
    low, high = (
        np.array([[x, -1, 1], [y, -1, 1], [y, 1, 1], [x, 1, 1.0]]) for x, y in ((-1, -width / 2), (width / 2, 1))
    )
    lid = [(half, np.array([[0, 1, 2], [0, 2, 3]])) for half in (low, high)]
    return shapes.joined((vertices, faces[:-2]), *lid)


def bowl() -> Shape:
    vertices, faces = shapes.icosphere(2)
    return vertices, faces[vertices[faces].mean(axis=1)[:, 2] < 0]


def flooded(mesh: Mesh, gap: float) -> Solid:
    """The solid for a gap in diagonals, on an octree that is coarser than by default."""
    return solid_of(mesh, gap / 4, 4 * mesh.diagonal, select_backend("cpu"), measured=False)


def test_the_gap_is_wide_enough_and_not_much_wider() -> None:
    width = np.random.default_rng().uniform(0.1, 0.4)
    mesh = make_mesh(*slotted(width))
    found = advice_for(mesh, select_backend("cpu"))
    assert found["sign"] == "flood"
    assert 1 < found["gap"] * mesh.diagonal / (width / 2) < 1.6 * 2**0.5
    solid = flooded(mesh, found["gap"])
    assert solid.volume > 7.5
    assert solid.leak is None


@pytest.mark.parametrize("name", ["bowl", "soup"])
def test_builds_and_checks_advise_the_same(name: str, backend: Backend, caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    shape = {"bowl": bowl(), "soup": shapes.soup(rng, 50, 0.2)}[name]
    options = {"tolerance": 2e-2, "device": backend.name}
    field = sdfcli.build(shape, **options)  # type: ignore[arg-type]
    assert field.info["verdict"] == "doubtful"
    assert field.info["advice"] == sdfcli.check(shape, **options)["advice"]  # type: ignore[arg-type]
    assert advice_text(field.info["advice"]) in caplog.text
    assert flooded(make_mesh(*shape), field.info["advice"]["gap"]).leak is None


def test_no_advice_where_signs_are_certain_or_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is time spent on it."""

    def called(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(advice, "advice_for", called)
    for shape, sign in ((shapes.cube(), "auto"), (slotted(0.1), "auto"), (bowl(), "winding"), (bowl(), "none")):
        assert "advice" not in sdfcli.build(shape, sign=sign, tolerance=2e-2, device="cpu").info
        assert "advice" not in sdfcli.check(shape, sign=sign, device="cpu")
    with pytest.raises(AssertionError):
        sdfcli.build(bowl(), tolerance=2e-2, device="cpu")
    assert list(sdfcli.build_sequence([bowl()], tolerance=2e-2, device="cpu"))  # no frame is advised


def test_without_memory_the_gap_is_auto() -> None:
    found = advice_for(make_mesh(*bowl()), select_backend("cpu"), 1)
    assert found == {"sign": "flood", "gap": None}
    assert "--gap auto " in advice_text(found)


def test_the_gap_is_relative_to_the_diagonal() -> None:
    shape = np.array([[0, 0, 0], [1, 0, 0], [0, 0.05, 0]]), np.array([[0, 1, 2]])
    diagonal = make_mesh(*shape).diagonal
    field = sdfcli.build(shape, sign="flood", gap=0.03, unit=10.0, tolerance=5e-3, device="cpu")
    assert field.info["solid"]["gap"] == pytest.approx(0.03 * diagonal)
    assert sdfcli.verify(field, shape, samples=3000, device="cpu").passed


def test_one_note(tmp_path: Path) -> None:
    path = tmp_path / "bowl.ply"
    trimesh.Trimesh(*bowl(), process=False).export(path)
    note = advice_text(advice_for(make_mesh(*bowl()), select_backend("cpu")))
    for words in (["build", path, "--tolerance", "2e-2", "-o", tmp_path / "bowl.h5"], ["check", path]):
        result = CliRunner().invoke(app, [str(word) for word in (*words, "--device", "cpu", "--json")])
        assert result.exit_code == 0
        assert result.stderr.count(f"note: {path}: {note}\n") == 1
        assert json.loads(result.stdout)["advice"]["gap"] == sdfcli.check(path, device="cpu")["advice"]["gap"]
    assert BuildParams.sign == "auto"
