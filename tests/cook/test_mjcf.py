"""MJCF: meshes, classes, files and includes against MuJoCo's compiled models; scenes written back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenes import CORNERS, FACES, is_told_in_a_line, volume, write_obj
from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.scene import read_scene
from sdfcli.errors import InputError

MESH = 7
"""`mjGEOM_MESH`."""
GEOM = '<worldbody><geom type="mesh" mesh="a"/></worldbody>'


def model(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<mujoco>{text}</mujoco>")
    return path


def compiled(path: Path) -> Any:
    """MuJoCo's model; the test's rest is skipped without MuJoCo."""
    mujoco = pytest.importorskip("mujoco")
    return mujoco.MjModel.from_xml_path(str(path))


def rotation(quaternion: npt.ArrayLike) -> npt.NDArray[np.float64]:
    import mujoco

    found = np.empty(9)
    mujoco.mju_quat2Mat(found, np.asarray(quaternion, np.float64))
    return found.reshape(3, 3)


def asset_vertices(found: Any, name: str) -> npt.NDArray[np.float64]:
    """Vertices of a compiled mesh in its asset's frame."""
    mesh = found.mesh(name)
    first, count = mesh.vertadr[0], mesh.vertnum[0]
    return found.mesh_vert[first : first + count] @ rotation(found.mesh_quat[mesh.id]).T + found.mesh_pos[mesh.id]


def same_points(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], atol: float) -> None:
    """Each point of one set is in the other."""
    distance = np.linalg.norm(one[:, None] - other[None], axis=2)
    assert max(distance.min(axis=0).max(), distance.min(axis=1).max()) <= atol


def check_parts(path: Path) -> list[Part]:
    """The parts of a model, which are MuJoCo's meshes of the same names."""
    scene = read_scene(path)
    found = compiled(path)
    for part in scene.parts:
        theirs = asset_vertices(found, part.name)
        same_points(part.vertices, theirs, 1e-5 * (np.abs(theirs).max() + part.diagonal))
        assert volume(part.vertices, part.faces) > 0
    colliding = {
        int(found.geom_dataid[n])
        for n in range(found.ngeom)
        if found.geom_type[n] == MESH and (found.geom_contype[n] or found.geom_conaffinity[n])
    }
    assert {part.name for part in scene.parts} == {found.mesh(n).name for n in colliding}
    return scene.parts


SCALE = st.floats(0.1, 10).flatmap(lambda size: st.sampled_from([size, -size]))
NUMBER = st.floats(-2, 2)
TURN = st.tuples(NUMBER, NUMBER, NUMBER, NUMBER).filter(lambda each: np.linalg.norm(each) > 0.1)


def words(values: tuple[float, ...]) -> str:
    return " ".join(map(repr, values))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(SCALE, SCALE, SCALE), st.tuples(NUMBER, NUMBER, NUMBER), TURN, st.booleans())
def test_frames(
    tmp_path: Path, scale: tuple[float, ...], place: tuple[float, ...], turn: tuple[float, ...], is_inline: bool
) -> None:
    write_obj(tmp_path / "a.obj")
    points = " ".join(str(value) for corner in CORNERS for value in corner)
    faces = " ".join(str(corner) for face in FACES for corner in face)
    source = f'vertex="{points}" face="{faces}"' if is_inline else 'file="a.obj"'
    frame = f'scale="{words(scale)}" refpos="{words(place)}" refquat="{words(turn)}"'
    (part,) = check_parts(model(tmp_path / "m.xml", f'<asset><mesh name="a" {source} {frame}/></asset>{GEOM}'))
    assert part.name == "a"


