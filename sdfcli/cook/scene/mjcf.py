"""MJCF: colliding geoms with the type `mesh`. Rules for classes, files and includes are from MuJoCo's XML reference,
the order in which it looks for files from MuJoCo 4.0 at work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from sdfcli.cook.part import Cooked
from sdfcli.cook.scene.base import Arrays, Meshes, Scene, numbers, scaled, shown
from sdfcli.cook.scene.paths import mended, resolved
from sdfcli.cook.scene.xml_tree import MOST_NESTED, parsed, write_tree
from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats

SIDES = ("right", "left", "up", "down", "front", "back")
FILES = {
    **dict.fromkeys(("mesh", "hfield", "skin", "flexcomp"), ("meshdir", ["file"])),
    "texture": ("texturedir", ["file", *(f"file{side}" for side in SIDES)]),
    "model": ("", ["file"]),
}
"""Elements that name files: the compiler's folder for them, and the attributes."""
FOLDERS = ("meshdir", "texturedir")
BODIES = ("body", "frame", "replicate")
"""Elements with geoms below, and a class for these."""

KEPT = ("inertia", "maxhullvert", "smoothnormal")
"""Attributes of a mesh asset that hold for the cooked mesh, too: how MuJoCo computes mass, hull and normals."""

Attributes = dict[str, str]
Classes = dict[str, dict[str, Attributes]]
"""Default attributes for geoms and meshes by class."""


