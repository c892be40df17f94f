"""URDF: collision meshes against float64 products and PyBullet; hostile paths; scenes written back."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenes import CORNERS, FACES, is_told_in_a_line, posed, volume, write_obj
from sdfcli.cook.part import Cooked
from sdfcli.cook.scene import read_scene
from sdfcli.errors import InputError, UsageError


def link(name: str, *geometries: str, visual: str = "") -> str:
    parts = "".join(f"<collision>{each}</collision>" for each in geometries)
    return f'<link name="{name}">{visual}{parts}</link>'


def mesh(file: str, scale: str | None = None) -> str:
    return f'<geometry><mesh filename="{file}"{f" scale={scale!r}" if scale else ""}/></geometry>'


def robot(path: Path, *links: str) -> Path:
    joints = "".join(
        f'<joint name="j{n}" type="fixed"><parent link="base"/><child link="l{n}"/></joint>'
        for n in range(1, len(links))
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'<robot name="r">{"".join(links)}{joints}</robot>')
    return path


SCALE = st.floats(0.01, 100).flatmap(lambda size: st.sampled_from([size, -size]))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(SCALE, SCALE, SCALE))
def test_scales(tmp_path: Path, scale: tuple[float, float, float]) -> None:
    """Vertices are products, and normals point outward after mirrors, too."""
    write_obj(tmp_path / "a.obj")
    text = " ".join(map(repr, scale))
    (part,) = read_scene(robot(tmp_path / "r.urdf", link("base", mesh("a.obj", text)))).parts
    expected = [[corner[axis] * scale[axis] for axis in range(3)] for corner in CORNERS]
    assert part.vertices.tolist() == expected
    assert volume(part.vertices, part.faces) == pytest.approx(abs(np.prod(scale)) * volume(CORNERS, FACES))


def test_a_mesh_used_twice_is_one_part(tmp_path: Path) -> None:
    for name in ("a.obj", "b/a.obj", "A.obj"):
        write_obj(tmp_path / name)
    files = [mesh("a.obj"), mesh("a.obj", "1 1 1"), mesh("a.obj", "2 2 2"), mesh("b/a.obj"), mesh("A.obj")]
    scene = read_scene(robot(tmp_path / "r.urdf", link("base", *files), link("l1", *files)))
    assert [part.name for part in scene.parts] == ["a", "a_2", "a_3", "A_4"]
    assert [part.place for part in scene.parts][:2] == [f"r.urdf: link base, collision {n}" for n in (1, 3)]
    assert scene.parts[2].source == str((tmp_path / "b" / "a.obj").resolve())
    assert scene.faults == []


@pytest.mark.parametrize("unit", [0.01, 0.5])
def test_units_of_files(unit: float, tmp_path: Path) -> None:
    """COLLADA files in centimetres, and in a unit without a name."""
    points = " ".join(str(value) for corner in CORNERS for value in corner)
    order = " ".join(str(corner) for face in FACES for corner in face)
    (tmp_path / "a.dae").write_text(f"""<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit name="u" meter="{unit}"/></asset>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="{3 * len(CORNERS)}">{points}</float_array>
