"""STEP: by Open CASCADE, what is read, what is refused, and what is said."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import step_files
from sdfcli.errors import InputError, ReadingNote
from sdfcli.mesh.formats.scenes import units_of
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh

pytestmark = pytest.mark.skipif(find_spec("cascadio") is None, reason="cascadio is not installed")


def volume(mesh: Mesh) -> float:
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    return float((a * np.cross(b, c)).sum() / 6)


@pytest.mark.parametrize(("unit", "scale"), [("MILLI", 1.0), ("", 1000.0), ("INCH", 25.4)])
def test_assemblies(unit: str, scale: float, tmp_path: Path) -> None:
    """Each use of a part is in its place, in millimetres."""
    path = tmp_path / "a.STEP"
    path.write_text(step_files.cylinder(1.0, 3.0, [(0.0, 0.0, 0.0), (10.0, 0.0, 5.0)], unit))
    with pytest.warns(ReadingNote, match=r"a\.STEP: in millimetres, by [\d,]+ triangles up to .* mm, 0.0001 of"):
        mesh = load_mesh(path)
    np.testing.assert_allclose(mesh.bounds / scale, [[-1, -1, 0], [11, 1, 8]], atol=2e-3)
    assert mesh.health.watertight
    assert mesh.health.shells == 2
    assert volume(mesh) / scale**3 == pytest.approx(2 * 3 * np.pi, rel=4e-3)
    assert units_of(path) == "millimeter"


def test_the_triangles_lie_near_the_surface(tmp_path: Path) -> None:
    path = tmp_path / "a.stp"
    path.write_text(step_files.cylinder(5.0, 1.0, [(0.0, 0.0, 0.0)]))
    with pytest.warns(ReadingNote):
        mesh = load_mesh(path)
    sides = mesh.vertices[mesh.faces]
    middles = (sides + np.roll(sides, 1, axis=1)) / 2
    away = 5.0 - np.linalg.norm(middles[..., :2], axis=-1)
    on_mantle = np.ptp(sides[..., 2], axis=1) > 0.5
    assert away[on_mantle].max() <= 1.1e-4 * np.linalg.norm(np.ptp(mesh.vertices, axis=0))


@pytest.mark.parametrize(
    "text", ["", "nothing", "ISO-10303-21;\nHEADER;\nENDSEC;\nDATA;\nENDSEC;\nEND-ISO-10303-21;\n"]
)
def test_no_solids(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.step"
    path.write_text(text)
    with pytest.raises(InputError, match=r"a\.step: ") as fault:
        load_mesh(path)
    assert "\n" not in str(fault.value)
