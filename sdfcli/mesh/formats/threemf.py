"""3MF reader: the objects in a build, placed by its items and their components.

Among the 3MF Consortium's extensions, production is supported; materials and triangle sets have no geometry; objects
with a shape from any other extension are rejected.
"""

from __future__ import annotations

import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.lines import check_range
from sdfcli.mesh.formats.notes import keep_units, note
from sdfcli.mesh.formats.package import Attributes, Calls, Package, part_name
from sdfcli.mesh.formats.polygons import Polygons
from sdfcli.runtime.memory import require

_OLD = "http://schemas.microsoft.com/3dmanufacturing"
CORE = f"{_OLD}/core/2015/02"
PRODUCTION = f"{_OLD}/production/2015/06"
ALTERNATIVES = f"{_OLD}/production/alternatives/2021/04"
SLICES = f"{_OLD}/slice/2015/07"
BEAMS = {f"{_OLD}/beamlattice/2017/02", f"{_OLD}/beamlattice/balls/2020/07"}
OTHERS = {f"{_OLD}/material/2015/02", f"{_OLD}/securecontent/2019/04", f"{_OLD}/trianglesets/2021/07"}
KNOWN = {PRODUCTION, ALTERNATIVES, SLICES, *BEAMS, *OTHERS}
"""Namespaces of extensions that are supported, have no geometry, or are rejected only where they change geometry."""

MODEL = f"{_OLD}/2013/01/3dmodel"
ENCRYPTED = "http://schemas.openxmlformats.org/package/2006/relationships/encryptedfile"
"""Relationship types."""

ROOT, IGNORED = "/", ""
PLACES = {
    (parent, f"{CORE} {name}"): name
    for parent, names in {
        ROOT: ["model"],
        "model": ["resources", "build"],
        "resources": ["object"],
        "object": ["mesh", "components"],
        "mesh": ["vertices", "triangles"],
        "vertices": ["vertex"],
        "triangles": ["triangle"],
        "components": ["component"],
        "build": ["item"],
    }.items()
    for name in names
}
"""Supported elements, by parent element."""
ROUGH = {SLICES: "meshresolution", ALTERNATIVES: "modelresolution"}
"""Object attributes for mesh resolution, by extension."""
WITHOUT_GEOMETRY = {f"{CORE} {name}" for name in ("metadata", "metadatagroup", "basematerials")}
"""Core elements without geometry, which are skipped."""
UNITS = {"micron": "um", "millimeter": "mm", "centimeter": "cm", "inch": "in", "foot": "ft", "meter": "m"}
"""Coordinate units in files, and their names in `params.UNITS`."""
TYPES = ("model", "solidsupport", "support", "surface", "other")
BUILT = ("model", "surface")
"""Object types: all, and the types that belong to the shape."""

LATTICE = "beams and balls"

MOST_NESTED = 1000
"""Maximum depth of XML elements, which take many times their bytes in memory."""
MOST_NAMED = 8
"""Maximum namespaces in notes."""
ROWS = 1 << 15
"""Maximum vertices or triangles buffered as strings."""
UNPACKING = 2
"""Minimum working bytes per byte in a model part."""
ROW, INSTANCE, MOST = 100, 500, 1 << 60
"""Minimum working bytes per vertex and per triangle in an instance, and per instance; maximum byte count."""

IDENTITY = np.eye(4, 3)
NO_VERTICES, NO_TRIANGLES = np.empty((0, 3)), np.empty((0, 3), np.int64)

Key = tuple[str, int]
"""An object: its part, and its id in the part."""


class _Placed(NamedTuple):
    """An item or a component. matrix: (4, 3), applied to row vectors (x, y, z, 1)."""

    key: Key
    matrix: Floats


