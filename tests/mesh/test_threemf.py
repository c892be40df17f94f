"""3MF files: each object where the build places it, or a refusal or note that names what is not read."""

from __future__ import annotations

import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

import shapes
from sdfcli.errors import InputError, OutOfMemoryError, ReadingNote
from sdfcli.mesh.formats import package, threemf
from sdfcli.mesh.formats.threemf import read_3mf
from sdfcli.mesh.load import load_mesh
from surfaces import volume

Triangles = Any
Matrix = tuple[float, ...]

TYPE = "http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel"
CORE = "http://schemas.microsoft.com/3dmanufacturing/core/2015/02"
EXTENSIONS = {
    "p": "http://schemas.microsoft.com/3dmanufacturing/production/2015/06",
    "pa": "http://schemas.microsoft.com/3dmanufacturing/production/alternatives/2021/04",
    "m": "http://schemas.microsoft.com/3dmanufacturing/material/2015/02",
    "s": "http://schemas.microsoft.com/3dmanufacturing/slice/2015/07",
    "b": "http://schemas.microsoft.com/3dmanufacturing/beamlattice/2017/02",
    "b2": "http://schemas.microsoft.com/3dmanufacturing/beamlattice/balls/2020/07",
    "t": "http://schemas.microsoft.com/3dmanufacturing/trianglesets/2021/07",
    "bo": "http://schemas.3mf.io/3dmanufacturing/booleanoperations/2023/07",
    "d": "http://schemas.3mf.io/3dmanufacturing/displacement/2023/10",
    "v": "http://schemas.3mf.io/3dmanufacturing/volumetric/2022/01",
    "sc": "http://schemas.microsoft.com/3dmanufacturing/securecontent/2019/04",
    "zz": "http://example.org/zz",
}
HERE = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
ROOT = "3D/3dmodel.model"


def at(x: float, y: float = 0, z: float = 0, scale: float = 1) -> Matrix:
    return (scale, 0, 0, 0, scale, 0, 0, 0, scale, x, y, z)


def box(size: float = 1) -> shapes.Shape:
    """From 0 to size, and twice and three times that."""
    return shapes.box((0, 0, 0), (size, 2 * size, 3 * size))


def mesh(shape: shapes.Shape, more: str = "") -> str:
    corners = "".join('<vertex x="{!r}" y="{!r}" z="{!r}"/>'.format(*vertex) for vertex in shape[0].tolist())
    triangles = "".join('<triangle v1="{}" v2="{}" v3="{}"/>'.format(*face) for face in shape[1])
    return f"<mesh><vertices>{corners}</vertices><triangles>{triangles}</triangles>{more}</mesh>"


def an_object(number: int, content: str = mesh(box()), **attributes: str) -> str:
    words = "".join(f' {name.replace("__", ":")}="{value}"' for name, value in attributes.items())
    return f'<object id="{number}"{words}>{content}</object>'


def placed(name: str, number: int, matrix: Matrix | None = None, more: str = "") -> str:
    transform = f' transform="{" ".join(str(float(number)) for number in matrix)}"' if matrix else ""
    return f'<{name} objectid="{number}"{transform} {more}/>'


def components(*rows: str) -> str:
    return f"<components>{''.join(rows)}</components>"


def a_model(resources: str, *items: str, more: str = "", namespace: str = CORE) -> str:
    prefixes = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in EXTENSIONS.items())
    build = f"<build>{''.join(items)}</build>"
    return f'<model xmlns="{namespace}"{prefixes} {more}><resources>{resources}</resources>{build}</model>'


def relationships(*targets: str, kind: str = TYPE, more: str = "") -> str:
    rows = "".join(f'<Relationship Id="r{k}" Type="{kind}" Target="{t}" {more}/>' for k, t in enumerate(targets))
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rows}</Relationships>'


