"""USD: what a scene places where, against usd-core's own bounds; hostile scenes; and what cannot be read."""

from __future__ import annotations

import json
import os
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
    assert mesh.units == "cm"


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


def skinned(weights: int) -> str:
    """A cube upon a cube: a joint turns the upper one, and a shape shifts it. weights: of a mesh, 8 or 1."""
    ones = ", ".join(["1"] * weights)
    bound = f"""int[] primvars:skel:jointIndices = [{ones}] ( elementSize = 1\ninterpolation = "vertex" )
        float[] primvars:skel:jointWeights = [{ones}] ( elementSize = 1\ninterpolation = "vertex" )
        rel skel:skeleton = </r/s>
        uniform token[] skel:blendShapes = ["x"]
        rel skel:blendShapeTargets = </r/c/x>
        {moved(0, 0, 1)} def BlendShape "x" {{ uniform vector3f[] offsets = [{", ".join(["(0, 4, 0)"] * 8)}] }}"""
    upper = cube("c", bound).replace('"c" {', '"c" ( prepend apiSchemas = ["SkelBindingAPI"] ) {')
    still = "( (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, {}, 1) )"
    return f"""def SkelRoot "r" {{ {moved(20, 0, 0)} {cube("d")} {upper}
    def Skeleton "s" ( prepend apiSchemas = ["SkelBindingAPI"] ) {{ uniform token[] joints = ["a", "a/b"]
        uniform matrix4d[] bindTransforms = [{still.format(0)}, {still.format(1)}]
        uniform matrix4d[] restTransforms = [{still.format(0)}, {still.format(1)}]
        rel skel:animationSource = </r/s/m>
        def SkelAnimation "m" {{ uniform token[] joints = ["a", "a/b"]\nuniform token[] blendShapes = ["x"]
            float[] blendShapeWeights.timeSamples = {{ 3: [0.5], 9: [1] }}
            float3[] translations = [(0, 0, 0), (0, 0, 1)]\nhalf3[] scales = [(1, 1, 1), (1, 1, 1)]
            quatf[] rotations.timeSamples = {{ 3: [(1, 0, 0, 0), (0, 1, 0, 0)], 9: [(1, 0, 0, 0), (1, 0, 0, 0)] }}
        }} }} }}
"""


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
    "relocates": (TWO + 'def "a" ( prepend references = </Two> ) {}', 24),
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
        f"""def PointInstancer "p" ( inactiveIds = [3] ) {{ rel prototypes = [</p/protos/c>, </p/Two>]
        int[] protoIndices = [0, 1, 0, 1, 1]\nint64[] ids = [0, 1, 2, 3, 4]\nint64[] invisibleIds = [4]
        point3f[] positions = [(0, 0, 0), (3, 0, 0), (0, 6, 0), (90, 0, 0), (0, 90, 0)]
        quath[] orientations = [(0.70710678, 0, 0, 0.70710678), (1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)]
        float3[] scales = [(1, 1, 1), (1, -2, 1), (1, 1, 3), (1, 1, 1), (1, 1, 1)]
        {moved(0, 0, 2)} over "protos" {{ {cube("c", moved(0, 1, 0))} }} {TWO.replace("class", "def Xform")} }}""",
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
    "skeleton": (skinned(8), 24),
    "rigid_skeleton": (skinned(1).replace('"vertex"', '"constant"'), 24),
    "blend_shapes_alone": (re.sub(r"(?s)\S+ primvars:skel.*?vertex. \)\n", "", skinned(8)), 24),
    "skeleton_in_an_instance": (
        skinned(8).replace('def SkelRoot "r"', 'class "k" { def SkelRoot "r"').replace("</r", "</k/r")
        + '} def "i" ( instanceable = true\nprepend references = </k> ) {} '
        + f'def Xform "j" ( instanceable = true\nprepend references = </k> ) {{ {moved(0, 0, 9)} }}',
        48,
    ),
    "a_skeleton_that_is_an_instance": (
        skinned(8).replace("def SkelRoot", "class SkelRoot")
        + f'def SkelRoot "i" ( instanceable = true\nprepend references = </r> ) {{ {moved(0, 0, 9)} }}',
        24,
    ),
    "at_its_first_time": (
        cube("c", f"double3 xformOp:translate.timeSamples = {{ 3: (0, 5, 0), 9: (0, 9, 0) }}\n{ORDER}")
        + cube("d", 'token visibility.timeSamples = { 3: "invisible", 9: "inherited" }'),
        12,
    ),
}


