"""3MF writer: one object in a zip archive of XML."""

from __future__ import annotations

import zipfile
from pathlib import Path

from sdfcli.mesh.arrays import Faces, Floats
from sdfcli.mesh.formats.threemf import CORE, MODEL, UNITS

TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
NAMES = {unit: name for name, unit in UNITS.items()}
"""The format's names for params.UNITS."""
ROWS = 1 << 16
"""Rows of text per batch."""
TIME = (1980, 1, 1, 0, 0, 0)
"""The archive's time stamps, so that equal meshes give equal files."""


def write_3mf(path: Path, vertices: Floats, faces: Faces, unit: str | None) -> None:
    """Writes a mesh. unit: one of params.UNITS; None: the format's default, mm."""
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    parts = {
        "[Content_Types].xml": f'{head}<Types xmlns="{TYPES}"><Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/><Default Extension="model" ContentType="application/'
        'vnd.ms-package.3dmanufacturing-3dmodel+xml"/></Types>',
        "_rels/.rels": f'{head}<Relationships xmlns="{RELATIONS}"><Relationship Target="/3D/3dmodel.model" Id="rel0" '
        f'Type="{MODEL}"/></Relationships>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, text in parts.items():
            archive.writestr(_entry(name), text)
        with archive.open(_entry("3D/3dmodel.model"), "w", force_zip64=True) as model:
            name = NAMES[unit or "mm"]
            model.write(f'{head}<model unit="{name}" xml:lang="en-US" xmlns="{CORE}"><resources>'.encode())
            model.write(b'<object id="1" type="model"><mesh><vertices>\n')
            for start in range(0, len(vertices), ROWS):
                rows = vertices[start : start + ROWS].tolist()
                model.write("".join(f'<vertex x="{x!r}" y="{y!r}" z="{z!r}"/>\n' for x, y, z in rows).encode())
            model.write(b"</vertices><triangles>\n")
            for start in range(0, len(faces), ROWS):
                found = faces[start : start + ROWS].tolist()
                model.write("".join(f'<triangle v1="{a}" v2="{b}" v3="{c}"/>\n' for a, b, c in found).encode())
            model.write(b"</triangles></mesh></object></resources>")
            model.write(b'<build><item objectid="1"/></build></model>\n')


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
