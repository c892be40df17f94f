"""Contents of a glTF or GLB file: its JSON, its buffers, and their tables of numbers (accessors).

All stated sizes are checked against the data before any allocation. Only files in the file's folder or below are
opened, and no images.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from sdfcli.errors import InputError
from sdfcli.mesh.arrays import Floats, Ints
from sdfcli.mesh.formats.gltf_extensions import MESHOPT
from sdfcli.runtime.memory import require

GLB = b"glTF"
"""Magic bytes for binary glTF."""

LISTS = ("accessors", "bufferViews", "buffers", "meshes", "nodes", "scenes", "skins")
"""Lists whose entries are referenced by index."""

COMPONENTS = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
"""NumPy types by glTF component code."""
FLOAT, INDICES = (5126,), (5121, 5123, 5125)
POINTS = (5120, 5121, 5122, 5123, 5126)
"""Position types, including KHR_mesh_quantization."""

WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4, "MAT4": 16}
"""Numbers per accessor row, by type."""

MOST_WITHOUT_DATA, PER_BYTE = 10_000, 10
"""Maximum zero rows without a buffer, summed over all accessors: a number, plus a number per data byte. Morph targets
that move few vertices have such rows."""

Decode = Callable[[bytes, dict[str, int]], tuple[Ints, dict[str, Any]]]
"""Decodes Draco data into triangles (f, 3), and attributes (v, width) by name. Second argument: attribute ids by
name."""


class Accessor(NamedTuple):
    """A table of numbers.

    name    its name in messages.
    size    row count.
    base    (count, width) stored numbers; empty if the file has none: zeros.
    places  (s,) indices of replaced rows, ascending.
    patch   (s, width) replacement rows.
    most    stored number that represents 1; 0 for numbers that are not normalised.
    """

    name: str
    size: int
    base: npt.NDArray[Any]
    places: Ints
    patch: npt.NDArray[Any]
    most: int

    def check_data(self) -> None:
        """Raises InputError if the file has no numbers, for example because an unsupported extension packs them."""
        if not len(self.base) and not len(self.places):
            raise InputError(f"{self.name} has no data")

    def stored(self, rows: Ints | None = None) -> npt.NDArray[Any]:
        """Stored numbers (n, width) of all rows, or of `rows`."""
        if not len(self.base):
            count = self.size if rows is None else len(rows)
            found = np.zeros((count, self.base.shape[1]), self.base.dtype)
        else:
            found = self.base if rows is None else self.base[rows]
        if not len(self.places):
            return found
        if rows is None:
            found = found.copy()
            found[self.places] = self.patch
        else:
            near = np.minimum(np.searchsorted(self.places, rows), len(self.places) - 1)
            hit = self.places[near] == rows
            found[hit] = self.patch[near[hit]]
        return found

    def values(self, rows: Ints | None = None) -> Floats:
        """Numbers (n, width) float64 after normalisation, of all rows or of `rows`."""
        found = self.stored(rows).astype(np.float64)
        return np.maximum(found / self.most, -1.0) if self.most else found


def whole(entry: dict[str, Any], name: str, default: int | None = None) -> int:
    """A non-negative integer in an entry. Raises InputError for other values."""
    value = entry.get(name, default)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise InputError(f"{name} is {value!r:.40}, and no whole number from 0 on")
    return value


def extension(entry: dict[str, Any], name: str) -> Any:
    """The object added to an entry by an extension; None without one."""
    return entry.get("extensions", {}).get(name)


class GltfFile:
    """A file, with all its buffers.

    tree  the JSON.
    used  names of used extensions; `required`: names of required extensions.
    """

    def __init__(self, path: Path) -> None:
        text, binary = _chunks(path, path.read_bytes())
        self.tree = _parsed(text)
        self.required = set(self.tree.get("extensionsRequired", []))
        self.used = set(self.tree.get("extensionsUsed", [])) | self.required
        self.lists: dict[str, list[dict[str, Any]]] = {name: self.tree.get(name, []) for name in LISTS}
        for name, entries in self.lists.items():
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise InputError(f"{name} are no list of objects")
        self._known: dict[tuple[Any, ...], Accessor] = {}
        self._buffers = self._loaded(path, binary)
        self._check_sizes(len(text) + sum(len(data) for data in self._buffers if data is not None))

    def item(self, kind: str, index: Any) -> dict[str, Any]:
        """An entry in one of LISTS. Raises InputError for an invalid index."""
        entries = self.lists[kind]
        if type(index) is not int or not 0 <= index < len(entries):
            raise InputError(f"names number {index!r:.40} of {kind}, but there are {len(entries):,}")
        return entries[index]

    def count(self, index: Any) -> int:
        """An accessor's stated row count."""
        count = whole(self.item("accessors", index), "count")
        if count < 1:
            raise InputError(f"accessor {index} has no rows")
        return count

    def accessor(
        self, index: Any, kind: str, codes: tuple[int, ...], given: Any = None, packed: bool = False
    ) -> Accessor:
        """An accessor, with its bounds checked.

        kind, codes: required type and component types, from WIDTHS and COMPONENTS. given: decoded numbers, in place of
        the buffer's. packed: rows must be contiguous.
        """
        entry, name, key = self.item("accessors", index), f"accessor {index}", (index, kind, codes, packed)
        if given is None and key in self._known:
            return self._known[key]
        code, count, width = whole(entry, "componentType"), self.count(index), WIDTHS[kind]
        if entry.get("type") != kind or code not in codes:
            raise InputError(f"{name}: {entry.get('type')!a:.20} of type {code}, which cannot be used here")
        dtype = np.dtype(COMPONENTS[code])
        base = np.empty((0, width), dtype) if given is None else given
        if given is None and "bufferView" in entry:
            base = self._table(name, entry, dtype, width, count, packed)
        elif given is not None and given.shape != (count, width):
            raise InputError(f"{name}: {count:,} rows of {width} by its own account, but decoded are {given.shape}")
        places, patch = np.empty(0, np.int64), base[:0]
        if "sparse" in entry:
            places, patch = self._sparse(name, entry["sparse"], dtype, width, count)
        most = int(np.iinfo(dtype).max) if dtype.kind != "f" and entry.get("normalized") else 0
        found = Accessor(name, count, base, places, patch, most)
        if given is None:
            self._known[key] = found
        return found

    def bytes_of(self, index: Any) -> bytes:
        """A bufferView's bytes."""
        length = whole(self.item("bufferViews", index), "byteLength")
        view = {"bufferView": index}
        return self._table(f"bufferView {index}", view, np.dtype("u1"), 1, length, True).tobytes()

    def _table(
        self, name: str, entry: dict[str, Any], dtype: np.dtype[Any], width: int, count: int, packed: bool
    ) -> npt.NDArray[Any]:
        """View of a table (count, width) in a buffer. entry: has a bufferView and a byteOffset."""
        view, whose = self.item("bufferViews", entry["bufferView"]), f"bufferView {entry['bufferView']}"
        self.item("buffers", view.get("buffer"))
        buffer = self._buffers[view["buffer"]]
        for packing in MESHOPT:
            if extension(view, packing) is not None and (buffer is None or packing in self.required):
                raise InputError(f"{whose} is compressed by {packing}, which is not read; store it uncompressed")
        if buffer is None:
            raise InputError(f"{name}: buffer {view['buffer']} has no data")
        row = width * dtype.itemsize
        stride, offset = whole(view, "byteStride", row), whole(entry, "byteOffset", 0)
        if stride < row or (packed and stride != row):
            raise InputError(f"{name}: rows of {row} bytes, but {whose} has one every {stride}")
        start, length = whole(view, "byteOffset", 0), whole(view, "byteLength")
        if start + length > len(buffer):
            raise InputError(f"{whose} ends at byte {start + length:,} of a buffer of {len(buffer):,}")
        if offset + (count - 1) * stride + row > length:
            raise InputError(f"{name}: {count:,} rows from byte {offset:,} on, but {whose} has {length:,} bytes")
        return np.ndarray((count, width), dtype, buffer, start + offset, (stride, dtype.itemsize))

    def _sparse(
        self, name: str, sparse: dict[str, Any], dtype: np.dtype[Any], width: int, count: int
    ) -> tuple[Ints, npt.NDArray[Any]]:
        """Indices of an accessor's replaced rows, and the replacement rows."""
        many, code = whole(sparse, "count"), whole(sparse["indices"], "componentType")
        if code not in INDICES:
            raise InputError(f"{name}: sparse indices of type {code}, which is none")
        kind = np.dtype(COMPONENTS[code])
        places = self._table(name, sparse["indices"], kind, 1, many, True)[:, 0].astype(np.int64)
        patch = self._table(name, sparse["values"], dtype, width, many, True)
        if not many or places[-1] >= count or (np.diff(places) <= 0).any():
            raise InputError(f"{name}: sparse indices must ascend, and be less than {count:,}")
        return places, patch

    def _loaded(self, path: Path, binary: memoryview | None) -> list[memoryview | None]:
        """The buffers; None for one without data, such as a decoder's output."""
        found: list[memoryview | None] = []
        beside: dict[Path, bytes] = {}
        for k, buffer in enumerate(self.lists["buffers"]):
            uri, data = buffer.get("uri"), None
            if uri is None:
                filled = any((extension(buffer, name) or {}).get("fallback") for name in MESHOPT)
                data = binary if k == 0 and not filled else None
            elif uri.startswith("data:"):
                data = memoryview(_embedded(uri))
            else:
                place = _beside(path, uri)
                if place not in beside:
                    require(place.stat().st_size, f"reading {place.name!a}")
                    beside[place] = place.read_bytes()
                data = memoryview(beside[place])
            length = whole(buffer, "byteLength")
            if data is not None and len(data) < length:
                raise InputError(f"buffer {k} has {length:,} bytes by its own account, but {len(data):,} are there")
            found.append(None if data is None else data[:length])
        return found

    def _check_sizes(self, data: int) -> None:
        """Raises InputError if accessors state more than `data` bytes can hold."""
        accessors = self.lists["accessors"]
        missing = sum(whole(accessor, "count") for accessor in accessors if "bufferView" not in accessor)
        if missing > MOST_WITHOUT_DATA + PER_BYTE * data:
            raise InputError(f"accessors of {missing:,} entries, but no data for them")
        replaced = sum(whole(accessor["sparse"], "count") for accessor in accessors if "sparse" in accessor)
        if replaced > data:
            raise InputError(f"sparse accessors replace {replaced:,} entries, but there are {data:,} bytes")