@dataclass
class _Object:
    """An object in a part.

    name        its name in messages.
    kind        one of TYPES.
    rough       the attribute value that marks its mesh as rough; empty without one.
    shape       the element that defines its shape: `mesh`, `components`, or an extension's.
    vertices    (v, 3) mesh vertices.
    triangles   (f, 3) mesh triangles.
    components  its components.
    left_out    counts of skipped shape elements.
    """

    name: str
    kind: str
    rough: str
    shape: str = ""
    vertices: Floats = field(default_factory=lambda: NO_VERTICES)
    triangles: Ints = field(default_factory=lambda: NO_TRIANGLES)
    components: list[_Placed] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def cost(self) -> int:
        """Working bytes per instance of its mesh; 0 if the mesh has no triangles or is not built."""
        is_built = len(self.triangles) and self.kind in BUILT
        return INSTANCE + ROW * (len(self.vertices) + len(self.triangles)) if is_built else 0


class _Rows:
    """Three numbers per element, from its attributes `names`."""

    def __init__(self, names: tuple[str, str, str], number: type[float] | type[int]) -> None:
        self._names, self._number, self._words = names, number, list[str]()
        self._found = [_numbers([], number).reshape(-1, 3)]

    def add(self, values: Attributes) -> None:
        """Adds an element's attributes. Raises InputError for missing or invalid numbers."""
        a, b, c = self._names
        try:
            self._words += (values[a], values[b], values[c])
        except KeyError as error:
            raise InputError(f"a vertex or triangle without {error}") from None
        if len(self._words) >= 3 * ROWS:
            self._convert()

    def _convert(self) -> None:
        self._found.append(_numbers(self._words, self._number).reshape(-1, 3))
        self._words = []

    def array(self) -> npt.NDArray[Any]:
        """Numbers of all elements, (n, 3)."""
        self._convert()
        return np.concatenate(self._found)


