"""STEP text (ISO 10303-21), checked before Open CASCADE gets it, which opens any file named there."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from sdfcli.errors import InputError

FILES = (b"DOCUMENT_FILE", b"DCMFL")
EXTERNAL = (*FILES, b"PRODUCT_DEFINITION_WITH_ASSOCIATED_DOCUMENTS", b"PDWAD")
"""Entities, and their short names, without which Open CASCADE opens no other file."""
UNREAD = frozenset(
    b"BLOCK BOOLEAN_RESULT BOXED_HALF_SPACE B_SPLINE_VOLUME CONVEX_HEXAHEDRON CSG_SOLID CURVE_SWEPT_SOLID "
    b"ECCENTRIC_CONE ELLIPSOID EXTRUDED_AREA_SOLID EXTRUDED_FACE_SOLID FACETED_PRIMITIVE HALF_SPACE_SOLID "
    b"MODIFIED_SOLID POLYGONAL_BOUNDED_HALF_SPACE RECTANGULAR_PYRAMID REVOLVED_AREA_SOLID REVOLVED_FACE_SOLID "
    b"RIGHT_ANGULAR_WEDGE RIGHT_CIRCULAR_CONE RIGHT_CIRCULAR_CYLINDER SOLID_REPLICA SPHERE "
    b"SURFACE_CURVE_SWEPT_AREA_SOLID SURFACE_CURVE_SWEPT_FACE_SOLID SWEPT_AREA_SOLID SWEPT_DISK_SOLID "
    b"SWEPT_FACE_SOLID TETRAHEDRON TORUS TRIMMED_VOLUME".split()
)
"""Solids that Open CASCADE skips: derived from others, or swept."""
CURVES = (b"GEOMETRIC_CURVE_SET", b"EDGE_BASED_WIREFRAME_MODEL", b"SHELL_BASED_WIREFRAME_MODEL")
MOST_COPIES = 200_000
"""Maximum part count, with each part counted once per placement in all assemblies."""
USE = b"NEXT_ASSEMBLY_USAGE_OCCURRENCE"

_SPACES = bytes(each if each > 32 or each in b"\n\r" else 32 for each in range(256))
"""Replaces control characters, which only separate words outside texts, by blanks."""
_TEXTS = re.compile(rb"(?:'[^']*')+|/\*.*?\*/|'|/\*", re.DOTALL)
_WHOLE_TEXTS = re.compile(rb"'([^']*)'")
_KEPT = re.compile(rb"'[A-Za-z][A-Za-z0-9_]{5,}(?: *\{[0-9 ]*\})?'")
"""Texts passed to Open CASCADE: names of schemas, measures and units, none a file name."""
_DOCUMENTS = re.compile(rb"\b(DOCUMENT|DOCUMENT_FILE|DOCUMENT_WITH_CLASS|DCMFL)\b\s*\(((?:[^;()]|\([^;()]*\))*)")
_FILE = re.compile(rb".*\.\w+\s*", re.DOTALL)
_PAPER = re.compile(
    rb".*\.(?:pdf|docx?|txt|rtf|odt|xlsx?|csv|pptx?|html?|xml|jpe?g|png|gif|tiff?|bmp)\s*", re.DOTALL | re.I
)
"""Document names without shapes."""
_LOOSE = re.compile(rb"''(?![ \r\n]*[),])")
_WORDS = re.compile(rb"\b[A-Z0-9_]+\b(?=\s*\()")
_FACES = re.compile(rb"=\s*(?:ADVANCED_FACE|FACE_SURFACE|FACE)\s*\(")
_ENTITIES = re.compile(rb"#(\d{1,18})\s*=([^;]*)")
_NAMES = re.compile(rb"#(\d{1,18})")
_OPERATORS = re.compile(rb"#(\d+)\s*=\s*([^;=]*\bCARTESIAN_TRANSFORMATION_OPERATOR[^;]*)")
_DIRECTIONS = re.compile(rb"#(\d+)\s*=\s*DIRECTION\s*\(\s*''\s*,\s*(\([^;]*)")
_NUMBERS = re.compile(rb"[(,]\s*([-+]?\d[\dE.+-]*)\s*(?=[,)])")

Edges = dict[bytes, list[bytes]]
"""Each assembly entity's components."""


@dataclass(frozen=True)
class Text:
    """A STEP file.

    whole      input for Open CASCADE: no comments, and no text that could be a file name.
    code       the same in capitals, with empty texts.
    words      occurrences per entity type.
    documents  names of referenced documents.
    """

    whole: bytes
    code: bytes
    words: Counter[bytes]
    documents: list[str]

    @property
    def faces(self) -> int:
        """Face count over solids and surfaces."""
        return sum(1 for _ in _FACES.finditer(self.code))

    def notes(self) -> list[str]:
        """Unread content other than faces."""
        curves = [name.decode() for name in CURVES if self.words[name]]
        return [
            *([f"curves are not read: {', '.join(curves)}"] if curves else []),
            *([f"documents are not read: {', '.join(self.documents)}"] if self.documents else []),
        ]