<technique_common><accessor source="#pa" count="{len(CORNERS)}" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="{len(FACES)}"><input semantic="VERTEX" source="#v" offset="0"/><p>{order}</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><instance_geometry url="#g"/></node></visual_scene>
</library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>""")
    (part,) = read_scene(robot(tmp_path / "r.urdf", link("base", mesh("a.dae", "2 2 2")))).parts
    np.testing.assert_allclose(np.ptp(part.vertices, axis=0), 2 * unit * np.ptp(CORNERS, axis=0), rtol=1e-12)


def test_faults_are_lines(tmp_path: Path) -> None:
    """Each bad mesh costs one line that names its place, and no more."""
    root = tmp_path / "in"
    write_obj(root / "good.obj")
    write_obj(tmp_path / "secret.obj")
    (root / "bad.obj").write_text("v 0 0 0\nf 1 2 3\n")
    (root / "link.obj").symlink_to(tmp_path / "secret.obj")
    (root / "o\n\x7f.obj").write_text("v 0 0 0\nf 1 2 3\n")
    (root / "loop.obj").symlink_to(root / "loop.obj")
    cases = {
        mesh("missing.obj"): "missing.obj: no such file",
        mesh("../secret.obj"): "is outside of",
        mesh(str(tmp_path / "secret.obj")): "is outside of",
        mesh(f"file://{tmp_path}/secret.obj"): "is outside of",
        mesh("link.obj"): "is outside of",
        mesh("loop.obj"): "no such file",
        mesh("package://../secret.obj"): "no package ..",
        mesh("package://tmp/secret.obj"): "no package tmp",
        mesh("http://localhost/a.obj"): "no such file",
        mesh("x" * 5000): "no such file",
        mesh("bad.obj"): "names vertex 2",
        mesh("o&#10;&#127;.obj"): "names vertex 2",
        mesh("good.obj", "0 1 1"): "a scale of 0 1 1",
        mesh("good.obj", "nan 1 1"): "use 3 finite numbers",
        mesh("good.obj", "1e999 1 1"): "use 3 finite numbers",
        mesh("good.obj", "0.001"): "use 3 finite numbers",
        mesh("good.obj", "1e-40 1e-40 1e-40"): "extent",
        "<geometry><mesh/></geometry>": "no such file",
        mesh(""): "no such file",
    }
    scene = read_scene(robot(root / "r.urdf", link("base", *cases, mesh("good.obj"))))
    assert [part.name for part in scene.parts] == ["good"]
    told = iter(scene.faults)
    for number, words in enumerate(list(cases.values())[:-1], 1):  # the last is the same mesh as the one before
        line = next(told)
        assert line.startswith(f"r.urdf: link base, collision {number}: ")
        assert words in line
        assert line.isprintable()
    assert next(told, None) is None


def test_200_meshes_with_one_bad(tmp_path: Path) -> None:
    for n in range(200):
        write_obj(tmp_path / f"m{n}.obj", np.array(CORNERS) * (n + 1))
    (tmp_path / "m77.obj").write_bytes(os.urandom(1000))
    scene = read_scene(robot(tmp_path / "r.urdf", link("base", *(mesh(f"m{n}.obj") for n in range(200)))))
    assert [part.name for part in scene.parts] == [f"m{n}" for n in range(200) if n != 77]
    assert len(scene.faults) == 1
    assert "link base, collision 78" in scene.faults[0]


def test_packages(tmp_path: Path) -> None:
    """Above the robot and beside it, where they have a package.xml or lie in the root."""
    own, other = tmp_path / "ws" / "own", tmp_path / "ws" / "other"
    for folder in (own, other):
        write_obj(folder / "meshes" / "a.obj")
        (folder / "package.xml").write_text("<package/>")
    write_obj(tmp_path / "ws" / "plain" / "a.obj")
    names = ["package://own/meshes/a.obj", "../meshes/a.obj", "package://other/meshes/a.obj", "package://plain/a.obj"]
    path = robot(own / "urdf" / "r.urdf", link("base", *map(mesh, names), mesh("package://other/../plain/a.obj")))
    scene = read_scene(path)
    assert [part.source for part in scene.parts] == [
        str((folder / "meshes" / "a.obj").resolve()) for folder in (own, own, other)
    ]
    assert ["no package plain" in scene.faults[0], "is outside of" in scene.faults[1]] == [True, True]
    assert scene.faults[0].endswith("use --root a folder above")
    assert len(read_scene(path, tmp_path / "ws").parts) == 5
    with pytest.raises(UsageError, match="use a folder above"):
        read_scene(path, other)


def test_a_package_in_a_folder_of_another_name(tmp_path: Path) -> None:
    """As in a repository cloned under another name."""
    write_obj(tmp_path / "clone" / "arm" / "a.obj")
    path = robot(tmp_path / "clone" / "arm" / "r.urdf", link("base", mesh("package://models/arm/a.obj")))
    for text in ("<package><name>other</name></package>", "<package/>", "<package", ""):
        (tmp_path / "clone" / "package.xml").write_text(text)
        assert "no package models in " in read_scene(path).faults[0]
    (tmp_path / "clone" / "package.xml").write_text("<package><name> models\n</name></package>")
    (part,) = read_scene(path).parts
    assert part.source == str((tmp_path / "clone" / "arm" / "a.obj").resolve())
    path = robot(tmp_path / "plain" / "urdf" / "r.urdf", link("base", mesh("package://plain/a.obj")))
    assert read_scene(path).faults[0].endswith(f"use --root {tmp_path / 'plain'}")


def test_what_tinyxml_passes_over(tmp_path: Path) -> None:
    """Blank lines before the XML declaration, a zero byte at the end, and a macro that xacro left in an origin."""
    write_obj(tmp_path / "a.obj")
    origin = '<origin xyz="$(optenv X 0 0 1)"/>'
    path = robot(tmp_path / "r.urdf", link("base", origin + mesh("a.obj")))
    path.write_bytes(b'\r\n\n<?xml version="1.0"?>' + path.read_bytes() + b"\n\0")
    assert len(read_scene(path).parts) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("<robot>", "not XML"),
        ("<sdf/>", "its root element is <sdf>"),
        ('<!DOCTYPE robot [<!ENTITY a "aaaa">]><robot>&a;</robot>', "document type"),
        ("<robot>" + "<a>" * 100_000 + "</a>" * 100_000 + "</robot>", "nested more than 200"),
        ('<robot xmlns:xacro="x"><xacro:include filename="a"/></robot>', "xacro macros"),
        ('<robot><link name="${side}"/></robot>', "xacro macros"),
        ('<robot><mesh filename="$(find p)/a.obj"/></robot>', "xacro macros"),
        ("<mujocoinclude/>", "is a part of a model"),
    ],
)
def test_unreadable(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "r.urdf").write_text(text)
    with pytest.raises(InputError, match=words) as raised:
        read_scene(tmp_path / "r.urdf")
    assert str(raised.value).startswith(str(tmp_path / "r.urdf"))
    assert "\n" not in str(raised.value)


def test_noise(tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    text = robot(path, link("base", mesh("a.obj", "1 1 1"))).read_bytes()
    random = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for _ in range(300):
        data = bytearray(text)
        for place in random.integers(0, len(data), 3):
            data[place] = random.integers(256)
        path.write_bytes(data)
        assert is_told_in_a_line(path)


def test_written(tmp_path: Path) -> None:
    """Cooked elements take the meshes' places; all other names lead to the same files from the new folder."""
    root = tmp_path / "in"
    write_obj(root / "a.obj")
    write_obj(root / "see.obj")
    visual = f'<visual>{mesh("see.obj")}<material name="m"><texture filename="{root}/t.png"/></material></visual>'
    links = link("base", mesh("a.obj"), mesh("gone.obj"), visual=visual), link("l1", "<!-- kept -->" + mesh("a.obj"))
    scene = read_scene(robot(root / "r.urdf", *links))
    out = tmp_path / "out" / "deep"
    stage = out / "stage"
    stage.mkdir(parents=True)
    added = Element("drake:proximity_properties")
    cooked = {"a": Cooked([], urdf=Element("cdf", filename="a.cdf"), urdf_collision=[added])}
    assert scene.write(stage, cooked, out) == ["r.urdf"]
    text = (stage / "r.urdf").read_text()
    assert text.count('<cdf filename="a.cdf" />') == 2
    assert "<!-- kept -->" in text
    tree = ElementTree.fromstring(text)  # with namespaces
    assert len(tree.findall(".//collision/{http://drake.mit.edu}proximity_properties")) == 2
    named = [each.get("filename") for each in tree.iter() if each.tag in ("mesh", "texture")]
    assert named == ["../../in/see.obj", "../../in/t.png", "../../in/gone.obj"]
    assert (out / str(named[0])).samefile(root / "see.obj")
    with pytest.raises(UsageError, match="exists"):
        scene.write(stage, cooked, out)


