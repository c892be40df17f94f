"""STEP and USD: read by libraries, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import step_files
from commands import run
from sdfcli.errors import DeviceError, InputError, ReadingNote
from sdfcli.mesh.formats import apart
from sdfcli.mesh.formats.units import units_of
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh

SQUARES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
"""Faces of a cube whose corners are counted along z, then y, then x."""


def volume(mesh: Mesh) -> float:
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    return float((a * np.cross(b, c)).sum() / 6)


# ---- STEP ----


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


# ---- USD ----


def cube(prim: str, more: str = "", subdivision: str = "none") -> str:
    corners = ", ".join(f"({x}, {y}, {z})" for x in (0, 1) for y in (0, 1) for z in (0, 1))
    faces = ", ".join(str(corner) for square in SQUARES for corner in square)
    return f"""def Mesh "{prim}" {{
    point3f[] points = [{corners}]
    int[] faceVertexCounts = [4, 4, 4, 4, 4, 4]
    int[] faceVertexIndices = [{faces}]
    uniform token subdivisionScheme = "{subdivision}"
    {more}
}}
"""


def moved(x: float, y: float, z: float) -> str:
    return f'double3 xformOp:translate = ({x}, {y}, {z})\nuniform token[] xformOpOrder = ["xformOp:translate"]\n'


def scene(path: Path, text: str, head: str = "metersPerUnit = 0.01") -> Path:
    path.write_text(f"#usda 1.0\n(\n{head}\n)\n{text}")
    return path


def test_a_mesh(tmp_path: Path) -> None:
    path = scene(tmp_path / "a.usda", cube("c"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = load_mesh(path)
    assert (len(mesh.faces), mesh.health.watertight, volume(mesh)) == (12, True, pytest.approx(1.0))
    assert units_of(path) == "centimetre"


def test_places(tmp_path: Path) -> None:
    """Transforms, references, instances and instancers; mirrored and left-handed ones keep their outside."""
    scene(tmp_path / "part.usda", f'def Xform "P" {{ {cube("c")} }}', 'defaultPrim = "P"')
    mirrored = 'float3 xformOp:scale = (-1, 1, 1)\nuniform token[] xformOpOrder = ["xformOp:scale"]\n'
    reference = "prepend references = @./part.usda@\ninstanceable = true"
    text = f"""
def Xform "W" {{ {moved(10, 0, 0)} {cube("one")} {cube("two", mirrored)} }}
def Xform "r1" ( {reference} ) {{ {moved(0, 10, 0)} }}
def Xform "r2" ( {reference} ) {{ {moved(0, 20, 0)} }}
def PointInstancer "pi" {{
    {moved(0, 0, 10)}
    rel prototypes = </pi/proto>
    int[] protoIndices = [0, 0, 0]
    point3f[] positions = [(0, 0, 0), (3, 0, 0), (6, 0, 0)]
    int64[] invisibleIds = [1]
    {cube("proto")}
}}
{cube("hidden", 'token visibility = "invisible"')}
{cube("guide", 'uniform token purpose = "guide"')}
"""
    flat = scene(tmp_path / "a.usda", text)
    packed = tmp_path / "a.usdc"
    script = "import sys; from pxr import Sdf; Sdf.Layer.FindOrOpen(sys.argv[1]).Export(sys.argv[2])"
    subprocess.run([sys.executable, "-c", script, flat, packed], check=True)  # pxr and VTK crash in one process
    for path in (flat, packed):
        mesh = load_mesh(path)
        cubes = mesh.vertices[mesh.faces].reshape(-1, 36, 3)
        lows = {tuple(corners.min(axis=0)) for corners in cubes}
        assert lows == {(10, 0, 0), (9, 0, 0), (0, 10, 0), (0, 20, 0), (0, 0, 10), (6, 0, 10)}
        assert volume(mesh) == pytest.approx(6.0)


def test_notes(tmp_path: Path) -> None:
    times = "double3 xformOp:translate.timeSamples = { 1: (0, 5, 0), 2: (0, 9, 0) }\n"
    order = 'uniform token[] xformOpOrder = ["xformOp:translate"]\n'
    text = cube("c", times + order, "catmullClark") + 'def Sphere "s" {}\n'
    with pytest.warns(ReadingNote) as seen:
        mesh = load_mesh(scene(tmp_path / "a.usda", text))
    assert mesh.bounds[0].tolist() == [0, 5, 0]
    told = [str(each.message).partition(": ")[2] for each in seen]
    assert [words.split(":")[0] for words in told] == ["moves", "subdivision surfaces", "not read"]
    assert "1 Sphere" in told[2]
    done = run("check", tmp_path / "a.usda", "--device", "cpu")
    assert [line.startswith("note: ") for line in done.stderr.splitlines()] == [True] * 3
    assert run("check", tmp_path / "a.usda", "--device", "cpu", "-q").stderr == ""


def test_other_files(tmp_path: Path) -> None:
    """Those in the folder are opened, and no others."""
    (tmp_path / "in").mkdir()
    scene(tmp_path / "secret.usda", cube("c"), 'defaultPrim = "c"')
    for name in ("../secret.usda", str(tmp_path / "secret.usda"), "missing.usda", "http://localhost/x.usda"):
        for arc in (f"prepend references = @{name}@", f"prepend payload = @{name}@"):
            path = scene(tmp_path / "in" / "a.usda", f'def "x" ( {arc} ) {{}}\n{cube("c")}')
            with pytest.raises(InputError, match="which is no file in its folder"):
                load_mesh(path)
    (tmp_path / "in" / "link.usda").symlink_to(tmp_path / "secret.usda")
    path = scene(tmp_path / "in" / "a.usda", cube("c"), "subLayers = [ @./link.usda@ ]")
    with pytest.raises(InputError, match="which is no file in its folder"):
        load_mesh(path)
    clips = "clips = { dictionary default = { asset[] assetPaths = [@../secret.usda@] } }"
    with pytest.raises(InputError, match="value clips"):
        load_mesh(scene(tmp_path / "in" / "a.usda", f'def "x" ( {clips} ) {{}}\n{cube("c")}'))


MESH = """def Mesh "m" {{
    point3f[] points = [(0, 0, 0)]
    int[] faceVertexCounts = {}
    int[] faceVertexIndices = {}
}}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no faces"),
        ('def Sphere "s" {}', "no faces"),
        (MESH.format("[3]", "[0, 0, 7]"), "names vertex 7"),
        (MESH.format("[2]", "[0, 0]"), "three corners"),
        (MESH.format("[3]", "[0, 0]"), "three corners"),
        ("def Mesh {", r"a\.usda: .*a\.usda:5:"),
    ],
)
@pytest.mark.filterwarnings("ignore::sdfcli.errors.ReadingNote")
def test_unusable_scenes(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as fault:
        load_mesh(scene(tmp_path / "a.usda", text))
    assert "\n" not in str(fault.value)


# ---- Both ----


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "LIBRARIES", dict.fromkeys(apart.LIBRARIES, "no_such_library"))
    for suffix, extra in apart.EXTRAS.items():
        path = tmp_path / f"a{suffix}"
        path.write_text("")
        with pytest.raises(DeviceError, match=rf"not installed: pip install 'sdfcli\[{extra}\]'"):
            load_mesh(path)


def test_a_reader_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.step").write_text("")
    monkeypatch.setattr(apart.processes, "python", lambda module: ["sh", "-c", "kill -SEGV $$"])
    with pytest.raises(InputError, match=r"a\.step: its reader, cascadio, ended \(-11\)"):
        load_mesh(tmp_path / "a.step")
