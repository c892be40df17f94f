"""STEP: by Open CASCADE, what is read, what is refused, and what is said."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import sdfcli
import step_files
from sdfcli.cli.app import app
from sdfcli.cli.output import error_text
from sdfcli.errors import InputError, ReadingNote
from sdfcli.mesh.formats import step_text
from sdfcli.mesh.formats.step_text import read_text
from sdfcli.mesh.load import load_mesh
from sdfcli.mesh.mesh import Mesh
from step_files import Assembly

pytestmark = pytest.mark.skipif(find_spec("cascadio") is None, reason="cascadio is not installed")


def volume(mesh: Mesh) -> float:
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    return float((a * np.cross(b, c)).sum() / 6)


@pytest.mark.parametrize(("unit", "scale"), [("MILLI", 1.0), ("", 1000.0), ("INCH", 25.4)])
def test_assemblies(unit: str, scale: float, tmp_path: Path) -> None:
    """Each use of a part is in its place, in millimetres."""
    path = tmp_path / "a.STEP"
    path.write_text(step_files.cylinder(1.0, 3.0, [(0.0, 0.0, 0.0), (10.0, 0.0, 5.0)], unit))
    with pytest.warns(ReadingNote, match=r"a\.STEP: read in millimetres, as [\d,]+ triangles up to .* mm, 0.0001 of"):
        mesh = load_mesh(path)
    np.testing.assert_allclose(mesh.bounds / scale, [[-1, -1, 0], [11, 1, 8]], atol=2e-3)
    assert mesh.health.watertight
    assert mesh.health.shells == 2
    assert volume(mesh) / scale**3 == pytest.approx(2 * 3 * np.pi, rel=4e-3)
    assert (mesh.units, mesh.deflection) == ("mm", pytest.approx(1e-4 * mesh.diagonal, rel=1e-3))


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


# ---- What is read, and what is refused ----


def told(path: Path, text: str) -> tuple[Mesh, list[str]]:
    """A file's mesh, and its notes but for the first, which all have."""
    path.write_text(text)
    with pytest.warns(ReadingNote) as seen:
        mesh = load_mesh(path)
    notes = [str(each.message).partition(": ")[2] for each in seen]
    assert notes[0].startswith("read in millimetres, as ")
    return mesh, notes[1:]


def one_part(*more: str) -> str:
    """A file with a cylinder, and entities that nothing refers to; `{}` is its first entity."""
    file = Assembly()
    file.part([file.solid(1.0, 3.0)])
    for each in more:
        file.add(each.replace("{0}", "#1"))
    return file.text()


@pytest.mark.parametrize("kind", ["shell", "open shell", "faces", "voids", "facets", "tessellated", "twins"])
def test_kinds_of_shapes(kind: str, tmp_path: Path) -> None:
    file = Assembly()
    solid = file.solid(1.0, 3.0)
    shell = re.findall(r"(#\d+)=CLOSED_SHELL", file.text())[0]
    faces = ",".join(re.findall(r"(#\d+)=ADVANCED_FACE", file.text()))
    if kind == "shell":
        file.product("s", [file.add(f"SHELL_BASED_SURFACE_MODEL('',({shell}))")], "MANIFOLD_SURFACE_SHAPE")
    elif kind == "open shell":
        shell = file.add(f"OPEN_SHELL('',({faces}))")
        file.product("s", [file.add(f"SHELL_BASED_SURFACE_MODEL('',({shell}))")], "MANIFOLD_SURFACE_SHAPE")
    elif kind == "faces":
        connected = file.add(f"CONNECTED_FACE_SET('',({faces}))")
        file.product("s", [file.add(f"FACE_BASED_SURFACE_MODEL('',({connected}))")], "MANIFOLD_SURFACE_SHAPE")
    elif kind == "voids":
        file.solid(5.0, 9.0)
        outer = re.findall(r"(#\d+)=CLOSED_SHELL", file.text())[1]
        inner = file.add(f"ORIENTED_CLOSED_SHELL('',*,{shell},.F.)")
        file.part([file.add(f"BREP_WITH_VOIDS('',{outer},({inner}))")])
    elif kind == "facets":
        corners = [file.point(*each) for each in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))]
        sides = []
        for triangle in ((0, 2, 1), (0, 1, 3), (1, 2, 3), (0, 3, 2)):
            loop = file.add(f"POLY_LOOP('',({','.join(corners[k] for k in triangle)}))")
            bound = file.add(f"FACE_OUTER_BOUND('',{loop},.T.)")
            a, b, c = (np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]][k], float) for k in triangle)
            across, along = np.cross(b - a, c - a).tolist(), (b - a).tolist()
            plane = file.add(f"PLANE('',{file.place(tuple(a.tolist()), tuple(across), tuple(along))})")
            sides.append(file.add(f"FACE_SURFACE('',({bound}),{plane},.T.)"))
        facets = file.add(f"FACETED_BREP('',{file.add(f'CLOSED_SHELL({chr(39) * 2},({chr(44).join(sides)}))')})")
        file.product("s", [facets], "FACETED_BREP_SHAPE")
    else:
        places = file.add("COORDINATES_LIST('',4,((0.,0.,0.),(1.,0.,0.),(0.,1.,0.),(0.,0.,1.)))")
        each = [
            file.add(f"TRIANGULATED_FACE('',{places},4,(),$,(),(({corners})))")
            for corners in ("1,3,2", "1,2,4", "2,3,4", "1,4,3")
        ]
        twin = solid if kind == "twins" else "$"
        tessellated = file.add(f"TESSELLATED_SOLID('',({','.join(each)}),{twin})")
        if kind == "twins":
            _, exact = file.part([solid])
            other = file.add(f"TESSELLATED_SHAPE_REPRESENTATION('',({tessellated}),{file.context})")
            file.add(f"SHAPE_REPRESENTATION_RELATIONSHIP('','',{exact},{other})")
        else:
            file.product("s", [tessellated], "TESSELLATED_SHAPE")
    mesh, _ = told(tmp_path / "a.step", file.text())
    right = {"voids": 9 * 25 * np.pi - 3 * np.pi, "tessellated": 1 / 6, "facets": 1 / 6}.get(kind, 3 * np.pi)
    assert volume(mesh) == pytest.approx(right, rel=5e-3)
    assert mesh.health.shells == (2 if kind == "voids" else 1)


