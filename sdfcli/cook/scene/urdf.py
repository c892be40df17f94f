"""URDF: meshes in `<collision>`, with their scales."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent

from sdfcli.cook.part import Cooked, Part
from sdfcli.cook.scene.base import Arrays, Meshes, Scene, numbers, scaled, shown
from sdfcli.cook.scene.paths import mended, resolved
from sdfcli.cook.scene.xml_tree import write_tree
from sdfcli.errors import InputError

FILES = ("mesh", "texture")
"""Elements with a file's name, for collisions and pictures."""
PREFIXES = {"drake": "http://drake.mit.edu"}
"""Namespaces for elements that targets add."""


class Urdf(Scene):
    """A robot. Meshes keep their files' axes: a COLLADA file's up axis is left to the simulator."""

    kind = "urdf"

    def __init__(self, path: Path, root: Path, tree: Element) -> None:
        """Reads a tree. root: see `root_of`. Raises InputError for xacro macros."""
        super().__init__(path)
        self._tree, self._root, self._folder = tree, root, path.resolve().parent
        if any(_is_macro(element) for element in tree.iter()):
            raise InputError("holds xacro macros; expand them first: `xacro FILE > robot.urdf`")
        meshes = Meshes(self)
        self._names = [self._part(meshes, place, mesh) for place, _, _, mesh in _collisions(tree)]

    def _part(self, meshes: Meshes, place: str, mesh: Element) -> str:
        file, scale = mesh.get("filename", ""), mesh.get("scale", "1 1 1")

        def read() -> tuple[Arrays, str]:
            factors = numbers(scale, 3, "scale")
            found = resolved(file, [self._folder], self._root)
            return scaled(meshes.of_file(found), factors), str(found)

        key = file, tuple(scale.split())
        return meshes.add(key, Path(file).stem, f"{self.path.name}: {place}", read)

    def write(self, folder: Path, cooked: Mapping[str, Cooked], home: Path | None = None) -> list[str]:
        tree = deepcopy(self._tree)
        for element in tree.iter():
            if element.tag in FILES and (name := element.get("filename")):
                element.set("filename", mended(name, [self._folder], self._root, home or folder))
        for name, (_, collision, geometry, mesh) in zip(self._names, _collisions(tree), strict=True):
            if name in cooked:
                if (own := cooked[name].urdf) is not None:
                    geometry[list(geometry).index(mesh)] = deepcopy(own)
                collision.extend(deepcopy(cooked[name].urdf_collision))
        _write(tree, folder / self.name)
        return [self.name]


def write_link(part: Part, cooked: Cooked, folder: Path) -> str:
    """Writes `NAME.urdf`, a robot of one link without inertia, for a mesh without a scene. Returns its name."""
    robot = Element("robot", name=part.name)
    collision = SubElement(SubElement(robot, "link", name=part.name), "collision")
    if cooked.urdf is not None:
        SubElement(collision, "geometry").append(deepcopy(cooked.urdf))
    collision.extend(deepcopy(cooked.urdf_collision))
    indent(robot)
    _write(robot, folder / f"{part.name}.urdf")
    return f"{part.name}.urdf"


def _write(tree: Element, path: Path) -> None:
    """Writes a robot with the namespaces that it uses."""
    used = {str(element.tag).partition(":")[0] for element in tree.iter()}
    for prefix in used & PREFIXES.keys():
        tree.attrib.setdefault(f"xmlns:{prefix}", PREFIXES[prefix])
    write_tree(tree, path)


def _collisions(tree: Element) -> list[tuple[str, Element, Element, Element]]:
    """Meshes for collisions in order: where, the `<collision>`, its `<geometry>`, and the `<mesh>`."""
    return [
        (f"link {shown(link.get('name', ''))}, collision {number}", collision, geometry, mesh)
        for link in tree.findall("link")
        for number, collision in enumerate(link.findall("collision"), 1)
        for geometry in collision.findall("geometry")
        for mesh in geometry.findall("mesh")
    ]


def _is_macro(element: Element) -> bool:
    tagged = isinstance(element.tag, str) and element.tag.startswith("xacro:")
    return tagged or "$(" in element.get("filename", "") or any("${" in value for value in element.attrib.values())