def write(
    path: Path, root: str, others: dict[str, str] | None = None, rels: str | None = None, name: str = ROOT
) -> Path:
    """A 3MF file of a root part, and others by their names. rels: the package's relationships, by default to `name`."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        types = "http://schemas.openxmlformats.org/package/2006/content-types"
        kinds = {
            "rels": "application/vnd.openxmlformats-package.relationships+xml",
            "model": "application/vnd.ms-package.3dmanufacturing-3dmodel+xml",
        }
        rows = "".join(f'<Default Extension="{ending}" ContentType="{kind}"/>' for ending, kind in kinds.items())
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{types}">{rows}</Types>')
        archive.writestr("_rels/.rels", relationships(f"/{name}") if rels is None else rels)
        archive.writestr(name, root)
        for other, text in (others or {}).items():
            archive.writestr(other, text)
    return path


def sorted_triangles(vertices: Any, faces: Any) -> Triangles:
    """(f, 9) the corners of all triangles, each from its least one on, in an order of their own."""
    corners = np.asarray(vertices, np.float64).reshape(-1, 3)[np.asarray(faces, np.int64).reshape(-1, 3)] + 0.0
    first = [min(range(3), key=lambda k, each=each: tuple(each[k])) for each in corners]
    turned = [np.roll(each, -k, axis=0).ravel() for each, k in zip(corners, first, strict=True)]
    return np.array(sorted(map(tuple, turned))).reshape(-1, 9)


def moved(shape: shapes.Shape, *matrices: Matrix) -> shapes.Shape:
    """A shape after transforms, the innermost first; it keeps its outside."""
    vertices, faces = shape
    for matrix in matrices:
        linear = np.reshape(matrix, (4, 3))
        vertices = vertices @ linear[:3] + linear[3]
        faces = faces[:, ::-1] if np.linalg.det(linear[:3]) < 0 else faces
    return vertices, faces


def joined(*parts: shapes.Shape) -> Triangles:
    return np.array(sorted(map(tuple, np.concatenate([sorted_triangles(*part) for part in parts]))))


def read(path: Path) -> tuple[Triangles, list[str]]:
    """The triangles of a file, and the notes about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = sorted_triangles(*read_3mf(path))
    assert all(each.category is ReadingNote for each in caught)
    notes = [str(each.message) for each in caught]
    assert all(note.startswith(f"{path}: ") and "\n" not in note for note in notes)
    return found, [note.removeprefix(f"{path}: ") for note in notes]


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_mesh(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def by_lib3mf(path: Path) -> Triangles:
    """The triangles that lib3mf reads, of the types that are part of the shape."""
    lib3mf = pytest.importorskip("lib3mf")
    model = lib3mf.get_wrapper().CreateModel()
    model.QueryReader("3mf").ReadFromFile(str(path))
    parts: list[shapes.Shape] = []

    def matrix(given: Any) -> Matrix:
        return tuple(given.Fields[row][column] for row in range(4) for column in range(3))

    def add(resource: Any, matrices: tuple[Matrix, ...]) -> None:
        number = resource.GetUniqueResourceID()
        if resource.IsMeshObject():
            made = model.GetMeshObjectByID(number)
            if made.GetType() in (lib3mf.ObjectType.Model, getattr(lib3mf.ObjectType, "Surface", None)):
                vertices = np.array([list(each.Coordinates) for each in made.GetVertices()])
                faces = np.array([list(each.Indices) for each in made.GetTriangleIndices()])
                parts.append(moved((vertices, faces), *matrices))
            return
        made = model.GetComponentsObjectByID(number)
        for each in map(made.GetComponent, range(made.GetComponentCount())):
            own = (matrix(each.GetTransform()),) if each.HasTransform() else ()
            add(each.GetObjectResource(), own + matrices)

    items = model.GetBuildItems()
    while items.MoveNext():
        item = items.GetCurrent()
        add(item.GetObjectResource(), (matrix(item.GetObjectTransform()),) if item.HasObjectTransform() else ())
    return joined(*parts)


# ---- What is read ----

MIRRORED = (-1, 0, 0, 0, 1, 0, 0, 0, 1, 4, 0, 0)
TURNED = (0, 1, 0, -1, 0, 0, 0, 0, 2, 3, 5, 7)
SUPPORT = "objects of the type 'support' are left out: 1"
COLOURS = '<m:colorgroup id="9"><m:color color="#ff0000ff"/></m:colorgroup>'
SETS = '<t:trianglesets><t:triangleset name="a" identifier="a"><t:ref index="3"/></t:triangleset></t:trianglesets>'
BEAM = '<b:beams><b:beam v1="0" v2="7"/></b:beams>'
LATTICE = f'<b:beamlattice radius="0.125" minlength="0.001">{BEAM}</b:beamlattice>'
SLICES = (
    '<s:slicestack id="8" zbottom="0"><s:slice ztop="3"><s:vertices><s:vertex x="0" y="0"/><s:vertex x="1" y="0"/>'
    '<s:vertex x="1" y="2"/></s:vertices><s:polygon startv="0"><s:segment v2="1"/><s:segment v2="2"/>'
    '<s:segment v2="0"/></s:polygon></s:slice></s:slicestack>'
)
CAR = an_object(1) + an_object(2, mesh(box(2))) + an_object(3, components(placed("component", 1, TURNED)))
CAR += an_object(4, components(placed("component", 3, MIRRORED), placed("component", 2), placed("component", 1, at(9))))
PART_A = a_model(an_object(1), placed("item", 5, more='printable="0"'))
PART_B = a_model(an_object(1, mesh(box(4))) + an_object(2, components(placed("component", 1, at(0, 8)))))
ANY: dict[str, tuple[str, dict[str, str], list[shapes.Shape], list[str]]] = {
    "an item": (a_model(an_object(1), placed("item", 1)), {}, [box()], []),
    "transforms": (
        a_model(an_object(1), placed("item", 1, TURNED), placed("item", 1, at(20, scale=0.5))),
        {},
        [moved(box(), TURNED), moved(box(), at(20, scale=0.5))],
        [],
    ),
    "mirrored": (a_model(an_object(1), placed("item", 1, MIRRORED)), {}, [moved(box(), MIRRORED)], []),
    "components of components": (
        a_model(CAR, placed("item", 4, at(0, 0, 30))),
        {},
        [
            moved(box(), TURNED, MIRRORED, at(0, 0, 30)),
            moved(box(2), at(0, 0, 30)),
            moved(box(), at(9), at(0, 0, 30)),
        ],
        [],
    ),
    "unused objects": (a_model(an_object(1) + an_object(2), placed("item", 2, at(5))), {}, [moved(box(), at(5))], []),
    "parts with ids of their own": (
        a_model(
            an_object(1, components(placed("component", 1, at(30), 'p:path="/3D/Objects/a.model"')))
            + an_object(3, components(placed("component", 2, at(60), 'p:path="/3D/Objects/b.model"'))),
            placed("item", 1),
            placed("item", 3),
            placed("item", 1, at(0, 40), 'p:path="/3D/Objects/b.model"'),
            more='requiredextensions="p"',
        ),
        {
            "3D/Objects/a.model": PART_A,
            "3D/Objects/b.model": PART_B,
            "3D/_rels/3dmodel.model.rels": relationships("/3D/Objects/a.model", "/3D/Objects/b.model"),
        },
        [moved(box(), at(30)), moved(box(4), at(60, 8)), moved(box(4), at(0, 40))],
        [],
    ),
    "surfaces": (a_model(an_object(1, type="surface"), placed("item", 1)), {}, [box()], []),
    "supports": (
        a_model(an_object(1) + an_object(2, type="support"), placed("item", 1), placed("item", 2, at(9))),
        {},
        [box()],
        [SUPPORT],
    ),
    "solid supports in components": (
        a_model(
            an_object(1)
            + an_object(2, type="solidsupport")
            + an_object(3, components(placed("component", 1), placed("component", 2, at(9)))),
            placed("item", 3),
        ),
        {},
        [box()],
        ["objects of the type 'solidsupport' are left out: 1"],
    ),
    "the type of an object of components": (
        a_model(an_object(1) + an_object(2, components(placed("component", 1)), type="support"), placed("item", 2)),
        {},
        [box()],
        [],
    ),
    "materials": (
        a_model(COLOURS + an_object(1, pid="9", pindex="0"), placed("item", 1), more='requiredextensions="m"'),
        {},
        [box()],
        [],
    ),
    "triangle sets": (a_model(an_object(1, mesh(box(), SETS)), placed("item", 1)), {}, [box()], []),
    "slices beside a mesh": (
        a_model(SLICES + an_object(1, s__slicestackid="8"), placed("item", 1), more='requiredextensions="s"'),
        {},
        [box()],
        ["stacks of slices are left out: 1"],
    ),
    "beams that are not required": (
        a_model(an_object(1, mesh(box(), LATTICE)), placed("item", 1)),
        {},
        [box()],
        ["beams and balls are left out: 1"],
    ),
    "beams of an object that is not built": (
        a_model(an_object(1, mesh(box(), LATTICE)) + an_object(2), placed("item", 2), more='requiredextensions="b"'),
        {},
        [box()],
        [],
    ),
    "metadata": (
        a_model(
            '<basematerials id="5"><base name="a" displaycolor="#000000ff"/></basematerials>'
            + an_object(1, '<metadatagroup><metadata name="zz:a">b</metadata></metadatagroup>' + mesh(box())),
            placed("item", 1, more='partnumber="a" zz:odd="1"'),
        ),
        {"Metadata/thumbnail.png": "none"},
        [box()],
        [],
    ),
    "another extension": (
        a_model(
            '<zz:resource><object id="1"/></zz:resource>' + an_object(1, mesh(box(), "<zz:more/>")), placed("item", 1)
        ),
        {},
        [box()],
        ["'resource' of the namespace 'http://example.org/zz' is left out"],
    ),
    "another extension that is recommended": (
        a_model(an_object(1), placed("item", 1), more='recommendedextensions="zz m"'),
        {},
        [box()],
        ["the extension 'http://example.org/zz', which it recommends, is not read"],
    ),
    "items that are not printable": (
        a_model(an_object(1), placed("item", 1, more='printable="0"')),
        {},
        [box()],
        ["items that are marked as not printable are read, too"],
    ),
    "numbers": (
        a_model(
            an_object(1, mesh(box()).replace('"1.0"', '" +1.e0 "').replace('"0.0"', '"-.0E-3"')).replace("/>", "\n/>"),
            placed("item", 1),
        ),
        {},
        [box()],
        [],
    ),
    "a prefix for the core": (
        a_model("R" + an_object(1), placed("item", 1))
        .replace("R", "")
        .replace("<", "<c:")
        .replace("<c:/", "</c:")
        .replace("xmlns=", "xmlns:c="),
        {},
        [box()],
        [],
    ),
}


@pytest.mark.parametrize("kind", ANY)
def test_files(kind: str, tmp_path: Path) -> None:
    root, others, expected, notes = ANY[kind]
    found, told = read(write(tmp_path / "a.3mf", root, others))
    assert np.array_equal(found, joined(*expected))
    assert told == notes


@pytest.mark.parametrize("kind", [kind for kind in ANY if kind not in ("numbers", "another extension")])
def test_files_against_lib3mf(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.3mf", *ANY[kind][:2])
    assert np.array_equal(read(path)[0], by_lib3mf(path))


WHOLE = st.integers(-4, 4).map(float)
MATRICES = st.one_of(
    st.none(),
    st.builds(
        lambda axes, signs, offset: tuple((np.eye(3)[list(axes)] * signs).ravel()) + tuple(offset),
        st.permutations([0, 1, 2]),
        st.lists(st.sampled_from([1.0, -1.0, 2.0, 0.5]), min_size=3, max_size=3),
        st.lists(WHOLE, min_size=3, max_size=3),
    ),
)


@st.composite
def nested(draw: st.DrawFn) -> tuple[str, dict[str, str], list[shapes.Shape]]:
    """A model of nested components in up to two parts, and what it holds, by a way of its own: each object as one
    shape for each of its meshes."""
    made: dict[int, list[shapes.Shape]] = {}
    texts: list[str] = []
    for number in range(1, draw(st.integers(2, 7))):
        if number == 1 or draw(st.booleans()):
            shape = box(draw(st.sampled_from([0.5, 1.0, 2.0])))
            made[number], content = [shape], mesh(shape)
        else:
            inner = draw(st.lists(st.tuples(st.integers(1, number - 1), MATRICES), min_size=1, max_size=3))
            made[number] = [
                moved(shape, *([m] if m else [])) for each, m in inner if each in made for shape in made[each]
            ]
            content = components(*(placed("component", each, m) for each, m in inner))
        texts.append(an_object(number, content))
    numbers, is_apart = st.sampled_from(sorted(made)), draw(st.booleans())
    items = draw(st.lists(st.tuples(numbers, MATRICES), min_size=1, max_size=3))
    path = 'p:path="/3D/other.model"' if is_apart else ""
    rows = [placed("item", number, matrix, path) for number, matrix in items]
    expected = [moved(shape, *([matrix] if matrix else [])) for number, matrix in items for shape in made[number]]
    other = "".join(texts)
    if is_apart:
        links = relationships("/3D/other.model")
        others = {"3D/other.model": a_model(other), "3D/_rels/3dmodel.model.rels": links}
        root = a_model(an_object(1, mesh(box(4))), *rows, more='requiredextensions="p"')
        return root, others, expected
    return a_model(other, *rows), {}, expected


@settings(max_examples=150, deadline=None)
@given(case=nested())
def test_nested_components(case: tuple[str, dict[str, str], list[shapes.Shape]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "a.3mf"), *case[:2])
        assert np.array_equal(read(path)[0], joined(*case[2]))


@settings(max_examples=100, deadline=None)
@given(case=nested())
def test_nested_components_against_lib3mf(case: tuple[str, dict[str, str], list[shapes.Shape]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "a.3mf"), *case[:2])
        assert np.array_equal(read(path)[0], by_lib3mf(path))


def test_objects_may_follow_those_that_name_them(tmp_path: Path) -> None:
    root = a_model(an_object(2, components(placed("component", 1, at(3)))) + an_object(1), placed("item", 2))
    assert np.array_equal(read(write(tmp_path / "a.3mf", root))[0], sorted_triangles(*moved(box(), at(3))))


def test_files_of_another_writer(tmp_path: Path) -> None:
    vertices, faces = shapes.icosphere(2)
    trimesh.Trimesh(vertices, faces, process=False).export(tmp_path / "ball.3mf")
    found = load_mesh(tmp_path / "ball.3mf")
    assert np.array_equal(found.faces, faces)
    assert np.allclose(found.vertices, vertices, rtol=0, atol=1e-6)


def test_coordinates_keep_their_bits(tmp_path: Path) -> None:
    vertices, faces = np.random.default_rng(1).normal(size=(99, 3)) * 1e5, np.arange(99).reshape(-1, 3)
    found = read_3mf(write(tmp_path / "a.3mf", a_model(an_object(1, mesh((vertices, faces))), placed("item", 1))))
    assert np.array_equal(found[0], vertices)
    assert np.array_equal(found[1], faces)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_meshes_in_pieces(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threemf, "ROWS", rows)
    monkeypatch.setattr(package, "PIECE", 50)
    found, _ = read(write(tmp_path / "a.3mf", ANY["components of components"][0]))
    assert np.array_equal(found, joined(*ANY["components of components"][2]))


def test_triangles_without_an_area_are_kept(tmp_path: Path) -> None:
    root = a_model(an_object(1, mesh((box()[0], np.array([[0, 1, 2], [3, 3, 4]])))), placed("item", 1))
    assert read_3mf(write(tmp_path / "a.3mf", root))[1].tolist() == [[0, 1, 2], [3, 3, 4]]


# ---- Packages ----

WRONG = a_model(an_object(1, mesh(box(64))), placed("item", 1))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("3D/3dmodel.model", "/3D/3dmodel.model"),
        ("3D/3dmodel.model", "3D/3dmodel.model"),
        ("build/a.model", "/build/a.model"),
        ("build/A.Model", "/BUILD/a.model"),
        ("build/my part.model", "/build/my%20part.model"),
        ("build/my%20part.model", "./build/x/../my%20part.model"),
        ("build\\a.model", "/build/a.model"),
        ("root.xml", "root.xml"),
    ],
)
def test_the_root_part_is_that_of_the_relationship(name: str, target: str, tmp_path: Path) -> None:
    root = a_model(an_object(1), placed("item", 1), more='unit="inch"')
    others = {} if name == ROOT else {ROOT: WRONG}
    path = write(tmp_path / "a.3mf", root, others, relationships(target), name)
    assert np.array_equal(read(path)[0], sorted_triangles(*box()))
    assert load_mesh(path).units == "in"