def test_each_part_in_its_unit(tmp_path: Path) -> None:
    file = Assembly()
    inches = file.part([file.solid(1.0, 3.0)], "a", file.units("INCH"))
    millimetres = file.part([file.solid(1.0, 3.0)], "b")
    file.assembly([(inches, (0.0, 0.0, 0.0)), (millimetres, (100.0, 0.0, 0.0))])
    mesh, _ = told(tmp_path / "a.step", file.text())
    np.testing.assert_allclose(mesh.bounds, [[-25.4, -25.4, 0], [101, 25.4, 76.2]], atol=0.02)


@pytest.mark.parametrize("levels", [1, 4])
@pytest.mark.parametrize("mapped", [False, True])
def test_assemblies_of_assemblies(levels: int, mapped: bool, tmp_path: Path) -> None:
    mesh, notes = told(tmp_path / "a.step", doubled(levels, mapped))
    assert (mesh.health.shells, notes) == (2**levels, [])
    np.testing.assert_allclose(mesh.bounds, [[-1, -1, 0], [3 * 2**levels - 2, 1, 3]], atol=0.02)


def doubled(levels: int, mapped: bool) -> str:
    """Two of a cylinder, in a row, and so on; by assemblies, or by items that map representations."""
    file = Assembly()
    product = file.part([file.solid(1.0, 3.0)])
    for level in range(levels):
        places = [(3.0 * 2**level * k, 0.0, 0.0) for k in range(2)]
        if mapped:
            source = file.add(f"REPRESENTATION_MAP({file.home},{product[1]})")
            items = [file.add(f"MAPPED_ITEM('',{source},{file.place(place)})") for place in places]
            product = file.product(f"p{level}", items)
        else:
            product = file.assembly([(product, place) for place in places])
    return file.text()


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("levels", [18, 24, 200])
def test_assemblies_that_double(levels: int, mapped: bool) -> None:
    with pytest.raises(InputError, match="assemblies of more than 200,000 parts"):
        read_text(doubled(levels, mapped).encode())


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)).map(sorted), max_size=20))
def test_parts_are_counted_once_for_each_place(uses: list[list[int]]) -> None:
    """Against a walk through every place; an assembly has a smaller number than its parts."""
    below = [[part for whole, part in uses if whole == k < part] for k in range(9)]

    def places(k: int) -> int:
        return sum(map(places, below[k])) or 1

    edges = {str(k).encode(): [str(part).encode() for part in parts] for k, parts in enumerate(below)}
    assert step_text._copies(edges) == max(map(places, range(9)))


