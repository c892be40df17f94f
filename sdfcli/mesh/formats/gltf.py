"""glTF and GLB reader, version 2: a scene's triangles at rest, each mesh placed by its nodes.

docs/reference/formats.md lists supported, rejected and skipped features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Bools, Faces, Floats, Ints, pieces
from sdfcli.mesh.formats.apart import read_apart
from sdfcli.mesh.formats.gltf_data import FLOAT, INDICES, POINTS, Accessor, Decode, GltfFile, extension, whole
from sdfcli.mesh.formats.gltf_extensions import AT_REST, DRACO, INSTANCES, RESTART, check_extensions, unknown
from sdfcli.mesh.formats.gltf_nodes import at, composed, determinants, product, shown_nodes, tree, world_matrices
from sdfcli.mesh.formats.notes import keep_units, note
from sdfcli.runtime.memory import require

UNIT = "m"
"""The format's unit."""

TRIANGLES, STRIP, FAN = 4, 5, 6
"""Primitive modes; lower ones are points and lines."""

MOST_LAYERS = 256
"""Maximum weighted morph targets, and sets of four joints, per primitive."""

MOST_SHAPES = 300_000
"""Maximum primitives added by skins and morph target weights to the file's own."""

WHOLE = 0.1
"""Maximum error in the sum of a vertex's weights."""

VERTEX, CORNERS, COPY = 24, 12, 300
"""Minimum working bytes per vertex, per triangle, and per mesh instance."""


class Use(NamedTuple):
    """A mesh as used by nodes: with morph target weights, None for the mesh's own, and a skin, if any."""

    mesh: int
    weights: tuple[float, ...] | None
    skin: int | None


class Shape(NamedTuple):
    """Vertices (v, 3), triangles (f, 3), and instance matrices (k, 4, 4)."""

    vertices: Floats
    triangles: npt.NDArray[Any]
    matrices: Floats


def read_gltf(path: Path) -> tuple[Floats, Ints | Faces]:
    """Vertices (v, 3) in metres and triangles (f, 3) from a GLB or glTF file. Warns with a ReadingNote per skipped
    feature.

    Raises InputError for a damaged file, and for triangles that need an unknown extension; DeviceError if they need the
    missing Draco extra; OutOfMemoryError.
    """
    with well_formed():
        scene = Scene.of(path)
        found = None if scene.has_draco else scene.placed()
    if found is None:
        return read_apart(path, "draco")
    for each in scene.notes():
        note(path, each)
    keep_units(UNIT)
    return found


@contextmanager
def well_formed() -> Iterator[None]:
    """Turns exceptions from JSON that violates glTF's schema into InputError."""
    try:
        yield
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise InputError(f"something is missing in its JSON, or of a wrong type ({wrong:.80})") from error


