"""docs/reference/file.md: its reader reads what sdfcli writes, and its tables name all that is in a file."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import sdfcli
import shapes
from sdfcli.backend import any_backend
from sdfcli.field import blocks
from sdfcli.params import OCTREES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "file.md").read_text()


@pytest.fixture(scope="module", params=OCTREES)
def field(request: pytest.FixtureRequest) -> sdfcli.Field:
    torus = ROOT / "sample_meshes" / "torus.obj"
    return sdfcli.build(
        torus, octree=request.param, depth=6, device="cpu", nearest=True, why=request.param == "adaptive", prove=True
    )


@pytest.fixture(scope="module")
def plate() -> sdfcli.Field:
    """A thin wall, around which distances are in parts of steps."""
    field = sdfcli.build(shapes.box([0, 0, 0], [1, 0.7, 0.02]), tolerance=1e-2, device="cpu")
    assert field.parts > 1
    return field


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


@pytest.mark.parametrize("most", [500, 1 << 21])
def test_reader_agrees_to_the_bit(
    most: int, reader: Any, field: sdfcli.Field, plate: sdfcli.Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the corners of all leaves, of one block or of many."""
    monkeypatch.setattr(blocks, "MOST_LEAVES", most)
    for k, each in enumerate((field, plate)):
        path = dataclasses.replace(each).save(tmp_path / f"{k}.h5")
        with h5py.File(path) as file:
            assert (len(file["block"]) == 18) == (most >= each.leaves)
            assert ("residual_part" in file) == (each is plate)
        found = reader(path)
        assert found.leaf_key.tolist() == each.leaf_key.tolist()
        arrays = each._arrays_on(any_backend())
        expected = each.distance[any_backend().to_host(arrays["leaf_corner"])]
        assert found.value.tobytes() == expected.tobytes()


DAMAGE = {
    "an attribute": lambda file: file.attrs.modify("domain_length", 3.0),
    "a level": lambda file: file["leaf_level"].__setitem__(5, 1),
    "a value": lambda file: file[values(file)].__setitem__(5, 1),
    "a block": lambda file: file["block"].__setitem__(5, 1),
    "a checksum": lambda file: file["chunk_sha256"].__setitem__(5, 1),
}


def values(file: Any) -> str:
    return "residual" if "residual" in file else "distance"


@pytest.mark.parametrize("name", DAMAGE)
def test_reader_notices_damage(name: str, reader: Any, path: Path) -> None:
    with h5py.File(path, "r+") as file:
        DAMAGE[name](file)
    with pytest.raises(ValueError, match="damaged"):
        reader(path)


def test_values_are_in_the_order_of_the_page(tmp_path: Path) -> None:
    """The page's example: eight leaves, and the first of them split further."""
    path = sdfcli.build(shapes.icosphere(2), octree="bvh", depth=1, device="cpu").save(tmp_path / "a.h5")
    with h5py.File(path) as file:
        assert file["block"][()].tolist() == [0, 8, 19, *[0] * 15]
        assert "(0, 8, 19, 0, ..., 0)" in PAGE
        assert len(file["distance"]) == 27
        corner = [0, 2, 6, 8, 18, 20, 24, 26]
        order = [*corner, *(point for point in range(27) if point not in corner)]
        loaded = sdfcli.load(path)
        place = np.array([[point % 3, point // 3 % 3, point // 9] for point in order]) / 2
        here = loaded.sample(loaded.domain.origin + loaded.domain.length * place)
        np.testing.assert_allclose(file["distance"][()], here, rtol=1e-6)


def test_everything_is_named(path: Path) -> None:
    with h5py.File(path) as file:
        info = json.loads(file.attrs["info"])
        names = {*file, *file.attrs, *info, *info["parameters"], *info["mesh"], *info["certificate"]}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