def test_assemblies_of_themselves() -> None:
    """Open CASCADE refuses them; they are not counted for ever."""
    uses = "".join(f"#{k}=NEXT_ASSEMBLY_USAGE_OCCURRENCE('','','',#{k},#{k % 9 + 1},$);" for k in range(1, 10))
    read_text(f"ISO-10303-21;{uses * 2}ENDSEC;".encode())


def operator(axes: list[tuple[float, float, float]], scale: str) -> str:
    """A cylinder that an operator places."""
    file = Assembly()
    _, shape = file.part([file.solid(1.0, 3.0)])
    x, y, z = map(file.direction, *zip(*axes, strict=True))
    moved = file.add(f"CARTESIAN_TRANSFORMATION_OPERATOR_3D('','','',{x},{y},{file.point(5.0, 0.0, 0.0)},{scale},{z})")
    file.product("p", [file.add(f"MAPPED_ITEM('',{file.add(f'REPRESENTATION_MAP({file.home},{shape})')},{moved})")])
    return file.text()


AXES = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)]


def test_operators(tmp_path: Path) -> None:
    for scale in ("1.", "$", "1.0E+00"):
        mesh, _ = told(tmp_path / "a.step", operator(AXES, scale))
        np.testing.assert_allclose(mesh.bounds, [[4, -1, 0], [6, 1, 3]], atol=0.02)
    mesh, _ = told(tmp_path / "a.step", operator([AXES[1], AXES[2], AXES[0]], "1."))
    np.testing.assert_allclose(mesh.bounds, [[5, -1, -1], [8, 1, 1]], atol=0.02)