CLASSES = """
<default>
  <geom type="mesh"/> <mesh scale="2 2 2"/>
  <default class="seen"><geom contype="0" conaffinity="0" group="2"/>
    <default class="hit"><geom contype="1" mesh="b"/></default></default>
  <default class="ball"><geom type="sphere" size="1"/></default>
  <default class="wide"><mesh scale="3 -1 1"/></default>
</default>
<asset>
  <mesh file="a.obj"/> <mesh name="b" class="wide" file="a.obj"/> <mesh name="c" file="a.obj" scale="1 1 4"/>
  <mesh name="d" file="a.obj"/> <mesh name="e" file="a.obj"/> <mesh name="f" file="a.obj"/>
</asset>
"""
BODIES = """
<worldbody>
  <geom class="seen" mesh="d"/>
  <geom type="box" mesh="d"/>
  <body childclass="seen">
    <geom mesh="d"/>
    <geom class="main" mesh="a" conaffinity="0"/>
    <frame childclass="hit"><geom/><frame><geom pos="9 9 9"/></frame></frame>
    <body><geom mesh="d"/><body childclass="ball"><geom mesh="d"/><geom type="mesh" mesh="c" contype="0"/></body></body>
    <replicate count="2" offset="1 0 0"><body><geom class="main" mesh="e"/></body></replicate>
  </body>
</worldbody>
"""


def test_classes(tmp_path: Path) -> None:
    write_obj(tmp_path / "a.obj")
    parts = check_parts(model(tmp_path / "m.xml", CLASSES + BODIES))
    assert sorted(part.name for part in parts) == ["a", "b", "c", "e"]
    assert [parts[0].place, parts[1].place] == [f"m.xml: geom {n}, in body without a name" for n in (4, 5)]
    scene = read_scene(model(tmp_path / "m.xml", BODIES + CLASSES))  # the order of sections is free
    assert [part.vertices.tolist() for part in scene.parts] == [part.vertices.tolist() for part in parts]


def test_classes_in_parts(tmp_path: Path) -> None:
    """Several sections of defaults; a class begins with what came before it."""
    write_obj(tmp_path / "a.obj")
    text = '<default><mesh scale="2 2 2"/><default class="k"><geom type="mesh"/></default></default>'
    text += '<default><mesh scale="5 5 5"/></default>'
    text += '<asset><mesh name="a" file="a.obj"/><mesh name="b" class="k" file="a.obj"/></asset>'
    geoms = '<worldbody><geom type="mesh" mesh="a"/><geom class="k" mesh="b"/></worldbody>'
    assert len(check_parts(model(tmp_path / "m.xml", text + geoms))) == 2


def test_random_classes(tmp_path: Path) -> None:
    """Trees of classes and bodies."""
    random = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    write_obj(tmp_path / "a.obj")

    def some(choices: dict[str, list[str]], share: float) -> str:
        chosen = {name: random.choice(values) for name, values in choices.items() if random.random() < share}
        return " ".join(f'{name}="{value}"' for name, value in chosen.items())

    flags = {
        "type": ["mesh", "mesh", "box"],
        "contype": ["0", "1"],
        "conaffinity": ["0", "1"],
        "mesh": ["m0", "m1", "m2"],
    }
    scales = {"scale": ["1 2 3", "-1 2 2", "2 2 2"]}

    def classes(names: list[str], depth: int) -> str:
        text = f"<geom {some(flags, 0.3)}/><mesh {some(scales, 0.5)}/>"
        for _ in range(2 if depth < 3 else 0):
            name = f"c{len(names)}"
            names.append(name)
            text += f'<default class="{name}">{classes(names, depth + 1)}</default>'
        return text

    def bodies(names: list[str], depth: int) -> str:
        text = "".join(f"<geom {some({'class': names}, 0.3)} {some(flags, 0.3)}/>" for _ in range(2))
        for tag in ("body", "frame") if depth < 4 else ():
            text += f"<{tag} {some({'childclass': names}, 0.5)}>{bodies(names, depth + 1)}</{tag}>"
        return text

    found = 0
    for _ in range(20):
        names = ["main"]
        text = f'<default><geom mesh="m0"/></default><default>{classes(names, 0)}</default>'
        meshes = "".join(f'<mesh name="m{n}" file="a.obj" {some({"class": names}, 0.7)}/>' for n in range(3))
        world = f"<worldbody><body>{bodies(names, 0)}</body></worldbody>"
        found += len(check_parts(model(tmp_path / "m.xml", f"{text}<asset>{meshes}</asset>{world}")))
    assert found > 10


