"""docs/reference/file.md: its reader reads what sdfcli writes, and its tables name all that is in a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import sdfcli
from sdfcli.params import OCTREES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "file.md").read_text()


@pytest.fixture(scope="module", params=OCTREES)
def field(request: pytest.FixtureRequest) -> sdfcli.Field:
    torus = ROOT / "sample_meshes" / "torus.obj"
    return sdfcli.build(
        torus, octree=request.param, depth=6, device="cpu", nearest=True, why=request.param == "adaptive"
    )


@pytest.fixture
def path(field: sdfcli.Field, tmp_path: Path) -> Path:
    return field.save(tmp_path / "torus.h5")


@pytest.fixture(scope="module")
def reader() -> Any:
    """The class Field of the page's one block of Python."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(block, names)
    return names["Field"]


def test_reader_agrees(reader: Any, field: sdfcli.Field, path: Path) -> None:
    rng = np.random.default_rng(7)
    origin, length = field.domain.origin, field.domain.length
    around = origin + length * rng.uniform(-0.25, 1.25, (6000, 3))
    on_lattice = origin + length * rng.integers(0, 2**6 + 1, (4000, 3)) / 2**6
    points = np.concatenate((around, on_lattice))
    np.testing.assert_allclose(reader(path).sample(points), field.sample(points), rtol=0, atol=1e-12 * length)


def test_reader_notices_damage(reader: Any, path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["domain_length"] *= 1.5
    with pytest.raises(ValueError, match="damaged"):
        reader(path)


def test_everything_is_named(path: Path) -> None:
    with h5py.File(path) as file:
        info = json.loads(file.attrs["info"])
        names = {*file, *file.attrs, *info, *info["parameters"], *info["mesh"]}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
