"""COLLADA files: shapes of their scenes, and what is refused or left out of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shapes
from sdfcli.errors import InputError
from sdfcli.mesh.formats.collada import MOST_NESTED
from sdfcli.mesh.load import load_mesh

NAMESPACE = "http://www.collada.org/2005/11/COLLADASchema"
VERTICES, FACES = shapes.cube()
QUADS = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
"""A cube's sides, of the corners that `corner` numbers."""
CORNERS = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)

Write = Callable[..., Path]


def text(values: Any) -> str:
    return " ".join(map(str, np.asarray(values).ravel().tolist()))


def source(points: Any, name: str = "p", params: str = "XYZ", stride: int = 3, offset: int = 0) -> str:
    points = np.asarray(points)
    head = f'<source id="{name}"><float_array id="{name}-a" count="{points.size}">{text(points)}</float_array>'
    accessor = f'source="#{name}-a" count="{len(points)}" stride="{stride}" offset="{offset}"'
    names = "".join(f'<param name="{each}" type="float"/>' for each in params)
    return f"{head}<technique_common><accessor {accessor}>{names}</accessor></technique_common></source>"


def faces_of(tag: str, count: int, body: str, inputs: str = '<input semantic="VERTEX" source="#v" offset="0"/>') -> str:
    return f'<{tag} count="{count}">{inputs}{body}</{tag}>'


TRIANGLES = faces_of("triangles", len(FACES), f"<p>{text(FACES)}</p>")
POINTS = source(VERTICES) + '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>'
NODE = '<node><instance_geometry url="#g"/></node>'


def document(
    mesh: str = POINTS + TRIANGLES, nodes: str = NODE, more: str = "", asset: str = "", scene: str = "#s"
) -> str:
    shown = f'<scene><instance_visual_scene url="{scene}"/></scene>' if scene else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?><COLLADA xmlns="{NAMESPACE}" version="1.4.1"><asset>{asset}</asset>'
        f'<library_geometries><geometry id="g"><mesh>{mesh}</mesh></geometry></library_geometries>{more}'
        f'<library_visual_scenes><visual_scene id="s">{nodes}</visual_scene></library_visual_scenes>{shown}</COLLADA>'
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(content: str | bytes) -> Path:
        path = tmp_path / "a.dae"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return file


def volume(mesh: Any) -> float:
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)


def test_triangles(write: Write) -> None:
    mesh = load_mesh(write(document()))
    assert np.array_equal(mesh.vertices[mesh.faces], np.asarray(VERTICES)[np.asarray(FACES)])
    assert mesh.notes == []


@pytest.mark.parametrize("namespace", ["http://www.collada.org/2008/03/COLLADASchema", ""])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_other_texts(namespace: str, encoding: str, write: Write) -> None:
    content = document().replace(f' xmlns="{NAMESPACE}"', f' xmlns="{namespace}"' if namespace else "")
    assert len(load_mesh(write(content.encode(encoding))).faces) == 12


def test_positions_keep_their_bits(write: Write) -> None:
    points = np.random.default_rng(1).normal(size=(8, 3)) * 1e5
    mesh = load_mesh(write(document(POINTS.replace(text(VERTICES), text(points)) + TRIANGLES)))
    assert np.array_equal(mesh.vertices[mesh.faces], points[np.asarray(FACES)])


