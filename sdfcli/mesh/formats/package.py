"""Packages in the Open Packaging Conventions: a zip file whose XML parts refer to each other by relationships.

Part names are compared as the conventions require: ignoring case and percent-encoding.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import unquote
from xml.parsers import expat
from zipfile import ZipFile, ZipInfo

from sdfcli.errors import InputError
from sdfcli.runtime.memory import require

MOST_PACKED = 200
"""Maximum compression ratio; above it, a package is rejected without unpacking."""
PIECE, LONGEST_TAG = 1 << 20, 1 << 22
"""Bytes per parsed chunk, and maximum bytes in a tag or comment, which some Expat versions rescan with each chunk."""
RELATIONSHIP = "http://schemas.openxmlformats.org/package/2006/relationships Relationship"

Attributes = dict[str, str]


class Calls(NamedTuple):
    """Parser callbacks. Names are `namespace local`, or `local` without a namespace.

    start   receives an element's name and attributes.
    end     receives an element's name.
    prefix  receives a prefix and its namespace, before the element that declares it.
    """

    start: Callable[[str, Attributes], None]
    end: Callable[[str], None] | None = None
    prefix: Callable[[str | None, str], None] | None = None


class Package:
    """Parts in an open zip file. size: file size in bytes.

    Raises InputError if the file unpacks to too much.
    """

    def __init__(self, archive: ZipFile, size: int) -> None:
        entries = archive.infolist()
        packed, unpacked = (sum(getattr(entry, name) for entry in entries) for name in ("compress_size", "file_size"))
        if packed > size:
            raise InputError(f"holds {packed:,} packed bytes by its own account, but has {size:,}")
        if unpacked > MOST_PACKED * size:
            raise InputError(f"unpacks to {unpacked:,} bytes, more than {MOST_PACKED} times its size")
        self._archive = archive
        self._entries: dict[str, list[ZipInfo]] = {}
        for entry in entries:
            self._entries.setdefault(part_name(entry.filename), []).append(entry)

    def names(self, ending: str) -> list[str]:
        """Names of all parts with the given ending."""
        return [name for name in self._entries if name.endswith(ending)]

    def shown(self, part: str) -> str:
        """A part's name as stored in the file, for messages."""
        return ascii(self._entries[part][0].filename[:80] if part in self._entries else part[:80])

    def targets(self, part: str, kind: str) -> list[str]:
        """Distinct target parts of a part's relationships with type `kind`. part: `/` for the package.

        Raises InputError for a target outside the package.
        """
        folder, name = posixpath.split(part)
        found: dict[str, None] = {}

        def start(element: str, values: Attributes) -> None:
            if element == RELATIONSHIP and values.get("Type") == kind:
                target = values.get("Target", "")
                if values.get("TargetMode") == "External":
                    raise InputError(f"names {target[:80]!a}, which is outside of the file")
                found[part_name(target, folder)] = None

        place = posixpath.join(folder, "_rels", f"{name}.rels")
        if place in self._entries:
            for _ in self.parsing(place, Calls(start), 0):
                pass
        return list(found)

    def parsing(self, part: str, calls: Calls, working: int) -> Iterator[None]:
        """Parses a part's XML, and yields after each chunk. working: minimum working bytes per byte.

        Raises InputError for a missing or duplicate part, an encrypted one, and XML that is damaged or has a document
        type.
        """
        entries = self._entries.get(part, [])
        if len(entries) != 1:
            raise InputError(f"{self.shown(part)}: {'two parts have this name' if entries else 'no such part'}")
        if entries[0].flag_bits & 1:
            raise InputError(f"{self.shown(part)}: encrypted")
        require(PIECE + working * entries[0].file_size, "reading it")
        parser, fed = expat.ParserCreate(namespace_separator=" "), 0
        parser.StartElementHandler, parser.EndElementHandler = calls.start, calls.end
        parser.StartNamespaceDeclHandler, parser.StartDoctypeDeclHandler = calls.prefix, _refuse_document_type
        with self._archive.open(entries[0]) as stream:
            try:
                while piece := stream.read(PIECE):
                    parser.Parse(piece)
                    fed += len(piece)
                    if fed - parser.CurrentByteIndex > LONGEST_TAG:
                        raise InputError(f"a tag of more than {LONGEST_TAG:,} bytes")
                    yield
                parser.Parse(b"", True)
            except expat.ExpatError as error:
                raise InputError(f"{self.shown(part)}: not well-formed XML: {error}") from error
            except InputError as error:
                raise InputError(f"{self.shown(part)}: {error}") from error


def part_name(name: str, folder: str = "/") -> str:
    """A part's name in comparable form: absolute, lower case, without percent-encoding. folder: of the referring
    part."""
    path = posixpath.join(folder, unquote(name).replace("\\", "/"))
    return posixpath.normpath("/" + path.lstrip("/")).lower()


def _refuse_document_type(*_: object) -> None:
    raise InputError("has a document type, as no such part may have")