def test_pairs_collide(tmp_path: Path) -> None:
    """Geoms without a contact type do in an explicit pair."""
    write_obj(tmp_path / "a.obj")
    quiet = 'type="mesh" mesh="a" contype="0" conaffinity="0"'
    text = f'<asset><mesh file="a.obj"/></asset><worldbody><geom name="g" {quiet}/><body pos="1 0 0"><freejoint/>'
    text += '<geom name="h" size="1"/></body></worldbody>'
    assert read_scene(model(tmp_path / "m.xml", text)).parts == []
    scene = read_scene(model(tmp_path / "m.xml", f'{text}<contact><pair geom1="h" geom2="g"/></contact>'))
    assert [part.place for part in scene.parts] == ["m.xml: geom g"]


@pytest.mark.parametrize(
    ("compiler", "file", "sizes"),
    [
        ("", "a.obj", {"a.obj": 1, "sub/a.obj": 2}),
        ("", "a.obj", {"sub/a.obj": 2}),
        ('meshdir="x"', "a.obj", {"x/a.obj": 1, "a.obj": 2, "sub/a.obj": 3, "sub/x/a.obj": 4}),
        ('meshdir="x"', "a.obj", {"a.obj": 2, "sub/a.obj": 3, "sub/x/a.obj": 4}),
        ('assetdir="x"', "y/a.obj", {"x/y/a.obj": 1, "x/a.obj": 2}),
        ('assetdir="y" meshdir="x"', "a.obj", {"x/a.obj": 1, "y/a.obj": 2}),
        ('meshdir="x"/><compiler assetdir="y"', "a.obj", {"x/a.obj": 1, "y/a.obj": 2}),
        ('meshdir="x" strippath="true"', "y/z/a.obj", {"x/a.obj": 1, "x/y/z/a.obj": 2}),
        ('meshdir="x\\y"', "z\\a.obj", {"x/y/z/a.obj": 1}),
    ],
)
def test_where_files_are(compiler: str, file: str, sizes: dict[str, float], tmp_path: Path) -> None:
    """The same file as MuJoCo reads; and from the written model, in another folder."""
    for name, size in sizes.items():
        write_obj(tmp_path / "in" / name, size * np.array(CORNERS))
    asset = f'<asset><mesh name="a" file="{file}"/></asset>'
    model(tmp_path / "in" / "sub" / "inner.xml", asset + GEOM)
    path = model(tmp_path / "in" / "m.xml", f'<include file="sub/inner.xml"/><compiler {compiler}/>')
    check_parts(path)
    (tmp_path / "out").mkdir()
    assert read_scene(path).write(tmp_path / "out", {}) == ["m.xml"]
    same_models(compiled(path), compiled(tmp_path / "out" / "m.xml"))


def same_models(one: Any, other: Any) -> None:
    """All numbers of compiled models, apart from paths."""
    for name in ("mesh_vert", "mesh_pos", "mesh_quat", "geom_pos", "geom_quat", "geom_size", "body_mass", "geom_type"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.nbody, one.ngeom, one.nhfield, one.ntex) == (other.nbody, other.ngeom, other.nhfield, other.ntex)