PACKED = ("other_files", "instancer", "skeleton")
"""Scenes that are read from each kind of file, whose reader is usd-core's; of the others the text is read."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    """All scenes of TABLE, in each kind of file, with usd-core's bounds."""
    folder = tmp_path_factory.mktemp("scenes")
    scene(folder / "_part.usda", f'def Xform "P" {{ {cube("c", moved(6, 0, 0))} }}', 'defaultPrim = "P"')
    for name, (text, _) in TABLE.items():
        more = "\nrelocates = { </a/c> : </b>, </a/d> : </a/e> }" if name == "relocates" else ""
        scene(folder / f"{name}.usda", text, f"startTimeCode = 3\nendTimeCode = 9{more}")
    program = Path(__file__).parent / "usd_reference.py"
    done = subprocess.run([sys.executable, program, folder], check=True, capture_output=True, text=True)
    found: dict[str, list[list[float]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.filterwarnings("ignore::sdfcli.errors.ReadingNote")
def test_places_are_those_of_usd_core(name: str, reference: dict[str, list[list[float]]]) -> None:
    chosen = {path: bounds for path, bounds in reference.items() if Path(path).name.startswith(f"{name}.")}
    assert len(chosen) == 4
    if name not in PACKED:
        chosen = {path: bounds for path, bounds in chosen.items() if path.endswith(".usda")}
    for path, bounds in chosen.items():
        mesh = load_mesh(path)
        assert len(mesh.faces) == TABLE[name][1], path
        np.testing.assert_allclose(mesh.bounds, bounds, atol=1e-6, err_msg=path)
        assert (mesh.health.watertight, volume(mesh) > 0) == (True, True), path


@pytest.mark.parametrize("kept", ["class", "over"])
def test_prototypes_that_are_kept_out_of_the_scene(kept: str, tmp_path: Path) -> None:
    """Below a class or an over, as the standard says; usd-core's bounds pass over what is below such a prototype."""
    text = f"""{kept} "kept" {{ def Xform "a" {{ {cube("c")} {cube("d", moved(0, 0, 2))} }} }}
    def PointInstancer "p" {{ rel prototypes = [</kept/a>]\nint[] protoIndices = [0, 0]
    point3f[] positions = [(0, 0, 0), (4, 0, 0)] }}"""
    mesh = load_mesh(scene(tmp_path / "a.usda", text))
    assert (len(mesh.faces), mesh.bounds.tolist()) == (48, [[0, 0, 0], [5, 1, 3]])


# ---- Files of strangers ----

CLIPS = """clips = { dictionary default = { asset[] assetPaths = [@../secret.usda@]
string primPath = "/c"\ndouble2[] active = [(0, 0)]\nasset manifestAssetPath = @../secret.usda@ } }"""


def in_variant(inner: str) -> str:
    """A prim with a variant that is not chosen."""
    return f'def "v" ( prepend variantSets = "s" ) {{ variantSet "s" = {{ "x" {inner} }} }}\n'


@pytest.mark.parametrize(
    "text",
    [
        f'def "x" ( {CLIPS} ) {{}}',
        f'class "k" {{ over "x" ( {CLIPS} ) {{}} }}',
        in_variant(f"( {CLIPS} ) {{}}"),
        in_variant(f'{{ def "y" ( {CLIPS} ) {{}} }}'),
        in_variant("{ " + in_variant(f"( {CLIPS} ) {{}}") + "}"),
        'def "x" ( prepend references = @./_clips.usda@</x> ) {}',
        in_variant("( prepend payload = [@./_part.usda@, @./_clips.usda@</x>] ) {}"),
    ],
)
def test_value_clips_are_refused(text: str, tmp_path: Path) -> None:
    """Wherever they are: they would read other files."""
    scene(tmp_path / "_clips.usda", f'def "x" ( {CLIPS} ) {{}}')
    scene(tmp_path / "_part.usda", cube("c"), 'defaultPrim = "c"')
    with pytest.raises(InputError, match="has value clips, which other files hold: flatten the scene"):
        load_mesh(scene(tmp_path / "a.usda", text + "\n" + cube("c")))


ARCS = (
    in_variant("( prepend references = @NAME@ ) {}"),
    in_variant("( prepend payload = [@./_part.usda@, @NAME@</c>] ) {}"),
    in_variant('{ def "y" ( append references = @NAME@ ) {} }'),
    'class "k" { over "y" ( add payload = @NAME@ ) {} }',
    'def "x" ( references = [@./_part.usda@, @NAME@] ) {}',
    in_variant("( prepend references = @./_part.usda@ ) {}") + 'def "x" ( references = @NAME@ ) {}',
)
OPENED = """import sys
from pathlib import Path
from sdfcli.mesh.formats.usd_layers import Layers
for path in sorted(Path(sys.argv[1]).glob("[0-9]*.usda")):
    try:
        Layers(path, path.parent)
        print("opened")
    except Exception as error:
        print(error)
"""
"""Opens scenes, in a process of its own: pxr and VTK crash in one."""


def test_no_arc_leaves_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    scene(tmp_path / "secret.usda", cube("c"), 'defaultPrim = "c"')
    scene(folder / "_part.usda", cube("c"), 'defaultPrim = "c"')
    os.mkfifo(folder / "pipe.usda")  # a reader that opened it would not end
    (folder / "link").symlink_to(tmp_path)
    names = ["../secret.usda", str(tmp_path / "secret.usda"), "./link/secret.usda", "./pipe.usda", "/dev/zero"]
    names += ["./_part.usda:SDF_FORMAT_ARGS:a=b", "anon:0x1:x.usda", "file:///etc/x.usda", "secret.usda"]
    names += ["./_part.usda[x.usda]/../../secret.usda", "../in.usdz[x.usda]", '`"../secret.usda"`']
    texts = [arc.replace("NAME", name) for name in names for arc in ARCS]
    for number, text in enumerate(texts):
        scene(folder / f"{number:03}.usda", f"{text}\n{cube('c')}")
    done = subprocess.run([sys.executable, "-c", OPENED, folder], check=True, capture_output=True, text=True)
    told = done.stdout.splitlines()
    assert len(told) == len(texts)
    refused = ["which is no file in its folder" in line for line in told]
    assert [text for text, right in zip(texts, refused, strict=True) if not right] == []


@pytest.mark.parametrize("instanceable", [True, False])
def test_references_that_double(instanceable: bool, tmp_path: Path) -> None:
    arc = f"instanceable = {str(instanceable).lower()}\nreferences = </L{{}}>"
    levels = "".join(
        f'def "L{k}" {{ def "a" ( {arc.format(k + 1)} ) {{}} def "b" ( {arc.format(k + 1)} ) {{}} }}\n'
        for k in range(24)
    )
    path = scene(tmp_path / "a.usda", levels + cube("L24"))
    with pytest.raises(
        InputError, match="more than 10,000,000 meshes" if instanceable else "more than 10,000,000 prims"
    ):
        load_mesh(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('def "x" ( references = </nothing> ) {}', "Unresolved reference prim path"),
        ('def "x" ( references = @./_part.usda@</nothing> ) {}', "Unresolved reference prim path"),
        (
            'def PointInstancer "p" { rel prototypes = [</no>]\n'
            "int[] protoIndices = [0]\npoint3f[] positions = [(0, 0, 0)] }",
            "its prototype '/no' is not there",
        ),
        (f'def Xform "x" {{ {ORDER} }}', "'/x': its xformOpOrder names what is not there"),
        ('def "x" ( references = </x> ) {}', "a.usda: Cycle detected: @a.usda@</x> CANNOT reference: @a.usda@</x>"),
    ],
)
def test_what_is_not_there(text: str, words: str, tmp_path: Path) -> None:
    scene(tmp_path / "_part.usda", cube("c"), 'defaultPrim = "c"')
    with pytest.raises(InputError, match=words) as fault:
        load_mesh(scene(tmp_path / "a.usda", text + "\n" + cube("c")))
    assert "\n" not in str(fault.value)


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    hidden, proxy = cube("i", 'token visibility = "invisible"'), cube("p", 'uniform token purpose = "proxy"')
    text = f"""class "k" {{ def Cube "c" {{}} {cube("m")} {hidden} def Strange "s" {{}} }}
    def "a" ( instanceable = true\nreferences = </k> ) {{}}
    def Xform "b" ( instanceable = true\nreferences = </k> ) {{ {moved(3, 0, 0)} }}
    {proxy}"""
    with pytest.warns(ReadingNote) as seen:
        load_mesh(scene(tmp_path / "a.usda", text))
    told = "not read: 2 Cube, 1 Mesh of purpose proxy, 2 Strange, 2 invisible Mesh; only meshes that are shown are"
    assert [str(each.message).partition(": ")[2] for each in seen] == [told]