class _Part:
    """A model part's contents, filled by parser callbacks.

    objects   objects by id.
    items     build items, in the root part.
    unit      coordinate unit; None before the first element.
    required  namespaces of required extensions.
    notes     skipped content.
    """

    def __init__(self, name: str, is_root: bool) -> None:
        self.objects: dict[int, _Object] = {}
        self.items: list[_Placed] = []
        self.unit: str | None = None
        self.required: set[str] = set()
        self.notes: dict[str, str] = {}
        self.calls = Calls(self._start, self._end, self._prefix)
        self._name, self._is_root = name, is_root
        self._open = [ROOT]
        self._namespaces: dict[str | None, str] = {}
        self._now: _Object | None = None
        self._vertices: _Rows
        self._triangles: _Rows
        self._readers: dict[str, Callable[[Attributes], None]] = {
            "model": self._model,
            "object": self._object,
            "mesh": lambda _: self._shape("mesh"),
            "components": lambda _: self._shape("components"),
            "component": self._component,
            "item": self._item,
        }

    def _prefix(self, prefix: str | None, namespace: str) -> None:
        if self.unit is None:
            self._namespaces[prefix] = namespace

    def _start(self, name: str, values: Attributes) -> None:
        place = PLACES.get((self._open[-1], name), IGNORED)
        self._open.append(place)
        try:
            if reader := self._readers.get(place):
                reader(values)
            elif place == IGNORED:
                self._left_out(name)
        except InputError as error:
            raise self._named(error) from None

    def _end(self, _: str) -> None:
        if self._open.pop() == "object":
            try:
                self._finish()
            except InputError as error:
                raise self._named(error) from None

    def _named(self, error: InputError) -> InputError:
        return InputError(f"{self._now.name}: {error}") if self._now else error

    def _model(self, values: Attributes) -> None:
        self.unit = _known(values.get("unit", "millimeter"), (*UNITS,))
        for prefix in values.get("requiredextensions", "").split():
            namespace = self._namespaces.get(prefix, prefix)
            if namespace not in (CORE, *KNOWN):
                raise InputError(f"requires the extension {namespace[:80]!a}, which is not read")
            self.required.add(namespace)
        for prefix in values.get("recommendedextensions", "").split():
            namespace = self._namespaces.get(prefix, prefix)
            if namespace not in (CORE, *KNOWN):
                self._note(namespace, f"the extension {namespace[:80]!a}, which it recommends, is not read")

    def _note(self, subject: str, text: str) -> None:
        if len(self.notes) < MOST_NAMED:
            self.notes.setdefault(subject, text)

    def _object(self, values: Attributes) -> None:
        number, kind = _whole(values, "id"), _known(values.get("type", "model"), TYPES)
        if number in self.objects:
            raise InputError(f"object {number} is there twice")
        resolutions = [values.get(f"{extension} {name}", "fullres") for extension, name in ROUGH.items()]
        rough = next((each for each in resolutions if each != "fullres"), "")
        self._now = self.objects[number] = _Object(f"object {number}", kind, rough)
        if f"{SLICES} slicestackid" in values:
            self._now.left_out["stacks of slices"] = 1

    def _shape(self, name: str) -> None:
        assert self._now
        if self._now.shape in ("mesh", "components"):
            raise InputError(f"{self._now.shape} and {name} in one object")
        self._now.shape = name
        if name == "mesh":
            self._vertices, self._triangles = _Rows(("x", "y", "z"), float), _Rows(("v1", "v2", "v3"), int)
            self._readers.update(vertex=self._vertices.add, triangle=self._triangles.add)

    def _finish(self) -> None:
        assert self._now
        if (made := self._now).shape == "mesh":
            made.vertices, made.triangles = self._vertices.array(), self._triangles.array()
            corners = made.triangles.ravel()
            polygons = Polygons(corners, np.broadcast_to(3, len(made.triangles)))
            check_range(polygons, len(made.vertices), lambda face: f"triangle {face}", corners)
        self._now = None

    def _component(self, values: Attributes) -> None:
        assert self._now
        if not self._is_root and f"{PRODUCTION} path" in values:
            raise InputError("a component names another part, as only those of the root part may")
        self._now.components.append(self._placed(values))

    def _item(self, values: Attributes) -> None:
        if not self._is_root:
            return
        self.items.append(self._placed(values))
        if any(name.rpartition(" ")[2] == "printable" and value in ("0", "false") for name, value in values.items()):
            self._note("printable", "items that are marked as not printable are read, too")

    def _placed(self, values: Attributes) -> _Placed:
        path = values.get(f"{PRODUCTION} path")
        key = part_name(path) if path else self._name, _whole(values, "objectid")
        if "transform" not in values:
            return _Placed(key, IDENTITY)
        words = values["transform"].split()
        if len(words) != 12:
            raise InputError(f"object {key[1]}: a transform of {len(words)} numbers, not 12")
        return _Placed(key, _numbers(words, float).reshape(4, 3))

    def _left_out(self, name: str) -> None:
        namespace, _, local = name.rpartition(" ")
        parent = self._open[-2]
        if parent == ROOT:
            raise InputError(f"no 3D model: it begins with {local[:40]!a} of the namespace {namespace[:80]!a}")
        if len(self._open) > MOST_NESTED:
            raise InputError("elements within elements, too many")
        if self._now:
            self._now.left_out[LATTICE] += namespace in BEAMS and local in ("beam", "ball")
            self._now.left_out["alternative shapes"] += name == f"{ALTERNATIVES} alternative"
            if parent == "object" and namespace not in (CORE, *KNOWN) and not self._now.shape:
                self._now.shape = local[:40]
        if parent != IGNORED and namespace not in KNOWN and name not in WITHOUT_GEOMETRY:
            self._note(namespace, f"{local[:40]!a} of the namespace {namespace[:80]!a} is left out")