class Mjcf(Scene):
    """A model. The one file written contains included files."""

    kind = "mjcf"

    def __init__(self, path: Path, root: Path, tree: Element) -> None:
        """Reads a tree. root: see `root_of`. Raises InputError for included files that are missing, outside the root,
        or included before: in a cycle, or twice."""
        super().__init__(path)
        self._main, self._root = path.resolve().parent, root
        self._homes: dict[Element, Path] = {}
        self._expand(tree, self._main, {path.resolve()}, 0)
        self._tree, self._compiler = tree, _compiler(tree)
        self._classes = {"main": {"geom": Attributes(), "mesh": Attributes()}}
        for default in tree.findall("default"):
            _add_classes(default, "main", self._classes)
        meshes = [mesh for asset in tree.findall("asset") for mesh in asset.findall("mesh")]
        self._assets = {_mesh_name(mesh): mesh for mesh in reversed(meshes)}
        for model in (model for asset in tree.findall("asset") for model in asset.findall("model")):
            name = shown(model.get("name", model.get("file", "")))
            self.faults.append(f"{path.name}: model {name}: meshes of attached models stay as they are: cook its file")
        collected = Meshes(self)
        self._names = [self._part(collected, place, mesh) for place, _, mesh in self._collisions(tree)]

    def _expand(self, element: Element, home: Path, seen: set[Path], depth: int) -> None:
        """Replaces `<include>` by the file's elements. home: the folder with the element's file."""
        if depth > MOST_NESTED:
            raise InputError(f"elements nested more than {MOST_NESTED} deep")
        for child in list(element):
            if child.tag != "include":
                if child.tag in FILES:
                    self._homes[child] = home
                self._expand(child, home, seen, depth + 1)
                continue
            path = resolved(child.get("file", "").replace("\\", "/"), [self._main, home], self._root)
            if path in seen:
                raise InputError(f"include {shown(path.name)}: is included twice, or in a cycle")
            seen.add(path)
            try:
                inner = parsed(path)
            except InputError as error:
                raise InputError(f"include {shown(path.name)}: {error}") from error
            self._expand(inner, path.parent, seen, depth + 1)
            place = list(element).index(child)
            element[place : place + 1] = list(inner)

    def _collisions(self, tree: Element) -> list[tuple[str, Element, str]]:
        """Geoms in order that collide by meshes: where, the `<geom>`, and the mesh's name."""
        pairs = [pair for contact in tree.findall("contact") for pair in contact.findall("pair")]
        paired = {pair.get(name) for pair in pairs for name in ("geom1", "geom2")}
        found = []
        for count, (geom, name, body) in enumerate(_geoms(tree), 1):
            own = {**self._classes.get(name, self._classes["main"])["geom"], **geom.attrib}
            collides = not (_is_zero(own.get("contype")) and _is_zero(own.get("conaffinity")))
            if own.get("type") == "mesh" and (collides or geom.get("name") in paired):
                place = f"geom {shown(geom.attrib['name'])}" if geom.get("name") else f"geom {count}, in {shown(body)}"
                found.append((place, geom, own.get("mesh", "")))
        return found

    def _part(self, meshes: Meshes, place: str, name: str) -> str:
        def read() -> tuple[Arrays, str]:
            if name not in self._assets:
                raise InputError(f"no mesh {shown(name)} among the assets")
            return self._mesh(meshes, self._assets[name])

        return meshes.add(name, name, f"{self.path.name}: {place}", read)

    def _mesh(self, meshes: Meshes, mesh: Element) -> tuple[Arrays, str]:
        """A mesh asset in its frame, and its file: moved and turned by `refpos` and `refquat`, then scaled."""
        own = self._settings(mesh)
        if "builtin" in own:
            raise InputError(f"mesh {shown(_mesh_name(mesh))}: a built-in shape of MuJoCo; export it as a mesh file")
        scale = numbers(own.get("scale", "1 1 1"), 3, "scale")
        place = np.array(numbers(own.get("refpos", "0 0 0"), 3, "refpos"))
        turn = _rotation(numbers(own.get("refquat", "1 0 0 0"), 4, "refquat"))
        if "file" in own:
            path = resolved(self._file(mesh, "file"), self._folders(mesh), self._root)
            (vertices, faces), source = meshes.of_file(path), str(path)
        else:
            (vertices, faces), source = _inline(own), str(self.path)
        return scaled(((vertices - place) @ turn, faces), scale), source

    def _settings(self, mesh: Element) -> Attributes:
        """A mesh asset's attributes, with its class's."""
        return {**self._classes.get(mesh.get("class", "main"), self._classes["main"])["mesh"], **mesh.attrib}

    def _file(self, element: Element, attribute: str) -> str:
        name = element.attrib[attribute].replace("\\", "/")
        is_stripped = self._compiler["strippath"] == "true" and element.tag != "model"
        return name.rpartition("/")[2] if is_stripped else name

    def _folders(self, element: Element) -> list[Path]:
        """Where MuJoCo looks for an element's files: in the compiler's folder, then beside an included file."""
        home = self._homes[element]
        first = self._main / self._compiler.get(FILES[element.tag][0], "").replace("\\", "/")
        return [first] if home == self._main else [first, home]

    def write(self, folder: Path, cooked: Mapping[str, Cooked], home: Path | None = None) -> list[str]:
        tree = deepcopy(self._tree)
        for element, copy in zip(self._tree.iter(), tree.iter(), strict=True):
            for attribute in FILES[element.tag][1] if element in self._homes else []:
                if attribute in element.attrib:
                    name, folders = self._file(element, attribute), self._folders(element)
                    copy.set(attribute, mended(name, folders, self._root, home or folder))
            if element.tag == "compiler":
                for name in (*FOLDERS, "assetdir", "strippath"):
                    copy.attrib.pop(name, None)
        collisions = self._collisions(tree)
        above = {child: parent for parent in tree.iter() for child in parent}
        meshes = {part: mesh for part, (_, _, mesh) in zip(self._names, collisions, strict=True) if part in cooked}
        taken = set(self._assets)
        names = {}
        for part, mesh in meshes.items():
            own = self._settings(self._assets[mesh])
            kept = {name: own[name] for name in KEPT if name in own}
            names[part] = _add_assets(tree, cooked[part], taken, self._classes, kept)
        for name, (_, geom, _) in zip(self._names, collisions, strict=True):
            if name in cooked:
                change_geom(geom, above[geom], cooked[name], names[name])
        write_tree(tree, folder / self.name)
        return [self.name]


def _compiler(tree: Element) -> dict[str, str]:
    """The compiler's settings for files; later ones replace earlier ones."""
    found = {"strippath": "false"}
    for compiler in tree.iter("compiler"):
        if "assetdir" in compiler.attrib:
            found.update(dict.fromkeys(FOLDERS, compiler.attrib["assetdir"]))
        found.update({name: compiler.attrib[name] for name in (*FOLDERS, "strippath") if name in compiler.attrib})
    return found


def _add_classes(default: Element, name: str, classes: Classes) -> None:
    """Adds a `<default>`'s settings to its class, then the classes within, which begin with these."""
    for kind, attributes in classes[name].items():
        for element in default.findall(kind):
            attributes.update(element.attrib)
    for inner in default.findall("default"):
        own = inner.get("class", "")
        classes.setdefault(own, {kind: dict(attributes) for kind, attributes in classes[name].items()})
        _add_classes(inner, own, classes)