def test_includes(tmp_path: Path) -> None:
    """Beside the main model first, then beside the file that includes; in bodies and in defaults, with any root."""
    write_obj(tmp_path / "a.obj")
    model(tmp_path / "sub" / "one.xml", '<include file="two.xml"/><include file="three.xml"/>')
    model(tmp_path / "sub" / "two.xml", '<default><include file="scale.xml"/></default>')
    model(tmp_path / "three.xml", '<asset><mesh file="a.obj"/></asset>')
    model(tmp_path / "sub" / "three.xml", "<wrong/>")
    model(tmp_path / "sub" / "scale.xml", '<mesh scale="1 1 7"/>')
    (tmp_path / "geoms.xml").write_text('<any><geom type="mesh" mesh="a"/><!-- more --></any>')
    text = '<include file="sub/one.xml"/><worldbody><body><include file="geoms.xml"/></body></worldbody>'
    path = model(tmp_path / "m.xml", text)
    (part,) = check_parts(path)
    assert float(np.ptp(part.vertices[:, 2])) == 21
    (tmp_path / "out").mkdir()
    read_scene(path).write(tmp_path / "out", {})
    same_models(compiled(path), compiled(tmp_path / "out" / "m.xml"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"m": '<include file="m.xml"/>'}, "m.xml: is included twice, or in a cycle"),
        ({"m": '<include file="b.xml"/>', "b": '<include file="m.xml"/>'}, "is included twice, or in a cycle"),
        ({"m": '<include file="b.xml"/><include file="./b.xml"/>', "b": "<a/>"}, "is included twice, or in a cycle"),
        ({"m": '<include file="gone.xml"/>'}, "gone.xml: no such file"),
        ({"m": "<include/>"}, "no such file"),
        ({"m": '<include file="b.xml"/>', "b": "<a"}, "include b.xml: not XML"),
        ({"m": '<include file="../secret.xml"/>'}, "secret.xml: is outside of"),
        ({"m": '<include file="/etc/passwd"/>'}, "/etc/passwd: is outside of"),
        ({"m": "<a>" * 150 + '<include file="b.xml"/>' + "</a>" * 150, "b": "<a>" * 150 + "</a>" * 150}, "nested more"),
    ],
)
def test_bad_includes(files: dict[str, str], told: str, tmp_path: Path) -> None:
    model(tmp_path / "secret.xml", "")
    for name, text in files.items():
        model(tmp_path / "in" / f"{name}.xml", text)
    with pytest.raises(InputError, match=told) as raised:
        read_scene(tmp_path / "in" / "m.xml")
    assert "\n" not in str(raised.value)


def test_a_long_chain_of_includes(tmp_path: Path) -> None:
    for n in range(2000):
        model(tmp_path / f"m{n}.xml", f'<include file="m{n + 1}.xml"/>')
    with pytest.raises(InputError, match="nested more than 200"):
        read_scene(tmp_path / "m0.xml")


def test_faults_are_lines(tmp_path: Path) -> None:
    write_obj(tmp_path / "in" / "a.obj")
    write_obj(tmp_path / "secret.obj")
    cases = {
        'file="gone.obj"': "gone.obj: no such file",
        'file="../secret.obj"': "is outside of",
        'file="a.obj" scale="1 0 1"': "a scale of 1 0 1",
        'file="a.obj" scale="2"': "use 3 finite numbers",
        'file="a.obj" refquat="0 0 0 0"': "length 0",
        'file="a.obj" refpos="0 nan 0"': "use 3 finite numbers",
        'builtin="sphere" params="2"': "a built-in shape",
        "": "without a file",
        'vertex="0 0 0 1 0 0 0 1 0 0 0 1"': "their convex hull",
        'vertex="0 0 0 1 0 0 0 1 0" face="0 1 3"': "names vertex 3",
        'vertex="0 0 0 1 0 0 0 1 0" face="0 1 1.5"': "whole numbers",
        'vertex="0 0 0 1" face="0 0 0"': "vertex has 4 numbers",
    }
    assets = "".join(f'<mesh name="m{n}" {text}/>' for n, text in enumerate(cases))
    geoms = "".join(f'<geom name="g{n}" type="mesh" mesh="m{n}"/>' for n in range(len(cases)))
    text = f'<asset>{assets}<mesh file="a.obj"/><model name="s" file="s.xml"/></asset>'
    text += f'<worldbody>{geoms}<geom type="mesh" mesh="a"/><geom name="lost" type="mesh" mesh="none"/></worldbody>'
    scene = read_scene(model(tmp_path / "in" / "m.xml", text))
    assert [part.name for part in scene.parts] == ["a"]
    assert scene.faults[0].startswith("m.xml: model s: ")
    for n, (line, told) in enumerate(zip(scene.faults[1:-1], cases.values(), strict=True)):
        assert line.startswith(f"m.xml: geom g{n}: ")
        assert told in line
    assert scene.faults[-1] == "m.xml: geom lost: no mesh none among the assets"