@pytest.mark.parametrize("rels", ["<a/>", relationships("/thumbnail.png", kind="http://example.org/picture")])
def test_without_a_relationship_the_only_model_is_the_root_part(rels: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.3mf", ANY["an item"][0], rels=rels, name="3d/Model.MODEL")
    assert np.array_equal(read(path)[0], sorted_triangles(*box()))
    path = write(tmp_path / "b.3mf", ANY["an item"][0], {"3D/b.model": WRONG}, rels)
    assert refusal(path) == "2 3D models, where a relationship must name one as the root part"
    assert refusal(write(tmp_path / "c.3mf", "nothing", rels=rels, name="readme.txt")) == "no 3D model in this file"


@pytest.mark.parametrize(
    ("rels", "words"),
    [
        (relationships("/3D/other.model"), "'/3d/other.model': no such part"),
        (relationships("/3D/3dmodel.model", "/3D/other.model"), "2 3D models, where a relationship must name one"),
        (relationships("http://a/b.model", more='TargetMode="External"'), "which is outside of the file"),
        (relationships("/3D/3dmodel.model")[:-9], "'_rels/.rels': not well-formed XML"),
    ],
)
def test_relationships_that_lead_nowhere(rels: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(write(tmp_path / "a.3mf", ANY["an item"][0], rels=rels))


def test_parts_that_are_there_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.3mf", ANY["an item"][0], {"3d/3DModel.model": WRONG})
    assert refusal(path) == f"{ROOT!r}: two parts have this name"


@pytest.mark.parametrize("is_there", [True, False])
def test_parts_that_are_encrypted(is_there: bool, tmp_path: Path) -> None:
    kind = "http://schemas.openxmlformats.org/package/2006/relationships/encryptedfile" if is_there else TYPE
    root = a_model("", placed("item", 1, more='p:path="/3D/a.model"'), more='requiredextensions="p sc"')
    others = {"3D/a.model": "\x07\x08", "3D/_rels/3dmodel.model.rels": relationships("a.model", kind=kind)}
    words = "encrypted, as secure content" if is_there else "not well-formed XML"
    assert words in refusal(write(tmp_path / "a.3mf", root, others))


def test_archives_that_are_encrypted(tmp_path: Path) -> None:
    content = bytearray(write(tmp_path / "a.3mf", ANY["an item"][0]).read_bytes())
    entry = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 4)
    entry = content.index(b"PK\x01\x02", entry + 4)
    content[entry + 8] |= 1
    (tmp_path / "a.3mf").write_bytes(content)
    assert refusal(tmp_path / "a.3mf") == f"{ROOT!r}: encrypted"


def test_archives_that_unpack_to_too_much(tmp_path: Path) -> None:
    assert "unpacks to" in refusal(write(tmp_path / "bomb.3mf", " " * 30_000_000))


def test_units(tmp_path: Path) -> None:
    path = write(tmp_path / "a.3mf", ANY["an item"][0])
    assert load_mesh(path).units == "mm"
    item = placed("item", 1, more='p:path="/3D/a.model"')
    others = {"3D/a.model": a_model(an_object(1), more='unit="inch"')}
    path = write(tmp_path / "b.3mf", a_model("", item, more='unit="inch"'), others)
    assert np.array_equal(read(path)[0], sorted_triangles(*box()))
    path = write(tmp_path / "c.3mf", a_model("", item), others)
    assert refusal(path) == "'3D/a.model': in 'inch', but the root part is in 'millimeter'; save them in one unit"


# ---- What is refused ----

ALTERNATIVES = '<pa:alternatives><pa:alternative objectid="1"/></pa:alternatives>'
BAD = {
    "required": (
        a_model(an_object(1), placed("item", 1), more='requiredextensions="m zz"'),
        "requires the extension 'http://example.org/zz'",
    ),
    "required without a prefix": (
        a_model(an_object(1), placed("item", 1), more='requiredextensions="qq"'),
        "requires the extension 'qq'",
    ),
    "required booleans": (
        a_model(an_object(1), placed("item", 1), more='requiredextensions="bo"'),
        "booleanoperations/2023/07', which is not read",
    ),
    "required displacement": (
        a_model(an_object(1), placed("item", 1), more='requiredextensions="d"'),
        "displacement/2023/10', which is not read",
    ),
    "required volumes": (
        a_model(an_object(1), placed("item", 1), more='requiredextensions="v"'),
        "volumetric/2022/01', which is not read",
    ),
    "booleans": (
        a_model(an_object(1) + an_object(2, '<bo:booleanshape objectid="1"/>'), placed("item", 2)),
        "object 2: its shape is given by booleanshape, which is not read",
    ),
    "displacement": (
        a_model(an_object(2, f"<d:displacementmesh>{mesh(box())}</d:displacementmesh>"), placed("item", 2)),
        "object 2: its shape is given by displacementmesh, which is not read",
    ),
    "levelset": (a_model(an_object(2, "<v:levelset/>"), placed("item", 2)), "object 2: its shape is given by levelset"),
    "no shape": (a_model(an_object(2, ""), placed("item", 2)), "object 2: its shape is given by nothing"),
    "beams": (
        a_model(an_object(1, mesh(box(), LATTICE)), placed("item", 1), more='requiredextensions="b"'),
        "object 1: 1 beams and balls, which are not read",
    ),
    "balls": (
        a_model(
            an_object(
                1, mesh(box(), f'<b:beamlattice>{BEAM}<b2:balls><b2:ball vindex="0"/></b2:balls></b:beamlattice>')
            ),
            placed("item", 1),
            more='requiredextensions="b b2"',
        ),
        "object 1: 2 beams and balls, which are not read",
    ),
    "a rough mesh for slices": (
        a_model(SLICES + an_object(1, s__slicestackid="8", s__meshresolution="lowres"), placed("item", 1)),
        "object 1: marked as 'lowres'",
    ),
    "a rough mesh beside alternatives": (
        a_model(an_object(1, mesh(box()) + ALTERNATIVES, pa__modelresolution="obfuscated"), placed("item", 1)),
        "object 1: marked as 'obfuscated'",
    ),
    "a type": (a_model(an_object(1, type="part"), placed("item", 1)), "'part' is none of model, solidsupport"),
    "a unit": (a_model(an_object(1), placed("item", 1), more='unit="ell"'), "'ell' is none of micron, millimeter"),
    "two shapes": (
        a_model(an_object(1, mesh(box()) + components(placed("component", 1))), placed("item", 1)),
        "object 1: mesh and components in one object",
    ),
    "two objects": (a_model(an_object(1) + an_object(1), placed("item", 1)), "object 1 is there twice"),
    "no items": (a_model(an_object(1)), "its build has no items"),
    "an object that is not there": (
        a_model(an_object(1), placed("item", 1), placed("item", 5)),
        "'3D/3dmodel.model' has no object 5",
    ),
    "a component that is not there": (
        a_model(an_object(1, components(placed("component", 7))), placed("item", 1)),
        "'3D/3dmodel.model' has no object 7",
    ),
    "a part that is not there": (
        a_model(an_object(1), placed("item", 1, more='p:path="/3D/a.model"')),
        "'/3d/a.model': no such part",
    ),
    "itself": (a_model(an_object(1, components(placed("component", 1))), placed("item", 1)), "component of itself"),
    "in a ring": (
        a_model(
            an_object(1, components(placed("component", 2), placed("component", 3)))
            + an_object(2, components(placed("component", 1)))
            + an_object(3),
            placed("item", 1),
        ),
        "is a component of itself",
    ),
    "eleven numbers": (a_model(an_object(1), placed("item", 1, HERE[:11])), "object 1: a transform of 11 numbers"),
    "a transform of words": (
        a_model(an_object(1), placed("item", 1).replace("/>", 'transform="1 0 0 0 1 0 0 0 1 0 0 x"/>')),
        "a number is needed, not 'x'",
    ),
    "an item without an object": (a_model(an_object(1), "<item/>"), "without 'objectid'"),
    "an object without an id": (a_model(f"<object>{mesh(box())}</object>", placed("item", 1)), "without 'id'"),
    "a vertex without z": (
        a_model(an_object(1, mesh(box()).replace('z="0.0"', "", 1)), placed("item", 1)),
        "object 1: a vertex or triangle without 'z'",
    ),
    "a triangle without v3": (
        a_model(an_object(1, mesh(box()).replace("v3=", "p3=")), placed("item", 1)),
        "object 1: a vertex or triangle without 'v3'",
    ),
    "a vertex that is not there": (
        a_model(an_object(1, mesh(box()).replace('v2="5"', 'v2="8"')), placed("item", 1)),
        "object 1: triangle 5: names vertex 8, but there are 8",
    ),
    "a negative vertex": (
        a_model(an_object(1, mesh(box()).replace('v2="5"', 'v2="-1"')), placed("item", 1)),
        "object 1: triangle 5: names vertex -1",
    ),
    "another root element": ("<model/>", "no 3D model: it begins with 'model' of the namespace ''"),
    "another namespace": (a_model("", namespace="http://example.org/zz"), "it begins with 'model' of the namespace"),
    "a document type": (
        '<!DOCTYPE model [<!ENTITY a "b">]>' + a_model(an_object(1), placed("item", 1)),
        "has a document type",
    ),
    "a cut": (a_model(an_object(1), placed("item", 1))[:-1], "not well-formed XML"),
    "deep": (a_model("<zz:a>" * 2000 + "</zz:a>" * 2000, placed("item", 1)), "elements within elements, too many"),
    "a long tag": (a_model(f'<zz:a a="{"b" * 6_000_000}"/>', placed("item", 1)), "a tag of more than 4,194,304 bytes"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_PACKED", 10_000)
    assert BAD[kind][1] in refusal(write(tmp_path / "a.3mf", BAD[kind][0]))


@pytest.mark.parametrize("word", ["", "x", "1_0", "1 2", "0x1", "1,5", "\u0661", "1e", "--1"])
@pytest.mark.parametrize("name", ["vertex", "triangle"])
def test_words_that_are_no_numbers(name: str, word: str, tmp_path: Path) -> None:
    old, new = {"vertex": ('x="1.0"', f'x="{word}"'), "triangle": ('v2="5"', f'v2="{word}"')}[name]
    root = a_model(an_object(1, mesh(box()).replace(old, new, 1)), placed("item", 1))
    kind = {"vertex": "number", "triangle": "whole number"}[name]
    words = f"{ROOT!r}: object 1: a {kind} is needed, not {word!a}"
    assert refusal(write(tmp_path / "a.3mf", root)) == words


@pytest.mark.parametrize("word", ["1.0", "1e2", "9" * 30, "9" * 5000, "nan"])
def test_words_that_are_no_vertices(word: str, tmp_path: Path) -> None:
    root = a_model(an_object(1, mesh(box()).replace('v2="5"', f'v2="{word}"', 1)), placed("item", 1))
    assert f"a whole number is needed, not {word[:40]!a}" in refusal(write(tmp_path / "a.3mf", root))


@pytest.mark.parametrize("word", ["nan", "inf", "1e999"])
def test_numbers_that_are_not_finite(word: str, tmp_path: Path) -> None:
    root = a_model(an_object(1, mesh(box()).replace('x="1.0"', f'x="{word}"', 1)), placed("item", 1))
    assert "not finite" in refusal(write(tmp_path / "a.3mf", root))
    root = a_model(an_object(1), placed("item", 1, HERE).replace('"1.0 ', f'"{word} '))
    assert "not finite" in refusal(write(tmp_path / "b.3mf", root))


def test_other_parts_name_no_parts(tmp_path: Path) -> None:
    component = placed("component", 1, more='p:path="/3D/a.model"')
    others = {"3D/a.model": a_model(an_object(1) + an_object(2, components(component)))}
    path = write(tmp_path / "a.3mf", a_model("", placed("item", 2, more='p:path="/3D/a.model"')), others)
    assert "'3D/a.model': object 2: a component names another part" in refusal(path)


def test_beams_in_another_part_than_requires_them(tmp_path: Path) -> None:
    others = {"3D/a.model": a_model(an_object(1, mesh(box(), LATTICE)))}
    item = placed("item", 1, more='p:path="/3D/a.model"')
    path = write(tmp_path / "a.3mf", a_model("", item, more='requiredextensions="p b"'), others)
    assert "'3D/a.model': object 1: 1 beams and balls, which are not read" in refusal(path)


def test_other_parts_require_extensions_of_their_own(tmp_path: Path) -> None:
    others = {"3D/a.model": a_model(an_object(1), more='requiredextensions="zz"')}
    path = write(tmp_path / "a.3mf", a_model("", placed("item", 1, more='p:path="/3D/a.model"')), others)
    assert "'3D/a.model': requires the extension 'http://example.org/zz'" in refusal(path)


def test_alternatives_of_an_exact_mesh_are_noted(tmp_path: Path) -> None:
    root = a_model(an_object(2) + an_object(1, mesh(box()) + ALTERNATIVES), placed("item", 1))
    found, notes = read(write(tmp_path / "a.3mf", root))
    assert np.array_equal(found, sorted_triangles(*box()))
    assert notes == ["alternative shapes are left out: 1"]


def test_elements_in_others_are_not_the_core_s(tmp_path: Path) -> None:
    """A mesh in an element of another extension adds nothing to the one around it."""
    root = a_model(an_object(1, mesh(box(), f"<zz:old>{mesh(box(2))}</zz:old>")), placed("item", 1))
    found, notes = read(write(tmp_path / "a.3mf", root))
    assert np.array_equal(found, sorted_triangles(*box()))
    assert notes == ["'old' of the namespace 'http://example.org/zz' is left out"]


def test_notes_are_few(tmp_path: Path) -> None:
    strange = "".join(f'<a:a xmlns:a="http://example.org/{k}"/>' for k in range(1000))
    _, notes = read(write(tmp_path / "a.3mf", a_model(strange + an_object(1), placed("item", 1))))
    assert len(notes) == threemf.MOST_NAMED


# ---- Many objects ----


def doubling(levels: int, lowest: str) -> str:
    """Every level holds the one below twice."""
    return an_object(1, lowest) + "".join(
        an_object(level + 2, components(*(placed("component", level + 1, at(x)) for x in (0, 4 << level))))
        for level in range(levels)
    )


@pytest.mark.parametrize("levels", [0, 1, 4, 9])
def test_levels_that_double(levels: int, tmp_path: Path) -> None:
    path = write(tmp_path / "a.3mf", a_model(doubling(levels, mesh(box())), placed("item", levels + 1)))
    found = load_mesh(path)
    assert len(found.faces) == 12 * 2**levels
    assert np.isclose(volume(found), 6 * 2**levels)
    assert np.allclose(found.bounds, [[0, 0, 0], [4 * 2**levels - 3, 2, 3]])


@pytest.mark.parametrize("levels", [40, 900])
def test_objects_are_counted_before_they_are_made(levels: int, tmp_path: Path) -> None:
    with pytest.raises(OutOfMemoryError, match="reading it takes about"):
        load_mesh(write(tmp_path / "a.3mf", a_model(doubling(levels, mesh(box())), placed("item", levels + 1))))


def test_many_vertices_and_one_triangle_are_counted(tmp_path: Path) -> None:
    lowest = mesh((np.zeros((1000, 3)), np.array([[0, 1, 2]])))
    with pytest.raises(OutOfMemoryError, match="reading it takes about"):
        load_mesh(write(tmp_path / "a.3mf", a_model(doubling(28, lowest), placed("item", 29))))


@pytest.mark.parametrize("kind", ["no triangles", "supports"])
def test_levels_that_double_nothing(kind: str, tmp_path: Path) -> None:
    empty = an_object(1, "<mesh><vertices/><triangles/></mesh>" if kind == "no triangles" else mesh(box()))
    empty = empty.replace('id="1"', 'id="1" type="support"') if kind == "supports" else empty
    root = a_model(
        doubling(100, "").replace(an_object(1, ""), empty) + an_object(999), placed("item", 101), placed("item", 999)
    )
    assert np.array_equal(read(write(tmp_path / "a.3mf", root))[0], sorted_triangles(*box()))


def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The matrices of each product, as they are made."""
    found: list[int] = []
    after: Callable[..., Any] = threemf._after
    monkeypatch.setattr(threemf, "_after", lambda first, then: found.append(len(then)) or after(first, then))
    return found


def test_levels_that_only_move_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many instances of a long chain take no more than both of them."""
    levels, instances = 3000, 2000
    chain = an_object(1) + "".join(
        an_object(level + 2, components(placed("component", level + 1, at(1)))) for level in range(levels)
    )
    items = [placed("item", levels + 1, at(0, k)) for k in range(instances)]
    made = calls(monkeypatch)
    vertices, faces = read_3mf(write(tmp_path / "a.3mf", a_model(chain, *items)))
    assert len(faces) == 12 * instances
    assert np.array_equal(vertices.min(axis=0), [levels, 0, 0])
    assert sum(made) <= levels + instances


def test_levels_that_move_many_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels, parts = 1000, 500
    wide = an_object(1) + an_object(2, components(*(placed("component", 1, at(0, k)) for k in range(parts))))
    chain = "".join(an_object(level + 3, components(placed("component", level + 2, at(1)))) for level in range(levels))
    made = calls(monkeypatch)
    vertices, faces = read_3mf(write(tmp_path / "a.3mf", a_model(wide + chain, placed("item", levels + 2))))
    assert len(faces) == 12 * parts
    assert np.array_equal(vertices.min(axis=0), [levels, 0, 0])
    assert sum(made) <= levels + 2 * parts
