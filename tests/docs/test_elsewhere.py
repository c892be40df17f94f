"""docs/guides/elsewhere.md: its code for other programs, run there, or read as they read it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import trimesh

import sdfcli
import shapes
from conftest import ROOT
from examples import DOCS, MARKED, run_python

TEXT = (DOCS / "guides" / "elsewhere.md").read_text()
MARKS = {mark: block for mark, _, block in MARKED.findall(TEXT)}
UNITY, UNREAL = re.split(r"^## ", TEXT, flags=re.MULTILINE)[3:5]
SIDE = 64
"""Of the texture in Unreal's recipe."""

Floats = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def field() -> sdfcli.Field:
    """A shape without symmetry."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(8), "big"))
    vertices, faces = shapes.star(rng, 2)
    return sdfcli.build((vertices * [0.3, 0.4, 0.5] + rng.normal(size=3), faces), tolerance=4e-3, device="cpu")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(os.urandom(8), "big"))


def shader(text: str, name: str, **values: Any) -> Any:
    """A variable of a block of HLSL."""
    (expression,) = re.findall(rf"float3? {name} = (.*?);", text)
    return eval(expression, values)


def fetched(texture: Floats, uv: Floats) -> Floats:
    """Values (n,) of a texture [z, y, x] at coordinates (n, 3): trilinear between texel centres, clamped."""
    place = uv * texture.shape[::-1] - 0.5
    low = np.floor(place).astype(int)
    found = np.zeros(len(uv))
    for corner in np.ndindex(2, 2, 2):
        weight = np.abs(1 - np.array(corner) - (place - low)).prod(axis=1)
        x, y, z = np.clip(low + corner, 0, np.array(texture.shape[::-1]) - 1).T
        found += weight * texture[z, y, x]
    return found


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("reader", ["its rule", "its code"])
def test_unity(dtype: str, reader: str, field: sdfcli.Field, rng: np.random.Generator, tmp_path: Path) -> None:
    """At a texel, the shader has the field's value at the mirrored position."""
    window = field.bounds + [[0.1, 0.05, 0.2], [-0.2, -0.1, 0]] * np.full(3, field.domain.length)
    path = field.export(tmp_path / "texture.raw", resolution=33, window=window, dtype=dtype)
    kind = {"float16": "RHalf", "float32": "RFloat"}[dtype]
    if reader == "its code":
        facts = compiled(tmp_path, path)
        assert facts[3:6] == [kind, "Bilinear", "Clamp"]
        size, origin, spacing = np.array(facts[:3], int), np.array(facts[6:9], float), float(facts[9])
        texture = np.fromfile(tmp_path / "texture", dtype).reshape(size[::-1])
    else:
        head = json.loads((tmp_path / "texture.raw.json").read_text())
        size, origin, spacing = np.array(head["shape"]), np.array(head["origin"]), head["spacing"][0]
        texture = np.fromfile(path, dtype).reshape(size[::-1])[:, :, ::-1]
        origin[0] = -(origin[0] + (size[0] - 1) * spacing)
    assert len(set(size)) == 3
    texel = rng.integers(size, size=(500, 3))
    position = origin + spacing * texel
    uv = shader(UNITY, "uv", position=position, origin=origin, spacing=spacing, size=size)
    expected = field.sample(position * [-1, 1, 1])
    exact = 1e-5 * np.abs(field.bounds).max()  # the header's numbers are float32
    np.testing.assert_allclose(fetched(texture.astype(float), uv), expected, rtol=2**-10, atol=exact)


