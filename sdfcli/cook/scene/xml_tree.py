"""XML as simulators read it: prefixes belong to names, comments stay, and hostile files are refused."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from sdfcli.errors import InputError
from sdfcli.mesh.formats.xml_text import in_utf8
from sdfcli.runtime.files import written_whole
from sdfcli.runtime.memory import require

MOST_NESTED = 200
"""Maximum nesting depth."""
BYTES = 40
"""Working bytes per byte in the file (measured: 14 to 38, by the names' lengths)."""


def parsed(path: Path) -> Element:
    """An XML file's root. As in TinyXML, namespaces are not looked up: `drake:x` needs no declaration. And blank lines
    before the XML declaration and a zero byte at the end are passed over.

    Raises InputError for other files, for a document type, whose entities could make a small file huge, and for
    elements nested more than MOST_NESTED deep.
    """
    require(BYTES * path.stat().st_size, "reading it")
    text, encoding = in_utf8(path.read_bytes())
    text = re.sub(rb"\A\s+(?=<\?xml)", b"", text.rstrip(b"\0"))
    parser, builder, depth = expat.ParserCreate(encoding), TreeBuilder(insert_comments=True), 0
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MOST_NESTED:
            raise InputError(f"elements nested more than {MOST_NESTED} deep")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def comment(text: str) -> None:
        if depth:
            builder.comment(text)

    def document_type(*_: object) -> None:
        raise InputError("has a document type, as no scene has")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.CommentHandler = builder.data, comment
    parser.StartDoctypeDeclHandler = document_type
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise InputError(f"not XML: {error}" if text.strip() else "the file is empty") from error


def write_tree(root: Element, path: Path) -> None:
    """Writes a file with a tree, whole. Raises UsageError if it exists."""
    with written_whole(path, force=False) as temporary:
        ElementTree.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)
