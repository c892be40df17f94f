"""Dependencies between modules point downwards only."""

from __future__ import annotations

import ast
from pathlib import Path

import sdfcli

PACKAGE = Path(sdfcli.__file__).parent
LAYERS = [
    {"errors", "interrupts", "driver", "chunks", "processes", "start", "memory", "signature"},
    {"outputs"},
    {"backend", "params"},
    {"polygons", "timing", "exact", "schema"},
    {"text"},
    {"ply", "readers", "scenes"},
    {"mesh", "points"},
    {"repair"},
    {"stages"},
    {"field"},
    {"hdf5"},
    {"store", "accuracy", "index", "previous", "extract"},
    {"thickness"},
    {"check", "estimate", "pictures", "export"},
    {"pipeline"},
    {"bench", "batch"},
    {"cli"},
]
UPWARDS_WHEN_NEEDED = {("field", "store")}  # Field.save


def layer_of(module: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if module in names)


def test_imports_point_downwards() -> None:
    found = 0
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if module in ("__init__", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("sdfcli."):
                continue
            other = (node.module or "").split(".")[1]
            found += 1
            assert other == module or layer_of(other) <= layer_of(module) or (module, other) in UPWARDS_WHEN_NEEDED, (
                path
            )
    assert found > 50


def test_cupy_is_imported_in_one_place() -> None:
    users = [path.name for path in PACKAGE.rglob("*.py") if "import cupy" in path.read_text()]
    assert users == ["cuda.py"]