EXTERNAL = "its parts, or documents, lie in other files"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (one_part("DOCUMENT_FILE('a.stp','',$,{0},'',$)"), f"{EXTERNAL}: 'a.stp'; export it as one file"),
        (one_part("Document_File\n ( /* x */ 'a.stp','',$,{0},'',$)"), EXTERNAL),
        (one_part("(DOCUMENT('a.stp','',$,{0})DOCUMENT_FILE())"), EXTERNAL),
        (one_part("DCMFL('a.stp','',$,{0},'',$)"), EXTERNAL),
        (one_part("PDWAD('','',{0},{0},({0}))", "DOCUMENT('','a.stp','',{0})"), EXTERNAL),
        (one_part("PDWAD('','',{0},{0},({0}))", "DOCUMENT('','/dev/a.x',$,{0})"), EXTERNAL),
        (one_part("X('',' '),#9=DOCUMENT_FILE('a.stp')"), "names #9|damaged|lie in other files"),
        (one_part("X('a' '),#9=DOCUMENT_FILE(')"), "neither a comma nor a bracket follows"),
        (one_part("X('a"), "without an end"),
        (one_part("X(1)/*"), "without an end"),
        (one_part("X(#99999)"), "names #99999, which is not there"),
        (one_part("BLOCK('',{0},1.,1.,1.)"), "solids that Open CASCADE does not read: BLOCK;"),
        (one_part("(CSG_SOLID()SOLID_MODEL())"), "CSG_SOLID"),
        (operator(AXES, "2."), "scales or mirrors a part"),
        (operator([AXES[0], AXES[1], (0.0, 0.0, -1.0)], "1."), "scales or mirrors a part"),
        (one_part().replace("DATA;", "ANCHOR;\nENDSEC;\nDATA;"), "3 sections"),
        (one_part().replace("END-ISO", "REFERENCE;\n#9=<b.stp#x>;\nENDSEC;\nEND-ISO"), "3 sections"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    """Before Open CASCADE sees it."""
    with pytest.raises(InputError, match=words) as fault:
        read_text(text.encode())
    assert "\n" not in str(fault.value)


def test_documents_that_are_no_shapes(tmp_path: Path) -> None:
    """They are told of; and that a part may have documents, as some programs write, is no reason to refuse it."""
    text = one_part("DOCUMENT_TYPE('')", "DOCUMENT('','','',#{1})", "DOCUMENT_FILE('d1','manual.pdf',$,#{1},'',$)")
    kind, document = re.findall(r"(#\d+)=DOCUMENT", text)[:2]
    text = text.replace("#{1}", kind).replace("=PRODUCT_DEFINITION(", "=PRODUCT_DEFINITION_WITH_ASSOCIATED_DOCUMENTS(")
    text = re.sub(r"(ASSOCIATED_DOCUMENTS\([^;]*)\);", rf"\1,({document}));", text)
    mesh, notes = told(tmp_path / "a.step", text)
    assert (mesh.health.watertight, notes) == (True, ["documents are not read: 'manual.pdf'"])


def test_open_cascade_gets_no_name_of_a_file() -> None:
    """Whatever it may do with it."""
    names = ["/dev/zero", "a.stp", "../a", "~", "COM1", "a/b", "C:\\\\a"]
    text = read_text(one_part(*(f"X('{name}')" for name in names)).encode()).whole
    assert {each for each in re.findall(rb"'([^']*)'", text) if re.search(rb"[^A-Za-z0-9_ {}]", each)} == set()
    assert b"'AUTOMOTIVE_DESIGN { 1 0 10303 214 1 1 1 1 }'" in text
    assert b"COM1" not in text


def test_texts_are_no_entities(tmp_path: Path) -> None:
    """Open CASCADE takes a quote before a bracket for the end of a text."""
    names = ["it''s", "a ''b''", "DOCUMENT_FILE(", "/* x", "a'',(b", "#5=BLOCK();"]
    more = [text for name in names for text in (f"X('{name}')", f"X('{name}'\t,('{name}'))")]
    mesh, notes = told(tmp_path / "a.step", one_part(*more))
    assert (mesh.health.watertight, notes) == (True, [])


@given(st.lists(st.text("ab'();,#1= /*\n\t", max_size=12), max_size=4))
def test_texts_are_kept_apart(texts: list[str]) -> None:
    """Whatever texts and comments hold, the entities are the same."""
    listed = [(text.replace("*/", ""), text.replace("'", "''")) for text in texts]
    entities = "".join(f"#{k}=X(/*{comment} */'{text}');" for k, (comment, text) in enumerate(listed))
    text = read_text(f"ISO-10303-21;{entities}ENDSEC;".encode())
    assert text.words[b"X"] == len(texts)
    assert text.code.count(b"'") == 2 * len(texts)
    assert len(re.findall(rb"'[^']*'", text.whole)) == len(texts)


def test_what_is_not_read_is_told(tmp_path: Path) -> None:
    whole = one_part()
    plane = re.findall(r"#\d+=PLANE\(.*?;", whole)[-1]
    for broken in (plane.replace("PLANE", "MY_PLANE"), plane.replace("PLANE(''", "PLANE(")):
        _, notes = told(tmp_path / "a.step", whole.replace(plane, broken))
        assert notes[0] == "not read: 1 of its 3 faces, damaged ones or such of no part"
    _, notes = told(tmp_path / "a.step", whole.replace(plane, plane.replace(");", ";")))
    assert any(note.startswith("cascadio: ERR StepFile : Incorrect Syntax") for note in notes)
    file = Assembly()
    file.solid(1.0, 1.0)
    file.part([file.solid(1.0, 3.0)])
    curves = file.add(f"GEOMETRIC_CURVE_SET('',({file.add(f'CIRCLE({chr(39) * 2},{file.home},50.)')}))")
    file.product("c", [curves], "GEOMETRICALLY_BOUNDED_WIREFRAME_SHAPE")
    _, notes = told(tmp_path / "a.step", file.text())
    assert [note.split(":")[0] for note in notes] == ["not read", "curves are not read"]


# ---- How far the triangles lie from the surfaces ----


def test_commands_tell_the_deflection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the error, which is relative to the triangles: in text, JSON, a report, and a field."""
    monkeypatch.chdir(tmp_path)
    Path("a.step").write_text(step_files.cylinder(5.0, 1.0, [(0.0, 0.0, 0.0)]))
    with pytest.warns(ReadingNote):
        within = load_mesh("a.step").deflection
    with pytest.warns(ReadingNote):
        metres = load_mesh("a.step", units="m")
    assert within is not None
    assert (metres.units, metres.deflection) == ("m", pytest.approx(within / 1000))
    words = ("--tolerance", "1e-2", "--device", "cpu")
    for command in (["build", "a.step", "-o", "a.h5", *words], ["info", "a.h5"], ["check", "a.step"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert re.search(rf"\ntessellated +within {error_text(within)} of the file's curved surfaces", done.stdout)
    assert sdfcli.load("a.h5").info["mesh"]["deflection"] == within
    built, checked, told = (
        json.loads(CliRunner().invoke(app, command).stdout)
        for command in (
            ["build", "a.step", "-o", "a.h5", *words, "--force", "--json", "--report", "a.html"],
            ["check", "a.step", "--json"],
            ["info", "a.h5", "--json"],
        )
    )
    assert built["health"]["deflection"] == checked["deflection"] == told["mesh"]["deflection"] == within
    assert f"tessellated within {error_text(within)}" in Path("a.html").read_text()