@dataclass
class Scene:
    """A scene in a file.

    world   (n, 4, 4) node-to-scene matrices.
    uses    each shape's nodes in the scene.
    left    counts of skipped content by kind.
    decode  decoder for Draco data; `decoded` caches its results by location in the file.
    skins   joint matrices (j, 4, 4) by skin index.
    """

    file: GltfFile
    world: Floats
    uses: dict[Use, list[int]]
    left: Counter[str]
    decode: Decode | None = None
    decoded: dict[tuple[Any, ...], tuple[Ints, dict[str, Any]]] = field(default_factory=dict)
    skins: dict[int, Floats] = field(default_factory=dict)

    @staticmethod
    def of(path: Path, decode: Decode | None = None) -> Scene:
        """A file's default scene. Raises as `read_gltf` does."""
        file = GltfFile(path)
        check_extensions(file.required)
        order, parents = tree(file)
        left: Counter[str] = Counter()
        uses = _uses(file, shown_nodes(file, order, parents, left))
        return Scene(file, world_matrices(file.lists["nodes"], order, parents), uses, left, decode)

    @property
    def has_draco(self) -> bool:
        """Whether any primitive in the scene exists only as Draco data."""
        meshes = {use.mesh for use in self.uses}
        return any(self._is_packed(primitive) for mesh in meshes for primitive in self._surfaces(mesh))

    def placed(self) -> tuple[Floats, Ints | Faces]:
        """Vertices (v, 3) and triangles (f, 3) of all shapes. Raises as `read_gltf` does."""
        self._require()
        return _joined([shape for use, nodes in self.uses.items() for shape in self._shapes(use, nodes)])

    def notes(self) -> list[str]:
        """Skipped and converted content, in a line each."""
        file, notes = self.file, [f"{what} left out: {count:,}" for what, count in self.left.items() if count]
        if len(file.lists["scenes"]) > 1:
            notes.append(f"scene {file.tree.get('scene', 0)} of {len(file.lists['scenes']):,} is read")
        if unused := len(file.lists["meshes"]) - len({use.mesh for use in self.uses}):
            notes.append(f"{unused:,} of {len(file.lists['meshes']):,} meshes are not shown in the scene: left out")
        moving = ["animations"] * bool(file.tree.get("animations")) + sorted(AT_REST & file.used)
        if moving:
            notes.append(f"read at rest, without {', '.join(moving)}")
        if names := unknown(file.used):
            notes.append(f"read without extensions that are not known here: {names}")
        return notes

    # ---- Counting ----

    def _surfaces(self, mesh: int) -> Iterator[dict[str, Any]]:
        """A mesh's triangle primitives."""
        for primitive in self.file.item("meshes", mesh)["primitives"]:
            if whole(primitive, "mode", TRIANGLES) >= TRIANGLES and "POSITION" in primitive["attributes"]:
                yield primitive

    def _is_packed(self, primitive: dict[str, Any]) -> bool:
        """Whether a primitive exists only as Draco data."""
        named = [primitive["attributes"]["POSITION"], *([primitive["indices"]] if "indices" in primitive else [])]
        bare = any("bufferView" not in self.file.item("accessors", index) for index in named)
        return extension(primitive, DRACO) is not None and (bare or DRACO in self.file.required)

    def _require(self) -> None:
        """Raises OutOfMemoryError unless memory suffices for everything the scene states, and InputError for too many
        shapes."""
        meshes = self.file.lists["meshes"]
        shapes = sum(len(meshes[use.mesh]["primitives"]) for use in self.uses)
        most = MOST_SHAPES + sum(len(mesh["primitives"]) for mesh in meshes)
        if shapes > most:
            raise InputError(f"{shapes:,} primitives by skins and weights of morph targets; at most {most:,} are read")
        size = 0
        for use, nodes in self.uses.items():
            mesh = 0
            for primitive in self._surfaces(use.mesh):
                vertices = self.file.count(primitive["attributes"]["POSITION"])
                corners = self.file.count(primitive["indices"]) if "indices" in primitive else vertices
                is_list = whole(primitive, "mode", TRIANGLES) == TRIANGLES
                mesh += VERTEX * min(vertices, corners) + CORNERS * (corners // 3 if is_list else corners)
            size += sum(self._copies(node) for node in nodes) * (mesh + COPY if mesh else 0)
        require(size, "reading it")

    def _copies(self, node: int) -> int:
        instances = extension(self.file.item("nodes", node), INSTANCES)
        return 1 if instances is None else min(map(self.file.count, instances["attributes"].values()))

    # ---- Shapes ----

    def _shapes(self, use: Use, nodes: list[int]) -> list[Shape]:
        """A mesh's primitives as shapes."""
        mesh = self.file.item("meshes", use.mesh)
        surfaces = list(self._surfaces(use.mesh))
        for primitive in mesh["primitives"]:
            if "POSITION" not in primitive["attributes"]:
                self.left["primitives without positions"] += 1
            elif whole(primitive, "mode", TRIANGLES) < TRIANGLES:
                self.left["primitives of points or lines"] += 1
        if not surfaces:
            return []
        if use.skin is None:
            matrices = np.concatenate([self._matrices(node) for node in nodes])
            real = matrices[:, :3, :3].any(axis=(1, 2))
            self.left["meshes that are scaled to nothing"] += int((~real).sum())
            matrices = matrices[real]
            if not len(matrices):
                return []
        else:
            matrices = np.repeat(np.eye(4)[None], len(nodes), axis=0)  # placed by the skin's joints
        weights = mesh.get("weights") if use.weights is None else use.weights
        return [Shape(*self._primitive(primitive, weights, use.skin), matrices) for primitive in surfaces]

    def _matrices(self, node: int) -> Floats:
        """Instance matrices (k, 4, 4) for a node's mesh."""
        instances = extension(self.file.item("nodes", node), INSTANCES)
        if instances is None:
            return self.world[node, None]
        kinds = {"TRANSLATION": "VEC3", "ROTATION": "VEC4", "SCALE": "VEC3"}
        codes = {"TRANSLATION": FLOAT, "ROTATION": (5120, 5122, *FLOAT), "SCALE": FLOAT}
        named = instances["attributes"]
        tables = {name: self.file.accessor(named[name], kinds[name], codes[name]) for name in kinds if name in named}
        counts = {self.file.count(index) for index in named.values()}
        if len(counts) > 1:
            raise InputError(f"node {node}: {INSTANCES} of different counts, {', '.join(map(str, sorted(counts)))}")
        rows = {name: table.values() for name, table in tables.items()}
        local = composed(max(counts), rows.get("TRANSLATION"), rows.get("ROTATION"), rows.get("SCALE"))
        return product(self.world[node], local)

    def _primitive(self, primitive: dict[str, Any], weights: Any, skin: int | None) -> tuple[Floats, npt.NDArray[Any]]:
        """A primitive's vertices (v, 3) and triangles (f, 3), in its node's coordinates, or in the scene's if
        skinned."""
        named = primitive["attributes"]
        corners, tables = self._unpacked(primitive) if self._is_packed(primitive) else (None, {})
        points = self.file.accessor(named["POSITION"], "VEC3", POINTS, tables.get("POSITION"))
        points.check_data()
        triangles = self._triangles(primitive, points.size) if corners is None else corners
        if triangles.size and int(triangles.max()) >= points.size:
            raise InputError(f"names vertex {triangles.max():,} of {points.name}, which has {points.size:,}")
        rows: Ints | None = None
        if triangles.size < points.size:  # many primitives may share an accessor
            rows, triangles = np.unique(triangles, return_inverse=True)
            triangles = triangles.reshape(-1, 3)
        vertices = points.values(rows)
        for target, weight in self._targets(primitive, weights):
            moved = self.file.accessor(target, "VEC3", POINTS)
            if moved.size != points.size:
                raise InputError(f"{moved.name}: a morph target of {moved.size:,} vertices, not {points.size:,}")
            vertices += weight * moved.values(rows)
        if skin is None:
            return vertices, triangles
        influences = self._influences(primitive, tables, points.size)
        vertices, mirrored = _skinned(vertices, self._joints(skin), influences, rows)
        return vertices, _turned(triangles, mirrored[triangles].sum(axis=1) >= 2)

    def _triangles(self, primitive: dict[str, Any], vertices: int) -> npt.NDArray[Any]:
        """Vertex indices (f, 3) as in the file."""
        mode = whole(primitive, "mode", TRIANGLES)
        if mode > FAN:
            raise InputError(f"a primitive of mode {mode}, which is none of glTF's")
        if "indices" not in primitive:
            corner: npt.NDArray[Any] = np.arange(vertices, dtype=np.uint32)
        else:
            indices = self.file.accessor(primitive["indices"], "SCALAR", INDICES, packed=True)
            indices.check_data()
            corner = indices.stored()[:, 0]
        if mode != TRIANGLES:
            restarts = "indices" in primitive and RESTART in self.file.used
            return _unrolled(corner, (corner == np.iinfo(corner.dtype).max) & restarts, mode)
        if len(corner) % 3:
            raise InputError(f"a primitive of {len(corner):,} corners, which are no triangles")
        return corner.reshape(-1, 3)

    def _unpacked(self, primitive: dict[str, Any]) -> tuple[Ints, dict[str, Any]]:
        """Triangles (f, 3) and attributes of a primitive in Draco data."""
        packed = extension(primitive, DRACO)
        key = packed["bufferView"], *sorted(packed["attributes"].items())
        if key not in self.decoded:
            assert self.decode
            self.decoded[key] = self.decode(self.file.bytes_of(packed["bufferView"]), packed["attributes"])
        triangles, tables = self.decoded[key]
        if whole(primitive, "mode", TRIANGLES) == TRIANGLES and "indices" in primitive:
            stated = self.file.count(primitive["indices"])
            if stated != triangles.size:
                raise InputError(f"{DRACO}: {triangles.size:,} corners are decoded, but the file states {stated:,}")
        return triangles, tables

    def _targets(self, primitive: dict[str, Any], weights: Any) -> list[tuple[Any, float]]:
        """Position accessors of morph targets with non-zero weights, and the weights."""
        targets = primitive.get("targets", [])
        if weights is None or not any(weights):
            return []
        if len(weights) != len(targets):
            raise InputError(f"{len(weights)} weights for {len(targets)} morph targets")
        pairs = [
            (target["POSITION"], float(w)) for target, w in zip(targets, weights, strict=True) if "POSITION" in target
        ]
        found = [(target, weight) for target, weight in pairs if weight != 0]
        if len(found) > MOST_LAYERS:
            raise InputError(f"{len(found):,} morph targets with a weight; at most {MOST_LAYERS} are read")
        return found

    # ---- Skins ----

    def _joints(self, skin: int) -> Floats:
        """Mesh-to-scene matrices (j, 4, 4), one per joint in a skin."""
        if skin not in self.skins:
            self.skins[skin] = self._bound(skin)
        return self.skins[skin]

    def _bound(self, skin: int) -> Floats:
        entry = self.file.item("skins", skin)
        for joint in entry["joints"]:
            self.file.item("nodes", joint)
        world: Floats = self.world[entry["joints"]]
        if "inverseBindMatrices" not in entry:
            return world
        table = self.file.accessor(entry["inverseBindMatrices"], "MAT4", FLOAT)
        if table.size < len(world):
            raise InputError(f"skin {skin}: {table.size:,} matrices for {len(world):,} joints")
        return product(world, table.values(np.arange(len(world))).reshape(-1, 4, 4).transpose(0, 2, 1))

    def _influences(
        self, primitive: dict[str, Any], tables: dict[str, Any], vertices: int
    ) -> list[tuple[Accessor, Accessor]]:
        """Accessor pairs of a skinned primitive: four joints per vertex, and their weights."""
        named = primitive["attributes"]
        found: list[tuple[Accessor, Accessor]] = []
        while (name := f"JOINTS_{len(found)}") in named:
            share = f"WEIGHTS_{len(found)}"
            joints = self.file.accessor(named[name], "VEC4", INDICES[:2], tables.get(name))
            weights = self.file.accessor(named.get(share), "VEC4", (*INDICES[:2], *FLOAT), tables.get(share))
            if not joints.size == weights.size == vertices:
                raise InputError(f"{joints.name}: joints of {joints.size:,} vertices, not {vertices:,}")
            found.append((joints, weights))
        if not 0 < len(found) <= MOST_LAYERS:
            raise InputError(f"a skinned primitive with {len(found)} sets of joints")
        return found


def _uses(file: GltfFile, shown: list[bool]) -> dict[Use, list[int]]:
    """Visible nodes by shape."""
    uses: dict[Use, list[int]] = {}
    for number, node in enumerate(file.lists["nodes"]):
        if not shown[number] or "mesh" not in node:
            continue
        file.item("meshes", node["mesh"])
        if "skin" in node and extension(node, INSTANCES) is not None:
            raise InputError(f"node {number} has a skin and {INSTANCES}, which glTF leaves undefined")
        weights = tuple(node["weights"]) if "weights" in node else None
        uses.setdefault(Use(node["mesh"], weights, node.get("skin")), []).append(number)
    return uses


# ---- Triangles ----


def _unrolled(corner: npt.NDArray[Any], cuts: Bools, mode: int) -> npt.NDArray[Any]:
    """Triangles (f, 3) from strips or fans, which end at `cuts`; without triangles that repeat a corner, such as joints
    between strips."""
    place = np.arange(len(corner))
    first = np.maximum.accumulate(np.where(cuts, place + 1, 0))[:-2]
    place = place[:-2]
    if mode == STRIP:
        odd = (place - first) % 2
        triangles = np.stack([corner[place], corner[place + 1 + odd], corner[place + 2 - odd]], axis=1)
    else:
        triangles = np.stack([corner[first], corner[place + 1], corner[place + 2]], axis=1)
    a, b, c = triangles.T
    broken = cuts[:-2] | cuts[1:-1] | cuts[2:]
    found: npt.NDArray[Any] = triangles[~broken & (a != b) & (b != c) & (c != a)]
    return found


def _turned(triangles: npt.NDArray[Any], chosen: Bools) -> npt.NDArray[Any]:
    """Triangles (f, 3) with the chosen ones reversed."""
    found: npt.NDArray[Any] = np.where(chosen[:, None], triangles[:, ::-1], triangles)
    return found


def _skinned(
    vertices: Floats, joints: Floats, influences: list[tuple[Accessor, Accessor]], rows: Ints | None
) -> tuple[Floats, Bools]:
    """Vertices (v, 3) placed by joints (j, 4, 4), and (v,) whether they are mirrored."""
    found, mirrored = np.empty_like(vertices), np.empty(len(vertices), bool)
    tables = [(joint.stored(rows), weight.values(rows)) for joint, weight in influences]
    for piece in pieces(len(vertices)):
        joint = np.concatenate([table[piece] for table, _ in tables], axis=1).astype(np.int64)
        weight = np.concatenate([table[piece] for _, table in tables], axis=1)
        total = weight.sum(axis=1)
        if not (np.abs(total - 1) <= WHOLE).all():
            raise InputError(
                f"the weights of a skinned vertex add up to {total[np.abs(total - 1).argmax()]:.3g}, not 1"
            )
        joint[weight == 0] = 0
        if joint.max() >= len(joints):
            raise InputError(f"names joint {joint.max():,} of a skin with {len(joints):,}")
        blend = np.zeros((len(total), 4, 4))
        for k in range(joint.shape[1]):
            blend += (weight[:, k] / total)[:, None, None] * joints[joint[:, k]]
        found[piece] = at(vertices[piece, None], blend)[:, 0]
        mirrored[piece] = determinants(blend) < 0
    return found, mirrored


def _joined(shapes: list[Shape]) -> tuple[Floats, Ints | Faces]:
    """Vertices (v, 3) and triangles (f, 3) of all shape instances; triangles of mirrored instances are reversed."""
    sizes = [len(shape.vertices) * len(shape.matrices) for shape in shapes]
    rows = sum(len(shape.triangles) * len(shape.matrices) for shape in shapes)
    vertices, faces = np.empty((sum(sizes), 3)), np.empty((rows, 3), np.uint32 if sum(sizes) < 2**32 else np.int64)
    vertex = face = 0
    for shape, size in zip(shapes, sizes, strict=True):
        copies, each = len(shape.matrices), len(shape.vertices)
        vertices[vertex : vertex + size] = at(shape.vertices, shape.matrices).reshape(-1, 3)
        more = copies * len(shape.triangles)
        places = faces[face : face + more].reshape(copies, -1, 3)
        places[:] = shape.triangles
        mirrored = determinants(shape.matrices) < 0
        places[mirrored] = places[mirrored][:, :, ::-1]
        places += (vertex + each * np.arange(copies, dtype=faces.dtype))[:, None, None]
        vertex, face = vertex + size, face + more
    return vertices, faces
