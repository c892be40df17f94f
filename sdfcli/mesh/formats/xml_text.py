"""XML files that are read whole: their text, and its elements."""

from __future__ import annotations

import codecs
from xml.etree import ElementTree

from sdfcli.errors import InputError


def in_utf8(data: bytes) -> tuple[bytes, str | None]:
    """A file's text, UTF-16 converted to UTF-8; and its encoding if it is no longer the one that the XML states."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode(), "utf-8"
    return data, None


def elements(text: bytes, encoding: str | None, kind: str) -> ElementTree.Element:
    """The root of a text's XML. encoding: replaces the stated one. kind: a word for errors, such as `VTK file`.

    Raises InputError for other text, and for a document type, whose entities could make a small file huge.
    """
    if b"\0" in text:
        raise InputError("has bytes that are 0, as in UTF-16 without a byte-order mark; save it as UTF-8")
    if b"<!DOCTYPE" in text:
        raise InputError(f"has a document type, as no {kind} has")
    try:
        return ElementTree.fromstring(text, ElementTree.XMLParser(encoding=encoding))
    except ElementTree.ParseError as error:
        raise InputError(f"not the XML of a {kind}: {error}" if text else "the file is empty") from error