class _Model:
    """All parts of a model. notes: skipped content."""

    def __init__(self, package: Package) -> None:
        self._package, self._root = package, _root(package)
        self._encrypted = package.targets(self._root, ENCRYPTED)
        self._parts: dict[str, _Part] = {}
        self._left_out: Counter[str] = Counter()

    @property
    def notes(self) -> list[str]:
        left_out = [f"{what} are left out: {count:,}" for what, count in self._left_out.items()]
        return left_out + list(dict.fromkeys(each for part in self._parts.values() for each in part.notes.values()))

    def meshes(self) -> list[tuple[_Object, Floats]]:
        """Meshes of all items, each with its instance matrices (k, 4, 3).

        Time and memory are linear in file and result: objects without triangles are dropped, and an object that only
        moves another one is replaced by it, so each remaining object has at least two instances of its contents.

        Raises InputError for missing or unreadable objects, and OutOfMemoryError before they are allocated.
        """
        items = self._part(self._root).items
        if not items:
            raise InputError("its build has no items: nothing is to be made")
        objects, order = self._objects(items)
        cost: dict[Key, int] = {}
        held: dict[Key, list[_Placed]] = {}

        def solid(placed: Iterable[_Placed]) -> list[_Placed]:
            return [through(each) for each in placed if cost[each.key]]

        def through(placed: _Placed) -> _Placed:
            inner = held.get(placed.key, [])
            if len(inner) != 1:
                return placed
            return _Placed(inner[0].key, _after(inner[0].matrix, placed.matrix[None])[0])

        for key in order:
            cost[key] = objects[key].cost
            if objects[key].components:
                held[key] = solid(objects[key].components)
                cost[key] = min(MOST, sum(cost[each.key] for each in held[key]))
        items = solid(items)
        require(sum(cost[each.key] for each in items), "reading it")
        places: dict[Key, list[Floats]] = defaultdict(list)
        for each in items:
            places[each.key].append(each.matrix[None])
        found = []
        for key in reversed(order):
            if key in places:
                matrices = np.concatenate(places.pop(key))
                for each in held.get(key, []):
                    places[each.key].append(_after(each.matrix, matrices))
                if key not in held:
                    found.append((objects[key], matrices))
        return found

    def _objects(self, items: list[_Placed]) -> tuple[dict[Key, _Object], list[Key]]:
        """All objects required by items, and their order: components first."""
        objects: dict[Key, _Object] = {}
        waiting = [item.key for item in items]
        while waiting:
            key = waiting.pop()
            if key not in objects:
                objects[key] = self._object(*key)
                waiting += [each.key for each in objects[key].components]
        try:
            graph = {key: [each.key for each in made.components] for key, made in objects.items()}
            return objects, list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise InputError(f"{objects[error.args[1][0]].name} is a component of itself") from None

    def _object(self, name: str, number: int) -> _Object:
        """An object to build. Raises InputError if the object is missing or its shape cannot be read."""
        part = self._part(name)
        if number not in part.objects:
            raise InputError(f"{self._package.shown(name)} has no object {number}, which an item or component names")
        made = part.objects[number]
        about = f"{self._package.shown(name)}: {made.name}"
        if made.shape not in ("mesh", "components"):
            raise InputError(f"{about}: its shape is given by {made.shape or 'nothing'}, which is not read")
        if made.rough:
            raise InputError(f"{about}: marked as {made.rough[:40]!a}, a stand-in for a shape that is not read")
        if made.left_out[LATTICE] and BEAMS & (part.required | self._part(self._root).required):
            raise InputError(
                f"{about}: {made.left_out[LATTICE]:,} {LATTICE}, which are not read; save them as triangles"
            )
        if made.shape == "mesh" and made.kind not in BUILT:
            self._left_out[f"objects of the type {made.kind!a}"] += 1
        self._left_out += made.left_out
        return made

    @property
    def units(self) -> str:
        """The model's coordinate unit, a name in `params.UNITS`."""
        return UNITS[self._part(self._root).unit or "millimeter"]

    def _part(self, name: str) -> _Part:
        """A part, parsed on first use."""
        if name not in self._parts:
            shown = self._package.shown(name)
            if name in self._encrypted:
                raise InputError(f"{shown}: encrypted, as secure content")
            part = self._parts[name] = _Part(name, name == self._root)
            for _ in self._package.parsing(name, part.calls, UNPACKING):
                pass
            unit = self._parts[self._root].unit
            if part.unit != unit:
                raise InputError(f"{shown}: in {part.unit!a}, but the root part is in {unit!a}; save them in one unit")
        return self._parts[name]


