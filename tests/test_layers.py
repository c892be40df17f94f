"""Folders are layers: imports point downwards only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sdfcli

PACKAGE = Path(sdfcli.__file__).parent
LAYERS = [
    "errors",
    "params",
    "startup",
    "runtime",
    "backend",
    "mesh",
    "spatial",
    "sign",
    "scene",
    "octree",
    "field",
    "query particles",
    "verify",
    "particles",
    "extract",
    "export pictures",
    "pipeline",
    "sequence",
    "batch bench",
    "cli",
]
ENTRIES = {"__init__", "__main__", "_version", "start"}


def layer_of(folder: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if folder in names.split())


def imported(tree: ast.AST) -> Iterator[str]:
    """The folders of the package that a module imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
            if node.module == "sdfcli":
                modules = [f"sdfcli.{each.name}" for each in node.names]
        else:
            continue
        for module in modules:
            if module.startswith("sdfcli.") and module != "sdfcli.__version__":
                yield module.split(".")[1]


def test_imports_point_downwards() -> None:
    found = 0
    for path in PACKAGE.rglob("*.py"):
        folder = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if folder in ENTRIES:
            continue
        for other in imported(ast.parse(path.read_text())):
            found += 1
            assert other == folder or layer_of(other) < layer_of(folder), (path, other)
    assert found > 50


def test_every_folder_is_a_layer() -> None:
    folders = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in PACKAGE.rglob("*.py")}
    assert folders - ENTRIES == set(" ".join(LAYERS).split())


def test_cupy_is_imported_in_one_place() -> None:
    users = [path.name for path in PACKAGE.rglob("*.py") if "import cupy" in path.read_text()]
    assert users == ["cupy.py"]


@pytest.mark.parametrize(
    ("words", "homes"),
    [
        (r"\.warps\b", {"backend", "spatial"}),  # which device it is
        (r"isinstance\(.*Signer", set()),  # which signer it is
        (
            r"[!=]= \"(fast|baseline|soa|cct)\"",
            {"spatial", "bench"},
        ),  # which query it is, but for tables that compare them
    ],
)
def test_kinds_are_asked_for_in_one_place(words: str, homes: set[str]) -> None:
    users = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if re.search(words, path.read_text())}
    assert users <= homes
