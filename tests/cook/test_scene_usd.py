"""USD scenes: colliders against usd-core's transforms and UsdPhysics; layers written over originals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenes import CORNERS, FACES, is_told_in_a_line, volume
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.scene import read_scene
from sdfcli.cook.scene.usd import _value
from sdfcli.errors import InputError, ReadingNote

pytestmark = pytest.mark.skipif(find_spec("pxr") is None, reason="usd-core is not installed")

COLLIDES = 'prepend apiSchemas = ["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"]'


def mesh(name: str, more: str = "", metadata: str = COLLIDES) -> str:
    points = ", ".join(str(tuple(corner)) for corner in CORNERS)
    return f"""
def Mesh "{name}" (
    {metadata}
)
{{
    point3f[] points = [{points}]
    int[] faceVertexCounts = {[3] * len(FACES)}
    int[] faceVertexIndices = {[corner for face in FACES for corner in face]}
    uniform token subdivisionScheme = "none"
    {more}
}}
"""


def xform(name: str, body: str, metadata: str = "") -> str:
    return f'def Xform "{name}" (\n{metadata}\n)\n{{\n{body}\n}}\n'


def moved(**ops: Any) -> str:
    kinds = {"translate": "double3", "scale": "float3", "rotateXYZ": "double3"}
    lines = [f"{kinds[name]} xformOp:{name} = {tuple(map(float, value))}" for name, value in ops.items()]
    order = ", ".join(f'"xformOp:{name}"' for name in ops)
    return "\n".join([*lines, f"uniform token[] xformOpOrder = [{order}]"])


def stage(path: Path, text: str, head: str = "metersPerUnit = 0.01") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#usda 1.0\n(\n{head}\n)\n{text}")
    return path


def facts(*paths: Path) -> list[dict[str, Any]]:
    program = Path(__file__).parent / "usd_world.py"
    done = subprocess.run([sys.executable, program, *paths], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def check_world(part: Part, told: dict[str, Any], unit: float) -> None:
    """The part, turned by some rotation and moved, is the prim's points in the world; scales are UsdPhysics's."""
    points = np.array(told["points"]) * unit
    assert volume(part.vertices, part.faces) > 0
    np.testing.assert_allclose(part.vertices, np.array(CORNERS) * told["scale"] * unit, rtol=3e-7, atol=1e-12)
    assert part.scale is not None
    np.testing.assert_allclose(part.vertices / part.scale, CORNERS, rtol=1e-12)
    own, world = (each[1:] - each[0] for each in (part.vertices, points))
    turn = np.linalg.solve(own, world)
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-5)
    assert np.linalg.det(turn) > 0


@pytest.mark.parametrize("unit", [1.0, 0.01])
def test_scales(unit: float, tmp_path: Path) -> None:
    """Scales of parents and of meshes, mirrors, rotations and instances, of random sizes."""
    random = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))

    def sizes() -> Any:
        return np.round(random.uniform(0.2, 3, 3) * random.choice([-1, 1], 3), 3)

    same = np.full(3, 2.5)
    parts = "".join(xform(f"x{n}", mesh("m", moved(translate=sizes(), scale=sizes())), "") for n in range(4))
    inner = mesh("m", moved(rotateXYZ=90 * sizes(), scale=sizes()))
    turned = xform("t", f"{moved(translate=sizes(), rotateXYZ=90 * sizes(), scale=same)}\n{inner}")
    quarter = xform("q", f"{moved(scale=sizes())}\n{mesh('m', moved(rotateXYZ=(0, 90, 0)))}")
    stage(tmp_path / "_part.usda", xform("P", mesh("m", moved(scale=sizes()))), 'defaultPrim = "P"')
    reference = "prepend references = @./_part.usda@\ninstanceable = true"
    instances = "".join(
        xform(f"i{n}", moved(rotateXYZ=90 * sizes(), scale=same * (n + 1)), reference) for n in range(2)
    )
    outer = xform("w", f"{moved(scale=(-2, -2, -2))}\n{parts}{turned}{quarter}{instances}")
    path = stage(tmp_path / "a.usda", outer, f"metersPerUnit = {unit}")
    scene, (told,) = read_scene(path), facts(path)
    assert scene.faults == []
    assert len(scene.parts) == 8 == len(told["meshes"])
    for part in scene.parts:
        check_world(part, told["meshes"][part.place.partition(": ")[2]], unit)


def test_what_collides(tmp_path: Path) -> None:
    """APIs on the mesh or above it; colliders that are off, guides, and shapes that take a size only."""
    physics = 'prepend apiSchemas = ["PhysicsCollisionAPI"]'
    text = (
        mesh("on")
        + mesh("seen", metadata="")
        + mesh("off", "bool physics:collisionEnabled = false")
        + mesh("box", 'uniform token physics:approximation = "boundingCube"')
        + mesh("hull", 'uniform token physics:approximation = "convexHull"')
        + mesh("guide", 'uniform token purpose = "guide"\ntoken visibility = "invisible"')
        + mesh("inactive", metadata=f"{COLLIDES}\nactive = false")
        + xform("group", xform("in", mesh("below", metadata="")), physics)
        + xform("balls", 'uniform token physics:approximation = "boundingSphere"' + mesh("m", metadata=""), physics)
        + xform("none", "bool physics:collisionEnabled = false" + mesh("m", metadata=""), physics)
        + f'def Cube "cube" (\n{physics}\n)\n{{\n}}\n'
    )
    scene = read_scene(stage(tmp_path / "a.usda", text))
    assert [part.place for part in scene.parts] == [
        f"a.usda: {path}" for path in ("/on", "/hull", "/guide", "/group/in/below")
    ]
    assert scene.faults == []


def test_faults_are_lines(tmp_path: Path) -> None:
    sheared = xform("s", f"{moved(scale=(1, 2, 1))}\n{mesh('m', moved(rotateXYZ=(0, 0, 30)))}")
    flat = mesh("flat", moved(scale=(1, 0, 1)))
    bad = mesh("bad").replace("[0, 2, 1", "[0, 2, 77")
    empty = f'def Mesh "empty" (\n{COLLIDES}\n)\n{{\n}}\n'
    nan = mesh("nan").replace("(0.0, 0.0, 0.0)", "(nan, 0, 0)")
    instancer = 'def PointInstancer "pi" {\nrel prototypes = </pi/p>\nint[] protoIndices = [0]\n'
    instancer += "point3f[] positions = [(0, 0, 0)]\n" + mesh("p") + "}\n"
    path = stage(tmp_path / "a.usda", sheared + flat + bad + empty + nan + instancer + mesh("good"))
    scene = read_scene(path)
    assert [part.name for part in scene.parts] == ["good"]
    words = {"/s/m": "sheared", "/flat": "a scale of 1 0 1", "/bad": "names vertex 77", "/empty": "no faces"}
    words |= {"/nan": "not finite", "/pi/p": "point instancer"}
    assert len(scene.faults) == len(words)
    for line, (place, told) in zip(scene.faults, words.items(), strict=True):
        assert line.startswith(f"a.usda: {place}: ")
        assert told in line


def test_other_files(tmp_path: Path) -> None:
    """Layers in the root only."""
    stage(tmp_path / "lib" / "part.usda", xform("P", mesh("m")), 'defaultPrim = "P"')
    path = stage(tmp_path / "in" / "a.usda", xform("x", "", "prepend references = @../lib/part.usda@"))
    with pytest.raises(InputError, match="which is no file in its folder") as raised:
        read_scene(path)
    assert "\n" not in str(raised.value)
    assert len(read_scene(path, tmp_path).parts) == 1


def test_damaged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.usda"):
        read_scene(stage(tmp_path / "a.usda", "def Mesh {"))


def test_roots_and_units_by_default(tmp_path: Path) -> None:
    """A repository's folder; centimetres, which a note says."""
    stage(tmp_path / "lib" / "part.usda", xform("P", mesh("m")), 'defaultPrim = "P"')
    path = stage(tmp_path / "in" / "a.usda", xform("x", "", "prepend references = @../lib/part.usda@"), "")
    (tmp_path / ".git").mkdir()
    with pytest.warns(ReadingNote, match=r"a\.usda: names no metersPerUnit"):
        (part,) = read_scene(path).parts
    np.testing.assert_allclose(part.vertices, 0.01 * np.array(CORNERS), rtol=1e-6)