def _chunks(path: Path, data: bytes) -> tuple[bytes, memoryview | None]:
    """A file's JSON text, and a GLB's binary data."""
    if not data.startswith(GLB):
        if path.suffix.lower() == ".glb":
            raise InputError("no header of a GLB file" if data else "the file is empty")
        return data, None
    version, claimed, place = int.from_bytes(data[4:8], "little"), int.from_bytes(data[8:12], "little"), 12
    if claimed != len(data):
        raise InputError(f"the header says {claimed:,} bytes, the file has {len(data):,}")
    if version != 2:
        raise InputError(f"a GLB file of version {version}; version 2 is read")
    view = memoryview(data)
    chunks: list[tuple[bytes, memoryview]] = []
    while place < len(data):
        end = place + 8 + int.from_bytes(data[place : place + 4], "little")
        if end > len(data):
            raise InputError(f"byte {place:,}: a chunk that ends {end - len(data):,} bytes after the file")
        if len(chunks) < 2:
            chunks.append((data[place + 4 : place + 8], view[place + 8 : end]))
        place = end
    if not chunks or chunks[0][0] != b"JSON":
        raise InputError("the first chunk of a GLB file must be its JSON")
    return bytes(chunks[0][1]), chunks[1][1] if len(chunks) > 1 and chunks[1][0] == b"BIN\0" else None


def _parsed(text: bytes) -> dict[str, Any]:
    """A file's JSON; must be version 2."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not the JSON of a glTF file: {error}" if text else "the file is empty") from error
    asset = tree.get("asset") if isinstance(tree, dict) else None
    if not isinstance(asset, dict):
        raise InputError("not the JSON of a glTF file: there is no asset in it")
    for name in ("version", "minVersion"):
        version = str(asset.get(name, "2.0" if name == "minVersion" else None))
        if version.partition(".")[0] != "2" or (name == "minVersion" and version != "2.0"):
            raise InputError(f"{name} of the asset is {version!a:.20}; glTF 2.0 is read")
    return dict(tree)


def _embedded(uri: str) -> bytes:
    """A data URI's bytes."""
    head, comma, text = uri.partition(",")
    if not comma or not head.endswith(";base64"):
        raise InputError("a data URI that is not in base64")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"a data URI that is not in base64: {error}") from error


def _beside(path: Path, name: str) -> Path:
    """Path to a file referenced by `path`. Raises InputError unless the file is in `path`'s folder or below, with links
    resolved."""
    folder = path.parent.resolve()
    place = Path(folder, unquote(name)).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise InputError(f"names {name[:80]!a}, which is no file in its folder")
    return place
