"""Parts of a sequence's file: one file per finished frame, until all frames are done.

A part (see runtime/parts.py) holds the packed chunks of the frame's field as HDF5 stores them.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sdfcli import __version__
from sdfcli.errors import UsageError
from sdfcli.field.field import Field
from sdfcli.field.schema import is_complete
from sdfcli.field.store import FAULTS, UNPACKED, PackedField, PackedList, attributes_of, pack
from sdfcli.field.stored import CHUNK
from sdfcli.mesh.mesh import Domain
from sdfcli.runtime.hardware import available_threads
from sdfcli.runtime.parts import part_name, read_part, write_part
from sdfcli.runtime.threads import executor
from sdfcli.sequence.file import SequenceWriter

if TYPE_CHECKING:
    from sdfcli.sequence.build import SequenceBuild

DATASETS = {
    "leaf_level": ("uint8",),
    "residual": ("uint8", "uint16", "uint32"),
    "residual_part": ("uint8",),
    "distance": ("float32",),
    "block": ("uint32",),
    "chunk_sha256": ("uint8",),
}
KINDS = {"distance"}, {"residual"}, {"residual", "residual_part"}
"""Sets of datasets stored together, besides OF_ALL."""
OF_ALL = {"leaf_level", *UNPACKED}
OF_DISTANCES = "distance_step", "distance_parts"
"""Attributes that describe how distances are stored."""
Row = dict[str, Any]
"""A frame's facts, as JSON; see `Parts.write`."""


class NamedFrame(Protocol):
    """Facts known about a frame before its build; see build.Frame."""

    @property
    def index(self) -> int:
        """Frame index."""

    @property
    def sha256(self) -> str:
        """Mesh hash."""

    @property
    def motion(self) -> float | None:
        """Maximum vertex motion from the previous frame; may be None."""

    @property
    def coherent(self) -> bool:
        """Whether the build reuses the previous frame's results."""


class Parts:
    """Parts in a folder, for the parameters in `key`. Processes may share the folder."""

    def __init__(self, folder: Path, key: dict[str, Any], threads: int | None = None) -> None:
        """key: from `part_key`. threads: packing threads; None: one per available CPU."""
        self.folder, self.key = folder, key
        self._helpers = executor(threads or available_threads())

    def write(self, frame: NamedFrame, field: Field) -> Row:
        """Writes the part of a frame's field. Raises UsageError if it cannot be written; OutOfMemoryError.

        Returns the frame's row: index, coherent, motion, sign, sign_reason, verdict, max_error, leaves, corners, bytes,
        content_sha256, device, seconds. In rows from `find`, coherent, device and seconds are None.
        """
        start = time.perf_counter()
        packed = pack(field, self._helpers, as_frame=True)
        lists = {name: (each.length, each.dtype.name, list(each.chunks)) for name, each in packed.lists.items()}
        chunks = b"".join(chunk for _, _, chunks in lists.values() for chunk in chunks)
        facts = _facts(field, len(chunks))
        head = {
            "key": self.key,
            "mesh": frame.sha256,
            "facts": facts,
            "attributes": _all_as_json(packed.attributes),
            "lists": {name: [length, dtype, list(map(len, each))] for name, (length, dtype, each) in lists.items()},
        }
        write_part(self.folder, frame.index, head, chunks)
        seconds = {**field.run["seconds"], "write": time.perf_counter() - start}
        seconds["total"] = seconds.pop("total") + seconds["write"]
        known = {"index": frame.index, "coherent": frame.coherent, "motion": frame.motion}
        return {**known, **facts, "device": field.run["device"], "seconds": seconds}

    def find(self, frame: NamedFrame) -> Row | None:
        """The row of this frame's part, with the same mesh and parameters; None without an intact, readable one."""
        found = self._read(frame.index)
        if found is None or found[0].get("key") != self.key or found[0].get("mesh") != frame.sha256:
            return None
        facts = self._checked(found[1], frame)
        if facts is None or facts != found[0].get("facts"):
            return None
        return {
            "index": frame.index,
            "motion": frame.motion,
            **facts,
            "coherent": None,
            "device": None,
            "seconds": None,
        }

    def _checked(self, packed: PackedField, frame: NamedFrame) -> Row | None:
        """Facts of a part's field, read as from a file; None if unreadable or another frame's. The part's checksum does
        not prove this: anyone with write access to the folder can forge one."""
        parameters = self.key["parameters"]
        domain = Domain(np.array(parameters["domain"][:3]), parameters["domain"][3])
        try:
            field = packed.field()
            same = field.domain.length == domain.length and np.array_equal(field.domain.origin, domain.origin)
            if not (same and is_complete(field.info) and field.info["parameters"] == parameters):
                return None
            stated = {name: value for name, value in packed.attributes.items() if name not in OF_DISTANCES}
            if _all_as_json(stated) != _all_as_json(attributes_of(field)):
                return None
            if field.info["mesh"]["sha256"] != frame.sha256:
                return None
            return _facts(field, sum(len(chunk) for each in packed.lists.values() for chunk in each.chunks))
        except FAULTS:
            return None

    def append(self, row: Row, writer: SequenceWriter) -> None:
        """Adds a row's frame to a sequence's file. Raises UsageError if its part was removed or changed."""
        found = self._read(row["index"])
        if found is None or found[0]["facts"]["content_sha256"] != row["content_sha256"]:
            raise UsageError(f"{self.folder / part_name(row['index'])}: was removed or changed by another process")
        writer.add(found[1], row["motion"])

    def _read(self, index: int) -> tuple[dict[str, Any], PackedField] | None:
        """A part's head and field; None if missing, damaged or invalid."""
        try:
            found = read_part(self.folder, index)
            return found and (found[0], _packed_field(*found))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return None