def compiled(folder: Path, path: Path) -> list[str]:
    """What the recipe's C# code makes of a file."""
    if not (shutil.which("mcs") and shutil.which("mono")):
        pytest.skip("no C# compiler: mcs and mono")
    (folder / "recipe.cs").write_text(re.search(r"```csharp\n(.*?)```", UNITY, re.DOTALL)[1])
    stubs = ROOT / "tests" / "docs" / "unity.cs"
    made = ["mcs", "-warnaserror", "-out:recipe.exe", "recipe.cs", str(stubs)]
    for command in (made, ["mono", "recipe.exe", str(path), "texture"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("up", ["y", "z"])
def test_unreal(
    up: str, field: sdfcli.Field, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a texel, the material has the field's value at the position in the mesh, in centimetres."""
    monkeypatch.chdir(tmp_path)
    field.export("texture.raw", resolution=SIDE)
    (block,) = (block for mark, language, block in MARKED.findall(UNREAL) if language == "python")
    names: dict[str, Any] = {}
    run_python(block.replace('up = "y"', f'up = "{up}"'), names)
    from PIL import Image

    sheet = np.asarray(Image.open("slices.png")).astype(float) / 65535
    tiles = [sheet[r : r + SIDE, c : c + SIDE] for r in range(0, len(sheet), SIDE) for c in range(0, len(sheet), SIDE)]
    position = names["origin"] + names["spacing"] * rng.integers(SIDE, size=(500, 3))
    uv = shader(UNREAL, "uv", position=position, origin=names["origin"], spacing=names["spacing"])
    sampled = fetched(np.array(tiles), uv)
    found = shader(UNREAL, "distance", low=names["low"], high=names["high"], sampled=sampled)
    mesh = position[:, [0, 2, 1]] if up == "y" else position * [1, -1, 1]
    step = (names["high"] - names["low"]) / 65535
    np.testing.assert_allclose(found, 100 * field.sample(mesh / 100), rtol=0, atol=step)


@pytest.fixture
def blender(tmp_path: Path) -> Any:
    """Runs a script in Blender, in the test's folder; returns its output."""
    program = os.environ.get("SDFCLI_BLENDER") or shutil.which("blender")
    if not program:
        if not importlib.util.find_spec("bpy"):
            pytest.skip("no Blender: SDFCLI_BLENDER, a program or a Python with bpy")
        program = sys.executable
    options = [] if Path(program).name.startswith("python") else ["--background", "--python-exit-code", "1", "--python"]

    def run(script: str) -> str:
        (tmp_path / "script.py").write_text(script)
        command = [program, *options, "script.py"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_blender(blender: Any, tmp_path: Path) -> None:
    """Its surface is the field's, and the grown one lies 2 mm outside, to a voxel; both are closed, facing outwards."""
    field = sdfcli.build(str(ROOT / "sample_meshes" / "bunny.ply"), device="cpu")
    field.export(tmp_path / "bunny.vdb", resolution=128)
    blender(MARKS["run with bpy"])
    voxel = field.domain.length / 127
    for name, offset in (("surface", 0), ("grown", 0.002)):
        mesh = trimesh.load(tmp_path / f"{name}.ply", force="mesh")
        off = field.sample(mesh.vertices) - offset
        assert np.abs(off).max() < voxel
        assert np.abs(off).mean() < voxel / 10
        assert mesh.is_watertight
        assert mesh.volume > 0


OPENED = """
import json
import sys
from pathlib import Path

import bpy

sys.path += map(str, Path(bpy.utils.resource_path("LOCAL")).glob("python/lib/python3*/site-packages"))
import openvdb

grids, _ = openvdb.readAll("field.vdb")
(grid,) = grids
read = grid.getConstAccessor()
values = [read.probeValue(tuple(voxel)) for voxel in json.load(open("voxels.json"))]
place = [grid.transform.indexToWorld(voxel) for voxel in ((0, 0, 0), (3, 5, 7))]
facts = [grid.name, str(grid.gridClass), grid.valueTypeName, grid.background, place, values]
print("facts", json.dumps(facts))
"""


def test_openvdb_of_blender(blender: Any, field: sdfcli.Field, rng: np.random.Generator, tmp_path: Path) -> None:
    """What Houdini reads: name, class, type, half width, transform, and values."""
    field.export(tmp_path / "field.vdb", resolution=50, half_width=4)
    spacing, voxel = field.domain.length / 49, rng.integers(50, size=(3000, 3))
    (tmp_path / "voxels.json").write_text(json.dumps(voxel.tolist()))
    (line,) = (line for line in blender(OPENED).splitlines() if line.startswith("facts "))
    name, kind, dtype, background, place, values = json.loads(line.removeprefix("facts "))
    assert (name, kind, dtype) == ("surface", "level set", "float")
    assert background == np.float32(4 * spacing)
    origin = field.domain.origin
    assert np.allclose(place, [origin, origin + spacing * np.array([3, 5, 7])], rtol=1e-14)
    distance = field.sample(origin + spacing * voxel).astype(np.float32)
    near = np.abs(distance) < background
    value, active = np.array(values).T
    assert (active == near).all()
    assert (value == np.where(near, distance, np.copysign(background, distance))).all()
    assert near.any()
    assert not near.all()


def test_xarray(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The volume below a height is the mesh's, by random points, and the section lies in its plane."""
    pytest.importorskip("xarray", reason="xarray is not installed")
    monkeypatch.chdir(tmp_path)
    source = str(ROOT / "sample_meshes" / "bunny.ply")
    field = sdfcli.build(source, device="cpu")
    field.export("bunny.zarr.zip", resolution=96)
    names: dict[str, Any] = {}
    run_python(MARKS["run with xarray"], names)
    section, half = names["section"], field.domain.length / 95 / 2
    x, y = np.meshgrid(section.x, section.y, indexing="ij")
    points = np.stack([x, y, np.full(x.shape, float(section.z))], axis=-1)
    assert abs(float(section.z)) <= half
    assert (section.values == field.sample(points).astype(np.float32)).all()
    low, high = field.bounds
    high[1] = float(names["feet"].y.max()) + half  # each value stands for a cell around it
    inside = sdfcli.MeshDistance(source, device="cpu").signed_distance(rng.uniform(low, high, (100_000, 3))) < 0
    assert names["volume"] == pytest.approx(inside.mean() * np.prod(high - low), rel=0.04)