@pytest.mark.parametrize("scale", ["1 2 3", "-1 2 0.5"])
def test_against_pybullet(scale: str, tmp_path: Path) -> None:
    """The scene written with nothing cooked collides as the original, and a ray hits both where the part is."""
    bullet = pytest.importorskip("pybullet")
    write_obj(tmp_path / "pkg" / "meshes" / "a.obj")
    (tmp_path / "pkg" / "package.xml").write_text("<package/>")
    random = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    place, angles = random.uniform(-1, 1, 3), random.uniform(-1, 1, 3)
    words = [" ".join(map(repr, each.tolist())) for each in (place, angles)]
    origin = f'<origin xyz="{words[0]}" rpy="{words[1]}"/>'
    path = robot(tmp_path / "pkg" / "urdf" / "r.urdf", link("base", origin + mesh("../meshes/a.obj", scale)))
    scene = read_scene(path)
    (tmp_path / "out").mkdir()
    scene.write(tmp_path / "out", {})
    (part,) = scene.parts
    expected = posed(part.vertices, place, angles)
    client = bullet.connect(bullet.DIRECT)
    try:
        for file in (path, tmp_path / "out" / "r.urdf"):
            body = bullet.loadURDF(str(file), useFixedBase=True, physicsClientId=client)
            centre = expected.mean(axis=0)
            bullet.performCollisionDetection(physicsClientId=client)
            for middle in expected[part.faces].mean(axis=1):
                start, end = (centre + 3 * (middle - centre)).tolist(), centre.tolist()
                (hit,) = bullet.rayTest(start, end, physicsClientId=client)
                assert hit[0] == body
                np.testing.assert_allclose(hit[3], middle, atol=0.005)  # the collision margin is 0.001
            bullet.removeBody(body, physicsClientId=client)
    finally:
        bullet.disconnect(client)