def read_3mf(path: Path) -> tuple[Floats, Ints]:
    """Vertices (v, 3), in the file's unit, and triangles (f, 3) of all items in a 3MF file's build.

    Warns with a ReadingNote per omission. Raises InputError for a damaged file, and for a shape defined by an
    extension; OutOfMemoryError.
    """
    with zipfile.ZipFile(path) as archive:
        model = _Model(Package(archive, path.stat().st_size))
        meshes, units = model.meshes(), model.units
    for each in model.notes:
        note(path, each)
    keep_units(units)
    vertices, triangles, before = [NO_VERTICES], [NO_TRIANGLES], 0
    for mesh, matrices in meshes:
        points, count = _turned(mesh.vertices, matrices) + matrices[:, None, 3], len(mesh.vertices)
        # Mirrored objects keep their inside: their triangles are reversed.
        is_mirrored = np.linalg.slogdet(matrices[:, :3])[0] < 0
        corners = np.where(is_mirrored[:, None, None], mesh.triangles[:, ::-1], mesh.triangles)
        first = before + count * np.arange(len(matrices))
        vertices.append(points.reshape(-1, 3))
        triangles.append((corners + first[:, None, None]).reshape(-1, 3))
        before += count * len(matrices)
    return np.concatenate(vertices), np.concatenate(triangles)


def _root(package: Package) -> str:
    """A package's root part: the target of its relationship, or else its only model."""
    found = package.targets("/", MODEL) or package.names(".model")
    if not found:
        raise InputError("no 3D model in this file")
    if len(found) > 1:
        raise InputError(f"{len(found)} 3D models, where a relationship must name one as the root part")
    return found[0]


def _turned(rows: Floats, matrices: Floats) -> Floats:
    """Rows (n, 3) times the linear parts of matrices (k, 4, 3): (k, n, 3). Not by `@`: BLAS libraries differ in the
    last bits."""
    x, y, z = (rows[:, axis, None] * matrices[:, None, axis] for axis in range(3))
    turned: Floats = x + y + z
    return turned


def _after(first: Floats, then: Floats) -> Floats:
    """Matrices (k, 4, 3) that apply `first` (4, 3), then each of `then` (k, 4, 3)."""
    found = _turned(first, then)
    found[:, 3] += then[:, 3]
    return found


def _whole(values: Attributes, name: str) -> int:
    """An integer attribute. Raises InputError for a missing or other value."""
    if name not in values:
        raise InputError(f"an object, item or component without {name!a}")
    return int(_numbers([values[name]], int)[0])


def _known(word: str, words: tuple[str, ...]) -> str:
    """An attribute that must be one of `words`. Raises InputError for other values."""
    if word.strip() not in words:
        raise InputError(f"{word[:40]!a} is none of {', '.join(words)}")
    return word.strip()


def _numbers(words: list[str], number: type[float] | type[int]) -> npt.NDArray[Any]:
    """Numbers parsed from words. Raises InputError for an invalid word."""
    text = "".join(words)
    try:
        if "_" in text or not text.isascii():  # accepted by Python
            raise ValueError
        return np.fromiter(map(number, words), np.float64 if number is float else np.int64, len(words))
    except (ValueError, OverflowError):
        for word in words if len(words) > 1 else []:
            _numbers([word], number)
        kind = "number" if number is float else "whole number"
        raise InputError(f"a {kind} is needed, not {words[0][:40]!a}") from None