def test_written(tmp_path: Path) -> None:
    """Geoms take a target's changes where they are; the model compiles, and all else is the same."""
    write_obj(tmp_path / "in" / "meshes" / "a.obj")
    write_obj(tmp_path / "in" / "meshes" / "see.obj")
    (tmp_path / "in" / "meshes" / "h.bin").write_bytes(np.array([2, 2], "<i4").tobytes() + b"\0\0\0\0" * 4)
    text = """<compiler meshdir="meshes" angle="radian"/>
<default><mesh scale="0.5 0.5 0.5"/></default>
<asset><mesh file="a.obj"/><mesh file="see.obj"/><hfield name="h" file="h.bin" size="1 1 1 1"/></asset>
<worldbody>
  <geom type="mesh" mesh="see" contype="0" conaffinity="0"/>
  <replicate count="3" offset="0 0 5"><body><freejoint/><geom name="g" type="mesh" mesh="a" rgba="1 0 0 1"/></body>
  </replicate>
  <body><geom type="mesh" mesh="a" euler="1 0 0"/></body>
</worldbody>"""
    path = model(tmp_path / "in" / "m.xml", text)
    scene = read_scene(path)
    (part,) = scene.parts
    stage = tmp_path / "out" / "stage"
    stage.mkdir(parents=True)
    write_obj(tmp_path / "out" / "a.obj", part.vertices)
    cooked = Cooked(
        ["a.obj"],
        mjcf={"type": "mesh", "mesh": "a", "rgba": None, "solref": "0.01 1"},
        mjcf_copy={"name": None, "contype": "0", "conaffinity": "0"},
        mjcf_asset=[Element("mesh", name="a", file="a.obj")],
    )
    assert scene.write(stage, {"a": cooked}, tmp_path / "out") == ["m.xml"]
    (stage / "m.xml").rename(tmp_path / "out" / "m.xml")
    geoms = ElementTree.parse(tmp_path / "out" / "m.xml").findall(".//geom")
    assert [geom.get("mesh") for geom in geoms] == ["see", "a_cooked", "a", "a_cooked", "a"]
    assert [geom.get("rgba") for geom in geoms] == [None, None, "1 0 0 1", None, None]
    assert [geom.get("name") for geom in geoms] == [None, "g", None, None, None]
    again = read_scene(path)  # writing changed nothing of the scene
    scene.write(tmp_path / "in" / "meshes", {})
    again.write(stage, {})
    assert (tmp_path / "in" / "meshes" / "m.xml").read_text() != (stage / "m.xml").read_text()  # other relative paths
    assert len(read_scene(tmp_path / "in" / "meshes" / "m.xml", tmp_path).parts) == 1
    old, new = compiled(path), compiled(tmp_path / "out" / "m.xml")
    assert (new.nbody, new.ngeom, new.nhfield) == (old.nbody, old.ngeom + 4, 1)
    assert new.geom_contype.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0][: new.ngeom]
    same_points(asset_vertices(new, "a_cooked"), asset_vertices(old, "a"), 1e-5)
    np.testing.assert_allclose(new.geom_solref[new.geom_contype > 0][:, 0], 0.01)