def _geoms(tree: Element) -> Iterator[tuple[Element, str, str]]:
    """Bodies' geoms in order, each with its class, and its body's name."""
    waiting = [(child, "main", "the world") for world in reversed(tree.findall("worldbody")) for child in world[::-1]]
    while waiting:
        element, name, body = waiting.pop()
        if element.tag == "geom":
            yield element, element.get("class", name), body
        elif element.tag in BODIES:
            name = element.get("childclass", name)
            if element.tag == "body":
                body = f"body {element.get('name', 'without a name')}"
            waiting.extend((child, name, body) for child in element[::-1])


def _mesh_name(mesh: Element) -> str:
    """A mesh asset's name; by default the file's, without folder and ending."""
    return mesh.get("name") or Path(mesh.get("file", "").replace("\\", "/")).stem


def _is_zero(text: str | None) -> bool:
    try:
        return text is not None and int(text) == 0
    except ValueError:
        return False


def _inline(mesh: Attributes) -> Arrays:
    """Vertices and faces in a mesh asset's attributes."""
    if "vertex" not in mesh:
        raise InputError("a mesh without a file and without vertices")
    if "face" not in mesh:
        raise InputError("vertices without faces: MuJoCo takes their convex hull; give faces")
    vertices, faces = (_threes(mesh.get(name, ""), name) for name in ("vertex", "face"))
    if not (faces % 1 == 0).all() or np.abs(faces).max() > 1 << 32:
        raise InputError("faces must be whole numbers, which name vertices")
    return vertices, faces.astype(np.int64)


def _threes(text: str, name: str) -> Floats:
    """An attribute's numbers as (n, 3). Raises InputError for others."""
    count = len(text.split())
    if count == 0 or count % 3:
        raise InputError(f"{name} has {count:,} numbers; give three each")
    return np.array(numbers(text, count, name)).reshape(-1, 3)


def _rotation(quaternion: list[float]) -> Floats:
    """Rotation matrix from a quaternion w, x, y, z with any length above 0."""
    length = float(np.linalg.norm(quaternion))
    if not 0 < length < np.inf:
        raise InputError("refquat: a quaternion of length 0, or too long")
    w, x, y, z = np.array(quaternion) / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _section(tree: Element, tag: str) -> Element:
    """The model's first section with a tag; created in front if there is none."""
    found = tree.find(tag)
    if found is None:
        found = Element(tag)
        tree.insert(0, found)
    return found


def _add_assets(tree: Element, cooked: Cooked, taken: set[str], classes: Classes, kept: Attributes) -> dict[str, str]:
    """Adds a part's assets and extensions. kept: attributes for meshes from files. Returns the names that its meshes
    have in the model: new ones where names are taken."""
    names: dict[str, str] = {}
    for given in cooked.mjcf_asset:
        element = deepcopy(given)
        if element.tag == "mesh":
            name = own = _mesh_name(element)
            while name in taken:
                name += "_cooked"
            taken.add(name)
            names[own] = name
            element.set("name", name)
            if "file" in element.attrib:
                element.attrib.update(kept)
            if "scale" in classes["main"]["mesh"]:
                element.attrib.setdefault("scale", "1 1 1")  # else the model's default would scale it
        _section(tree, "asset").append(element)
    for given in cooked.mjcf_extension:
        plugins = {plugin.get("plugin"): plugin for plugin in tree.iterfind("extension/plugin")}
        plugin = plugins.get(given.get("plugin"))
        if plugin is None:
            plugin = SubElement(_section(tree, "extension"), given.tag, given.attrib)
        plugin.extend(deepcopy(list(given)))
    return names


def change_geom(geom: Element, parent: Element, cooked: Cooked, names: Mapping[str, str]) -> None:
    """Changes a geom, and puts the original's copy behind it. names: new names of meshes."""
    if cooked.mjcf_copy is not None:
        copy = deepcopy(geom)
        _merge(copy, cooked.mjcf_copy)
        parent.insert(list(parent).index(geom) + 1, copy)
    changes = dict(cooked.mjcf or {})
    if (mesh := changes.get("mesh")) is not None:
        changes["mesh"] = names.get(mesh, mesh)
    _merge(geom, changes)
    geom.extend(deepcopy(cooked.mjcf_children))


def _merge(geom: Element, changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            geom.attrib.pop(name, None)
        else:
            geom.set(name, value)