def read_text(data: bytes) -> Text:
    """A STEP file, checked. Raises InputError for an incomplete file (parts in other files, sections or solids that
    Open CASCADE does not read), and for assemblies with too many parts."""
    if not data.lstrip()[:13].startswith(b"ISO-10303-21"):
        raise InputError("a STEP file starts with ISO-10303-21" if data else "the file is empty")
    whole = _TEXTS.sub(_safe, data.translate(_SPACES))
    code = _TEXTS.sub(b"''", whole).upper()
    if _LOOSE.search(code):
        raise InputError("a text that neither a comma nor a bracket follows: the file is damaged")
    sections = re.findall(rb"\bENDSEC\s*;", code)
    if len(sections) > 2:
        raise InputError(f"{len(sections)} sections: only a header and one of data are read; export it anew")
    documents = _documents(whole, code)
    words = Counter(match[0] for match in _WORDS.finditer(code))
    unread = sorted(name.decode() for name in UNREAD & words.keys())
    if unread:
        raise InputError(
            f"solids that Open CASCADE does not read: {', '.join(unread)}; export it as boundaries (B-rep)"
        )
    _check_names(code)
    _check_operators(code)
    if max(map(_copies, _assemblies(code))) > MOST_COPIES:
        raise InputError(f"assemblies of more than {MOST_COPIES:,} parts, each counted once for each place")
    return Text(_WHOLE_TEXTS.sub(_kept, whole), code, words, documents)


def _safe(match: re.Match[bytes]) -> bytes:
    """A comment as a blank, and a text without inner quotes: Open CASCADE takes a quote before a bracket as the text's
    end."""
    found = match[0]
    if len(found) < 3 and found != b"''":
        raise InputError("a text or a comment without an end: the file is damaged")
    return b" " if found.startswith(b"/") else b"'" + found[1:-1].replace(b"'", b"_") + b"'"


def _kept(match: re.Match[bytes]) -> bytes:
    return match[0] if _KEPT.fullmatch(match[0]) else b"''"


def _documents(whole: bytes, code: bytes) -> list[str]:
    """Names of documents without shapes. Raises InputError for documents with shapes, or with possible shapes."""
    if not any(word in code for word in EXTERNAL):
        return []
    texts = [match[1] for match in _WHOLE_TEXTS.finditer(whole)]
    found: list[bytes] = []
    place = number = 0
    for match in _DOCUMENTS.finditer(code):
        number += code.count(b"''", place, match.start())
        place = match.start()
        named = texts[number : number + min(2, match[2].count(b"''"))]
        names = [name for name in named if _FILE.fullmatch(name)]
        if not all(map(_PAPER.fullmatch, names)) or (match[1] in FILES and not names):
            name = next(filter(None, names + named), b"")
            told = f": {name.decode('latin-1')[:80]!a}" if name else ""
            raise InputError(f"its parts, or documents, lie in other files{told}; export it as one file")
        found += names
    return [f"{name.decode('latin-1')[:80]!a}" for name in found[:3]]


def _check_names(code: bytes) -> None:
    """Raises InputError for a reference to a missing entity: the entity with the reference would be lost."""
    there = np.unique(np.fromiter((int(match[1]) for match in _ENTITIES.finditer(code)), np.int64))
    named = np.unique(np.fromiter((int(match[1]) for match in _NAMES.finditer(code)), np.int64))
    lost = np.setdiff1d(named, there, assume_unique=True)
    if len(lost):
        raise InputError(f"names #{lost[0]}, which is not there: the file is damaged")


def _check_operators(code: bytes) -> None:
    """Raises InputError for a part placed by an operator with scaling, mirroring, or missing axes."""
    operators = list(_OPERATORS.finditer(code))
    axes = {match[1]: _numbers(match[2]) for match in (_DIRECTIONS.finditer(code) if operators else ())}
    for match in operators:
        given = [axes[name] for name in _NAMES.findall(match[2]) if name in axes]
        right = not given or (
            len(given) == 3 and all(len(axis) == 3 for axis in given) and np.linalg.det(np.array(given)) > 0
        )
        if not right or any(scale != 1.0 for scale in _numbers(match[2])):
            name = match[1].decode()
            raise InputError(f"#{name} scales or mirrors a part, which Open CASCADE does wrongly; export it anew")


def _numbers(code: bytes) -> list[float]:
    """Numbers in an argument list."""
    return [float(number) for number in _NUMBERS.findall(code)]


def _assemblies(code: bytes) -> tuple[Edges, Edges]:
    """Components of products, and of representations."""
    products: Edges = {}
    shapes: Edges = {}
    for match in _ENTITIES.finditer(code):
        name, body = match.groups()
        if not any(word in body for word in (b"REPRESENTATION", b"MAPPED_ITEM", USE)) or b"ION_CONTEXT" in body:
            continue
        named = _NAMES.findall(body)
        if USE in body or b"REPRESENTATION_RELATIONSHIP" in body:
            whole, part = (named[:1], named[1:2]) if USE in body else (named[1:2], named[:1])
            (products if USE in body else shapes).setdefault(b"".join(whole), []).extend(part)
        else:  # a representation, its items, and mapped representations
            shapes.setdefault(name, []).extend(named)
    return products, {name: [each for each in below if each in shapes] for name, below in shapes.items()}


def _copies(edges: Edges) -> int:
    """Maximum leaf count below any node, with each leaf counted once per path."""
    counts: dict[bytes, int] = {}
    begun: set[bytes] = set()
    for start in edges:
        waiting = [start]
        while waiting:
            name = waiting[-1]
            if name not in begun:  # descendants first
                begun.add(name)
                waiting.extend(set(edges.get(name, ())) - begun)
            elif name not in counts:
                counts[waiting.pop()] = max(1, sum(counts.get(each, 0) for each in edges.get(name, ())))
            else:
                waiting.pop()
    return max(counts.values(), default=0)