def test_masses_stay(tmp_path: Path) -> None:
    """Of bodies without an inertial frame, in which MuJoCo computes them from meshes, each in its asset's way."""
    for name in ("a", "b", "c"):
        write_obj(tmp_path / f"{name}.obj")
    settings = '<default><default class="shell"><mesh inertia="shell" maxhullvert="6"/></default></default>'
    assets = '<asset><mesh class="shell" file="a.obj"/><mesh file="b.obj" inertia="exact"/><mesh file="c.obj"/></asset>'
    bodies = "".join(
        f'<body pos="{5 * n} 0 0"><freejoint/><geom type="mesh" mesh="{name}"/></body>' for n, name in enumerate("abc")
    )
    path = model(tmp_path / "m.xml", f"{settings}{assets}<worldbody>{bodies}</worldbody>")
    scene, out = read_scene(path), tmp_path / "out"
    cooked = {}
    for part in scene.parts:
        write_obj(out / f"{part.name}.obj", part.vertices)
        asset = Element("mesh", name=f"{part.name}_sdf", file=f"{part.name}.obj")
        cooked[part.name] = Cooked([], mjcf={"mesh": f"{part.name}_sdf"}, mjcf_asset=[asset])
    scene.write(out, cooked)
    tree = ElementTree.parse(out / "m.xml")
    assert [each.get("maxhullvert") for each in tree.findall("asset/mesh")] == [None, None, None, "6", None, None]
    old, new = compiled(path), compiled(out / "m.xml")
    assert old.body_mass[1] != pytest.approx(old.body_mass[3])
    np.testing.assert_allclose(new.body_mass, old.body_mass, rtol=1e-5)
    np.testing.assert_allclose(new.body_inertia, old.body_inertia, rtol=1e-4)


def test_extensions(tmp_path: Path) -> None:
    """Instances of a plugin that several parts use are in one element; MuJoCo refuses a second one."""
    write_obj(tmp_path / "a.obj")
    text = '<asset><mesh file="a.obj"/><mesh name="b" file="a.obj" scale="2 2 2"/></asset>'
    text += '<worldbody><geom type="mesh" mesh="a"/><geom type="mesh" mesh="b"/></worldbody>'
    scene = read_scene(model(tmp_path / "m.xml", text))
    cooked = {}
    for part in scene.parts:
        extension = Element("plugin", plugin="sdf")
        SubElement(extension, "instance", name=part.name)
        child = Element("plugin", instance=part.name)
        cooked[part.name] = Cooked([], mjcf={"type": "sdf"}, mjcf_extension=[extension], mjcf_children=[child])
    (tmp_path / "out").mkdir()
    scene.write(tmp_path / "out", cooked)
    tree = ElementTree.parse(tmp_path / "out" / "m.xml")
    assert [each.get("name") for each in tree.findall("extension/plugin/instance")] == ["a", "b"]
    assert len(tree.findall("extension/plugin")) == 1
    assert [each.get("instance") for each in tree.findall("worldbody/geom/plugin")] == ["a", "b"]


def test_attached_models(tmp_path: Path) -> None:
    """They stay, with their paths mended."""
    write_obj(tmp_path / "in" / "sub" / "a.obj")
    inner = (
        '<asset><mesh file="a.obj"/></asset><worldbody><body name="b"><geom type="mesh" mesh="a"/></body></worldbody>'
    )
    model(tmp_path / "in" / "sub" / "s.xml", inner)
    text = '<asset><model name="s" file="sub/s.xml"/></asset><worldbody><frame><attach model="s" body="b" prefix="p"/>'
    path = model(tmp_path / "in" / "m.xml", f"{text}</frame></worldbody>")
    scene = read_scene(path)
    (tmp_path / "out").mkdir()
    scene.write(tmp_path / "out", {})
    same_models(compiled(path), compiled(tmp_path / "out" / "m.xml"))
    assert (scene.parts, len(scene.faults)) == ([], 1)


def test_noise(tmp_path: Path) -> None:
    write_obj(tmp_path / "a.obj")
    path = model(tmp_path / "m.xml", CLASSES + BODIES)
    text, random = path.read_bytes(), np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for _ in range(200):
        data = bytearray(text)
        for place in random.integers(0, len(data), 3):
            data[place] = random.integers(256)
        path.write_bytes(data)
        assert is_told_in_a_line(path)