def part_key(build: SequenceBuild) -> dict[str, Any]:
    """Key that, with a frame's mesh, determines its part."""
    return {"tool_version": __version__, "parameters": build.params.resolved(build.unit / build.domain.length)}


def _facts(field: Field, size: int) -> Row:
    """A row's facts about a field. size: bytes in its packed chunks."""
    return {
        **{name: field.info[name] for name in ("sign", "sign_reason", "verdict", "max_error")},
        "leaves": field.leaves,
        "corners": field.corners,
        "bytes": size,
        "content_sha256": field.content_sha256,
    }


def _all_as_json(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: _as_json(value) for name, value in attributes.items()}


def _as_json(value: Any) -> Any:
    """A field attribute as JSON: text, number, or list of numbers."""
    return value.decode() if isinstance(value, bytes) else value.tolist() if isinstance(value, np.ndarray) else value


def _packed_field(head: dict[str, Any], chunks: bytes) -> PackedField:
    """A part's field. Raises ValueError, TypeError, KeyError or AttributeError if invalid."""
    kinds: dict[type, Any] = {str: lambda text: np.bytes_(text.encode()), list: lambda row: np.array(row, np.float64)}
    attributes = {name: kinds.get(type(value), lambda one: one)(value) for name, value in head["attributes"].items()}
    lists, first = {}, 0
    if set(head["lists"]) - OF_ALL not in KINDS or OF_ALL - set(head["lists"]):
        raise ValueError("lists")
    for name, (length, dtype, sizes) in head["lists"].items():
        count = 1 if name in UNPACKED else -(-length // CHUNK)
        if dtype not in DATASETS[name] or len(sizes) != count or min(sizes) < 1:
            raise ValueError(name)
        ends = first + np.cumsum([0, *sizes])
        pieces = [chunks[one:two] for one, two in itertools.pairwise(ends.tolist())]
        lists[name] = PackedList(length, np.dtype(dtype), pieces)
        first = int(ends[-1])
    if first != len(chunks):
        raise ValueError("chunks")
    return PackedField(attributes, lists)