@pytest.mark.parametrize("suffix", [".usda", ".usd", ".usdc", ".usdz"])
def test_written(suffix: str, tmp_path: Path) -> None:
    """Changes are on the colliders, in instances, too; the stage and everything else is the original's."""
    stage(tmp_path / "in" / "_part.usda", xform("P", mesh("m")), 'defaultPrim = "P"')
    reference = "prepend references = @./_part.usda@\ninstanceable = true"
    names = "".join(xform(name, moved(translate=(1, 2, 3)), reference) for name in ("one", "two"))
    text = xform("w", names + mesh("own", moved(scale=(2, 2, 2))) + mesh("seen", metadata=""))
    head = 'defaultPrim = "w"\nmetersPerUnit = 0.1\nupAxis = "Y"'
    flat = path = stage(tmp_path / "in" / "a@.usda", text, head)
    if suffix != ".usda":
        path = flat.with_suffix(suffix)
        call = (
            "UsdUtils.CreateNewUsdzPackage(*sys.argv[1:])"
            if suffix == ".usdz"
            else "Sdf.Layer.FindOrOpen(sys.argv[1]).Export(sys.argv[2])"
        )
        subprocess.run(
            [sys.executable, "-c", f"import sys; from pxr import Sdf, UsdUtils; {call}", flat, path], check=True
        )
        flat.unlink()
    scene = read_scene(path)
    assert [part.name for part in scene.parts] == ["m", "own"]
    odd = 'a "quoted" \\ name\n'
    values = {
        "physics:approximation": ("token", "sdf"),
        "newton:text": ("string", odd),
        "newton:level": ("float", 0.1),
        "newton:flag": ("bool", True),
        "newton:count": ("int", 7),
        "newton:file": ("asset", "m@1.bin"),
        "newton:size": ("float3", (1, 2.5, 3)),
        "newton:list": ("int[]", np.array([1, 2])),
        "newton:sides": ("token[]", ["a", "b"]),
    }
    out = tmp_path / "out"
    (out / "stage").mkdir(parents=True)
    (out / "m@1.bin").touch()
    cooked = {"m": Cooked([], usd=values, usd_schemas=["NewtonSDFCollisionAPI"])}
    (name,) = scene.write(out / "stage", cooked, out)
    assert name == (path.name if suffix in (".usda", ".usd") else "a@.usda")
    (out / "stage" / name).rename(out / name)
    old, new = facts(path, out / name)
    changed = new["meshes"].pop("/w/one/m"), new["meshes"].pop("/w/two/m")
    before = old["meshes"].pop("/w/one/m"), old["meshes"].pop("/w/two/m")
    assert new == old
    assert (new["unit"], new["axis"], new["default"]) == (0.1, "Y", "/w")
    for one, other in zip(changed, before, strict=True):
        assert [one[key] for key in ("points", "place", "scale")] == [
            other[key] for key in ("points", "place", "scale")
        ]
        assert one["schemas"] == ["NewtonSDFCollisionAPI", *other["schemas"]]
        file = one["attributes"].pop("newton:file")
        assert file.strip("@") == "./m@1.bin"
        assert one["attributes"] == {
            "physics:approximation": "sdf",
            "newton:text": odd,
            "newton:level": "0.10000000149011612",
            "newton:flag": "True",
            "newton:count": "7",
            "newton:size": "(1, 2.5, 3)",
            "newton:list": "[1, 2]",
            "newton:sides": "[a, b]",
        }
    scene.write(out / "stage", {}, out)
    (out / "stage" / name).replace(out / name)
    old, new = facts(path, out / name)
    assert new == old


def test_values() -> None:
    assert _value("float[]", [float("inf"), 1e-30]) == "[inf, 1e-30]"
    assert _value("uniform token", "x\x01") == '"x\\x01"'
    assert _value("asset", "/a/b") == "@/a/b@"
    with pytest.raises(InputError, match="cannot name"):
        _value("asset", "a\nb")


def test_noise(tmp_path: Path) -> None:
    """A damaged scene ends its reader at most."""
    text = stage(tmp_path / "a.usda", xform("w", mesh("m", moved(scale=(1, 2, 3))))).read_bytes()
    random = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for _ in range(2):
        data = bytearray(text)
        for place in random.integers(60, len(data), 2):
            data[place] = random.integers(32, 127)
        (tmp_path / "a.usda").write_bytes(data)
        assert is_told_in_a_line(tmp_path / "a.usda")
