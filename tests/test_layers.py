"""Folders are layers: imports point downwards only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import sdfcli
from conftest import ROOT

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
    "vdb",
    "field",
    "query",
    "torch jax warp mujoco",
    "quality",
    "extract",
    "solid",
    "export pictures",
    "pipeline",
    "sequence",
    "batch",
    "cook",
    "cli",
    "apps/flow",
    "apps/bench",
]
ENTRIES = {"__init__", "__main__", "_version", "start"}
METHODS = {(name, above) for name in ("field/field.py", "quality/walls.py") for above in ("export", "pictures")}
METHODS |= {(name, "solid") for name in ("quality/check.py", "quality/verification.py")}
"""Methods of Field and Thickness that call layers above, for files and pictures. They import them when called."""
APPS = "apps"
"""What is above the core; each of its folders is a layer."""


def home_of(parts: Sequence[str]) -> str:
    """The folder, or the file beside the folders, of a module: parts of its name, without the package's."""
    return "/".join(parts[: 2 if parts[0] == APPS else 1])


def sources() -> Iterator[tuple[Path, str]]:
    """All files of the package, each with its folder."""
    for path in PACKAGE.rglob("*.py"):
        home = home_of(path.relative_to(PACKAGE).with_suffix("").parts)
        if home != f"{APPS}/__init__":
            yield path, home


def layer_of(folder: str) -> int:
    return next(level for level, names in enumerate(LAYERS) if folder in names.split())


def imported(tree: ast.AST) -> Iterator[str]:
    """The folders of the package that a module imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{each.name}" for each in node.names]
        else:
            continue
        for module in modules:
            if module.startswith("sdfcli.") and module != "sdfcli.__version__":
                yield home_of(module.split(".")[1:])


def test_imports_point_downwards() -> None:
    """So the core, all that is below `cli`, imports nothing of apps."""
    found = 0
    for path, folder in sources():
        if folder in ENTRIES:
            continue
        for other in imported(ast.parse(path.read_text())):
            found += 1
            if (path.relative_to(PACKAGE).as_posix(), other) in METHODS:
                continue
            assert other == folder or layer_of(other) < layer_of(folder), (path, other)
    assert found > 50


def test_the_core_names_apps_in_tables_alone() -> None:
    names = {
        path.relative_to(PACKAGE).as_posix()
        for path, home in sources()
        if not home.startswith(APPS) and "sdfcli.apps" in path.read_text()
    }
    assert names == {"__init__.py", "cli/registry.py"}


WITHOUT_APPS = """
import sys

sys.modules["sdfcli.apps"] = None  # importing it fails
sys.argv[0] = "sdfcli"
from sdfcli.__main__ import main

main()
"""


def test_the_core_runs_without_apps(tmp_path: Path) -> None:
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_APPS, *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    build = ("build", ROOT / "sample_meshes" / "torus.obj", "--depth", 3, "--device", "cpu", "-q")
    for words in (["--help"], build, ["info", "torus.h5"]):
        done = run(*words)
        assert (done.returncode, done.stderr) == (0, "")
    assert run("flow", "--case", "dam-break", "-o", "dam.vtkhdf").returncode == 1


def test_every_folder_is_a_layer() -> None:
    folders = {folder for _, folder in sources()}
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
            {"spatial", "apps/bench"},
        ),  # which query it is, but for tables that compare them
    ],
)
def test_kinds_are_asked_for_in_one_place(words: str, homes: set[str]) -> None:
    users = {folder for path, folder in sources() if re.search(words, path.read_text())}
    assert users <= homes
