"""USD: what a scene places where, against usd-core's own bounds; hostile scenes; and what cannot be read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from commands import run
from sdfcli.errors import InputError, ReadingNote
from sdfcli.mesh.formats.scenes import units_of
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh

pytestmark = pytest.mark.skipif(find_spec("pxr") is None, reason="usd-core is not installed")

SQUARES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
"""Faces of a cube whose corners are counted along z, then y, then x."""


def volume(mesh: Mesh) -> float:
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    return float((a * np.cross(b, c)).sum() / 6)


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
    lines = re.sub(r"(?<=[\]\")}{]) *(?=def|over|class|uniform|}|\"near|\"far)", "\n", text)  # each has its line
    path.write_text(f"#usda 1.0\n(\n{head}\n)\n{lines}")
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


# ---- Every way to place a mesh, against usd-core's own bounds ----

INSTANCE = "instanceable = true\nprepend references = </Two>"
TWO = f'class "Two" {{ {cube("c")} {cube("d", moved(2, 0, 0))} }}'
ORDER = 'uniform token[] xformOpOrder = ["xformOp:translate"]'
TABLE = {
    "internal_reference": (TWO + 'def Xform "a" ( prepend references = </Two> ) {}', 24),
    "internal_payload": (TWO + f'def Xform "a" ( prepend payload = </Two> ) {{ {moved(0, 5, 0)} }}', 24),
    "instances": (
        TWO
        + f'def Xform "a" ( {INSTANCE} ) {{ {moved(0, 3, 0)} }}\ndef Xform "b" ( {INSTANCE} ) {{ {moved(9, 0, 0)} }}',
        48,
    ),
    "instances_in_instances": (
        TWO
        + f"""class "Four" {{ def Xform "a" ( {INSTANCE} ) {{ {moved(0, 3, 0)} }}
        def Xform "b" ( {INSTANCE} ) {{ float3 xformOp:scale = (-1, 2, 1)
        uniform token[] xformOpOrder = ["xformOp:scale"] }} }}
        def Xform "x" ( instanceable = true\nprepend references = </Four> ) {{ {moved(0, 0, 30)} }}
        def Xform "y" ( instanceable = true\nprepend references = </Four> ) {{ {moved(50, 0, 0)} }}""",
        96,
    ),
    "an_instance_that_is_a_mesh": (
        f'class {cube("m")[4:]} def "a" ( instanceable = true\nprepend references = </m> ) {{ {moved(4, 4, 4)} }}',
        12,
    ),
    "inherits": (TWO + f'def Xform "a" ( prepend inherits = </Two> ) {{ {moved(0, 0, 3)} }}', 24),
    "specializes": (TWO + f'def Xform "a" ( prepend specializes = </Two> ) {{ {moved(0, 0, 3)} }}', 24),
    "other_files": ('def "a" ( prepend references = @./_part.usda@ ) {}\n' + cube("c", moved(0, 7, 0)), 24),
    "variants": (
        f"""def Xform "a" ( variants = {{ string v = "far" }}\nprepend variantSets = "v" ) {{ variantSet "v" = {{
        "near" {{ {cube("c")} {cube("d")} }}
        "far" {{ {cube("c", moved(8, 0, 0))} def Xform "i" ( {INSTANCE} ) {{ {moved(0, 0, 4)} }} }} }} }}"""
        + TWO,
        36,
    ),
    "a_name_without_a_type": (f'def "a" {{ def "b" {{ {cube("c", moved(1, 2, 3))} }} }}', 12),
    "reset_transforms": (
        f"""def Xform "a" {{ {moved(5, 5, 5)} def Xform "b" {{ double3 xformOp:translate = (1, 0, 0)
        uniform token[] xformOpOrder = ["!resetXformStack!", "xformOp:translate"] {cube("c")} }} {cube("d")} }}""",
        24,
    ),
    "a_pivot_and_its_inverse": (
        f"""def Xform "a" {{ double3 xformOp:translate:pivot = (1, 2, 0)\nfloat xformOp:rotateZ = 90
        uniform token[] xformOpOrder = ["xformOp:translate:pivot", "xformOp:rotateZ",
        "!invert!xformOp:translate:pivot"] {cube("c")} }}""",
        12,
    ),
    "not_shown": (
        f"""def Xform "a" {{ token visibility = "invisible" {cube("c", moved(5, 0, 0))} }}
        def Xform "g" {{ uniform token purpose = "guide" {cube("c", moved(0, 5, 0))}
        def Xform "r" {{ uniform token purpose = "render" {cube("c", moved(0, 0, 5))} }} }}
        def Xform "off" ( active = false ) {{ {cube("c", moved(-5, 0, 0))} }}
        over "pure" {{ {cube("c", moved(0, -5, 0))} }}
        def Xform "h" ( prepend apiSchemas = ["VisibilityAPI"] ) {{ uniform token renderVisibility = "invisible"
        {cube("c", 'uniform token purpose = "render"' + chr(10) + moved(0, 0, -5))} }}""",
        12,
    ),
    "what_instances_inherit": (
        TWO
        + f"""def Xform "a" {{ token visibility = "invisible"\ndef Xform "i" ( {INSTANCE} ) {{ {moved(0, 3, 0)} }} }}
        def Xform "b" {{ uniform token purpose = "proxy"\ndef Xform "i" ( {INSTANCE} ) {{ {moved(9, 0, 0)} }} }}
        def Xform "c" ( {INSTANCE} ) {{ {moved(0, 0, 2)} }}""",
        24,
    ),
    "instancer": (
        f"""def PointInstancer "p" ( inactiveIds = [3] ) {{
        rel prototypes = [</p/protos/c>, </Two>]\nint[] protoIndices = [0, 1, 0, 1, 1]\nint64[] ids = [0, 1, 2, 3, 4]
        int64[] invisibleIds = [4]
        point3f[] positions = [(0, 0, 0), (3, 0, 0), (0, 6, 0), (90, 0, 0), (0, 90, 0)]
        quath[] orientations = [(0.70710678, 0, 0, 0.70710678), (1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)]
        float3[] scales = [(1, 1, 1), (1, -2, 1), (1, 1, 3), (1, 1, 1), (1, 1, 1)]
        {moved(0, 0, 2)} over "protos" {{ {cube("c", moved(0, 1, 0))} }} }}"""
        + TWO.replace("class", "class Xform"),
        48,
    ),
    "instancers_in_instances": (
        f"""class "P" {{ def PointInstancer "p" {{ rel prototypes = [</P/p/q>]\nint[] protoIndices = [0, 0]
        point3f[] positions = [(0, 0, 0), (0, 0, 5)]
        def PointInstancer "q" {{ rel prototypes = [</P/p/q/c>]\nint[] protoIndices = [0, 0, 0]
        point3f[] positions = [(0, 0, 0), (2, 0, 0), (4, 0, 0)] {cube("c")} }} }} }}
        def "a" ( instanceable = true\nprepend references = </P> ) {{}}
        def Xform "b" ( instanceable = true\nprepend references = </P> ) {{ {moved(0, 8, 0)} }}""",
        144,
    ),
    "at_its_first_time": (
        cube("c", f"double3 xformOp:translate.timeSamples = {{ 3: (0, 5, 0), 9: (0, 9, 0) }}\n{ORDER}")
        + cube("d", 'token visibility.timeSamples = { 3: "invisible", 9: "inherited" }'),
        12,
    ),
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    """All scenes of TABLE, in each kind of file, with usd-core's bounds."""
    folder = tmp_path_factory.mktemp("scenes")
    scene(folder / "_part.usda", f'def Xform "P" {{ {cube("c", moved(6, 0, 0))} }}', 'defaultPrim = "P"')
    for name, (text, _) in TABLE.items():
        scene(folder / f"{name}.usda", text, "startTimeCode = 3\nendTimeCode = 9")
    program = Path(__file__).parent / "usd_reference.py"
    done = subprocess.run([sys.executable, program, folder], check=True, capture_output=True, text=True)
    found: dict[str, list[list[float]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.filterwarnings("ignore::sdfcli.errors.ReadingNote")
def test_places_are_those_of_usd_core(name: str, reference: dict[str, list[list[float]]]) -> None:
    chosen = {path: bounds for path, bounds in reference.items() if Path(path).name.startswith(f"{name}.")}
    assert len(chosen) == 4
    for path, bounds in chosen.items():
        mesh = load_mesh(path)
        assert len(mesh.faces) == TABLE[name][1], path
        np.testing.assert_allclose(mesh.bounds, bounds, atol=1e-6, err_msg=path)
        assert (mesh.health.watertight, volume(mesh) > 0) == (True, True), path