STRIP = [[0, 1, 2, 3], [4, 6, 5, 7]]
KINDS = {
    "polylist": faces_of("polylist", 6, f"<vcount>{text([4] * 6)}</vcount><p>{text(QUADS)}</p>"),
    "polygons": faces_of("polygons", 6, "".join(f"<p>{text(quad)}</p>" for quad in QUADS)),
    "trifans": faces_of("trifans", 6, "".join(f"<p>{text(quad)}</p>" for quad in QUADS)),
    "tristrips": faces_of(
        "tristrips", 6, "".join(f"<p>{text([quad[0], quad[1], quad[3], quad[2]])}</p>" for quad in QUADS)
    ),
    "mixed": faces_of("polylist", 2, f"<vcount>4 4</vcount><p>{text(QUADS[:2])}</p>")
    + faces_of("triangles", 8, f"<p>{text([(q[0], q[a], q[a + 1]) for q in QUADS[2:] for a in (1, 2)])}</p>")
    + '<lines count="3"><p>0 1</p></lines><extra/>',
    "inputs": faces_of(
        "polylist",
        6,
        f"<vcount>{text([4] * 6)}</vcount><p>{text([(9, k, 7) for quad in QUADS for k in quad])}</p>",
        '<input semantic="NORMAL" source="#n" offset="0"/><input semantic="VERTEX" source="#v" offset="1"/>'
        '<input semantic="TEXCOORD" source="#t" offset="2" set="0"/>',
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_faces(kind: str, write: Write) -> None:
    points = source(CORNERS) + '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>'
    mesh = load_mesh(write(document(points + KINDS[kind])))
    assert len(mesh.faces) == 12
    assert mesh.health.watertight
    assert abs(volume(mesh)) == pytest.approx(1)
    assert mesh.health.inconsistent_edges == 0
    assert mesh.notes == (["lines left out: 3"] if kind == "mixed" else [])


def test_concave_faces(write: Write) -> None:
    outline = [[0, 0, 0], [4, 0, 0], [4, 4, 0], [2, 1, 0], [0, 4, 0]]
    points = source(outline) + '<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>'
    mesh = load_mesh(write(document(points + faces_of("polylist", 1, "<vcount>5</vcount><p>0 1 2 3 4</p>"))))
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    assert np.cross(b - a, c - a)[:, 2].min() > 0
    assert np.cross(b - a, c - a)[:, 2].sum() / 2 == pytest.approx(10)


def test_accessors(write: Write) -> None:
    wide = np.column_stack([np.full(8, 9.0), np.asarray(VERTICES)[:, ::-1], np.full(8, 7.0)])
    points = source(wide, params="AZYXB", stride=5)
    mesh = load_mesh(write(document(points + POINTS[POINTS.index("<vertices") :] + TRIANGLES)))
    assert np.array_equal(mesh.vertices[mesh.faces], np.asarray(VERTICES)[np.asarray(FACES)])


def test_nodes_are_placed(write: Write) -> None:
    turn = "<rotate>0 0 2 90</rotate>"
    inner = f'<node><matrix>1 0 0 0  0 1 0 0  0 0 1 5  0 0 0 1</matrix>{turn}<instance_geometry url="#g"/></node>'
    nodes = f'<node><translate>10 0 0</translate><scale>2 2 2</scale>{inner}<instance_node url="#n"/></node>' + NODE
    shared = f'<library_nodes><node id="n"><translate>0 50 0</translate>{NODE}</node></library_nodes>'
    mesh = load_mesh(write(document(nodes=nodes, more=shared)))
    corners = np.asarray(VERTICES)[np.asarray(FACES)]
    turned = np.stack([-corners[..., 1], corners[..., 0], corners[..., 2]], axis=-1)
    right, up, far = np.array([10, 0, 0]), np.array([0, 0, 5]), np.array([0, 50, 0])
    expected = [right + 2 * (turned + up), right + 2 * (corners + far), corners]
    found = mesh.vertices[mesh.faces].reshape(3, 12, 3, 3)
    for each in expected:
        assert min(np.abs(part - each).max() for part in found) < 1e-12


def test_mirrored_nodes_keep_their_outside(write: Write) -> None:
    plain = volume(load_mesh(write(document())))
    node = '<node><scale>1 -2 1</scale><instance_geometry url="#g"/></node>'
    assert volume(load_mesh(write(document(nodes=node)))) == pytest.approx(2 * plain)


def test_what_is_left_out(write: Write) -> None:
    other = '<library_geometries><geometry id="h"><brep/></geometry></library_geometries>'
    moving = "<library_animations><animation/><animation/></library_animations>"
    second = '<library_visual_scenes><visual_scene id="t"/></library_visual_scenes>'
    lights = '<node><instance_light url="#x"/><instance_camera url="#y"/></node>'
    mesh = load_mesh(write(document(nodes=NODE + lights, more=other + moving + second)))
    assert mesh.notes == [
        "other scenes left out: 1",
        "geometries outside the scene left out: 1",
        "animations left out: 2",
    ]


def test_a_single_scene_needs_no_name(write: Write) -> None:
    assert len(load_mesh(write(document(scene=""))).faces) == 12


@pytest.mark.parametrize(
    ("asset", "unit"),
    [
        ("", "m"),
        ('<unit name="centimeter" meter="0.01"/>', "cm"),
        ('<unit meter="0.0254"/>', "in"),
        ('<unit name="mm" meter="1.0e-3"/><up_axis>Z_UP</up_axis>', "mm"),
        ('<unit meter="0.5"/>', "0.5 m"),
    ],
)
def test_units(asset: str, unit: str, write: Write) -> None:
    path = write(document(asset=asset))
    assert load_mesh(path).units == unit
    if unit == "in":
        assert np.ptp(load_mesh(path, units="mm").vertices) == pytest.approx(25.4 * np.ptp(VERTICES))


def nested(depth: int) -> str:
    names = [f'<node id="n{k}"><instance_node url="#n{k + 1}"/></node>' for k in range(depth)]
    return f'<library_nodes>{"".join(names)}<node id="n{depth}">{NODE}</node></library_nodes>'


BILLION = (
    "".join(f'<node id="n{k}">' + 10 * f'<instance_node url="#n{k + 1}"/>' + "</node>" for k in range(9))
    + f'<node id="n9">{NODE}</node>'
)
FIRST = '<node><instance_node url="#n0"/></node>'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the file is empty"),
        ("solid a", "not the XML of a COLLADA file"),
        (document()[:700], "not the XML of a COLLADA file"),
        ("<html/>", "a COLLADA file is needed, not 'html'"),
        (document().replace("<COLLADA", "<!DOCTYPE x><COLLADA", 1), "has a document type"),
        (document().encode("utf-16-le"), "bytes that are 0"),
        (document(scene="#t"), "the visual_scene 't' is not there"),
        (document(scene="other.dae#s"), "'other.dae#s' is no part of this file"),
        (document(nodes='<node><instance_geometry url="h.dae#g"/></node>'), "'h.dae#g' is no part of this file"),
        (document(nodes='<node><instance_geometry url="#h"/></node>'), "the geometry 'h' is not there"),
        (document(more='<library_geometries><geometry id="g"/></library_geometries>'), "the geometry 'g' is twice"),
        (document(nodes='<node><instance_controller url="#c"/></node>'), "has a skin or a morph"),
        (document(nodes="<node><lookat>1</lookat></node>"), "a node's 'lookat' is not read"),
        (document(nodes="<node><translate>1 2</translate></node>"), "a node's translate needs 3 finite numbers"),
        (document(nodes="<node><scale>1 2 nan</scale></node>"), "a node's scale needs 3 finite numbers"),
        (document(nodes="<node><rotate>1 2 3 x</rotate></node>"), "a word that is no number: 'x'"),
        (document(nodes=f"<node><matrix>{text(np.ones(16))}</matrix></node>"), "another last row than 0 0 0 1"),
        (document(nodes=FIRST, more=nested(MOST_NESTED + 1)), f"{MOST_NESTED} nodes in each other"),
        (
            document(nodes=FIRST, more=f'<library_nodes><node id="n0">{FIRST}</node></library_nodes>'),
            "part of themselves",
        ),
        (document(nodes=FIRST, more=f"<library_nodes>{BILLION}</library_nodes>"), "more than 200,000 nodes"),
        (document().replace("mesh>", "convex_mesh>"), "geometry 'g': is no mesh, but curved or convex"),
        (document(POINTS + "<bezier/>"), "geometry 'g': its 'bezier' are not read"),
        (document(POINTS.replace("POSITION", "NORMAL") + TRIANGLES), "its vertices need one input POSITION"),
        (document(POINTS.replace("technique_common", "technique") + TRIANGLES), "its positions have no accessor"),
        (
            document(POINTS.replace('count="24"', 'count="23"') + TRIANGLES),
            "23 positions' numbers are stated, but there are 24",
        ),
        (document(POINTS.replace('count="24"', 'count="-1"') + TRIANGLES), "its float_array state the count '-1'"),
        (
            document(POINTS.replace('count="8"', 'count="9"') + TRIANGLES),
            "27 positions' numbers are needed, but there are 24",
        ),
        (document(POINTS.replace('stride="3"', 'stride="2"') + TRIANGLES), "no three coordinates"),
        (document(POINTS.replace(text(VERTICES), text(VERTICES) + "_0") + TRIANGLES), "a word that is no number"),
        (document(POINTS + TRIANGLES.replace("<p>", "<p>8 ")), "triangles have 37 corners, no multiple of 3"),
        (document(POINTS + TRIANGLES.replace("<p>", "<p>0.5 ")), "no whole number: '0.5'"),
        (document(POINTS + TRIANGLES.replace('count="12"', 'count="11"')), "11 triangles are stated, but there are 12"),
        (document(POINTS + TRIANGLES.replace('count="12"', "")), "state the count ''"),
        (document(POINTS + TRIANGLES.replace("VERTEX", "NORMAL")), "need one input VERTEX"),
        (document(POINTS + TRIANGLES.replace('offset="0"', 'offset="4"')), "36 indices, no multiple of 5"),
        (document(POINTS + faces_of("triangles", 1, "<p>0 1 8</p>")), "face 0: names vertex 8, but there are 8"),
        (document(POINTS + faces_of("triangles", 1, "<p>0 1 -1</p>")), "face 0: names vertex -1"),
        (
            document(POINTS + faces_of("polylist", 1, "<vcount>4</vcount><p>0 1 2</p>")),
            "states 4 corners, but there are 3",
        ),
        (document(POINTS + faces_of("polylist", 2, "<vcount>-1 4</vcount><p>0 1 2</p>")), "states 3 corners"),
        (document(POINTS + faces_of("polylist", 2, "<vcount>3 2</vcount><p>0 1 2 3 4</p>")), "a face of 2 corners"),
        (
            document(POINTS + faces_of("polygons", 1, "<p>0 1 2 3</p><ph><p>0 1 2</p><h>1 2 3</h></ph>")),
            "faces with holes",
        ),
        (document(POINTS + faces_of("tristrips", 2, "<p>0 1 2 3</p>")), "2 tristrips are stated, but there are 1"),
        (document(POINTS + '<lines count="x"/>'), "its lines state the count 'x'"),
        (document(POINTS), "no faces in this file"),
    ],
)
def test_what_is_refused(content: str | bytes, says: str, write: Write) -> None:
    path = write(content)
    with pytest.raises(InputError) as error:
        load_mesh(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("meter", ["0", "-1", "x", "1 2", "inf"])
def test_bad_units(meter: str, write: Write) -> None:
    with pytest.raises(InputError, match=r"a\.dae: its unit"):
        load_mesh(write(document(asset=f'<unit meter="{meter}"/>')), units="m")
