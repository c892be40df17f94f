"""GLB files written entry by entry."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CODES = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}

TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


class Glb:
    """A file with one scene; accessors, meshes and nodes are added. `tree` is its mutable JSON."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.tree: dict[str, Any] = {
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": []}],
            "nodes": [], "meshes": [], "accessors": [], "bufferViews": [], "buffers": [{"byteLength": 0}],
        }  # fmt: skip

    def view(self, content: bytes, **entry: Any) -> int:
        self.data += b"\0" * (-len(self.data) % 4)
        self.tree["bufferViews"].append(
            {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(content), **entry}
        )
        self.data += content
        return len(self.tree["bufferViews"]) - 1

    def accessor(self, rows: npt.ArrayLike, dtype: str = "f4", padded: int = 0, **entry: Any) -> int:
        """An accessor of rows, with `padded` bytes after each."""
        table = np.asarray(rows).astype(f"<{dtype}")
        table = table.reshape(len(table), -1)
        content = b"".join(row.tobytes() + bytes(padded) for row in table)
        stride = {"byteStride": table.itemsize * table.shape[1] + padded} if padded else {}
        head: dict[str, Any] = {"bufferView": self.view(content, **stride)}
        if "sparse" not in entry:
            head |= {"min": table.min(axis=0).tolist(), "max": table.max(axis=0).tolist()}
        return self.bare(len(table), dtype, table.shape[1], **head, **entry)

    def bare(self, count: int, dtype: str = "f4", width: int = 3, **entry: Any) -> int:
        """An accessor without a buffer."""
        self.tree["accessors"].append({"componentType": CODES[dtype], "type": KINDS[width], "count": count, **entry})
        return len(self.tree["accessors"]) - 1

    def sparse(self, places: list[int], rows: npt.ArrayLike, dtype: str = "f4", index: str = "u1") -> dict[str, Any]:
        """An accessor's `sparse` property."""
        values = np.asarray(rows).astype(f"<{dtype}").tobytes()
        at = {"bufferView": self.view(np.array(places, f"<{index}").tobytes()), "byteOffset": 0}
        at["componentType"] = CODES[index]
        return {"count": len(places), "indices": at, "values": {"bufferView": self.view(values), "byteOffset": 0}}

    def mesh(self, vertices: Any = TETRAHEDRON, faces: Any = FACES, dtype: str = "u2", **entry: Any) -> int:
        """A mesh of one primitive. vertices: an accessor, or rows; faces: the same, or None."""
        position = vertices if isinstance(vertices, int) else self.accessor(vertices)
        attributes = {"POSITION": position, **entry.pop("attributes", {})}
        primitive = {"attributes": attributes, **entry}
        if faces is not None:
            flat = faces if isinstance(faces, int) else self.accessor(np.ravel(faces), dtype)
            primitive["indices"] = flat
        self.tree["meshes"].append({"primitives": [primitive]})
        return len(self.tree["meshes"]) - 1

    def node(self, root: bool = True, **entry: Any) -> int:
        self.tree["nodes"].append(entry)
        if root:
            self.tree["scenes"][0]["nodes"].append(len(self.tree["nodes"]) - 1)
        return len(self.tree["nodes"]) - 1

    def needs(self, *names: str, required: bool = True) -> Glb:
        self.tree["extensionsUsed"] = list(names)
        if required:
            self.tree["extensionsRequired"] = list(names)
        return self

    def write(self, path: Path) -> Path:
        self.tree["buffers"][0].setdefault("byteLength", 0)
        if "uri" not in self.tree["buffers"][0]:
            self.tree["buffers"][0]["byteLength"] = len(self.data)
        text = json.dumps({name: entry for name, entry in self.tree.items() if entry != []}).encode()
        text += b" " * (-len(text) % 4)
        data = bytes(self.data) + b"\0" * (-len(self.data) % 4)
        body = struct.pack("<I4s", len(text), b"JSON") + text
        if data:
            body += struct.pack("<I4s", len(data), b"BIN\0") + data
        path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(body)) + body)
        return path
