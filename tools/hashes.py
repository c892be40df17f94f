"""Pins the bits of fields: `python tools/hashes.py` rewrites tests/hashes.csv with the installed sdfcli.

A row has a field's leaf count, the hash of its arrays, and its content hash, which a change of the file format changes,
too, for a sample mesh or a generated solid and each octree.
`tests/test_hashes.py` rebuilds the fields. Changes of the table need a line in CHANGELOG.md.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sdfcli

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "hashes.csv"
SAMPLES = ("bracket.stl", "bunny.ply", "metaballs.ply", "scan.ply", "shells.ply", "torus.obj")
SOLIDS = (1, 2, 3)
"""Seeds of random solids with damaged surfaces (tests/solids.py)."""
TOLERANCE = 4e-3


class Row(NamedTuple):
    """A field's row. tolerance: fraction of the diagonal."""

    mesh: str
    octree: str
    tolerance: float
    leaves: int = 0
    arrays_sha256: str = ""
    content_sha256: str = ""


def wanted() -> Iterator[Row]:
    """Rows without build results: each mesh by both octrees, and the README's example with its tolerance."""
    for mesh in (*SAMPLES, *(f"solid {seed}" for seed in SOLIDS)):
        for octree in ("adaptive", "bvh"):
            yield Row(mesh, octree, TOLERANCE)
    yield Row("bunny.ply", "adaptive", 1e-3)


def built(row: Row, device: str = "cpu") -> Row:
    """The row with its build results."""
    field = sdfcli.build(_source(row.mesh), octree=row.octree, tolerance=row.tolerance, device=device)
    return row._replace(leaves=field.leaves, arrays_sha256=arrays_sha256(field), content_sha256=field.content_sha256)


def arrays_sha256(field: sdfcli.Field) -> str:
    """SHA-256 of a field's domain and arrays."""
    digest = hashlib.sha256(np.array([*field.domain.origin, field.domain.length]).tobytes())
    for array in (field.leaf_key, field.leaf_level, field.corner_key, field.distance):
        digest.update(array.tobytes())
    return digest.hexdigest()


def known() -> list[Row]:
    """The table's rows."""
    with TABLE.open(newline="") as table:
        rows = list(csv.DictReader(table))
    return [Row(**{**row, "tolerance": float(row["tolerance"]), "leaves": int(row["leaves"])}) for row in rows]


def _source(mesh: str) -> Any:
    if not mesh.startswith("solid"):
        return ROOT / "sample_meshes" / mesh
    sys.path.append(str(ROOT / "tests"))
    import solids

    return solids.lattice_solid(np.random.default_rng(int(mesh.split()[1]))).shape


if __name__ == "__main__":
    with TABLE.open("w", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(map(built, wanted()))
